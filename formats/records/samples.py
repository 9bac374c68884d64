"""Samples of record datasets, with one value per field, as tensors.

A field with one row per sample is a tensor without levels; one with any number of rows per sample
is a tensor of one level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Format
from lodcli.formats.core.marks import tensor_of
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, TensorSpec
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.pread import read_array
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import files
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, TEXT

Sample = Mapping[str, Array]
LEVEL = "sample"


def spec_of(
    name: str, value: Array, *, ragged: bool, items: int | None, text: bool = False
) -> TensorSpec:
    """Return the description of a field from its first value.

    Args:
        name: of the field.
        value: of the first sample.
        ragged: whether the first axis may differ between samples.
        items: number of samples, if known.
        text: whether its values are text, as uint8.
    """
    if not ragged:
        return TensorSpec(name, value.dtype, value.shape, rows=items)
    level = LevelSpec(f"{name}/0", LEVEL, items)
    marks = TEXT if text else NO_MARKS
    return TensorSpec(name, value.dtype, value.shape[1:], (level,), marks=marks)


# Values held one by one, at most: as a separate array, one takes hundreds of bytes.
MOST_VALUES = 1 << 13


class Collector:
    """Makes batches of samples that are added one by one.

    Args:
        schema: of the samples.
        lacking: what to do if a sample lacks a field, for messages.
    """

    def __init__(self, schema: Schema, lacking: str = "choose other fields with --field") -> None:
        self._schema, self._lacking = schema, lacking
        self._values: dict[str, list[Array]] = {spec.name: [] for spec in schema}
        self._joined: dict[str, list[tuple[Array, Offsets]]] = {spec.name: [] for spec in schema}
        # Several even of many fields: a part takes memory too.
        self._together = max(16, MOST_VALUES // max(1, len(schema)))
        self.samples = 0
        self.size_bytes = 0

    def add(self, sample: Sample) -> None:
        """Add a sample.

        Raises:
            InvalidDataError: a field is missing, or has another dtype or shape than in the first.
        """
        for spec in self._schema:
            value = sample.get(spec.name)
            if value is None:
                raise InvalidDataError(f"has no {spec.name}, which others have; {self._lacking}")
            ragged = len(spec.levels)
            other = value.ndim < ragged or value.shape[ragged:] != spec.row_shape
            if other or value.dtype != spec.dtype:
                shape = ("n", *spec.row_shape) if ragged else spec.row_shape
                raise InvalidDataError(
                    f"{spec.name}: expected {spec.dtype} of shape {_shown(shape)} as in the "
                    f"first sample, found {value.dtype} of shape {_shown(value.shape)}; make "
                    "them alike, or choose other fields with --field"
                )
            self._values[spec.name].append(value)
            self.size_bytes += value.nbytes + 8
        self.samples += 1
        if self.samples % self._together == 0:
            self._join()

    def batch(self) -> Batch:
        """Return all samples added since the last batch."""
        self._join()
        made = {}
        for spec in self._schema:
            rows, counts = map(np.concatenate, zip(*self._joined.pop(spec.name), strict=True))
            self._joined[spec.name] = []
            if spec.levels:
                made[spec.name] = tensor_of(
                    spec, rows, LoD.from_lengths([counts], spec.level_names)
                )
            else:
                made[spec.name] = LoDTensor(rows)
        self.samples = self.size_bytes = 0
        return made

    def _join(self) -> None:
        """Join the values of each field that were added since the last call."""
        for spec in self._schema:
            values = self._values[spec.name]
            counts = np.array([len(value) for value in values] if spec.levels else [], np.int64)
            if spec.levels:
                rows = np.concatenate([np.empty((0, *spec.row_shape), spec.dtype), *values])
            else:
                rows = np.array(values, spec.dtype).reshape(len(values), *spec.row_shape)
            self._joined[spec.name].append((rows, counts))
            values.clear()


def _shown(shape: tuple[object, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


# -- writing -----------------------------------------------------------------------


# Samples joined at a time, at most; fewer if they are large, or have many fields. 16 times as many
# take twice the memory, and are slower.
BLOCK_VALUES, BLOCK_BYTES = 1 << 10, 8 << 20


@dataclass(frozen=True)
class Values:
    """One field of consecutive samples.

    Attributes:
        spec: of the field.
        rows: of all samples.
        counts: number of rows of each sample.
    """

    spec: TensorSpec
    rows: Array
    counts: Offsets

    def each(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the number of rows of each sample, and their bytes."""
        data = self.rows.reshape(-1).view(np.uint8).data
        ends = (np.cumsum(self.counts) * self.spec.row_bytes).tolist()
        start = 0
        for count, end in zip(self.counts.tolist(), ends, strict=True):
            yield count, data[start:end]
            start = end

    def arrays(self) -> Iterator[Array]:
        """Yield the value of each sample."""
        start = 0
        for end in np.cumsum(self.counts).tolist():
            value = self.rows[start:end]
            yield value if self.spec.levels else value.reshape(self.spec.row_shape)
            start = end


class Joiner:
    """Assembles whole samples from batches, whose tensors may arrive separately.

    Values that wait for other tensors are buffered in anonymous files.

    Args:
        schema: of the batches.
        kind: format, for messages.
        output: the target; the anonymous files are created on the same file system.
        stack: closes the anonymous files.
    """

    def __init__(self, schema: Schema, kind: Format, output: Output, stack: ExitStack) -> None:
        self._queues = {spec.name: _Queue(spec, output, stack) for spec in schema}
        self._kind = kind
        self._done = 0

    def add(self, batch: Batch) -> Iterator[Sample]:
        """Add a batch and yield the samples that are complete."""
        for block in self.blocks(batch):
            columns = [values.arrays() for values in block.values()]
            for sample in zip(*columns, strict=True):
                yield dict(zip(block, sample, strict=True))

    def blocks(self, batch: Batch) -> Iterator[Mapping[str, Values]]:
        """Add a batch and yield the samples that are complete, by field."""
        queues = self._queues.values()
        for name, item in batch.items():
            assert isinstance(item, LoDTensor)
            self._queues[name].put(item)
        while most := min(queue.waiting for queue in queues):
            most = min(most, max(1, BLOCK_VALUES // len(queues)))
            sizes = sum(queue.sizes(most) for queue in queues)
            fitting = np.searchsorted(np.cumsum(sizes), BLOCK_BYTES, side="right")
            count = max(1, int(fitting))
            yield {name: queue.take(count) for name, queue in self._queues.items()}
            self._done += count

    def finish(self) -> None:
        """Raise UnsupportedError unless all tensors had equally many outermost items."""
        self._kind.require_equal(
            {name: self._done + queue.waiting for name, queue in self._queues.items()}
        )


class _Queue:
    def __init__(self, spec: TensorSpec, output: Output, stack: ExitStack) -> None:
        self._spec = spec
        self._output = output
        self._counts: Offsets = np.empty(0, np.int64)
        self._file: IO[bytes] = stack.enter_context(output.spool(buffering=0))
        self._read = self._written = 0

    @property
    def waiting(self) -> int:
        return len(self._counts)

    def put(self, tensor: LoDTensor) -> None:
        if not self.waiting:  # all values were taken: reuse the file from the start
            self._read = self._written = 0
        data = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8).data
        with self._output.naming(spooling=True):
            self._written = files.write_all_at(self._file.fileno(), data, self._written)
        counts = tensor.lod.lengths(0) if self._spec.levels else np.ones(tensor.rows, np.int64)
        self._counts = np.concatenate([self._counts, counts])

    def sizes(self, count: int) -> Offsets:
        """Return the bytes of each of the first values."""
        return self._counts[:count] * self._spec.row_bytes

    def take(self, count: int) -> Values:
        counts, self._counts = self._counts[:count], self._counts[count:]
        shape = (int(counts.sum()), *self._spec.row_shape)
        with naming(self._spec.name):
            rows = read_array(self._file.fileno(), shape, self._spec.dtype, self._read)
        self._read += rows.nbytes
        return Values(self._spec, rows, counts)
