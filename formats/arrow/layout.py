"""Maps Arrow types to tensors: levels, row shape and rows of a column."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.sizes.buffers import (
    inner_types,
    is_list_view,
    is_text,
    is_view,
    number_dtype,
)
from lodcli.formats.core.format import LeftOut
from lodcli.formats.core.names import (
    check_name,
    name_of,
    presence_name,
    repeated,
    shown,
    there_are,
    undotted,
)
from lodcli.formats.core.schema import MOST_LEVELS
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import is_level_name
from lodcli.kernels.tensor.exchange.arrow import NAMES_KEY
from lodcli.kernels.tensor.exchange.arrow import is_text as is_unicode
from lodcli.kernels.tensor.exchange.arrow_units import marks_of
from lodcli.kernels.tensor.marks import (
    BYTES,
    DECIMAL_DIGITS,
    NO_MARKS,
    TEXT,
    Categories,
    Decimals,
    Field,
    Marks,
)

_BYTES, _BOOL = np.dtype(np.uint8), np.dtype(np.bool_)
# Returns the words of a tensor of dictionary-encoded text by its name; None: it is read as text.
Words = Callable[[str], Categories | None]


@dataclass(frozen=True)
class Leaf:
    """Rows: numbers or booleans of one shape.

    Attributes:
        name: of the tensor: the column and, below structs, the fields joined by dots.
        row_shape: sizes of the fixed-size lists that are nested directly around the numbers.
        order: permutation of the axes of a row in memory, which is its own inverse; None if they
            are in order.
        marks: whether they are text or bytes, and their unit.
        nullable: whether they, or the lists and structs around them, may be null.
        valueless: whether all are null, so that the dtype is assumed.
    """

    name: str
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None
    marks: Marks = NO_MARKS
    nullable: bool = True
    valueless: bool = False


@dataclass(frozen=True)
class Level:
    """Lists, maps, text or bytes; `below` are their items. `key` is unique in the file."""

    key: str
    below: Node


@dataclass(frozen=True)
class Record:
    """A struct: each field leads to separate tensors.

    Attributes:
        name: of the part of the column.
        fields: the layouts of its fields, each with the field's number.
        required: whether the file declares that none is null.
        present: a tensor that may store which of them are null; None if not needed or chosen.
    """

    name: str
    fields: tuple[tuple[int, Node], ...]
    required: bool = False
    present: Leaf | None = None


Node = Leaf | Level | Record


@dataclass(frozen=True)
class Place:
    """One tensor of a column, with the keys of its levels, outermost first."""

    leaf: Leaf
    keys: tuple[str, ...]


def node_of(
    field: pa.Field,
    chosen: tuple[str, ...] | None,
    left_out: LeftOut,
    name: str | None = None,
    words: Words = lambda name: None,
    *,
    float_decimals: bool = False,
) -> Node | None:
    """Return the layout of a column with this field.

    Args:
        field: of the schema.
        chosen: names of tensors, or of parts that contain them; None for all.
        left_out: is filled with the error of each part that no tensor can hold.
        name: of the tensor; None for the name of the column.
        words: returns the words of dictionaries.
        float_decimals: whether decimals that may exceed 64 bits are read as float64.

    Returns:
        None if no part of it was chosen, or a tensor can hold none.
    """
    column = name_of(field.name)
    found = _Reading(chosen, left_out, words, float_decimals=float_decimals)
    return found.node(field, _Part(name or column, (Field(column, 0),)))


def places(node: Node, keys: tuple[str, ...] = ()) -> Iterator[Place]:
    """Yield the tensors below a node, in order, with those that store which records are null."""
    if isinstance(node, Leaf):
        yield Place(node, keys)
    elif isinstance(node, Level):
        yield from places(node.below, (*keys, node.key))
    else:
        for _, below in node.fields:
            yield from places(below, keys)
        if node.present is not None:
            yield Place(node.present, keys)


@dataclass(frozen=True)
class _Part:
    """Where a field is in its column.

    Attributes:
        name: of the part of the column.
        path: the column, and the fields of structs.
        depth: number of enclosing types.
        levels: number of levels above.
        nullable: whether it, or an enclosing list or struct, may be null.
    """

    name: str
    path: tuple[Field, ...]
    depth: int = 0
    levels: int = 0
    nullable: bool = False


class _Reading:
    """Converts fields to nodes; see node_of."""

    def __init__(
        self,
        chosen: tuple[str, ...] | None,
        left_out: LeftOut,
        words: Words,
        *,
        float_decimals: bool,
    ) -> None:
        self._chosen = None if chosen is None else frozenset(chosen)
        self._words = words
        self._left_out = left_out
        self._float_decimals = float_decimals

    def node(self, field: pa.Field, part: _Part) -> Node | None:
        """Return the layout of a field of a column, a struct or a list."""
        try:
            return self._node(field, part)
        except (UnsupportedError, InvalidDataError) as error:
            self._left_out[part.name] = error
            return None

    def _node(self, field: pa.Field, part: _Part) -> Node | None:
        kind, name, path, depth = field.type, part.name, part.path, part.depth
        if depth > MOST_LEVELS:
            raise UnsupportedError(f"column {shown(name)}: nested deeper than {MOST_LEVELS} levels")
        # A dictionary may hold nulls; some writers declare columns of the null type without them.
        optional = field.nullable or plain_type(kind) != kind or types.is_null(kind)
        nullable = part.nullable or optional
        part = replace(part, nullable=nullable)
        if types.is_struct(plain_type(kind)):
            path = (*path[:-1], replace(path[-1], required=not optional))
            return self._record(plain_type(kind), replace(part, path=path))
        own = path if len(path) > 1 or path[0].name != name else ()
        row = _row(kind, name, self._words) if self._is_chosen(name) else None
        if row is not None:
            unit = row.marks.unit
            wide = isinstance(unit, Decimals) and unit.precision > DECIMAL_DIGITS[64]
            if wide and self._float_decimals:
                row = replace(row, dtype=np.dtype(np.float64), marks=NO_MARKS)
            return replace(row, nullable=nullable, marks=replace(row.marks, fields=own))
        item = item_field(kind)
        if item is not None:
            below = self.node(item, replace(part, depth=depth + 1, levels=part.levels + 1))
            return None if below is None else Level(f"{name}/{depth}", below)
        if not self._is_chosen(name):
            return None
        if is_bytes(kind):
            marks = replace(TEXT if is_unicode(plain_type(kind)) else BYTES, fields=own)
            return Level(f"{name}/{depth}", Leaf(name, _BYTES, marks=marks, nullable=nullable))
        raise UnsupportedError(f"column {shown(name)}: tensors cannot hold the Arrow type {kind}")

    def _record(self, kind: Any, part: _Part) -> Node | None:
        fields, seen = [], set[str]()
        path, levels = part.path, part.levels
        name = part.name if len(path) > 1 else undotted(part.name)
        for number in range(kind.num_fields):
            inner = kind.field(number)
            field = Field(name_of(inner.name), levels)
            called = f"{name}.{undotted(field.name)}"
            check_name(called)
            if called in seen:
                raise InvalidDataError(f"two fields are named {shown(called)}")
            seen.add(called)
            place = replace(part, name=called, path=(*path, field), depth=part.depth + 1)
            below = self.node(inner, place)
            if below is not None:
                fields.append((number, below))
        if kind.num_fields == 0 and self._is_chosen(name):
            raise UnsupportedError(f"column {shown(name)}: a struct without fields has no values")
        required = path[-1].required
        own = presence_name(one.removeprefix(f"{name}.") for one in seen)
        told = None
        if not required and self._is_chosen(f"{name}.{own}"):
            marks = Marks(fields=(*path, Field(own, levels, present=True)))
            told = Leaf(f"{name}.{own}", _BOOL, marks=marks, nullable=part.nullable and levels > 0)
        return Record(name, tuple(fields), required, told) if fields or told else None

    def _is_chosen(self, name: str) -> bool:
        return self._chosen is None or not self._chosen.isdisjoint(_around(name))


def item_field(kind: pa.DataType) -> pa.Field | None:
    """Return the field of the items of a list type, None for other types."""
    kind = plain_type(kind)
    if types.is_map(kind):
        both = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
        return pa.field("entries", pa.struct(both), nullable=False)
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, is_list_view)
    return kind.value_field if any(is_one(kind) for is_one in lists) else None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values without encodings and extensions, except booleans of a byte."""
    while True:
        if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.Bool8Type):
            kind = kind.storage_type
        elif types.is_dictionary(kind) or types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values are text or bytes of any length."""
    kind = plain_type(kind)
    return is_text(kind) or is_view(kind)


def code_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of the codes of dictionary-encoded text, None for other values."""
    if not types.is_dictionary(kind):
        return None
    value = kind.value_type
    return kind.index_type if is_unicode(value) else None


def has_dictionary(kind: pa.DataType) -> bool:
    """Return whether a type contains dictionary-encoded text."""
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if types.is_dictionary(kind):
        return code_type(kind) is not None or has_dictionary(kind.value_type)
    return any(map(has_dictionary, inner_types(kind)))


def _row(kind: pa.DataType, name: str, words: Words) -> Leaf | None:
    """Return the layout of rows of this type, None if it has levels or is not numeric."""
    shape: tuple[int, ...] = ()
    while True:
        codes = code_type(kind)
        categories = None if codes is None else words(name)
        if codes is not None and categories is not None:
            categories = replace(categories, ordered=kind.ordered)  # also if there are no words
            return Leaf(name, number_dtype(codes), shape, marks=Marks(unit=categories))
        if isinstance(kind, pa.FixedShapeTensorType):
            order = _order(kind, name, len(shape))
            shape += tuple(kind.shape)
            if order is not None:
                shape = tuple(shape[axis] for axis in order)
            leaf = _leaf(name, kind.value_type, shape, order)
            if leaf is None and len(kind.shape) > 1:
                raise UnsupportedError(
                    f"column {shown(name)}: found tensors of {kind.value_type} of shape "
                    f"{kind.shape}; lod reads those of numbers, booleans and times, and lists"
                )
            return leaf
        kind = plain_type(kind)
        if types.is_fixed_size_binary(kind):
            return Leaf(name, np.dtype(np.uint8), (*shape, kind.byte_width))
        if not types.is_fixed_size_list(kind):
            return _leaf(name, kind, shape)
        shape += (kind.list_size,)
        kind = kind.value_type


def _leaf(
    name: str, kind: pa.DataType, shape: tuple[int, ...], order: tuple[int, ...] | None = None
) -> Leaf | None:
    """Return the layout of rows of values of this type, None if they are not numbers."""
    if types.is_null(kind):
        return Leaf(name, _BOOL, shape, order, valueless=True)
    if isinstance(kind, pa.Bool8Type):
        return Leaf(name, _BOOL, shape, order)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return Leaf(name, number_dtype(kind), shape, order)
    marks = marks_of(kind)
    return None if marks is None else Leaf(name, np.dtype(np.int64), shape, order, marks)


def _order(kind: Any, name: str, above: int) -> tuple[int, ...] | None:
    """Return the order of the axes of a row in memory; None if they are not permuted."""
    order = kind.permutation
    if order is None or list(order) == sorted(order):
        return None
    if any(order[order[axis]] != axis for axis in order):
        # With other permutations pyarrow does not read back the arrays that it wrote.
        raise UnsupportedError(
            f"column {shown(name)}: the axes of its tensors are permuted as {list(order)}, which "
            "programs interpret differently; write the tensors without a permutation"
        )
    return (*range(above), *(above + axis for axis in order))


def names_in_structs(schema: pa.Schema) -> set[str]:
    """Return the names of all tensors that are fields of structs."""
    nested = (field for field in schema if types.is_nested(plain_type(field.type)))
    nodes = [node_of(field, None, {}) for field in nested]
    return {
        place.leaf.name
        for node in nodes
        if node is not None
        for place in places(node)
        if place.leaf.marks.fields
    }


def records(node: Node) -> Iterator[Record]:
    """Yield the structs below a node, in order."""
    if isinstance(node, Level):
        yield from records(node.below)
    elif isinstance(node, Record):
        yield node
        for _, below in node.fields:
            yield from records(below)


def leaf_field(field: pa.Field, path: Sequence[Field]) -> pa.Field:
    """Return the field of a tensor inside the structs of a column."""
    for one in path[1:]:
        kind = field.type
        while (item := item_field(kind)) is not None:
            kind = item.type
        kind = plain_type(kind)
        place = kind.get_field_index(one.name)  # -1 if its name in the file is another
        field = (
            kind.field(place)
            if place >= 0
            else next(inner for inner in kind if name_of(inner.name) == one.name)
        )
    return field


def level_names(field: pa.Field, path: Sequence[Field], depth: int) -> tuple[str | None, ...]:
    """Return the level names from a field's metadata, where lod writes them; None elsewhere.

    Args:
        field: of the column.
        path: of the tensor; () for a column without structs.
        depth: how many levels it has.
    """
    nameless = (None,) * depth
    field = leaf_field(field, path)
    try:
        names = json.loads((field.metadata or {}).get(NAMES_KEY, b"[]"))
    except (ValueError, RecursionError):
        return nameless
    if not isinstance(names, list) or len(names) != depth:
        return nameless
    if not all(name is None or (isinstance(name, str) and is_level_name(name)) for name in names):
        return nameless
    return tuple(names)


def doubled(schema: pa.Schema) -> LeftOut:
    """Return an error for each duplicate column name."""
    return {
        name: InvalidDataError(f"two columns are named {shown(name)}")
        for name in repeated(map(name_of, schema.names))
    }


def check_chosen(schema: pa.Schema, chosen: tuple[str, ...] | None) -> None:
    """Raise an error if there are no columns, or a chosen one is missing or chosen twice."""
    if not schema.names:
        raise InvalidDataError("has no columns")
    known_parts = _parts(schema) if chosen else set[str]()
    for one in chosen or ():
        if one not in known_parts:
            known = there_are(map(name_of, schema.names), one)
            raise SelectionError(f"no column {shown(one)}; {known}")
    if chosen is not None and len(set(chosen)) < len(chosen):
        raise SelectionError(f"a column is chosen twice: {', '.join(chosen)}")


def _parts(schema: pa.Schema) -> set[str]:
    """Return the names of all parts of the columns, also of those that no tensor can hold."""
    left_out: LeftOut = {}
    nodes = [node_of(field, None, left_out) for field in schema]
    found = [place.leaf.name for node in nodes if node is not None for place in places(node)]
    return {one for name in (*found, *left_out) for one in _around(name)}


def _around(name: str) -> Iterator[str]:
    """Return the names of the parts of a column that a part is inside, and its own."""
    return accumulate(name.split("."), "{}.{}".format)


def is_within(name: str, other: str) -> bool:
    """Return whether a part of a column is another part, or inside it."""
    return name == other or name.startswith(f"{other}.")
