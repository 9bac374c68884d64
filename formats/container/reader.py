"""Reads a container: a small index at once, a large one and rows on demand, blocks checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from lodcli.formats.arrays.lazy_lod import LazyLoD
from lodcli.formats.container import header
from lodcli.formats.container.checksums import FileState, block_rows
from lodcli.formats.container.marked_arrays import with_words
from lodcli.formats.container.rows import Rows
from lodcli.formats.container.stored import MANY, ContainerFile
from lodcli.formats.container.structure import structure_of
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import RowBlocks, StoredRows
from lodcli.formats.core.indexed import OFFSET_BYTES, IndexedSource, Loaded
from lodcli.formats.core.marks import tensor_of
from lodcli.formats.core.schema import (
    Batch,
    Item,
    LevelSpec,
    Schema,
    StoredArray,
    TensorSpec,
    find,
)
from lodcli.formats.values.file_attributes import parsed
from lodcli.kernels.errors import InvalidLoDError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import (
    Array,
    Offsets,
    check_chain,
    check_offsets,
    check_part,
    check_rows,
)
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask, mask_ends_with_zeros, unpack
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.kernels.tensor.time_steps import IndexMap, places_in_steps

# Indexes beyond this sum stay in the file: of 10^8 sequences they would take 800 MB, and seconds to
# check.
WHOLE_INDEX_BYTES = 4 << 20


def header_checksum(fd: int) -> int:
    """Return the CRC32C of a container's header, without reading anything else.

    The header holds the checksums of all rows, so its checksum identifies the content.
    """
    return header.checksum(ContainerFile(fd, os.fstat(fd).st_size).header())


class ContainerSource(IndexedSource):
    """An open container.

    Opening checks the header, and the indexes that together fit WHOLE_INDEX_BYTES. Blocks of the
    others are checked when they are read, as those of rows are.

    Args:
        fd: an open descriptor of the file; the caller keeps and closes it.
        label: name of the file in messages.
        mmap: whether `read` may return maps of the file. They end the process with SIGBUS if the
            file is truncated, and show changes of the file after the check.

    Attributes:
        header_crc32c: the CRC32C of the header; see `header_checksum`.
    """

    def __init__(self, fd: int, label: str, *, mmap: bool = False) -> None:
        self._fd = fd
        self._label = label
        self._mmap = mmap
        structure = structure_of(fd)
        found = structure.header
        self.header_crc32c = structure.header_crc32c
        self.attributes = parsed(found.attributes)
        state = FileState(fd)
        self._datasets = structure.datasets
        self._rows = _Lazy(
            lambda path: Rows(fd, state, path, found.datasets[path], self._datasets[path])
        )
        self.schema = tuple(
            with_words(spec, self._rows, label) if spec.marks.categories is not None else spec
            for spec in found.schema
        )
        self._data = _Lazy(lambda name: self._rows[header.data_path(name)])
        self._arrays = frozenset(spec.name for spec in self.schema if spec.array)
        self._offsets: dict[str, Offsets] = {}
        self._indexes: dict[tuple[LevelSpec, ...], LoD] = {}
        self._lazy: dict[tuple[LevelSpec, ...], LazyLoD] = {}
        self._by_name: dict[str, LoD | LazyLoD] = {}
        self.lods: Mapping[str, LoD] = Loaded(self.schema, self._whole_index)
        whole = _read_at_once(self.schema)
        if len(self._datasets) >= MANY:
            from lodcli.formats.container.small_indexes import read_together

            keys = {level.key for spec in whole for level in (*spec.levels, *spec.outer)}
            self._offsets = read_together(fd, keys, found.datasets, self._datasets)
        for spec in whole:
            self._whole_index(spec)
            if spec.array:
                self._index(spec.outer)

    def index_of(self, name: str) -> LoD | LazyLoD:
        if name not in self._by_name:
            self._by_name[name] = self._index_or_lazy(find(self.schema, name))
        return self._by_name[name]

    def _index_or_lazy(self, spec: TensorSpec) -> LoD | LazyLoD:
        if spec.levels in self._indexes:
            return self._indexes[spec.levels]
        if spec.levels not in self._lazy:
            assert spec.rows is not None
            counts = [*(level.items or 0 for level in spec.levels), spec.rows]
            read = partial(self._offsets_part, spec.levels, counts)
            names = [level.name for level in spec.levels]
            # A compressed block is decoded whole; of others, once checked, 4 KiB are read.
            window = 512
            if any(self._rows[level.key].offset is None for level in spec.levels):
                window = self._rows[spec.levels[0].key].entry.block_rows
            self._lazy[spec.levels] = LazyLoD(counts, names, read, window)
        return self._lazy[spec.levels]

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        return self._data[name].read(start, stop)

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        spec = find(self.schema, name)
        path = header.mask_path(spec, level) if spec.nullable else ""
        if path not in self._datasets:
            return None
        count = spec.rows if level == len(spec.levels) else spec.levels[level].items
        assert count is not None
        bits = self._rows[path].read(start // 8, -(-stop // 8))
        if stop == count and not mask_ends_with_zeros(bits, count):
            raise DamagedFileError(f"{self._label}: {path}: masks more than {count} items")
        return unpack(bits, start % 8, start % 8 + stop - start)

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        if name in self._arrays:
            raise SelectionError(f"{name} is a TensorArray; `lod pack` it to slice it")
        return super().slice(name, branch, level)

    def _group(self, group: list[TensorSpec], limit_bytes: int) -> Iterator[Batch]:
        if group[0].array:
            yield {spec.name: self._array(spec) for spec in group}
        else:
            yield from super()._group(group, limit_bytes)

    def read(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        """Return tensors in memory; the caller owns the rows.

        Tensors that share levels in the file share them in memory. With `mmap`, contiguous rows
        are read-only maps of the file instead.
        """
        wanted = [spec.name for spec in self.schema] if names is None else list(names)
        return {name: self._item(find(self.schema, name)) for name in wanted}

    def _item(self, spec: TensorSpec) -> Item:
        if spec.array:
            return self._array(spec)
        rows = self._data[spec.name]
        data = rows.mapped() if self._mmap else None
        if data is None:
            assert spec.rows is not None
            data = rows.read(0, spec.rows)
        with naming(self._label):
            nulls = self.read_nulls(spec.name, 0, 0, spec.items or 0)
            return tensor_of(spec, data, self.lods[spec.name], nulls)

    def row_blocks(self, name: str, buffer: Callable[[int], Array], block_bytes: int) -> RowBlocks:
        spec = find(self.schema, name)
        assert spec.rows is not None
        if spec.nullable:
            return super().row_blocks(name, buffer, block_bytes)
        blocks = self._row_blocks(spec, buffer, block_bytes)
        return RowBlocks(self.lods[spec.name], spec.rows, blocks)

    def _row_blocks(
        self, spec: TensorSpec, buffer: Callable[[int], Array], block_bytes: int
    ) -> Iterator[tuple[int, Array]]:
        """Yield rows in multiples of checksum blocks, read into the caller's memory."""
        rows = self._data[spec.name]
        block_rows = rows.entry.block_rows
        if not spec.row_bytes or not spec.rows:
            return
        step = max(1, block_bytes // (spec.row_bytes * block_rows)) * block_rows
        for start in range(0, spec.rows, step):
            count = min(step, spec.rows - start)
            size_bytes = count * spec.row_bytes
            block = buffer(size_bytes)[:size_bytes].view(spec.dtype)
            block = block.reshape(count, *spec.row_shape)
            rows.fill(start, block)
            yield start, block

    def rows_at(self, path: str) -> Rows:
        """Return the rows of a dataset."""
        return self._rows[path]

    @property
    def copyable(self) -> bool:
        """Whether a copy has to check only the index and the checksums, not the values."""
        return all(self.check_in_place(spec.name) is not None for spec in self.schema) and all(
            rows.entry.block_rows == block_rows(rows.row_bytes)
            and (rows.offset is not None or not rows.row_bytes or not rows.entry.shape[0])
            for rows in map(self._rows.__getitem__, self._datasets)
        )

    def check_in_place(self, name: str) -> Iterator[int] | None:
        spec = find(self.schema, name)
        # Rules for their values, such as valid UTF-8, are checked item by item.
        if spec.array or spec.nullable or spec.marks.is_text or spec.marks.categories is not None:
            return None
        return self._check(spec.name)

    def _check(self, name: str) -> Iterator[int]:
        for _ in self.index_parts(name):
            yield 0
        yield from self._data[name].check_all()

    def stored_rows(self, name: str) -> StoredRows | None:
        spec, rows = find(self.schema, name), self._data[name]
        if rows.offset is None or not spec.rows or not spec.row_bytes or spec.nullable:
            return None
        return StoredRows(
            lod=self.lods[spec.name],
            rows=spec.rows,
            fd=self._fd,
            offset=rows.offset,
            block_bytes=min(rows.entry.block_rows, spec.rows) * spec.row_bytes,
            check=rows.check_sums,
        )

    # -- parts ---------------------------------------------------------------------

    def _whole_index(self, spec: TensorSpec) -> LoD:
        lod = self._index(spec.levels)
        with naming(self._label, header.data_path(spec.name)):
            assert spec.rows is not None
            check_rows(lod.levels, spec.rows)
        return lod

    def _offsets_part(
        self,
        levels: tuple[LevelSpec, ...],
        counts: Sequence[int],
        number: int,
        start: int,
        stop: int,
    ) -> Offsets:
        """Return offsets start..stop of a level, checked."""
        path = levels[number].key
        with naming(self._label):
            part: Offsets = self._rows[path].read(start, stop)
        with naming(self._label, path):
            count, below = counts[number], counts[number + 1]
            check_part(part, level=number, start=start, count=count, below=below)
        return part

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
            rows = self._rows[path]
            # Rules are checked before checksums, because their messages are more specific.
            offsets = rows.read(0, rows.entry.shape[0], check=False)
            with naming(self._label, path):
                check_offsets(offsets, level=number)
            rows.check(offsets, 0)
            self._offsets[path] = immutable(offsets)
        return self._offsets[path]

    def _array(self, spec: TensorSpec) -> StoredArray:
        assert spec.rows is not None
        data = self._data[spec.name].read(0, spec.rows)
        order_path = header.part_path(spec.name, "order")
        rows = self._rows[order_path]
        order = rows.read(0, rows.entry.shape[0])
        with naming(self._label, order_path):
            index_map = IndexMap(order, self._index(spec.outer))
            steps = LoDTensor(data, self.lods[spec.name])
            held, expected = steps.lod.levels[0][-1], index_map.outer.levels[-1][-1]
            if held != expected:  # before allocating memory for this number
                raise ShapeMismatchError(f"the steps: expected {expected} items, found {held}")
            places_in_steps(steps.lod, index_map)  # raises an error unless they match
        return StoredArray(TensorArray.from_steps(steps), index_map)


class _Lazy(dict[str, Rows]):
    """Rows by path or name, made when they are first asked for."""

    def __init__(self, make: Callable[[str], Rows]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> Rows:
        rows = self[key] = self._make(key)
        return rows


def _read_at_once(schema: Schema) -> list[TensorSpec]:
    """Return the tensors whose index is read when the file is opened."""
    found = []
    known = set[tuple[LevelSpec, ...]]()
    left_bytes = WHOLE_INDEX_BYTES
    for spec in schema:
        size_bytes = 0 if spec.array or spec.levels in known else _index_bytes(spec.levels)
        if spec.array or size_bytes <= left_bytes:
            found.append(spec)
            known.add(spec.levels)
            left_bytes -= size_bytes
    return found


def _index_bytes(levels: tuple[LevelSpec, ...]) -> int:
    """Return the size of an index; -1 for empty offsets, without a leading 0.

    Such offsets are read when the file is opened, without a limit: reading raises the error.
    """
    counts = [level.items or 0 for level in levels]
    return OFFSET_BYTES * sum(counts) if min(counts, default=0) >= 0 else -1
