"""Columns of values that are written as fields of records, as in csv and JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lodcli.formats.text.numerals import large_from, short_texts
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.ops.slicing.row_ranges import rows_of_ranges
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.exchange.units import texts as texts_of_unit
from lodcli.kernels.tensor.marks import Decimals, Times, Unit
from lodcli.kernels.tensor.nulls import Mask

# Kinds of values for the compiled writer.
BOOL, INT64, UINT64, FLOAT32, FLOAT64, DECIMAL, TIME, TEXT, LIST, CSV_TEXT, JSON_TEXT = range(11)
# The most digits of a decimal after the point, and the digits of seconds in each unit.
_MOST_SCALE, _DIGITS = 18, {"D": 0, "s": 0, "ms": 3, "us": 6, "ns": 9}
_HAS_DATE, _HAS_TIME, _HAS_ZONE, _IN_QUOTES = 1 << 4, 1 << 5, 1 << 6, 1 << 7
# Of the years 1 to 9999: the first day, and that after the last one.
_FIRST_DAY, _END_DAY = -719162, 2932897
_DAY = 86400
# The longest number or time, "2024-05-01T12:00:00.000000000Z" in quotes.
MOST_BYTES = 40


class Field(NamedTuple):
    """One column: K values.

    Attributes:
        kind: BOOL or another of these.
        values: (K,) of a dtype for the kind; of texts, their bytes, (N,) uint8.
        offsets: of texts, (K + 1,).
        valid: (K,) bool, False where a value is null; None: no nulls.
        detail: of decimals the scale, of times their parts, of csv texts the separator; of TEXT and
            LIST the bytes at the end of each that are not written. A LIST is put in brackets.
        large: floats from this on are written with an exponent.
    """

    kind: int
    values: Array
    offsets: Offsets | None = None
    valid: Mask | None = None
    detail: int = 0
    large: float = np.inf

    @classmethod
    def of_numbers(cls, values: Array, valid: Mask | None = None) -> Field:
        """Return booleans, integers or floats, in the notation of `numerals.texts`."""
        kind, dtype = values.dtype.kind, values.dtype
        if kind == "b":
            return cls(BOOL, np.ascontiguousarray(values), None, valid)
        if kind in "iu":
            wide = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
            found = np.ascontiguousarray(values, wide)
            return cls(UINT64 if wide.kind == "u" else INT64, found, None, valid)
        if dtype.itemsize == 2:
            words, places = short_texts(values)
            known = Texts.of_words(words).taken(places)
            ends = lengths_to_offsets(known.lengths, level=0)
            return cls(TEXT, rows_of_ranges(known.data, known.starts, ends), ends, valid)
        floats = FLOAT32 if dtype.itemsize == 4 else FLOAT64
        found = np.ascontiguousarray(values)
        return cls(floats, found, None, valid, large=large_from(dtype))

    @classmethod
    def of_units(
        cls, values: Array, unit: Unit, valid: Mask | None = None, *, in_quotes: bool = False
    ) -> Field:
        """Return times or decimals, int64, in the notation of `units.texts`.

        Args:
            in_quotes: whether times are in quotes.
        """
        values = np.ascontiguousarray(values, np.int64)
        if isinstance(unit, Decimals) and 0 <= unit.scale <= _MOST_SCALE:
            return cls(DECIMAL, values, None, valid, unit.scale)
        if isinstance(unit, Times) and unit.kind != "duration" and _are_near(values, unit):
            detail = _DIGITS[unit.unit] + _IN_QUOTES * in_quotes
            detail += _HAS_DATE * (unit.kind != "time") + _HAS_TIME * (unit.kind != "date")
            detail += _HAS_ZONE * (unit.kind == "timestamp" and unit.zone is not None)
            return cls(TIME, values, None, valid, detail)
        words = texts_of_unit(values, unit)
        if in_quotes and isinstance(unit, Times):
            words = [f'"{word}"' for word in words]
        return cls.of_words(words, valid)

    @classmethod
    def of_words(cls, words: Sequence[str], valid: Mask | None = None) -> Field:
        """Return texts that are written as they are."""
        contents = [word.encode() for word in words]
        ends = np.cumsum([0, *map(len, contents)])
        return cls(TEXT, np.frombuffer(b"".join(contents), np.uint8), ends, valid)

    @classmethod
    def of_texts(
        cls, kind: int, data: Array, offsets: Offsets, valid: Mask | None = None, detail: int = 0
    ) -> Field:
        """Return texts in UTF-8."""
        return cls(kind, np.ascontiguousarray(data), np.ascontiguousarray(offsets), valid, detail)

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def most_bytes(self, start: int, stop: int) -> int:
        """Return an upper bound of the bytes of some fields."""
        if self.offsets is None:
            return MOST_BYTES * (stop - start)
        size = int(self.offsets[stop] - self.offsets[start])
        return {TEXT: 1, LIST: 1, CSV_TEXT: 2, JSON_TEXT: 6}[self.kind] * size + 2 * (stop - start)


def _are_near(values: Array, unit: Times) -> bool:
    """Return whether times are of the years 1 to 9999, dates whole days."""
    if not values.size:
        return True
    per_day = 1 if unit.unit == "D" else _DAY * 10 ** _DIGITS[unit.unit]
    if unit.kind == "date" and (values % per_day).any():
        return False
    return _FIRST_DAY * per_day <= int(values.min()) and int(values.max()) < _END_DAY * per_day
