"""What a file holds: names, dtypes, shapes and levels, known before the first row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.lod import LoD
from lodcli.kernels.tensor import LoDTensor
from lodcli.kernels.tensor_array import TensorArray
from lodcli.kernels.unpacking import IndexMap

DEFAULT_NAME = "data"


@dataclass(frozen=True)
class StoredArray:
    """A TensorArray and the map that packs it again: what `lod unpack` makes."""

    array: TensorArray
    index_map: IndexMap


Item = LoDTensor | StoredArray
Batch = Mapping[str, Item]


@dataclass(frozen=True)
class LevelSpec:
    """One level. Tensors of a file that name the same key share its offsets.

    Attributes:
        key: what identifies the level inside the file.
        name: what one item is called, or None.
        items: number of sequences, or None while unknown.
    """

    key: str
    name: str | None = None
    items: int | None = None


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a file.

    Attributes:
        name: how the file and `FILE::name` call it.
        dtype: of the data, native byte order.
        row_shape: shape of one row, () for single values.
        levels: outermost first.
        rows: N, or None while unknown.
        array: whether this is a TensorArray: `levels` are then those of its time-major
            form (level 0 the steps) and `outer` those of the tensor it was unpacked from.
        outer: see `array`.
    """

    name: str
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...] = ()
    levels: tuple[LevelSpec, ...] = ()
    rows: int | None = None
    array: bool = False
    outer: tuple[LevelSpec, ...] = ()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.row_shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def level_names(self) -> tuple[str | None, ...]:
        """The names of the levels, outermost first."""
        return tuple(level.name for level in self.levels)

    def empty(self) -> LoDTensor:
        """Return a tensor of this description with no items at all."""
        lod = LoD([np.zeros(1, np.int64)] * len(self.levels), self.level_names)
        return LoDTensor(np.empty((0, *self.row_shape), self.dtype), lod)


Schema = tuple[TensorSpec, ...]


def find(schema: Schema, name: str | None) -> TensorSpec:
    """Return the tensor of that name; without a name, the only one or the one named "data".

    Raises:
        SelectionError: no such tensor, or no name and several to choose from; lists them.
    """
    known = ", ".join(spec.name for spec in schema) or "none"
    if name is None:
        if len(schema) == 1:
            return schema[0]
        if not any(spec.name == DEFAULT_NAME for spec in schema):
            raise SelectionError(f"holds {len(schema)} tensors ({known}); choose one with ::NAME")
        name = DEFAULT_NAME
    for spec in schema:
        if spec.name == name:
            return spec
    raise SelectionError(f"no tensor named {name!r}; there are: {known}")


def schema_of(items: Mapping[str, Item]) -> Schema:
    """Return the description of tensors in memory.

    Levels that tensors share by reference, from the outermost down, get one key.
    """
    keys: dict[tuple[object, ...], str] = {}

    def level_specs(lod: LoD, *owner: str) -> tuple[LevelSpec, ...]:
        specs = []
        path: tuple[object, ...] = owner
        for offsets, name in zip(lod.levels, lod.names, strict=True):
            # The whole path: only with the levels above it does a level mean the same.
            path = (*path, id(offsets))
            key = keys.setdefault(path, str(len(keys)))
            specs.append(LevelSpec(key, name, offsets.size - 1))
        return tuple(specs)

    specs = []
    for name, item in items.items():
        check_name(name)
        tensor = item if isinstance(item, LoDTensor) else item.array.steps
        outer: tuple[LevelSpec, ...] = ()
        owner: tuple[str, ...] = ()
        if isinstance(item, StoredArray):
            owner = (name, "steps")
            outer = level_specs(item.index_map.outer, name, "outer")
        specs.append(
            TensorSpec(
                name=name,
                dtype=tensor.dtype,
                row_shape=tensor.row_shape,
                levels=level_specs(tensor.lod, *owner),
                rows=tensor.rows,
                array=isinstance(item, StoredArray),
                outer=outer,
            )
        )
    if not specs:
        raise InvalidDataError("nothing to write: no tensor given")
    return tuple(specs)


RESERVED_NAMES = frozenset({"header", "index", "order", "outer"})


def check_name(name: str) -> None:
    """Raise InvalidDataError unless `name` may name a tensor in a file."""
    if not name or len(name) > 255 or name in RESERVED_NAMES or name in (".", ".."):
        raise InvalidDataError(f"{name!r} cannot name a tensor (empty, reserved or too long)")
    if not all(char.isalnum() or char in "_-.+" for char in name):
        raise InvalidDataError(
            f"{name!r} cannot name a tensor: use letters, digits, '_', '-', '.' and '+'"
        )
