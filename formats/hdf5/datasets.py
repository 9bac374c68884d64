"""Datasets of a plain HDF5 file as tensors: rows read on demand, the index in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import LevelKeys, TensorSpec
from lodcli.kernels.errors import InvalidLoDError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, as_int64, check_rows, lengths_to_offsets
from lodcli.kernels.index.lod import LoD

if TYPE_CHECKING:
    from h5py import h5d

    from lodcli.formats.hdf5.strict import StrictFile

# What opening such a file imports only then; see Format.modules.
MODULES = (
    "lodcli.formats.hdf5.strict",
    "hdf5plugin",
    "encodings.ascii",  # for the names of dtypes
)


class Datasets:
    """Datasets of an HDF5 file of which nothing is trusted; attributes are never read.

    Args:
        fd: the file, and its size in bytes.
        chosen: whether a person named the paths: one that is not there is then their mistake,
            and damage otherwise.
    """

    def __init__(self, fd: int, size: int, *, chosen: bool) -> None:
        from lodcli.formats.hdf5.strict import StrictFile, native

        self.strict: StrictFile = StrictFile(fd, size)
        self.dtype = native
        self._chosen = chosen

    def _dataset(self, path: str) -> h5d.DatasetID:
        try:
            return self.strict.dataset(path)
        except SelectionError as error:
            if self._chosen:
                raise
            raise DamagedFileError(str(error)) from None

    def has(self, path: str) -> bool:
        """Return whether there is a dataset at `path`."""
        try:
            self.strict.dataset(path)
        except SelectionError:
            return False
        return True

    def open(self, path: str) -> h5d.DatasetID:
        """Return a dataset of numbers with a row axis."""
        dataset = self._dataset(path)
        if not dataset.shape:
            raise UnsupportedError(f"{path}: is a single value; rows need an axis")
        return dataset

    def rows(self, path: str, dataset: h5d.DatasetID, start: int, stop: int) -> Array:
        """Return rows of a dataset, in native byte order."""
        out: Array = np.empty((stop - start, *dataset.shape[1:]), self.dtype(dataset, path))
        self.strict.read_rows(dataset, path, start, out)
        return out

    def numbers(self, path: str) -> Array:
        """Return all of a 1-D dataset, such as offsets."""
        dataset = self._dataset(path)
        if len(dataset.shape) != 1:
            raise InvalidLoDError(f"{path}: must be 1-D, found shape {dataset.shape}")
        return self.rows(path, dataset, 0, dataset.shape[0])

    def ends(self, path: str, level: int) -> Offsets:
        """Return offsets for a dataset of ends: adds the leading 0."""
        values = self.numbers(path)
        with naming(path):
            ends = as_int64(values, level=level, what="offsets")
            return lengths_to_offsets(np.diff(ends, prepend=0), level=level)


class DatasetsSource(IndexedSource):
    """Open datasets as tensors.

    Args:
        datasets: the open file, closed with this source.
        tensors: by name, the dataset of the rows and their index. Indexes that share their
            levels by reference, from the outermost down, share them here.
    """

    def __init__(self, datasets: Datasets, tensors: Mapping[str, tuple[str, LoD]]) -> None:
        self._datasets = datasets
        self._paths = {name: path for name, (path, _) in tensors.items()}
        self.lods = {name: lod for name, (_, lod) in tensors.items()}
        self._handles = {path: datasets.open(path) for path in self._paths.values()}
        keys = LevelKeys()
        specs = []
        for name, (path, lod) in tensors.items():
            dataset = self._handles[path]
            rows, row_shape = dataset.shape[0], dataset.shape[1:]
            dtype = datasets.dtype(dataset, path)
            with naming(path):
                check_rows(lod.levels, rows)
            levels = keys.specs(lod)
            specs.append(TensorSpec(name, dtype, row_shape, levels, rows))
        self.schema = tuple(specs)

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        path = self._paths[name]
        return self._datasets.rows(path, self._handles[path], start, stop)

    def close(self) -> None:
        self._datasets.strict.close()
