"""Objects inside the values of JSON lines, as records: their fields, each with the lists above."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from lodcli.formats.core.names import check_name, name_of, undotted
from lodcli.formats.text.lines import shown
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.marks import Field

MOST_DEPTH = 64


@dataclass(frozen=True)
class Inside:
    """Objects that a value is a field of.

    Attributes:
        name: of the records, as `--field` knows them.
        lists: how many lists are above the objects.
        key: of the field.
        known: the fields that the objects have.
    """

    name: str
    lists: int
    key: str
    known: frozenset[str]


@dataclass(frozen=True)
class Leaf:
    """The values of one tensor, one a line: lists, down to numbers or text.

    Attributes:
        name: of the tensor.
        values: of some lines.
        fields: the path of its marks; () outside of records.
        inside: the records it is in, outermost first.
    """

    name: str
    values: list[Any]
    fields: tuple[Field, ...] = ()
    inside: tuple[Inside, ...] = ()

    def owner(self, level: int) -> str:
        """Return the name of the outermost records, or the tensor, that a level belongs to."""
        for records, below in zip(self.inside, self.fields[1:], strict=True):
            if level < below.level:
                return records.name
        return self.name


def leaves(values: list[Any], field: str, *, nulls: bool) -> Iterator[Leaf]:
    """Yield the tensors of a field of lines: one, or those of its objects.

    Args:
        values: of the field, from the first line on.
        field: as the lines call it.
        nulls: whether null objects shall be told from others.

    Raises:
        InvalidDataError: objects with other fields than the first, or none; names the line.
    """
    name = name_of(field)
    for leaf in _leaves(Leaf(name, values), (Field(name, 0),)):
        if not nulls or not leaf.inside:
            yield leaf
            continue
        kinds = NullObjects()
        kinds.check(values, leaf.inside, 1)
        yield replace(
            leaf,
            fields=tuple(
                replace(one, required=kinds.found.get(records.name) is False)
                for one, records in zip(leaf.fields, leaf.inside, strict=False)
            )
            + leaf.fields[-1:],
        )


def _leaves(leaf: Leaf, path: tuple[Field, ...]) -> Iterator[Leaf]:
    found = _first_object(leaf.values)
    if found is None:
        yield replace(leaf, fields=path) if leaf.inside else leaf
        return
    lists, first = found
    if not first:
        raise InvalidDataError(
            f"field {shown(leaf.name)}: an object without fields has no values; choose the fields "
            "to read with --field, or the rest with --skip-unsupported"
        )
    if len(leaf.inside) == MOST_DEPTH:
        raise InvalidDataError(f"field {shown(leaf.name)}: nested deeper than {MOST_DEPTH} objects")
    names = list(map(name_of, first))
    above = leaf.name if leaf.inside else undotted(leaf.name)
    for key, called in zip(first, names, strict=True):
        if names.count(called) > 1:
            what = f"two fields are named {shown(called)}"
            raise InvalidDataError(f"field {shown(leaf.name)}: {what}")
        name = f"{above}.{undotted(called)}"
        check_name(name)
        step = Inside(above, lists, key, frozenset(first))
        inner = Leaf(name, picked(leaf.values, step, 1), inside=(*leaf.inside, step))
        yield from _leaves(inner, (*path, Field(called, lists)))


def _first_object(values: list[Any]) -> tuple[int, dict[str, Any]] | None:
    """Return the first object in lists, and how many are above it; None if other values come."""
    lists = 0
    while values:
        values = [value for value in values if value is not None]
        if values and type(values[0]) is dict:
            return lists, values[0]
        if not values or type(values[0]) is not list or lists == MOST_DEPTH:
            return None
        values = list(chain.from_iterable(value for value in values if type(value) is list))
        lists += 1
    return None


def picked(values: list[Any], step: Inside, first: int) -> list[Any]:
    """Return one field of the objects in values, null where they are null.

    Args:
        values: of lines, the first of which has the number `first`.
        step: which objects, and which field.

    Raises:
        InvalidDataError: no object, or one with other fields; names the line.
    """
    return [_picked(value, step, step.lists, number) for number, value in enumerate(values, first)]


def _picked(value: Any, step: Inside, lists: int, line: int) -> Any:
    if value is None:
        return None
    where = f"line {line}: field {shown(step.name)}"
    if lists:
        if type(value) is not list:
            raise InvalidDataError(f"{where}: expected a list, found {kind_of(value)}")
        return [_picked(one, step, lists - 1, line) for one in value]
    if type(value) is not dict:
        raise InvalidDataError(f"{where}: expected an object, found {kind_of(value)}")
    if step.key not in value or len(value) != len(step.known):
        if missing := step.known - value.keys():
            what = f"an object has no field {shown(min(missing))}, others have"
            raise InvalidDataError(f"{where}: {what}")
        other = next(key for key in value if key not in step.known)
        raise InvalidDataError(
            f"{where}: an object has a field {shown(other)}, which the first has not"
        )
    return value[step.key]


class NullObjects:
    """Tells null objects from such that hold nothing but nulls: tensors hold no difference.

    Attributes:
        found: by the name of records, whether some are null (True), or none is, and some hold
            nothing but nulls (False).
    """

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}

    def check(self, values: list[Any], inside: tuple[Inside, ...], first: int) -> None:
        """Look at the objects of a tensor in lines, the first of which has the number `first`.

        Raises:
            InvalidDataError: there are both; names the line.
        """
        for number, value in enumerate(values, first):
            objects, above = [value], 0
            for step in inside:
                for _ in range(step.lists - above):
                    objects = list(chain.from_iterable(one for one in objects if one is not None))
                for one in objects:
                    if one is None or _is_hollow(one):
                        self._note(step.name, one is None, number)
                objects = [one[step.key] for one in objects if one is not None]
                above = step.lists

    def _note(self, name: str, is_null: bool, line: int) -> None:
        if self.found.setdefault(name, is_null) != is_null:
            what = "null" if is_null else "an object of nothing but nulls"
            other = "an object of nothing but nulls" if is_null else "null"
            raise InvalidDataError(
                f"line {line}: field {shown(name)}: {what}, another is {other}, and tensors hold "
                "no difference; --nulls zero or drop replaces both"
            )


def _is_hollow(value: dict[str, Any]) -> bool:
    return all(one is None or (type(one) is dict and _is_hollow(one)) for one in value.values())


def kind_of(value: object) -> str:
    """Return the JSON type of a value, in words."""
    if type(value) is list:
        return "a list"
    if type(value) is dict:
        return "an object"
    if type(value) is str:
        return "text"
    if value is None or type(value) is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if type(value) is int and value.bit_length() > 200:
        return "an integer that is too large"
    return repr(value)
