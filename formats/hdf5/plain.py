"""hdf5: a plain HDF5 file, with datasets named by the user."""

from __future__ import annotations

import os
from collections.abc import Iterable

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, Schema
from lodcli.formats.hdf5.datasets import MODULES, Datasets, DatasetsSource
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import InvalidLoDError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import (
    as_int64,
    check_chain,
    check_offsets,
    check_rows,
    lengths_to_offsets,
)
from lodcli.kernels.index.lod import LoD


class PlainHdf5(Format):
    """Rows and offsets (or lengths) in datasets of any HDF5 file. Reading only.

    `--data /x` names the rows, `--offsets /o` or `--lengths /l` one level each, outermost
    first; attributes are ignored. Big-endian numbers arrive in native order.
    """

    name = "hdf5"
    options = frozenset({"data", "offsets", "lengths", "levels"})
    modules = MODULES
    isolated = True

    def open(self, source: Input, options: ReadOptions) -> Source:
        if options.data is None:
            raise SelectionError("plain HDF5: name the dataset of the rows with --data")
        if options.offsets and options.lengths:
            raise SelectionError("plain HDF5: give offsets or lengths, not both")
        fd = source.make_seekable().fileno()
        datasets = Datasets(fd, os.fstat(fd).st_size, chosen=True)
        data, lod = datasets.open(options.data), _lod(datasets, options)
        if lod.n_levels:
            with naming(_index_paths(options)[-1]):
                check_rows(lod.levels, data.shape[0])
        return DatasetsSource(datasets, {DEFAULT_NAME: (options.data, lod)})

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        raise UnsupportedError("plain HDF5 is read-only; write lod.h5, which is HDF5 as well")


def _lod(datasets: Datasets, options: ReadOptions) -> LoD:
    paths = _index_paths(options)
    levels = []
    for level, path in enumerate(paths):
        values = datasets.numbers(path)
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


def _index_paths(options: ReadOptions) -> tuple[str, ...]:
    return options.offsets or options.lengths or ()
