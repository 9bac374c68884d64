"""Detects columns with equal lists, which then share levels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lodcli.formats.core.names import shown
from lodcli.formats.core.schema import Schema
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Tensors = dict[str, LoDTensor]
Keys = dict[str, tuple[str, ...]]


def same_levels(
    tensors: Tensors, keys: Keys, may_share: Callable[[str, str], bool]
) -> dict[str, str]:
    """Return a map from each level to an earlier one that equals it, as do the levels above.

    Args:
        tensors: of the same records.
        keys: of the levels of each; tensors with the same key share the level already.
        may_share: whether two tensors can share a level at all.
    """
    same: dict[str, str] = {}
    known: set[tuple[str, str]] = set()
    # By the bytes of the offsets: comparing each level with all others takes their square.
    alike: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for name, tensor in tensors.items():
        above = ""
        for level, key in enumerate(keys[name]):
            if key not in same and (above, key) not in known:
                offsets = tensor.lod.levels[level]
                others = alike.setdefault((above, hash(offsets.tobytes())), [])
                for other, owner in others:
                    equal = np.array_equal(tensors[owner].lod.levels[level], offsets)
                    if equal and may_share(name, owner):
                        same[key] = other
                        break
                else:
                    others.append((key, name))
                    known.add((above, key))
            above = same.get(key, key)
    return same


def shared(tensors: Tensors, schema: Schema, first: int) -> Tensors:
    """Return the tensors with one index for those whose levels have the same keys.

    Raises:
        InvalidDataError: levels of the same key differ; names the record, counted from `first`,
            the number of the first record of the tensors.
    """
    owners: dict[tuple[str, ...], LoDTensor] = {}
    names: dict[int, str] = {}
    result = {}
    for spec in schema:
        if spec.name not in tensors:
            continue
        tensor = tensors[spec.name]
        names[id(tensor)] = spec.name
        keys = tuple(level.key for level in spec.levels)
        for depth in range(1, len(keys) + 1):
            owner = owners.setdefault(keys[:depth], tensor)
            ours, theirs = tensor.lod.levels[depth - 1], owner.lod.levels[depth - 1]
            if ours is not theirs and not np.array_equal(ours, theirs):
                record = first + _first_difference(tensor.lod, owner.lod, depth)
                raise InvalidDataError(
                    f"{shown(names[id(owner)])} and {shown(spec.name)} have lists of the same "
                    f"lengths before record {record}, but not in it; read them one at a time "
                    f"({option('field', spec.name)})"
                )
        if keys and owners[keys].lod.names == tensor.lod.names:
            tensor = LoDTensor(tensor.values, owners[keys].lod, tensor.marks, tensor.nulls)
            names[id(tensor)] = spec.name
        result[spec.name] = tensor
    return result


def _first_difference(one: LoD, other: LoD, depth: int) -> int:
    """Return the first outermost item in which level `depth` - 1 differs."""
    a, b = np.diff(one.levels[depth - 1]), np.diff(other.levels[depth - 1])
    size = min(a.size, b.size)
    place = int(np.argmax(np.append(a[:size] != b[:size], True)))
    for offsets in reversed(one.levels[: depth - 1]):
        place = int(np.searchsorted(offsets, place, side="right")) - 1
    return place
