"""Row numbers that an op gathers, precomputed for peers that gather by row number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets

Inputs = dict[str, Any]


def _last(inputs: Inputs) -> Offsets:
    # For an empty sequence any row: it is not compared.
    ends: Offsets = inputs["offsets"][1:] - 1
    return ends.clip(0)


def _first(inputs: Inputs) -> Offsets:
    starts: Offsets = inputs["offsets"][:-1]
    return starts.clip(0, len(inputs["data"]) - 1)


def _reversed(inputs: Inputs) -> Offsets:
    offsets = inputs["offsets"]
    mirror = np.repeat(offsets[1:] + offsets[:-1] - 1, np.diff(offsets))
    return mirror - np.arange(mirror.size)


def _sliced(inputs: Inputs) -> Offsets:
    return _ranges(inputs["offsets"][:-1] + inputs["slice_starts"], inputs["slice_lengths"])


def _joined(inputs: Inputs) -> Offsets:
    """Return row numbers in the concatenation of both tensors."""
    first, second = inputs["offsets"], inputs["other_offsets"]
    rows = np.empty(int(first[-1] + second[-1]), np.int64)
    own, others = np.arange(first[-1]), np.arange(second[-1])
    rows[own + np.repeat(second[:-1], np.diff(first))] = own
    rows[others + np.repeat(first[1:], np.diff(second))] = first[-1] + others
    return rows


def _kept(inputs: Inputs) -> Offsets:
    """Return row numbers in the flattened padded batch."""
    return np.flatnonzero(np.arange(inputs["maxlen"]) < inputs["kept"][:, None])


def _expanded(inputs: Inputs) -> Offsets:
    counts = np.diff(inputs["offsets"])
    return np.repeat(np.arange(counts.size), counts)


def _by_length(inputs: Inputs) -> Offsets:
    return _rows_of(inputs, np.argsort(-np.diff(inputs["offsets"]), kind="stable"))


def _picked(inputs: Inputs) -> Offsets:
    return _rows_of(inputs, inputs["picks"])


def _rows_of(inputs: Inputs, sequences: Offsets) -> Offsets:
    """Return the rows of some sequences, one after another."""
    return _ranges(inputs["offsets"][sequences], np.diff(inputs["offsets"])[sequences])


def _ranges(starts: Offsets, counts: Offsets) -> Offsets:
    """Return the numbers from each start, as many as its count, one range after another."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


def _neighbours(inputs: Inputs) -> Offsets:
    """Return (N, 3) rows before, at and after each row; N, a row of zeros, out of its sequence."""
    offsets = inputs["offsets"]
    rows = int(offsets[-1])
    found = np.arange(rows)[:, None] + np.arange(-1, 2)
    full = offsets[:-1][np.diff(offsets) > 0]
    found[full, 0] = rows
    found[np.append(full[1:], rows)[: full.size] - 1, 2] = rows
    return found


_ROWS: dict[str, Callable[[Inputs], Offsets]] = {
    "first": _first,
    "last": _last,
    "reverse": _reversed,
    "slice": _sliced,
    "concat": _joined,
    "unpad": _kept,
    "expand": _expanded,
    "sort_by_length": _by_length,
    "pick": _picked,
    "conv": _neighbours,
}


def row_numbers(op: str, inputs: Inputs) -> Array:
    """Return the source row number of each row of an op's result, int64: in data, values or the
    flattened padded batch; for conv those of its neighbours."""
    return _ROWS[op](inputs)
