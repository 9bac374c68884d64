"""Kernels that copy the windows of images into rows, and add rows back."""

from __future__ import annotations

from typing import Any, NamedTuple

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function


class Windows(NamedTuple):
    """Images (N, channels, height, width), with `down` times `right` windows each."""

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


# Reinterpreted as unsigned words: one version per item size, not per dtype.
@kernel(types=("uint8", "uint16", "uint32", "uint64", "complex128"))
def windows(
    images: Pointer[T], out: Pointer[T], zero: type[T], of: Windows, rows: int, piece_rows: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Write a row for each window, channel by channel; zeros where it leaves the image."""
    row_words = of.channels * of.kernel_height * of.kernel_width
    row, stop = first * piece_rows, min(last * piece_rows, rows)
    while row < stop:
        image, window = row // (of.down * of.right), row % (of.down * of.right)
        below, beside = window // of.right, window % of.right
        # Several windows side by side: dividing for each would take longer than copying a small
        # one.
        count = min(of.right - beside, stop - row)
        top = below * of.stride_down - of.pad_top
        left = beside * of.stride_right - of.pad_left
        to = out + row * row_words
        for channel in range(of.channels):
            plane = (image * of.channels + channel) * of.height
            for i in range(top, top + of.kernel_height):
                # A line above or below the image has width 0, so that nothing is read.
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
    """Copy every `step`-th element of a line from `start` on; zeros outside the line."""
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
    """Add the rows of all windows to the values they were copied from.

    Args:
        out: zeros, (N, channels, height, width).
    """
    plane = of.height * of.width
    place = of.kernel_height * of.kernel_width
    for image in range(first, last):
        # In reverse, so that a value receives its terms in the order of positions in the window, as
        # in the reference.
        for window in range(of.down * of.right - 1, -1, -1):
            top = window // of.right * of.stride_down - of.pad_top
            left = window % of.right * of.stride_right - of.pad_left
            low, high = max(0, -left), min(of.kernel_width, of.width - left)
            number = image * of.down * of.right + window
            for channel in range(of.channels):
                row = rows + (number * of.channels + channel) * place
                to = out + (image * of.channels + channel) * plane
                for i in range(max(0, -top), min(of.kernel_height, of.height - top)):
                    line, given = to + (top + i) * of.width + left, row + i * of.kernel_width
                    for j in range(low, high):
                        line[j] += given[j]
    return 0
