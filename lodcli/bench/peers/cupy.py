"""CuPy, as users write segment ops: reduceat where available, ufunc.at, take, repeat."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np


def version() -> str:
    """Return the measured version."""
    return str(cupy.__version__)


def require_gpu() -> None:
    """Do nothing: lod has already checked that there is a GPU."""


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op with CuPy."""
    return _OPS[op](inputs) if op in _OPS else {}


def _host(rows: Any) -> list[Any]:
    return [cupy.asnumpy(rows)]


def _ids(inputs: dict[str, Any]) -> Any:
    counts = np.diff(inputs["offsets"])
    return cupy.asarray(np.repeat(np.arange(counts.size), counts))


def _sum(inputs: dict[str, Any], mean: bool = False) -> dict[str, Any]:
    x, offsets, full = inputs["data"], inputs["offsets"], inputs["full"]
    starts, ids = cupy.asarray(offsets[:-1][full]), _ids(inputs)
    # Divisors; 1 for empty segments.
    counts = cupy.asarray(np.maximum(np.diff(offsets), 1).astype(x.dtype)[:, None])
    of_full = cupy.asarray(np.maximum(np.diff(offsets)[full], 1).astype(x.dtype)[:, None])
    target = cupy.zeros((full.size, x.shape[1]), x.dtype)

    def fresh() -> Any:
        rows = cupy.add.reduceat(x, starts, axis=0)
        return rows / of_full if mean else rows

    def into() -> Any:
        target.fill(0)
        cupy.add.at(target, ids, x)
        return cupy.divide(target, counts, out=target) if mean else target

    return {
        "add.reduceat": (fresh, _host),
        "add.at out=": (into, lambda rows: [cupy.asnumpy(rows)[full]]),
    }


def _extreme(inputs: dict[str, Any], name: str, worst: float) -> dict[str, Any]:
    x, full, ids = inputs["data"], inputs["full"], _ids(inputs)
    target = cupy.zeros((full.size, x.shape[1]), x.dtype)

    def into() -> Any:
        target.fill(worst)
        getattr(cupy, name).at(target, ids, x)
        return target

    return {f"{name}.at out=": (into, lambda rows: [cupy.asnumpy(rows)[full]])}


def _softmax(inputs: dict[str, Any], log: bool = False) -> dict[str, Any]:
    x, full, ids = inputs["data"], inputs["full"], _ids(inputs)

    def call() -> Any:
        greatest = cupy.full((full.size, x.shape[1]), -np.inf, x.dtype)
        cupy.maximum.at(greatest, ids, x)
        shifted = x - greatest[ids]
        powers = cupy.exp(shifted)
        totals = cupy.zeros((full.size, x.shape[1]), x.dtype)
        cupy.add.at(totals, ids, powers)
        return shifted - cupy.log(totals)[ids] if log else powers / totals[ids]

    return {"composed": (call, _host)}


def _taken(inputs: dict[str, Any], x: Any, keep: Any = None) -> dict[str, Any]:
    """Return the implementations of x[rows], with and without a preallocated array."""
    rows = cupy.asarray(inputs["rows"])
    target = cupy.zeros((rows.size, x.shape[1]), x.dtype)

    def arrays(found: Any) -> list[Any]:
        host = cupy.asnumpy(found)
        return [host if keep is None else host[keep]]

    return {
        "take": (lambda: cupy.take(x, rows, axis=0), arrays),
        "take out=": (lambda: cupy.take(x, rows, axis=0, out=target), arrays),
    }


def _picked(inputs: dict[str, Any]) -> dict[str, Any]:
    return _taken(inputs, inputs["data"], inputs["full"])


def _moved(inputs: dict[str, Any]) -> dict[str, Any]:
    return _taken(inputs, inputs["data"])


def _concat(inputs: dict[str, Any]) -> dict[str, Any]:
    x, other, rows = inputs["data"], inputs["other"], cupy.asarray(inputs["rows"])
    call = lambda: cupy.take(cupy.concatenate([x, other]), rows, axis=0)  # noqa: E731
    return {"concatenate, take": (call, _host)}


def _pad(inputs: dict[str, Any]) -> dict[str, Any]:
    x, kept, maxlen = inputs["data"], inputs["kept"], inputs["maxlen"]
    offsets = inputs["offsets"]
    place = np.arange(len(x)) - np.repeat(offsets[:-1], np.diff(offsets))
    inside = place < maxlen
    rows = x if inside.all() else x[cupy.asarray(np.flatnonzero(inside))]
    where = cupy.asarray(np.flatnonzero(np.arange(maxlen) < kept[:, None]))
    target = cupy.zeros((kept.size * maxlen, x.shape[1]), x.dtype)

    def into() -> Any:
        target.fill(0)
        target[where] = rows
        return target.reshape(kept.size, maxlen, x.shape[1])

    return {"mask out=": (into, _host)}


def _unpad(inputs: dict[str, Any]) -> dict[str, Any]:
    return _taken(inputs, inputs["box"].reshape(-1, inputs["box"].shape[2]))


_OPS = {
    "sum": _sum,
    "mean": lambda inputs: _sum(inputs, mean=True),
    "max": lambda inputs: _extreme(inputs, "maximum", -np.inf),
    "min": lambda inputs: _extreme(inputs, "minimum", np.inf),
    "softmax": _softmax,
    "log_softmax": lambda inputs: _softmax(inputs, log=True),
    "pad": _pad,
    "unpad": _unpad,
    "expand": lambda inputs: _taken(inputs, inputs["values"]),
    "concat": _concat,
    "reverse": _moved,
    "first": _picked,
    "last": _picked,
    "slice": _moved,
}
