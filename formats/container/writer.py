"""Writing a container: rows as they come, through a descriptor that is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

from lodcli.formats.container import header
from lodcli.formats.container.checksums import Bytes
from lodcli.formats.container.chunks import CODECS
from lodcli.formats.container.header import Header
from lodcli.formats.container.owned import OwnedFile, require_memory
from lodcli.formats.container.sinks import ChunkedSink, ContiguousSink, Sink
from lodcli.formats.core.errors import naming
from lodcli.formats.core.schema import Batch, Item, LevelSpec, Schema, StoredArray, TensorSpec
from lodcli.formats.core.threads import thread_pool
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Of everything in the file, so that a map of it gives arrays aligned for any dtype.
ALIGNMENT = 64
# The structures of HDF5 1.8, which all versions read, and the only ones `parser` knows.
OLDEST = ("earliest", "v108")
# From here on HDF5 may align a dataset otherwise, when it is to be at a certain place.
PLACED_BYTES = 1 << 20
# For what HDF5 keeps of its own before the first such dataset.
GAP_BYTES = 64 << 10
# From here on it pays to have the checksums made in another thread.
SHARED_BYTES = 1 << 20


class ContainerWriter:
    """A container being written.

    Datasets of known size get their place at once and are written in place. Others wait in
    nameless files beside the target until their size is known; one that is large is written
    where it is going to be.

    Args:
        output: where to; must be seekable.
        schema: what will come.
        compression: None for contiguous datasets, else a codec.
    """

    def __init__(self, output: Output, schema: Schema, compression: str | None) -> None:
        self._output = output
        self._owned = OwnedFile(output.fd)
        self._compression = compression
        self._totals: dict[str, int] = {}
        self._paths: dict[str, str] = {}
        self._schema = tuple(self._placed(spec) for spec in schema)
        self._file: Any = None
        self._pool: ThreadPoolExecutor | None = None
        self._sinks: dict[str, Sink] = {}
        try:
            with output.naming():
                self._open()
        except BaseException:
            self.close()
            raise

    def _open_file(self, mode: str, threshold: int, interval: int) -> None:
        require_memory()
        with shielded():
            self._file = h5py.File(
                self._owned,
                mode,
                libver=OLDEST,
                alignment_threshold=threshold,
                alignment_interval=interval,
                rdcc_nbytes=0,
            )

    def _open(self) -> None:
        self._open_file("w", 1, ALIGNMENT)
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
            kind: type[Sink] = ChunkedSink if self._compression else ContiguousSink
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
        for sink in sorted(self._sinks.values(), key=lambda sink: not sink.placed):
            sink.complete()
        entries = {path: sink.entry() for path, sink in self._sinks.items()}
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
            if self._pool is not None:
                self._pool.shutdown()

    # -- what the sinks use --------------------------------------------------------

    def create(
        self,
        path: str,
        kind: h5t.TypeID,
        shape: tuple[int, ...],
        chunk: int = 0,
        *,
        at: int | None = None,
    ) -> h5d.DatasetID:
        """Return a new dataset; contiguous, or in chunks of so many rows.

        Args:
            path, kind, shape: of the dataset.
            chunk: how many rows; 0 for contiguous.
            at: where to put it: what `reserve` gave.
        """
        if at is not None:
            # HDF5 takes the first multiple of an alignment that is free.
            self._reopen(PLACED_BYTES, at)
            dataset = self.create(path, kind, shape)
            offset = dataset.get_offset()
            del dataset
            self._reopen(1, ALIGNMENT)
            self._owned.kept_bytes = 0
            assert offset == at
            return h5d.open(self._file.id, path.encode())
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

    def reserve(self) -> int | None:
        """Return where a dataset of unknown size can be written; None the second time.

        It must be the next one that is created, with at least PLACED_BYTES, and goes first.
        """
        if self._owned.kept_bytes:
            return None
        end = int(self._file.id.get_filesize())
        place = -(-(end + GAP_BYTES) // GAP_BYTES) * GAP_BYTES
        self._owned.kept_bytes = place
        return place

    def _reopen(self, threshold: int, interval: int) -> None:
        with shielded():
            self._file.close()
        self._owned.raise_error()
        self._open_file("r+", threshold, interval)

    def pwrite(self, view: memoryview, offset: int) -> None:
        """Write bytes to the file; raises at once what goes wrong."""
        self._owned.pwrite(view, offset)
        self._owned.raise_error()

    def copy_from(self, fd: int, size: int, offset: int) -> None:
        """Write the first bytes of another file; raises at once what goes wrong."""
        self._owned.copy_from(fd, size, offset)
        self._owned.raise_error()

    @contextmanager
    def meanwhile(self, work: Callable[[Bytes], None], part: Bytes) -> Iterator[None]:
        """Do some work on bytes while the block writes them."""
        if part.size < SHARED_BYTES:
            work(part)
            yield
            return
        if self._pool is None:
            self._pool = thread_pool(1, "lod-checksums")
        done = self._pool.submit(work, part)
        try:
            yield
        finally:
            done.result()

    def spool(self) -> Any:
        """Return a nameless file where there is room for what will be the target."""
        return self._output.spool(buffering=0)


def write_container(
    output: Output, schema: Schema, batches: Iterable[Batch], compression: str | None
) -> None:
    """Write all batches and the header; the caller commits."""
    if compression is not None and compression not in CODECS:
        raise UnsupportedError(f"no codec {compression!r}; there are: {', '.join(CODECS)}")
    if compression in ("lz4", "zstd"):
        from lodcli.formats.container.hdf5plugin import register

        register(compression)
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
