"""Kernels that copy the windows of images into rows, and add them up again."""

from __future__ import annotations

from typing import Any, NamedTuple

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
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


@kernel(types=FLOATS)
def windows_back(rows: Pointer[T], out: Pointer[T], of: Windows, first: int, last: int) -> int:
    """Add the rows of all windows to the values that they were copied from.

    Args:
        out: zeros, (N, channels, height, width).
    """
    plane = of.height * of.width
    place = of.kernel_height * of.kernel_width
    for picture in range(first, last):
        # From the last to the first: what is added to a value then comes from rising places in the
        # windows, as the reference adds.
        for window in range(of.down * of.right - 1, -1, -1):
            top = window // of.right * of.stride_down - of.pad_top
            left = window % of.right * of.stride_right - of.pad_left
            low, high = max(0, -left), min(of.kernel_width, of.width - left)
            number = picture * of.down * of.right + window
            for channel in range(of.channels):
                row = rows + (number * of.channels + channel) * place
                to = out + (picture * of.channels + channel) * plane
                for i in range(max(0, -top), min(of.kernel_height, of.height - top)):
                    line, given = to + (top + i) * of.width + left, row + i * of.kernel_width
                    for j in range(low, high):
                        line[j] += given[j]
    return 0
