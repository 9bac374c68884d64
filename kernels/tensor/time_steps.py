"""Sequences to time steps and back, as index arithmetic.

    origin    sorted    step 0  1  2  3
    aaaa      aaaa           a  a  a  a
    bb        ccc            c  c  c
    ccc       bb             b  b

Step t holds item t of every sequence that has one. Sorted by length, the sequences
still alive are always the first few, so every batch is a prefix of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths, same_offsets
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.items import FoundItems, find_items, segment_steps
from lodcli.kernels.index.lod import NO_LEVELS, LoD
from lodcli.kernels.runtime.argument_types import construction_explained
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.gather import taken
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS

STEP_LEVEL = "step"
# Up to this many lengths, sorting them takes no longer than finding a narrower dtype for them.
COUNTED_LENGTHS = 1 << 9


@construction_explained
@dataclass(frozen=True, eq=False)
class IndexMap:
    """Map from the time steps of an unpacked tensor back to its sequences.

    Attributes:
        order: (S,) int64, read-only, the original number of the sequence at each position of the
            batch.
        outer: levels 0 to the unpacked level of the source, whose items the steps hold.

    Raises:
        InvalidDataError: `order` is not a permutation of the S sequences, or `outer` has no level.

    References:
        PaddlePaddle's "Design for TensorArray", `unpack`, where a map is int32 and has no levels.

    >>> index_map = index_map_of(LoD.from_lengths([[4, 2, 3]]))
    >>> index_map.order.tolist(), index_map.step_sizes.tolist()
    ([0, 2, 1], [3, 3, 2, 1])
    """

    order: Offsets
    outer: LoD

    def __post_init__(self) -> None:
        if not self.outer.n_levels:
            raise InvalidDataError("an index map needs at least one level, found none")
        count = self.outer.count(-1)
        object.__setattr__(self, "order", _permutation(self.order, count))

    @classmethod
    def _trusted(cls, order: Offsets, outer: LoD) -> IndexMap:
        """Return a map whose order is known to be valid."""
        made = cls.__new__(cls)
        made.__dict__.update(order=immutable(order), outer=outer)
        return made

    @property
    def level(self) -> int:
        """The level that was unpacked."""
        return self.outer.n_levels - 1

    @property
    def step_sizes(self) -> Offsets:
        """The number of sequences alive at each step, (T,) int64; T is the greatest length."""
        lengths = self.outer.lengths(-1)
        # Entry t counts the sequences of at most t items: those no longer alive at step t.
        finished = np.add.accumulate(np.bincount(lengths), dtype=np.int64)
        return (lengths.size - finished)[:-1]

    @property
    def items(self) -> Offsets:
        """The original numbers of all items, in the order of the steps, (items,) int64."""
        return self.steps()[0]

    def steps(self, *, back: bool = False) -> tuple[Offsets, Offsets]:
        """Return `items`, and the offsets of the T steps in them, (T + 1,) int64.

        With `back`, return the inverse permutation in place of `items`.
        """
        offsets = self.outer.levels[-1]
        kernel = on("auto", segment_steps, size_bytes=16 * offsets.item(-1))
        return kernel(offsets, self.order, back=back)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[np.generic]:
        if copy is None:
            return np.asarray(self.order, dtype=dtype)
        return np.array(self.order, dtype=dtype, copy=copy)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexMap):
            return NotImplemented
        return self.outer == other.outer and np.array_equal(self.order, other.order)

    def __hash__(self) -> int:
        return hash((self.outer, self.order.tobytes()))


def index_map_of(lod: LoD, level: int | str = -1, sort_by_length: bool = True) -> IndexMap:
    """Return the map that unpacks `level`.

    Args:
        lod: the index.
        level: the level whose sequences run in parallel.
        sort_by_length: sort by descending length, stable; otherwise keep the order.

    Raises:
        SelectionError: no such level.
    """
    number = lod.level(level)
    # The same object if nothing is below, so that the result of `pack` has it too.
    outer = lod.upto(number)
    lengths = outer.lengths(-1)
    order = longest_first(lengths) if sort_by_length else np.arange(lengths.size)
    return IndexMap._trusted(order, outer)


def longest_first(lengths: Offsets) -> Offsets:
    """Return the numbers of the sequences by descending length, stable, (S,) int64.

    >>> longest_first(np.array([1, 3, 0, 3])).tolist()
    [1, 3, 0, 2]
    """
    keys = -lengths
    if lengths.size > COUNTED_LENGTHS:
        # NumPy's stable sort is a radix sort for dtypes of one or two bytes.
        keys += lengths.max()
        keys = keys.astype(np.min_scalar_type(keys.max()), copy=False)
    order: Offsets = keys.argsort(kind="stable").astype(np.int64, copy=False)
    return order


def to_steps(tensor: LoDTensor, index_map: IndexMap) -> LoDTensor:
    """Return a tensor in time-major order: a level "step", then those below the unpacked one.

    Args:
        tensor: data (N, ...), any dtype, any number of levels.
        index_map: a map of one of its levels.

    Returns:
        A tensor of T outermost items, with all rows of `tensor`.

    Raises:
        ShapeMismatchError: the map belongs to another index.

    >>> words = LoDTensor(np.arange(9), LoD.from_lengths([[4, 2, 3]]))
    >>> [step.data.tolist() for step in to_steps(words, index_map_of(words.lod))]
    [[0, 6, 4], [1, 7, 5], [2, 8], [3]]
    """
    depth, lod = index_map.outer.n_levels, tensor.lod
    # Usually the same object: the map was made of this tensor.
    found = index_map.outer.difference(lod.above(depth) if depth < lod.n_levels else lod)
    if found is not None:
        raise ShapeMismatchError(f"the index map belongs to another tensor: {found}")
    items, sizes = index_map.steps()
    rows, below = _taken(tensor, depth, items)
    index = LoD._trusted((sizes, *below.levels), (STEP_LEVEL, *below.names))
    return _marked(rows, index, tensor, below)


def from_steps(steps: LoDTensor, index_map: IndexMap) -> LoDTensor:
    """Return the sequences of a time-major tensor: the exact inverse of `to_steps`.

    Args:
        steps: T outermost items; its rows may differ in shape, dtype and inner levels
            from those of the unpacked tensor.
        index_map: the map that `steps` was made with.

    Raises:
        ShapeMismatchError: the number of steps, or of items in a step, differs; names the step.
    """
    outer = index_map.outer
    rows, below = _taken(steps, 1, places_in_steps(steps.lod, index_map))
    if not below.levels:
        return _marked(rows, outer, steps, below)
    names = (*outer.names, *below.names)
    return _marked(rows, LoD._trusted((*outer.levels, *below.levels), names), steps, below)


def _marked(rows: Array, lod: LoD, source: LoDTensor, below: LoD) -> LoDTensor:
    """Return items of `source` with other levels; without levels below, they are not text."""
    if source._marks is NO_MARKS:
        return LoDTensor._made(rows, lod)
    return LoDTensor(rows, lod, source.marks.kept(below.n_levels, source.lod.n_levels))


def found_in_steps(steps: LoD, index_map: IndexMap) -> FoundItems:
    """Return the positions in the steps of the items that `from_steps` gathers.

    Args:
        steps: the index of the time-major tensor.
        index_map: the map it was made with.

    Raises:
        ShapeMismatchError: as `from_steps`.
    """
    places = places_in_steps(steps, index_map)
    return find_items(NO_LEVELS if len(steps.levels) == 1 else steps, places, 1)


def places_in_steps(steps: LoD, index_map: IndexMap) -> Offsets:
    """Return the place of every item in the steps. Raises ShapeMismatchError as `from_steps`."""
    held = steps.levels[steps.level(0)]
    # Checked before steps(), which allocates memory for all items of the map.
    if held[-1] != index_map.outer.levels[-1][-1]:
        _refuse_steps(held, index_map)
    places, sizes = index_map.steps(back=True)
    if not same_offsets(held, sizes):
        _refuse_steps(held, index_map)
    return places


def _refuse_steps(held: Offsets, index_map: IndexMap) -> NoReturn:
    """Raise ShapeMismatchError for the offsets of steps that are not those of a map."""
    found = offsets_to_lengths(held)
    # Checked before step_sizes, which allocates memory for all steps of the map.
    expected = int(index_map.outer.lengths(-1).max(initial=0))
    if found.size != expected:
        raise ShapeMismatchError(f"expected {expected} steps, found {found.size}")
    sizes = index_map.step_sizes
    step = int((found != sizes).argmax())
    raise ShapeMismatchError(f"step {step}: expected {sizes[step]} items, found {found[step]}")


def _taken(tensor: LoDTensor, depth: int, items: Offsets) -> tuple[Array, LoD]:
    """Return the rows and the index of items of a level, which are known to be valid."""
    lod = tensor.lod
    if depth == len(lod.levels):
        return taken(tensor.data, NO_LEVELS, items, 0)
    return taken(tensor.data, lod, items, depth)


def _permutation(order: Array, count: int) -> Offsets:
    array = np.asarray(order)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidDataError(
            f"order must be a flat list of whole numbers, found {array.ndim} dimensions "
            f"of {array.dtype}"
        )
    if array.size != count:
        raise InvalidDataError(f"order: expected {count} sequences, found {array.size}")
    outside = (array < 0) | (array >= count)
    if outside.any():
        position = int(np.argmax(outside))
        raise InvalidDataError(
            f"order, position {position}: no sequence {array[position]}, there are {count}"
        )
    result = immutable(array.astype(np.int64))
    times = np.bincount(result, minlength=count)
    if (times > 1).any():
        twice = int(np.argmax(times))
        raise InvalidDataError(f"order: sequence {twice} comes {times[twice]} times, expected once")
    return result
