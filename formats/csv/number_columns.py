"""Columns of numbers and booleans: their dtypes, and their values read many at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import compress
from types import ModuleType
from typing import Any

import numpy as np

from lodcli.formats.core.names import shown
from lodcli.formats.core.options import choose_others
from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.csv.records import swapped, words_of
from lodcli.formats.text import digits, parsing_native
from lodcli.formats.text.lines import WITHOUT_MARK
from lodcli.formats.text.numerals import (
    BEYOND,
    exceeds_float64,
    holding,
    narrowed,
    rounding,
    whole_dtype,
)
from lodcli.formats.text.records_native import is_repaid
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask, Nulls

# Fields that Python reads one by one sooner than NumPy together.
_FEW = 128
# Integers with more digits exceed every dtype, and take long to parse.
MOST_DIGITS = 1000
# Those of fewer characters fit int64.
_WIDE = 19
# A decimal comma, or separators of thousands.
_COMMAS = re.compile(
    r"\s*[+-]?((\d{1,3}(\.\d{3})+|\d*),\d+|\d{1,3}(,\d{3})+(\.\d+)?)(e[+-]?\d+)?\s*", re.IGNORECASE
)
WITHOUT_COMMAS, WITHOUT_POINTS = "write numbers as 1234.5", "write numbers as 1234,5"
_WANTED = {"f": "a number", "b": "true or false"}
_BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_TRUE, _FALSE = (
    Texts.of_words([word for word, value in _BOOLEANS.items() if value is wanted]).words(0)
    for wanted in (True, False)
)
# In lower case; \N is written by MySQL, ClickHouse, Hive and Postgres.
_MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "none", "null", "-", "?", r"\n"})


class NumberReader:
    """Reads fields as numbers or booleans.

    Args:
        rounded: whether whole numbers may be rounded.
        null_words: whether words such as NA are nulls, as empty fields are.
        single: whether the file has only one column.
        decimal_comma: whether fields had commas for their points, and points for their commas.
    """

    def __init__(
        self, *, rounded: bool, null_words: bool, single: bool, decimal_comma: bool
    ) -> None:
        self._decimal_comma = decimal_comma
        self._rounded = rounded
        self._missing = _MISSING if null_words else frozenset({""})
        self._single = single
        self._seen = 0

    def tensors(
        self, specs: Sequence[TensorSpec], fields: Texts, lines: Array, lod: LoD
    ) -> Iterator[LoDTensor]:
        """Yield columns of one dtype.

        Args:
            specs: of the columns.
            fields: of one column after another.
            lines: (K,), of the records.
            lod: their levels.
        """
        dtype, count = specs[0].dtype, fields.lengths.size
        self._seen += count
        if count <= _FEW:
            rows, known = np.zeros(count, dtype), np.zeros(count, np.bool_)
        else:
            fast = is_repaid(self._seen) and parsing_native.is_available()
            rows, known = _read(dtype, fields, parsing_native if fast else digits)
        nullable = np.array([spec.nullable for spec in specs]).repeat(lines.size)
        missing = (fields.lengths == 0) & nullable
        others = np.flatnonzero(~(known | missing))
        words = words_of(fields.taken(others))
        if nullable[others].any() and (nothing := self._missing_of(words)):
            there = ~nullable[others] | [word not in nothing for word in words]
            missing[others[~there]] = True
            others, words = others[there], list(compress(words, there))
        if words:
            rows[others] = self._rows(specs, words, others, lines)
        shape = len(specs), lines.size
        rows, missing = rows.reshape(shape), missing.reshape(shape)
        have_nulls = missing.any(axis=1).tolist()
        for n in range(len(specs)):
            # Not a view, which would keep the other columns in memory.
            data = rows[n].copy() if len(specs) > 1 else rows[n]
            masks = [*[None] * lod.n_levels, ~missing[n]] if have_nulls[n] else []
            yield LoDTensor(data, lod, nulls=Nulls.of(masks) if masks else NO_NULLS)

    def check(self, spec: TensorSpec, field: str, line: int) -> None:
        """Raise InvalidDataError if a field is not a number of a column."""
        if not (spec.nullable and self._missing_of([field])):
            self._rows([spec], [field], np.zeros(1, np.int64), np.array([line]))

    def _missing_of(self, fields: list[str]) -> set[str]:
        """Return the fields that mean a null."""
        return {field for field in set(fields) if _word(field) in self._missing}

    def _rows(
        self, specs: Sequence[TensorSpec], fields: list[str], places: Array, lines: Array
    ) -> Array:
        """Return some fields of columns of one dtype as numbers.

        Args:
            specs: of the columns.
            fields: their texts.
            places: the place of each in the columns, one after another.
            lines: (K,), of all records.
        """
        dtype = specs[0].dtype
        try:
            return _numbers_of(dtype, fields, rounded=self._rounded)
        except (ValueError, OverflowError):
            pass
        for place, text in zip(places.tolist(), fields, strict=True):
            try:
                _numbers_of(dtype, [text], rounded=self._rounded)
            except (ValueError, OverflowError):
                spec = specs[place // lines.size]
                written = swapped(text) if self._decimal_comma else text
                raise InvalidDataError(
                    f"line {lines[place % lines.size]}, column {shown(spec.name)}: expected "
                    f"{_WANTED.get(dtype.kind, 'a whole number')} ({dtype}), "
                    f"found {shown(written)}; {self._remedy(text, dtype)}"
                ) from None
        raise AssertionError("expected an error in one of the lines")

    def _remedy(self, text: str, dtype: np.dtype[Any]) -> str:
        """Return a hint for a field that is not a number of the dtype."""
        if text.startswith("\ufeff"):
            return WITHOUT_MARK
        as_text = f"{option('text-columns')} reads the column as text"
        others = choose_others("other columns")
        if not text and self._single:
            return f"{option('nulls', 'keep')} reads it as a null, {as_text}"
        if not text:
            return (
                f"the first records have all values: {option('nulls', 'keep')} reads it as a null"
            )
        if _word(text) in _MISSING:
            return f"{option('nulls', 'keep')} reads it as a null, or {others}"
        if _COMMAS.fullmatch(text):
            return f"{WITHOUT_POINTS if self._decimal_comma else WITHOUT_COMMAS}, or {others}"
        if dtype == np.bool_:
            return f"{as_text}, or {others}"
        if _is_whole(text):
            if dtype.kind == "f" and len(text) < MOST_DIGITS and abs(int(text)) < 2**64:
                held = holding(int(text))
                return f"it is not exact there: {held}, {rounding(dtype)} rounds it"
            whole = dtype if dtype.kind in "iu" else None
            return holding(int(text) if len(text) < MOST_DIGITS else 10**MOST_DIGITS, whole)
        try:
            if "_" in text:
                return f"{as_text}, or {others}"
            return f"it {BEYOND}" if exceeds_float64(text) else holding(float(text))
        except ValueError:
            return f"{as_text}, or {others}"


def _word(field: str) -> str:
    return field.strip().lower()


def dtype_of(
    fields: list[str],
    told: np.dtype[Any] | None,
    *,
    in_quotes: bool = False,
    null_words: bool = False,
) -> np.dtype[Any] | None:
    """Return the dtype in which a column is read, by its first fields; None if it is text.

    Args:
        fields: the first.
        told: the dtype that was asked for; booleans are numbers only by a cast of what was read.
        in_quotes: whether some are in quotes, in a file in which others are not.
        null_words: whether words such as NA are nulls.
    """
    there = values_in(fields)
    if there and all(field in _BOOLEANS for field in there):
        return np.dtype(np.bool_)
    if told is not None and (told.kind != "b" or not there or not is_number(there[0])):
        return told
    if there and not there[0].startswith("\ufeff") and not is_number(there[0]):
        return None
    # As empty or blank texts are written.
    if in_quotes and not there and not (null_words and any(map(_word, fields))):
        return None
    whole = [field for field in there if _is_whole(field)]
    if not whole or any(map(_is_float, there)):
        return np.dtype(np.float64)
    if max(map(len, whole)) < _WIDE:
        return np.dtype(np.int64)
    numbers = [int(field) for field in whole if len(field) < MOST_DIGITS]
    return whole_dtype(min(numbers, default=0), max(numbers, default=0))


def values_in(fields: list[str]) -> list[str]:
    """Return the fields that are not empty or words for nulls."""
    return [field for field in fields if _word(field) not in _MISSING]


def are_missing(fields: list[str]) -> bool:
    """Return whether all fields are empty or words for nulls."""
    return all(_word(field) in _MISSING for field in fields)


def have_commas(fields: list[str]) -> bool:
    """Return whether the values are numbers with commas, and perhaps other numbers."""
    there = values_in(fields)
    return bool(there) and all(_COMMAS.fullmatch(one) or is_number(one) for one in there)


def _is_float(field: str) -> bool:
    """Return whether a field is a number with a point or an exponent, infinity or NaN."""
    return not _is_whole(field) and is_number(field)


def is_number(field: str) -> bool:
    """Return whether a field is a number, perhaps infinite or NaN."""
    try:
        float(field)
    except ValueError:
        return False
    return _is_plain(field)


def _read(dtype: np.dtype[Any], fields: Texts, reader: ModuleType) -> tuple[Array, Mask]:
    """Return numbers of a dtype, and which fields have them: with the result of `_numbers_of`."""
    if dtype == np.bool_:
        words = fields.words(0)
        true, false = (np.isin(words, some) for some in (_TRUE, _FALSE))
        return true, true | false
    values, known = (reader.decimal_numbers if dtype.kind == "f" else reader.whole_numbers)(fields)
    if dtype.kind == "f":
        # Not up to this number, to which whole numbers are rounded.
        known &= np.abs(values) < 2.0 ** (np.finfo(dtype).nmant + 1)
    elif dtype != np.uint64:
        known &= (values >= np.iinfo(dtype).min) & (values <= np.iinfo(dtype).max)
    else:
        known &= values >= 0
    values[~known] = 0
    return values.astype(dtype, copy=False), known


def _numbers_of(dtype: np.dtype[Any], fields: list[str], *, rounded: bool) -> Array:
    """Return fields as numbers; raises ValueError or OverflowError if one is not of `dtype`.

    Args:
        dtype: of the numbers, or bool.
        fields: their texts.
        rounded: whether whole numbers may be rounded.
    """
    if not _is_plain("".join(fields)):
        raise ValueError
    if dtype == np.bool_:
        if not _BOOLEANS.keys() >= set(fields):
            raise ValueError
        return np.array([_BOOLEANS[field] for field in fields], np.bool_)
    if dtype.kind in "iu":
        return np.array(list(map(int, fields)), dtype)
    values = np.array(list(map(float, fields)), np.float64)
    found = narrowed(values, dtype)
    infinite = np.flatnonzero(np.isinf(values)).tolist()
    if found is None or any(exceeds_float64(fields[place]) for place in infinite):
        raise OverflowError
    if not rounded:
        # Not those of more than 64 bits: no dtype of whole numbers holds them either.
        far = np.abs(values) >= 2.0 ** (np.finfo(dtype).nmant + 1)
        for place in np.flatnonzero(far & (np.abs(values) <= 2**64)).tolist():
            if _is_whole(fields[place]):
                number = int(fields[place])
                if abs(number) < 2**64 and number != int(found[place]):
                    raise OverflowError
    return found


def _is_whole(text: str) -> bool:
    text = text.strip()
    return _is_plain(text) and text.removeprefix("-" if text.startswith("-") else "+").isdecimal()


def _is_plain(text: str) -> bool:
    """Return whether a text lacks what int() and float() take beside numbers: 1_000, and "٣"."""
    return text.isascii() and "_" not in text
