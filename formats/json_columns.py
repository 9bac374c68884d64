"""Python values of many lines to tensors: what they have in common, and rows and levels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lodcli.formats.base import ReadOptions
from lodcli.formats.lines import shown
from lodcli.formats.numerals import FLOATS, MOST_EXACT_FLOAT64, WIDER, narrowed
from lodcli.formats.schema import DEFAULT_NAME, LevelSpec, TensorSpec, check_name
from lodcli.kernels.checks import Array
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.lod import LoD
from lodcli.kernels.tensor import LoDTensor

MOST_LEVELS = 64
_NUMBERS = frozenset({int, float})
_KINDS = (_NUMBERS, frozenset({bool}), frozenset({str}))


@dataclass(frozen=True)
class Column:
    """One tensor of the file.

    Attributes:
        spec: its description, the counts unknown.
        field: where in each line's object it is; None if the line is the value.
        depth: how many lists are nested; text counts as one of them.
        text: whether the innermost lists are written as text.
        told: whether a person chose the dtype.
    """

    spec: TensorSpec
    field: str | None
    depth: int
    text: bool
    told: bool

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self.spec.name

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
                field = "" if self.field is None else f"field {self.field}: "
                raise InvalidDataError(f"line {number}: {field}{wrong}")
        raise AssertionError("one of the lines is at fault if all of them are")

    def _tensor(self, values: list[Any]) -> LoDTensor | None:
        """Return the tensor, None if something does not fit."""
        items, lengths = len(values), []
        for level in range(self.depth):
            kind = str if self.text and level == self.depth - 1 else list
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
        if self.text:
            rows: Array | None = np.frombuffer(b"".join(values), np.uint8)
        else:
            rows = _rows(values, self.spec.dtype)
        if rows is None:
            return None
        levels, shape = len(self.spec.levels), self.spec.row_shape
        for extent, found in zip(shape, lengths[levels:], strict=True):
            if (found != extent).any():
                return None
        count = int(lengths[levels - 1].sum()) if levels else items
        return LoDTensor(
            rows.reshape(count, *shape), LoD.from_lengths(lengths[:levels], self.spec.level_names)
        )

    def _misfit(self, value: object, path: tuple[int, ...]) -> str | None:
        """Return what is wrong with a part of a line, None if nothing is."""
        level = len(path)
        where = f"item <{','.join(map(str, path))}>: " if path else ""
        if level == self.depth or (self.text and level == self.depth - 1):
            wrong = _bad_text(value) if self.text else _bad_number(value, self.spec.dtype)
            if wrong is None:
                return self._wrong_extent(value, where, level) if self.text else None
            return where + wrong + self._remedy(value)
        if type(value) is not list:
            return f"{where}expected a list, found {_shown(value)}{_other_kind(value)}"
        wrong_extent = self._wrong_extent(value, where, level)
        if wrong_extent is not None:
            return wrong_extent
        parts = (self._misfit(part, (*path, place)) for place, part in enumerate(value))
        return next((wrong for wrong in parts if wrong is not None), None)

    def _remedy(self, value: object) -> str:
        """Return what to do about a value that is no row."""
        whole = self.spec.dtype.kind in "iu"
        if type(value) is float and whole:
            return "" if self.told else "; read the file with --dtype float64"
        if type(value) is int and whole:
            return "; --dtype " + ("int64 may hold it" if self.told else WIDER)
        return _other_kind(value)

    def _wrong_extent(self, value: Any, where: str, level: int) -> str | None:
        """Return what is wrong with the length of a list that belongs to a row's shape."""
        levels = len(self.spec.levels)
        if level < levels:
            return None
        length = len(value.encode() if self.text and isinstance(value, str) else value)
        expected = self.spec.row_shape[level - levels]
        if length == expected:
            return None
        return (
            f"{where}expected {expected} values in a row, found {length}; "
            "with one more name in --levels their number may differ"
        )


def _rows(values: list[Any], dtype: np.dtype[Any]) -> Array | None:
    """Return numbers as an array, None if one does not fit exactly."""
    types = set(map(type, values))
    if dtype.kind == "b":
        return np.array(values, np.bool_) if types <= {bool} else None
    try:
        if dtype.kind in "iu":
            return np.array(values, dtype) if types <= {int} else None
        if not types <= _NUMBERS:
            return None
        rows = np.array(values, np.float64)
    except OverflowError:
        return None
    if not np.isfinite(rows).all():
        return None
    if int in types:
        large = np.flatnonzero(np.abs(rows) >= MOST_EXACT_FLOAT64)
        # As Python numbers, for NumPy would round the whole number first.
        if any(rows[place].item() != values[place] for place in large.tolist()):
            return None
    result = narrowed(rows, dtype)
    if result is None or int not in types or dtype == np.float64:
        return result
    whole = np.fromiter((type(value) is int for value in values), np.bool_, len(values))
    return result if (result[whole].astype(np.float64) == rows[whole]).all() else None


def _bad_number(value: object, dtype: np.dtype[Any]) -> str | None:
    """Return why the value is no row of this dtype, None if it is one."""
    if type(value) not in ({bool} if dtype.kind == "b" else _NUMBERS):
        wanted = "true or false" if dtype.kind == "b" else "a number"
        return f"expected {wanted}, found {_shown(value)}"
    if _rows([value], dtype) is not None:
        return None
    if dtype.kind in "iu" and type(value) is float:
        return f"expected a whole number ({dtype}), found {_shown(value)}"
    return f"{_shown(value)} has no exact place in {dtype}"


def _other_kind(value: object) -> str:
    """Return what to do about a value of another kind than the values before it."""
    if value is None:
        return "; fill it, or leave it out"
    if type(value) in (list, int, float):
        return "; all lines must be nested equally deep"
    if type(value) in (str, bool):
        return "; all values must be of one kind"
    return ""


def _bad_text(value: object) -> str | None:
    if type(value) is not str:
        return f"expected text, found {_shown(value)}"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start} of the text is half of a surrogate pair"
    return None


def _shown(value: object) -> str:
    if type(value) is list:
        return "a list"
    if type(value) is dict:
        return "an object"
    if type(value) is str:
        return "text"
    if value is None or type(value) is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if type(value) is int and value.bit_length() > 200:
        return "a whole number beyond all bounds"
    return repr(value)


# -- what the first lines tell -------------------------------------------------------


def find_columns(values: list[Any], options: ReadOptions) -> tuple[tuple[Column, ...], bool]:
    """Return the columns that the first lines tell of, and whether their depth is certain.

    Args:
        values: of the first lines.
        options: levels, field, dtype.
    """
    objects = any(type(value) is dict for value in values[:1])
    if not objects:
        if options.field is not None:
            if values:
                raise SelectionError(
                    f"line 1: has no fields to choose {', '.join(options.field)} from: "
                    f"expected an object, found {_shown(values[0])}"
                )
            raise SelectionError(f"no lines to choose {', '.join(options.field)} from")
        found, sure = _column(values, DEFAULT_NAME, None, options)
        return (found,), sure
    fields, known = options.field, None
    if fields is None:
        known = list(values[0])
        fields = tuple(known)
        _refuse_unheld_fields(values[0])
    if not fields:
        raise InvalidDataError("line 1: the object has no fields")
    if len(set(fields)) < len(fields):
        raise SelectionError(f"a field is chosen twice: {', '.join(fields)}")
    columns, all_sure = [], True
    for field in fields:
        check_name(field)
        column, sure = _column(field_values(values, field, known, 1), field, field, options)
        columns.append(column)
        all_sure &= sure
    deepest = max(len(column.spec.levels) for column in columns)
    if options.levels is not None and len(options.levels) > deepest:
        raise UnsupportedError(
            f"the fields have at most {deepest} levels, found {len(options.levels)} names"
        )
    return tuple(columns), all_sure


def _refuse_unheld_fields(first: dict[str, Any]) -> None:
    for field, value in first.items():
        if value is None or type(value) is dict:
            raise InvalidDataError(
                f"line 1: field {shown(field)}: expected numbers, booleans, text or lists, found "
                f"{_shown(value)}; choose the fields to read with --field"
            )


def field_values(values: list[Any], field: str, known: list[str] | None, first: int) -> list[Any]:
    """Return one field of each line's object.

    Args:
        values: of lines, the first of which has the number `first`.
        field: which one.
        known: the fields there may be; None for any.

    Raises:
        InvalidDataError: names the line and the field.
    """
    try:
        found = [value[field] for value in values if type(value) is dict]
        if len(found) == len(values) and (
            known is None or all(len(value) == len(known) for value in values)
        ):
            return found
    except KeyError:
        pass
    for number, value in enumerate(values, first):
        if type(value) is not dict:
            raise InvalidDataError(f"line {number}: expected an object, found {_shown(value)}")
        if field not in value:
            raise InvalidDataError(f"line {number}: field {shown(field)} is missing")
        unknown = [key for key in value if known is not None and key not in known]
        if unknown:
            raise InvalidDataError(
                f"line {number}: field {shown(unknown[0])} is not in line 1; "
                "choose the fields to read with --field"
            )
    # Another known field is missing: its own column tells.
    return [value[field] for value in values]


def _column(
    values: list[Any], name: str, field: str | None, options: ReadOptions
) -> tuple[Column, bool]:
    seen = _survey(values)
    names = options.levels
    depth = len(seen.sizes)
    sure = bool(seen.leaves)
    if names is not None and not sure:
        depth = max(depth, len(names))
    if names is None:
        levels = depth
    elif len(names) <= depth or field is not None:
        # Fields of one object may differ in depth: the names are for the outermost levels.
        levels = min(len(names), depth)
    else:
        raise UnsupportedError(f"the lines have {depth} levels, found {len(names)} names")
    level_names = (None,) * levels if names is None else names[:levels]
    spec = TensorSpec(
        name,
        _dtype(seen.leaves, options.dtype),
        tuple(seen.sizes[levels:depth]),
        tuple(
            LevelSpec(f"{name}/{level}", level_name) for level, level_name in enumerate(level_names)
        ),
    )
    spec.empty()  # refuses a bad level name
    return Column(spec, field, depth, str in seen.leaves, options.dtype is not None), sure


@dataclass(frozen=True)
class _Seen:
    """What values are: the types they end in, and the length of the first list a level."""

    leaves: frozenset[type]
    sizes: tuple[int, ...]


def _survey(values: list[Any]) -> _Seen:
    sizes: list[int] = []
    while values:
        types = frozenset(map(type, values))
        if types != {list}:
            if not any(types <= kind for kind in _KINDS):
                return _first_leaf(values, sizes)
            if types == {str}:
                sizes.append(_text_length(values[0]))
            return _Seen(types, tuple(sizes))
        if len(sizes) == MOST_LEVELS:
            raise UnsupportedError(f"the lists are nested deeper than {MOST_LEVELS} levels")
        sizes.append(len(values[0]))
        values = list(chain.from_iterable(values))
    return _Seen(frozenset(), tuple(sizes))


def _first_leaf(values: list[Any], sizes: list[int]) -> _Seen:
    """Return what the first value says where values differ; others are then the error."""
    for value in values:
        inner = list(sizes)
        while type(value) is list and value:
            inner.append(len(value))
            value = value[0]
        if type(value) is not list:
            if type(value) is str:
                inner.append(_text_length(value))
            return _Seen(frozenset({type(value)}), tuple(inner))
    raise AssertionError("not all of them are lists")


def _text_length(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _dtype(leaves: frozenset[type], told: np.dtype[Any] | None) -> np.dtype[Any]:
    if str in leaves:
        if told is not None and told != np.uint8:
            raise UnsupportedError(f"text is read as its bytes, uint8; no dtype {told}")
        return np.dtype(np.uint8)
    if told is not None:
        if told.kind not in "biu" and told.name not in FLOATS:
            raise UnsupportedError(f"JSON has no numbers of dtype {told}")
        return told
    if leaves & _NUMBERS:
        return np.dtype(np.float64 if float in leaves else np.int64)
    return np.dtype(np.bool_ if bool in leaves else np.float64)
