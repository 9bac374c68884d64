"""hdf5: someone's plain HDF5 file, its datasets named by the person who reads it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from lodcli.formats.base import BATCH_BYTES, Format, ReadOptions, Source, WriteOptions
from lodcli.formats.batching import cuts
from lodcli.formats.errors import naming
from lodcli.formats.inputs import Input
from lodcli.formats.outputs import Output
from lodcli.formats.schema import DEFAULT_NAME, Batch, LevelSpec, Schema, TensorSpec
from lodcli.kernels.checks import (
    Array,
    as_int64,
    check_chain,
    check_offsets,
    check_rows,
    lengths_to_offsets,
)
from lodcli.kernels.errors import InvalidLoDError, SelectionError, UnsupportedError
from lodcli.kernels.lod import LoD
from lodcli.kernels.tensor import LoDTensor


class PlainHdf5(Format):
    """Rows and offsets (or lengths) in datasets of any HDF5 file. Reading only.

    `--data /x` names the rows, `--offsets /o` or `--lengths /l` one level each, outermost
    first; attributes are ignored. Big-endian numbers arrive in native order.
    """

    name = "hdf5"
    suffixes = (".h5", ".hdf5")
    options = frozenset({"data", "offsets", "lengths", "levels"})
    modules = (
        "lodcli.formats.container.strict",
        "lodcli.formats.container.hdf5plugin",
        "hdf5plugin",
    )

    def sniff(self, head: bytes) -> bool:
        return False  # lod.h5 begins alike, and says what to do if a file is none

    def open(self, source: Input, options: ReadOptions) -> Source:
        if options.data is None:
            raise SelectionError("plain HDF5: name the dataset of the rows with --data")
        if options.offsets and options.lengths:
            raise SelectionError("plain HDF5: give offsets or lengths, not both")
        return PlainHdf5Source(source.make_seekable().fileno(), options)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        raise UnsupportedError("plain HDF5 is only read; write lod.h5, which is HDF5 as well")


class PlainHdf5Source(Source):
    """Open datasets of a plain HDF5 file, as one tensor."""

    def __init__(self, fd: int, options: ReadOptions) -> None:
        from lodcli.formats.container.strict import StrictFile

        assert options.data is not None
        self._strict = StrictFile(fd, os.fstat(fd).st_size, foreign=True)
        self._path = options.data
        self._dataset = self._strict.foreign_dataset(options.data)
        if not self._dataset.shape:
            raise UnsupportedError(f"{options.data}: is a single value; rows need an axis")
        self._lod = self._read_lod(options)
        rows, row_shape = self._dataset.shape[0], self._dataset.shape[1:]
        if self._lod.n_levels:
            with naming(_index_paths(options)[-1]):
                check_rows(self._lod.levels, rows)
        levels = tuple(
            LevelSpec(str(number), name, offsets.size - 1)
            for number, (name, offsets) in enumerate(
                zip(self._lod.names, self._lod.levels, strict=True)
            )
        )
        dtype = _native(self._dataset, options.data)
        self.schema = (TensorSpec(DEFAULT_NAME, dtype, row_shape, levels, rows),)

    def _read_lod(self, options: ReadOptions) -> LoD:
        paths = _index_paths(options)
        levels = []
        for level, path in enumerate(paths):
            dataset = self._strict.foreign_dataset(path)
            if len(dataset.shape) != 1:
                raise InvalidLoDError(f"{path}: must be 1-D, found shape {dataset.shape}")
            values = self._read(dataset, path, 0, dataset.shape[0], _native(dataset, path))
            with naming(path):
                if options.lengths:
                    lengths = as_int64(values, level=level, what="lengths")
                    levels.append(lengths_to_offsets(lengths, level=level))
                else:
                    levels.append(as_int64(values, level=level, what="offsets"))
                    check_offsets(levels[-1], level=level)
        try:
            check_chain(levels)
        except InvalidLoDError as error:
            with naming(paths[error.level or 0]):
                raise
        return LoD(levels, options.levels)

    def read_index(self, name: str) -> LoD:
        return self._lod

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        spec = self.schema[0]
        assert spec.rows is not None
        if self._lod.n_levels:
            ends = self._lod.absolute(0)
            for start, stop in cuts([ends], [spec.row_bytes], limit_bytes):
                part, rows = self._lod.items(0, start, stop)
                yield {spec.name: LoDTensor(self._rows(rows.start, rows.stop), part)}
            return
        step = max(1, limit_bytes // spec.row_bytes if spec.row_bytes else spec.rows)
        for start in range(0, max(1, spec.rows), step):
            yield {spec.name: LoDTensor(self._rows(start, min(start + step, spec.rows)))}

    def _rows(self, start: int, stop: int) -> Array:
        return self._read(self._dataset, self._path, start, stop, self.schema[0].dtype)

    def _read(self, dataset: Any, path: str, start: int, stop: int, dtype: np.dtype[Any]) -> Array:
        out: Array = np.empty((stop - start, *dataset.shape[1:]), dtype)
        self._strict.read_rows(dataset, path, start, out, convert=True)
        return out

    def close(self) -> None:
        self._strict.close()


def _index_paths(options: ReadOptions) -> tuple[str, ...]:
    return options.offsets or options.lengths or ()


def _native(dataset: Any, path: str) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = dataset.dtype
    except (TypeError, ValueError):
        raise UnsupportedError(f"{path}: holds numbers of a kind that NumPy has not") from None
    if dtype.kind not in "biufc" or dtype.itemsize > 16 or dtype.name == "float128":
        raise UnsupportedError(f"{path}: holds {dtype}, which no tensor can")
    return dtype.newbyteorder("=")
