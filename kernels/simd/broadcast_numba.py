"""Kernel that broadcasts one row of each segment to all its rows, or scatters it to one of them."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.simd.byte_moves import clear, copy_row, repeat
from lodcli.kernels.simd.nontemporal_stores import append, begin, finish
from lodcli.kernels.simd.row_partition_numba import segment_at

EVERY, FIRST, LAST = 0, 1, 2


@kernel()
def broadcast(
    at: int, size: int, offsets: Pointer[np.int64], kind: int, to: int, width: int, segments: int,
    piece_rows: int, streamed: bool, first: int, last: int,
) -> int:  # fmt: skip
    """Write row s at `at` to EVERY row of segment s, or to its FIRST or LAST row, with zeros
    elsewhere."""
    total, end = offsets[segments], at + size
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        s, stop = segment_at(offsets, segments, row), to + stop_row * width
        line, held, full = begin(to + row * width)
        while row < stop_row:
            after, here = min(offsets[s + 1], stop_row), to + row * width
            if streamed:
                for _ in range(row, after):
                    line, held, full = append(
                        line, held, full, stop, at + s * width, at, end, width
                    )
            elif kind == EVERY:
                repeat(here, stop, at + s * width, end, after - row, width)
            else:
                only = offsets[s] if kind == FIRST else offsets[s + 1] - 1
                clear(here, stop, (after - row) * width)
                if row <= only < after:
                    copy_row(to + only * width, to + (only + 1) * width, at + s * width, end, width)
            row = after
            s += 1
        if streamed:
            finish(line, held, full)
    return 0
