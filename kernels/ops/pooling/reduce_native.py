"""Reduces segments in pieces of rows; see reduce_numba.py."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import SHARED_BYTES, run
from lodcli.kernels.ops.rows import flat_rows, result_array
from lodcli.kernels.platform.machine import cpu_vendor
from lodcli.kernels.runtime.threads import thread_count

SUM, EXTREME, INDEX = "sum", "extreme", "index"
PLAIN, MEAN, ROOT = 0, 1, 2
PIECE = 1 << 17  # values per piece
LEAST_ROWS = 16
# Rows with longer sums are added one after another within a piece; other pieces have runs of RUN
# rows (reduce_numba.py). Rounding errors grow with both.
BLOCK_BYTES, RUN = 256, 256
CLOSE_BYTES = 256  # number of strided rows up to which the hardware prefetches
PIECE_SEGMENTS = 1 << 10
PIECE_BYTES = 1 << 18
# Prefetch distance in rows, and on Intel processors: docs/decisions/0022-thresholds.md.
_AHEAD, _NEAR_AHEAD, _NARROW_AHEAD = 16, 8, 32
_LINE = 64

_MODULE = "kernels.ops.pooling.reduce_numba"
_reduce = {name: load.kernel(_MODULE, name) for name in (SUM, EXTREME, INDEX)}
_join = {name: load.kernel(_MODULE, f"{name}_join") for name in (SUM, EXTREME, INDEX)}
_pick = load.kernel(_MODULE, "pick")
# Compiled dtype of the same size for other integers: sums and comparisons use `flip`.
_SUMMED = {"b": "B", "H": "h", "I": "i", "L": "l", "?": "B", "q": "l", "Q": "l"}
# Integers summed with the other signedness: the sign bits in 64 bits, which are flipped, and what
# each value then lacks.
_SIGNS = {
    "b": (-0x7F7F7F7F7F7F7F80, -(1 << 7)),
    "H": (-0x7FFF7FFF7FFF8000, 1 << 15),
    "I": ((1 << 31) - (1 << 63), 1 << 31),
}
_AS_THEY_ARE = "fdil"
_COMPARED = {"B": "b", "?": "b", "H": "h", "I": "i", "L": "l", "q": "l", "Q": "l"}


def reduce_rows(
    kind: str,
    rows: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    out: Array,
    *,
    least: bool = False,
    divided: int = PLAIN,
    flip: int = 0,
    index: Offsets | None = None,
) -> None:
    """Write one row for every segment of rows (N, D) to `out` (S, D).

    Args:
        kind: SUM, EXTREME or INDEX.
        rows: C-contiguous; float32, float64, integers or booleans.
        pad_value: for empty segments.
        out: C-contiguous, in the dtype of `rows`; sums may be wider.
        least: minimum instead of maximum.
        divided: PLAIN, MEAN (by the length) or ROOT (by its square root).
        flip: for sums of int32, the bits to invert in every two, as one number of 64 bits.
        index: (S, D) int64, for INDEX: the rows of the extremes.
    """
    if not out.size:
        return
    missing = 0
    if kind == SUM and rows.dtype.char in _SIGNS:
        flip, missing = _SIGNS[rows.dtype.char]
    rows, to = _as_compiled(kind, rows, out)
    types = rows.dtype.char + to.dtype.char
    count, width = rows.shape
    piece_rows = max(LEAST_ROWS, PIECE // width)
    if width * (to.itemsize if to.itemsize > 4 else 4) > BLOCK_BYTES:
        piece_rows = min(piece_rows, RUN)
    pieces = -(-count // piece_rows) or 1
    size_bytes = rows.nbytes + offsets.nbytes
    chunks = 1 if size_bytes < SHARED_BYTES else min(pieces, 4 * thread_count())
    parts = np.empty((pieces, width), to.dtype)
    places = np.empty((pieces, width), np.int64) if index is not None else None
    pad = pad_value
    if not (type(pad) is np.ndarray and pad.dtype is to.dtype):  # fast path
        pad = np.asarray(pad_value).astype(out.dtype).view(to.dtype)
    if kind != SUM:
        flip = _flip(out.dtype, least)
    arguments = (
        *(rows, np.ascontiguousarray(offsets), to, index, pad, parts, places),
        *(count, offsets.size - 1, width, piece_rows, flip, divided, pieces, chunks),
    )
    run(_reduce[kind][types], chunks, size_bytes, *arguments)
    if chunks > 1:
        _join[kind][types].call(0, 1, *arguments)
    if missing:
        to += missing * offsets_to_lengths(offsets)[:, np.newaxis]


def _as_compiled(kind: str, rows: Array, out: Array) -> tuple[Array, Array]:
    """Return rows and target, viewed in compiled dtypes."""
    if kind == SUM:
        if rows.dtype is out.dtype and rows.dtype.char in _AS_THEY_ARE:
            return rows, out
        total = out.view(np.int64) if out.dtype.kind in "iu" else out
        return rows.view(_SUMMED.get(rows.dtype.char, rows.dtype)), total
    if rows.dtype.char in _AS_THEY_ARE:
        return rows, out
    dtype = _COMPARED.get(rows.dtype.char, rows.dtype)
    return rows.view(dtype), out.view(dtype)


def _flip(dtype: np.dtype[np.generic], least: bool) -> int:
    """Return the bits whose flip turns the wanted extreme into the maximum of signed or real
    numbers."""
    if dtype.kind == "f":
        return (1 << 31 if dtype.itemsize == 4 else -(1 << 63)) if least else 0
    # Flipping the highest bit maps unsigned to signed numbers in the same order.
    flip = -(1 << (8 * dtype.itemsize - 1)) if dtype.kind in "ub" else 0
    return ~flip if least else flip


def pick_rows(
    rows: Array, offsets: Offsets, pad_value: npt.ArrayLike, only: str, out: Array | None
) -> Array:
    """Return the "first" or "last" row of every segment, `pad_value` where it has none."""
    result = result_array(out, (offsets.size - 1, *rows.shape[1:]), rows.dtype, rows)
    if result.size:
        source, fill = flat_rows(rows), np.empty((1, *rows.shape[1:]), rows.dtype)
        fill[...] = pad_value
        segments, width = result.shape[0], result.nbytes // result.shape[0]
        # Whole cache lines are read, even for a few bytes.
        read_bytes = min(max(result.nbytes, _LINE * segments), source.nbytes)
        piece_segments = min(PIECE_SEGMENTS, max(1, PIECE_BYTES // max(1, width)))
        near = cpu_vendor() == "GenuineIntel"
        ahead = (_NEAR_AHEAD if width >= _LINE else _NARROW_AHEAD) if near else _AHEAD
        run(
            _pick[""], -(-segments // piece_segments),
            result.nbytes + read_bytes + offsets.nbytes,
            source, source.nbytes, np.ascontiguousarray(offsets),
            fill, only == "last", result, width, segments,
            piece_segments, ahead if source.nbytes > CLOSE_BYTES * segments else 0, near,
        )  # fmt: skip
    return result
