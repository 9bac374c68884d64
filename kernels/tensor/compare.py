"""Comparison of two tensors: equality of bytes, and a description of the first difference."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of
from lodcli.kernels.runtime.arrays import is_on_device


def same_bytes(data: Array, other: Array) -> bool:
    """Return whether two arrays of one dtype and shape are byte for byte the same."""
    if is_on_device(data) or not data.size:
        return data.tobytes() == other.tobytes()
    one, two = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (data, other))
    whole = one.size // 8 * 8  # compared eight bytes at a time
    return (
        np.array_equal(one[:whole].view(np.uint64), two[:whole].view(np.uint64))
        and one[whole:].tobytes() == two[whole:].tobytes()
    )


def difference(
    data: Array, lod: LoD, other: Array, other_lod: LoD, rtol: float, atol: float
) -> str | None:
    """Return the first thing in which two tensors differ: dtype, index, shape, then values."""
    if data.dtype != other.dtype:
        return f"dtype {data.dtype} against {other.dtype}"
    found = lod.difference(other_lod)
    if found is not None:
        return found
    if lod.names != other_lod.names:
        return f"names of levels {list(lod.names)} against {list(other_lod.names)}"
    if data.shape != other.shape:
        return f"shape {data.shape} against {other.shape}"
    equal = data == other
    if data.dtype.kind in "fcV":
        equal |= (data != data) & (other != other)  # nan
        if rtol or atol:
            with np.errstate(all="ignore"):
                near = np.abs(data - other) <= atol + rtol * np.abs(other)
            equal |= near & np.isfinite(other)  # the tolerance of infinity is infinite
    elif rtol or atol:
        wide = np.abs(data.astype(np.float64) - other.astype(np.float64))
        equal |= wide <= atol + rtol * np.abs(other.astype(np.float64))
    flat = np.flatnonzero(~(equal.get() if is_on_device(equal) else equal))  # type: ignore[attr-defined]
    if not flat.size:
        return None
    row, *place = (int(axis) for axis in np.unravel_index(int(flat[0]), data.shape))
    branch = ",".join(map(str, branch_of(lod, lod.n_levels, row)))
    where = f"row {row}" + (f", item <{branch}>" if lod.n_levels else "")
    if place:
        where += f", value {tuple(place) if len(place) > 1 else place[0]}"
    at = (row, *place)
    more = f" ({flat.size} values differ)" if flat.size > 1 else ""
    values = (part.get() if is_on_device(part) else part for part in (data[at], other[at]))  # type: ignore[attr-defined]
    return f"{where}: {' against '.join(map(str, values))}{more}"
