"""One row a segment: spread over the rows of the segment, or picked from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import flat_rows, result_array
from lodcli.kernels.runtime.jit_numba import numba
from lodcli.kernels.runtime.numba_threads import run
from lodcli.kernels.simd import byte_moves as moves
from lodcli.kernels.simd import nontemporal_stores as streams
from lodcli.kernels.simd.nontemporal_stores import streamed_rows
from lodcli.kernels.simd.row_copies import address, frozen, row_bytes, rows_a_piece

CLOSE_BYTES = 256  # up to which rows that lie apart are fetched by the processor itself
PIECE_SEGMENTS = 1 << 10
_EVERY, _FIRST, _LAST = 0, 1, 2
_KINDS = {"": _EVERY, "first": _FIRST, "last": _LAST}
_fetch, _pick_words = moves.fetch, moves.pick_words
_begin, _append, _finish = streams.begin, streams.append, streams.finish
_copy_row, _repeat, _clear, _at = moves.copy_row, moves.repeat, moves.clear, moves.segment_at


def spread_rows(
    rows: Array, offsets: Offsets, *, only: str = "", out: Array | None = None
) -> Array:
    """Return rows[s] for every row of segment s, or zeros but the "first" or "last" row.

    Args:
        rows: (S, ...), any dtype.
        offsets: (S+1,) int64.
        only: "", "first" or "last".
        out: where they go; by default a new array.
    """
    result = result_array(out, (int(offsets[-1]), *rows.shape[1:]), rows.dtype, rows)
    if result.size:
        source, width = flat_rows(rows), row_bytes(result)
        run(
            *(_spread, result.nbytes),
            *(address(source), source.nbytes, frozen(offsets), _KINDS[only]),
            *(address(result), width, rows_a_piece(width)),
            not only and streamed_rows(result.nbytes, len(result)),
        )
    return result


def pick_rows(
    rows: Array, offsets: Offsets, pad_value: npt.ArrayLike, only: str, out: Array | None
) -> Array:
    """Return the "first" or "last" row of every segment, `pad_value` where it has none."""
    result = result_array(out, (offsets.size - 1, *rows.shape[1:]), rows.dtype, rows)
    if result.size:
        source, fill = flat_rows(rows), np.empty((1, *rows.shape[1:]), rows.dtype)
        fill[...] = pad_value
        # Whole lines are read, however little of them is wanted.
        lines = max(result.nbytes, moves.VECTOR_BYTES * result.shape[0])
        run(
            *(_pick, result.nbytes + min(lines, source.nbytes) + offsets.nbytes),
            *(address(source), source.nbytes, frozen(offsets), address(fill)),
            *(_KINDS[only] == _LAST, address(result), row_bytes(result)),
            *(min(PIECE_SEGMENTS, rows_a_piece(row_bytes(result))), _ahead(source, result)),
        )
    return result


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _spread(
    at: int, size: int, offsets: Any, kind: int,
    to: int, width: int, piece_rows: int, streamed: bool,
) -> None:  # fmt: skip
    total, end = offsets[-1], at + size
    for piece in numba.prange((total + piece_rows - 1) // piece_rows):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        s, stop = _at(offsets, row), to + stop_row * width
        line, held, full = _begin(to + row * width)
        while row < stop_row:
            after, here = min(offsets[s + 1], stop_row), to + row * width
            if streamed:
                for _ in range(row, after):
                    line, held, full = _append(
                        line, held, full, stop, at + s * width, at, end, width
                    )
            elif kind == _EVERY:
                _repeat(here, stop, at + s * width, end, after - row, width)
            else:
                only = offsets[s] if kind == _FIRST else offsets[s + 1] - 1
                _clear(here, stop, (after - row) * width)
                if row <= only < after:
                    _copy_row(
                        to + only * width, to + (only + 1) * width, at + s * width, end, width
                    )
            row = after
            s += 1
        if streamed:
            _finish(line, held, full)


def _ahead(source: Array, picked: Array) -> int:
    """Return how many segments ahead to ask for rows: none where they lie close together."""
    return moves.AHEAD if source.nbytes > CLOSE_BYTES * picked.shape[0] else 0


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _pick(
    at: int, size: int, offsets: Any, fill: int, last: bool,
    to: int, width: int, piece_segments: int, ahead: int,
) -> None:  # fmt: skip
    segments, end = offsets.size - 1, at + size
    back = 1 if last else 0
    for piece in numba.prange((segments + piece_segments - 1) // piece_segments):
        first = piece * piece_segments
        after = min(first + piece_segments, segments)
        if width == 4 and not ahead:
            begins, ends = offsets[first:after], offsets[first + 1 : after + 1]
            _pick_words(to + 4 * first, at, end, begins, ends, last, fill)
            continue
        for s in range(first, after):
            if ahead:
                later = min(s + ahead, segments - 1)
                _fetch(at + (offsets[later + back] - back) * width, width)
            empty = offsets[s] == offsets[s + 1]
            source = fill if empty else at + (offsets[s + back] - back) * width
            here = to + s * width
            _copy_row(here, here + width, source, fill + width if empty else end, width)
