"""Base class of sources of arrays, whose rows may be texts or times of NumPy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from lodcli.formats.arrays.dates import as_numbers, times_of
from lodcli.formats.arrays.fixed_texts import FixedTexts
from lodcli.formats.arrays.flat_arrays import ArrayType
from lodcli.formats.core.indexed import IndexedSource
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.nulls import Mask

A = TypeVar("A", bound=ArrayType)


class ArraySource(IndexedSource, Generic[A]):
    """An open file of arrays; the index is in memory, rows are read on demand.

    Attributes:
        arrays: the rows of each tensor.
        masks: of each tensor, by level; with L levels, level L is the rows.
    """

    arrays: Mapping[str, A | FixedTexts]
    masks: Mapping[str, Mapping[int, A]]

    @abstractmethod
    def read_array(self, array: A, start: int, stop: int) -> Array:
        """Return a copy of rows of an array, in native byte order."""

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        return self._numbers(name, start, stop)[0]

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        if (mask := self.masks[name].get(level)) is not None:
            return self.read_array(mask, start, stop)
        if level < self.lods[name].n_levels or times_of(self.arrays[name].dtype) is None:
            return None
        return self._numbers(name, start, stop)[1]

    def read_masked(self, name: str, start: int, stop: int) -> tuple[Array, Mask | None]:
        rows, valid = self._numbers(name, start, stop)
        mask = self.masks[name].get(self.lods[name].n_levels)
        return rows, valid if mask is None else self.read_array(mask, start, stop)

    def _numbers(self, name: str, start: int, stop: int) -> tuple[Array, Mask | None]:
        rows = self.arrays[name]
        if isinstance(rows, FixedTexts):
            return rows.data[start:stop], None
        return as_numbers(self.read_array(rows, start, stop), start)
