"""LoD: the index that segments rows into nested sequences."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from lodcli.kernels.errors import (
    InvalidLoDError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
    counted,
)
from lodcli.kernels.index.checks import (
    Offsets,
    as_int64,
    check_chain,
    check_offsets,
    joined_offsets,
    lengths_to_offsets,
    offsets_to_lengths,
    same_levels,
)
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.suggestions import or_near

LevelNames = tuple[str | None, ...]
_new = object.__new__


class Index(Protocol):
    """Interface that slicing needs of an index, in memory or in a file; see methods of `LoD`."""

    @property
    def names(self) -> LevelNames: ...
    @property
    def n_levels(self) -> int: ...
    def level(self, level: int | str) -> int: ...
    def count(self, level: int | str = 0) -> int: ...
    def part(self, level: int, start: int, stop: int) -> Offsets: ...
    def items(self, level: int | str, start: int, stop: int) -> tuple[LoD, slice]: ...


class _Fields:
    """Attributes of an index, writable while it is built; its class then becomes `LoD`."""

    __slots__ = ("__weakref__", "_above", "_absolute", "_alike", "levels", "names")

    levels: tuple[Offsets, ...]
    names: LevelNames
    # Caches, filled on first use: most ops need one entry of each.
    _absolute: dict[int, Offsets]
    _above: dict[int, LoD]
    _alike: weakref.ref[LoD] | None


class LoD(_Fields):
    """An immutable index of any number of levels, outermost first.

    `levels[i]` are nested offsets: int64, first 0, never decreasing, and permanently read-only.
    Those of level i count the items of level i+1, those of the finest level count
    rows. Without levels it is the index of a plain tensor. Code that keeps the structure should
    pass the same object on: comparing an index with itself takes constant time, as does comparing
    it again with the last index that was equal.

    Args:
        levels: nested offsets, outermost first. Copied, unless they are levels of another index,
            so later changes to the caller's arrays have no effect.
        names: the name of an item of each level ("article", "sentence"), or None.

    Raises:
        InvalidLoDError: the offsets break one of these rules, or the names are invalid; the error
            has the level, the position, what was expected and what was found.

    >>> lod = LoD([[0, 3, 4, 6], [0, 3, 5, 9, 10, 12, 15]], names=["article", "sentence"])
    >>> lod.recursive_sequence_lengths()
    [[3, 1, 2], [3, 2, 4, 1, 2, 3]]
    >>> lod.absolute("article")
    array([ 0,  9, 10, 15])
    """

    __slots__ = ()

    def __new__(
        cls, levels: Iterable[object] = (), names: Sequence[str | None] | None = None
    ) -> LoD:
        checked = tuple(
            as_int64(values, level=level, what="offsets")
            for level, values in enumerate(_sequence(levels, "levels"))
        )
        for level, offsets in enumerate(checked):
            check_offsets(offsets, level=level)
        check_chain(checked)
        return cls._trusted(checked, names)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a LoD is immutable; make a new one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a LoD is immutable; cannot delete {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return LoD, (self.levels, self.names)

    @classmethod
    def _trusted(cls, levels: Iterable[Offsets], names: Sequence[str | None] | None = None) -> LoD:
        """Return an index over offsets that are known to be valid."""
        held = tuple(levels)
        for each in held:
            base: object = each.base
            if type(base) is np.ndarray:
                base = base.base
            if type(base) is not bytes or each.flags.writeable:  # rare, and slower
                held = tuple(map(immutable, held))
                break
        if type(names) is not tuple or not len(names) == len(held) == names.count(None):
            names = _checked_names(names, len(held))  # rare, and slower
        made = _new(_Fields)
        made.levels, made.names = held, names
        made._absolute, made._above, made._alike = {}, {}, None
        made.__class__ = cls
        return made  # type: ignore[return-value]

    @classmethod
    def from_lengths(
        cls, lengths: Iterable[object], names: Sequence[str | None] | None = None
    ) -> LoD:
        """Return the index with the given item counts per level, outermost first.

        Args:
            lengths: for each level, the number of items of each of its sequences: integers of 0 or
                more. The lengths of a level sum to the number of sequences of the next level.
            names: the names of the levels, outermost first; None for a level without a name.

        Raises:
            InvalidLoDError: the lengths or the names break one of these rules.

        >>> LoD.from_lengths([[2, 0, 1]]).levels
        (array([0, 2, 2, 3]),)
        """
        levels = tuple(
            lengths_to_offsets(
                as_int64(values, level=level, what="lengths", copy=False), level=level
            )
            for level, values in enumerate(_sequence(lengths, "lengths"))
        )
        check_chain(levels)
        return cls._trusted(levels, names)

    # -- shape ---------------------------------------------------------------------

    @property
    def n_levels(self) -> int:
        """Number of levels; 0 for a plain tensor."""
        return len(self.levels)

    @property
    def rows(self) -> int | None:
        """Number of rows that the index covers; None without levels, as it is unknown then."""
        return int(self.levels[-1][-1]) if self.levels else None

    def level(self, level: int | str) -> int:
        """Return the number of a level given by its number (negative from the end) or name.

        Raises:
            SelectionError: there is no such level, or several have the name; the message
                says which levels there are.
        """
        count = len(self.levels)
        if type(level) is int and -count <= level < count:
            return level % count
        if isinstance(level, str):
            return level_named(level, self.names)
        if isinstance(level, bool) or not isinstance(level, int | np.integer):
            raise SelectionError(f"a level is a whole number or a name, not {level!r}")
        number = int(level) + self.n_levels if level < 0 else int(level)
        if not 0 <= number < self.n_levels:
            there = "is 1 level" if self.n_levels == 1 else f"are {self.n_levels} levels"
            hint = f"; use 0 to {self.n_levels - 1}" if self.n_levels > 1 else ""
            raise SelectionError(f"no level {level}: there {there}{hint}")
        return number

    def count(self, level: int | str = 0) -> int:
        """Return the number of sequences of a level."""
        return self.levels[self.level(level)].size - 1

    def lengths(self, level: int | str = -1) -> Offsets:
        """Return the item counts of a level, (count,) int64."""
        return offsets_to_lengths(self.levels[self.level(level)])

    def absolute(self, level: int | str = 0) -> Offsets:
        """Return the offsets of a level counted in rows, (count + 1,) int64, read-only."""
        known = self._absolute
        # The cache has negative numbers too, as given: most calls return here.
        found = known.get(level) if type(level) is int else None
        if found is None:
            number = self.level(level)
            found = known.get(number)
            if found is None:
                found = self.levels[number]
                for lower in self.levels[number + 1 :]:
                    found = lower[found]
                found = known.setdefault(number, immutable(found))
            if type(level) is int:
                known[level] = found
        return found

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Return the item counts of every level as lists, outermost first."""
        return [offsets_to_lengths(offsets).tolist() for offsets in self.levels]

    def ones(self) -> tuple[int, ...]:
        """Return the numbers of the levels whose sequences all have one item.

        Such levels carry no information.

        >>> LoD.from_lengths([[1, 1], [2, 1]]).ones()
        (0,)
        """
        return tuple(
            level
            for level, offsets in enumerate(self.levels)
            if offsets.size > 1 and bool((offsets_to_lengths(offsets) == 1).all())
        )

    # -- parts ---------------------------------------------------------------------

    def without_ones(self) -> LoD:
        """Return this index without the levels that `ones` returns; the same object if none.

        >>> LoD.from_lengths([[1, 1], [2, 1]]).without_ones()
        LoD.from_lengths([[2, 1]])
        """
        ones = self.ones()
        if not ones:
            return self
        kept = [level for level in range(self.n_levels) if level not in ones]
        return LoD._trusted([self.levels[n] for n in kept], [self.names[n] for n in kept])

    def above(self, level: int | str) -> LoD:
        """Return the levels strictly above `level`, whose finest items are its sequences.

        The result is cached: each call returns the same object.
        """
        known = self._above
        found = known.get(level) if type(level) is int else None
        if found is None:
            number = self.level(level)
            if number == 0:
                return NO_LEVELS
            found = known.get(number)
            if found is None:
                made = LoD._trusted(self.levels[:number], self.names[:number])
                found = known.setdefault(number, made)
            if type(level) is int:
                known[level] = found
        return found

    def upto(self, level: int | str) -> LoD:
        """Return the levels down to `level`; the same object if that is the finest."""
        number = self.level(level) + 1
        return self if number == len(self.levels) else self.above(number)

    def below(self, level: int | str) -> LoD:
        """Return the levels strictly below `level`."""
        number = self.level(level) + 1
        if number == len(self.levels):
            return NO_LEVELS
        return LoD._trusted(self.levels[number:], self.names[number:])

    def without_finest(self) -> LoD:
        """Return all levels but the finest, as an index over one row per finest sequence."""
        return self.above(-1)

    @types_explained
    def items(self, level: int | str, start: int, stop: int) -> tuple[LoD, slice]:
        """Return the index of items start..stop of `level`, and the slice of their rows.

        The items become the outermost items of the result: the levels above theirs are
        dropped and offsets are rebased to 0. Reads a few offsets per level, and copies those of
        the items.

        Raises:
            SelectionError: there is no such level, or a bound is beyond its items.

        >>> lod = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]])
        >>> lod.items(0, 2, 3)
        (LoD.from_lengths([[2], [2, 3]]), slice(10, 15, None))
        """
        return part_below(self, level, start, stop)

    @types_explained
    def part(self, level: int, start: int, stop: int) -> Offsets:
        """Return the offsets of items start..stop of a level, (stop - start + 1,) int64.

        They are a read-only view and not rebased to 0. Bounds beyond the items are clipped, as in
        NumPy.

        Raises:
            SelectionError: there is no such level.

        >>> LoD.from_lengths([[3, 1, 2]]).part(0, 1, 3)
        array([3, 4, 6])
        """
        return self.levels[self.level(level)][start : stop + 1]

    def with_names(self, names: Sequence[str | None] | None) -> LoD:
        """Return the same levels with other names; None for no names."""
        return LoD._trusted(self.levels, names)

    def with_finer(self, offsets: object, name: str | None = None) -> LoD:
        """Return this index with one more level below the finest, whose rows become sequences.

        Args:
            offsets: the offsets of the new level, (rows + 1,); copied.
            name: the name of the new level.

        Raises:
            InvalidLoDError: the offsets are invalid or of another length, or the name is invalid.

        >>> LoD.from_lengths([[2, 1]], ["sentence"]).with_finer([0, 3, 3, 4], "word")
        LoD.from_lengths([[2, 1], [3, 0, 1]], names=['sentence', 'word'])
        """
        return LoD((*self.levels, offsets), [*self.names, name])

    @staticmethod
    @types_explained
    def concatenate(parts: Sequence[LoD]) -> LoD:
        """Return the index of several batches joined level by level, with the first one's names.

        Raises:
            ShapeMismatchError: there are no parts, or they differ in their number of levels.
        """
        if not parts:
            raise ShapeMismatchError("nothing to concatenate: no index given")
        first = parts[0]
        require_same_depth(parts)
        if len(parts) == 1:
            return first
        levels = zip(*[part.levels for part in parts], strict=True)
        return LoD._trusted(map(joined_offsets, levels), first.names)

    # -- comparing and showing -----------------------------------------------------

    @types_explained
    def same_levels(self, other: LoD) -> bool:
        """Return whether the offsets are equal, ignoring the names; checks identity first."""
        alike = self._alike
        if self is other or (alike is not None and alike() is other):
            return True
        if not same_levels(self.levels, other.levels):
            return False
        object.__setattr__(self, "_alike", weakref.ref(other))
        return True

    @types_explained
    def difference(self, other: LoD) -> str | None:
        """Return a description of the first difference of two indexes; None if offsets are equal.

        Names are not compared.
        """
        if self is other or self.same_levels(other):  # usually the same object
            return None
        if self.n_levels != other.n_levels:
            return f"{counted(self.n_levels, 'level')} against {other.n_levels}"
        for level, (a, b) in enumerate(zip(self.levels, other.levels, strict=True)):
            if a.size != b.size:
                return f"level {level} has {a.size - 1} items against {b.size - 1}"
            unequal = np.flatnonzero(a != b)
            if unequal.size:
                item = int(unequal[0]) - 1
                return (
                    f"level {level}, item {item} has length {a[item + 1] - a[item]} "
                    f"against {b[item + 1] - b[item]}"
                )
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LoD):
            return NotImplemented
        return self is other or (self.names == other.names and self.same_levels(other))

    def __hash__(self) -> int:
        return hash((self.names, tuple(offsets.tobytes() for offsets in self.levels)))

    def __len__(self) -> int:
        return self.n_levels

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise UnsupportedError("a LoD is not an array: use levels, lengths() or absolute()")

    def _repr_html_(self) -> str:
        from lodcli.kernels.index.display import as_html

        return as_html(self.names, [self.lengths(level) for level in range(self.n_levels)])

    def __repr__(self) -> str:
        shown = []
        for offsets in self.levels:
            if offsets.size > 13:
                head = ", ".join(str(n) for n in offsets_to_lengths(offsets[:11]))
                shown.append(f"[{head}, .. {offsets.size - 1} items]")
            else:
                shown.append(str(offsets_to_lengths(offsets).tolist()))
        names = "" if not any(self.names) else f", names={list(self.names)}"
        return f"LoD.from_lengths([{', '.join(shown)}]{names})"


def require_same_depth(parts: Sequence[LoD]) -> None:
    """Raise ShapeMismatchError unless all parts have as many levels as the first."""
    first = len(parts[0].levels)
    for position, part in enumerate(parts):
        if len(part.levels) != first:
            raise ShapeMismatchError(
                f"cannot concatenate: part 0 has {first} levels, "
                f"part {position} has {part.n_levels}"
            )


def part_below(index: Index, level: int | str, start: int, stop: int) -> tuple[LoD, slice]:
    """Return the index of items start..stop of a level, and their rows; see `LoD.items`."""
    first = index.level(level)
    count = index.count(first)
    if not 0 <= start <= stop <= count:
        raise SelectionError(
            f"level {first} has {counted(count, 'item')}; no items {start}:{stop}", level=first
        )
    levels = []
    for number in range(first, index.n_levels):
        part = index.part(number, start, stop)
        start, stop = int(part[0]), int(part[-1])
        levels.append(part if start == 0 else part - start)
    return LoD._trusted(levels, index.names[first:]), slice(start, stop)


def _sequence(values: Iterable[object], what: str) -> Iterable[object]:
    one = isinstance(values, np.ndarray) and not values.ndim
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | dict) and not one:
        return values
    raise InvalidLoDError(
        f"{what} must be a list with one list of integers for each level, such as [[2, 1]]; found "
        f"{type(values).__name__}"
    )


def level_named(name: str, names: Sequence[str | None]) -> int:
    """Return the number of the level with a name.

    Raises:
        SelectionError: none, or several have it; lists the names there are.
    """
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        raise SelectionError(f"several levels are named {name!r}; use a number")
    known = ", ".join(one for one in names if one)
    there = f"there are: {known}" if known else "none has a name; use a number"
    raise SelectionError(f"no level named {name!r}; {there}{or_near(name, filter(None, names))}")


def _checked_names(names: Sequence[str | None] | None, levels: int) -> LevelNames:
    if names is None:
        return (None,) * levels
    listed = type(names) in (list, tuple) or (  # isinstance() with Sequence takes longer
        isinstance(names, Sequence) and not isinstance(names, str)
    )
    if not listed or len(names) != levels:
        raise InvalidLoDError(
            f"{levels} levels need {levels} names, found {names!r}", expected=levels, found=names
        )
    for name in names:
        if name is not None and (not isinstance(name, str) or not is_level_name(name)):
            raise InvalidLoDError(
                f"{name!r} is not a valid level name: use letters, digits, '_' and '-', "
                "not all digits"
            )
    return tuple(names)


@lru_cache(1 << 8)
def is_level_name(name: str) -> bool:
    """Return whether `name` may name a level: it must not look like a number or a list."""
    plain = name.replace("_", "").replace("-", "")
    return plain.isalnum() and not plain.isdigit() and len(name) <= 64


#: The index of a plain tensor.
NO_LEVELS = LoD()
