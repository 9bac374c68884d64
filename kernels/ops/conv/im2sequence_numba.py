"""Kernel that copies the windows of images into rows."""

from __future__ import annotations

from typing import NamedTuple

from lodcli.kernels.native.declare import Pointer, T, kernel


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
    for row in range(first * piece_rows, min(last * piece_rows, rows)):
        picture, window = row // (of.down * of.right), row % (of.down * of.right)
        top = window // of.right * of.stride_down - of.pad_top
        left = window % of.right * of.stride_right - of.pad_left
        to = out + row * row_words
        at = 0
        for channel in range(of.channels):
            plane = images + (picture * of.channels + channel) * of.height * of.width
            for i in range(top, top + of.kernel_height):
                for j in range(left, left + of.kernel_width):
                    if 0 <= i < of.height and 0 <= j < of.width:
                        to[at] = plane[i * of.width + j]
                    else:
                        to[at] = zero(0)
                    at += 1
    return 0
