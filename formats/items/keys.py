"""Keys of items: one number or one text each, compared and put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from lodcli.formats.core.schema import Schema, find
from lodcli.formats.items.taking import taken
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.order.texts import Texts, text_order
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# The keys of some items in one tensor: (K,) integers that sort like the keys, or K texts.
Column = Array | list[bytes]
Key = tuple[Any, ...]
Tensors = dict[str, LoDTensor]


def check_keys(schema: Schema, names: Sequence[str]) -> None:
    """Raise SelectionError or UnsupportedError unless these tensors have one key per item.

    Args:
        schema: of tensors that share their outermost items.
        names: of the keys.
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
        found.append(_joined([_column(tensor) for tensor in tensors]))
    return found


def with_keys(batches: Iterable[Tensors], names: Sequence[str]) -> Iterator[Tensors]:
    """Yield batches without the items of which a key is null."""
    for batch in batches:
        missing = [_missing(batch[name]) for name in names if batch[name].nulls]
        yield taken(batch, np.flatnonzero(~np.any(missing, axis=0))) if missing else batch


def _missing(tensor: LoDTensor) -> Array:
    """Return which items are null, (K,) bool."""
    mask = tensor.nulls.masks[0] if tensor.nulls else None
    return np.zeros(len(tensor), np.bool_) if mask is None else ~mask


def _column(tensor: LoDTensor) -> Column:
    if tensor.lod.n_levels:
        return texts_of(tensor)
    data = tensor.values
    if data.dtype.kind in "biu":
        return data if data.dtype == np.uint64 else data.astype(np.int64, copy=False)
    # As integers, the bits of positive floats sort like the floats, of negative ones in reverse.
    bits = (data.astype(np.float64) + 0.0).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    ordered[np.isnan(data)] = np.iinfo(np.int64).max
    return ordered


def _joined(columns: Sequence[Any]) -> Column:
    if len(columns) == 1:
        return columns[0]  # type: ignore[no-any-return]
    return list(chain(*columns)) if isinstance(columns[0], list) else np.concatenate(columns)


def texts_of(tensor: LoDTensor) -> list[bytes]:
    """Return the texts of a tensor with one for each item; a null is empty."""
    raw = np.ascontiguousarray(tensor.values).tobytes()
    return [raw[start:stop] for start, stop in pairwise(tensor.lod.levels[0].tolist())]


def lookup(tensors: Mapping[str, LoDTensor], names: Sequence[str]) -> Callable[[int], Key]:
    """Return a function that returns the key of an item, which can be compared with others."""
    parts = [(_missing(tensors[name]), _key(tensors[name])) for name in names]
    return lambda item: tuple((missing[item], key(item)) for missing, key in parts)


def _key(tensor: LoDTensor) -> Callable[[int], Any]:
    if not tensor.lod.n_levels:
        numbers = _column(tensor)
        return lambda item: int(numbers[item])
    raw, offsets = np.ascontiguousarray(tensor.values), tensor.lod.levels[0]
    return lambda item: raw[offsets[item] : offsets[item + 1]].tobytes()


def ranks(keys: Sequence[Column]) -> Offsets:
    """Return the rank of each key, from 0, (K,) int64; equal keys have equal ranks."""
    found: Array | None = None
    for one in keys:
        distinct, own = _ranked(one)
        if found is not None:
            # Made dense each time: the product of several counts would overflow.
            own = np.unique(found * distinct + own, return_inverse=True)[1]
        found = own
    assert found is not None
    return found.astype(np.int64, copy=False)


def ordered(keys: Sequence[Column]) -> Offsets:
    """Return the items in order of their keys, (K,) int64; the sort is stable."""
    return np.argsort(ranks(keys), kind="stable").astype(np.int64, copy=False)


def _ranked(keys: Column) -> tuple[int, Array]:
    """Return the number of distinct keys, and the rank of each item's key."""
    if isinstance(keys, list):
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        return len(places), np.fromiter(map(places.__getitem__, keys), np.int64, len(keys))
    distinct, inverse = np.unique(keys, return_inverse=True)
    return distinct.size, inverse


def starts(tensors: Mapping[str, LoDTensor], names: Sequence[str]) -> Offsets:
    """Return the first item of each run of items with equal keys, (R,) int64; see `columns`."""
    new = np.ones(len(tensors[names[0]]), np.bool_)
    new[1:] = False
    for name in names:
        tensor = tensors[name]
        if tensor.nulls:
            missing = _missing(tensor)
            new[1:] |= missing[1:] != missing[:-1]
        new[1:] |= _changes(tensor)
    return np.flatnonzero(new).astype(np.int64, copy=False)


def _changes(tensor: LoDTensor) -> Array:
    """Return whether each key but the first differs from the one before, (K - 1,) bool."""
    if tensor.lod.n_levels:
        texts = Texts.of(tensor.values, tensor.lod.levels[0])
        before, after = texts.taken(slice(None, -1)), texts.taken(slice(1, None))
        return np.not_equal(text_order(after, before, equality=True), 0)
    numbers: Array = np.asarray(_column(tensor))
    return np.not_equal(numbers[1:], numbers[:-1])
