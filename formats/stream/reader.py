"""Reads a lod stream to batches. docs/stream.md."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import cast

import numpy as np
import numpy.typing as npt

from lodcli.formats.arrays.batch_parts import check_array
from lodcli.formats.arrays.budget import batch_bytes
from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.core.batching import groups, regrouped
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import BATCH_BYTES, Source, named_batches
from lodcli.formats.core.marks import tensor_of
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Batch, Item, StoredArray, TensorSpec, find
from lodcli.formats.core.schema import tensor_of as steps_of
from lodcli.formats.storage.inputs import Input
from lodcli.formats.stream.frames import Frame, FrameReader, Kind, widen_pipe
from lodcli.formats.stream.header import (
    JSON_LIMIT_BYTES,
    VALID_LEVELS,
    StreamHeader,
    Trailer,
    decode,
    numbers,
)
from lodcli.formats.stream.shared_rows import SharedReader
from lodcli.formats.values.file_attributes import parsed
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, check_chain, check_offsets, check_rows
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime import buffers as memory
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask, Nulls, pack, unpack
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.kernels.tensor.time_steps import IndexMap

# Up to this size memory is allocated for announced data, beyond it for data that has arrived.
_TRUSTED_BYTES = 64 << 20
_INT64_MAX = 2**63 - 1


class StreamSource(Source):
    """An open lod stream. From a pipe it can be read only once."""

    def __init__(self, source: Input) -> None:
        self._source = source
        widen_pipe(source.file.fileno())
        pipe = source.pipe
        self._shared = None if pipe is None else SharedReader(pipe)
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()

    def _read_header(self) -> None:
        self._frames = FrameReader(cast(io.BufferedReader, self._source.file), self._shared)
        frame = self._frames.next()
        if frame.kind != Kind.HEADER or frame.part:
            raise DamagedFileError(f"{frame}: expected the header")
        payload = self._frames.payload(frame, JSON_LIMIT_BYTES)
        self._header = decode(payload, self._frames.version)
        self.schema = self._header.schema
        self.attributes = parsed(self._header.attributes)
        self._fresh = True

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """See Source. Small batches of the stream are joined, large ones are cut.

        The last batch is yielded only after the trailer of the stream was checked.

        Raises:
            DamagedFileError: names the frame that is altered or missing.
            UnsupportedError: a pipe was read before.
        """
        return named_batches(self._source.label, lambda: self._batches(limit_bytes))

    def _batches(self, limit_bytes: int) -> Iterator[Batch]:
        if not self._fresh:
            if not self._source.seekable:
                raise UnsupportedError("a stream in a pipe can be read only once")
            self._source.file.seek(0)
            self._read_header()
        self._fresh = False
        limit_bytes = batch_bytes(limit_bytes)
        content = _Content(self._header, self._frames)
        while (frame := self._frames.next()).kind != Kind.TRAILER:
            if frame.kind == Kind.VALID:
                content.read_mask(frame)
                continue
            counts = content.announced(frame)
            pending = content.pending_bytes
            # Joining costs a copy: worth it for small batches only.
            full = pending + counts.size_bytes > limit_bytes or 4 * pending > limit_bytes
            if pending and full:
                yield from regrouped(self.schema, content.taken(), limit_bytes)
            content.read(counts)
        content.finish(frame)
        if self._shared is not None and self._shared.used:
            self.checksums = "CRC32C of every frame that came through the pipe"
        if content.pending:
            yield from regrouped(self.schema, content.taken(), limit_bytes)

    def read_index(self, name: str) -> LoD:
        """See Source. The rows are checked and dropped."""
        spec = find(self.schema, name)
        parts = []
        for batch in self.batches():
            if (item := batch.get(spec.name)) is not None:
                parts.append(steps_of(item).lod)
        return LoD.concatenate(parts)


class _Counts:
    """Counts of one batch: rows of tensors, items of levels.

    Attributes:
        number: of the batch.
        rows: by number of the tensor.
        items: by number of the level.
        size_bytes: of all rows.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: dict[int, int] = {}
        self.items: dict[int, int] = {}
        self.size_bytes = 0


class _Content:
    """Received data that was not yielded yet."""

    def __init__(self, header: StreamHeader, frames: FrameReader) -> None:
        self._header = header
        self._frames = frames
        named = ([spec.name for spec in group] for group in groups(header.schema))
        self._group = {name: group for group in named for name in group}
        counted = sum(2 + len(spec.levels) + len(spec.outer) for spec in header.schema)
        self._most_bytes = 8 * counted  # of the counts of a batch
        self._batches = 0
        self._total_items = [0] * len(header.levels)
        self._total_rows = [0] * len(header.schema)
        self._seen: set[int] = set()
        self._clear()

    def _clear(self) -> None:
        self.pending: dict[int, int] = {}
        self.pending_bytes = 0
        self._offsets: dict[int, _Pile] = {}
        self._rows: dict[int, _Pile] = {}
        self._orders: dict[int, _Pile] = {}
        self._masks: dict[tuple[int, int], list[tuple[int, Mask]]] = {}
        self._last = _Counts(-1)
        self._last_mask = -1

    # -- counts --------------------------------------------------------------------

    def announced(self, frame: Frame) -> _Counts:
        """Return the counts in the BATCH frame whose header was read."""
        schema = self._header.schema
        if frame.kind != Kind.BATCH or frame.part != self._batches % 2**32:
            raise DamagedFileError(f"{frame}: expected batch {self._batches} or the trailer")
        payload = self._frames.payload(frame, self._most_bytes)
        if len(payload) % 8:
            raise DamagedFileError(f"{frame}: expected whole numbers of 8 bytes")
        values = iter(np.frombuffer(payload, "<i8").tolist())
        counts = _Counts(self._batches)
        last = -1
        for number in values:
            if not last < number < len(schema):
                raise DamagedFileError(f"{frame}: expected a tensor after {last}, found {number}")
            last = number
            self._note(counts, number, values, frame)
        present = [schema[number].name for number in counts.rows]
        together = {id(group): group for group in map(self._group.__getitem__, present)}
        names = set(present)
        for group in together.values():
            if not names.issuperset(group):
                raise DamagedFileError(f"{frame}: {listing(group)} must come together")
        return counts

    def _note(self, counts: _Counts, number: int, values: Iterator[int], frame: Frame) -> None:
        spec = self._header.schema[number]
        levels = numbers((*spec.levels, *spec.outer))
        rows, *items = (next(values, -1) for _ in range(1 + len(levels)))
        if min(rows, *items, 0) < 0:
            raise DamagedFileError(f"{frame}: the counts of {spec.name} are negative or missing")
        if spec.array and number in self._seen:
            raise DamagedFileError(f"{frame}: {spec.name} is a TensorArray and appears twice")
        for level, count in zip(levels, items, strict=True):
            if counts.items.setdefault(level, count) != count:
                raise DamagedFileError(f"{frame}: level {level} has two different counts")
        if (rows + self._total_rows[number]) * _wide_row_bytes(spec) > _INT64_MAX:
            raise DamagedFileError(f"{frame}: {rows} rows of {spec.name} exceed any memory")
        counts.rows[number] = rows
        counts.size_bytes += rows * spec.row_bytes

    # -- one batch -----------------------------------------------------------------

    def read(self, counts: _Counts) -> None:
        """Read and check all frames of a batch."""
        schema = self._header.schema
        before = {level: self._pile(self._offsets, level, 8).used for level in counts.items}
        for level in sorted(counts.items):
            self._fill(Kind.OFFSETS, level, self._offsets[level], 8 * counts.items[level])
        for number, rows in counts.rows.items():
            pile = self._pile(self._rows, number, 0)
            start = pile.used
            self._fill(Kind.ROWS, number, pile, rows * schema[number].row_bytes)
            if schema[number].dtype == np.bool_ and (pile.data[start : pile.used] > 1).any():
                raise DamagedFileError(f"{schema[number].name}: a boolean must be 0 or 1")
        for number in counts.rows:
            if schema[number].array:
                size = 8 * counts.items[numbers(schema[number].outer)[-1]]
                self._fill(Kind.ORDER, number, self._pile(self._orders, number, 0), size)
        self._check_offsets(counts, before)
        for level, count in counts.items.items():
            self._total_items[level] += count
        for number, rows in counts.rows.items():
            self._total_rows[number] += rows
            self.pending[number] = self.pending.get(number, 0) + rows
        self._last, self._last_mask = counts, -1
        self._seen.update(counts.rows)
        self.pending_bytes += counts.size_bytes + 8 * sum(counts.items.values())
        self._batches += 1

    def read_mask(self, frame: Frame) -> None:
        """Read and check a mask of the last batch; `frame` is the header of its first frame."""
        number, level = divmod(frame.part, VALID_LEVELS)
        rows = self._last.rows.get(number)
        spec = self._header.schema[number] if rows is not None else None
        if rows is None or spec is None or not spec.nullable or level > len(spec.levels):
            raise DamagedFileError(f"{frame}, part {frame.part}: no such mask was announced")
        if frame.part <= self._last_mask:
            raise DamagedFileError(f"{frame}, part {frame.part}: expected after {self._last_mask}")
        self._last_mask = frame.part
        before = self.pending[number] - rows
        count = rows
        if level < len(spec.levels):
            key = numbers(spec.levels)[level]
            count = self._last.items[key]
            before = self._offsets[key].used // 8 - 1 - count
        pile, size = _Pile(0), -(-count // 8)
        if not 0 < frame.size_bytes <= size:
            raise DamagedFileError(f"{frame}: has {frame.size_bytes} bytes; expected 1 to {size}")
        self._frames.payload_into(frame, pile.room(frame.size_bytes, size))
        self._fill(Kind.VALID, frame.part, pile, size - frame.size_bytes)
        bits = pile.array(np.uint8)
        mask = unpack(bits, 0, count)
        if mask.all() or not np.array_equal(pack(mask), bits):
            raise DamagedFileError(f"{frame}: masks nothing, or more than {count} items")
        self._masks.setdefault((number, level), []).append((before, mask))

    def _nulls(self, number: int, lod: LoD) -> Nulls:
        """Return the nulls of a tensor in the data received and not yielded yet."""
        found: list[Mask | None] = []
        for level in range(lod.n_levels + 1):
            parts = self._masks.get((number, level), [])
            rows = self.pending[number]
            count = lod.levels[level].size - 1 if level < lod.n_levels else rows
            mask = np.ones(count, np.bool_) if parts else None
            for start, part in parts:
                assert mask is not None
                mask[start : start + part.size] = part
            found.append(mask)
        return Nulls.of(found)

    def _pile(self, piles: dict[int, _Pile], number: int, lead_bytes: int) -> _Pile:
        return piles.setdefault(number, _Pile(lead_bytes))

    def _fill(self, kind: Kind, part: int, pile: _Pile, size_bytes: int) -> None:
        missing = size_bytes
        while missing:
            frame = self._frames.next()
            if frame.kind != kind or frame.part != part:
                raise DamagedFileError(
                    f"{frame}, part {frame.part}: batch {self._batches} is not complete: "
                    f"expected {missing} more bytes of {kind.name} {part}"
                )
            if not 0 < frame.size_bytes <= missing:
                raise DamagedFileError(
                    f"{frame}: has {frame.size_bytes} bytes; expected 1 to {missing}"
                )
            self._frames.payload_into(frame, pile.room(frame.size_bytes, missing))
            missing -= frame.size_bytes

    def _check_offsets(self, counts: _Counts, before: dict[int, int]) -> None:
        """Check the offsets of a batch, then add the totals of the batches before it."""
        parts, bases = {}, {}
        for level, start in before.items():
            pile = self._offsets[level]
            part = pile.data[start - 8 : pile.used].view("<i8")
            # The total so far takes the place of the leading 0, which is not sent.
            bases[level], part[0] = int(part[0]), 0
            parts[level] = part
        checked: set[int] = set()
        for number, rows in counts.rows.items():
            spec = self._header.schema[number]
            with naming(f"batch {counts.number}", spec.name):
                for chain in (spec.levels, spec.outer):
                    for depth, level in enumerate(numbers(chain)):
                        if level not in checked:
                            check_offsets(parts[level], level=depth)
                            checked.add(level)
                    check_chain([parts[level] for level in numbers(chain)])
                check_rows([parts[level] for level in numbers(spec.levels)], rows)
                if spec.array:
                    self._check_array(spec, number, parts)
        for level, part in parts.items():
            part += bases[level]

    def _check_array(self, spec: TensorSpec, number: int, parts: dict[int, Offsets]) -> None:
        # A TensorArray is in one batch as a whole: these are all of its offsets.
        order = self._orders[number].array("<i8")
        outer = LoD._trusted([parts[level].copy() for level in numbers(spec.outer)])
        check_array(parts[int(spec.levels[0].key)], IndexMap(order, outer))

    # -- what is yielded -----------------------------------------------------------

    def taken(self) -> Batch:
        """Return the received data as a batch, and clear it."""
        # From little-endian in the stream to native byte order: no copy on most machines.
        levels = {
            level: immutable(pile.array("<i8").astype(np.int64, copy=False))
            for level, pile in self._offsets.items()
        }
        indexes: dict[tuple[int, ...], LoD] = {}
        batch: dict[str, Item] = {}
        for number in sorted(self.pending):
            spec = self._header.schema[number]
            key = tuple(numbers(spec.levels))
            if key not in indexes:
                indexes[key] = LoD._trusted([levels[level] for level in key], spec.level_names)
            flat = self._rows[number].array(spec.dtype.newbyteorder("<"))
            data = flat.astype(spec.dtype, copy=False)
            rows = data.reshape(self.pending[number], *spec.row_shape)
            nulls = self._nulls(number, indexes[key]) if spec.nullable else NO_NULLS
            tensor = tensor_of(spec, rows, indexes[key], nulls)
            batch[spec.name] = tensor
            if spec.array:
                order = self._orders[number].array("<i8")
                names = [level.name for level in spec.outer]
                outer = LoD._trusted([levels[level] for level in numbers(spec.outer)], names)
                array = TensorArray.from_steps(tensor)
                batch[spec.name] = StoredArray(array, IndexMap(order, outer))
        self._clear()
        return batch

    def finish(self, frame: Frame) -> None:
        """Check the trailer, whose header was read, and that nothing follows it."""
        found = Trailer(
            batches=self._batches,
            frames=frame.number,
            headers_crc32c=self._frames.headers_crc32c,
            levels=tuple(self._total_items),
            tensors=tuple(self._total_rows),
        )
        found.check(self._frames.payload(frame, JSON_LIMIT_BYTES))
        for number, spec in enumerate(self._header.schema):
            if number not in self._seen:
                raise DamagedFileError(f"{spec.name} is in the header, but not in the stream")
            _check_announced(f"rows of {spec.name}", spec.rows, self._total_rows[number])
        for number, level in enumerate(self._header.levels):
            _check_announced(f"items of level {number}", level.items, self._total_items[number])
        self._frames.end()


class _Pile:
    """Bytes of one part, as they arrive.

    Attributes:
        data: at least `used` bytes.
        used: how many have arrived.
    """

    def __init__(self, lead_bytes: int) -> None:
        self.data: Bytes = np.zeros(lead_bytes, np.uint8)
        self.used = lead_bytes

    def room(self, size_bytes: int, expected_bytes: int) -> Bytes:
        """Return the buffer for the next bytes.

        Args:
            expected_bytes: the announced number of bytes still to come, these included.
        """
        needed = self.used + size_bytes
        if needed > self.data.size:
            announced = min(self.used + expected_bytes, _TRUSTED_BYTES)
            size = max(needed, announced, 2 * self.data.size)
            grown: Bytes = memory.empty((size,), np.dtype(np.uint8))
            grown[: self.used] = self.data[: self.used]
            self.data = grown
        out = self.data[self.used : needed]
        self.used = needed
        return out

    def array(self, dtype: npt.DTypeLike) -> Array:
        """Return the received data as values."""
        return self.data[: self.used].view(dtype)


def _wide_row_bytes(spec: TensorSpec) -> int:
    # NumPy's check for overflow leaves out axes of size 0, and so does this one.
    return math.prod(axis or 1 for axis in spec.row_shape) * spec.dtype.itemsize


def _check_announced(what: str, announced: int | None, found: int) -> None:
    if announced is not None and announced != found:
        raise DamagedFileError(f"{what}: the header announces {announced}, found {found}")
