"""Datasets of a plain HDF5 file as tensors: rows read on demand, the index in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lodcli.formats.arrays.flat_arrays import EqualLevels
from lodcli.formats.choosing.array_patterns import JoinedArrays
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import LevelKeys, TensorSpec
from lodcli.formats.storage.inputs import Input
from lodcli.formats.values.netcdf import no_lengths, time_note
from lodcli.kernels.errors import InvalidLoDError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, as_int64, check_rows, lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option

if TYPE_CHECKING:
    from lodcli.formats.hdf5.columns import Column
    from lodcli.formats.hdf5.strict import StrictFile

# Modules that are imported only when such a file is opened; see Format.modules.
MODULES = (
    "lodcli.formats.hdf5.strict",
    "lodcli.formats.hdf5.tree",
    "hdf5plugin",
    "encodings.ascii",  # for the names of dtypes
)
# Limit on notes on the datasets of a pattern.
MOST_NOTES = 3


def asking_for_data(source: Input) -> SelectionError:
    """Return the error for a plain HDF5 file without the name of a dataset: it lists them."""
    from lodcli.formats.hdf5.strict import StrictFile
    from lodcli.formats.hdf5.tree import listed

    there = listed(StrictFile(source.make_seekable().fileno()))
    return SelectionError(
        f"name the dataset of the rows with {option('data')}, and those of the index with "
        f"{option('offsets')} or {option('lengths')}; there are: {there or 'none'}"
    )


class Datasets:
    """Datasets of an untrusted HDF5 file.

    Args:
        chosen: whether the user named the paths: a missing one is then a SelectionError, else a
            DamagedFileError.
    """

    def __init__(self, source: Input, *, chosen: bool) -> None:
        from lodcli.formats.hdf5.strict import StrictFile

        self.strict: StrictFile = StrictFile(source.make_seekable().fileno())
        self._bounds = source.bounds
        self._chosen = chosen

    def _column(self, path: str) -> Column:
        try:
            return self.strict.column(path)
        except SelectionError as error:
            if self._chosen:
                raise
            raise DamagedFileError(str(error)) from None

    def has(self, path: str) -> bool:
        """Return whether there is a dataset at `path`."""
        try:
            self.strict.column(path)
        except SelectionError:
            return False
        return True

    def open(self, path: str, *, text: bool = False) -> Column:
        """Return a dataset with a row axis, or a field: numbers or, with `text`, also text."""
        column = self._column(path)
        if not column.dataset.shape:
            raise UnsupportedError(
                f"{path}: is a single value; rows need an axis; store it with one, [value]"
            )
        if column.text and not text:
            raise UnsupportedError(f"{path}: holds text, not numbers")
        return column

    def rows(self, column: Column, start: int, stop: int) -> Array:
        """Return rows of a column, in native byte order."""
        # Zeros, so that parts that HDF5 fails to fill do not show memory of this process.
        out: Array = np.zeros((stop - start, *column.shape[1:]), column.dtype)
        self.strict.read_rows(column, start, out)
        return out

    def whole(self, column: Column) -> Array:
        """Return all of a column; a single value is one row."""
        self._bounds.check(column.size_bytes, f"{column.path}: declares")
        return self.rows(column, 0, column.shape[0] if column.shape else 1)

    def numbers(self, path: str, *, matrix: bool = False) -> Array:
        """Return all of a 1-D dataset, such as offsets.

        Args:
            matrix: whether it may have further axes of size 1, as the vectors of MATLAB have, or be
                a single value, as Octave stores vectors of one.
        """
        column = self._column(path)
        if self.strict.is_instance_index(column):
            raise no_lengths(path)
        long = sum(size != 1 for size in column.shape)
        if len(column.shape) != 1 and not (matrix and long <= 1):
            raise InvalidLoDError(
                f"{path}: must be 1-D, found shape {column.shape}; store it with one axis, or name "
                "another dataset"
            )
        return self.whole(column).reshape(-1)

    def ends(self, path: str, level: int) -> Offsets:
        """Return offsets for a dataset of ends: adds the leading 0."""
        values = self.numbers(path)
        with naming(path):
            ends = as_int64(values, level=level, what="offsets")
            return lengths_to_offsets(np.diff(ends, prepend=0), level=level)


class DatasetsSource(IndexedSource):
    """Open datasets of numbers as tensors.

    Args:
        datasets: the open file, closed with this source.
        tensors: by name, the dataset of the rows and their index. Indexes that share their
            levels by reference, from the outermost down, share them here.
    """

    def __init__(self, datasets: Datasets, tensors: Mapping[str, tuple[str, LoD]]) -> None:
        self._datasets = datasets
        self.lods = {name: lod for name, (_, lod) in tensors.items()}
        self._columns = {name: datasets.open(path) for name, (path, _) in tensors.items()}
        keys = LevelKeys()
        specs = []
        for name, (path, lod) in tensors.items():
            column = self._columns[name]
            rows, row_shape = column.shape[0], column.shape[1:]
            with naming(path):
                check_rows(lod.levels, rows)
            specs.append(TensorSpec(name, column.dtype, row_shape, keys.specs(lod), rows))
        self.schema = tuple(specs)
        self.notes = notes(datasets, self._columns)

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        return self._datasets.rows(self._columns[name], start, stop)

    def close(self) -> None:
        self._datasets.strict.close()


@dataclass(frozen=True)
class _Dataset:
    """What a dataset holds, and where its rows are, if HDF5 need not read them.

    Otherwise it is opened for each read: open ones keep chunks in memory.
    """

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    place: int | None


class JoinedSource(IndexedSource):
    """Open datasets of numbers, each a sequence of a tensor.

    Args:
        datasets: the open file, closed with this source.
        paths: of the datasets, by tensor.
        levels: the name of the level.
    """

    def __init__(
        self, datasets: Datasets, paths: Mapping[str, Iterable[str]], levels: Sequence[str] | None
    ) -> None:
        self._datasets = datasets
        told: list[str] = []

        def look(path: str, name: str) -> _Dataset:
            column = datasets.open(path)
            told.extend(notes(datasets, {name: column}, joined=True))
            return _Dataset(path, column.dtype, column.shape, datasets.strict.place(column))

        self._joined = {
            name: JoinedArrays.of({path: look(path, name) for path in found})
            for name, found in paths.items()
        }
        equal = EqualLevels()
        specs, lods = [], {}
        for name, joined in self._joined.items():
            found, lods[name] = equal.shared(LoD([joined.offsets], levels))
            specs.append(TensorSpec(name, joined.dtype, joined.shape[1:], found, joined.shape[0]))
        self.schema, self.lods = tuple(specs), lods
        if more := told[MOST_NOTES:]:
            told[MOST_NOTES:] = [f"{len(more)} more such notes on other datasets"]
        self.notes = told

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        def read(one: _Dataset, start: int, stop: int) -> Array:
            if one.place is None:
                return self._datasets.rows(self._datasets.open(one.path), start, stop)
            out: Array = np.empty((stop - start, *one.shape[1:]), one.dtype)
            row_bytes = out.itemsize * math.prod(one.shape[1:])
            self._datasets.strict.read_at(one.path, one.place + start * row_bytes, out)
            return out

        return self._joined[name].rows(read, start, stop)

    def close(self) -> None:
        self._datasets.strict.close()


def notes(datasets: Datasets, columns: Mapping[str, Column], *, joined: bool = False) -> list[str]:
    """Return notes on columns that were not written completely, where HDF5 returns the fill value,
    on netCDF attributes that would change values, and on characters that are read as numbers.

    Args:
        columns: by the name of their tensor.
        joined: whether other columns are of the same tensor.
    """
    told = []
    for name, column in columns.items():
        if found := datasets.strict.unwritten(column):
            told.append(f"{column.path}: {found} never written; their values are the fill value")
        if named := datasets.strict.conventions(column):
            told.append(f"{column.path}: values are as stored: {', '.join(named)} not applied")
        if not column.text and (
            found := time_note(
                datasets.strict.units(column),
                column.dtype,
                name,
                alone=not (joined or named),
            )
        ):
            told.append(f"{column.path}: {found}")
        if not column.text and datasets.strict.is_of_characters(column):
            told.append(f"{column.path}: characters of MATLAB or Octave are read as their numbers")
    return told
