"""Arrays at known positions of a file, little-endian, C order: reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from lodcli.formats.arrays.array_source import ArraySource
from lodcli.formats.arrays.array_writer import ArraySpec, ArrayWriter, keyed_by_array
from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.arrays.flat_arrays import mask_array_name
from lodcli.formats.arrays.masks import MaskWriter
from lodcli.formats.arrays.spool import Spool, SpooledArray
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.pread import read_into
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.arrays import MOST_AXES

MOST_ARRAY_BYTES = 2**63 - 1
# Minimum size counted per value: row numbers, even of rows without bytes, and the sum of two sizes
# must fit into int64.
_LEAST_BYTES = 16


@dataclass(frozen=True)
class PlacedArray:
    """An array of a file.

    Attributes:
        label: its name in messages.
        dtype: native byte order.
        shape: of the whole array.
        position: of its first byte in the file.
    """

    label: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    position: int


def array_bytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Return the size of an array.

    Raises:
        DamagedFileError: no array can have that shape.
    """
    size, most = dtype.itemsize, max(dtype.itemsize, _LEAST_BYTES)
    for extent in shape:
        size, most = size * extent, most * max(1, extent)
    # Such as (0, 2**63) or (2**62, 0): no values, but the shape or the row numbers overflow.
    if most > MOST_ARRAY_BYTES or len(shape) > MOST_AXES:
        raise DamagedFileError(f"shape {str(shape)[:120]} is beyond what an array can have")
    return size


def read_rows(fd: int, array: PlacedArray, start: int, stop: int) -> Array:
    """Return rows start..stop of an array, a copy."""
    out: Array = np.empty((stop - start, *array.shape[1:]), array.dtype.newbyteorder("<"))
    position = array.position + start * (out[:1].nbytes if out.size else 0)
    with naming(array.label):
        read_into(fd, out, position)
        if out.dtype == np.bool_ and out.size and int(out.view(np.uint8).max()) > 1:
            raise DamagedFileError("holds booleans that are neither 0 nor 1")
    return out.astype(array.dtype, copy=False)


class PlacedSource(ArraySource[PlacedArray]):
    """An open file of arrays at known positions; the index is in memory, rows are read on demand.

    Args:
        fd: of the file; the caller keeps and closes it.
        schema: its tensors, their counts known, unless `describe` is to set them.
        arrays: the rows of each tensor.
        lods: the index of each tensor; one object where it is shared.
    """

    def __init__(
        self,
        fd: int,
        schema: Schema = (),
        arrays: Mapping[str, PlacedArray] = MappingProxyType({}),
        lods: Mapping[str, LoD] = MappingProxyType({}),
    ) -> None:
        self._fd = fd
        self.schema = schema
        self.arrays = arrays
        self.lods = lods
        self.masks = {name: {} for name in arrays}

    def read_array(self, array: PlacedArray, start: int, stop: int) -> Array:
        return read_rows(self._fd, array, start, stop)


# -- writing -----------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Position of everything in a file.

    Attributes:
        pieces: content other than rows and offsets, with its position.
        positions: of the arrays, by name.
    """

    pieces: list[tuple[int, bytes]]
    positions: dict[str, int]


@dataclass(frozen=True)
class Layout:
    """Layout of a kind of file of arrays, for `write_placed`.

    Attributes:
        name: the array of a tensor's level, or of its rows (level -1). Levels of one name
            are one array.
        plan: returns the Plan for a schema with known counts, and for the levels that have a
            mask, by tensor.
        index_dtype: int64 or int32, of the offsets.
        masks: whether masks of nulls are arrays of the file; else nulls are refused.
    """

    name: Callable[[str, int], str]
    plan: Callable[[Schema, Mapping[str, Sequence[int]]], Plan]
    index_dtype: np.dtype[Any]
    masks: bool = False


def write_placed(output: Output, schema: Schema, batches: Iterable[Batch], layout: Layout) -> None:
    """Write all batches to a seekable file: in place if all sizes are known, else spooled first.

    Raises:
        ShapeMismatchError: the batches do not match `schema`.
        UnsupportedError: an offset that does not fit the layout's dtype.
    """
    schema = keyed_by_array(schema, layout.name)
    counts = (n for spec in schema for n in (spec.rows, *(lv.items for lv in spec.levels)))
    # Which masks exist is known only after the last batch.
    masked = layout.masks and any(spec.nullable for spec in schema)
    plan = None if masked or None in counts else layout.plan(schema, {})
    with Spool(output) as spool:

        def open_sink(array: ArraySpec) -> _InPlace | SpooledArray:
            if plan is None:
                return SpooledArray(spool)
            return _InPlace(output, plan.positions[array.name])

        writer = ArrayWriter(
            schema,
            lambda name: layout.name(name, -1),
            open_sink,
            index_dtype=layout.index_dtype,
            nulls=layout.masks,
        )
        masks = MaskWriter(schema if masked else (), open_sink, mask_array_name, packed=False)
        writer.write(masks.watched(batches))
        schema, arrays = writer.finish()
        plan = plan or layout.plan(schema, masks.levels())
        arrays |= masks.finish()
        for position, piece in plan.pieces:
            output.write_at(piece, position)
        for name, (_, sink) in arrays.items():
            if isinstance(sink, SpooledArray):
                place = _InPlace(output, plan.positions[name])
                for block in sink.blocks():
                    place.write(block)


class _InPlace:
    """An array written at its final position."""

    def __init__(self, output: Output, position: int) -> None:
        self._output = output
        self._position = position

    def write(self, block: Bytes | bytes) -> None:
        """Write the next bytes."""
        self._output.write_at(block if isinstance(block, bytes) else block.data, self._position)
        self._position += len(block)
