"""Converts Python values of many lines to tensors: common type, rows and levels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.json.objects.reading import Inside, kind_of
from lodcli.formats.text.numerals import BEYOND, MOST_EXACT_FLOAT64, holding, narrowed, rounding
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask, Nulls

NUMBERS = frozenset({int, float})


@dataclass(frozen=True)
class Column:
    """One tensor of the file.

    Attributes:
        spec: its description, the counts unknown.
        field: the field of each line's object that contains it; None if the line is the value.
        depth: number of nested lists; text counts as one of them.
        text: whether the innermost lists are written as text.
        chosen: whether an option chose the dtype.
        inside: the records it is in, outermost first.
        rounded: whether whole numbers may be rounded to a float dtype.
        sure: whether the first lines have a value, which tells the dtype and the depth.

    `spec.nullable` says whether values may be null.
    """

    spec: TensorSpec
    field: str | None
    depth: int
    text: bool
    chosen: bool
    inside: tuple[Inside, ...] = ()
    rounded: bool = False
    sure: bool = True

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self.spec.name

    @property
    def _path(self) -> str:
        """The path of fields in the line's object, joined by dots."""
        return ".".join([str(self.field), *(one.key for one in self.inside if one.key is not None)])

    def tensor(self, values: list[Any], first: int) -> LoDTensor:
        """Return the values of lines as one tensor; the first line has the number `first`.

        Raises:
            InvalidDataError: names the line and the place in it.
        """
        found = self._tensor(values)
        if found is not None:
            return found
        for number, value in enumerate(values, first):
            wrong = self._misfit(value, ())
            if wrong is not None:
                field = "" if self.field is None else f"field {self._path}: "
                raise InvalidDataError(f"line {number}: {field}{wrong}")
        raise AssertionError("expected an error in one of the lines")

    def _tensor(self, values: list[Any]) -> LoDTensor | None:
        """Return the tensor, None if something does not fit."""
        items, lengths, masks = len(values), [], list[Mask | None]()
        for level in range(self.depth):
            kind = str if self.text and level == self.depth - 1 else list
            # Lists below the levels are the axes of a row, which is null as a whole.
            mask = self._mask(values) if level <= len(self.spec.levels) else None
            masks.append(mask)
            if mask is not None:
                empty = self._empty(level)
                values = [empty if value is None else value for value in values]
            if not set(map(type, values)) <= {kind}:
                return None
            if kind is str:
                try:
                    values = [value.encode() for value in values]
                except UnicodeEncodeError:
                    return None
            lengths.append(np.fromiter(map(len, values), np.int64, len(values)))
            if kind is list:
                values = list(chain.from_iterable(values))
        if self.depth == len(self.spec.levels):
            mask = self._mask(values) if not self.text else None
            masks.append(mask)
            if mask is not None:
                zero = self.spec.dtype.type(0).item()
                values = [zero if value is None else value for value in values]
        if self.text:
            rows: Array | None = np.frombuffer(b"".join(values), np.uint8)
        else:
            rows = _rows(values, self.spec.dtype, rounded=self.rounded)
        if rows is None:
            return None
        levels, shape = len(self.spec.levels), self.spec.row_shape
        for extent, found in zip(shape, lengths[levels:], strict=True):
            if (found != extent).any():
                return None
        count = int(lengths[levels - 1].sum()) if levels else items
        index = LoD.from_lengths(lengths[:levels], self.spec.level_names)
        nulls = Nulls.of(masks[: levels + 1])
        return LoDTensor(rows.reshape(count, *shape), index, self.spec.marks, nulls)

    def _mask(self, values: list[Any]) -> Mask | None:
        """Return which values are valid; None if no value is null, or may be."""
        if not self.spec.nullable or None not in values:
            return None
        return np.fromiter((value is not None for value in values), np.bool_, len(values))

    def _empty(self, level: int) -> object:
        """Return the placeholder for a null of a level."""
        if level == len(self.spec.levels):
            zeros: object = np.zeros(self.spec.row_shape, self.spec.dtype).tolist()
            return zeros
        return "" if self.text and level == self.depth - 1 else []

    def _misfit(self, value: object, path: tuple[int, ...]) -> str | None:
        """Return the error in a part of a line, None if there is none."""
        level = len(path)
        if value is None and self.spec.nullable and level <= len(self.spec.levels):
            return None
        where = f"item <{','.join(map(str, path))}>: " if path else ""
        if value is None and level > len(self.spec.levels):
            return (
                f"{where}found null, and a row of shape {self.spec.row_shape} has no nulls; name "
                f"all {self.depth} levels in {option('levels')}, and replace it with "
                f"{option('nulls')}"
            )
        if level == self.depth or (self.text and level == self.depth - 1):
            wrong = (
                _bad_text(value)
                if self.text
                else _bad_number(value, self.spec.dtype, rounded=self.rounded)
            )
            if wrong is None:
                return self._wrong_extent(value, where, level) if self.text else None
            return where + wrong + self._remedy(value)
        if type(value) is not list:
            return f"{where}expected a list, found {kind_of(value)}{_other_kind(value)}"
        wrong_extent = self._wrong_extent(value, where, level)
        if wrong_extent is not None:
            return wrong_extent
        parts = (self._misfit(part, (*path, place)) for place, part in enumerate(value))
        return next((wrong for wrong in parts if wrong is not None), None)

    def _remedy(self, value: object) -> str:
        """Return a hint for a value that cannot be a row."""
        kind = self.spec.dtype.kind
        if self.text and type(value) is str:
            return ""  # text, but not valid Unicode
        if (kind == "b" or self.text) and type(value) in NUMBERS:
            return _ONE_KIND
        if type(value) is float and kind in "iu":
            if not self.chosen:
                return f"; read the file with {option('dtype', 'float64')}"
            limits = np.iinfo(self.spec.dtype)
            within = limits.min <= value <= limits.max
            return (
                f"; {option('dtype-unsafe', True)} rounds it" if within else f"; {holding(value)}"
            )
        if type(value) in NUMBERS and kind not in "b":
            assert isinstance(value, int | float)
            return "" if value in (math.inf, -math.inf) else f"; {self._holding(value)}"
        return _other_kind(value)

    def _holding(self, value: int | float) -> str:
        """Return a hint for a number that the dtype cannot represent."""
        held, dtype = holding(value), self.spec.dtype
        if dtype.kind in "iu":
            return holding(value, dtype)
        if _rows([value], dtype, rounded=True) is None:
            return held
        # Other values may be fractions, which no integers hold.
        return f"{held.partition(';')[0]}, {rounding(dtype)} rounds it"

    def _wrong_extent(self, value: Any, where: str, level: int) -> str | None:
        """Return the message for a list with a wrong length in the row shape."""
        levels = len(self.spec.levels)
        if level < levels:
            return None
        length = len(value.encode() if self.text and isinstance(value, str) else value)
        expected = self.spec.row_shape[level - levels]
        if length == expected:
            return None
        return (
            f"{where}expected {expected} values in a row, found {length}; "
            f"with one more name in {option('levels')} their number may differ"
        )


def _rows(values: list[Any], dtype: np.dtype[Any], *, rounded: bool) -> Array | None:
    """Return numbers as an array, None if one does not fit, exactly unless `rounded`."""
    types = set(map(type, values))
    if dtype.kind == "b":
        return np.array(values, np.bool_) if types <= {bool} else None
    try:
        if dtype.kind in "iu":
            return np.array(values, dtype) if types <= {int} else None
        if not types <= NUMBERS:
            return None
        rows = np.array(values, np.float64)
    except OverflowError:
        return None
    if not np.isfinite(rows).all():
        return None
    if int in types and not rounded:
        large = np.flatnonzero(np.abs(rows) >= MOST_EXACT_FLOAT64)
        # As Python numbers: NumPy would round the integer first.
        if any(rows[place].item() != values[place] for place in large.tolist()):
            return None
    result = narrowed(rows, dtype)
    if result is None or rounded or int not in types or dtype == np.float64:
        return result
    whole = np.fromiter((type(value) is int for value in values), np.bool_, len(values))
    return result if (result[whole].astype(np.float64) == rows[whole]).all() else None


def _bad_number(value: object, dtype: np.dtype[Any], *, rounded: bool) -> str | None:
    """Return why a value is not a number of this dtype, None if it is one."""
    if type(value) not in ({bool} if dtype.kind == "b" else NUMBERS):
        wanted = "true or false" if dtype.kind == "b" else "a number"
        return f"expected {wanted}, found {kind_of(value)}"
    if _rows([value], dtype, rounded=rounded) is not None:
        return None
    if dtype.kind in "iu" and type(value) is float:
        return f"expected a whole number ({dtype}), found {kind_of(value)}"
    if value in (math.inf, -math.inf):
        return f"a number that {BEYOND}, or write null"
    if type(value) is float:
        return f"{value!r} is beyond {dtype}"
    return f"{kind_of(value)} cannot be represented exactly in {dtype}"


_ONE_KIND = "; all values must be of one kind"


def _other_kind(value: object) -> str:
    """Return a hint for a value of another type than the values before it."""
    if value is None:
        return f"; the first lines have none: {option('nulls', 'keep')} reads it as it is"
    if type(value) in (list, int, float):
        return "; all lines must be nested equally deep"
    if type(value) in (str, bool):
        return _ONE_KIND
    return ""


def _bad_text(value: object) -> str | None:
    if type(value) is not str:
        return f"expected text, found {kind_of(value)}"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start} of the text is half of a surrogate pair"
    return None
