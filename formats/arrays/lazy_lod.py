"""An index that stays in its file: offsets are read and checked on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import overload

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LevelNames, LoD, part_below

# Number of cached windows: an offset is read with its neighbours.
_KEPT = 16


class LazyLoD:
    """The index of one tensor, read from the file on demand.

    It supports slices and batches, with the same methods as `LoD`; see `selection.Index`.

    Args:
        counts: number of items of each level, outermost first, and number of rows.
        names: name of each level, or None.
        read: returns offsets start..stop of a level, (stop - start,) int64, and raises an error if
            they are damaged, decrease, or exceed the level below.
        window: number of offsets to read for a look-up.
    """

    def __init__(
        self,
        counts: Sequence[int],
        names: Sequence[str | None],
        read: Callable[[int, int, int], Offsets],
        window: int,
    ) -> None:
        self._counts = tuple(counts)
        self._named = LoD([[0]] * len(names), names)
        self._read = read
        self._size = window
        self._window = lru_cache(_KEPT)(self._read_window)

    @property
    def names(self) -> LevelNames:
        """The name of each level, or None."""
        return self._named.names

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return self._named.n_levels

    def level(self, level: int | str) -> int:
        """Return the number of a level; see `LoD.level`."""
        return self._named.level(level)

    def count(self, level: int | str = 0) -> int:
        """Return the number of sequences of a level."""
        return self._counts[self.level(level)]

    def part(self, level: int, start: int, stop: int) -> Offsets:
        """Return where items start..stop of a level begin, and the last one ends."""
        first = start // self._size
        if stop // self._size == first:
            base = first * self._size
            return self._window(level, first)[start - base : stop + 1 - base]
        return self._read(level, start, stop + 1)

    def items(self, level: int | str, start: int, stop: int) -> tuple[LoD, slice]:
        """Return the index below items start..stop of `level`, and their rows; see `LoD.items`."""
        return part_below(self, level, start, stop)

    def ends(self, level: int | None = None) -> Sequence[int]:
        """Return the offsets of outermost items, loaded on access.

        Args:
            level: count in items of this level; None: in rows.
        """
        return _Ends(self, self.n_levels if level is None else level)

    def _read_window(self, level: int, number: int) -> Offsets:
        start = number * self._size
        return self._read(level, start, min(start + self._size, self._counts[level] + 1))


class _Ends(Sequence[int]):
    """The offsets of outermost items, loaded on access."""

    def __init__(self, lod: LazyLoD, level: int) -> None:
        self._lod = lod
        self._level = level

    def __len__(self) -> int:
        return self._lod.count() + 1

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        for level in range(self._level):
            place = int(self._lod.part(level, place, place)[0])
        return place
