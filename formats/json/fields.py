"""Columns of JSON lines: fields, depth and dtype, inferred from the first lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from lodcli.formats.core.format import LeftOut, leaving_out
from lodcli.formats.core.names import name_of, repeated, shown, there_are, undotted
from lodcli.formats.core.options import ReadOptions, choose_others
from lodcli.formats.core.schema import DEFAULT_NAME, MOST_LEVELS, LevelSpec, TensorSpec
from lodcli.formats.json.columns import NUMBERS, Column
from lodcli.formats.json.objects.reading import Leaf, NullObjects, kind_of, leaves
from lodcli.formats.text.numerals import whole_dtype
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError, counted
from lodcli.kernels.options import option
from lodcli.kernels.tensor.marks import NO_MARKS, TEXT, Field

_OF_PANDAS = (
    "looks like a table that pandas wrote as one object, which is one item; "
    "to_json(orient='records') writes an item for each row"
)
_INT64 = np.dtype(np.int64)
_KINDS = (NUMBERS, frozenset({bool}), frozenset({str}))


@dataclass(frozen=True)
class Columns:
    """Columns inferred from the first lines.

    Attributes:
        found: the columns.
        known: the fields that a line may have; None for any.
        left_out: the errors of fields that no tensor can hold.
        nulls: classifies null objects; None if they are not distinguished.
        notes: on the lines as a whole.
        lacking: whether a field that a line lacks is null.
        untyped: whether there was no line.
    """

    found: tuple[Column, ...]
    known: frozenset[str] | None = None
    left_out: LeftOut = field(default_factory=dict)
    nulls: NullObjects | None = None
    lacking: bool = False
    notes: tuple[str, ...] = ()
    untyped: bool = False

    @property
    def sure(self) -> bool:
        """Whether their depth and dtype are certain."""
        return all(column.sure for column in self.found)


def find_columns(values: list[Any], options: ReadOptions) -> Columns:
    """Return the columns inferred from the first lines.

    Args:
        values: of the first lines.
        options: levels, field, dtype, skip_unsupported.
    """
    if not values:
        chosen = options.field or (DEFAULT_NAME,)
        empty = tuple(_column(Leaf(name, []), None, options) for name in chosen)
        return Columns(empty, untyped=True)
    if type(values[0]) is not dict:
        _refuse_fields(values[0], options.field)
        return Columns((_column(Leaf(DEFAULT_NAME, values), None, options),))
    left_out: LeftOut = {}
    lacking = options.nulls not in (None, "error")
    first = _first_fields(values if lacking else values[:1])
    fields, known = _fields(values, first, options, left_out)
    check_fields(values, fields, known, 1, lacking=lacking)
    columns, names = list[Column](), list[str]()
    nulls = NullObjects(both=options.nulls == "keep") if options.nulls in (None, "keep") else None
    for one in fields:
        with leaving_out(left_out, name_of(one)):
            for inner in leaves(field_values(values, one, 1, lacking=lacking), one, nulls):
                names.append(inner.name)
                if _is_chosen(inner.name, one, options):
                    columns += _held(inner, one, options, left_out)
    _refuse_unknown((*map(name_of, first), *names, *left_out), options.field or ())
    if not columns:
        raise next(iter(left_out.values()))
    deepest = max(len(column.spec.levels) for column in columns)
    if options.levels is not None and len(options.levels) > deepest:
        raise UnsupportedError(
            f"the fields have at most {deepest} levels, found {len(options.levels)} names"
        )
    if nulls is not None:
        nulls.settle(column.inside for column in columns)
    notes = (_OF_PANDAS,) if len(values) == 1 and _is_table_of_pandas(values[0]) else ()
    return Columns(_distinct(columns), known, left_out, nulls, lacking, notes)


def _refuse_fields(value: Any, chosen: tuple[str, ...] | None) -> None:
    """Raise SelectionError if fields are chosen of lines whose first value is not an object."""
    if chosen is not None and chosen != (DEFAULT_NAME,):
        raise SelectionError(
            f"line 1: has no fields to choose {', '.join(chosen)} from: expected an object, found "
            f"{kind_of(value)}"
        )


def _held(leaf: Leaf, field: str, options: ReadOptions, left_out: LeftOut) -> list[Column]:
    """Return the column of a leaf; none if no tensor can hold it, with the error in `left_out`."""
    with leaving_out(left_out, leaf.name):
        column = _column(leaf, field, options)
        if options.skip_unsupported:
            column.tensor(leaf.values, 1)
        return [column]
    return []


def _is_table_of_pandas(value: dict[str, Any]) -> bool:
    """Return whether an object looks like a table that `to_json` wrote, but not as records."""
    if value.keys() == {"columns", "index", "data"}:
        return True
    inner = list(value.values())
    if value.keys() == {"schema", "data"}:
        return type(inner[0]) is dict and "pandas_version" in inner[0]
    if not all(type(one) is dict for one in inner):
        return False
    return _are_numbered(value) or all(map(_are_numbered, inner))


def _are_numbered(row: dict[str, Any]) -> bool:
    """Return whether the fields of an object are 0, 1, .."""
    return all(key == str(number) for number, key in enumerate(row))


def _first_fields(values: list[Any]) -> tuple[str, ...]:
    """Return the fields of objects, in the order in which they first appear."""
    return tuple(dict.fromkeys(one for value in values if type(value) is dict for one in value))


def _refuse_unknown(known: Iterable[str], chosen: Iterable[str]) -> None:
    """Raise SelectionError unless each chosen name is a known name, or that of records."""
    for one in map(name_of, chosen):
        if not any(name == one or name.startswith(f"{one}.") for name in known):
            there = there_are(dict.fromkeys(known), one)
            raise SelectionError(f"no field {shown(one)}; {there}")


def _distinct(columns: list[Column]) -> tuple[Column, ...]:
    """Return columns whose names differ: a field `s.x` beside the field x of s is `s%2Ex`."""
    inside = {column.name for column in columns if column.inside}
    found = []
    for column in columns:
        if column.name in inside and not column.inside:
            marks = replace(column.spec.marks, fields=(Field(column.name, 0),))
            name = undotted(column.name)
            levels = tuple(
                replace(level, key=f"{name}/{number}")
                for number, level in enumerate(column.spec.levels)
            )
            spec = replace(column.spec, name=name, levels=levels, marks=marks)
            column = replace(column, spec=spec)
        found.append(column)
    return tuple(found)


def _fields(
    values: list[Any], first: tuple[str, ...], options: ReadOptions, left_out: LeftOut
) -> tuple[tuple[str, ...], frozenset[str] | None]:
    """Return the fields to read, and those that a line may have; `first` are those known so far."""
    if options.field is not None:
        # Also by the name of the tensor, which may differ.
        called = {name_of(one): one for one in first}
        if len(set(options.field)) < len(options.field):
            raise SelectionError(f"a field is chosen twice: {', '.join(options.field)}")
        outer = {one: _outermost(one, set(first), called) for one in options.field}
        _refuse_unknown(called, [one for one, field in outer.items() if field not in first])
        return tuple(dict.fromkeys(outer.values())), None
    if not first:
        raise InvalidDataError("line 1: the object has no fields")
    for one in repeated(map(name_of, first)):
        left_out[one] = InvalidDataError(f"line 1: two fields are named {shown(one)}")
    known = set(first)
    if options.skip_unsupported:
        for number, value in enumerate(values, 1):
            for more in value if type(value) is dict else ():
                if more not in known:
                    known.add(more)
                    left_out[name_of(more)] = InvalidDataError(
                        f"line {number}: field {shown(more)} is not in line 1"
                    )
    return tuple(one for one in first if name_of(one) not in left_out), frozenset(known)


def _outermost(chosen: str, first: set[str], called: dict[str, str]) -> str:
    """Return the field of a line that a name of --field denotes, or is inside of."""
    name = chosen
    while name not in first and name not in called and "." in name:
        name = name.rpartition(".")[0]
    found = name if name in first else called.get(name, chosen)
    return found if name == chosen or found in first else chosen


def _is_chosen(name: str, field: str, options: ReadOptions) -> bool:
    """Return whether --field chooses a tensor by the name of itself, its field or its records."""
    return options.field is None or any(
        one in (field, name) or name.startswith(f"{one}.") for one in options.field
    )


def check_fields(
    values: list[Any],
    fields: Iterable[str],
    known: frozenset[str] | None,
    first: int,
    *,
    lacking: bool,
) -> None:
    """Raise InvalidDataError, which names the line, unless lines are objects of known fields.

    Args:
        fields: those to read.
        known: the fields that objects may have; None for any.
        first: number of the first line.
        lacking: whether objects may lack fields.
    """
    for number, value in enumerate(values, first):
        if type(value) is not dict:
            raise InvalidDataError(f"line {number}: expected an object, found {kind_of(value)}")
        if known is not None and not value.keys() <= known:
            for field in () if lacking else fields:
                if field not in value:
                    raise _missing(number, field)
            unknown = next(key for key in value if key not in known)
            first_lines = (
                "the first lines; choose"
                if lacking
                else f"line 1; {option('nulls', 'keep')} reads fields that lines lack as nulls; or "
                "choose"
            )
            raise InvalidDataError(
                f"line {number}: field {shown(unknown)} is not in {first_lines} the fields to read "
                f"with {option('columns')}"
            )


def field_values(values: list[Any], field: str, first: int, *, lacking: bool) -> list[Any]:
    """Return one field of each line's object.

    Args:
        values: objects of lines.
        field: its name.
        first: number of the first line.
        lacking: whether a field that an object lacks is null.

    Raises:
        InvalidDataError: names the line and the field.
    """
    if lacking:
        return [value.get(field) for value in values]
    try:
        return [value[field] for value in values]
    except KeyError:
        number = next(n for n, value in enumerate(values, first) if field not in value)
        raise _missing(number, field) from None


def _missing(line: int, field: str) -> InvalidDataError:
    return InvalidDataError(
        f"line {line}: field {shown(field)} is missing; {option('nulls', 'keep')} reads it as a "
        f"null; or {choose_others()}"
    )


def _column(leaf: Leaf, field: str | None, options: ReadOptions) -> Column:
    name = leaf.name
    seen = _survey(leaf.values)
    if field is None and dict in seen.leaves:
        raise UnsupportedError(
            'a list of objects needs a name: write {"NAME": [{..}, ..]} for each; '
            f"{option('from', 'json')} reads one array of objects"
        )
    nullable = seen.nulls or options.nulls is not None
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
        raise UnsupportedError(
            f"the lines have {counted(depth, 'level')}, found {counted(len(names), 'name')}"
        )
    if leaf.fields and levels < leaf.fields[-1].level:
        raise UnsupportedError(
            f"{name}: {option('levels')} must name all levels above the fields of records"
        )
    level_names = (None,) * levels if names is None else names[:levels]
    spec = TensorSpec(
        name,
        _dtype(seen, options.dtype),
        tuple(seen.sizes[levels:depth]),
        tuple(
            LevelSpec(f"{leaf.owner(level)}/{level}", level_name)
            for level, level_name in enumerate(level_names)
        ),
        marks=replace(
            TEXT if str in seen.leaves and levels == depth else NO_MARKS, fields=leaf.fields
        ),
        nullable=nullable,
    )
    chosen = options.dtype is not None
    rounded = bool(options.dtype_unsafe)
    text = str in seen.leaves
    return Column(spec, field, depth, text, chosen, leaf.inside, rounded, sure)


@dataclass(frozen=True)
class _Seen:
    """Types of values: those of the leaves, and the length of the first list of each level.

    Attributes:
        leaves: the types; none where all lists are empty, or all values null.
        sizes: of each level.
        nulls: whether there are any.
        whole: the dtype that holds the leaves, if they are whole numbers.
    """

    leaves: frozenset[type]
    sizes: tuple[int, ...]
    nulls: bool = False
    whole: np.dtype[Any] = _INT64


def _survey(values: list[Any]) -> _Seen:
    sizes: list[int] = []
    nulls = False
    while values:
        if None in values:
            nulls = True
            values = [value for value in values if value is not None]
            if not values:
                break
        types = frozenset(map(type, values))
        if types != {list}:
            if not any(types <= kind for kind in _KINDS):
                return replace(_first_leaf(values, sizes), nulls=nulls)
            if types == {str}:
                sizes.append(_text_length(values[0]))
            if types == {int}:
                return _Seen(types, tuple(sizes), nulls, whole_dtype(min(values), max(values)))
            return _Seen(types, tuple(sizes), nulls)
        if len(sizes) == MOST_LEVELS:
            raise UnsupportedError(f"the lists are nested deeper than {MOST_LEVELS} levels")
        sizes.append(len(values[0]))
        values = list(chain.from_iterable(values))
    return _Seen(frozenset(), tuple(sizes), nulls)


def _first_leaf(values: list[Any], sizes: list[int]) -> _Seen:
    """Return the type of the first value if values differ; the others are errors."""
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


def _dtype(seen: _Seen, told: np.dtype[Any] | None) -> np.dtype[Any]:
    leaves = seen.leaves
    if str in leaves:
        return np.dtype(np.uint8)
    if told is not None and told.kind not in "biu" and not is_float(told):
        raise UnsupportedError(f"JSON has no numbers of dtype {told}")
    if told is not None and (not leaves or (told.kind == "b") == (bool in leaves)):
        return told
    if leaves & NUMBERS:
        return np.dtype(np.float64) if float in leaves else seen.whole
    return np.dtype(np.bool_ if bool in leaves else np.float64)
