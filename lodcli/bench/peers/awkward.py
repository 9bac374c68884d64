"""Awkward Array: lists over one buffer, reduced and sliced by level."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np


def version() -> str:
    """Return the measured version."""
    return str(ak.__version__)


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op with Awkward."""
    return _OPS[op](inputs) if op in _OPS else {}


def _lists(data: Any, offsets: Any) -> Any:
    values = data.reshape(-1) if data.shape[1] == 1 else data
    return ak.Array(
        ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(values))
    )


def _array(inputs: dict[str, Any]) -> Any:
    return _lists(inputs["data"], inputs["offsets"])


def _reduced(inputs: dict[str, Any], reduce: Any) -> dict[str, Any]:
    array, full = _array(inputs), inputs["full"]

    def call() -> Any:
        with np.errstate(invalid="ignore"):  # the mean of no rows
            return reduce(array, axis=1, mask_identity=False)

    def arrays(found: Any) -> list[Any]:
        rows = ak.to_numpy(ak.fill_none(found, 0)).astype(np.float32)
        return [rows.reshape(full.size, -1)[full]]

    return {reduce.__name__: (call, arrays)}


def _max_index(inputs: dict[str, Any]) -> dict[str, Any]:
    if inputs["data"].shape[1] > 1:
        return {}
    array, full = _array(inputs), inputs["full"]

    def arrays(found: Any) -> list[Any]:
        values, places = (ak.to_numpy(ak.fill_none(part, 0))[full] for part in found)
        rows = (inputs["offsets"][:-1][full] + places)[:, None]
        picked = np.take_along_axis(inputs["data"], rows, axis=0)
        return [values.astype(np.float32)[:, None], picked]

    return {"max, argmax": (lambda: (ak.max(array, axis=1), ak.argmax(array, axis=1)), arrays)}


def _flat(inputs: dict[str, Any], call: Any) -> Any:
    """Return the function that concatenates the lists of a result."""

    def arrays(found: Any) -> list[Any]:
        rows = ak.to_numpy(ak.flatten(found, axis=1))
        return [rows.reshape(len(rows), inputs["data"].shape[1]).astype(np.float32)]

    return call, arrays


def _softmax(inputs: dict[str, Any]) -> dict[str, Any]:
    array = _array(inputs)
    if inputs["data"].shape[1] > 1:
        return {}
    return {"softmax": _flat(inputs, lambda: ak.softmax(array, axis=1))}


def _reverse(inputs: dict[str, Any]) -> dict[str, Any]:
    array = _array(inputs)
    return {"[:, ::-1]": _flat(inputs, lambda: ak.to_packed(array[:, ::-1]))}


def _picked(inputs: dict[str, Any], last: bool) -> dict[str, Any]:
    array, full = _array(inputs), inputs["full"]

    def arrays(found: Any) -> list[Any]:
        rows = ak.to_numpy(ak.drop_none(found, axis=0))
        return [rows.reshape(int(full.sum()), -1)]

    def call() -> Any:
        # Packed, as the results of all other candidates: ak.firsts alone returns row numbers.
        return ak.to_packed(ak.firsts(array[:, ::-1] if last else array, axis=1))

    return {"firsts": (call, arrays)}


def _concat(inputs: dict[str, Any]) -> dict[str, Any]:
    array, other = _array(inputs), _lists(inputs["other"], inputs["other_offsets"])
    return {"concatenate": _flat(inputs, lambda: ak.concatenate([array, other], axis=1))}


def _pad(inputs: dict[str, Any]) -> dict[str, Any]:
    if inputs["data"].shape[1] > 1:
        return {}
    array, maxlen = _array(inputs), inputs["maxlen"]

    def call() -> Any:
        padded = ak.pad_none(array, maxlen, axis=1, clip=True)
        return ak.to_numpy(ak.fill_none(padded, np.float32(0), axis=1))

    return {"pad_none": (call, lambda box: [np.asarray(box, np.float32)[..., None]])}


_OPS = {
    "sum": lambda inputs: _reduced(inputs, ak.sum),
    "mean": lambda inputs: _reduced(inputs, ak.mean),
    "max": lambda inputs: _reduced(inputs, ak.max),
    "min": lambda inputs: _reduced(inputs, ak.min),
    "max_index": _max_index,
    "softmax": _softmax,
    "reverse": _reverse,
    "first": lambda inputs: _picked(inputs, last=False),
    "last": lambda inputs: _picked(inputs, last=True),
    "concat": _concat,
    "pad": _pad,
}
