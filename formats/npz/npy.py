"""npy: one NumPy array as `numpy.save` writes it, rows without levels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from lodcli.formats.arrays.array_source import ArraySource
from lodcli.formats.arrays.fixed_texts import KINDS, FixedTexts
from lodcli.formats.arrays.flat_arrays import unlevelled
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelKeys, Schema, tensor_of
from lodcli.formats.npz.npy_header import (
    MAGIC,
    NPY_DTYPES,
    Header,
    native,
    read_header,
    written_header,
)
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.pread import read_array
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD


class Npy(Format):
    """One array, (N, ...), as `numpy.save` writes and `numpy.load` reads it.

    A tensor without levels; `lod concat --new-level NAME` makes a sequence of each file. Nothing is
    ever unpickled. Reading takes constant memory, except for an array in Fortran order. An array of
    texts is read whole; the texts are its level.
    """

    name = "npy"
    max_levels = 0
    dtypes = NPY_DTYPES
    seekable_output = True

    def sniff(self, head: bytes) -> bool:
        return head.startswith(MAGIC)

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _NpySource(source)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        (spec,) = schema
        rows = 0
        output.write(written_header(spec.dtype, (rows, *spec.row_shape)))
        for batch in batches:
            data = np.ascontiguousarray(tensor_of(batch[spec.name]).data, spec.dtype)
            output.write(data.data)
            rows += len(data)
        output.write_at(written_header(spec.dtype, (rows, *spec.row_shape)), 0)


class _NpySource(ArraySource[Header]):
    """An open file, whose header was read and checked."""

    def __init__(self, source: Input) -> None:
        file = source.make_seekable()
        self._fd = file.fileno()
        self._header = header = read_header(file, os.fstat(self._fd).st_size, marked=True)
        self._whole: Array | None = None
        rows: Header | FixedTexts = header
        if header.dtype.kind in KINDS:
            size_bytes = header.dtype.itemsize * header.shape[0]
            source.bounds.check_block(size_bytes, "holds texts of")
            rows = FixedTexts.of(source.label, self._read(header.shape, 0))
        spec, lod = unlevelled(DEFAULT_NAME, rows, LoD())
        self.schema = (replace(spec, levels=LevelKeys().specs(lod)),)
        self.lods = {DEFAULT_NAME: lod}
        self.arrays, self.masks = {DEFAULT_NAME: rows}, {DEFAULT_NAME: {}}

    def read_array(self, array: Header, start: int, stop: int) -> Array:
        if not array.fortran:
            row_bytes = self.schema[0].row_bytes
            return self._read((stop - start, *array.shape[1:]), start * row_bytes)
        if self._whole is None:
            self._whole = self._read(array.shape[::-1], 0).T
        return np.ascontiguousarray(self._whole[start:stop])

    def _read(self, shape: tuple[int, ...], position: int) -> Array:
        position += self._header.size_bytes
        return native(read_array(self._fd, shape, self._header.dtype, position))
