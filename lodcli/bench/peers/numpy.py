"""NumPy, as users write segment ops: reduceat on segments with rows, take, repeat.

Loops use one thread, and the BLAS reads the environment when it is loaded.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def version() -> str:
    """Return the measured version."""
    return np.__version__


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op with NumPy."""
    return _OPS[op](inputs) if op in _OPS else {}


def _pooled(inputs: dict[str, Any], ufunc: Any, mean: bool = False) -> dict[str, Any]:
    x, offsets, full = inputs["data"], inputs["offsets"], inputs["full"]
    starts = offsets[:-1][full]
    counts = np.diff(offsets)[full].astype(x.dtype)[:, None]
    result = np.zeros((full.size, x.shape[1]), x.dtype)
    packed = np.zeros((starts.size, x.shape[1]), x.dtype)

    def fresh() -> Any:
        found = np.zeros((full.size, x.shape[1]), x.dtype)
        rows = ufunc.reduceat(x, starts, axis=0)
        found[full] = rows / counts if mean else rows
        return found

    def into() -> Any:
        ufunc.reduceat(x, starts, axis=0, out=packed)
        if mean:
            np.divide(packed, counts, out=packed)
        result[full] = packed
        return result

    ways = {
        "reduceat": (fresh, lambda rows: [rows[full]]),
        "reduceat out=": (into, lambda rows: [rows[full]]),
    }
    if x.shape[1] == 1 and ufunc is np.add:
        ids = np.repeat(np.arange(full.size), np.diff(offsets))
        flat = x.reshape(-1)

        def counted() -> Any:
            sums = np.bincount(ids, weights=flat, minlength=full.size)
            if mean:
                sums[full] /= counts[:, 0]
            return sums.astype(x.dtype)

        ways["bincount"] = (counted, lambda rows: [rows[full][:, None]])
    return ways


def _softmax(inputs: dict[str, Any], log: bool = False) -> dict[str, Any]:
    x, offsets, full = inputs["data"], inputs["offsets"], inputs["full"]
    starts, counts = offsets[:-1][full], np.diff(offsets)[full]

    def call() -> Any:
        shifted = x - np.repeat(np.maximum.reduceat(x, starts, axis=0), counts, axis=0)
        powers = np.exp(shifted)
        totals = np.repeat(np.add.reduceat(powers, starts, axis=0), counts, axis=0)
        return shifted - np.log(totals) if log else powers / totals

    return {"composed": (call, lambda rows: [rows])}


def _taken(inputs: dict[str, Any], x: Any, keep: Any = None) -> dict[str, Any]:
    """Return the implementations of x[rows], with and without a preallocated array."""
    rows = inputs["rows"]
    target = np.zeros((rows.size, x.shape[1]), x.dtype)

    def arrays(found: Any) -> list[Any]:
        return [found if keep is None else found[keep]]

    return {
        "take": (lambda: np.take(x, rows, axis=0), arrays),
        # With "clip", take writes to `out` directly, without a buffer.
        "take out=": (lambda: np.take(x, rows, axis=0, out=target, mode="clip"), arrays),
    }


def _picked(inputs: dict[str, Any]) -> dict[str, Any]:
    return _taken(inputs, inputs["data"], inputs["full"])


def _moved(inputs: dict[str, Any]) -> dict[str, Any]:
    return _taken(inputs, inputs["data"])


def _concat(inputs: dict[str, Any]) -> dict[str, Any]:
    rows, x, other = inputs["rows"], inputs["data"], inputs["other"]
    both = np.concatenate([x, other])
    target = np.zeros_like(both)

    def fresh() -> Any:
        return np.take(np.concatenate([x, other]), rows, axis=0)

    def into() -> Any:
        np.concatenate([x, other], out=both)
        return np.take(both, rows, axis=0, out=target, mode="clip")

    return {
        "concatenate, take": (fresh, lambda found: [found]),
        "concatenate, take out=": (into, lambda found: [found]),
    }


def _pad(inputs: dict[str, Any]) -> dict[str, Any]:
    x, kept, maxlen = inputs["data"], inputs["kept"], inputs["maxlen"]
    mask = np.arange(maxlen) < kept[:, None]
    counts = np.diff(inputs["offsets"])
    place = np.arange(len(x)) - np.repeat(inputs["offsets"][:-1], counts)
    inside = place < maxlen
    rows = x if inside.all() else np.ascontiguousarray(x[inside])
    target = np.zeros((kept.size, maxlen, x.shape[1]), x.dtype)

    def fresh() -> Any:
        box = np.zeros(target.shape, x.dtype)
        box[mask] = rows
        return box

    def into() -> Any:
        target.fill(0)
        target[mask] = rows
        return target

    return {"mask": (fresh, lambda box: [box]), "mask out=": (into, lambda box: [box])}


def _unpad(inputs: dict[str, Any]) -> dict[str, Any]:
    box, kept = inputs["box"], inputs["kept"]
    mask = np.arange(inputs["maxlen"]) < kept[:, None]
    flat = box.reshape(-1, box.shape[2])
    return {"mask": (lambda: box[mask], lambda found: [found]), **_taken(inputs, flat)}


def _expand(inputs: dict[str, Any]) -> dict[str, Any]:
    values, counts = inputs["values"], np.diff(inputs["offsets"])
    return {
        "repeat": (lambda: np.repeat(values, counts, axis=0), lambda rows: [rows]),
        **_taken(inputs, values),
    }


def _add(inputs: dict[str, Any]) -> dict[str, Any]:
    x, other = inputs["data"], inputs["addend"]
    target = np.zeros_like(x)
    return {
        "add": (lambda: x + other, lambda rows: [rows]),
        "add out=": (lambda: np.add(x, other, out=target), lambda rows: [rows]),
    }


def _shift(inputs: dict[str, Any]) -> dict[str, Any]:
    x, starts = inputs["data"], inputs["offsets"][:-1][inputs["full"]]
    target = np.zeros_like(x)

    def into(found: Any) -> Any:
        found[1:] = x[:-1]
        found[starts] = 0
        return found

    return {
        "copy": (lambda: into(np.empty_like(x)), lambda rows: [rows]),
        "copy out=": (lambda: into(target), lambda rows: [rows]),
    }


def _diff(inputs: dict[str, Any]) -> dict[str, Any]:
    x, starts = inputs["data"], inputs["offsets"][:-1][inputs["full"]]
    inside = np.ones(max(len(x) - 1, 0), np.bool_)
    inside[starts[1:] - 1] = False
    return {"diff, mask": (lambda: np.diff(x, axis=0)[inside], lambda rows: [rows])}


def _conv(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementation of the product of rows with their neighbours and the weights."""
    x, rows, weight = inputs["data"], inputs["rows"], inputs["weight"]
    padded = np.concatenate([x, np.zeros_like(x, shape=(1, x.shape[1]))])
    columns = np.zeros_like(x, shape=(*rows.shape, x.shape[1]))
    target = np.zeros_like(x, shape=(len(x), weight.shape[1]))

    def fresh() -> Any:
        taken = np.take(np.concatenate([x, padded[-1:]]), rows, axis=0)
        return taken.reshape(len(x), -1) @ weight

    def into() -> Any:
        padded[:-1] = x
        np.take(padded, rows, axis=0, out=columns, mode="clip")
        return np.matmul(columns.reshape(len(x), -1), weight, out=target)

    return {
        "im2col, matmul": (fresh, lambda found: [found]),
        "im2col, matmul out=": (into, lambda found: [found]),
    }


def _attention(inputs: dict[str, Any]) -> dict[str, Any]:
    x, offsets = inputs["data"], inputs["offsets"].tolist()
    scale = np.float32(1 / np.sqrt(x.shape[1]))

    def call() -> Any:
        found = np.empty_like(x)
        for start, stop in itertools.pairwise(offsets):
            if start == stop:
                continue
            scores = x[start:stop] @ x[start:stop].T * scale
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            found[start:stop] = powers / powers.sum(axis=1, keepdims=True) @ x[start:stop]
        return found

    return {"by sequence": (call, lambda rows: [rows])}


_OPS = {
    "attention": _attention,
    "sum": lambda inputs: _pooled(inputs, np.add),
    "mean": lambda inputs: _pooled(inputs, np.add, mean=True),
    "max": lambda inputs: _pooled(inputs, np.maximum),
    "min": lambda inputs: _pooled(inputs, np.minimum),
    "softmax": _softmax,
    "log_softmax": lambda inputs: _softmax(inputs, log=True),
    "pad": _pad,
    "unpad": _unpad,
    "expand": _expand,
    "concat": _concat,
    "reverse": _moved,
    "first": _picked,
    "last": _picked,
    "slice": _moved,
    "sort_by_length": _moved,
    "pick": _moved,
    "conv": _conv,
    "add": _add,
    "shift": _shift,
    "diff": _diff,
}
