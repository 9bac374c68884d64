"""Gathers rows, and ranges of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.runtime.dispatch import on

# Below this size, dispatching takes longer than NumPy takes to copy the rows.
DISPATCHED_BYTES = 1 << 12


class RowRanges(NamedTuple):
    """Ranges of rows.

    Attributes:
        starts: (K,), the first row of each.
        bounds: (K+1,), offsets of the ranges in the concatenation of their rows.
    """

    starts: Offsets
    bounds: Offsets

    def numbers(self) -> Offsets:
        """Return the numbers of all rows."""
        return ranges(self.starts, self.bounds)


def rows_of_ranges(data: Array, starts: Offsets, bounds: Offsets) -> Array:
    """Return the result of `segment_rows`; by compiled code if that is faster."""
    size = bounds.item(-1) * data.strides[0]
    if type(data) is np.ndarray:
        if not data.flags.c_contiguous:
            # The kernels that copy ranges would first copy all of the strided data.
            found: Array = data[ranges(starts, bounds)]
            return found
        if size < DISPATCHED_BYTES:
            return numbered_rows(data, ranges(starts, bounds))
    # Not by row numbers: they may take more memory than the rows, and copying them to a GPU
    # costs as much as copying the rows.
    return on("auto", segment_rows, size_bytes=size)(data, starts, bounds)


def rows_at(data: Array, places: Offsets) -> Array:
    """Return the result of `numbered_rows`; by compiled code if that is faster."""
    size = places.size * data.strides[0]
    if size < DISPATCHED_BYTES or not data.flags.c_contiguous:
        return numbered_rows(data, places)
    return on("auto", numbered_rows, size_bytes=size)(data, places)


def numbered_rows(data: Array, places: Offsets) -> Array:
    """Return the rows with these numbers, (K,) int64, which must be in range."""
    # Several times faster than data[places].
    return data.take(places, 0, None, "clip") if len(data) else data[places]


def segment_rows(data: Array, starts: Offsets, offsets: Offsets) -> Array:
    """Return offsets[s+1] - offsets[s] rows from row starts[s] on as segment s; any order."""
    return numbered_rows(data, ranges(starts, offsets))
