"""Base class of sources of arrays, whose rows may be texts or times of NumPy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar, cast

from lodcli.formats.arrays.dates import as_numbers, times_of
from lodcli.formats.arrays.fixed_texts import KINDS, STRINGS, FixedTexts
from lodcli.formats.arrays.flat_arrays import ArrayInfo, ArrayType, described, held, tensors_in
from lodcli.formats.choosing.array_patterns import JoinedArrays, without_note
from lodcli.formats.core.errors import naming
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.marks import Kept
from lodcli.formats.core.options import ReadOptions
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.nulls import Mask

A = TypeVar("A", bound=ArrayType)
Info = TypeVar("Info", bound=ArrayInfo)


class ArraySource(IndexedSource, Generic[A]):
    """An open file of arrays; the index is in memory, rows are read on demand.

    Attributes:
        arrays: the rows of each tensor.
        masks: of each tensor, by level; with L levels, level L is the rows.
    """

    arrays: Mapping[str, A | FixedTexts | JoinedArrays[A]]
    masks: Mapping[str, Mapping[int, A]]

    def read_whole(self, array: A) -> Array:
        """Return all rows of an array, see `read_array`."""
        return self.read_array(array, 0, array.shape[0])

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
        if isinstance(rows, JoinedArrays):
            return as_numbers(rows.rows(self.read_array, start, stop), start)
        return as_numbers(self.read_array(rows, start, stop), start)

    def describe(
        self: ArraySource[Info],
        names: Collection[str],
        look: Callable[[str], Info],
        kept: Mapping[str, Kept],
        options: ReadOptions,
    ) -> None:
        """Set the schema, indexes, arrays and masks, which are among flat arrays with these names.

        A note names the groups that hold no array that matches a pattern.

        Args:
            look: returns the metadata of an array; called once for each.
            kept: by tensor, its stored marks, of which only the masks are set.
            options: which arrays are rows, and which are the index.
        """
        arrays: dict[str, Info | FixedTexts | JoinedArrays[Info]] = {}

        def looked(name: str) -> Info | FixedTexts | JoinedArrays[Info]:
            if name not in arrays and name in sequences:
                arrays[name] = JoinedArrays.of({one: look(one) for one in sequences[name]})
            elif name not in arrays:
                found = look(name)
                is_text = found.dtype.kind in KINDS + STRINGS
                arrays[name] = self._texts(found) if is_text else found
            return arrays[name]

        tensors = tensors_in(names, options, kept)
        sequences = {one.data: one.sequences for one in tensors.values() if one.sequences}
        tensors = held(tensors, looked, self.left_out)
        matches = (parts.matches for parts in tensors.values() if parts.matches is not None)
        self.notes = [*self.notes, *without_note(matches)]
        self.arrays = {name: arrays[parts.data] for name, parts in tensors.items()}
        others = cast(Mapping[str, Info], arrays)  # neither masks nor offsets are texts
        self.masks = {
            name: {level: others[array] for level, array in parts.masks.items()}
            for name, parts in tensors.items()
        }
        self.schema, self.lods = described(
            tensors, arrays, lambda name: self.read_whole(others[name]), options
        )

    def _texts(self: ArraySource[Info], array: Info) -> FixedTexts:
        with naming(array.label):
            return FixedTexts.of(array.label, self.read_whole(array))
