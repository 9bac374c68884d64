"""Plain loops over rows and values, compiled by numba, the sequences divided among threads."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange


def version() -> str:
    """Return the measured version."""
    return str(numba.__version__)


def threads(count: int) -> None:
    """Set the number of threads of numba."""
    numba.set_num_threads(count)


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return numba's implementations of an op: allocating, and to a preallocated array."""
    if op in _POOLED:
        return _pooled(op, inputs)
    if op == "max_index":
        return _max_index(inputs)
    if op == "pad":
        x, offsets, kept = inputs["data"], inputs["offsets"], inputs["kept"]
        box = len(kept), inputs["maxlen"], x.shape[1]
        return _ways(lambda out: _pad(x, offsets, kept, out), box, x.dtype)
    if op == "concat":
        x, other = inputs["data"], inputs["other"]
        offsets, others = inputs["offsets"], inputs["other_offsets"]
        shape = len(x) + len(other), x.shape[1]
        return _ways(lambda out: _concat(x, offsets, other, others, out), shape, x.dtype)
    if op == "add":
        x, addend = inputs["data"], inputs["addend"]
        return _ways(lambda out: _add(x, addend, out), x.shape, x.dtype)
    if op in ("softmax", "log_softmax"):
        loop, log = _softmax, op == "log_softmax"
        x, offsets = inputs["data"], inputs["offsets"]
        return _ways(lambda out: loop(x, offsets, log, out), x.shape, x.dtype)
    if op == "cumsum":
        x, offsets = inputs["data"], inputs["offsets"]
        return _ways(lambda out: _cumsum(x, offsets, out), x.shape, x.dtype)
    if op in ("reverse", "slice", "first", "last", "expand", "unpad", "sort_by_length", "pick"):
        return _copied(op, inputs)
    if op == "conv":
        x, offsets, weight = inputs["data"], inputs["offsets"], inputs["weight"]
        shape = len(x), weight.shape[1]
        return _ways(lambda out: _conv(x, offsets, weight, out), shape, x.dtype)
    return {}


def _ways(loop: Any, shape: Any, dtype: Any, keep: Any = None) -> dict[str, Any]:
    target = np.zeros(shape, dtype)

    def fresh() -> Any:
        out = np.empty(shape, dtype)
        loop(out)
        return out

    def into() -> Any:
        loop(target)
        return target

    def arrays(found: Any) -> list[Any]:
        return [found if keep is None else found[keep]]

    return {"loop": (fresh, arrays), "loop out=": (into, arrays)}


def _pooled(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    x, offsets, full = inputs["data"], inputs["offsets"], inputs["full"]
    loop = _POOLED[op]
    return _ways(lambda out: loop(x, offsets, out), (full.size, x.shape[1]), x.dtype, full)


def _max_index(inputs: dict[str, Any]) -> dict[str, Any]:
    x, offsets, full = inputs["data"], inputs["offsets"], inputs["full"]
    shape = full.size, x.shape[1]
    values, rows = np.zeros(shape, x.dtype), np.zeros(shape, np.int64)

    def fresh() -> Any:
        made = np.empty(shape, x.dtype), np.empty(shape, np.int64)
        _max_and_row(x, offsets, *made)
        return made

    def into() -> Any:
        _max_and_row(x, offsets, values, rows)
        return values, rows

    def arrays(found: Any) -> list[Any]:
        return [found[0][full], np.take_along_axis(x, found[1][full], axis=0)]

    return {"loop": (fresh, arrays), "loop out=": (into, arrays)}


def _copied(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    source = {"expand": "values", "unpad": "box"}.get(op, "data")
    x, rows = inputs[source], inputs["rows"]
    flat = x.reshape(-1, x.shape[-1])
    keep = inputs["full"] if op in ("first", "last") else None
    return _ways(lambda out: _take(flat, rows, out), (rows.size, flat.shape[1]), x.dtype, keep)


@njit(parallel=True)
def _sum(x: Any, offsets: Any, out: Any) -> None:
    for s in prange(len(out)):
        out[s] = 0
        for row in range(offsets[s], offsets[s + 1]):
            for column in range(x.shape[1]):
                out[s, column] += x[row, column]


@njit(parallel=True)
def _mean(x: Any, offsets: Any, out: Any) -> None:
    for s in prange(len(out)):
        out[s] = 0
        for row in range(offsets[s], offsets[s + 1]):
            for column in range(x.shape[1]):
                out[s, column] += x[row, column]
        count = max(1, offsets[s + 1] - offsets[s])
        for column in range(x.shape[1]):
            out[s, column] /= count


@njit(parallel=True)
def _max(x: Any, offsets: Any, out: Any) -> None:
    for s in prange(len(out)):
        out[s] = -np.inf
        for row in range(offsets[s], offsets[s + 1]):
            for column in range(x.shape[1]):
                if x[row, column] > out[s, column]:
                    out[s, column] = x[row, column]


@njit(parallel=True)
def _min(x: Any, offsets: Any, out: Any) -> None:
    for s in prange(len(out)):
        out[s] = np.inf
        for row in range(offsets[s], offsets[s + 1]):
            for column in range(x.shape[1]):
                if x[row, column] < out[s, column]:
                    out[s, column] = x[row, column]


@njit(parallel=True)
def _max_and_row(x: Any, offsets: Any, out: Any, rows: Any) -> None:
    for s in prange(len(out)):
        out[s] = -np.inf
        rows[s] = offsets[s]
        for row in range(offsets[s], offsets[s + 1]):
            for column in range(x.shape[1]):
                if x[row, column] > out[s, column]:
                    out[s, column] = x[row, column]
                    rows[s, column] = row


@njit(parallel=True)
def _softmax(x: Any, offsets: Any, log: bool, out: Any) -> None:
    for s in prange(len(offsets) - 1):
        first, end = offsets[s], offsets[s + 1]
        for column in range(x.shape[1] if end > first else 0):
            top = x[first, column]
            for row in range(first, end):
                top = max(top, x[row, column])
            total = x.dtype.type(0)
            for row in range(first, end):
                out[row, column] = np.exp(x[row, column] - top)
                total += out[row, column]
            for row in range(first, end):
                if log:
                    out[row, column] = x[row, column] - top - np.log(total)
                else:
                    out[row, column] /= total


@njit(parallel=True)
def _cumsum(x: Any, offsets: Any, out: Any) -> None:
    for s in prange(len(offsets) - 1):
        for row in range(offsets[s], offsets[s + 1]):
            for column in range(x.shape[1]):
                before = out[row - 1, column] if row > offsets[s] else x.dtype.type(0)
                out[row, column] = before + x[row, column]


@njit(parallel=True)
def _conv(x: Any, offsets: Any, weight: Any, out: Any) -> None:
    width = x.shape[1]
    for s in prange(len(offsets) - 1):
        first, end = offsets[s], offsets[s + 1]
        for row in range(first, end):
            out[row] = 0
            for near in range(max(first, row - 1), min(end, row + 2)):
                place = (near - row + 1) * width
                for column in range(width):
                    for made in range(out.shape[1]):
                        out[row, made] += x[near, column] * weight[place + column, made]


@njit(parallel=True)
def _take(x: Any, rows: Any, out: Any) -> None:
    for n in prange(len(rows)):
        for column in range(x.shape[1]):
            out[n, column] = x[rows[n], column]


@njit(parallel=True)
def _pad(x: Any, offsets: Any, kept: Any, out: Any) -> None:
    for s in prange(len(out)):
        for place in range(kept[s]):
            for column in range(x.shape[1]):
                out[s, place, column] = x[offsets[s] + place, column]
        out[s, kept[s] :] = 0


@njit(parallel=True)
def _concat(x: Any, offsets: Any, other: Any, others: Any, out: Any) -> None:
    for s in prange(len(offsets) - 1):
        made = offsets[s] + others[s]
        for row in range(offsets[s], offsets[s + 1]):
            for column in range(x.shape[1]):
                out[made, column] = x[row, column]
            made += 1
        for row in range(others[s], others[s + 1]):
            for column in range(x.shape[1]):
                out[made, column] = other[row, column]
            made += 1


@njit(parallel=True)
def _add(x: Any, addend: Any, out: Any) -> None:
    for row in prange(len(x)):
        for column in range(x.shape[1]):
            out[row, column] = x[row, column] + addend[row, column]


_POOLED = {"sum": _sum, "mean": _mean, "max": _max, "min": _min}
