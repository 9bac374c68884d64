"""A tensor of an open file, of which only what is asked for is read."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, overload

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import ReadItem, TensorSpec
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD, level_named
from lodcli.kernels.index.selection import item_number
from lodcli.kernels.tensor.lod_tensor import LoDTensor

_ALL = slice(None)


class StoredTensor:
    """A tensor of an open file, such as `file["words"]`; `tensor[key]` reads a selection.

    A key selects the same as from a LoDTensor. Without nulls, only the selection of a key is read
    that has integers, perhaps a range at its end, and no part for the rows. Of other keys the
    selection of the first part is read; the other parts select from that in memory. A file without
    random access, such as text, is read completely for each key: call `read()` once instead.

    Args:
        file: the open file, which stays open while the tensor is in use.
        spec: see Attributes.
        label: the name of the file in messages.
        gather: returns the items of a level that a range with a step, or an array, selects; None
            if the file does not support random access.

    Attributes:
        spec: the description of the tensor in the file; its counts may be unknown.
    """

    def __init__(
        self,
        file: Source,
        spec: TensorSpec,
        label: str,
        gather: Callable[[str, int, Any], LoDTensor | None],
    ) -> None:
        self._file = file
        self._label = label
        self._gather = gather
        self.spec = spec
        self._has_plain_items = bool(spec.levels) and not (spec.nullable or spec.array)

    @property
    def name(self) -> str:
        """Its name in the file."""
        return self.spec.name

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the rows."""
        return self.spec.dtype

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row, () for single values."""
        return self.spec.row_shape

    @property
    def categories(self) -> tuple[str, ...] | None:
        """The words for the codes in the rows; None if the rows are not codes."""
        found = self.spec.marks.categories
        return None if found is None else found.words

    @property
    def rows(self) -> int:
        """The number of rows; reads the tensor if the file does not store it."""
        return self._count(len(self.spec.levels))

    @cached_property
    def lod(self) -> LoD:
        """The index, in memory; no rows are read where the format allows that."""
        return self._file.read_index(self.name)

    def read(self) -> ReadItem:
        """Return the whole tensor in memory, a StoredArray if it is a TensorArray."""
        return self._file.read([self.name])[self.name]

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[ReadItem]:
        """Yield the tensor in order, as batches of whole outermost items.

        Args:
            limit_bytes: approximate size of the rows of a batch, which has at least one item.
        """
        for batch in self._file.batches_of([self.name], limit_bytes):
            if self.name in batch:
                yield batch[self.name]

    def __len__(self) -> int:
        return self._count(0)

    def __iter__(self) -> Iterator[Any]:
        """Yield the outermost items in order, as a LoDTensor does; reads them in batches."""
        for batch in self.batches():
            yield from batch

    def __contains__(self, value: object) -> bool:
        return value in self.read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the rows of a tensor without levels; see LoDTensor."""
        return np.asarray(self.read(), dtype=dtype)

    @overload
    def __getitem__(self, key: slice | list[int] | list[bool] | Array | LoDTensor) -> LoDTensor: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...

    def __getitem__(self, key: Any) -> Any:
        """Return the selection of a key; see LoDTensor.

        Raises:
            SelectionError: there is no such item or level, or the tensor is a TensorArray.
            LodError: the file is damaged or closed; names the file.
        """
        if type(key) is int and self._has_plain_items:  # fast path of most keys
            return self._file.slice(self.spec.name, (key,))
        with naming(self._label):
            return self._selected(key)

    def _selected(self, key: Any) -> Any:
        spec, level = self.spec, 0
        if spec.array:
            raise SelectionError(f"{self.name} is a TensorArray, which has no items; read() it")
        parts = key if isinstance(key, tuple) else (key,)
        if parts and isinstance(parts[0], str):
            level, parts = level_named(parts[0], spec.level_names), parts[1:] or (_ALL,)
        if not parts or parts[0] is ... or isinstance(parts[0], LoDTensor):
            return self.read()[key]
        parts = tuple(map(_as_number, parts))
        first, *rest = parts
        *above, last = parts
        is_branch = all(type(part) is int for part in above) and (
            type(last) is int or _is_range(last)
        )
        if is_branch and self._has_plain_items and level + len(parts) <= len(spec.levels):
            return self._file.slice(self.name, parts, level)
        if type(first) is int:
            number = self._number(level, first)
            return self._file.slice(self.name, (slice(number, number + 1),), level)[(0, *rest)]
        if _is_range(first):
            found = self._file.slice(self.name, (first,), level)
        else:
            picked = self._gather(self.name, level, first)
            if picked is None:
                return self.read()[key]
            found = picked
        return found[(_ALL, *rest)] if rest else found

    def _count(self, level: int) -> int:
        """Return the number of items of a level, or of rows."""
        levels = self.spec.levels
        known = levels[level].items if level < len(levels) else self.spec.rows
        if known is not None:
            return known
        return self.lod.count(level) if level < len(levels) else self.read().rows

    def _number(self, level: int, number: int) -> int:
        count = self._count(level)
        if -count <= number < count:
            return number % count
        return item_number(self.lod, level, number, count)  # raises the error

    def __repr__(self) -> str:
        counts = [(one.name or "sequences", one.items) for one in self.spec.levels]
        counts.append(
            (" ".join(map(str, ("rows", *filter(None, [self.row_shape])))), self.spec.rows)
        )
        shown = ", ".join(name if count is None else f"{count} {name}" for name, count in counts)
        return f"<StoredTensor {self.name!r}: {shown}, {self.dtype}>"


def _as_number(part: Any) -> Any:
    """Return a whole number as an int; any other part of a key as it is."""
    if type(part) in (int, slice) or isinstance(part, bool | np.bool_) or np.ndim(part):
        return part
    try:
        return operator.index(part)
    except TypeError:
        return part


def _is_range(part: Any) -> bool:
    return isinstance(part, slice) and part.step in (None, 1)
