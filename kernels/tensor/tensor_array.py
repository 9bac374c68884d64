"""TensorArray: one LoDTensor for each time step, read and written by loops."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import (
    InvalidDataError,
    OptionError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
    counted,
)
from lodcli.kernels.index.checks import Array, lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import whole_number
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import NO_NULLS
from lodcli.kernels.tensor.time_steps import (
    STEP_LEVEL,
    IndexMap,
    from_steps,
    index_map_of,
    to_steps,
)


class TensorArray:
    """An array of LoDTensors that grows as it is written.

    Args:
        size: the initial number of positions, which are not written yet.
        values: the first values; shared, not copied.
        unstack_from: instead of both, a plain tensor whose rows are the first values; see
            `unstack`.

    Raises:
        InvalidDataError: `size` is negative, or the tensor cannot be unstacked.
        OptionError: `unstack_from` is given together with `size` or `values`.

    References:
        PaddlePaddle's "Design for TensorArray".

    >>> states = TensorArray()
    >>> states.write(0, np.array([[1.0, 2.0]]))
    >>> states.write(1, states.read(0) * 10)
    >>> states.stack().data.tolist()
    [[[1.0, 2.0]], [[10.0, 20.0]]]
    """

    __slots__ = ("__weakref__", "_size", "_source", "_written")

    @types_explained
    def __init__(
        self,
        size: SupportsIndex = 0,
        values: Sequence[LoDTensor | npt.ArrayLike] | None = None,
        *,
        unstack_from: LoDTensor | npt.ArrayLike | None = None,
    ) -> None:
        self._size = operator.index(size)
        if self._size < 0:
            raise InvalidDataError(f"size: expected 0 or more, found {self._size}")
        # Values that were not written are views into the source, made when they are read.
        self._source: LoDTensor | None = None
        self._written: dict[int, LoDTensor] = {}
        if unstack_from is not None:
            if self._size or values is not None:
                raise OptionError("TensorArray takes unstack_from alone, without size and values")
            values = self._unstacked(_as_tensor(unstack_from))
        for index, value in enumerate(values if values is not None else ()):
            self.write(index, value)

    @classmethod
    @types_explained
    def from_steps(cls, steps: LoDTensor) -> TensorArray:
        """Return the array whose values are the outermost items of `steps`, as views.

        The inverse of `steps`; takes constant time.

        Raises:
            SelectionError: `steps` has no level.

        >>> array = TensorArray.from_steps(LoDTensor(np.arange(5), LoD.from_lengths([[3, 2]])))
        >>> [value.data.tolist() for value in array]
        [[0, 1, 2], [3, 4]]
        """
        array = cls.__new__(cls)  # faster than the constructor
        array._size, array._source, array._written = steps.lod.count(0), steps, {}
        return array

    @classmethod
    def unstack(cls, tensor: LoDTensor | npt.ArrayLike) -> TensorArray:
        """Return an array whose values are the rows of a plain tensor; they share its memory.

        Args:
            tensor: (T, N, ...), no levels.

        Returns:
            T values of shape (N, ...). If T is 0, the array still has the dtype and (...).

        Raises:
            InvalidDataError: the tensor has levels, or its rows are single numbers.

        >>> TensorArray.unstack(np.zeros((3, 2, 4))).read(0)
        LoDTensor(2 x 4 float64, [(0, 0, 0, 0), (0, 0, 0, 0)])
        """
        return cls(unstack_from=tensor)

    def _unstacked(self, whole: LoDTensor) -> list[Array]:
        """Return the rows of a plain tensor as values; if there are none, keep dtype and shape."""
        if whole.lod.n_levels:
            raise InvalidDataError(
                f"unstack takes a plain tensor, this one has "
                f"{counted(whole.lod.n_levels, 'level')}; use unpack"
            )
        if not whole.row_shape:
            raise InvalidDataError(
                "unstack: every value would be a single number; give the rows an axis "
                "(reshape to (N, 1))"
            )
        if not whole.rows:
            none = np.empty((0, *whole.row_shape[1:]), whole.dtype)
            self._source = LoDTensor(none, LoD([[0]], [STEP_LEVEL]))
        return list(whole.data)

    @staticmethod
    @types_explained
    def unpack(
        tensor: LoDTensor, level: int | str = -1, sort_by_length: bool = True
    ) -> tuple[TensorArray, IndexMap]:
        """Return the sequences of a level cut into time steps, and the map that `pack` takes.

        Args:
            tensor: data (N, ...), any dtype, at least one level.
            level: the level whose sequences advance in parallel. A step of the finest level holds
                rows, which are numbers if the tensor is text; a step of an upper level holds whole
                sequences of the next level.
            sort_by_length: sort the sequences by descending length, stable, so that the batch of
                each step is a prefix of the one before. Otherwise they keep their order.

        Returns:
            Value t holds item t of every sequence longer than t, with the levels below
            `level`. There are as many values as the longest sequence has items.

        Raises:
            SelectionError: no such level.

        >>> words = LoDTensor(np.arange(9), LoD.from_lengths([[4, 2, 3]]))
        >>> array, index_map = TensorArray.unpack(words)
        >>> [value.data.tolist() for value in array]
        [[0, 6, 4], [1, 7, 5], [2, 8], [3]]
        >>> array.pack(-1, index_map).identical(words)
        True
        """
        index_map = index_map_of(tensor.lod, level, sort_by_length)
        return TensorArray.from_steps(to_steps(tensor, index_map)), index_map

    @types_explained
    def pack(self, level: int | str, index_map: IndexMap) -> LoDTensor:
        """Return the sequences joined again: the exact inverse of `unpack`.

        Args:
            level: the level that was unpacked; a negative number counts from the finest level of
                the result.
            index_map: the map from `unpack`. The values may be others than those of `unpack`, such
                as the outputs of each step, if each step has the same number of items.

        Raises:
            SelectionError: `index_map` is of another level, or a value was never written.
            ShapeMismatchError: the number of steps or of items in a step differs from the map, or
                values differ in row shape, dtype or number of levels.
            InvalidDataError: there are no values, and no unpacked tensor that defines a dtype.
        """
        steps = self.steps
        outer = index_map.outer
        if isinstance(level, str):
            number = outer.level(level)
        else:
            number = level + outer.n_levels + steps.lod.n_levels - 1 if level < 0 else level
        if number != index_map.level:
            raise SelectionError(
                f"pack at level {level}: the index map is of level {index_map.level}"
            )
        return from_steps(steps, index_map)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> npt.NDArray[np.generic]:
        raise UnsupportedError(
            "a TensorArray is not an array: its steps may differ in length; use stack() for steps "
            "of one length, or steps for all values under a level"
        )

    # -- one value -----------------------------------------------------------------

    def size(self) -> int:
        """Return the number of values, written or not."""
        return self._size

    def write(
        self, index: SupportsIndex, value: LoDTensor | npt.ArrayLike, data_shared: bool = True
    ) -> None:
        """Write a value at a position; the array grows if the position is past its end.

        Args:
            index: 0 or more. Positions between the old end and this one stay unwritten.
            value: a tensor or a plain array.
            data_shared: share the value's memory; otherwise copy it.

        Raises:
            SelectionError: `index` is negative.
        """
        place = whole_number(index, "a step")
        if place < 0:
            raise SelectionError(f"no step {place}: steps start at 0")
        tensor = _as_tensor(value)
        self._written[place] = tensor if data_shared else tensor.copy()
        self._size = max(self._size, place + 1)

    def read(
        self, index: SupportsIndex, default: LoDTensor | npt.ArrayLike | None = None
    ) -> LoDTensor:
        """Return the value at a position.

        Args:
            index: the position; a negative one is before the start, not counted from the end.
            default: returned for a position that is outside of the array or was never written,
                such as the state before the first step.

        Raises:
            SelectionError: there is no value at the position, and no default.

        >>> TensorArray().read(-1, np.zeros((2, 3)))
        LoDTensor(2 x 3 float64, [(0, 0, 0), (0, 0, 0)])
        """
        place = whole_number(index, "a step")
        if place in self._written:
            return _as_tensor(self._written[place])
        if self._source is not None and 0 <= place < self._source.lod.count(0):
            return self._source.select(place)
        if default is not None:
            return _as_tensor(default)
        if 0 <= place < self._size:
            raise SelectionError(f"step {place} was never written")
        there = f"use 0 to {self._size - 1}" if self._size else "none is valid"
        raise SelectionError(f"no step {place}: there are {self._size} ({there})")

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[LoDTensor]:
        for index in range(self._size):
            yield self.read(index)

    # -- all values ----------------------------------------------------------------

    @property
    def steps(self) -> LoDTensor:
        """All values concatenated, with a new outermost level "step".

        Raises:
            SelectionError: a value was never written.
            ShapeMismatchError: values differ in row shape, dtype, marks or number of levels.
            InvalidDataError: there are no values, so the dtype is unknown.
        """
        source = self._source
        if source is not None and not self._written and source.lod.count(0) == self._size:
            return _as_tensor(source)
        values = LoDTensor._agreeing(self._alike("joined"))
        rows = values[0].data
        if len(values) > 1:
            rows = np.concatenate([value.data for value in values])
        lod = LoD.concatenate([value.lod for value in values])
        sizes = lengths_to_offsets(np.array([len(value) for value in values]), level=0)
        index = LoD._trusted((sizes, *lod.levels), (STEP_LEVEL, *lod.names))
        return values[0]._part(rows, index, NO_NULLS)

    def stack(self) -> LoDTensor:
        """Return the values stacked along a new first axis, copied.

        Returns:
            A plain tensor (T, N, ...) of T values (N, ...).

        Raises:
            SelectionError: a value was never written.
            ShapeMismatchError: values have levels, or differ in shape or dtype.
            InvalidDataError: there are no values, so the shape is unknown.
        """
        values = self._alike("stacked")
        steps = [value.data for value in values]
        for step, (value, rows) in enumerate(zip(values, steps, strict=True)):
            if value.lod.levels:
                raise ShapeMismatchError(f"step {step} has levels and cannot be stacked; use pack")
            if len(rows) != len(steps[0]):
                raise ShapeMismatchError(
                    f"step {step} has {len(rows)} rows, step 0 has {len(steps[0])}: "
                    "unequal steps cannot be stacked; use pack"
                )
        return LoDTensor(np.stack(steps))

    @types_explained
    def identical(self, other: TensorArray) -> bool:
        """Return whether both arrays have identical values at the same positions."""
        places = self._places() | other._places()
        return self._size == other._size and all(
            (a is None and b is None) or (a is not None and b is not None and a.identical(b))
            for a, b in ((self._peek(i), other._peek(i)) for i in places)
        )

    def __reduce__(self) -> tuple[object, ...]:
        # A copy of the dict: copy.copy() calls this, and either array may grow.
        return _restored, (self._size, self._source, dict(self._written))

    def __repr__(self) -> str:
        gaps = self._size - sum(self._peek(index) is not None for index in self._places())
        return f"TensorArray({self._size} steps, {gaps} not written)"

    def _places(self) -> set[int]:
        """Return the positions that hold a value, since the size may be any number."""
        count = 0 if self._source is None else self._source.lod.count(0)
        return {*range(count), *self._written}

    def _peek(self, index: int) -> LoDTensor | None:
        try:
            return self.read(index)
        except SelectionError:
            return None

    def _alike(self, done: str) -> list[LoDTensor]:
        """Return all values, checked to agree in all but their length."""
        held = self._written
        values = [held[n] if n in held else self.read(n) for n in range(self._size)]
        if not values:
            raise InvalidDataError(
                f"an empty TensorArray cannot be {done}: its dtype and row shape are unknown; "
                "make it with TensorArray.from_steps of an empty tensor"
            )
        first = values[0]
        data, depth = first.data, len(first.lod.levels)
        dtype, row_shape = data.dtype, data.shape[1:]
        for step, value in enumerate(values):
            data = value.data
            if (data.dtype, data.shape[1:], len(value.lod.levels)) == (dtype, row_shape, depth):
                continue
            for what, here, there in (
                ("row shape", value.row_shape, first.row_shape),
                ("dtype", value.dtype, first.dtype),
                ("number of levels", value.lod.n_levels, first.lod.n_levels),
            ):
                if here != there:
                    raise ShapeMismatchError(
                        f"step {step} cannot be {done} with step 0: {what} {here} against {there}"
                    )
        return values


def _restored(size: int, source: LoDTensor | None, written: dict[int, LoDTensor]) -> TensorArray:
    """Return a TensorArray of these fields, as it was pickled or copied."""
    array = TensorArray.__new__(TensorArray)
    array._size, array._source, array._written = size, source, written
    return array


def _as_tensor(value: LoDTensor | npt.ArrayLike) -> LoDTensor:
    # A new object over the same memory: setting its index must not change the value in the array.
    if isinstance(value, LoDTensor):
        return value._part(value.data, value.lod, NO_NULLS)
    return LoDTensor(value)
