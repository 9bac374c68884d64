"""Samples of record datasets, one value a field, as tensors.

A value of one row a sample is a tensor without levels, one of any number of rows a tensor
of one level.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import IO

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Format
from lodcli.formats.core.marks import tensor_of
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, TensorSpec
from lodcli.formats.storage.pread import read_into
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
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


class Collector:
    """Makes batches of samples that come one by one."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._values: dict[str, list[Array]] = {spec.name: [] for spec in schema}
        self.samples = 0
        self.size_bytes = 0

    def add(self, sample: Sample) -> None:
        """Take in a sample.

        Raises:
            InvalidDataError: a field is missing, or not as in the first sample.
        """
        for spec in self._schema:
            value = sample.get(spec.name)
            if value is None:
                raise InvalidDataError(f"has no {spec.name}, which other samples have")
            ragged = len(spec.levels)
            if value.dtype != spec.dtype or value.shape[ragged:] != spec.row_shape:
                shape = ("n", *spec.row_shape) if ragged else spec.row_shape
                raise InvalidDataError(
                    f"{spec.name}: expected {spec.dtype} of shape {_shown(shape)} as in the "
                    f"first sample, found {value.dtype} of shape {_shown(value.shape)}; make "
                    "them alike, or choose other fields with --field"
                )
            self._values[spec.name].append(value)
            self.size_bytes += value.nbytes + 8
        self.samples += 1

    def batch(self) -> Batch:
        """Return all that came since the last batch."""
        made = {}
        for spec in self._schema:
            values = self._values[spec.name]
            self._values[spec.name] = []
            if spec.levels:
                lod = LoD.from_lengths([[len(value) for value in values]], spec.level_names)
                none = np.empty((0, *spec.row_shape), spec.dtype)
                made[spec.name] = tensor_of(spec, np.concatenate([none, *values]), lod)
            else:
                rows = np.array(values, spec.dtype).reshape(len(values), *spec.row_shape)
                made[spec.name] = LoDTensor(rows)
        self.samples = self.size_bytes = 0
        return made


def _shown(shape: tuple[object, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


# -- writing -----------------------------------------------------------------------


class Joiner:
    """Assembles whole samples from batches, whose tensors may arrive separately.

    What waits for another tensor waits in a nameless file.
    """

    def __init__(self, schema: Schema, kind: Format, stack: ExitStack) -> None:
        self._queues = {spec.name: _Queue(spec, stack) for spec in schema}
        self._kind = kind
        self._done = 0

    def add(self, batch: Batch) -> Iterator[Sample]:
        """Take in a batch and yield the samples that are complete."""
        for name, item in batch.items():
            assert isinstance(item, LoDTensor)
            self._queues[name].put(item)
        for _ in range(min(queue.waiting for queue in self._queues.values())):
            yield {name: queue.get() for name, queue in self._queues.items()}
            self._done += 1

    def finish(self) -> None:
        """Raise ShapeMismatchError unless every tensor had as many outermost items."""
        self._kind.require_equal(
            {name: self._done + queue.waiting for name, queue in self._queues.items()}
        )


class _Queue:
    def __init__(self, spec: TensorSpec, stack: ExitStack) -> None:
        self._spec = spec
        self._counts: deque[int] = deque()
        spool = tempfile.TemporaryFile(prefix="lod-")  # noqa: SIM115
        self._file: IO[bytes] = stack.enter_context(spool)
        self._read = self._written = 0

    @property
    def waiting(self) -> int:
        return len(self._counts)

    def put(self, tensor: LoDTensor) -> None:
        if not self._counts:  # all of it was taken: the room can be used again
            self._read = self._written = 0
        data = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8).data
        self._written = files.write_all_at(self._file.fileno(), data, self._written)
        if self._spec.levels:
            self._counts.extend(tensor.lod.lengths(0).tolist())
        else:
            self._counts.extend([1] * tensor.rows)

    def get(self) -> Array:
        count = self._counts.popleft()
        shape = (count, *self._spec.row_shape) if self._spec.levels else self._spec.row_shape
        out: Array = np.empty(shape, self._spec.dtype)
        with naming(self._spec.name):
            read_into(self._file.fileno(), out, self._read)
        self._read += out.nbytes
        return out


def refuse_deep(schema: Schema, what: str) -> None:
    """Raise UnsupportedError for rows without bytes, whose number a sample loses."""
    for spec in schema:
        if 0 in spec.row_shape:
            raise UnsupportedError(f"{what} holds no rows of shape {spec.row_shape}: {spec.name}")
