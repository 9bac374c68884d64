"""Texts as numbers: JSON and csv may have numbers as text."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np

from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.text.numerals import exceeds_float64
from lodcli.formats.values.changed import Change, numbered, of_texts, place
from lodcli.formats.values.texts_arrow import encoded, plain_numbers
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.tensor.casting import cast
from lodcli.kernels.tensor.lod_tensor import LoDTensor

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_DIGITS = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity)|nan", re.ASCII | re.IGNORECASE
)
_TRUTH = {"true": True, "false": False}


class AsNumbers(Change):
    """Numbers or booleans, of texts such as "-1.5e3" or "true". An empty text is null.

    Args:
        dtype: of the numbers, which are not complex.
        rounded: see `lodcli.kernels.tensor.casting.cast`.
        flag: the option that rounds, for messages.
    """

    def __init__(self, dtype: np.dtype[Any], *, rounded: bool, flag: str) -> None:
        self._dtype = dtype
        self._rounded = rounded
        self._flag = flag

    def spec(self, spec: TensorSpec) -> TensorSpec:
        return numbered(spec, self._dtype, None)

    def of(self, spec: TensorSpec, tensor: LoDTensor, before: int) -> LoDTensor:
        offsets = tensor.lod.levels[-1]
        values = self._plain(tensor.values, offsets)
        if values is None:
            words, numbers = encoded(tensor.values, offsets)
            each, wrong = self._parsed(words)
            if wrong:
                row = int(np.argmax(np.isin(numbers, [*wrong])))
                where = place(tensor.lod.without_finest(), row, before)
                raise InvalidDataError(f"{where}: {wrong[int(numbers[row])]}")
            values = each[numbers]
        return of_texts(tensor, values, self.spec(spec).marks)

    def _plain(self, data: Array, offsets: Offsets) -> Array | None:
        """Return the numbers of texts, 0 of an empty one; None if one needs care."""
        found = None if self._dtype.kind == "b" else plain_numbers(data, offsets, self._dtype.kind)
        if found is None:
            return None
        made, fits = cast(found, self._dtype, rounded=self._rounded)
        return made if fits.all() else None

    def _parsed(self, words: list[str]) -> tuple[Array, dict[int, str]]:
        """Return the numbers of texts, 0 for an empty one, and errors by position."""
        kind, name = self._dtype.kind, self._dtype.name
        found: list[Any]
        if kind == "b":
            expected, found = "true or false", [_TRUTH.get(word.lower()) for word in words]
        elif kind in "iu":
            expected = "a whole number"
            found = [int(word) if _WHOLE.fullmatch(word) else None for word in words]
        else:
            expected = "a number"
            found = [float(word) if _FLOAT.fullmatch(word) else None for word in words]
        wrong = {
            number: f"expected {expected}, found {words[number][:40]!r}"
            for number, value in enumerate(found)
            if value is None and words[number]
        }
        if kind in "iu":
            info = np.iinfo(self._dtype)
            for number, value in enumerate(found):
                if value is not None and not info.min <= value <= info.max:
                    wrong[number], found[number] = f"{words[number]} does not fit {name}", 0
            return np.array([value or 0 for value in found], self._dtype), wrong
        values = np.array([value or 0 for value in found], bool if kind == "b" else np.float64)
        made, fits = cast(values, self._dtype, rounded=self._rounded)
        for number in np.flatnonzero(np.isinf(made)).tolist():
            if np.isfinite(values[number]) or exceeds_float64(words[number]):
                wrong[number] = f"{words[number][:40]} does not fit {name}"
        if not self._rounded:  # float() rounds whole numbers of more than 53 bits
            for number in np.flatnonzero(np.isfinite(values) & (np.abs(values) >= 2**53)).tolist():
                word = words[number]
                fits[number] &= not _DIGITS.fullmatch(word) or Decimal(word) == values[number]
        hint = "" if self._rounded else f"; {self._flag} rounds it"
        for number in np.flatnonzero(~fits).tolist():
            wrong.setdefault(number, f"{words[number][:40]} is not exact in {name}{hint}")
        return made, wrong
