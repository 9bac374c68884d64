"""Gathers rows, and ranges of them one after another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.runtime.dispatch import on

# Fewer take longer to be dispatched than NumPy takes to copy them.
DISPATCHED_BYTES = 1 << 12


class RowRanges(NamedTuple):
    """Ranges of rows.

    Attributes:
        starts: (K,), the first row of each.
        bounds: (K+1,), offsets of their rows side by side.
    """

    starts: Offsets
    bounds: Offsets

    def numbers(self) -> Offsets:
        """Return the numbers of all rows."""
        return ranges(self.starts, self.bounds)


def rows_of_ranges(data: Array, starts: Offsets, bounds: Offsets) -> Array:
    """Return what `segment_rows` does, by compiled code where that is faster."""
    size = bounds.item(-1) * data.strides[0]
    if type(data) is np.ndarray:
        if not data.flags.c_contiguous:
            # What copies ranges of rows first copies all of strided data.
            found: Array = data[ranges(starts, bounds)]
            return found
        if size < DISPATCHED_BYTES:
            return numbered_rows(data, ranges(starts, bounds))
    # Not row by row: the index of all rows may be larger than they are, and its copy to a GPU
    # costs as much as that of rows.
    return on("auto", segment_rows, size_bytes=size)(data, starts, bounds)


def rows_at(data: Array, places: Offsets) -> Array:
    """Return what `numbered_rows` does, by compiled code where that is faster."""
    size = places.size * data.strides[0]
    if size < DISPATCHED_BYTES or not data.flags.c_contiguous:
        return numbered_rows(data, places)
    return on("auto", numbered_rows, size_bytes=size)(data, places)


def numbered_rows(data: Array, places: Offsets) -> Array:
    """Return the rows of these numbers, (K,) int64, which are known to be there."""
    # Several times faster than data[places].
    return data.take(places, 0, None, "clip") if len(data) else data[places]


def segment_rows(data: Array, starts: Offsets, offsets: Offsets) -> Array:
    """Return rows starts[s] and on as segment s, in any order: offsets (S+1,) say how many."""
    return numbered_rows(data, ranges(starts, offsets))
