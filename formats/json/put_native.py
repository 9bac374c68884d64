"""Writes rows and offsets as lines of JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.text.numerals import large_from
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load

# Longest text of a number: "-2.2250738585072014e-308", or "-9223372036854775808".
MOST_TEXT_BYTES = 24
# Longest text of a byte of text: "\\u001f".
MOST_ESCAPED_BYTES = 6
# Integer dtypes, and the compiled ones that hold their values.
_WIDER = {
    **{"b": np.int32, "h": np.int32, "H": np.int32, "I": np.int64},
    **{"l": np.int64, "q": np.int64, "L": np.uint64, "Q": np.uint64},
}
_MODULE = "formats.json.put_numba"
_put_lines, _put_texts = (load.kernel(_MODULE, name) for name in ("put_lines", "put_texts"))


def is_available(dtype: np.dtype[Any], *, text: bool = False) -> bool:
    """Return whether the kernel for such values is available; compiles it if needed."""
    try:
        if text:
            return bool(_put_texts[""])
        return bool(_put_lines[_types(np.dtype(_WIDER.get(dtype.char, dtype)))])
    except load.NativeUnavailableError:
        return False


def _types(dtype: np.dtype[Any]) -> str:
    return dtype.char + np.dtype(f"u{dtype.itemsize}").char


class LineWriter:
    """Writes items of one tensor as lines of nested lists.

    Args:
        values: (N,) bool, integers, finite float32 or float64.
        levels: offsets of the lists, outermost first, the innermost over `values`.
        spare: memory for reuse; `take_back` adds to it.
        text: whether the innermost lists are UTF-8 text, uint8.
    """

    def __init__(
        self, values: Array, levels: list[Offsets], spare: list[Array], *, text: bool = False
    ) -> None:
        self._text = text
        if text:
            self._values, self._put = np.ascontiguousarray(values), _put_texts[""].call
        else:
            wide = np.ascontiguousarray(values, _WIDER.get(values.dtype.char, values.dtype))
            self._values, self._bits = wide, wide.view(f"u{wide.itemsize}")
            self._put = _put_lines[_types(wide.dtype)].call
        self._levels = levels
        self._large = large_from(values.dtype)
        sizes = [level.size for level in levels]
        self._begins = np.cumsum([0, *sizes])[: len(sizes)].astype(np.int64)
        self._spare = spare
        self._offsets = np.concatenate([*levels, np.zeros(1, np.int64)])

    def lines(self, first: int, last: int) -> memoryview:
        """Return the items from `first` up to, without, `last`, each with its end of line."""
        size = last - first  # the ends of the lines
        start, stop = first, last
        for level in self._levels:
            size += 3 * (stop - start)
            start, stop = int(level[start]), int(level[stop])
        size += (stop - start + 1) * (MOST_ESCAPED_BYTES if self._text else MOST_TEXT_BYTES + 1)
        # Fresh pages cost time only when they are written, and reused ones less.
        out = self._spare.pop() if self._spare else np.empty(size, np.uint8)
        if out.size < size:
            out = np.empty(size, np.uint8)
        depth = len(self._levels)
        numbers = () if self._text else (self._bits, self._large)
        done = self._put(
            *(0, 1, self._values, *numbers, self._offsets, self._begins, depth),
            *(*np.empty((2, depth), np.int64), first, last, load.address(out)),
        )
        return out.data[:done]

    def take_back(self, lines: memoryview) -> None:
        """Return the memory of `lines` for reuse."""
        assert isinstance(lines.obj, np.ndarray)
        self._spare.append(lines.obj)
