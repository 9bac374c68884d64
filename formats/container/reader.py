"""Reading a container: the index at once, rows when asked, each block checked."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

import numpy as np

from lodcli.formats.base import RowBlocks, StoredRows
from lodcli.formats.container import header
from lodcli.formats.container.checksums import first_bad_block, first_other
from lodcli.formats.container.header import DatasetEntry
from lodcli.formats.container.types import numpy_type
from lodcli.formats.errors import DamagedFileError, naming
from lodcli.formats.hdf5.strict import StoredDataset, StrictFile
from lodcli.formats.indexed import IndexedSource
from lodcli.formats.positions import read_into
from lodcli.formats.schema import Batch, Item, LevelSpec, StoredArray, TensorSpec, find
from lodcli.kernels.checks import Array, Offsets, check_chain, check_offsets, check_rows
from lodcli.kernels.errors import (
    InvalidDataError,
    InvalidLoDError,
    SelectionError,
    ShapeMismatchError,
)
from lodcli.kernels.lod import LoD
from lodcli.kernels.selection import Key
from lodcli.kernels.tensor import LoDTensor
from lodcli.kernels.tensor_array import TensorArray
from lodcli.kernels.unpacking import IndexMap


class ContainerSource(IndexedSource):
    """An open container.

    Header and index are checked when opened; rows are checked block by block when read.

    Args:
        fd: an open descriptor of the file; the caller keeps and closes it.
        label: what messages call the file.
    """

    def __init__(self, fd: int, label: str) -> None:
        self._fd = fd
        self._label = label
        self._strict = StrictFile(fd, os.fstat(fd).st_size)
        try:
            self._open()
        except BaseException:
            self._strict.close()
            raise

    def _open(self) -> None:
        offset, size = self._strict.header()
        found = header.decode(os.pread(self._fd, size, offset))
        self.schema = found.schema
        self._entries = found.datasets
        self._strict.check_names([header.PATH, *found.datasets])
        self._stored: dict[str, StoredDataset] = {
            path: self._strict.dataset(path, entry) for path, entry in found.datasets.items()
        }
        self._strict.check_overlaps()
        self._offsets: dict[str, Offsets] = {}
        self._indexes: dict[tuple[LevelSpec, ...], LoD] = {}
        self.lods: dict[str, LoD] = {}
        for spec in self.schema:
            lod = self.lods[spec.name] = self._index(spec.levels)
            with naming(self._label, header.data_path(spec.name)):
                assert spec.rows is not None
                check_rows(lod.levels, spec.rows)
            if spec.array:
                self._index(spec.outer)

    def close(self) -> None:
        self._strict.close()

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        return self._rows(header.data_path(name), start, stop)

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        if find(self.schema, name).array:
            raise SelectionError(f"{name} is a TensorArray; `lod pack` it to slice it")
        return super().slice(name, branch, level)

    def _group(self, group: list[TensorSpec], limit_bytes: int) -> Iterator[Batch]:
        if group[0].array:
            yield {spec.name: self._array(spec) for spec in group}
        else:
            yield from super()._group(group, limit_bytes)

    def read(self, names: Iterable[str] | None = None, *, check: bool = True) -> dict[str, Item]:
        """Return tensors in memory; contiguous rows are mapped, not copied.

        Args:
            names: which; None: all.
            check: whether to check the rows' checksums. Without it nothing of the rows is
                read before it is used, and damage in them goes unnoticed.

        Returns:
            Read-only tensors. Those that share levels in the file share them here.
        """
        wanted = [spec.name for spec in self.schema] if names is None else list(names)
        result: dict[str, Item] = {}
        for name in wanted:
            spec = find(self.schema, name)
            path = header.data_path(spec.name)
            if spec.array:
                result[name] = self._array(spec)
                continue
            mapped = self._mapped(path)
            if mapped is None:
                mapped = self._rows(path, 0, self._entries[path].shape[0])
            elif check:
                self._check_blocks(path, mapped, 0)
            result[name] = LoDTensor(mapped, self.lods[spec.name])
        return result

    def row_blocks(self, name: str, buffer: Callable[[int], Array], block_bytes: int) -> RowBlocks:
        spec = find(self.schema, name)
        assert spec.rows is not None
        blocks = self._row_blocks(spec, buffer, block_bytes)
        return RowBlocks(self.lods[spec.name], spec.rows, blocks)

    def _row_blocks(
        self, spec: TensorSpec, buffer: Callable[[int], Array], block_bytes: int
    ) -> Iterator[tuple[int, Array]]:
        """Yield whole blocks of those that have a checksum, read into the caller's memory."""
        path = header.data_path(spec.name)
        entry, stored = self._entries[path], self._stored[path]
        if not spec.row_bytes or not spec.rows:
            return
        step = max(1, block_bytes // (spec.row_bytes * entry.block_rows)) * entry.block_rows
        for start in range(0, spec.rows, step):
            count = min(step, spec.rows - start)
            size_bytes = count * spec.row_bytes
            block = buffer(size_bytes)[:size_bytes].view(spec.dtype)
            block = block.reshape(count, *spec.row_shape)
            self._fill(path, stored, start, block)
            self._check_blocks(path, block, start // entry.block_rows)
            yield start, block

    def stored_rows(self, name: str) -> StoredRows | None:
        spec, path = find(self.schema, name), header.data_path(name)
        stored, entry = self._stored[path], self._entries[path]
        if stored.offset is None or not spec.rows or not spec.row_bytes:
            return None
        return StoredRows(
            lod=self.lods[spec.name],
            rows=spec.rows,
            fd=self._fd,
            offset=stored.offset,
            block_bytes=min(entry.block_rows, spec.rows) * spec.row_bytes,
            check=partial(self._check_sums, path),
        )

    # -- parts ---------------------------------------------------------------------

    def _index(self, levels: tuple[LevelSpec, ...]) -> LoD:
        if levels not in self._indexes:
            offsets = [self._level(level.key, number) for number, level in enumerate(levels)]
            try:
                check_chain(offsets)
            except InvalidLoDError as error:
                with naming(self._label, levels[error.level or 0].key):
                    raise
            self._indexes[levels] = LoD._trusted(offsets, [level.name for level in levels])
        return self._indexes[levels]

    def _level(self, path: str, number: int) -> Offsets:
        if path not in self._offsets:
            rows = self._entries[path].shape[0]
            # What is wrong says more than that something is: rules before checksums.
            offsets = self._rows(path, 0, rows, check=False)
            with naming(self._label, path):
                check_offsets(offsets, level=number)
            self._check_blocks(path, offsets, 0)
            offsets.flags.writeable = False
            self._offsets[path] = offsets
        return self._offsets[path]

    def _array(self, spec: TensorSpec) -> StoredArray:
        assert spec.rows is not None
        data = self._rows(header.data_path(spec.name), 0, spec.rows)
        order_path = header.part_path(spec.name, "order")
        order = self._rows(order_path, 0, self._entries[order_path].shape[0])
        with naming(self._label, order_path):
            index_map = IndexMap(order, self._index(spec.outer))
            steps = LoDTensor(data, self.lods[spec.name])
            held, expected = steps.lod.levels[0][-1], index_map.outer.levels[-1][-1]
            if held != expected:  # before as many are allocated
                raise ShapeMismatchError(f"the steps: expected {expected} items, found {held}")
            array = TensorArray.from_steps(steps)
            array.pack(index_map.level, index_map)
        return StoredArray(array, index_map)

    def _mapped(self, path: str) -> Array | None:
        """Return all rows of a contiguous dataset as a read-only map of the file."""
        stored, entry = self._stored[path], self._entries[path]
        dtype = numpy_type(entry.dtype)
        if stored.offset is None or stored.offset % dtype.alignment:
            return None
        count = int(np.prod(entry.shape, dtype=np.int64))
        with suppress(OSError, ValueError):  # no map of this kind of file: read it instead
            whole = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
            flat: Array = np.frombuffer(whole, dtype, count, stored.offset)
            return flat.reshape(entry.shape)
        return None

    def _rows(self, path: str, start: int, stop: int, *, check: bool = True) -> Array:
        """Return rows start..stop of a dataset; reads and checks the blocks they touch."""
        entry, stored = self._entries[path], self._stored[path]
        if check:
            low = start - start % entry.block_rows
            high = min(-(-stop // entry.block_rows) * entry.block_rows, entry.shape[0])
        else:
            low, high = start, stop
        if stop <= start:
            low, high = start, stop
        blocks: Array = np.empty((high - low, *entry.shape[1:]), numpy_type(entry.dtype))
        if blocks.size:
            self._fill(path, stored, low, blocks)
            if check:
                self._check_blocks(path, blocks, low // entry.block_rows)
        return blocks[start - low : stop - low]

    def _fill(self, path: str, stored: StoredDataset, start: int, out: Array) -> None:
        if stored.offset is None:
            self._strict.read_chunks(
                stored.handle, path, start, self._entries[path].block_rows, out
            )
            return
        with naming(path):
            read_into(self._fd, out, stored.offset + start * out[:1].nbytes)

    def _check_blocks(self, path: str, data: Array, first: int) -> None:
        entry: DatasetEntry = self._entries[path]
        self._refuse(path, first_bad_block(data, entry.crc32c, first, entry.block_rows))
        if data.dtype == np.bool_ and data.size:
            _check_booleans(path, int(data.view("u1").max()))

    def _check_sums(self, path: str, found: Array, highest: int) -> None:
        """Raise what `_check_blocks` would, of a whole dataset that somebody else has read."""
        self._refuse(path, first_other(found, self._entries[path].crc32c))
        if self._entries[path].dtype == "bool":
            _check_booleans(path, highest)

    def _refuse(self, path: str, bad: int | None) -> None:
        """Raise DamagedFileError if there is a bad block."""
        if bad is None:
            return
        entry = self._entries[path]
        start = bad * entry.block_rows
        stop = min(start + entry.block_rows, entry.shape[0])
        raise DamagedFileError(
            f"{path}: rows {start} to {stop - 1} were altered (the checksum does not match)"
        )


def _check_booleans(path: str, highest: int) -> None:
    if highest > 1:
        raise InvalidDataError(f"{path}: a boolean must be stored as 0 or 1")
