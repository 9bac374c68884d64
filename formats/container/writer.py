"""Writing a container: rows as they come, through a descriptor that is ours."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

from lodcli.formats.container import header
from lodcli.formats.container.checksums import BlockChecksums, block_rows, flat_bytes
from lodcli.formats.container.chunks import CODECS
from lodcli.formats.container.header import DatasetEntry, Header
from lodcli.formats.container.owned import OwnedFile
from lodcli.formats.container.strict import load_codec
from lodcli.formats.container.types import hdf5_type, numpy_type
from lodcli.formats.errors import naming
from lodcli.formats.interrupts import shielded
from lodcli.formats.outputs import COPY_BYTES, Output
from lodcli.formats.schema import Batch, Item, LevelSpec, Schema, StoredArray, TensorSpec
from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.errors import ShapeMismatchError, UnsupportedError
from lodcli.kernels.lod import LoD
from lodcli.kernels.tensor import LoDTensor

# Of everything in the file, so that a map of it gives arrays aligned for any dtype.
ALIGNMENT = 64
# HDF5's own.
CHUNK_LIMIT_BYTES = 1 << 32


class ContainerWriter:
    """A container being written.

    Datasets of known size get their place at once and are written in place. Others wait in
    nameless files beside the target until their size is known.

    Args:
        output: where to; must be seekable.
        schema: what will come.
        compression: None for contiguous datasets, else a codec.
    """

    def __init__(self, output: Output, schema: Schema, compression: str | None) -> None:
        self._output = output
        self._folder = output.path.parent if output.path else None
        self._owned = OwnedFile(output.fd)
        self._compression = compression
        self._totals: dict[str, int] = {}
        self._paths: dict[str, str] = {}
        self._schema = tuple(self._placed(spec) for spec in schema)
        self._file: Any = None
        self._sinks: dict[str, _Sink] = {}
        try:
            with output.naming():
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with shielded():
            self._file = h5py.File(
                self._owned,
                "w",
                alignment_threshold=1,
                alignment_interval=ALIGNMENT,
                rdcc_nbytes=0,
            )
        for spec in self._schema:
            self._sink(header.data_path(spec.name), spec.dtype, spec.row_shape, spec.rows)
            for level in (*spec.levels, *spec.outer):
                size = None if level.items is None else level.items + 1
                self._sink(level.key, np.dtype(np.int64), (), size)
            if spec.array:
                order = header.part_path(spec.name, "order")
                self._sink(order, np.dtype(np.int64), (), None)

    def _placed(self, spec: TensorSpec) -> TensorSpec:
        """Return the description with the paths of its offsets as level keys."""

        def paths(levels: tuple[LevelSpec, ...], part: str) -> tuple[LevelSpec, ...]:
            placed = []
            for number, level in enumerate(levels):
                own = header.part_path(spec.name, f"{part}/{number}")
                path = self._paths.setdefault(level.key, own)
                placed.append(LevelSpec(path, level.name, level.items))
            return tuple(placed)

        return TensorSpec(
            name=spec.name,
            dtype=spec.dtype,
            row_shape=spec.row_shape,
            levels=paths(spec.levels, "index"),
            rows=spec.rows,
            array=spec.array,
            outer=paths(spec.outer, "outer"),
        )

    def _sink(
        self, path: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], rows: int | None
    ) -> None:
        if path not in self._sinks:
            kind: type[_Sink] = _ChunkedSink if self._compression else _ContiguousSink
            self._sinks[path] = kind(self, path, dtype, row_shape, rows)
            if path not in self._totals and dtype == np.int64 and _is_offsets(path):
                self._totals[path] = 0
                self._sinks[path].append(np.zeros(1, np.int64))

    def append(self, batch: Batch) -> None:
        """Write one batch after the others."""
        sent: dict[str, Offsets] = {}
        for spec in self._schema:
            if spec.name not in batch:
                continue
            item = batch[spec.name]
            with naming(spec.name), self._output.naming():
                self._append_item(spec, item, sent)
                self._owned.raise_error()

    def _append_item(self, spec: TensorSpec, item: Item, sent: dict[str, Offsets]) -> None:
        tensor = item if isinstance(item, LoDTensor) else item.array.steps
        if isinstance(item, StoredArray):
            self._append_levels(spec.outer, item.index_map.outer, sent)
            order = header.part_path(spec.name, "order")
            self._sinks[order].append(np.asarray(item.index_map.order))
        self._append_levels(spec.levels, tensor.lod, sent)
        if tensor.dtype != spec.dtype or tensor.row_shape != spec.row_shape:
            raise ShapeMismatchError(
                f"expected rows of {spec.dtype} {spec.row_shape}, "
                f"found {tensor.dtype} {tensor.row_shape}"
            )
        self._sinks[header.data_path(spec.name)].append(tensor.data)

    def _append_levels(
        self, levels: tuple[LevelSpec, ...], lod: LoD, sent: dict[str, Offsets]
    ) -> None:
        if lod.n_levels != len(levels):
            raise ShapeMismatchError(f"expected {len(levels)} levels, found {lod.n_levels}")
        for level, offsets in zip(levels, lod.levels, strict=True):
            if level.key in sent:
                if sent[level.key] is not offsets and not np.array_equal(sent[level.key], offsets):
                    raise ShapeMismatchError(f"the shared level {level.key} differs")
                continue
            sent[level.key] = offsets
            total = self._totals[level.key]
            self._sinks[level.key].append(offsets[1:] + total if total else offsets[1:])
            self._totals[level.key] = total + int(offsets[-1])

    def finish(self) -> None:
        """Write what remains and the header."""
        with self._output.naming():
            self._finish()

    def _finish(self) -> None:
        entries = {path: sink.finish() for path, sink in self._sinks.items()}
        schema = tuple(
            TensorSpec(
                name=spec.name,
                dtype=spec.dtype,
                row_shape=spec.row_shape,
                levels=spec.levels,
                array=spec.array,
                outer=spec.outer,
            )
            for spec in self._schema
        )
        text = header.encode(Header(schema, entries))
        with shielded():
            kind = h5t.C_S1.copy()
            kind.set_size(len(text))
            kind.set_strpad(h5t.STR_NULLPAD)
            dataset = self.create(header.PATH, kind, ())
            offset = dataset.get_offset()
        self.pwrite(memoryview(text), offset)
        self.close()
        self._owned.raise_error()

    def close(self) -> None:
        """Close the HDF5 file; errors it meets are kept by the descriptor's owner."""
        try:
            with shielded():
                if self._file is not None:
                    self._file.close()
        finally:
            # Should HDF5 still hold something: the number will soon be another file's.
            self._owned.release()
            for sink in self._sinks.values():
                sink.close()

    # -- what the sinks use --------------------------------------------------------

    def create(
        self, path: str, kind: h5t.TypeID, shape: tuple[int, ...], chunk: int = 0
    ) -> h5d.DatasetID:
        """Return a new dataset; contiguous, or in chunks of so many rows."""
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_obj_track_times(False)
        if chunk:
            # Zeros beyond the last row: what lay in memory must not get into a file.
            plist.set_fill_time(h5d.FILL_TIME_ALLOC)
            plist.set_chunk((chunk, *(max(1, extent) for extent in shape[1:])))
            _set_filters(plist, self._compression)
            limits = (h5s.UNLIMITED, *shape[1:])
            space = h5s.create_simple(shape, limits)
        else:
            plist.set_fill_time(h5d.FILL_TIME_NEVER)
            plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
        links = h5p.create(h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        return h5d.create(self._file.id, path.encode(), kind, space, plist, lcpl=links)

    def pwrite(self, view: memoryview, offset: int) -> None:
        """Write bytes to the file; raises at once what goes wrong."""
        self._owned.pwrite(view, offset)
        self._owned.raise_error()

    def copy_from(self, fd: int, size: int, offset: int) -> None:
        """Write the first bytes of another file; raises at once what goes wrong."""
        self._owned.copy_from(fd, size, offset)
        self._owned.raise_error()

    def spool(self) -> Any:
        """Return a nameless file where there is room for what will be the target."""
        return tempfile.TemporaryFile(dir=self._folder, buffering=0)


class _Sink:
    """One dataset being written."""

    def __init__(
        self,
        writer: ContainerWriter,
        path: str,
        dtype: np.dtype[Any],
        row_shape: tuple[int, ...],
        rows: int | None,
    ) -> None:
        self.writer = writer
        self.path = path
        self.dtype = numpy_type(dtype.name)
        self.row_shape = row_shape
        self.known = rows
        self.rows = 0
        self.row_bytes = int(np.prod(row_shape, dtype=np.int64)) * dtype.itemsize
        self.block_rows = block_rows(self.row_bytes)
        self.checksums = BlockChecksums(self.block_rows * self.row_bytes)

    def append(self, data: Array) -> None:
        """Write rows (n, D1, ..) after the others, a few MB at a time."""
        if self.known is not None and self.rows + data.shape[0] > self.known:
            raise ShapeMismatchError(f"{self.path}: more than the {self.known} rows announced")
        step = max(1, COPY_BYTES // self.row_bytes if self.row_bytes else data.shape[0])
        for start in range(0, data.shape[0], step):
            part = np.ascontiguousarray(data[start : start + step], self.dtype)
            self.checksums.update(flat_bytes(part))
            self._put(part)
            self.rows += part.shape[0]

    def finish(self) -> DatasetEntry:
        """Complete the dataset and return its line in the header."""
        if self.known is not None and self.rows != self.known:
            raise ShapeMismatchError(f"{self.path}: expected {self.known} rows, got {self.rows}")
        self._complete()
        return DatasetEntry(
            self.dtype.name,
            (self.rows, *self.row_shape),
            self.block_rows,
            self.checksums.finish(),
        )

    def _put(self, part: Array) -> None:
        raise NotImplementedError

    def _complete(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Release what the sink holds."""


class _ContiguousSink(_Sink):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._spool: Any = None
        self._offset: int | None = None
        if self.known is not None:
            self._create(self.known)
        else:
            self._spool = self.writer.spool()

    def _create(self, rows: int) -> None:
        with shielded():
            kind = hdf5_type(self.dtype.name)
            dataset = self.writer.create(self.path, kind, (rows, *self.row_shape))
            self._offset = dataset.get_offset()

    def _put(self, part: Array) -> None:
        view = flat_bytes(part).data
        if self.known is None:
            while len(view):
                view = view[os.write(self._spool.fileno(), view) :]
            return
        if len(view):
            assert self._offset is not None
            self.writer.pwrite(view, self._offset + self.rows * self.row_bytes)

    def _complete(self) -> None:
        if self._spool is None:
            return
        self._create(self.rows)
        if self._offset is not None:  # there are bytes
            self.writer.copy_from(self._spool.fileno(), self.rows * self.row_bytes, self._offset)
        self.close()

    def close(self) -> None:
        if self._spool is not None:
            self._spool.close()


class _ChunkedSink(_Sink):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._waiting: list[Array] = []
        self._waiting_rows = 0
        self._written = 0
        if self.row_bytes >= CHUNK_LIMIT_BYTES:
            raise UnsupportedError(f"{self.path}: rows of {self.row_bytes} bytes: no compression")
        with shielded():
            kind = hdf5_type(self.dtype.name)
            shape = (self.known or 0, *self.row_shape)
            self._dataset = self.writer.create(self.path, kind, shape, self.block_rows)

    def _put(self, part: Array) -> None:
        self._waiting.append(part)
        self._waiting_rows += part.shape[0]
        if self._waiting_rows >= self.block_rows:
            self._flush(self._waiting_rows - self._waiting_rows % self.block_rows)

    def _flush(self, rows: int) -> None:
        data = np.concatenate(self._waiting)
        ready, rest = data[:rows], data[rows:]
        with shielded():
            if self.known is None:
                self._dataset.set_extent((self._written + rows, *self.row_shape))
            if ready.size:
                space = self._dataset.get_space()
                space.select_hyperslab((self._written, *(0,) * len(self.row_shape)), ready.shape)
                memory = h5s.create_simple(ready.shape)
                self._dataset.write(memory, space, ready, self._dataset.get_type())
        self._written += rows
        # A copy: the rest must not keep the whole part alive.
        self._waiting, self._waiting_rows = [rest.copy()], rest.shape[0]

    def _complete(self) -> None:
        if self._waiting_rows:
            self._flush(self._waiting_rows)


def write_container(
    output: Output, schema: Schema, batches: Iterable[Batch], compression: str | None
) -> None:
    """Write all batches and the header; the caller commits."""
    if compression is not None and compression not in CODECS:
        raise UnsupportedError(f"no codec {compression!r}; there are: {', '.join(CODECS)}")
    if compression in ("lz4", "zstd"):
        load_codec(compression)
    writer = ContainerWriter(output, schema, compression)
    try:
        for batch in batches:
            writer.append(batch)
        writer.finish()
    finally:
        writer.close()


def _set_filters(plist: Any, compression: str | None) -> None:
    plist.set_shuffle()
    if compression == "deflate":
        plist.set_deflate(4)
        return
    assert compression is not None
    plist.set_filter(CODECS[compression], h5z.FLAG_MANDATORY, ())


def _is_offsets(path: str) -> bool:
    return path.rsplit("/", 2)[-2] in ("index", "outer")
