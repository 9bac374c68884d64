"""Writing a container: rows as they come, then the header."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from h5py import h5t

from lodcli.formats.container import header
from lodcli.formats.container.chunks import CODECS
from lodcli.formats.container.header import Header
from lodcli.formats.container.sinks import ChunkedSink, ContiguousSink, Sink
from lodcli.formats.container.written_file import WrittenFile
from lodcli.formats.core.errors import naming
from lodcli.formats.core.schema import Batch, Item, LevelSpec, Schema, StoredArray, TensorSpec
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor


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
        self._kind: type[Sink] = ChunkedSink if compression else ContiguousSink
        self._totals: dict[str, int] = {}
        self._paths: dict[str, str] = {}
        self._schema = tuple(self._placed(spec) for spec in schema)
        self._file = WrittenFile(output, compression)
        self._sinks: dict[str, Sink] = {}
        try:
            with output.naming():
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._file.open()
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
            self._sinks[path] = self._kind(self._file, path, dtype, row_shape, rows)
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
                self._file.raise_error()

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
            dataset = self._file.create(header.PATH, kind, ())
            offset = dataset.get_offset()
        self._file.pwrite(memoryview(text), offset)
        self.close()
        self._file.raise_error()

    def close(self) -> None:
        """Close the file; errors it meets are kept until they are asked for."""
        try:
            self._file.close()
        finally:
            for sink in self._sinks.values():
                sink.close()


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


def _is_offsets(path: str) -> bool:
    return path.rsplit("/", 2)[-2] in ("index", "outer")
