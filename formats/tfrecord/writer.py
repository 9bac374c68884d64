"""Writes tensors as Examples, or as SequenceExamples if one has lists of lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from lodcli.formats.arrow.files import step_of
from lodcli.formats.arrow.writer import record_batches
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.storage.outputs import Output
from lodcli.formats.tfrecord.description import kind_of, written
from lodcli.formats.tfrecord.features import BYTES_LIST, CONTEXT, INT64_LIST, LISTS, SCHEMA_FIELD
from lodcli.formats.tfrecord.frames import framed
from lodcli.formats.tfrecord.messages import BYTES, packed, varint
from lodcli.kernels.errors import NullError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.arrow import from_arrow
from lodcli.kernels.tensor.nulls import Nulls, without_nulls

# Records are encoded so many, or about so many bytes, at a time: as Python objects, short ones take
# far more memory than as rows, and the places of integers take up to forty times as much.
RECORDS, ENCODED_BYTES = 1 << 14, 1 << 20


def write_records(
    output: Output, schema: Schema, batches: Iterable[Batch], items: dict[str, int]
) -> int:
    """Write one record for each outermost item, and return their number.

    Args:
        items: is filled with the number of outermost items of each tensor.
    """
    schema = tuple(replace(spec, marks=spec.marks.of_values) for spec in schema)
    count = 0
    for records in record_batches(schema, batches, items):
        step = min(RECORDS, step_of(records.num_rows, records.nbytes, ENCODED_BYTES))
        for start in range(0, records.num_rows, step):
            parts: list[bytes] = []
            for record in _examples(schema, records.slice(start, step)):
                if not count:
                    record += _part(SCHEMA_FIELD, written(schema))
                parts += framed(record)
                count += 1
            output.write(b"".join(parts))
    return count


def _examples(schema: Schema, records: Any) -> Iterator[bytes]:
    context: list[list[bytes]] = []
    lists: list[list[bytes]] = []
    for spec, column in zip(schema, records.columns, strict=True):
        rows, lod, _, nulls = from_arrow(column)
        entries = _entries(spec, rows, lod, nulls)
        (lists if spec.depth == LISTS else context).append(entries)
    if not lists:
        for found in zip(*context, strict=True):
            yield _part(CONTEXT, b"".join(found))
        return
    empty = [[b""]] * records.num_rows
    inside = zip(*context, strict=True) if context else empty
    for one, listed in zip(inside, zip(*lists, strict=True), strict=True):
        features = b"".join(one)
        yield (_part(CONTEXT, features) if features else b"") + _part(LISTS, b"".join(listed))


def _entries(spec: TensorSpec, rows: Array, lod: LoD, nulls: Nulls) -> list[bytes]:
    """Return the entry of each record in the map of features; empty for a null."""
    mask = nulls.mask(0)
    if any(one is not None for one in nulls.masks[1:]):
        raise NullError(
            f"tfrecord holds no nulls but missing features; of {spec.name} {nulls.first(lod)}; "
            f"choose {without_nulls()}"
        )
    key = _part(1, spec.name.encode())
    levels = [offsets.tolist() for offsets in lod.levels]
    count = lod.count(0) if lod.n_levels else rows.shape[0]
    features = _features(spec, rows, lod)
    if spec.depth == LISTS:
        grouped = (b"".join(_part(1, one) for one in features[a:b]) for a, b in pairwise(levels[0]))
        features = list(grouped)
    found = [_part(1, key + _part(2, feature)) for feature in features]
    assert len(found) == count
    if mask is not None:
        for place in np.flatnonzero(~mask).tolist():
            found[place] = b""
    return found


def _features(spec: TensorSpec, rows: Array, lod: LoD) -> list[bytes]:
    """Return the Feature of each item of the innermost lists, or of each row."""
    kind = kind_of(spec)
    ends: Offsets = np.arange(rows.shape[0] + 1)
    if kind == BYTES_LIST:
        return _bytes(rows, lod, spec.depth)
    if lod.n_levels:
        ends = lod.levels[-1]
    flat = np.ascontiguousarray(rows).reshape(-1)
    ends = ends * (flat.size // max(1, rows.shape[0]))
    if kind == INT64_LIST:
        raw, ends = _varints(flat, ends)
    else:
        raw, ends = flat.astype("<f4", copy=False).tobytes(), ends * 4
    return [_list(kind, raw[a:b]) for a, b in pairwise(ends.tolist())]


def _varints(numbers: Array, ends: Offsets) -> tuple[bytes, Offsets]:
    """Return integers as varints, and the offsets of lists of them in the bytes.

    Args:
        numbers: (N,) of all lists.
        ends: their offsets in `numbers`.
    """
    parts, cuts, size = list[bytes](), [ends[:0]], 0
    for start in range(0, max(1, numbers.size), ENCODED_BYTES // 8):
        data, offsets = packed(numbers[start : start + ENCODED_BYTES // 8])
        first = 0 if start == 0 else int(np.searchsorted(ends, start, "right"))
        last = int(np.searchsorted(ends, start + offsets.size - 1, "right"))
        cuts.append(size + offsets[ends[first:last] - start])
        parts.append(data.tobytes())
        size += data.size
    return b"".join(parts), np.concatenate(cuts)


def _bytes(rows: Array, lod: LoD, lists: int) -> list[bytes]:
    raw = rows.tobytes()
    values = [_part(1, raw[a:b]) for a, b in pairwise(lod.levels[-1].tolist())]
    if lists:
        values = [b"".join(values[a:b]) for a, b in pairwise(lod.levels[-2].tolist())]
    return [_part(BYTES_LIST, one) for one in values]


def _list(kind: int, payload: bytes) -> bytes:
    """Return a Feature of packed numbers."""
    return _part(kind, _part(1, payload)) if payload else _part(kind, b"")


def _part(number: int, content: bytes) -> bytes:
    """Return a field of a message."""
    return _head(number, len(content)) + content


@lru_cache(1 << 12)
def _head(number: int, size: int) -> bytes:
    return varint(number << 3 | BYTES) + varint(size)
