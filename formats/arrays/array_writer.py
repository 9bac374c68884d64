"""Writer of the arrays of a file: each opened once, with batches appended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from lodcli.formats.arrays.batch_parts import BatchSplitter, Kind, Part
from lodcli.formats.arrays.byte_blocks import Bytes, byte_blocks
from lodcli.formats.arrays.flat_arrays import require_index_fits
from lodcli.formats.core.batching import together
from lodcli.formats.core.errors import naming
from lodcli.formats.core.schema import Batch, LevelSpec, Schema
from lodcli.kernels.index.checks import Array

_INT64 = np.dtype(np.int64)


@dataclass(frozen=True)
class ArraySpec:
    """An array to write.

    Attributes:
        name: in the file.
        dtype: native byte order.
        rows: number of rows, None while unknown.
    """

    name: str
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...] = ()
    rows: int | None = None


class Sink(Protocol):
    """Destination of the bytes of an array."""

    def write(self, block: Bytes) -> None:
        """Write the next bytes; at least one."""


S = TypeVar("S", bound=Sink)


class ArrayWriter(Generic[S]):
    """Writes batches to the arrays that hold them.

    Args:
        schema: the tensors in the batches; the key of a level is the name of its array.
        rows_name: returns the name of the array of a tensor's rows, by the tensor's name.
        open_sink: returns the sink of an array; called once for each.
        order_name: as `rows_name`, for the order of a TensorArray.
        index_dtype: int64 or int32, of the offsets.
        nulls: whether the caller writes the nulls.
    """

    def __init__(
        self,
        schema: Schema,
        rows_name: Callable[[str], str],
        open_sink: Callable[[ArraySpec], S],
        *,
        order_name: Callable[[str], str] = str,
        index_dtype: np.dtype[Any] = _INT64,
        nulls: bool,
    ) -> None:
        self._schema = schema
        self._splitter = BatchSplitter(schema, nulls=nulls)
        self._names: dict[Kind, Callable[[str], str]] = {
            Kind.OFFSETS: str,
            Kind.ROWS: rows_name,
            Kind.ORDER: order_name,
        }
        self._index_dtype = index_dtype
        self._sinks: dict[str, S] = {}
        self._empty: set[str] = set()  # arrays of offsets without the leading 0
        for kind, array in self._arrays(schema):
            if array.name not in self._sinks:
                self._sinks[array.name] = open_sink(array)
                if kind is Kind.OFFSETS:
                    self._empty.add(array.name)

    def _arrays(self, schema: Schema) -> Iterator[tuple[Kind, ArraySpec]]:
        """Yield the arrays of each tensor: its rows, its levels, its order."""
        for spec in schema:
            name = self._names[Kind.ROWS](spec.name)
            yield Kind.ROWS, ArraySpec(name, spec.dtype, spec.row_shape, spec.rows)
            for level in (*spec.levels, *spec.outer):
                count = None if level.items is None else level.items + 1
                yield Kind.OFFSETS, ArraySpec(level.key, self._index_dtype, (), count)
            if spec.array:
                name = self._names[Kind.ORDER](spec.name)
                count = self._splitter.counts.get((Kind.ORDER, spec.name))
                yield Kind.ORDER, ArraySpec(name, _INT64, (), count)

    def write(self, batches: Iterable[Batch]) -> None:
        """Write all batches.

        Raises:
            InvalidDataError: they do not match the schema.
            UnsupportedError: an offset that does not fit the dtype of offsets.
        """
        for batch in together(self._schema, batches):
            for part in self._splitter.split(batch):
                sink = self._sinks[self._names[part.kind](part.key)]
                for array in part.arrays() if part.kind is Kind.ROWS else [self._stored(part)]:
                    for block in byte_blocks(array):
                        sink.write(block)

    def _stored(self, part: Part) -> Array:
        """Return the data to store for a part: its offsets continue those of earlier batches."""
        if part.kind is not Kind.OFFSETS:
            return part.data
        with naming(part.tensor):
            require_index_fits(part.base + int(part.data[-1]), part.level, self._index_dtype)
        offsets = part.data
        if part.key in self._empty:
            self._empty.remove(part.key)
        else:
            offsets = offsets[1:]
        offsets = offsets + part.base if part.base else offsets
        return offsets.astype(self._index_dtype, copy=False)

    def finish(self) -> tuple[Schema, dict[str, tuple[ArraySpec, S]]]:
        """Return the schema with actual counts, and each array and its sink by name.

        Raises:
            InvalidDataError: the counts differ from the schema.
        """
        for name in self._empty:
            self._sinks[name].write(np.zeros(self._index_dtype.itemsize, np.uint8))
        schema = self._splitter.counted()
        arrays = (array for _, array in self._arrays(schema))
        return schema, {array.name: (array, self._sinks[array.name]) for array in arrays}


def keyed_by_array(schema: Schema, name: Callable[[str, int], str]) -> Schema:
    """Return the schema with the array name of each level as its key."""

    def named(tensor: str, levels: tuple[LevelSpec, ...]) -> tuple[LevelSpec, ...]:
        return tuple(
            replace(level, key=name(tensor, number)) for number, level in enumerate(levels)
        )

    return tuple(replace(spec, levels=named(spec.name, spec.levels)) for spec in schema)
