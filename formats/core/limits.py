"""Limits against decompression bombs, and running in a sandbox.

A few kilobytes can declare petabytes, and compressed data can grow a thousandfold while it
is read. Sizes that a file declares are checked before anything is allocated. Sizes that it
declares only at its end are counted while it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

from lodcli.formats.arrays.budget import WHOLE_COPIES, require_fits
from lodcli.formats.choosing.choice import Choice
from lodcli.formats.core.batching import bytes_of, items_within_budget
from lodcli.formats.core.bounds import DEFAULT_LINE_BYTES, Bounds, default_bytes
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Format, RowBlocks, Source, StoredRows
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import (
    Batch,
    Item,
    TensorSpec,
    find,
    find_all,
    known_rows,
)
from lodcli.formats.core.wrapped import Overlapping, Wrapped
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import OptionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, select
from lodcli.kernels.options import option
from lodcli.kernels.platform import processes
from lodcli.kernels.runtime.memory_budget import memory_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor

if TYPE_CHECKING:
    from lodcli.formats.values.partitions import Keys


@dataclass(frozen=True)
class Limits:
    """Limits for reading one input.

    Attributes:
        max_bytes: maximum decompressed size of rows and offsets, where a row without values counts
            as one byte; None for `default_bytes` of the input's size.
        isolate: whether to read in a sandboxed child process; some formats always do.
    """

    max_bytes: int | None = None
    isolate: bool = False

    def __post_init__(self) -> None:
        found = self.max_bytes
        if found is not None and (not isinstance(found, Integral) or found < 0):
            raise OptionError(f"max_bytes: expected a number of bytes, found {found!r}")

    def bounds(self, stored: int | None) -> Bounds:
        """Return the limit for an input of this many bytes; None: of unknown size."""
        max_bytes = self.max_bytes
        if max_bytes is None and stored is not None:
            max_bytes = default_bytes(stored)
        line_bytes = DEFAULT_LINE_BYTES if self.max_bytes is None else self.max_bytes
        # A line of a file that is not compressed is never longer than the file.
        return Bounds(max_bytes, max(line_bytes, stored or 0))


def open_within(
    limits: Limits, kind: Format, source: Input, options: ReadOptions, keys: Keys | None = None
) -> Source:
    """Return the open file, read within `limits`; with the columns `keys`, if it takes them.

    Raises:
        LodError: as the format does, TooLargeError among them.
    """
    if not isinstance(limits, Limits):
        raise OptionError(f"limits: expected lodcli.formats.Limits, found {type(limits).__name__}")
    stored = kind.stored_bytes(source)
    if not kind.streams and stored is not None:
        require_fits(f"{kind.name} is read whole", stored, WHOLE_COPIES)
    bounds = limits.bounds(stored)
    source.allow(bounds)
    if limits.isolate and not processes.CAN_ISOLATE:
        raise UnsupportedError(
            f"this system cannot limit processes, which {option('isolate')} needs"
        )
    if limits.isolate or (kind.isolated and processes.CAN_FORK):
        from lodcli.formats.sandbox.source import IsolatedSource

        # Not `stored`: the time limit follows from the decompressed size.
        read_bytes = source.listed.size_bytes() if source.is_folder else source.size_bytes
        inner: Source = IsolatedSource(kind, source, options, bounds.max_bytes, read_bytes, keys)
        keys = None  # the child adds them: in its replies, tensors come apart
    else:
        inner = kind.open(source, options)
        if kind.layout == "file" and kind.streams and not inner.partial:
            inner = _overlapping(inner, kind, source, options)
    unlimited = bounds.max_bytes is None and memory_budget() is None
    opened = inner if unlimited else Limited(inner, bounds)
    if keys:
        from lodcli.formats.values.partitions import with_keys

        return with_keys(opened, kind, keys)
    return opened


def _overlapping(inner: Source, kind: Format, source: Input, options: ReadOptions) -> Source:
    """Return a source for several readers at the same time; a pipe is returned as it is."""
    if source.stored_bytes is None:
        return inner

    @contextmanager
    def again() -> Iterator[Source]:
        with source.again() as apart, naming(source.label):
            further = kind.open(apart, options)
            try:
                yield further
            finally:
                further.close()

    return Overlapping(inner, again, repeats=source.seekable)


class Limited(Wrapped):
    """A source with limits on its decompressed size, and on its items: the memory budget.

    Args:
        inner: the open file.
        bounds: limit on the rows and offsets of all tensors that a request reads.
    """

    def __init__(self, inner: Source, bounds: Bounds) -> None:
        super().__init__(inner)
        self._bounds = bounds
        # Tensors of which any slice is within the limits.
        self._small: set[str] = set()

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = list(names)
        self._refuse_declared(find_all(self.schema, wanted))
        total = 0
        batches = self._inner.batches_of(wanted, limit_bytes)
        for batch in items_within_budget(self.schema, batches):
            total += bytes_of(batch)
            self._bounds.check(total, "comes to at least")
            yield batch

    def chosen_batches(
        self, names: Iterable[str], choice: Choice, limit_bytes: int = BATCH_BYTES
    ) -> Iterator[tuple[int, Batch]]:
        wanted = list(names)
        self._refuse_declared(find_all(self.schema, wanted))
        total = 0
        for first, batch in self._inner.chosen_batches(wanted, choice, limit_bytes):
            for one in items_within_budget(self.schema, [batch], first):
                total += bytes_of(one)
                self._bounds.check(total, "comes to at least")
                yield first, one

    def read(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        wanted = None if names is None else list(names)
        specs = self.schema if wanted is None else find_all(self.schema, wanted)
        self._refuse_declared(specs)
        if any(spec.rows is None for spec in specs):
            return super().read(wanted)  # counts while reading
        return self._inner.read(wanted)

    def row_blocks(self, name: str, buffer: Callable[[int], Array], block_bytes: int) -> RowBlocks:
        spec = find(self.schema, name)
        self._refuse_declared([spec])
        if spec.rows is None:
            return super().row_blocks(name, buffer, block_bytes)  # counts while reading
        return self._inner.row_blocks(name, buffer, block_bytes)

    def stored_rows(self, name: str) -> StoredRows | None:
        self._refuse_declared([find(self.schema, name)])
        return self._inner.stored_rows(name)

    def read_index(self, name: str) -> LoD:
        spec = find(self.schema, name)
        self._bounds.check(_index_bytes(spec), "declares an index of")
        if not self.partial:
            return super().read_index(name)  # counts while reading
        return self._inner.read_index(name)

    def index_parts(self, name: str) -> Iterator[LoD]:
        if not self.partial:
            yield self.read_index(name)
            return
        self._bounds.check(_index_bytes(find(self.schema, name)), "declares an index of")
        yield from self._inner.index_parts(name)

    def index_parts_of(self, names: Iterable[str]) -> Iterator[tuple[str, LoD]]:
        wanted = list(names)
        if not self.partial:
            yield from super().index_parts_of(wanted)
            return
        for spec in find_all(self.schema, wanted):
            self._bounds.check(_index_bytes(spec), "declares an index of")
        yield from self._inner.index_parts_of(wanted)

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        if name in self._small:
            return self._inner.slice(name, branch, level)
        spec = find(self.schema, name)
        if not self.partial:
            return super().slice(name, branch, level)  # counts while reading
        whole = declared_bytes(spec)
        if self._bounds.max_bytes is None or whole <= self._bounds.max_bytes:
            self._small.add(name)
        elif not spec.array:
            # The whole tensor is over the limit; the slice may be within it.
            lod = self.read_index(name)
            chosen = select(lod, known_rows(spec, lod), branch, level)
            rows = chosen.rows.stop - chosen.rows.start
            self._bounds.check(rows * _row_bytes(spec), "has in this slice")
        return self._inner.slice(name, branch, level)

    def unlimited(self, names: Iterable[str]) -> Source:
        """Return the file itself, for tensors whose declared size is within the limit.

        Raises:
            TooLargeError: they declare more.
        """
        self._refuse_declared(find_all(self.schema, names))
        return self._inner

    def _refuse_declared(self, specs: Iterable[TensorSpec]) -> None:
        specs = tuple(specs)
        without_values = any(spec.rows and not spec.row_bytes for spec in specs)
        what = "declares (a row without values counts as one)" if without_values else "declares"
        self._bounds.check(sum(declared_bytes(spec) for spec in specs), what)


def declared_bytes(spec: TensorSpec) -> int:
    """Return the declared size of a tensor; unknown counts are 0."""
    return (spec.rows or 0) * _row_bytes(spec) + _index_bytes(spec) + _mask_bytes(spec)


def _row_bytes(spec: TensorSpec) -> int:
    """Return the size of a row, at least 1: rows without values take time, too."""
    return max(1, spec.row_bytes)


def _mask_bytes(spec: TensorSpec) -> int:
    """Return the bytes in memory of the masks of all levels and the rows, one for each item."""
    if not spec.nullable:
        return 0
    return (spec.rows or 0) + sum(level.items or 0 for level in spec.levels)


def _index_bytes(spec: TensorSpec) -> int:
    return sum(8 * ((level.items or 0) + 1) for level in (*spec.levels, *spec.outer))
