"""See concat.py. Rows of all inputs are copied as words in one launch."""

from __future__ import annotations

from collections.abc import Sequence

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    MOST_BLOCKS,
    WORDS,
    address,
    is_narrow,
    on_device,
    result_array,
    run,
    tiles,
)
from lodcli.kernels.cuda.row_copies import HEIGHT, word_bytes
from lodcli.kernels.index.checks import Array, Offsets


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """See concat.py."""
    rows = sum(int(each[-1]) for each in offsets)
    result = result_array(out, (rows, *data[0].shape[1:]), data[0].dtype, *data)
    _copy([cupy.ascontiguousarray(part) for part in data], offsets, result, back=False)
    return result


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """See concat.py."""
    shapes = [(int(each[-1]), *upstream.shape[1:]) for each in offsets]
    parts = [cupy.empty(shape, upstream.dtype) for shape in shapes]
    _copy(parts, offsets, cupy.ascontiguousarray(upstream), back=True)
    return parts


def _copy(parts: list[Array], offsets: Sequence[Offsets], rows: Array, *, back: bool) -> None:
    """Copy the parts to the joined rows, or back."""
    if not rows.size:
        return
    width = rows.nbytes // len(rows)
    word = word_bytes(width, rows, *parts)
    there = [on_device(each) for each in offsets]
    table = cupy.asarray(np.array([address(each) for each in (*parts, *there)], np.int64))
    tiled, block = tiles(max(map(len, parts)), width // word, HEIGHT)
    # Blocks loop over inputs that exceed the grid.
    grid = (*tiled, min(len(parts), MOST_BLOCKS))
    sizes = (len(parts), offsets[0].size - 1, width // word, HEIGHT, int(is_narrow(width)))
    kernel = f"concat_rows<{WORDS[word]}, {int(back)}>"
    run("row_copies", kernel, grid, block, table, *sizes, rows)
