"""Chooses and renames tensors and records by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from lodcli.formats.core.names import check_name, repeated
from lodcli.formats.core.schema import Schema, TensorSpec, by_name, find
from lodcli.kernels.errors import InvalidDataError, OptionError, SelectionError
from lodcli.kernels.tensor.marks import Field


def named(schema: Schema, name: str) -> tuple[TensorSpec, ...]:
    """Return the tensor of a name, or those of the records of that name, in order.

    Raises:
        SelectionError: there is neither.
    """
    if (found := by_name(schema).get(name)) is not None:
        return (found,)
    return tuple(spec for spec in schema if within(spec, name)) or (find(schema, name),)


def named_below(schema: Schema, name: str) -> tuple[TensorSpec, ...]:
    """Return `named` of the items of a level, which are no longer in the records of that name.

    Raises:
        SelectionError: see `named`.
    """
    fields = tuple(spec for spec in schema if spec.name.startswith(f"{name}."))
    return named(schema, name) if name in by_name(schema) or not fields else fields


def renamed(schema: Schema, names: Mapping[str, str]) -> Schema:
    """Return the schema with other names of tensors and records.

    A tensor in records gets another field name, or becomes a column.

    Raises:
        SelectionError: there is no such tensor, records would have to move, or two tensors would
            have one name.
        OptionError: no tensor can have the new name.
    """
    for old, new in names.items():
        named(schema, old)
        try:
            check_name(new)
        except InvalidDataError as error:
            raise OptionError(str(error)) from None  # the name is from an option, not from a file
    found = tuple(_renamed(spec, names) for spec in schema)
    for name in repeated(spec.name for spec in found) if names else ():
        raise SelectionError(f"two tensors would be called {name}")
    return found


def _renamed(spec: TensorSpec, names: Mapping[str, str]) -> TensorSpec:
    fields = spec.marks.fields
    new = names.get(spec.name)
    if new is None:
        for depth, old in enumerate(records_above(spec), 1):
            if old not in names:
                continue
            last = _last(names[old], fields[: depth - 1])
            if last is None:
                raise SelectionError(
                    f"the records {old} cannot be called {names[old]}: only their own name, the "
                    "last, can change"
                )
            changed = (*fields[: depth - 1], replace(fields[depth - 1], name=last))
            name = f"{names[old]}{spec.name.removeprefix(old)}"
            marks = replace(spec.marks, fields=(*changed, *fields[depth:]))
            return replace(spec, name=name, marks=marks)
        return spec
    last = _last(new, fields[:-1])
    if last is None or len(fields) < 2:
        return replace(spec, name=new, marks=replace(spec.marks, fields=()))
    changed = (*fields[:-1], replace(fields[-1], name=last))
    return replace(spec, name=new, marks=replace(spec.marks, fields=changed))


def _last(name: str, above: Sequence[Field]) -> str | None:
    """Return a name without the names of the fields above; None if it is not below them."""
    prefix = "".join(f"{field.name}." for field in above)
    return name.removeprefix(prefix) or None if name.startswith(prefix) else None


def records_above(spec: TensorSpec) -> list[str]:
    """Return the names of the records that a tensor is in, outermost first.

    >>> from lodcli.kernels.tensor.marks import Marks
    >>> import numpy as np
    >>> marks = Marks(fields=(Field("s", 0), Field("t", 0), Field("x", 0)))
    >>> records_above(TensorSpec("s.t.x", np.dtype(np.int64), marks=marks))
    ['s', 's.t']
    """
    return list(accumulate((field.name for field in spec.marks.fields[:-1]), "{}.{}".format))


def names_without_told(schema: Schema) -> list[str]:
    """Return the names of all tensors but those that store which records are null."""
    return [spec.name for spec in schema if not spec.marks.tells_records]


def within(spec: TensorSpec, name: str) -> int:
    """Return how many leading fields of a tensor's path form the name of records; 0 if none do.

    >>> from lodcli.kernels.tensor.marks import Marks
    >>> import numpy as np
    >>> marks = Marks(fields=(Field("s", 0), Field("t", 0), Field("x", 0)))
    >>> within(TensorSpec("s.t.x", np.dtype(np.int64), marks=marks), "s.t")
    2
    """
    above = records_above(spec)
    return above.index(name) + 1 if name in above else 0
