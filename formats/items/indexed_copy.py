"""A source whose rows can be read in any order: the file itself, or a copy of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

from lodcli.formats.arrays.budget import Kept, batch_bytes, keeping
from lodcli.formats.arrays.held import HeldBatches
from lodcli.formats.arrays.in_memory import HeldSource
from lodcli.formats.core.batching import bytes_of, only, regrouped, together
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.io import write_batches
from lodcli.formats.core.limits import Limited
from lodcli.formats.core.marks import marked
from lodcli.formats.core.schema import Batch, Schema, find_all, rekeyed
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.values.relabelled import Relabelled
from lodcli.formats.values.relabelled_in_place import RelabelledInPlace

S = TypeVar("S", bound=Source)


def in_place(source: Source, names: Sequence[str]) -> IndexedSource | None:
    """Return the source itself if its rows can be read in any order, else None.

    Raises:
        TooLargeError: the declared sizes of these tensors exceed the limits for reading the file.
    """
    if isinstance(source, Relabelled):
        stored = source.names_in_file(names)
        found = None if stored is None else in_place(source.inner, list(stored.values()))
        if stored is None or found is None:
            return None
        return RelabelledInPlace(found, stored, find_all(source.schema, stored))
    # An IndexedSource declares all counts, so limits need not be checked while reading.
    inner = source.unlimited(names) if isinstance(source, Limited) else source
    if isinstance(inner, IndexedSource) and inner.reads_in_place(names):
        return inner
    return None


def options_in_order(source: Source) -> list[str]:
    """Return the options without which `in_place` returns a source; none if nothing helps."""
    found: list[str] = []
    while isinstance(source, Wrapped):
        if source.option is not None and source.option not in found:
            found.insert(0, source.option)
        source = source.inner
    names = [spec.name for spec in source.schema if not spec.array]
    return found if isinstance(source, IndexedSource) and source.reads_in_place(names) else []


@dataclass(frozen=True)
class Labelled(Generic[S]):
    """Some tensors of one file."""

    label: str
    source: S
    schema: Schema


@contextmanager
def indexed(source: Source, names: Sequence[str]) -> Iterator[IndexedSource]:
    """Yield these tensors of a source so that their rows can be read in any order.

    A source that can only be read sequentially, such as a pipe or text, is first copied: to memory,
    or if that holds too little, to a temporary container in the folder TMPDIR.
    """
    found = in_place(source, names)
    if found is not None:
        yield found
        return
    schema = find_all(source.schema, names)
    with copied(schema, only(source.batches_of(names), names)) as copy:
        copy.attributes = source.attributes
        yield copy


@contextmanager
def copied(schema: Schema, batches: Iterable[Batch]) -> Iterator[IndexedSource]:
    """Yield a copy of batches: in memory if it fits into the budget, else a temporary container."""
    import tempfile

    from lodcli.formats.container.reader import ContainerSource

    schema = rekeyed(schema)
    if not any(spec.array for spec in schema):
        held = HeldBatches(schema)
        batches = marked(schema, together(schema, batches))
        with keeping(batch_bytes(BATCH_BYTES)) as kept:
            rest = _hold(batches, held, kept)
            if rest is None:
                yield HeldSource(held)
                return
        batches = chain(regrouped(schema, held.tensors(), BATCH_BYTES), iter([rest]), batches)
        del held, rest
    with tempfile.TemporaryDirectory(prefix="lod-") as folder:
        path = Path(folder, "copy.lod.h5")
        write_batches(path, schema, batches)
        fd = os.open(path, os.O_RDONLY)
        try:
            path.unlink()
            yield ContainerSource(fd, "the temporary copy")
        finally:
            os.close(fd)


def _hold(batches: Iterator[Batch], held: HeldBatches, kept: Kept) -> Batch | None:
    """Hold batches as long as they fit into memory; return the first that does not, or None."""
    for batch in batches:
        if not kept.fits(bytes_of(batch)):  # before it is copied: it may be a large item
            return batch
        held.add(batch)
    return None
