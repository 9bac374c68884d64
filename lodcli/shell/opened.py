"""An open file for the commands: its format, and the selected tensor."""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

import click

from lodcli.formats.arrays.budget import WHOLE_COPIES, fits, require_fits
from lodcli.formats.core.batching import only
from lodcli.formats.core.errors import naming_file, naming_os, naming_source, places
from lodcli.formats.core.format import BATCH_BYTES, Source, Stored, joined
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.io import listed, one_tensor, open_file
from lodcli.formats.core.limits import declared_bytes
from lodcli.formats.core.marks import marked
from lodcli.formats.core.names import listing
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import (
    Batch,
    Item,
    Schema,
    StoredArray,
    StreamedArray,
    TensorSpec,
    find,
    find_all,
)
from lodcli.formats.items.indexed_copy import Labelled, in_place, indexed
from lodcli.formats.structs.names import named
from lodcli.formats.values.file_attributes import alike
from lodcli.kernels.errors import OptionError, SelectionError
from lodcli.kernels.runtime.memory_budget import default_budget, memory_budget, within_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.limits import limits, reading
from lodcli.shell.output import is_verbose, note, size_text
from lodcli.shell.progress import Passed, ReadShare, passed_by, progressing_counts
from lodcli.shell.references import Reference

# Bytes of a batch to compute with: enough sequences to fill each step of an RNN.
COMPUTED_BYTES = 32 << 20
# Tensors that an error lists.
MOST_CHOICES = 20

# In the context's meta: the attributes of every file that the command opened.
_ATTRIBUTES = "lodcli.attributes"


@dataclass(frozen=True)
class Opened:
    """A file that is open.

    Attributes:
        reference: the argument of the command.
        format_name: the format it has.
        source: the open file, for all other requests.
        read_share: returns the share of the file, from 0 to 1, up to the current position; None if
            unknown.
        checksums: returns which checksums were checked, once everything was read; "" for none.
    """

    reference: Reference
    format_name: str
    source: Source
    read_share: ReadShare
    checksums: Callable[[], str]

    @property
    def schema(self) -> Schema:
        """The selected tensors: the named one, those of the named records, or all."""
        return selected(self.reference, self.source.schema)

    def tensor(self) -> TensorSpec:
        """Return the selected tensor: the named one, the only one, or the one called "data".

        Raises:
            SelectionError: there is none, or it is a TensorArray.
        """
        with naming_file(self.reference.label):
            spec = self._found()
            if spec.array:
                raise SelectionError(f"{spec.name} is a TensorArray; `lod pack` it first")
            return spec

    def _found(self) -> TensorSpec:
        with naming_file(self.reference.label), _naming_choices(self.reference):
            return find(self.source.schema, self.reference.name)

    def read(self, names: Iterable[str]) -> dict[str, Item]:
        """Read whole tensors.

        Raises:
            TooLargeError: they do not fit into the memory budget; nothing was read if the file
                says how many rows they have.
        """
        specs = find_all(self.source.schema, names)
        wanted = [spec.name for spec in specs]
        what, total = listing(wanted), 0
        with naming_file(self.reference.label):
            require_fits(what, sum(map(declared_bytes, specs)), WHOLE_COPIES)
            if all(spec.rows is not None for spec in specs) or memory_budget() is None:
                return self.source.read(wanted)

            def counted() -> Iterator[Batch]:
                nonlocal total
                for kept in only(self.source.batches_of(wanted), wanted):
                    total += passed_by(kept).size_bytes
                    require_fits(what, total, WHOLE_COPIES)
                    yield kept

            return joined(self.source.schema, counted(), wanted)

    def array(self) -> tuple[str, StoredArray]:
        """Read the selected TensorArray, and return it with its name."""
        name = self._found().name
        item = self.read([name])[name]
        if isinstance(item, StoredArray):
            return name, item
        raise SelectionError(f"{name} is a tensor, not a TensorArray; only `lod unpack` makes one")

    def read_tensor(self) -> tuple[str, LoDTensor]:
        """Read the selected tensor, and return it with its name."""
        name = self.tensor().name
        return name, one_tensor(self.read([name])[name], "this command")

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """Yield the batches of the selected tensors; errors name this file.

        Otherwise an OSError of reading would be taken for one of the file being written.
        """
        yield from self._batches([spec.name for spec in self.schema], limit_bytes)

    def copying(self) -> Stored | None:
        """Return the file for a copy of the whole, with progress; None if it cannot be copied."""
        if self.reference.name is not None:
            return None

        def passing(copied: Iterator[tuple[int, int]]) -> Iterator[Passed]:
            counts = (Passed(*one) for one in copied)
            with naming_source(self.reference.label):
                yield from progressing_counts(counts, self.schema, self.read_share)

        with naming_source(self.reference.label):
            source = in_place(self.source, [spec.name for spec in self.schema])
        return None if source is None else Stored(source, passing)

    def checked(self) -> Iterator[Passed]:
        """Read and check the selected tensors without keeping them; yield counts of their data."""
        others = []
        with naming_source(self.reference.label):
            source = in_place(self.source, [spec.name for spec in self.schema])
            for spec in self.schema:
                parts = None if source is None else source.check_in_place(spec.name)
                if parts is None:
                    others.append(spec.name)
                    continue
                for rows in parts:
                    yield Passed(rows, rows * spec.row_bytes)
        if not others:
            return
        for batch in marked(self.schema, self._batches(others, BATCH_BYTES)):
            for item in batch.values():
                if isinstance(item, StreamedArray):
                    deque(item.blocks(), 0)  # iterating checks the blocks
            yield passed_by(batch)

    def _batches(self, names: list[str], limit_bytes: int) -> Iterator[Batch]:
        """See `batches`; of tensors with these names."""
        every = len(names) == len(self.source.schema)
        with naming_source(self.reference.label):
            for spec in find_all(self.source.schema, names):
                if spec.array and not fits(declared_bytes(spec), WHOLE_COPIES):
                    from lodcli.formats.container.reader import ContainerSource
                    from lodcli.formats.steps.stored import streamed

                    found = in_place(self.source, [spec.name])
                    if len(self.source.schema) == 1 and isinstance(found, ContainerSource):
                        yield {spec.name: streamed(found, spec.name, self.reference.label)}
                        return
                    require_fits(spec.name, declared_bytes(spec), WHOLE_COPIES)
            batches = self.source.batches_of(names, limit_bytes)
            yield from batches if every else only(batches, names)

    def tensors(
        self, working_bytes: int = 0, computed_bytes: int | None = None
    ) -> Iterator[LoDTensor]:
        """Yield the batches of `tensor()`, large enough for fast computation.

        Args:
            working_bytes: memory that the computation needs for each row, besides the row.
            computed_bytes: of a row that the computation makes of each row; None: of the row.
        """
        spec = self.tensor()
        name, limit_bytes, budget = spec.name, COMPUTED_BYTES, memory_budget()
        row_bytes = max(spec.row_bytes, computed_bytes or 0)
        if row_bytes > spec.row_bytes:
            limit_bytes = max(1, limit_bytes * spec.row_bytes // row_bytes)
        if budget is not None and working_bytes:
            rows = budget // (WHOLE_COPIES * row_bytes + working_bytes)
            limit_bytes = max(1, min(limit_bytes, rows * spec.row_bytes))
        for batch in self.batches(limit_bytes):
            item = batch.get(name)
            if isinstance(item, LoDTensor):
                yield item


def selected(reference: Reference, schema: Schema) -> Schema:
    """Return the selected tensors of a file with this schema."""
    if reference.name is None:
        return schema
    with naming_file(reference.label):
        return named(schema, reference.name)


@contextmanager
def opened(
    reference: Reference, options: ReadOptions | None = None, optional: frozenset[str] = frozenset()
) -> Iterator[Opened]:
    """Open a file named on the command line, and print notes about it.

    Args:
        options: how to read it; the `guarded` options of the command are added.
        optional: options that are ignored, not an error, if the format does not have them.

    Raises:
        OptionError: standard output is redirected to this file.
    """
    _refuse_own_output(reference)
    options = replace(reading(options or ReadOptions()), part=reference.part)
    with (
        within_budget(memory_budget() or default_budget()),
        _naming_tensor(reference),
        naming_os(reference.label),
        open_file(
            reference.path,
            reference.name,
            format_name=reference.format_name,
            options=options,
            limits=limits(),
            optional=optional,
        ) as file,
    ):
        label = file.input.label
        if (context := click.get_current_context(silent=True)) is not None:
            context.meta.setdefault(_ATTRIBUTES, []).append(file.source.attributes)
        for name, error in file.source.left_out.items() if options.skip_unsupported else ():
            # Without advice for other ways to read it, which no longer applies.
            why = str(error).partition("; choose ")[0].partition(", or choose ")[0]
            note(f"{label}: {name} is left out: {why}")
        if is_verbose():
            names = listing(spec.name for spec in file.source.schema)
            size = file.input.stored_bytes
            note(
                f"reads {label}: {file.kind.name}"
                + (f", {size_text(size)}" if size else "")
                + f": {names}"
            )
        with _naming_choices(reference):
            yield Opened(
                *(reference, file.kind.name, file.source, file.input.read_share),
                checksums=lambda: file.checksums,
            )
        for text in file.source.notes:
            note(f"{label}: {text}")


def _refuse_own_output(reference: Reference) -> None:
    """Raise OptionError if standard output is redirected to this file, or into this folder.

    With `>>` it would grow as fast as it is read; with `>` the shell has emptied it.
    """
    same = ""
    # Opening reports a file that does not exist; a test has no real standard output.
    with suppress(OSError, ValueError):
        out = os.fstat(sys.stdout.fileno())
        if stat.S_ISREG(out.st_mode):
            same = next((one for one in _read_by(reference) if _is_open(one, out)), "")
    if same:
        raise OptionError(
            f"{'standard input' if same == '-' else same}: is also the file that standard output "
            "goes to; redirect that to another file"
        )


def _read_by(reference: Reference) -> Sequence[str]:
    """Return the files of a reference; a pattern or a folder may have several."""
    found = listed(reference.path, reference.format_name)
    return (reference.path,) if found is None else found.paths


def _is_open(path: str, found: os.stat_result) -> bool:
    """Return whether a path leads to an open file."""
    with suppress(OSError):
        of_path = os.fstat(sys.stdin.fileno()) if path == "-" else os.stat(path)
        return os.path.samestat(found, of_path)
    return False


def attributes_of_opened() -> dict[str, Any]:
    """Return the attributes that are equal in all files that the command opened."""
    return alike(click.get_current_context().meta.get(_ATTRIBUTES, []))


@contextmanager
def _naming_tensor(reference: Reference) -> Iterator[None]:
    """Add the named tensor to the places of a MemoryError about its file."""
    try:
        yield
    except MemoryError as error:
        if reference.name is not None and places(error) == [reference.label]:
            places(error).append(reference.name)
        raise


@contextmanager
def _naming_choices(reference: Reference) -> Iterator[None]:
    """Add FILE::NAME for each choice to an error that one of several tensors must be chosen."""
    try:
        yield
    except SelectionError as error:
        if not error.choices:
            raise
        some = [quote(f"{reference.path}::{name}") for name in error.choices[:MOST_CHOICES]]
        more = " .." if len(error.choices) > MOST_CHOICES else ""
        what = f"holds {len(error.choices)} tensors; choose one: {' '.join(some)}{more}"
        raise SelectionError(what) from None


@contextmanager
def all_opened(references: Sequence[Reference]) -> Iterator[list[Labelled[Source]]]:
    """Open several files."""
    with ExitStack() as stack:
        files = [stack.enter_context(opened(reference)) for reference in references]
        yield [Labelled(file.reference.label, file.source, file.schema) for file in files]


@contextmanager
def all_indexed(files: Sequence[Labelled[Source]]) -> Iterator[list[Labelled[IndexedSource]]]:
    """Yield open files so that the rows of all their tensors can be read in any order."""
    with ExitStack() as stack:
        found = []
        for file in files:
            names = [spec.name for spec in file.schema]
            source = stack.enter_context(indexed(file.source, names))
            found.append(Labelled(file.label, source, find_all(source.schema, names)))
        yield found
