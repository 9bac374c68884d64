"""Tensors of a file as records: the tree of columns and fields that their marks describe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.marks import Field


@dataclass(frozen=True)
class Node:
    """A column, or a field of records.

    Attributes:
        name: of the column or field.
        level: at which it begins.
        spec: the tensor, if it is one; None for records.
        fields: of the records, in order; () for a tensor.
        inner: the level of the records, which is the number of levels above them.
        required: whether no record is null.
        present: the tensor that stores which records are null; None: those with only null fields
            are.
    """

    name: str
    level: int
    spec: TensorSpec | None = None
    fields: tuple[Node, ...] = ()
    inner: int = 0
    required: bool = False
    present: Node | None = None

    @property
    def specs(self) -> Iterator[TensorSpec]:
        """The tensors of the node, in order."""
        if self.spec is not None:
            yield self.spec
        for node in self.parts:
            yield from node.specs

    @property
    def parts(self) -> tuple[Node, ...]:
        """The fields of the records, and the tensor that stores which records are null."""
        return self.fields if self.present is None else (*self.fields, self.present)

    def __str__(self) -> str:
        if self.spec is not None:
            return self.name
        lists = "[]" * (self.inner - self.level)
        return f"{self.name}{lists}{{{listing(map(str, self.fields))}}}"


def path_of(spec: TensorSpec) -> tuple[Field, ...]:
    """Return the column and the fields of a tensor; without marks it is a column of its name."""
    return spec.marks.fields or (Field(spec.name, 0),)


def tree(schema: Schema) -> tuple[Node, ...]:
    """Return the columns of a file, each a tensor or records.

    Raises:
        InvalidDataError: the tensors do not form a tree; names one that does not fit.
    """
    return _nodes(schema, 0)


def check_tree(schema: Schema, where: str) -> None:
    """Raise DamagedFileError unless the tensors of a file form a tree."""
    if any(spec.marks.fields for spec in schema):
        try:
            tree(schema)
        except InvalidDataError as error:
            raise DamagedFileError(f"{where}: fields: {error}") from None


def _nodes(specs: Iterable[TensorSpec], depth: int) -> tuple[Node, ...]:
    found: dict[str, list[TensorSpec]] = {}
    for spec in specs:
        found.setdefault(path_of(spec)[depth].name, []).append(spec)
    return tuple(_node(group, depth) for group in found.values())


def _node(specs: Sequence[TensorSpec], depth: int) -> Node:
    """Return the node of tensors whose paths agree up to a field."""
    first = specs[0]
    field = path_of(first)[depth]
    if len(path_of(first)) == depth + 1:
        if len(specs) > 1:
            raise InvalidDataError(
                f"{first.name} and {specs[1].name} are the same column or field, {field.name}"
            )
        return Node(field.name, field.level, first)
    for spec in specs:
        path = path_of(spec)
        if len(path) == depth + 1:
            raise InvalidDataError(
                f"{spec.name} is the column or field {field.name}, which holds records as well: "
                f"{first.name}"
            )
        if path[depth] != field or path[depth + 1].level != path_of(first)[depth + 1].level:
            raise InvalidDataError(
                f"{first.name} and {spec.name} do not agree on the levels of {field.name}"
            )
    inner = path_of(first)[depth + 1].level
    above = [level.key for level in first.levels[:inner]]
    for spec in specs:
        if [level.key for level in spec.levels[:inner]] != above:
            raise InvalidDataError(
                f"{first.name} and {spec.name} are fields of {field.name} and do not share the "
                f"{inner} levels above it"
            )
    fields = _nodes(specs, depth + 1)
    told = [one for one in fields if one.spec is not None and one.spec.marks.tells_records]
    if not told or len(fields) == 1:  # alone it is an ordinary field
        return Node(field.name, field.level, None, fields, inner, field.required)
    if len(told) > 1 or field.required:
        others = "none is" if field.required else f"so does field {told[1].name}"
        raise InvalidDataError(f"{next(told[0].specs).name} marks which records are null; {others}")
    rest = tuple(one for one in fields if one is not told[0])
    return Node(field.name, field.level, None, rest, inner, present=told[0])


def flattened(schema: Schema, columns: Iterable[str]) -> Schema:
    """Return the schema with the tensors of some columns as separate columns."""
    dropped = set(columns)
    return tuple(
        replace(spec, marks=replace(spec.marks, fields=()))
        if spec.marks.fields and spec.marks.fields[0].name in dropped
        else spec
        for spec in schema
    )


def broken_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns of records whose tensors no longer form a tree, in order."""
    groups: dict[str, list[TensorSpec]] = {}
    for spec in schema:
        groups.setdefault(path_of(spec)[0].name, []).append(spec)
    found = []
    for name, specs in groups.items():
        if any(spec.marks.fields for spec in specs):
            try:
                tree(tuple(specs))
            except InvalidDataError:
                found.append(name)
    return tuple(found)


def record_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns that hold records, in order."""
    return tuple(
        dict.fromkeys(spec.marks.fields[0].name for spec in schema if len(spec.marks.fields) > 1)
    )
