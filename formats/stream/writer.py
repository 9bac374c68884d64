"""Writes batches to a lod stream. docs/stream.md."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lodcli.formats.arrays import batch_parts
from lodcli.formats.arrays.byte_blocks import byte_blocks, flat_bytes
from lodcli.formats.core.batching import regrouped, together
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.stream.frames import FrameWriter, Kind, Writable, bytes_of
from lodcli.formats.stream.header import VALID_LEVELS, StreamHeader, Trailer, encode, numbers, plan
from lodcli.formats.stream.shared_rows import SharedWriter
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import pack

# A reader holds one batch while its consumer still holds the one before.
BATCH_BYTES = 16 << 20


def write_stream(
    output: Writable,
    schema: Schema,
    batches: Iterable[Batch],
    *,
    attributes: str = "",
    tells_failure: bool = True,
    shares_memory: bool = False,
) -> None:
    """Write all batches as one stream.

    Args:
        output: the target; data is only appended.
        schema: of all batches together.
        batches: whole outermost items. Large batches are cut. Tensors that share their outermost
            level but come in different batches are buffered until they are together.
        attributes: of the file, as text.
        tells_failure: whether a stream that cannot be finished ends with a FAILED frame; False if
            the caller reports the error.
        shares_memory: whether rows may go through shared memory, if the output is a pipe, and lod
            reads it.

    Raises:
        InvalidDataError: the batches do not match `schema`.
    """
    header = plan(schema, attributes)
    shared = SharedWriter(output.fd) if shares_memory else None
    frames = FrameWriter(output, header.version, shared)
    writer = _StreamWriter(frames, header)
    try:
        for batch in together(header.schema, batches):
            for part in regrouped(header.schema, batch, BATCH_BYTES):
                writer.write(part)
        writer.finish()
    except Exception:
        if tells_failure:
            frames.fail()
        raise
    finally:
        if shared is not None:
            shared.close()


def write_failure(output: Writable) -> None:
    """Write a stream that consists of a FAILED frame."""
    FrameWriter(output).fail()


class _StreamWriter:
    """Writes the header at once, then each batch."""

    def __init__(self, frames: FrameWriter, header: StreamHeader) -> None:
        self._header = header
        self._schema = header.schema
        self._splitter = batch_parts.BatchSplitter(header.schema, nulls=True)
        self._numbers = {spec.name: number for number, spec in enumerate(header.schema)}
        self._frames = frames
        self._batches = 0
        self._frames.write(Kind.HEADER, 0, bytes_of(encode(header)))
        self._frames.flush()

    def write(self, batch: Batch) -> None:
        """Write one batch: its counts, then offsets, rows and orders, each in order."""
        parts = {}
        for part in self._splitter.split(batch):
            kind = Kind[part.kind.name]
            number = int(part.key) if kind is Kind.OFFSETS else self._numbers[part.key]
            parts[kind, number] = part
        found = sorted((self._numbers[name], name) for name in batch)
        counts: list[int] = []
        for number, _ in found:
            spec = self._schema[number]
            levels = numbers((*spec.levels, *spec.outer))
            arrays = ((Kind.ROWS, number), *((Kind.OFFSETS, level) for level in levels))
            counts += [number, *(parts[array].count for array in arrays)]
        self._frames.write(Kind.BATCH, self._batches % 2**32, flat_bytes(np.array(counts, "<i8")))
        self._batches += 1
        # Kinds are numbered in order of their first appearance.
        for (kind, number), part in sorted(parts.items(), key=lambda item: item[0]):
            # Offsets count from the beginning of their batch; the leading 0 is not sent.
            for data in [part.data[1:]] if kind is Kind.OFFSETS else part.arrays():
                # Much smaller than the limit of a frame, so that a reader can check data early.
                for block in byte_blocks(data):
                    if kind is Kind.ROWS:
                        self._frames.write_rows(number, block)
                    else:
                        self._frames.write(kind, number, block)
        for number, name in found:
            item = batch[name]
            if isinstance(item, LoDTensor):
                for level, mask in item.nulls.present():
                    masked = number * VALID_LEVELS + level
                    for block in byte_blocks(pack(mask)):
                        self._frames.write(Kind.VALID, masked, block)
        self._frames.flush()

    def finish(self) -> None:
        """Write the remaining data, and the trailer."""
        missing = [s for s in self._schema if s.name not in self._splitter.seen and not s.array]
        if missing:
            self.write({spec.name: spec.empty() for spec in missing})
        self._splitter.counted()
        counts, levels = self._splitter.counts, self._header.levels
        trailer = Trailer(
            batches=self._batches,
            frames=self._frames.count,
            headers_crc32c=self._frames.headers_crc32c,
            levels=tuple(counts[batch_parts.Kind.OFFSETS, level.key] for level in levels),
            tensors=tuple(counts[batch_parts.Kind.ROWS, spec.name] for spec in self._schema),
        )
        self._frames.write(Kind.TRAILER, 0, bytes_of(trailer.encode()))
        self._frames.flush()
