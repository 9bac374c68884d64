"""Batches to a lod stream. docs/stream.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from lodcli.formats.core.batching import cuts, groups
from lodcli.formats.core.schema import Batch, Item, Schema, StoredArray, TensorSpec
from lodcli.formats.stream.frames import FRAME_BYTES, Bytes, FrameWriter, Kind, Writable, bytes_of
from lodcli.formats.stream.header import StreamHeader, Trailer, encode, numbers, plan
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.time_steps import IndexMap

# A reader holds one batch while its consumer still holds the one before.
BATCH_BYTES = 16 << 20


def write_stream(output: Writable, schema: Schema, batches: Iterable[Batch]) -> None:
    """Write all batches as one stream.

    Args:
        output: where to; only ever written at its end.
        schema: what the batches hold together.
        batches: whole outermost items. Those that are large are cut, tensors that share
            their outermost level and come apart are held back until they are together.

    Raises:
        InvalidDataError: the batches are not what `schema` says.
    """
    header = plan(schema)
    writer = _StreamWriter(output, header)
    for batch in _together(header.schema, batches):
        for part in regrouped(header.schema, batch, BATCH_BYTES):
            writer.write(part)
    writer.finish()


def regrouped(schema: Schema, batch: Batch, limit_bytes: int) -> Iterator[Batch]:
    """Yield a batch as parts of about `limit_bytes`, cut between outermost items.

    They are views. TensorArrays stay whole.
    """
    if sum(_tensor_of(item).nbytes for item in batch.values()) <= limit_bytes:
        yield batch
        return
    for group in groups(schema):
        first = batch.get(group[0].name)
        if isinstance(first, LoDTensor) and first.lod.n_levels:
            tensors = {spec.name: _tensor_of(batch[spec.name]) for spec in group}
            yield from _cut_items(tensors, limit_bytes)
        elif isinstance(first, LoDTensor):
            step = max(1, limit_bytes // max(1, group[0].row_bytes))
            for start in range(0, max(1, first.rows), step):
                yield {group[0].name: LoDTensor(first.data[start : start + step])}
        elif first is not None:
            yield {group[0].name: first}


def _cut_items(tensors: dict[str, LoDTensor], limit_bytes: int) -> Iterator[Batch]:
    ends = [tensor.lod.absolute(0) for tensor in tensors.values()]
    sizes = [tensor.data[:1].nbytes for tensor in tensors.values()]
    for start, stop in cuts(ends, sizes, limit_bytes):
        part: dict[str, Item] = {}
        shared: dict[int, LoD] = {}
        for name, tensor in tensors.items():
            lod, rows = tensor.lod.items(0, start, stop)
            part[name] = LoDTensor(tensor.data[rows], shared.setdefault(id(tensor.lod), lod))
        yield part


def _together(schema: Schema, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches so that tensors that share their outermost level are never apart."""
    group_of = {spec.name: group for group in groups(schema) for spec in group}
    held: dict[str, Item] = {}
    for batch in batches:
        for name, item in batch.items():
            if name not in group_of:
                raise InvalidDataError(f"tensor {name!r} was not announced")
            if name in held:
                missing = next(s.name for s in group_of[name] if s.name not in held)
                raise InvalidDataError(
                    f"tensors {name} and {missing} share a level and must come together"
                )
            held[name] = item
        ready = [n for n in held if all(spec.name in held for spec in group_of[n])]
        if ready:
            yield {name: held.pop(name) for name in ready}
    if held:
        name = next(iter(held))
        missing = next(s.name for s in group_of[name] if s.name not in held)
        raise InvalidDataError(
            f"tensor {missing} has fewer items than {name}, which shares a level"
        )


class _StreamWriter:
    """Writes the header at once, then each batch."""

    def __init__(self, output: Writable, header: StreamHeader) -> None:
        self._schema = header.schema
        self._table = header.levels
        self._frames = FrameWriter(output)
        self._batches = 0
        self._items = [0] * len(header.levels)
        self._rows = [0] * len(header.schema)
        self._seen: set[str] = set()
        self._frames.write(Kind.HEADER, 0, bytes_of(encode(header)))
        self._frames.flush()

    def write(self, batch: Batch) -> None:
        """Write one batch: its counts, then offsets, rows and orders, each in order."""
        counts: list[int] = []
        offsets: dict[int, Offsets] = {}
        present = [(n, spec) for n, spec in enumerate(self._schema) if spec.name in batch]
        for number, spec in present:
            item = batch[spec.name]
            tensor = _tensor_of(item)
            _check_fits(spec, item, tensor, again=spec.name in self._seen)
            self._seen.add(spec.name)
            _collect(offsets, numbers(spec.levels), tensor.lod, spec.name)
            if isinstance(item, StoredArray):
                _collect(offsets, numbers(spec.outer), item.index_map.outer, spec.name)
            levels = numbers((*spec.levels, *spec.outer))
            counts += [number, tensor.rows, *(offsets[level].size - 1 for level in levels)]
            self._rows[number] += tensor.rows
        self._frames.write(Kind.BATCH, self._batches % 2**32, _flat(np.array(counts, "<i8")))
        self._batches += 1
        for level in sorted(offsets):
            self._items[level] += offsets[level].size - 1
            self._send(Kind.OFFSETS, level, offsets[level][1:], np.dtype(np.int64))
        for number, spec in present:
            self._send(Kind.ROWS, number, _tensor_of(batch[spec.name]).data, spec.dtype)
        for number, spec in present:
            item = batch[spec.name]
            if isinstance(item, StoredArray):
                self._send(Kind.ORDER, number, item.index_map.order, np.dtype(np.int64))
        self._frames.flush()

    def finish(self) -> None:
        """Write what is still missing, and the trailer."""
        for spec in self._schema:
            if spec.name not in self._seen:
                if spec.array:
                    raise InvalidDataError(f"tensor {spec.name} was announced and did not come")
                missing = {s.name: s.empty() for s in self._schema if s.name not in self._seen}
                self.write({name: missing[name] for name in missing})
        for number, spec in enumerate(self._schema):
            _check_announced(f"rows of {spec.name}", spec.rows, self._rows[number])
        for number, level in enumerate(self._table):
            _check_announced(f"items of level {number}", level.items, self._items[number])
        trailer = Trailer(
            batches=self._batches,
            frames=self._frames.count,
            headers_crc32c=self._frames.headers_crc32c,
            levels=tuple(self._items),
            tensors=tuple(self._rows),
        )
        self._frames.write(Kind.TRAILER, 0, bytes_of(trailer.encode()))
        self._frames.flush()

    def _send(self, kind: Kind, part: int, data: Array, dtype: np.dtype[Any]) -> None:
        for flat in _portions(data, dtype.newbyteorder("<")):
            for start in range(0, flat.size, FRAME_BYTES):
                self._frames.write(kind, part, flat[start : start + FRAME_BYTES])


def _portions(data: Array, dtype: np.dtype[Any]) -> Iterator[Bytes]:
    """Yield the bytes of `data`: all at once if they lie in order, else copied in parts."""
    if not data.size:
        return
    if data.flags.c_contiguous and data.dtype == dtype and dtype != np.bool_:
        yield _flat(data)
        return
    step = max(1, FRAME_BYTES // data[:1].nbytes)
    for start in range(0, data.shape[0], step):
        part = data[start : start + step]
        # A boolean made from foreign memory may hold any byte; its meaning is "not 0".
        ordered = np.ascontiguousarray(part, dtype)
        yield _flat(ordered) if dtype != np.bool_ else _flat(ordered.view(np.uint8) != 0)


def _flat(data: Array) -> Bytes:
    return data.reshape(-1).view(np.uint8)


def _tensor_of(item: Item) -> LoDTensor:
    return item if isinstance(item, LoDTensor) else item.array.steps


def _collect(offsets: dict[int, Offsets], levels: list[int], lod: LoD, name: str) -> None:
    """Note the offsets of each level; those that are shared must be equal."""
    for depth, (level, found) in enumerate(zip(levels, lod.levels, strict=True)):
        known = offsets.setdefault(level, found)
        if known is not found and not np.array_equal(known, found):
            raise InvalidDataError(
                f"tensor {name}: level {depth} is shared with another tensor that is "
                "segmented differently"
            )


def _check_fits(spec: TensorSpec, item: Item, tensor: LoDTensor, *, again: bool) -> None:
    outer = item.index_map.outer.n_levels if isinstance(item, StoredArray) else 0
    for what, expected, found in (
        ("dtype", spec.dtype, tensor.dtype.newbyteorder("=")),
        ("row shape", spec.row_shape, tensor.row_shape),
        ("levels", len(spec.levels), tensor.lod.n_levels),
        ("outer levels", len(spec.outer), outer),
    ):
        if expected != found:
            raise InvalidDataError(
                f"tensor {spec.name} was announced with {what} {expected}, found {found}"
            )
    if isinstance(item, StoredArray):
        if again:
            raise InvalidDataError(f"tensor {spec.name} is a TensorArray and came in two parts")
        check_array(tensor.lod.levels[0], item.index_map)


def check_array(step_offsets: Offsets, index_map: IndexMap) -> None:
    """Raise InvalidDataError unless the steps are those that the index map describes."""
    lengths, found = index_map.outer.lengths(-1), np.diff(step_offsets)
    # First the number of steps: it bounds what `step_sizes` allocates.
    count = int(lengths.max(initial=0))
    if count != found.size:
        raise InvalidDataError(f"the index map describes {count} steps, the array has {found.size}")
    wrong = np.flatnonzero(index_map.step_sizes != found)
    if wrong.size:
        raise InvalidDataError(f"step {wrong[0]} does not have the items its index map describes")


def _check_announced(what: str, announced: int | None, found: int) -> None:
    if announced is not None and announced != found:
        raise InvalidDataError(f"{what}: {announced} were announced, {found} came")
