"""Converts objects in the values of JSON lines to records: a tensor per field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from lodcli.formats.core.names import check_name, name_of, presence_name, repeated, shown, undotted
from lodcli.formats.core.options import choose_others
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.options import option
from lodcli.kernels.tensor.marks import Field

MOST_DEPTH = 64
# Kinds of empty objects that occur: null, objects with only nulls, or both.
NULL, HOLLOW, BOTH = "null", "an object of nothing but nulls", "both"


@dataclass(frozen=True)
class Inside:
    """Objects that contain a value as a field.

    Attributes:
        name: of the records, as in `--field`.
        lists: number of lists above the objects.
        key: of the field; None for the tensor that stores which objects are not null.
        known: the fields that the objects may have.
    """

    name: str
    lists: int
    key: str | None
    known: frozenset[str]


@dataclass(frozen=True)
class Leaf:
    """The values of one tensor, one per line: nested lists of numbers or text.

    Attributes:
        values: of some lines.
        fields: the path of its marks; () outside of records.
        inside: the records it is in, outermost first.
    """

    name: str
    values: list[Any]
    fields: tuple[Field, ...] = ()
    inside: tuple[Inside, ...] = ()

    @property
    def tells_records(self) -> bool:
        """Whether the values are True for objects and False for null."""
        return bool(self.inside) and self.inside[-1].key is None

    def owner(self, level: int) -> str:
        """Return the name of the outermost records, or the tensor, that a level belongs to."""
        for records, below in zip(self.inside, self.fields[1:], strict=True):
            if level < below.level:
                return records.name
        return self.name


def leaves(values: list[Any], field: str, nulls: NullObjects | None) -> Iterator[Leaf]:
    """Yield the tensors of a field of lines: one, or those of its objects.

    Args:
        values: of the field, from the first line on.
        field: its name in the lines.
        nulls: collects which objects are null, and which hold only nulls; None: they are not
            distinguished.

    Raises:
        InvalidDataError: objects without any fields; names the line.
    """
    name = name_of(field)
    found = list(_leaves(Leaf(name, values), (Field(name, 0),)))
    if nulls is not None:
        checked: set[str] = set()
        for leaf in found:
            if not leaf.tells_records:
                nulls.check(values, leaf.inside, 1, checked, first_lines=True)
    for leaf in found:
        told = None if nulls is None else [nulls.found.get(one.name) for one in leaf.inside]
        if leaf.tells_records and (told is None or told[-1] != BOTH):
            continue
        if told:
            above = zip(leaf.fields, told, strict=False)
            fields = tuple(replace(one, required=said == HOLLOW) for one, said in above)
            leaf = replace(leaf, fields=(*fields, leaf.fields[-1]))
        yield leaf


def _leaves(leaf: Leaf, path: tuple[Field, ...]) -> Iterator[Leaf]:
    found = _fields(leaf.values)
    if found is None:
        yield replace(leaf, fields=path) if leaf.inside else leaf
        return
    lists, keys = found
    if not keys:
        raise InvalidDataError(
            f"field {shown(leaf.name)}: an object without fields has no values; "
            f"{choose_others('the fields to read')}"
        )
    if len(leaf.inside) == MOST_DEPTH:
        raise InvalidDataError(f"field {shown(leaf.name)}: nested deeper than {MOST_DEPTH} objects")
    names = list(map(name_of, keys))
    for called in repeated(names):
        what = f"two fields are named {shown(called)}"
        raise InvalidDataError(f"field {shown(leaf.name)}: {what}")
    above = leaf.name if leaf.inside else undotted(leaf.name)
    known = frozenset(keys)
    for key, called in zip(keys, names, strict=True):
        name = f"{above}.{undotted(called)}"
        check_name(name)
        step = Inside(above, lists, key, known)
        inner = Leaf(name, picked(leaf.values, step, 1), inside=(*leaf.inside, step))
        yield from _leaves(inner, (*path, Field(called, lists)))
    called = presence_name(names)
    step = Inside(above, lists, None, known)
    told = picked(leaf.values, step, 1)
    fields = (*path, Field(called, lists, present=True))
    yield Leaf(f"{above}.{called}", told, fields, (*leaf.inside, step))


def _fields(values: list[Any]) -> tuple[int, list[str]] | None:
    """Return the number of lists above objects, and all their fields; None for other values."""
    lists = 0
    while values:
        first = next((value for value in values if value is not None), None)
        if type(first) is dict:
            objects = (value for value in values if type(value) is dict)
            return lists, list(dict.fromkeys(chain.from_iterable(objects)))
        if type(first) is not list or lists == MOST_DEPTH:
            return None
        values = list(chain.from_iterable(value for value in values if type(value) is list))
        lists += 1
    return None


def picked(values: list[Any], step: Inside, first: int, *, nullable: bool = True) -> list[Any]:
    """Return one field of the objects in values, null where they are null or lack it.

    Args:
        values: of lines, the first of which has the number `first`.
        step: describes the objects and the field.
        nullable: whether a field may be null.

    Raises:
        InvalidDataError: a value is not an object, or has other fields; names the line.
    """
    key, size = step.key, len(step.known)

    def of(value: Any, lists: int, line: int) -> Any:
        if lists:
            if type(value) is list:
                return [of(one, lists - 1, line) for one in value]
        elif type(value) is dict and len(value) == size and key in value:
            return value[key]
        return _picked_with_care(value, step, lists, line, nullable)

    return [of(value, step.lists, number) for number, value in enumerate(values, first)]


def _picked_with_care(value: Any, step: Inside, lists: int, line: int, nullable: bool) -> Any:
    """Return the field of an object that is null or lacks fields; see `picked` for errors."""
    if value is None:
        return None if lists or step.key is not None else False
    if lists or type(value) is not dict:
        expected = "a list" if lists else "an object"
        raise _misfit(step, line, f"expected {expected}, found {kind_of(value)}")
    if step.key is None:
        return True
    other = next((key for key in value if key not in step.known), None)
    if other is not None:
        found = f"an object has a field {shown(other)}, which none of the first objects has"
        raise _misfit(step, line, found)
    if step.key not in value and not nullable:
        keeps = f"{option('nulls', 'keep')} reads it as null"
        found = f"an object has no field {shown(step.key)}; {keeps}"
        raise _misfit(step, line, found)
    return value.get(step.key)


def _misfit(step: Inside, line: int, found: str) -> InvalidDataError:
    return InvalidDataError(f"line {line}: field {shown(step.name)}: {found}")


class NullObjects:
    """Distinguishes null objects from objects with only nulls.

    Args:
        both: whether all records may have both kinds, even if the first lines have one.

    Attributes:
        found: the kinds that occur, by the name of the records: NULL, HOLLOW or BOTH. For BOTH, a
            tensor stores which are null.
    """

    def __init__(self, *, both: bool = False) -> None:
        self.found: dict[str, str] = {}
        self._both = both

    def settle(self, columns: Iterable[tuple[Inside, ...]]) -> None:
        """Treat records with neither kind in the first lines as records that may be null."""
        for inside in columns:
            for step in inside:
                self.found.setdefault(step.name, NULL)

    def check(
        self,
        values: list[Any],
        inside: tuple[Inside, ...],
        first: int,
        checked: set[str],
        *,
        first_lines: bool = False,
    ) -> None:
        """Classify the objects of a tensor in lines, the first of which has the number `first`.

        Args:
            inside: the records that the tensor is in.
            first: line.
            checked: the records that were classified in these lines before; adds those of the
                tensor.
            first_lines: whether a second kind may be added; else it is an error.

        Raises:
            InvalidDataError: there are both kinds, and no tensor stores which are null; names the
                line.
        """
        done = sum(step.name in checked for step in inside)
        if done == len(inside):
            return
        checked.update(step.name for step in inside)
        for number, value in enumerate(values, first):
            objects, above = [value], 0
            for place, step in enumerate(inside):
                for _ in range(step.lists - above):
                    objects = list(chain.from_iterable(one for one in objects if one is not None))
                if place >= done:
                    self._classify(step.name, objects, number, first_lines)
                objects = [one.get(step.key) for one in objects if one is not None]
                above = step.lists

    def _classify(
        self, name: str, objects: list[dict[str, Any] | None], line: int, first_lines: bool
    ) -> None:
        if self._both and first_lines:
            self.found[name] = BOTH
        for one in objects:
            if one is None or _is_hollow(one):
                self._note(name, NULL if one is None else HOLLOW, line, first_lines)

    def _note(self, name: str, kind: str, line: int, first_lines: bool) -> None:
        known = self.found.setdefault(name, kind)
        if known in (kind, BOTH):
            return
        if first_lines:
            self.found[name] = BOTH
            return
        raise InvalidDataError(
            f"line {line}: field {shown(name)}: {kind}, which the first lines do not have; "
            f"{option('nulls', 'keep')} distinguishes null objects from objects of nulls only, "
            "zero or drop replaces both"
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
