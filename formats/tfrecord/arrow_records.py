"""The records of a TFRecord file as Arrow records."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from lodcli.formats.arrow.files import Found, Records, Wanted
from lodcli.formats.arrow.writer import arrow_schema
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.options import choose_others
from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.storage.compression import Unpacked, codec_of
from lodcli.formats.storage.inputs import Input
from lodcli.formats.tfrecord.description import Inference, described, inner, kind_of
from lodcli.formats.tfrecord.features import KINDS, LISTS, Parsed, Values, parse, values_of
from lodcli.formats.tfrecord.frames import begins_record, records_of
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.arrow import arrow_array
from lodcli.kernels.tensor.marks import TEXT, check_text
from lodcli.kernels.tensor.nulls import Nulls

# Parsed at a time. A number of one byte is 8 bytes in memory, and so is each of its positions.
PARSED_BYTES = 1 << 20
Pieces = Iterator[tuple[int, Parsed]]


class ExampleRecords(Records):
    """Examples and SequenceExamples; each feature is a column.

    Without a description, the schema is inferred from all records of a file, or from the first
    8 MB of a pipe.
    """

    advises = True

    def __init__(self, source: Input) -> None:
        self._source = source
        self.bounds = source.bounds
        self.notes = []
        self._again = source.seekable
        self._begun: Pieces | None = None
        self._unpacked: list[BinaryIO] = []
        pieces = self._pieces(BATCH_BYTES)
        first = next(pieces, None)
        begun = [first] if first else []
        description = first and first[1].schema
        if description is not None:
            specs = described(description)
            self._listed = {spec.name for spec in specs if spec.depth == LISTS}
        else:
            found = Inference()
            if not self._again:
                begun += islice(pieces, BATCH_BYTES // PARSED_BYTES - 1)
            for start, parsed in chain(begun, pieces if self._again else ()):
                found.add(parsed, _where(start, parsed))
            self.refused = found.refused
            specs, self._listed = found.schema(whole=self._again), found.listed()
        self._specs = {spec.name: spec for spec in specs}
        self.schema = arrow_schema(specs)
        if not self._again and first is not None:
            self._begun = chain(begun, pieces)

    def batches(self, wanted: Wanted) -> Iterator[Found]:
        if self._again:
            pieces = self._pieces(wanted.limit_bytes)
        elif self._begun is None:
            raise UnsupportedError(
                f"{self._source.label}: a pipe can be read only once; use a file"
            )
        else:
            pieces, self._begun = self._begun, None
        kinds = pa.schema([self.schema.field(name) for name in wanted.names])
        for first, parsed in pieces:
            with naming(_where(first, parsed)):
                self._refuse_unknown(parsed)
                arrays = [self._column(first, parsed, name) for name in wanted.names]
                yield first, pa.RecordBatch.from_arrays(arrays, schema=kinds)

    def _pieces(self, limit_bytes: int) -> Pieces:
        for found in records_of(self._file(), min(limit_bytes, PARSED_BYTES), self.bounds):
            with naming(f"records from {found.first} on"):
                parsed = parse(found.spans)
            yield found.first, parsed

    def _file(self) -> BinaryIO:
        """Return the file at its beginning, decompressed if TensorFlow wrote it with gzip."""
        file = self._source.file
        if self._again:
            file.seek(0)
        head = self._source.head() if self._again else b""
        if codec_of(head) != "gzip" or begins_record(head):
            return file
        unpacked = Unpacked(file, "gzip")
        unpacked.bounds = self.bounds
        # Kept, because a deleted reader closes the file.
        self._unpacked.append(io.BufferedReader(unpacked, 1 << 20))
        return self._unpacked[-1]

    def _refuse_unknown(self, parsed: Parsed) -> None:
        for name in sorted((parsed.context.keys() | parsed.lists.keys()) - self._specs.keys()):
            spans = parsed.context.get(name)
            if spans is None:
                spans = inner(parsed.lists[name], name)
            if values_of(spans, name).kind:
                raise InvalidDataError(
                    f"have the feature {name!r}, which the first records in the pipe do not have; "
                    "read a file instead, which lod scans before"
                )

    def _column(self, first: int, parsed: Parsed, name: str) -> pa.Array:
        spec, field = self._specs[name], self.schema.field(name)
        if name in self._listed:
            rows, lod, mask = self._of_lists(parsed, spec)
        else:
            rows, lod, mask = self._of_context(first, parsed, spec)
        if mask is not None and not spec.nullable:
            missing = int(np.argmin(mask))
            raise InvalidDataError(
                f"record {first + missing} has no {name!r}, which the others have"
            )
        if spec.marks == TEXT:
            with naming(repr(name)):
                check_text(rows, lod)
        masks = [mask] + [None] * lod.n_levels
        return arrow_array(rows, lod, field.type, Nulls.of(masks))

    def _of_context(
        self, first: int, parsed: Parsed, spec: TensorSpec
    ) -> tuple[Array, LoD, Array | None]:
        spans, other = parsed.context.get(spec.name), parsed.lists.get(spec.name)
        if other is not None:
            raise InvalidDataError(f"{spec.name!r} is a feature list in some records only")
        counts, present = np.zeros(parsed.records, np.int64), np.zeros(parsed.records, np.bool_)
        if spans is None:
            values = Values(0, present, counts, np.zeros(0, np.int64))
        else:
            values = values_of(spans, spec.name)
            counts[spans.owner], present[spans.owner] = values.counts, values.present
        data, width = _data(spec, values), _width(spec)
        if spec.depth:
            levels = [_divided(counts, width, spec)]
        else:
            levels = []
            wrong = np.flatnonzero(present & (counts != width))
            if wrong.size:
                raise InvalidDataError(
                    f"record {first + wrong[0]}: {spec.name!r} has {counts[wrong[0]]} "
                    f"values, expected {width} as in the others"
                )
        mask = _mask(present)
        if values.lengths is not None or spec.marks.values:
            lengths = np.zeros(0, np.int64) if values.lengths is None else values.lengths
            if not levels and mask is not None:
                spread = np.zeros(parsed.records, np.int64)
                spread[present] = lengths
                lengths = spread
            levels.append(lengths)
        elif not levels and mask is not None:
            whole = np.zeros((parsed.records, *spec.row_shape), spec.dtype)
            whole[present] = data.reshape(-1, *spec.row_shape)
            return whole, LoD(), mask
        return data.reshape(-1, *spec.row_shape), _lod(levels, spec), mask

    def _of_lists(self, parsed: Parsed, spec: TensorSpec) -> tuple[Array, LoD, Array | None]:
        spans = parsed.lists.get(spec.name)
        if spec.name in parsed.context and values_of(parsed.context[spec.name], spec.name).kind:
            raise InvalidDataError(f"{spec.name!r} is a feature list in some records only")
        outer, present = np.zeros(parsed.records, np.int64), np.zeros(parsed.records, np.bool_)
        values = Values(0, present[:0], outer[:0], np.zeros(0, np.int64))
        if spans is not None:
            each = inner(spans, spec.name)
            outer[spans.owner] = each.counts(spans.begin.size)
            present[spans.owner] = True
            values = values_of(each, spec.name)
        data, width = _data(spec, values), _width(spec)
        levels = [outer]
        if spec.depth == LISTS:
            levels.append(_divided(values.counts, width, spec))
        elif (values.counts != width).any():
            wrong = int(values.counts[values.counts != width][0])
            raise InvalidDataError(
                f"{spec.name!r} has a list of {wrong} values, expected {width} as in the others"
            )
        if spec.marks.values:
            levels.append(np.zeros(0, np.int64) if values.lengths is None else values.lengths)
        return data.reshape(-1, *spec.row_shape), _lod(levels, spec), _mask(present)


def _mask(present: Array) -> Array | None:
    return None if present.all() else present


def _where(first: int, parsed: Parsed) -> str:
    return f"records {first} to {first + parsed.records - 1}"


def _width(spec: TensorSpec) -> int:
    """Return the number of values in a row; a text counts as one."""
    return math.prod(spec.row_shape)


def _divided(counts: Offsets, width: int, spec: TensorSpec) -> Offsets:
    if width == 1:
        return counts
    wrong = np.flatnonzero(counts % width)
    if wrong.size:
        raise InvalidDataError(
            f"{spec.name!r}: expected rows of {width} values, found {counts[wrong[0]]} in all"
        )
    return counts // width


def _lod(lengths: list[Offsets], spec: TensorSpec) -> LoD:
    return LoD.from_lengths(lengths, spec.level_names)


def _data(spec: TensorSpec, values: Values) -> Array:
    """Return the values in the dtype of a tensor, which must represent them exactly."""
    expected = kind_of(spec)
    if values.kind not in (0, expected):
        raise InvalidDataError(
            f"{spec.name!r}: expected {KINDS[expected]}, found {KINDS[values.kind]}; "
            f"{choose_others('other features')}"
        )
    data: Any = values.data
    if data.dtype == spec.dtype:
        return np.asarray(data)
    with np.errstate(over="ignore"):
        found = data.astype(spec.dtype)
    same = (found == data) | ((data != data) & (found != found))
    if not same.all():
        raise InvalidDataError(
            f"{spec.name!r}: {data[int(np.argmin(same))]} is not {spec.dtype.name}, the dtype "
            "in the first record"
        )
    return np.asarray(found)
