"""Arrays at known places of a file, little-endian and in C order: read, and written, in parts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.flat_arrays import require_index_fits
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, TensorSpec
from lodcli.formats.storage.outputs import COPY_BYTES, Output
from lodcli.formats.storage.pread import read_into
from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import files
from lodcli.kernels.tensor.lod_tensor import LoDTensor

MOST_ARRAY_BYTES = 2**63 - 1


@dataclass(frozen=True)
class PlacedArray:
    """An array of a file.

    Attributes:
        label: what messages call it.
        dtype: native byte order.
        shape: of all of it.
        position: where in the file its first byte is.
    """

    label: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    position: int


def array_bytes(shape: Iterable[int], dtype: np.dtype[Any]) -> int:
    """Return the size of an array.

    Raises:
        DamagedFileError: no array can have that shape.
    """
    size = most = dtype.itemsize
    for extent in shape:
        size, most = size * extent, most * max(1, extent)
    if most > MOST_ARRAY_BYTES:  # such as (0, 2**63): nothing, but beyond what can be counted
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


class PlacedSource(IndexedSource):
    """An open file of placed arrays; the index is in memory, rows are read when asked for.

    Args:
        fd: of the file; the caller keeps and closes it.
        schema: its tensors, their counts known.
        arrays: the rows of each tensor.
        lods: the index of each tensor; one object where it is shared.
    """

    def __init__(
        self,
        fd: int,
        schema: Schema,
        arrays: Mapping[str, PlacedArray],
        lods: Mapping[str, LoD],
    ) -> None:
        self._fd = fd
        self.schema = schema
        self._arrays = arrays
        self.lods = lods

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        return read_rows(self._fd, self._arrays[name], start, stop)


# -- writing -----------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Where everything of a file goes.

    Attributes:
        pieces: what is neither rows nor offsets, with its position.
        positions: of the arrays, by name.
    """

    pieces: list[tuple[int, bytes]]
    positions: dict[str, int]


@dataclass(frozen=True)
class Layout:
    """A kind of file of placed arrays, for `write_placed`.

    Attributes:
        name: the array of a tensor's level, or of its rows (level -1). Levels of one name
            are one array.
        plan: a function of a schema whose counts are all known.
        index_dtype: int64 or int32, of the offsets.
    """

    name: Callable[[str, int], str]
    plan: Callable[[Schema], Plan]
    index_dtype: np.dtype[Any]


def write_placed(output: Output, schema: Schema, batches: Iterable[Batch], layout: Layout) -> None:
    """Write all batches: in place if all sizes are known, else by way of nameless files.

    Args:
        output: where to; must be seekable.
        schema: what the batches hold together.
        batches: whole outermost items.
        layout: where everything goes.

    Raises:
        ShapeMismatchError: the batches are not what `schema` says.
        UnsupportedError: an offset that does not fit the layout's dtype.
    """
    with ExitStack() as stack:
        writer = _PlacedWriter(output, schema, layout, stack)
        for batch in batches:
            writer.append(batch)
        writer.finish()


class _PlacedWriter:
    def __init__(self, output: Output, schema: Schema, layout: Layout, stack: ExitStack) -> None:
        self._output = output
        self._schema = schema
        self._layout = layout
        self._plan: Plan | None = None
        counts = (n for spec in schema for n in (spec.rows, *(lv.items for lv in spec.levels)))
        if all(count is not None for count in counts):
            self._plan = layout.plan(schema)
        self._sinks: dict[str, _Sink] = {}
        for spec in schema:
            for level in range(-1, len(spec.levels)):
                name = layout.name(spec.name, level)
                if name not in self._sinks:
                    known = None if self._plan is None else self._plan.positions[name]
                    self._sinks[name] = _Sink(output, known, stack)
                    if level >= 0:
                        self._sinks[name].put(np.zeros(1, layout.index_dtype))

    def append(self, batch: Batch) -> None:
        sent: dict[str, Offsets] = {}
        for spec in self._schema:
            item = batch.get(spec.name)
            if item is None:
                continue
            assert isinstance(item, LoDTensor)  # refused before: they hold no TensorArrays
            with naming(spec.name):
                self._check(spec, item)
                for level, offsets in enumerate(item.lod.levels):
                    self._append_level(self._layout.name(spec.name, level), level, offsets, sent)
                self._sinks[self._layout.name(spec.name, -1)].add_rows(item.data, spec.dtype)

    def _check(self, spec: TensorSpec, item: LoDTensor) -> None:
        for what, expected, found in (
            ("dtype", spec.dtype, item.dtype.newbyteorder("=")),
            ("row shape", spec.row_shape, item.row_shape),
            ("levels", len(spec.levels), item.lod.n_levels),
        ):
            if expected != found:
                raise ShapeMismatchError(f"was announced with {what} {expected}, found {found}")

    def _append_level(
        self, name: str, level: int, offsets: Offsets, sent: dict[str, Offsets]
    ) -> None:
        if name in sent:
            if sent[name] is not offsets and not np.array_equal(sent[name], offsets):
                raise ShapeMismatchError(f"{name}: the tensors that share it differ")
            return
        sent[name] = offsets
        sink = self._sinks[name]
        end = sink.total + int(offsets[-1])
        require_index_fits(end, level, self._layout.index_dtype)
        sink.put((offsets[1:] + sink.total).astype(self._layout.index_dtype, copy=False))
        sink.total = end

    def finish(self) -> None:
        schema = tuple(self._counted(spec) for spec in self._schema)
        if self._plan is not None and schema != self._schema:
            raise ShapeMismatchError("the batches have not the rows and items announced")
        plan = self._plan or self._layout.plan(schema)
        for position, piece in plan.pieces:
            self._output.write_at(piece, position)
        for name, sink in self._sinks.items():
            sink.settle(plan.positions[name])

    def _counted(self, spec: TensorSpec) -> TensorSpec:
        """Return the description with the counts that came."""
        levels = tuple(
            LevelSpec(level.key, level.name, self._rows_of(spec.name, number) - 1)
            for number, level in enumerate(spec.levels)
        )
        return dataclasses.replace(spec, levels=levels, rows=self._rows_of(spec.name, -1))

    def _rows_of(self, name: str, level: int) -> int:
        return self._sinks[self._layout.name(name, level)].rows


class _Sink:
    """One array being written: in its place, or in a nameless file until that is known."""

    def __init__(self, output: Output, position: int | None, stack: ExitStack) -> None:
        self.rows = 0
        self.total = 0
        self._bytes = 0
        self._output = output
        self._position = position
        self._spool: IO[bytes] | None = None
        if position is None:
            self._spool = stack.enter_context(output.spool(buffering=0))

    def add_rows(self, data: Array, dtype: np.dtype[Any]) -> None:
        """Write rows, those that lie scattered in memory a part at a time."""
        row_bytes = dtype.itemsize * int(np.prod(data.shape[1:], dtype=np.int64))
        step = max(1, COPY_BYTES // max(1, row_bytes))
        if data.flags.c_contiguous and data.dtype == dtype.newbyteorder("<") != np.bool_:
            step = max(1, data.shape[0])
        for start in range(0, data.shape[0], step):
            part = np.ascontiguousarray(data[start : start + step], dtype.newbyteorder("<"))
            # A boolean made from foreign memory may hold any byte; its meaning is "not 0".
            self.put(part if dtype != np.bool_ else part.view(np.uint8) != 0)

    def put(self, part: Array) -> None:
        """Write contiguous rows."""
        view = part.reshape(-1).view(np.uint8).data
        self.rows += part.shape[0]
        if self._position is not None:
            self._output.write_at(view, self._position + self._bytes)
        else:
            assert self._spool is not None
            left = view
            while len(left):
                left = left[os.write(self._spool.fileno(), left) :]
        self._bytes += len(view)

    def settle(self, position: int) -> None:
        """Copy what waited to its place."""
        if self._spool is None:
            return
        done = 0
        while part := files.pread(self._spool.fileno(), COPY_BYTES, done):
            self._output.write_at(part, position + done)
            done += len(part)
        self._spool.close()
