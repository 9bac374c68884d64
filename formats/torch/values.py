"""Converts the content of a .pt file to tensors: see docs/formats/torch.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lodcli.formats.arrays.flat_arrays import described, offer_others, tensors_in
from lodcli.formats.choosing.array_patterns import JoinedArrays, without_note
from lodcli.formats.core.errors import TooLargeError, naming
from lodcli.formats.core.format import LeftOut, leaving_out
from lodcli.formats.core.names import name_of
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Item, StoredArray
from lodcli.formats.torch.calls import Jagged, Packed, Refused
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import (
    Array,
    Offsets,
    as_int64,
    check_offsets,
    check_rows,
    lengths_to_offsets,
)
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.kernels.tensor.time_steps import IndexMap

PADDED_KEYS = {"padded", "lengths"}
PACKED_KEYS = {"data", "batch_sizes", "sorted_indices", "unsorted_indices"}
MOST_LEVELS = 32


def items_of(
    value: Any,
    options: ReadOptions,
    left_out: LeftOut,
    notes: list[str],
    *,
    most_bytes: int,
    pickle_bytes: int,
) -> dict[str, Item]:
    """Return the tensors of a loaded value by name.

    Args:
        value: from `archive.load`.
        options: choose rows and offsets in a dict of plain tensors.
        left_out: is filled with the errors of values in a dict that no tensor can hold.
        notes: is filled with notes on groups that hold nothing that matches a pattern.
        most_bytes: maximum size of the result.
        pickle_bytes: size of the pickle, which also limits the number of items in lists and dicts.
    """
    room = Room(most_bytes, pickle_bytes)
    if not isinstance(value, dict) or set(value) in (PADDED_KEYS, PACKED_KEYS):
        if options.data or options.offsets or options.lengths:
            raise SelectionError(
                f"{option('data')}, {option('offsets')} and {option('lengths')} choose from "
                "a dict of tensors"
            )
        return {DEFAULT_NAME: _item(value, room)}
    others = {*(options.offsets or ()), *(options.lengths or ())}
    flat: dict[str, _Plain] = {}
    items: dict[str, Item] = {}
    for name, part in named(value, room):
        key = name_of(name)
        if name in flat or key in items or key in left_out:
            raise InvalidDataError(f"two tensors are called {ascii(name)[1:-1][:100]}")
        if isinstance(part, np.ndarray) or options.data or name in others:
            flat[name] = _Plain(name, part)
        else:
            with leaving_out(left_out, key), naming(ascii(name)[1:-1]):
                items[key] = _item(part, room)
    items |= _flat_items(flat, options, left_out, notes)
    offer_others(left_out, items)
    if not items:
        raise InvalidDataError("an empty dict holds no tensor")
    return _sharing(items)


def named(
    value: Mapping[Any, Any], room: Room, prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the values of a dict by name; nested dicts give names such as model.weight.

    A key that is not a name has a Refused as value.
    """
    if depth >= MOST_LEVELS:
        raise UnsupportedError(f"dicts nested {MOST_LEVELS} deep or deeper")
    for name, part in value.items():
        room.take(0, items=1)
        if isinstance(name, Refused):
            yield f"{prefix}{name.reason}", name
        elif isinstance(name, bool) or not isinstance(name, str | int):
            shown = ascii(name)[:100]
            yield f"{prefix}{shown}", Refused(f"a dict with the key {shown}; expected names")
        elif isinstance(part, dict) and set(part) not in (PADDED_KEYS, PACKED_KEYS):
            yield from named(part, room, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{prefix}{name}", part


@dataclass
class Room:
    """Limit on the total size: lists can refer to the same tensor or list many times."""

    left_bytes: int
    left_items: int

    def take(self, size_bytes: int, items: int = 0) -> None:
        self.left_bytes -= size_bytes
        self.left_items -= items
        if self.left_bytes < 0 or self.left_items < 0:
            raise TooLargeError("expands to far more than the file can hold")


@dataclass(frozen=True)
class _Plain:
    """A value of a dict that the user may choose: only plain tensors can be."""

    label: str
    value: Any

    @property
    def array(self) -> Array:
        return _tensor(self.value)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


def _flat_items(
    flat: Mapping[str, _Plain], options: ReadOptions, left_out: LeftOut, notes: list[str]
) -> dict[str, Item]:
    if not flat and not options.data:
        return {}
    tensors = {}
    arrays: dict[str, _Plain | JoinedArrays[_Plain]] = dict(flat)
    parts_of = tensors_in(flat, options, {})
    notes += without_note(one.matches for one in parts_of.values() if one.matches is not None)
    for name, parts in parts_of.items():
        with leaving_out(left_out, name), naming(f"tensor {name}"):
            for one in (*parts.levels, *parts.sequences):
                with naming(ascii(one)[1:-1][:100]):
                    _tensor(flat[one].value, f"; choose plain tensors with {option('data')}")
            if parts.sequences:
                arrays[parts.data] = JoinedArrays.of({one: flat[one] for one in parts.sequences})
            else:
                _rows(flat[parts.data].value)
            tensors[name] = parts
    _, lods = described(tensors, arrays, lambda name: flat[name].array, options)
    return {
        name: LoDTensor(_array(arrays[part.data]), lods[name]) for name, part in tensors.items()
    }


def _array(found: _Plain | JoinedArrays[_Plain]) -> Array:
    if isinstance(found, JoinedArrays):
        return found.rows(lambda one, start, stop: one.array[start:stop], 0, found.shape[0])
    return found.array


def _sharing(items: dict[str, Item]) -> dict[str, Item]:
    """Return the tensors, with equal indexes shared."""
    shared: dict[LoD, LoD] = {}
    return {
        name: LoDTensor(item.data, shared.setdefault(item.lod, item.lod))
        if isinstance(item, LoDTensor)
        else item
        for name, item in items.items()
    }


def _item(value: Any, room: Room) -> Item:
    require_supported(value, *(value.values() if isinstance(value, dict) else ()))
    if isinstance(value, Packed):
        return _packed(value)
    if isinstance(value, Jagged):
        return _jagged(value)
    if isinstance(value, np.ndarray):
        return LoDTensor(_rows(value))
    if isinstance(value, dict) and set(value) == PACKED_KEYS:
        return _packed(Packed(**value))
    if isinstance(value, dict) and set(value) == PADDED_KEYS:
        return _padded(value["padded"], value["lengths"], room)
    if isinstance(value, tuple) and len(value) == 2 and _are_lengths(value[1], value[0]):
        return _padded(*value, room, alone=True)
    if isinstance(value, list | tuple):
        return _list(value, room)
    raise UnsupportedError(
        f"expected tensors, or lists, tuples and dicts of them, found {type(value).__name__}"
    )


def require_supported(*values: Any) -> None:
    """Raise UnsupportedError for objects that the pickle holds but lod does not support."""
    for value in values:
        if isinstance(value, Refused):
            raise UnsupportedError(value.reason)


# What to save in place of an item of a list.
_INSTEAD = {
    **dict.fromkeys((int, float, bool), "; save torch.tensor(..) of each list of numbers"),
    dict: "; save a dict of lists, {name: [sample[name] for sample in samples], ..}",
}


def _rows(array: Any, alone: str = "; save tensor.reshape(1)") -> Array:
    """Return a tensor that has a row axis; `alone` is advice on a single value."""
    found = _tensor(array)
    if not found.ndim:
        raise InvalidDataError(f"is a single value; a tensor needs a row axis{alone}")
    return found


def _tensor(array: Any, advice: str = "") -> Array:
    """Return a plain tensor; `advice` is for the error about a value of another type."""
    require_supported(array)
    if not isinstance(array, np.ndarray):
        remedy = _INSTEAD.get(type(array), advice)
        raise UnsupportedError(f"expected a tensor, found {type(array).__name__}{remedy}")
    return array


def _integers(array: Any, what: str) -> Offsets:
    require_supported(array)
    if not isinstance(array, np.ndarray):
        raise InvalidDataError(f"{what}: expected a tensor, found {type(array).__name__}")
    return as_int64(array, level=0, what=what)


def _jagged(value: Jagged) -> LoDTensor:
    """Return a nested tensor with the jagged layout."""
    if value.ragged_dim != 1:
        raise UnsupportedError(
            f"a nested tensor whose dimension {str(value.ragged_dim)[:20]} is ragged; expected 1 "
            "(transpose it back before saving)"
        )
    rows = _rows(value.values)
    offsets = _integers(value.offsets, "offsets")
    if value.lengths is None:
        check_offsets(offsets, level=0)
        check_rows([offsets], rows.shape[0])
        return LoDTensor(rows, LoD([offsets]))
    # With gaps: sequence i is lengths[i] rows from row offsets[i] on, in any order. The last offset
    # has no meaning, as in torch.
    lengths = _integers(value.lengths, "lengths")
    closed = lengths_to_offsets(lengths, level=0)
    starts, count = offsets[:-1], rows.shape[0]
    if lengths.size != starts.size or not offsets.size:
        raise InvalidDataError(
            f"nested tensor: {lengths.size} lengths do not fit its {offsets.size} offsets; "
            "expected one more offset"
        )
    for place in np.flatnonzero((starts < 0) | (starts > count) | (lengths > count - starts))[:1]:
        raise InvalidDataError(
            f"nested tensor, position {place}: {lengths[place]} rows from row {starts[place]} on "
            f"do not fit its {count} rows"
        )
    # They may overlap, but must not make a small file large.
    if closed[-1] > count:
        raise InvalidDataError(
            f"nested tensor: its sequences overlap: {closed[-1]} rows of {count}; save a copy, "
            "as of torch.nested.as_nested_tensor([*nested.unbind()], layout=torch.jagged)"
        )
    return LoDTensor(rows[ranges(starts, closed)], LoD([closed]))


def _packed(value: Packed) -> StoredArray:
    """Return a PackedSequence as time steps of the active sequences."""
    rows = _rows(value.data)
    sizes = _integers(value.batch_sizes, "batch_sizes")
    with naming("batch_sizes"):
        offsets = lengths_to_offsets(sizes, level=0)
    if np.any(sizes < 1) or np.any(sizes[1:] > sizes[:-1]):
        raise InvalidDataError("batch_sizes: expected positive numbers that never grow")
    check_rows([offsets], rows.shape[0])
    count = int(sizes.max(initial=0))
    order = np.arange(count)
    if value.sorted_indices is not None:
        order = _integers(value.sorted_indices, "sorted_indices")
    # Sequence j of the sorted ones is alive at every step with more than j sequences.
    alive = np.searchsorted(-sizes, -np.arange(count), side="left")
    lengths = np.zeros(count, np.int64)
    if order.size != count or np.any((order < 0) | (order >= count)):
        raise InvalidDataError(f"sorted_indices: expected 0 to {count - 1}, each once")
    lengths[order] = alive
    index_map = IndexMap(order, LoD.from_lengths([lengths]))
    if value.unsorted_indices is not None:
        back = _integers(value.unsorted_indices, "unsorted_indices")
        if back.size != count or not np.array_equal(back[order], np.arange(count)):
            raise InvalidDataError("unsorted_indices: are not the inverse of sorted_indices")
    steps = LoDTensor(rows, LoD([offsets], ["step"]))
    return StoredArray(TensorArray.from_steps(steps), index_map)


def _are_lengths(lengths: Any, padded: Any) -> bool:
    """Return whether a pair has the form of pad_packed_sequence, batch first."""
    return (
        isinstance(lengths, np.ndarray)
        and isinstance(padded, np.ndarray)
        and lengths.ndim == 1
        and padded.ndim >= 2
        and lengths.dtype.kind in "iu"
    )


def _padded(padded: Any, lengths: Any, room: Room, *, alone: bool = False) -> LoDTensor:
    """Return the rows of (B, T, ..) that are not padding, by the lengths (B,).

    Args:
        padded: the rows.
        lengths: of the sequences.
        room: limit on their size.
        alone: whether they are lengths only by the form of the pair, which samples with labels
            have too. Then the values of the padding must all be equal.
    """
    if not _are_lengths(lengths, padded):
        raise InvalidDataError("padded: expected a tensor (B, T, ..) and integer lengths (B,)")
    rows, counts = padded, _integers(lengths, "lengths")
    if counts.size != rows.shape[0]:
        raise InvalidDataError(
            f"padded: {counts.size} lengths for shape {rows.shape}; expected (B, T, ..) with B of "
            "them (batch_first=True)"
        )
    wrong = np.flatnonzero((counts < 0) | (counts > rows.shape[1]))
    if wrong.size:
        raise InvalidDataError(
            f"lengths, position {wrong[0]}: expected 0 to {rows.shape[1]}, found {counts[wrong[0]]}"
        )
    room.take(int(counts.sum()) * rows[:1, :1].nbytes)
    kept = np.arange(rows.shape[1]) < counts[:, np.newaxis]
    if alone:
        room.take(int(kept.size - counts.sum()) * rows[:1, :1].nbytes)
        rest = rows[~kept]
        if rest.size and not np.array_equal(rest, np.full_like(rest, rest.flat[0]), equal_nan=True):
            raise UnsupportedError(
                "a pair of a tensor and whole numbers that are not the lengths of padded "
                "sequences: the values after these lengths differ; save a dict that names both, or "
                'if they are lengths, {"padded": .., "lengths": ..}'
            )
    return LoDTensor(rows[kept], LoD.from_lengths([counts]))


# -- lists -----------------------------------------------------------------------------


@dataclass
class _Tree:
    """The leaves of a list of lists, and the lengths of its lists, by depth."""

    room: Room
    lengths: list[list[int]] = field(default_factory=list)
    leaves: list[Array] = field(default_factory=list)
    depth: int | None = None

    def add(self, value: Sequence[Any], depth: int) -> None:
        if depth >= MOST_LEVELS:
            raise UnsupportedError(f"lists nested {MOST_LEVELS} deep or deeper")
        if len(self.lengths) == depth:
            self.lengths.append([])
        self.lengths[depth].append(len(value))
        for part in value:
            self.room.take(0, items=1)
            if isinstance(part, list | tuple):
                self.add(part, depth + 1)
            else:
                self._add_leaf(part, depth + 1)

    def _add_leaf(self, part: Any, depth: int) -> None:
        place = f"item {len(self.leaves)}"
        with naming(place):
            rows = _rows(part, "; save torch.stack(..) of a list of single values")
            if self.depth not in (None, depth):
                raise InvalidDataError(
                    f"is a tensor in {depth} lists, earlier ones are in {self.depth}"
                )
            self.depth = depth
            first = self.leaves[0] if self.leaves else rows
            for what, expected, found in (
                ("dtype", first.dtype, rows.dtype),
                ("row shape", first.shape[1:], rows.shape[1:]),
            ):
                if expected != found:
                    raise InvalidDataError(
                        f"has {what} {found}, earlier ones have {expected}; tensors that differ "
                        "need names: save a dict of them"
                    )
            self.room.take(rows.nbytes)
            self.leaves.append(rows)


def _list(value: Sequence[Any], room: Room) -> LoDTensor:
    """Return a list of tensors as one level, a list of lists as two, and so on."""
    tree = _Tree(room)
    tree.add(value, 0)
    if not tree.leaves or tree.depth is None:
        raise InvalidDataError("a list without a tensor has no dtype")
    if len(tree.lengths) > tree.depth:
        raise InvalidDataError("an empty list where tensors were expected")
    # The outermost list is the batch itself, not a level.
    lengths = [*tree.lengths[1:], [len(leaf) for leaf in tree.leaves]]
    return LoDTensor(np.concatenate(tree.leaves), LoD.from_lengths(lengths))
