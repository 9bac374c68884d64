"""Kernel that copies segments into a padded batch, and fills the gaps."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.simd.byte_moves import copy
from lodcli.kernels.simd.nontemporal_stores import append, begin, finish


@kernel()
def pad(
    at: int, size: int, offsets: Pointer[np.int64], steps: int, fill: int, fill_size: int, to: int,
    width: int, segments: int, piece_rows: int, streamed: bool, first: int, last: int,
) -> int:  # fmt: skip
    """Write every segment into `steps` rows of `width` bytes, padded from `fill`.

    Args:
        at, size: the rows of the segments.
        fill, fill_size: copies of the fill row.
    """
    total = segments * steps
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        stop, s = to + stop_row * width, row // steps
        line, held, full = begin(to + row * width)
        while row < stop_row:
            t = row - s * steps
            n = min(offsets[s + 1] - offsets[s], steps)
            here, left = to + row * width, (min(s * steps + steps, stop_row) - row) * width
            source, end, here_size = at + (offsets[s] + t) * width, at + size, (n - t) * width
            while left > 0:
                if here_size <= 0:
                    source, end, here_size = fill, fill + fill_size, fill_size
                here_size = min(here_size, left)
                if streamed:
                    start = end - (fill_size if source == fill else size)
                    line, held, full = append(line, held, full, stop, source, start, end, here_size)
                else:
                    copy(here, stop, source, end, here_size)
                here += here_size
                left -= here_size
                here_size = 0
            s += 1
            row = s * steps
        if streamed:
            finish(line, held, full)
    return 0
