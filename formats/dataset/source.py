"""Reads a dataset: the manifest when it is opened, shards on demand."""

from __future__ import annotations

import glob
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from shlex import quote
from typing import TypeVar

import numpy as np

from lodcli.formats.catalogue.unread import begins_instead
from lodcli.formats.container import header
from lodcli.formats.container.reader import ContainerSource, header_checksum
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.indexed import IndexedSource, Loaded
from lodcli.formats.core.schema import Batch, TensorSpec, find, outline
from lodcli.formats.dataset import manifest as manifests
from lodcli.formats.dataset.manifest import SHARDS, Manifest, count_columns, counts_of, uncounted
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, item_number, range_bounds, select
from lodcli.kernels.platform.processes import OpenFileLock
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask

# Maximum number of open shards: each takes memory for its index, and a descriptor.
MOST_OPEN = 8
_RESTORE = "restore it from a copy of the dataset"

T = TypeVar("T")


class DatasetSource(IndexedSource):
    """An open dataset. Memory holds the manifest, and the whole index when it is first needed.

    Attributes:
        header_crc32c: the CRC32C of the header of the manifest.
    """

    def __init__(self, folder: Input) -> None:
        self._folder = folder
        with naming(manifests.NAME), folder.beside(manifests.NAME) as file:
            fd = file.make_seekable().fileno()
            source = ContainerSource(fd, manifests.NAME)
            self._manifest, self.attributes = Manifest.read(source), source.attributes
            self.header_crc32c = source.header_crc32c
        self.schema = self._manifest.counted()
        self._expected = uncounted(self.schema)
        self._ends = self._manifest.ends()
        self._counts = np.diff(self._manifest.totals, axis=0)
        self._indexes: dict[str, LoD] = {}
        self.lods: Mapping[str, LoD] = Loaded(self.schema, self._index)
        self._open: OrderedDict[int, tuple[Input, ContainerSource]] = OrderedDict()
        # A thread prefetches batches while another one reads.
        self._lock = OpenFileLock(threading.RLock)
        self._reading, self._closed = 0, False
        self._checked = False

    @property
    def shard_names(self) -> list[str]:
        """The names of the shards."""
        return self._manifest.names

    def shard_rows(self, number: int) -> int:
        """Return the number of rows of a shard; rows of tensors with shared levels count once."""
        columns = {
            place
            for (name, level), place in count_columns(self.schema).items()
            if level == len(find(self.schema, name).levels)
        }
        return int(self._counts[number, sorted(columns)].sum())

    # -- shards --------------------------------------------------------------------

    def faults(self) -> Iterator[tuple[str, LodError]]:
        """Yield errors in the sizes and headers of shards, without reading rows.

        Each is a pair of the shard's name and the error, which names it as well. A file that is
        named like a shard, but is not in the manifest, is also an error.
        """
        names = self._manifest.names
        for number, name in enumerate(names):
            try:
                with naming(name), self._file(number, name) as file:
                    self._check_header(number, header_checksum(file.make_seekable().fileno()))
            except LodError as error:
                yield name, error
        yield from self._unnamed_shards()

    def _unnamed_shards(self) -> Iterator[tuple[str, LodError]]:
        """Yield the errors of files named like shards that are not in the manifest."""
        if not self._folder.lists:
            return
        names = self._manifest.names
        known = set(names)
        for name in sorted(self._folder.listed.entries().files):
            if re.fullmatch(SHARDS, name) and name not in known:
                said = f"{name}: the manifest, of {len(names)} shards, does not name it"
                yield name, DamagedFileError(said)

    def check(self) -> None:
        """Raise the first of `faults`; called before more than a slice is read."""
        if not self._checked:
            for _, error in self.faults():
                raise error
            self._checked = True

    def _finish_check(self) -> None:
        """Do the rest of `check` when every shard was opened, which checks more than `faults`."""
        if not self._checked:
            for _, error in self._unnamed_shards():
                raise error
            self._checked = True

    def _file(self, number: int, name: str) -> Input:
        """Open a shard; raise DamagedFileError if it is missing, or differs in size."""
        try:
            file = self._folder.inside(name)
        except FileNotFoundError:
            raise DamagedFileError(
                f"is missing; the manifest names {self._manifest.count} shards; {_RESTORE}"
                + self._without_it()
            ) from None
        size, found = int(self._manifest.sizes[number]), file.size_bytes
        if found != size:
            with file:
                instead = begins_instead(file.head())
            raise DamagedFileError(
                f"expected {size} bytes as in the manifest, found {found}"
                + (instead or f"; it was changed, or belongs to another dataset; {_RESTORE}")
            )
        return file

    def _without_it(self) -> str:
        """Return how to make a dataset of the other shards; "" at a URL, which lists no files."""
        if self._folder.path is None or self._folder.remote:
            return ""
        pattern = quote(os.path.join(glob.escape(str(self._folder.path)), "data-*.lod.h5"))
        return f", or lod shard {pattern} NEW makes a dataset of the others, without its items"

    def _check_header(self, number: int, found: int) -> None:
        expected = int(self._manifest.sums[number])
        if found != expected:
            raise DamagedFileError(
                f"{header.PATH}: expected CRC32C {expected:08x} as in the manifest, found "
                f"{found:08x}; it was changed, or belongs to another dataset; {_RESTORE}"
            )

    def _opened(self, number: int) -> tuple[Input, ContainerSource]:
        name = manifests.shard_name(number, self._manifest.count)
        with naming(name):
            file = self._file(number, name)
            try:
                shard = ContainerSource(file.make_seekable().fileno(), name)
                self._check_header(number, shard.header_crc32c)
                if uncounted(shard.schema) != self._expected or not np.array_equal(
                    counts_of(shard.schema), self._counts[number]
                ):
                    raise DamagedFileError(f"its tensors are not those in the manifest; {_RESTORE}")
                return file, shard
            except BaseException:
                file.close()
                raise

    @contextmanager
    def _shard(self, number: int) -> Iterator[ContainerSource]:
        """Yield an open shard. The most recently used ones stay open."""
        try:
            with self._lock, self._counted():
                if number not in self._open:
                    self._open[number] = self._opened(number)
                    if len(self._open) > MOST_OPEN:
                        self._open.popitem(last=False)[1][0].close()
                self._open.move_to_end(number)
                shard = self._open[number][1]
                with naming(manifests.shard_name(number, self._manifest.count)):
                    yield shard
        finally:
            if self._closed:
                self._close_shards()

    @contextmanager
    def _apart(self, number: int) -> Iterator[ContainerSource]:
        """Yield a shard opened separately, so that closing it does not affect other readers."""
        file, shard = self._opened(number)
        with file, naming(manifests.shard_name(number, self._manifest.count)):
            yield shard

    def _found(self, name: str, level: int, item: int) -> int:
        """Return the shard that holds an item of a level."""
        return int(np.searchsorted(self._ends[name, level], item, "right")) - 1

    def _pieces(
        self,
        name: str,
        level: int,
        start: int,
        stop: int,
        read: Callable[[ContainerSource, int, int], T],
    ) -> list[T]:
        """Return the results of `read` for the shards of items start..stop; for at least one."""
        ends = self._ends[name, level]
        first = max(0, min(self._found(name, level, start), self._manifest.count - 1))
        found: list[T] = []
        for number in range(first, self._manifest.count):
            low, high = int(ends[number]), int(ends[number + 1])
            if found and low >= stop:
                break
            if found and low == high:
                continue
            with self._shard(number) as shard:
                found.append(read(shard, max(start, low) - low, max(start, min(stop, high)) - low))
        return found

    def close(self) -> None:
        self._closed = True
        self._close_shards()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a reader of this thread, which holds the lock."""
        self._reading += 1
        try:
            yield
        finally:
            self._reading -= 1

    def _close_shards(self) -> None:
        """Close the shards, unless one is being read: then the reader does when it is done.

        No garbage collector, which may run in any thread, has to wait for a reader.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            while self._open and not self._reading:
                self._open.popitem()[1][0].close()
        finally:
            self._lock.release()

    # -- content -------------------------------------------------------------------

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = list(names)
        self.check()
        for number in range(self._manifest.count):
            with self._apart(number) as shard:
                yield from shard.batches_of(wanted, limit_bytes)

    def check_shard(self, number: int) -> Iterator[int]:
        """Check one shard as `batches_of` does, but only yield the numbers of checked bytes."""
        with self._apart(number) as shard:
            others = []
            for spec in shard.schema:
                checked = shard.check_in_place(spec.name)
                if checked is None:
                    others.append(spec.name)
                else:
                    yield from (rows * spec.row_bytes for rows in checked)
            for batch in shard.batches_of(others) if others else ():
                yield sum(outline(item).nbytes for item in batch.values())

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        level = len(find(self.schema, name).levels)
        return _concatenated(
            self._pieces(
                name, level, start, stop, lambda shard, low, high: shard.read_rows(name, low, high)
            )
        )

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        if not find(self.schema, name).nullable:
            return None

        def read(shard: ContainerSource, low: int, high: int) -> tuple[Mask | None, int]:
            return shard.read_mask(name, level, low, high), high - low

        found = self._pieces(name, level, start, stop, read)
        if all(mask is None for mask, _ in found):
            return None
        return _concatenated(
            [np.ones(size, np.bool_) if mask is None else mask for mask, size in found]
        )

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        spec = find(self.schema, name)
        lod = spec.empty().lod
        first = lod.level(level) if lod.n_levels or level != 0 else 0
        if not 0 < len(branch) <= lod.n_levels + 1 - first or isinstance(branch[0], slice):
            select(lod, 0, branch, level)  # raises the error, if there is one
        key, *rest = branch
        total = int(self._ends[name, first][-1])
        if not isinstance(key, slice):
            item = item_number(lod, first, key, total)
            number = self._found(name, first, item)
            with self._shard(number) as shard:
                own = item - int(self._ends[name, first][number])
                return shard.slice(name, (own, *rest), first)
        low, high = range_bounds(key, total)

        def read(shard: ContainerSource, start: int, stop: int) -> LoDTensor:
            return shard.slice(name, (slice(start, stop), *rest), first)

        return LoDTensor.concatenate(self._pieces(name, first, low, high, read))

    def index_parts(self, name: str) -> Iterator[LoD]:
        return (part for _, part in self.index_parts_of([name]))

    def index_parts_of(self, names: Iterable[str]) -> Iterator[tuple[str, LoD]]:
        wanted = list(names)
        # Not one tensor after another: each shard would be opened for each of them.
        for number in range(self._manifest.count):
            with self._shard(number) as shard:
                yield from shard.index_parts_of(wanted)
        self._finish_check()

    def _index(self, spec: TensorSpec) -> LoD:
        """Return the index of a tensor; the first call reads those of all tensors and shards."""
        if not self._indexes:
            self._indexes = self._all_indexes()
        return self._indexes[spec.name]

    def _all_indexes(self) -> dict[str, LoD]:
        chains = {spec.name: tuple(level.key for level in spec.levels) for spec in self.schema}
        leads = {chain: name for name, chain in chains.items()}
        parts: dict[tuple[str, ...], list[LoD]] = {chain: [] for chain in leads}
        for number in range(self._manifest.count):
            with self._shard(number) as shard:
                for chain, name in leads.items():
                    parts[chain].append(shard.lods[name])
        self._finish_check()
        whole = {chain: LoD.concatenate(lods) for chain, lods in parts.items()}
        return {name: whole[chain] for name, chain in chains.items()}


def _concatenated(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
