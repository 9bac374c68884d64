"""What the commands that choose items share: opening the level, and writing what was chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from lodcli.formats.core.errors import naming_file
from lodcli.formats.items.indexed_copy import in_place, indexed
from lodcli.formats.items.items import Items
from lodcli.formats.items.sharing import Shared, sharing
from lodcli.formats.items.streaming import item_batches
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.opened import Opened, opened
from lodcli.shell.output import note
from lodcli.shell.references import Reference, naming_os

Batches = Iterator[dict[str, LoDTensor]]


@contextmanager
def items_of(
    reference: Reference, level: int | str | None, used: Sequence[str] = ()
) -> Iterator[Items]:
    """Open a file and give the items of a level, to be read in any order."""
    with opened(reference) as file, _items(file, shared_of(file, level, used)) as items:
        yield items


@contextmanager
def items_or_stream(
    reference: Reference, level: int | str | None, used: Sequence[str] = ()
) -> Iterator[tuple[Shared, Items | None, Batches]]:
    """Open a file and give the items of a level, or only their batches if it is read in order.

    Yields:
        The level, its items or None, and all batches.
    """
    with opened(reference) as file:
        shared = shared_of(file, level, used)
        if shared.apart or in_place(file.source, shared.names) is not None:
            with _items(file, shared) as items:
                yield shared, items, named(reference, items.range(0, items.count))
        else:
            yield shared, None, named(reference, item_batches(file.source, shared))


@contextmanager
def _items(file: Opened, shared: Shared) -> Iterator[Items]:
    with indexed(file.source, shared.names) as source:
        yield Items(source, shared)


def shared_of(file: Opened, level: int | str | None, used: Sequence[str] = ()) -> Shared:
    """Return the tensors of a file that share a level, and note which do not."""
    shared = sharing(file.source.schema, file.reference.name, level, used)
    if shared.others:
        share = "do not share" if len(shared.others) > 1 else "does not share"
        of = shared.level_name or f"level {shared.level}"
        verb = "are" if len(shared.others) > 1 else "is"
        note(
            f"note: {', '.join(shared.others)} {verb} left out: "
            f"{share} the items of {shared.names[0]} ({of})"
        )
    return shared


def named(reference: Reference, batches: Iterable[dict[str, LoDTensor]]) -> Batches:
    """Yield batches; what goes wrong names the file that is read."""
    with naming_os(reference.label), naming_file(reference.label):
        yield from batches
