"""Kernel that copies the windows of images into rows."""

from __future__ import annotations

from typing import Any, NamedTuple

from lodcli.kernels.native.declare import Pointer, T, kernel
from lodcli.kernels.native.language_numba import function


class Windows(NamedTuple):
    """Pictures (N, channels, height, width), and `down` times `right` windows of each."""

    channels: int
    height: int
    width: int
    down: int
    right: int
    kernel_height: int
    kernel_width: int
    stride_down: int
    stride_right: int
    pad_top: int
    pad_left: int


# Words of their bytes: a version for each size, not for each dtype.
@kernel(types=("uint8", "uint16", "uint32", "uint64", "complex128"))
def windows(
    images: Pointer[T], out: Pointer[T], zero: type[T], of: Windows, rows: int, piece_rows: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Write a row for each window, channel by channel; zeros where it leaves the picture."""
    row_words = of.channels * of.kernel_height * of.kernel_width
    row, stop = first * piece_rows, min(last * piece_rows, rows)
    while row < stop:
        picture, window = row // (of.down * of.right), row % (of.down * of.right)
        below, beside = window // of.right, window % of.right
        # Windows beside each other: divisions for each of them take longer than a small one.
        count = min(of.right - beside, stop - row)
        top = below * of.stride_down - of.pad_top
        left = beside * of.stride_right - of.pad_left
        to = out + row * row_words
        for channel in range(of.channels):
            plane = (picture * of.channels + channel) * of.height
            for i in range(top, top + of.kernel_height):
                # No line above or below a picture, of which nothing is read.
                inside = 0 <= i < of.height
                line, width = images + (plane + i if inside else 0) * of.width, of.width * inside
                if count >= of.kernel_width:
                    for j in range(of.kernel_width):
                        _copy(
                            line, width, left + j, of.stride_right, to + j, row_words, count, zero
                        )
                else:
                    for n in range(count):
                        start = left + n * of.stride_right
                        _copy(line, width, start, 1, to + n * row_words, 1, of.kernel_width, zero)
                to = to + of.kernel_width
        row += count
    return 0


@function()
def _copy(
    line: Any, width: int, start: int, step: int, to: Any, to_step: int, count: int, zero: Any
) -> None:
    """Copy every `step`-th element of a line from `start` on; zeros where there are none."""
    begin, end = 0, count
    while begin < count and start + begin * step < 0:
        to[begin * to_step] = zero(0)
        begin += 1
    while end > begin and start + (end - 1) * step >= width:
        end -= 1
        to[end * to_step] = zero(0)
    for n in range(begin, end):
        to[n * to_step] = line[start + n * step]
