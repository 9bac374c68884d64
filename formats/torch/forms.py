"""Converts tensors to torch's layouts of sequences: see docs/formats/torch.md."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import torch

from lodcli.formats.arrays.flat_arrays import (
    array_names,
    index_dtype,
    lone_array_name,
    require_index_fits,
)
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Item, Schema, StoredArray
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray


def value_of(schema: Schema, items: Mapping[str, Item], options: WriteOptions) -> Any:
    """Return the value to save: one value for a tensor called "data", else a dict.

    `refuse_unheld` must have accepted the schema.

    Raises:
        UnsupportedError: a form that cannot hold these lengths.
    """
    memory = _Memory()
    flat = _Flat(schema, options, memory)
    if options.form == "flat" or options.cu_seqlens is not None:
        return {key: array for each in items.items() for key, array in flat.arrays(*each)}
    values: dict[str, Any] = {}
    shared: dict[int, torch.Tensor] = {}
    for name, item in items.items():
        if options.form is None and isinstance(item, LoDTensor) and item.lod.n_levels:
            values.update(flat.arrays(name, item))
            continue
        lone = isinstance(item, LoDTensor) and not item.lod.n_levels
        key = lone_array_name(name) if lone else name
        values[key] = _value(name, item, options.form, shared, memory)
    return values[DEFAULT_NAME] if list(values) == [DEFAULT_NAME] else values


def refuse_unheld(schema: Schema, options: WriteOptions) -> None:
    """Raise UnsupportedError if the form cannot hold a tensor, regardless of its values."""
    form = options.form
    if form == "flat" or options.cu_seqlens is not None:
        array_names(schema, options)
        form = "flat"
    for spec in schema:
        if spec.array:
            if form not in (None, "packed"):
                raise UnsupportedError(
                    f"{spec.name} is a TensorArray; only the form packed holds it"
                )
            if len(spec.levels) != 1 or len(spec.outer) != 1:
                raise UnsupportedError(f"packed holds 1 level, {spec.name} was unpacked from more")
            continue
        depth = len(spec.levels)
        if form in (None, "flat") or (form == "list" and depth) or depth == 1:
            continue
        raise UnsupportedError(
            f"{form} holds 1 level, {spec.name} has {depth}; choose "
            f"{option('form', *['list'][:depth], 'flat')}"
        )


def tensor_of(array: Array) -> torch.Tensor:
    """Return an array as a tensor that shares its memory."""
    array = np.ascontiguousarray(array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # read-only arrays, which are not written to
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


class _Memory:
    """Makes the tensors of one file from arrays, without a copy where torch.save allows it.

    It refuses tensors at the same address with another dtype, also if they are empty.
    """

    def __init__(self) -> None:
        self._dtypes: dict[int, torch.dtype] = {}

    def tensor(self, array: Array) -> torch.Tensor:
        """Return `tensor_of`, copied if another dtype has its address."""
        found = tensor_of(array)
        known = self._dtypes.setdefault(found.untyped_storage().data_ptr(), found.dtype)
        return found if known == found.dtype else found.clone()


def _value(
    name: str, item: Item, form: str | None, shared: dict[int, torch.Tensor], memory: _Memory
) -> Any:
    if isinstance(item, StoredArray):
        return _packed(name, item, memory)
    depth = item.lod.n_levels
    if not depth and form is None:
        return memory.tensor(item.data)
    if form == "list" and depth:
        if not item.lod.count(-1):
            raise UnsupportedError(f"list holds at least one sequence, {name} has none")
        return _lists(item, memory)
    if form == "packed":
        array, index_map = TensorArray.unpack(item, 0, sort_by_length=True)
        return _packed(name, StoredArray(array, index_map), memory)
    if form == "padded":
        return _padded(item, memory)
    offsets = item.lod.levels[0]
    # Tensors that share offsets get the same offsets object: then torch can add them.
    known = shared.setdefault(id(offsets), torch.from_numpy(offsets.copy()))
    return torch.nested.nested_tensor_from_jagged(memory.tensor(item.data), known)


def _packed(name: str, item: StoredArray, memory: _Memory) -> dict[str, torch.Tensor | None]:
    """Return the parts of a PackedSequence: torch's safe loading refuses the class itself."""
    steps, order = item.array.steps, item.index_map.order
    lengths = np.diff(item.index_map.outer.levels[0])[order]
    if np.any(lengths < 1):
        raise UnsupportedError(
            f"packed holds no empty sequence, {name} has {int(np.sum(lengths < 1))}; "
            f"choose another {option('form')}"
        )
    if np.any(lengths[1:] > lengths[:-1]):
        raise UnsupportedError(
            f"packed holds the longest sequences first; unpack {name} with "
            f"{option('sort-by-length', True)}"
        )
    if not lengths.size:
        raise UnsupportedError(f"packed holds at least one sequence, {name} has none")
    if np.array_equal(order, np.arange(order.size)):
        there = back = None
    else:
        there = torch.from_numpy(order.copy())
        back = torch.from_numpy(np.argsort(order))
    sizes = torch.from_numpy(np.diff(steps.lod.levels[0]))
    return {
        "data": memory.tensor(steps.data),
        "batch_sizes": sizes,
        "sorted_indices": there,
        "unsorted_indices": back,
    }


def _padded(tensor: LoDTensor, memory: _Memory) -> dict[str, torch.Tensor]:
    lengths = tensor.lod.lengths(0)
    longest = int(lengths.max(initial=0))
    padded = np.zeros((lengths.size, longest, *tensor.row_shape), tensor.dtype)
    padded[np.arange(longest) < lengths[:, np.newaxis]] = tensor.data
    return {"padded": memory.tensor(padded), "lengths": torch.from_numpy(lengths)}


def _lists(tensor: LoDTensor, memory: _Memory) -> list[Any]:
    """Return a list of tensors, or of lists of them, that share the rows' memory."""
    rows = memory.tensor(tensor.data)
    finest = tensor.lod.levels[-1].tolist()
    items: list[Any] = [rows[a:b] for a, b in itertools.pairwise(finest)]
    for offsets in reversed(tensor.lod.levels[:-1]):
        bounds = offsets.tolist()
        items = [items[a:b] for a, b in itertools.pairwise(bounds)]
    return items


class _Flat:
    """Makes the rows and offsets of the tensors of one file; equal offsets are stored once."""

    def __init__(self, schema: Schema, options: WriteOptions, memory: _Memory) -> None:
        self._names, self._kind = array_names(schema, options), index_dtype(options)
        self._memory = memory
        self._indexes: dict[int, torch.Tensor] = {}

    def arrays(self, name: str, item: Item) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the rows and the offsets of a tensor, each with the name of its array."""
        assert isinstance(item, LoDTensor)
        yield self._names(name, -1), self._memory.tensor(item.data)
        for level, offsets in enumerate(item.lod.levels):
            require_index_fits(int(offsets[-1]), level, self._kind)
            index = torch.from_numpy(offsets.astype(self._kind))
            yield self._names(name, level), self._indexes.setdefault(id(offsets), index)
