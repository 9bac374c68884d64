"""Keys of items: one number or one text each, compared and put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lodcli.formats.core.schema import Schema, find
from lodcli.formats.items.taking import taken
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.order.ranks import sorted_texts, text_changes, text_ranks
from lodcli.kernels.order.stable import sortable, stable_order
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# The keys of some items in one tensor: (K,) integers that sort like the keys, or K texts.
Column = Array | Texts
Key = tuple[Any, ...]
Tensors = dict[str, LoDTensor]


def check_keys(schema: Schema, names: Sequence[str]) -> None:
    """Raise SelectionError or UnsupportedError unless these tensors have one key per item.

    Args:
        schema: of tensors that share their outermost items.
    """
    for name in names:
        spec = find(schema, name)
        if spec.dtype.kind == "c":
            raise UnsupportedError(f"{name}: complex numbers have no order, so they cannot be keys")
        if spec.depth or spec.row_shape:
            depth = len(spec.levels)
            what = f"{depth} level{'s' * (depth > 1)}" if depth else f"rows of {spec.row_shape}"
            raise SelectionError(
                f"{name}: a key is one number or one text for each item; this tensor has {what}"
            )


def columns(parts: Sequence[Mapping[str, LoDTensor]], names: Sequence[str]) -> list[Column]:
    """Return the keys of all items of these parts, one after another.

    One column for each name, after another of which keys are null if any is: null is a key that
    sorts last. Equal numbers are equal keys, also -0.0 and 0.0. All nan are equal, and sort after
    all other numbers.
    """
    found: list[Column] = []
    for name in names:
        tensors = [part[name] for part in parts]
        if any(tensor.nulls for tensor in tensors):
            found.append(np.concatenate([_missing(tensor) for tensor in tensors]))
        if tensors[0].lod.n_levels:
            found.append(Texts.joined([_texts(tensor) for tensor in tensors]))
        else:
            numbers = [sortable(tensor.values) for tensor in tensors]
            found.append(numbers[0] if len(numbers) == 1 else np.concatenate(numbers))
    return found


def with_keys(batches: Iterable[Tensors], names: Sequence[str]) -> Iterator[Tensors]:
    """Yield batches without the items of which a key is null."""
    for batch in batches:
        kept = have_keys(batch, names)
        yield batch if kept.all() else taken(batch, np.flatnonzero(kept))


def have_keys(batch: Tensors, names: Sequence[str]) -> Array:
    """Return which items have no key that is null, (K,) bool."""
    found = np.ones(len(batch[names[0]]), np.bool_)
    for name in names:
        if batch[name].nulls:
            found &= ~_missing(batch[name])
    return found


def _missing(tensor: LoDTensor) -> Array:
    """Return which items are null, (K,) bool."""
    mask = tensor.nulls.mask(0)
    return np.zeros(len(tensor), np.bool_) if mask is None else ~mask


def _texts(tensor: LoDTensor) -> Texts:
    """Return the texts of a tensor with one for each item; a null is empty."""
    return Texts.of(tensor.values, tensor.lod.levels[0])


def lookup(tensors: Mapping[str, LoDTensor], names: Sequence[str]) -> Callable[[int], Key]:
    """Return a function that returns the key of an item, which can be compared with others."""
    parts = [(_missing(tensors[name]), _key(tensors[name])) for name in names]
    return lambda item: tuple((missing[item], key(item)) for missing, key in parts)


def _key(tensor: LoDTensor) -> Callable[[int], Any]:
    if tensor.lod.n_levels:
        return _texts(tensor).bytes_of
    numbers = sortable(tensor.values)
    return lambda item: int(numbers[item])


def shown(items: Mapping[str, LoDTensor], names: Sequence[str]) -> str:
    """Return the key of the first item for messages, as "user='ann', day=3"."""
    keys = ((name, items[name][:1].to_list()[0]) for name in names)
    return ", ".join(
        f"{name}={key!r:.40}" if isinstance(key, str) else f"{name}={key}" for name, key in keys
    )


def comparable(keys: Sequence[Column]) -> Array:
    """Return integers in the order of the keys, (K,); equal keys have equal ones."""
    numbers = [text_ranks(one) if isinstance(one, Texts) else one for one in keys]
    if len(numbers) == 1:
        return numbers[0]
    order = stable_order(*numbers)
    new = np.zeros(order.size, np.bool_)
    for one in numbers:
        in_order = one[order]
        new[1:] |= in_order[1:] != in_order[:-1]
    found = np.empty_like(order)
    found[order] = np.cumsum(new)
    return found


def ordered(keys: Sequence[Column]) -> Offsets:
    """Return the items in order of their keys, (K,) int64; the sort is stable."""
    *others, last = keys
    order = _order(last)
    for column in reversed(others):
        order = order[_order(_taken(column, order))]
    return order


def _order(column: Column) -> Offsets:
    return sorted_texts(column)[0] if isinstance(column, Texts) else stable_order(column)


def grouped(keys: Sequence[Column]) -> tuple[Offsets, Offsets]:
    """Return the items in order of their keys, as `ordered`, and the `starts` in this order."""
    only = keys[0]
    if len(keys) == 1 and isinstance(only, Texts):  # as they were compared to be sorted
        order, again = sorted_texts(only)
        return order, _starts(~again)
    order = ordered(keys)
    return order, starts([_taken(column, order) for column in keys])


def starts(keys: Sequence[Column]) -> Offsets:
    """Return the first item of each run of items with equal keys, (R,) int64."""
    only, *others = map(_changes, keys)
    for changes in others:
        only |= changes
    return _starts(only)


def _starts(new: Array) -> Offsets:
    return np.flatnonzero(new).astype(np.int64, copy=False)


def _taken(column: Column, items: Offsets) -> Column:
    return column.taken(items) if isinstance(column, Texts) else column[items]


def _changes(column: Column) -> Array:
    """Return whether each key differs from the one before, (K,) bool; the first does."""
    if isinstance(column, Texts):
        new = np.ones(column.lengths.size, np.bool_)
        new[1:] = text_changes(column)
    else:
        new = np.ones(column.size, np.bool_)
        np.not_equal(column[1:], column[:-1], out=new[1:])
    return new
