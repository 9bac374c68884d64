"""Nulls: which items of a level, and which rows, are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.items import picked_offsets
from lodcli.kernels.index.lod import Index, LoD
from lodcli.kernels.index.places import branch_of
from lodcli.kernels.options import by_reader, option
from lodcli.kernels.runtime.argument_types import construction_explained, types_explained
from lodcli.kernels.runtime.arrays import on_host

Mask = npt.NDArray[np.bool_]


def without_nulls(*values: str) -> str:
    """Return advice on replacing or dropping nulls, for a message.

    Args:
        values: the values of the option `nulls` to name; by default all.
    """
    named = option("nulls", *(values or ("empty", "zero", "nan", "drop", "fill=X")))
    return named + by_reader(shell="", python=", or fill_nulls or drop_nulls of a tensor")


@construction_explained
@dataclass(frozen=True, slots=True, eq=False)
class Nulls:
    """Validity masks of the items and rows of a tensor.

    Attributes:
        masks: one for each level, outermost first, then one for the rows: (items,) bool, read-only,
            True where an item is valid; None where all are. () if nothing is null.
    """

    masks: tuple[Mask | None, ...] = ()

    def __post_init__(self) -> None:
        checked = tuple(_mask(mask) for mask in self.masks)
        found = checked if any(mask is not None for mask in checked) else ()
        object.__setattr__(self, "masks", found)

    @staticmethod
    @types_explained
    def of(masks: Sequence[npt.ArrayLike | None]) -> Nulls:
        """Return Nulls with these masks, one per level and one for the rows; None: all valid.

        >>> Nulls.of([None, [True, False]]).count
        1
        >>> bool(Nulls.of([[True, True], None]))
        False
        """
        found = Nulls(tuple(masks))  # type: ignore[arg-type]
        return found if found.masks else NO_NULLS

    def __bool__(self) -> bool:
        return bool(self.masks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nulls):
            return NotImplemented
        return len(self.masks) == len(other.masks) and all(
            map(equal_masks, self.masks, other.masks)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def rows(self) -> Mask | None:
        """The validity mask of the rows, (N,) bool; None if no row is null."""
        return self.mask(-1)

    def mask(self, level: int) -> Mask | None:
        """Return the validity mask of a level, (items,) bool; None if no item is null.

        Args:
            level: number of the level; with L levels, level L and -1 are the rows. Without nulls
                L is unknown, and any number is accepted.

        Raises:
            SelectionError: `level` is not a number, or there is no such level.

        >>> Nulls.of([None, [True, False]]).mask(-1)
        array([ True, False])
        """
        if type(level) is not int and not isinstance(level, np.integer):
            raise SelectionError(f"a level of nulls is a whole number, not {level!r}")
        count = len(self.masks)
        if count and not -count <= level < count:
            rows = count - 1
            there = "is 1 level" if rows == 1 else f"are {rows} levels"
            raise SelectionError(
                f"no level {level}: there {there}; use 0 to {rows}, where {rows} is the rows"
            )
        return self.masks[level] if count else None

    @property
    def count(self) -> int:
        """The number of null rows and items."""
        return sum(int(mask.size - np.count_nonzero(mask)) for _, mask in self.present())

    def present(self) -> Iterator[tuple[int, Mask]]:
        """Yield the level and the mask of each mask with nulls; with L levels, L is the rows."""
        for level, mask in enumerate(self.masks):
            if mask is not None:
                yield level, mask

    def is_null(self, level: int, item: int) -> bool:
        """Return whether an item of a level is null; with L levels, level L is the rows."""
        mask = self.mask(level)
        return mask is not None and not mask[item]

    def first(self, lod: LoD, before: int = 0) -> str:
        """Return a description of the first null of the outermost level that has one.

        Args:
            lod: the index of the tensor.
            before: number of outermost items before those of this part of a tensor.

        >>> Nulls.of([None, [True, False]]).first(LoD.from_lengths([[2]]))
        'row <0,1> is null'
        """
        level, mask = next(self.present())
        outermost, *inner = branch_of(lod, level, int(np.argmin(mask)))
        branch = (outermost + before, *inner)
        what = "row" if level == lod.n_levels else lod.names[level] or f"item of level {level}"
        return f"{what} <{','.join(map(str, branch))}> is null"

    def remedy(self, dtype: np.dtype[Any]) -> str:
        """Return advice on replacing or dropping these nulls in a tensor of this dtype.

        >>> Nulls.of([[True, False], None]).remedy(np.dtype("float32"))
        "nulls='empty' or 'drop', or fill_nulls or drop_nulls of a tensor"
        """
        values = ["zero", "nan", "fill=X"] if is_float(dtype) else ["zero", "fill=X"]
        choices = ["empty"] if self.rows is None else values
        return without_nulls(*choices, "drop")

    # -- parts -----------------------------------------------------------------------

    def below(self, level: int) -> Nulls:
        """Return the nulls of the levels from `level` on and of the rows."""
        return Nulls.of(self.masks[level:]) if self.masks else self

    def part(self, lod: LoD, level: int, start: int, stop: int) -> Nulls:
        """Return the nulls of items start..stop of a level, and below them; copied.

        Args:
            lod: the index of the tensor.
            level: the level of the items; with L levels, level L is the rows.
        """
        if not self.masks:
            return self
        found: list[Mask | None] = []
        for number, (low, high) in enumerate(item_ranges(lod, level, start, stop), level):
            mask = self.masks[number]
            found.append(None if mask is None else mask[low:high])
        return Nulls.of(found)

    def taken(self, lod: LoD, items: Offsets, level: int = 0) -> Nulls:
        """Return the nulls of items of a level in the given order, and below them."""
        if not self.masks:
            return self
        found: list[Mask | None] = []
        places: Array = items
        for number, mask in enumerate(self.masks[level:], level):
            found.append(None if mask is None else mask[places])
            if number < lod.n_levels:
                places = ranges(*picked_offsets(lod.levels[number], places))
        return Nulls.of(found)

    def misfit(self, lod: LoD, rows: int) -> str | None:
        """Return why these nulls do not fit an index; None if they do."""
        if len(self.masks) != lod.n_levels + 1:
            return (
                f"nulls: expected {lod.n_levels + 1} masks, one per level and one of the "
                f"rows, found {len(self.masks)}"
            )
        for level, mask in self.present():
            size = lod.levels[level].size - 1 if level < lod.n_levels else rows
            what = f"level {level}" if level < lod.n_levels else "the rows"
            if mask.size != size:
                return f"nulls: the mask of {what} has {mask.size} items, there are {size}"
            if level < lod.n_levels:
                full = np.flatnonzero(~mask & (offsets_to_lengths(lod.levels[level]) != 0))
                if full.size:
                    return f"nulls: item {full[0]} of level {level} is null and is not empty"
        return None


NO_NULLS = Nulls()


def equal_masks(mask: Mask | None, other: Mask | None) -> bool:
    """Return whether two masks are equal; None is a mask without nulls, and equals only None."""
    if mask is None or other is None:
        return mask is other
    return mask is other or np.array_equal(mask, other)


def joined(parts: Sequence[tuple[Nulls, LoD, int]]) -> Nulls:
    """Return the nulls of several batches concatenated; each comes with its index and row count."""
    if not any([nulls.masks for nulls, _, _ in parts]):
        return NO_NULLS
    depth = parts[0][1].n_levels
    found: list[Mask | None] = []
    for level in range(depth + 1):
        masks = [nulls.mask(level) for nulls, _, _ in parts]
        if all(mask is None for mask in masks):
            found.append(None)
            continue
        sizes = [lod.levels[level].size - 1 if level < depth else rows for _, lod, rows in parts]
        found.append(
            np.concatenate(
                [
                    np.ones(size, np.bool_) if mask is None else mask
                    for mask, size in zip(masks, sizes, strict=True)
                ]
            )
        )
    return Nulls.of(found)


def item_ranges(lod: Index, level: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the range of items of each level from `level` on, then that of the rows."""
    yield start, stop
    for number in range(level, lod.n_levels):
        part = lod.part(number, start, stop)
        start, stop = int(part[0]), int(part[-1])
        yield start, stop


def null_item() -> SelectionError:
    """Return the error for a selection of one item that is null."""
    return SelectionError("the item that the branch names is null; a range N:N+1 keeps it")


def zeros_at_nulls(values: Array, mask: Mask | None) -> Array:
    """Return the values of valid items with zeros inserted for the others; for None as they are."""
    if mask is None:
        return values
    result = np.zeros((mask.size, *values.shape[1:]), values.dtype)
    result[mask] = values
    return result


def without_null_rows(data: Array, nulls: Nulls) -> Array:
    """Return rows with zeros in place of null rows; the same array if they are zeros already."""
    mask = nulls.rows
    if mask is None or not np.any(_bytes(data[~mask])):
        return data
    result: Array = data.copy()
    result[~mask] = np.zeros((), data.dtype)
    return result


def _bytes(rows: Array) -> Array:
    return np.ascontiguousarray(rows).reshape(-1).view(np.uint8)


def pack(mask: Mask) -> npt.NDArray[np.uint8]:
    """Return a mask as bits, lowest bit first, as in Arrow; the last byte is padded with zeros."""
    return np.packbits(mask, bitorder="little")


def unpack(bits: npt.NDArray[np.uint8], start: int, stop: int) -> Mask:
    """Return items start..stop of a mask that `pack` returned."""
    first = start // 8
    part = bits[first : -(-stop // 8)]
    found: Any = np.unpackbits(part, bitorder="little")[start - 8 * first : stop - 8 * first]
    return found.view(np.bool_)  # type: ignore[no-any-return]


def mask_ends_with_zeros(bits: npt.NDArray[np.uint8], count: int) -> bool:
    """Return whether the padding bits in the last byte of a packed mask are zeros."""
    return not bits.size or not count % 8 or not int(bits[-1]) >> count % 8


def _mask(mask: npt.ArrayLike | None) -> Mask | None:
    if mask is None:
        return None
    array = on_host(mask, "nulls: a mask")
    if array.ndim != 1 or (array.dtype != np.bool_ and array.size):
        raise InvalidDataError(
            f"nulls: a mask is a flat array of booleans, found {array.ndim} dimensions of "
            f"{array.dtype}"
        )
    found: Mask = array.astype(np.bool_)  # a copy: the caller may change the array later
    found.flags.writeable = False  # files have no mask without nulls, and null items are empty
    return None if found.all() else found
