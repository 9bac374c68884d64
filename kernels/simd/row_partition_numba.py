"""Partitions rows and segments into pieces, by binary search in offsets."""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import function


@function()
def segment_at(offsets: Any, segments: int, row: int) -> int:
    """Return the segment that contains a row: the last that begins at or before it."""
    low, high = 0, segments
    while low < high:
        middle = (low + high + 1) >> 1
        if offsets[middle] <= row:
            low = middle
        else:
            high = middle - 1
    return low


@function()
def segments_of_piece(offsets: Any, segments: int, piece: int, pieces: int) -> Any:
    """Return the segments of one of `pieces` pieces of about equal numbers of rows."""
    total = offsets[segments]
    first = _first_at(offsets, segments, total * piece // pieces) if piece else 0
    last = segments
    if piece < pieces - 1:
        last = _first_at(offsets, segments, total * (piece + 1) // pieces)
    return first, last


@function()
def _first_at(offsets: Any, segments: int, row: int) -> int:
    """Return the first segment that begins at or after a row; `segments` if none does."""
    low, high = 0, segments
    while low < high:
        middle = (low + high) >> 1
        if offsets[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low
