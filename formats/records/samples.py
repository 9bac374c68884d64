"""Samples of record datasets, with one value per field, as tensors.

A field with one row per sample is a tensor without levels; one with any number of rows per sample
is a tensor of one level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lodcli.formats.core.batching import aligned
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Format
from lodcli.formats.core.marks import tensor_of
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, TensorSpec
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import InvalidDataError, LodError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, TEXT

Sample = Mapping[str, Array]
LEVEL = "sample"


def spec_of(name: str, value: Array, *, ragged: bool, items: int | None, text: bool) -> TensorSpec:
    """Return the description of a field from its first value.

    Args:
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


def choose_fields() -> str:
    """Return advice about a field that some samples lack, or that holds something else."""
    return f"choose other fields with {option('columns')}"


class Collector:
    """Makes batches of samples that are added one by one.

    Args:
        lacking: advice if a sample lacks a field, for messages; None: to choose others.
    """

    def __init__(self, schema: Schema, lacking: str | None = None) -> None:
        self._schema, self._lacking = schema, lacking or choose_fields()
        self._values: dict[str, list[Array]] = {spec.name: [] for spec in schema}
        self._joined: dict[str, list[tuple[Array, Offsets]]] = {spec.name: [] for spec in schema}
        # Several even of many fields: a part takes memory too.
        self._together = max(16, MOST_VALUES // max(1, len(schema)))
        self.samples = 0
        self.size_bytes = 0

    def add(self, sample: Sample) -> None:
        """Add a sample.

        Raises:
            InvalidDataError: a field is missing or unknown, or has another dtype or shape than in
                the first.
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
                    f"them alike, or {choose_fields()}"
                )
            self._values[spec.name].append(value)
            self.size_bytes += value.nbytes + 8
        if len(sample) > len(self._schema):
            unknown = min(sample.keys() - {spec.name for spec in self._schema})
            raise InvalidDataError(
                f"has the field {unknown}, which the first sample does not have; "
                f"choose fields with {option('columns')}"
            )
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


def collected(
    schema: Schema, samples: Iterable[Sample], limit_bytes: int, lacking: str | None = None
) -> Iterator[Batch]:
    """Yield batches of samples of about `limit_bytes`; an empty one if there are none.

    Args:
        samples: of a file.
        limit_bytes: size of a batch.
        lacking: see Collector.
    """
    collector, number = Collector(schema, lacking), -1
    for number, sample in enumerate(samples):
        try:
            collector.add(sample)
        except LodError:
            with naming(f"sample {number}"):
                raise
        if collector.size_bytes >= limit_bytes:
            yield collector.batch()
    if collector.samples or number < 0:
        yield collector.batch()


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


def blocks(
    kind: Format, schema: Schema, batches: Iterable[Batch], output: Output
) -> Iterator[Mapping[str, Values]]:
    """Yield whole samples, a few at a time, by field.

    Args:
        kind: format, for messages.
        batches: of the tensors, which may come separately; see `aligned`.

    Raises:
        UnsupportedError: at the end, unless all tensors had equally many outermost items.
    """
    counts = {spec.name: 0 for spec in schema}
    most = max(1, BLOCK_VALUES // len(schema))
    for batch in aligned(schema, batches, None, output):
        for name, tensor in batch.items():
            counts[name] += len(tensor)
        if len(batch) == len(schema):
            yield from _blocks(schema, batch, most)
    kind.require_equal(counts)


def _blocks(
    schema: Schema, batch: Mapping[str, LoDTensor], most: int
) -> Iterator[Mapping[str, Values]]:
    """Yield the samples of a batch that holds all tensors."""
    fields = []
    size_bytes: Offsets = np.zeros(1, np.int64)
    for spec in schema:
        tensor = batch[spec.name]
        ends = tensor.lod.levels[0] if spec.levels else np.arange(tensor.rows + 1)
        fields.append((spec, np.ascontiguousarray(tensor.values), ends))
        size_bytes = size_bytes + ends * spec.row_bytes
    start, count = 0, len(size_bytes) - 1
    while start < count:
        fitting = np.searchsorted(size_bytes, size_bytes[start] + BLOCK_BYTES, side="right")
        stop = min(max(int(fitting) - 1, start + 1), start + most, count)
        yield {
            spec.name: Values(spec, rows[ends[start] : ends[stop]], np.diff(ends[start : stop + 1]))
            for spec, rows, ends in fields
        }
        start = stop


def samples(block: Mapping[str, Values]) -> Iterator[Sample]:
    """Yield the samples of a block."""
    columns = [values.arrays() for values in block.values()]
    for sample in zip(*columns, strict=True):
        yield dict(zip(block, sample, strict=True))
