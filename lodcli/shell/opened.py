"""An open file as the commands see it: its format, and the one tensor that was asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lodcli.formats.core.errors import naming, naming_file
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.io import format_of, one_tensor
from lodcli.formats.core.limits import open_within
from lodcli.formats.core.options import ReadOptions, refuse_unknown_options
from lodcli.formats.core.schema import Batch, Item, LevelSpec, Schema, StoredArray, TensorSpec, find
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.limits import limits, skips_unsupported
from lodcli.shell.output import note
from lodcli.shell.references import Reference, naming_os

# Of a batch to compute with: enough sequences that they fill each step of an RNN.
COMPUTED_BYTES = 32 << 20

ReadShare = Callable[[], float | None]


@dataclass(frozen=True)
class Opened:
    """A file that is open.

    Attributes:
        reference: what was typed.
        format_name: the format it has.
        source: for everything that is not here.
        read_share: tells how much of the file, from 0 to 1, was read in its order; None where
            nobody can tell.
        checksums: tells what checksums were checked, once everything was read; "" for none.
        level_names: names to give the levels of every tensor, or None to leave them.
    """

    reference: Reference
    format_name: str
    source: Source
    read_share: ReadShare
    checksums: Callable[[], str]
    level_names: tuple[str, ...] | None = None

    @property
    def schema(self) -> Schema:
        """The tensors that were asked for: the named one, or all."""
        chosen = self.source.schema
        if self.reference.name is not None:
            chosen = (find(chosen, self.reference.name),)
        return tuple(self._renamed_spec(spec) for spec in chosen)

    def tensor(self) -> TensorSpec:
        """Return the one tensor that was asked for: named, or alone, or called "data".

        Raises:
            SelectionError: there is none, or it is a TensorArray.
        """
        spec = self._renamed_spec(find(self.source.schema, self.reference.name))
        if spec.array:
            raise SelectionError(f"{spec.name} is a TensorArray; `lod pack` it first")
        return spec

    def array(self) -> tuple[str, StoredArray]:
        """Read the one TensorArray that was asked for, with its name."""
        name = find(self.source.schema, self.reference.name).name
        item = self.source.read([name])[name]
        if isinstance(item, StoredArray):
            return name, item
        raise SelectionError(f"{name} is a tensor, not a TensorArray; only `lod unpack` makes one")

    def read_tensor(self) -> tuple[str, LoDTensor]:
        """Read the one tensor that was asked for, with its name."""
        name = self.tensor().name
        return name, one_tensor(self.source.read([name])[name], "this command")

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """Yield the batches of what was asked for; what goes wrong names this file.

        An OSError of reading would else be taken for one of the file being written.
        """
        wanted = self.reference.name
        with naming_os(self.reference.label), naming_file(self.reference.label):
            names = [spec.name for spec in self.schema]
            for batch in self.source.batches_of(names, limit_bytes):
                kept = batch if wanted is None else {k: batch[k] for k in batch if k == wanted}
                if kept:
                    yield {name: self._renamed(item) for name, item in kept.items()}

    def tensors(self) -> Iterator[LoDTensor]:
        """Yield the batches of `tensor()`, as large as it takes to compute with them fast."""
        name = self.tensor().name
        for batch in self.batches(COMPUTED_BYTES):
            item = batch.get(name)
            if isinstance(item, LoDTensor):
                yield item

    def _renamed(self, item: Item) -> Item:
        if self.level_names is None or not isinstance(item, LoDTensor):
            return item
        return LoDTensor(item.data, item.lod.with_names(self.level_names))

    def _renamed_spec(self, spec: TensorSpec) -> TensorSpec:
        if self.level_names is None:
            return spec
        if spec.array or len(spec.levels) != len(self.level_names):
            raise SelectionError(
                f"{len(self.level_names)} level names are given, {spec.name} has "
                f"{len(spec.levels)} levels"
            )
        levels = tuple(
            LevelSpec(level.key, name, level.items)
            for level, name in zip(spec.levels, self.level_names, strict=True)
        )
        return dataclasses.replace(spec, levels=levels)


@contextmanager
def opened(
    reference: Reference,
    options: ReadOptions | None = None,
    spared: frozenset[str] = frozenset(),
) -> Iterator[Opened]:
    """Open a file; see formats.io.open_source. Level names work for every format.

    Args:
        reference: which.
        options: how to read it.
        spared: options that are left out, not refused, where the format knows them not.
    """
    options = options or ReadOptions()
    if skips_unsupported():
        options = dataclasses.replace(options, skip_unsupported=True)
    level_names = None
    with naming_os(reference.label), Input(reference.path) as source, naming(source.label):
        kind = format_of(source, reference.format_name, options)
        if "levels" not in kind.options:
            level_names = options.levels
            spared = spared | {"levels"}
        left_out: dict[str, Any] = dict.fromkeys(spared - kind.options)
        options = dataclasses.replace(options, **left_out)
        refuse_unknown_options(kind.options, options, kind.name)
        asked = options.skip_unsupported
        if reference.name is not None:
            options = dataclasses.replace(options, skip_unsupported=True)
        inner = open_within(limits(), kind, source, options)
        try:
            if reference.name is not None:
                inner.refuse_left_out(reference.name)
            elif not asked:
                inner.refuse_left_out()
            for name, error in inner.left_out.items() if asked else ():
                # What else could be done about it is not of interest any more.
                why = str(error).partition("; choose ")[0]
                note(f"{source.label}: {name} is left out: {why}")
            yield Opened(
                *(reference, kind.name, inner, source.read_share),
                checksums=lambda: _checksums(kind, inner, source),
                level_names=level_names,
            )
            for text in inner.notes:
                note(f"{source.label}: {text}")
        finally:
            inner.close()


def _checksums(kind: Format, opened: Source, source: Input) -> str:
    found = kind.checksums if opened.checksums is None else opened.checksums
    return ", ".join(filter(None, (found, source.checksums)))


def size_of(batch: Batch) -> tuple[int, int]:
    """Return the rows and bytes of a batch."""
    tensors = [
        item.array.steps if isinstance(item, StoredArray) else item for item in batch.values()
    ]
    return sum(tensor.rows for tensor in tensors), sum(tensor.nbytes for tensor in tensors)


def share_of(
    schema: Schema, read_share: ReadShare | None = None
) -> Callable[[Batch], float | None]:
    """Return a function of one batch after another that gives the share that went by.

    Args:
        schema: what the batches hold together: their rows count, else their outermost items.
        read_share: is asked where the schema knows neither.
    """
    rows = _total([spec.rows for spec in schema])
    items = _total([spec.items for spec in schema])
    done = 0

    def share(batch: Batch) -> float | None:
        nonlocal done
        if rows is not None:
            done += size_of(batch)[0]
            return done / max(1, rows)
        if items is not None:
            done += sum(map(_items, batch.values()))
            return done / max(1, items)
        return None if read_share is None else read_share()

    return share


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _items(item: Item) -> int:
    return len(item.array.steps if isinstance(item, StoredArray) else item)
