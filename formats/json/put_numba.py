"""Rows and offsets to lines of JSON, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.json.digits_numba import MOST_TEXT_BYTES, put
from lodcli.formats.json.words_numba import byte_at, put_byte
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.runtime.jit_numba import numba

_COMMA, _OPEN, _CLOSE, _END = 44, 91, 93, 10


@numba.njit(cache=True, nogil=True)
def _put_lines(
    values: Any, bits: Any, large: float, offsets: Any, begins: Any, first: int, last: int, out: int
) -> int:  # fmt: skip
    """Write the items from `first` to `last` to an address; return how many bytes they take."""
    depth = begins.size
    place, end = np.empty(depth, np.int64), np.empty(depth, np.int64)
    at = out
    for item in range(first, last):
        level = 0
        child = item
        while depth > 0:
            put_byte(at, _OPEN)
            at += 1
            place[level] = offsets[begins[level] + child]
            end[level] = offsets[begins[level] + child + 1]
            if level == depth - 1:
                for row in range(place[level], end[level]):
                    at = put(values[row], bits[row], large, at)
                    put_byte(at, _COMMA)
                    at += 1
                place[level] = end[level]
            while level >= 0 and place[level] == end[level]:
                if byte_at(at - 1) == _COMMA:
                    at -= 1
                put_byte(at, _CLOSE)
                put_byte(at + 1, _COMMA)
                at += 2
                level -= 1
            if level < 0:
                at -= 1  # the comma after all
                break
            child = place[level]
            place[level] += 1
            level += 1
        if depth == 0:
            at = put(values[item], bits[item], large, at)
        put_byte(at, _END)
        at += 1
    return at - out


def _large(dtype: np.dtype[Any]) -> float:
    """Return from where on NumPy writes floats with an exponent; for float32 it changed."""
    if dtype.kind != "f":
        return np.inf
    return next(10.0**n for n in range(18) if "e" in str(dtype.type(10.0**n)))


class LineWriter:
    """Writes items of one tensor as lines of nested lists.

    Args:
        values: (N,) bool, integers, finite float32 or float64.
        levels: offsets of the lists, outermost first, the innermost over `values`.
        spare: memory to use again, and to give back to.
    """

    def __init__(self, values: Array, levels: list[Offsets], spare: list[Array]) -> None:
        self._values = values
        self._bits = values.view(f"u{values.dtype.itemsize}")
        self._levels = levels
        self._large = _large(values.dtype)
        sizes = [level.size for level in levels]
        self._begins = np.cumsum([0, *sizes])[: len(sizes)].astype(np.int64)
        self._spare = spare
        self._offsets = np.concatenate([*levels, np.zeros(1, np.int64)])

    def lines(self, first: int, last: int) -> memoryview:
        """Return the items from `first` to `last`, each with its end of line."""
        size = last - first  # the ends of the lines
        start, stop = first, last
        for level in self._levels:
            size += 3 * (stop - start)
            start, stop = int(level[start]), int(level[stop])
        size += (stop - start + 1) * (MOST_TEXT_BYTES + 1)
        # Not touched before it is written, so what is not needed costs nothing; what was touched
        # before costs less.
        out = self._spare.pop() if self._spare else np.empty(size, np.uint8)
        if out.size < size:
            out = np.empty(size, np.uint8)
        done = _put_lines(
            self._values,
            self._bits,
            self._large,
            self._offsets,
            self._begins,
            first,
            last,
            out.ctypes.data,
        )
        return out.data[:done]

    def take_back(self, lines: memoryview) -> None:
        """Use the memory of lines again that were handed out."""
        assert isinstance(lines.obj, np.ndarray)
        self._spare.append(lines.obj)
