"""Common code of the commands that choose items: opening a level, notes, and errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from lodcli.formats.core.batching import groups
from lodcli.formats.core.errors import naming_source
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Schema, find_all
from lodcli.formats.items.indexed_copy import in_place, indexed
from lodcli.formats.items.items import Items
from lodcli.formats.items.items_in_order import ItemsInOrder
from lodcli.formats.items.sharing import Shared, sharing
from lodcli.formats.items.streaming import item_batches
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.opened import Opened, opened
from lodcli.shell.output import note
from lodcli.shell.references import Reference

Batches = Iterator[dict[str, LoDTensor]]
B = TypeVar("B")


@contextmanager
def items_of(
    reference: Reference, level: int | str | None, used: Sequence[str] = ()
) -> Iterator[Items]:
    """Open a file and yield the items of a level, to be read in any order."""
    with opened(reference) as file, _items(file, level, used) as (_, items):
        yield items


@contextmanager
def increasing_items_of(
    reference: Reference, level: int | str | None
) -> Iterator[Items | ItemsInOrder]:
    """Open a file and yield the items of a level, to be read by increasing numbers."""
    with opened(reference) as file:
        source = file.source
        if source.records:
            shared = sharing(source.schema, reference.name, level, records=True)
            if (found := ItemsInOrder.of(source, shared)) is not None:
                yield found
                return
        with _items(file, level, ()) as (_, items):
            yield items


@contextmanager
def items_or_stream(
    reference: Reference, level: int | str | None, used: Sequence[str] = (), *, only: bool = False
) -> Iterator[tuple[Shared, Items | None, Batches]]:
    """Open a file and yield the items of a level, or only their batches if it is read in order.

    Args:
        level: its number or name; None: the outermost.
        used: names of tensors, at least one of which shares the level.
        only: whether no other tensors are read.

    Yields:
        The level, its items or None, and all batches.
    """
    with opened(reference) as file, items_or_batches(file, level, used, only=only) as found:
        yield found


@contextmanager
def items_or_batches(
    file: Opened, level: int | str | None, used: Sequence[str], *, only: bool = False
) -> Iterator[tuple[Shared, Items | None, Batches]]:
    """Yield the items of a level of an open file; see `items_or_stream`."""
    schema, reference = file.source.schema, file.reference
    names = _names(schema, used, only=only)
    # Only at the end of a stream is it known whether tensors without a common level have as many
    # items.
    records = file.source.records
    apart = len(groups(find_all(schema, names))) > 1 and not records
    if apart or in_place(file.source, names) is not None:
        with _items(file, level, used, only=only) as (shared, items):
            yield shared, items, named(reference, items.range(0, items.count))
    else:
        shared = _shared(schema, reference, level, used, records=records, only=only)
        yield shared, None, named(reference, item_batches(file.source, shared))


@contextmanager
def _items(
    file: Opened, level: int | str | None, used: Sequence[str], *, only: bool = False
) -> Iterator[tuple[Shared, Items]]:
    with indexed(file.source, _names(file.source.schema, used, only=only)) as source:
        shared = _shared(source.schema, file.reference, level, used, only=only)
        yield shared, Items(source, shared)


def _names(schema: Schema, used: Sequence[str], *, only: bool) -> list[str]:
    """Return the names of the tensors that are read."""
    return list(used) if only else [spec.name for spec in schema]


def _shared(
    schema: Schema,
    reference: Reference,
    level: int | str | None,
    used: Sequence[str],
    *,
    records: bool = False,
    only: bool = False,
) -> Shared:
    """Return the tensors of a file that share a level, and note which do not.

    Raises:
        SelectionError: with `only`, a used tensor that does not share it.
    """
    shared = sharing(schema, reference.name, level, used, records=records)
    if only:
        require_shared(shared, used)
        return shared.only(*used)
    if shared.others:
        note_left_out(shared.others, shared.names[0], shared.level_label)
    return shared


def require_shared(shared: Shared, names: Sequence[str]) -> None:
    """Raise SelectionError if one of the tensors does not share the items."""
    others = [name for name in shared.others if name in names]
    if others:
        why = _not_shared(others, shared.names[0], shared.level_label)
        raise SelectionError(f"{listing(others)} {why}")


def _not_shared(others: Sequence[str], lead: str, level: str) -> str:
    share = "do" if len(others) > 1 else "does"
    return f"{share} not share the items of {lead} ({level})"


def note_left_out(others: Sequence[str], lead: str, level: str) -> None:
    """Note which tensors do not share the items of a level of another."""
    verb = "are" if len(others) > 1 else "is"
    note(f"note: {listing(others)} {verb} left out: {_not_shared(others, lead, level)}")


def named(reference: Reference, batches: Iterable[B]) -> Iterator[B]:
    """Yield batches; errors name the file that is read."""
    with naming_source(reference.label):
        yield from batches
