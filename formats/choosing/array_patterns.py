"""Arrays that match a pattern such as `data/demo_*/actions`: each is a sequence of one tensor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from lodcli.formats.arrays.fixed_texts import KINDS, STRINGS
from lodcli.formats.core.losses import MOST_SHOWN
from lodcli.formats.core.names import listing, name_of, natural_key, shown
from lodcli.formats.core.schema import DEFAULT_NAME
from lodcli.kernels.errors import (
    InvalidDataError,
    SelectionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.options import option

_WILDCARD = re.compile(r"[*?]")


class _Part(Protocol):
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


P = TypeVar("P", bound=_Part)


def is_pattern(name: str) -> bool:
    """Return whether a name has `*` or `?`, which match any text, or one character, without `/`."""
    return _WILDCARD.search(name) is not None


def fits(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern, with a group for each wildcard."""
    return re.compile("/".join(map(_expression, pattern.split("/"))), re.DOTALL)


def _expression(part: str) -> str:
    """Return the expression of a part of a pattern, whose time is not exponential in its `*`.

    What is between two `*` is matched at its first place and never again, by an atomic group: what
    follows it matches behind any later place only if it does so behind the first.
    """
    first, *later = (
        "".join("([^/])" if one == "?" else re.escape(one) for one in re.split(r"(\?)", text))
        for text in part.split("*")
    )
    if not later:
        return first
    inner = "".join(f"(?>([^/]*?){text})" for text in later[:-1])
    return f"{first}{inner}([^/]*){later[-1]}"


def tensor_name(pattern: str) -> str:
    """Return the name of the tensor of a pattern: the parts behind its last wildcard.

    If there are none, the last part with other text than wildcards, without them.

    >>> tensor_name("data/demo_*/actions"), tensor_name("data/demo_*/obs/x")
    ('actions', 'obs.x')
    >>> tensor_name("arr_*"), tensor_name("*")
    ('arr', 'data')
    """
    parts = pattern.split("/")
    last = max(number for number, part in enumerate(parts) if is_pattern(part))
    plain = (_WILDCARD.sub("", part).strip("_-. ") for part in reversed(parts[: last + 1]))
    return name_of(".".join(parts[last + 1 :]) or next(filter(None, plain), DEFAULT_NAME))


@dataclass(frozen=True)
class Matches:
    """What matches a pattern.

    Attributes:
        arrays: the arrays, in natural order of what the wildcards match.
        without: the groups that match the first parts of the pattern and hold no such array, in
            natural order; not the groups in them.
    """

    arrays: tuple[str, ...]
    without: tuple[str, ...]


def groups_of(names: Iterable[str], pattern: str) -> set[str]:
    """Return the groups of arrays with these names that match the first parts of a pattern."""
    parts = pattern.split("/")
    fit = [fits("/".join(parts[:depth])).fullmatch for depth in range(1, len(parts))]
    found = set()
    for name in names:
        within = name.split("/")[:-1]
        for depth, matches in enumerate(fit[: len(within)], 1):
            group = "/".join(within[:depth])
            if group not in found and not matches(group):
                break
            found.add(group)
    return found


def without_note(found: Iterable[Matches]) -> list[str]:
    """Return the note on the groups that hold no array that matches, if there are any."""
    groups = dict.fromkeys(group for one in found for group in one.without)
    told = listing(map(shown, groups), MOST_SHOWN)
    return [f"groups without an array that matches are left out: {told}"] if groups else []


def matching(
    patterns: Sequence[str],
    look: Callable[[str], tuple[Iterable[str], Iterable[str]]],
    near: Callable[[str], str],
) -> dict[str, Matches]:
    """Return the arrays that match each pattern, by the name of its tensor.

    Args:
        patterns: of the tensors; there may be none.
        look: returns names of arrays, those that match a pattern among them; and the groups that
            match its first parts.
        near: returns the part of a message that names other arrays.

    Raises:
        SelectionError: nothing matches; or patterns match the arrays of different sequences, or
            give tensors of one name.
    """
    found: dict[str, Matches] = {}
    first: dict[tuple[str, ...], str] = {}
    for pattern in patterns:
        names, groups = look(pattern)
        all_found = filter(None, map(fits(pattern).fullmatch, names))
        arrays = {one.groups(): one[0] for one in all_found}
        if not arrays:
            raise SelectionError(f"{option('data', pattern)}: no array matches; {near(pattern)}")
        first = first or arrays
        if lone := first.keys() ^ arrays.keys():
            one = min(lone)
            name, other = (first[one], pattern) if one in first else (arrays[one], patterns[0])
            raise SelectionError(
                f"{option('data')}: {name} has no counterpart that matches {other}; the arrays of "
                "several patterns are those of the same sequences, so convert each by itself"
            )
        tensor = tensor_name(pattern)
        if tensor in found:
            raise SelectionError(
                f"{option('data')}: two patterns whose tensors would be called {tensor}; convert "
                "each by itself"
            )
        ordered = tuple(arrays[key] for key in sorted(arrays, key=_natural))
        found[tensor] = Matches(ordered, _without(groups, ordered))
    return found


def _without(groups: Iterable[str], arrays: Iterable[str]) -> tuple[str, ...]:
    """Return the outermost of the groups that hold none of the arrays."""
    holding = {""}
    for name in arrays:
        while (name := name.rpartition("/")[0]) not in holding:
            holding.add(name)
    lacking = (group for group in groups if group not in holding)
    outermost = (group for group in lacking if group.rpartition("/")[0] in holding)
    return tuple(sorted(outermost, key=natural_key))


def _natural(texts: tuple[str, ...]) -> list[list[tuple[int, str, str]]]:
    return [*map(natural_key, texts)]


@dataclass(frozen=True)
class JoinedArrays(Generic[P]):
    """Arrays one after another, whose rows have one shape and dtype.

    Attributes:
        parts: the arrays.
        label: of the first that has rows, in messages.
        dtype: of its rows, in native byte order; an array of shape (0,) may have another dtype, as
            NumPy makes it of an empty list.
        offsets: of the arrays in them.
    """

    parts: tuple[P, ...]
    label: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offsets: Offsets

    @classmethod
    def of(cls, parts: Mapping[str, P]) -> JoinedArrays[P]:
        """Return arrays as one; at least one, by their names in messages.

        Raises:
            InvalidDataError: one is a single value.
            UnsupportedError: one holds text.
            ShapeMismatchError: the rows of one differ from those of others.
        """
        label, first = max(
            parts.items(), key=lambda item: (item[1].shape[:1] != (0,), item[1].shape != (0,))
        )
        dtype = first.dtype.newbyteorder("=")
        for name, one in parts.items():
            if one.dtype.kind in KINDS + STRINGS:
                raise UnsupportedError(
                    f"{name}: holds text; a pattern joins arrays of numbers only, so name one "
                    f"array with {option('data')}"
                )
            if not one.shape:
                raise InvalidDataError(f"{name}: is a single value; a sequence needs rows")
            if one.shape == (0,):
                continue
            if one.shape[1:] != first.shape[1:] or one.dtype.newbyteorder("=") != dtype:
                raise ShapeMismatchError(
                    f"{name}: expected rows of {dtype} and shape {first.shape[1:]}, as in "
                    f"{label}, found {one.dtype} and {one.shape[1:]}; choose arrays of equal "
                    f"rows with {option('data')}"
                )
        lengths = np.array([one.shape[0] for one in parts.values()], np.int64)
        offsets = lengths_to_offsets(lengths, level=0)
        shape = (int(offsets[-1]), *first.shape[1:])
        return cls(tuple(parts.values()), label, dtype, shape, offsets)

    def rows(self, read: Callable[[P, int, int], Array], start: int, stop: int) -> Array:
        """Return rows start..stop."""
        out: Array = np.empty((stop - start, *self.shape[1:]), self.dtype)
        at = start
        number = int(np.searchsorted(self.offsets, start, "right")) - 1
        while at < stop:
            first, end = int(self.offsets[number]), min(stop, int(self.offsets[number + 1]))
            if at < end:
                out[at - start : end - start] = read(self.parts[number], at - first, end - first)
                at = end
            number += 1
        return out
