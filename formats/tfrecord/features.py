"""The features of many Examples and SequenceExamples, decoded column by column.

References:
    tensorflow/core/example/example.proto and feature.proto
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.options import choose_others
from lodcli.formats.tfrecord.messages import BYTES, FIXED32, VARINT, Spans, fields, packed_varints
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets

BYTES_LIST, FLOAT_LIST, INT64_LIST = 1, 2, 3
KINDS = {0: "nothing", BYTES_LIST: "bytes", FLOAT_LIST: "float", INT64_LIST: "int64"}
CONTEXT, LISTS = 1, 2
# The field of the first record that holds the description of the tensors; TensorFlow skips it.
SCHEMA_FIELD = 10_000
MOST_FEATURES = 10_000


class Parsed(NamedTuple):
    """The features of some records.

    Attributes:
        records: number of records.
        context: by name, the position of the Feature in each record; the owner is the record.
        lists: by name, the position of the FeatureList in each record.
        schema: the description of the tensors, if the first record has one.
    """

    records: int
    context: dict[str, Spans]
    lists: dict[str, Spans]
    schema: bytes | None


@dataclass(frozen=True)
class Values:
    """The values of one feature.

    Attributes:
        kind: BYTES_LIST, FLOAT_LIST or INT64_LIST; 0 if no Feature has a kind.
        present: (F,) bool, which Features have a kind.
        counts: (F,) int64, number of values of each.
        data: the values: int64 or float32, or all bytes.
        lengths: for bytes, the length of each value; else None.
    """

    kind: int
    present: Array
    counts: Offsets
    data: Array
    lengths: Offsets | None = None


def parse(records: Spans) -> Parsed:
    """Return the positions of the features of records.

    Args:
        records: their owners are their numbers, from 0.
    """
    what = "an Example"
    top = fields(records, what)
    schema = None
    described = top.of(SCHEMA_FIELD, what)
    if described.owner.size and described.owner[0] == 0:
        schema = described.buffer[int(described.begin[0]) : int(described.end[0])].tobytes()
    context = _named(top.of(CONTEXT, what), "Features")
    lists = _named(top.of(LISTS, what), "FeatureLists")
    return Parsed(records.begin.size, context, lists, schema)


def _named(maps: Spans, what: str) -> dict[str, Spans]:
    """Return the values of maps by their keys."""
    entries = fields(maps, what).of(1, what)
    parts = fields(entries.numbered(), what)
    keys, values = (_last(parts.of(number, what), entries.begin.size) for number in (1, 2))
    found: dict[str, Spans] = {}
    for name, places in _groups(keys):
        begin, end = values.begin[places], values.end[places]
        one = Spans(entries.buffer, entries.owner[places], begin, end)
        double = np.flatnonzero(one.owner[1:] == one.owner[:-1])
        if double.size:
            raise DamagedFileError(f"record {one.owner[double[0]]} has {name!r} twice")
        found[name] = one
        if len(found) > MOST_FEATURES:
            raise UnsupportedError(f"more than {MOST_FEATURES} features have different names")
    return found


def _last(parts: Spans, count: int) -> Spans:
    """Return the position of the last part of each of `count` owners; empty if it has none."""
    begin, end = np.zeros((2, count), np.int64)
    begin[parts.owner], end[parts.owner] = parts.begin, parts.end
    return Spans(parts.buffer, np.arange(count), begin, end)


def _groups(keys: Spans) -> list[tuple[str, Array]]:
    """Return the distinct names, each with the entries that have it."""
    sizes = keys.end - keys.begin
    found: list[tuple[str, Array]] = []
    for size in np.unique(sizes).tolist():
        places = np.flatnonzero(sizes == size)
        if size == 0:
            found.append(("", places))
            continue
        letters = keys.taken(places).joined().reshape(-1, size)
        names, which = np.unique(letters.view(f"V{size}").reshape(-1), return_inverse=True)
        order = np.argsort(which, kind="stable")
        cuts = np.searchsorted(which[order], np.arange(1, names.size))
        for name, group in zip(names, np.split(order, cuts), strict=True):
            try:
                found.append((name.tobytes().decode(), places[group]))
            except UnicodeDecodeError:
                raise DamagedFileError(
                    f"the name of a feature is not UTF-8: {name.tobytes()!r:.80}"
                ) from None
    return found


def values_of(features: Spans, name: str) -> Values:
    """Return the values of Features, in order.

    Raises:
        InvalidDataError: they have different kinds.
    """
    count = features.begin.size
    found = fields(features.numbered(), f"feature {name!r}")
    kinds = np.zeros(count, np.int64)
    known = np.flatnonzero((found.number >= BYTES_LIST) & (found.number <= INT64_LIST))
    if (found.wire[known] != BYTES).any():
        raise DamagedFileError(f"feature {name!r}: is not a protocol buffer of this kind")
    spans = found.spans.taken(known)
    kinds[spans.owner] = found.number[known]
    present = kinds != 0
    used = np.unique(kinds[present]).tolist()
    if len(used) > 1:
        raise of_two_kinds(name, *used[:2])
    kind = used[0] if used else 0
    lists = _last(spans, count)
    if kind == 0:
        return Values(0, present, np.zeros(count, np.int64), np.zeros(0, np.int64))
    if kind == BYTES_LIST:
        each = fields(lists, f"feature {name!r}").of(1, f"feature {name!r}")
        lengths = each.end - each.begin
        return Values(kind, present, each.counts(count), each.joined(), lengths)
    counts, data = _numbers(lists, kind, name)
    return Values(kind, present, counts, data)


def of_two_kinds(name: str, one: int, other: int) -> InvalidDataError:
    """Return the error about a feature with values of two kinds."""
    return InvalidDataError(
        f"feature {name!r} holds {KINDS[one]} in some records and {KINDS[other]} in others; "
        f"{choose_others('other features')}"
    )


def _numbers(lists: Spans, kind: int, name: str) -> tuple[Offsets, Array]:
    """Return the numbers of lists, packed as TensorFlow writes them, or one by one."""
    what, count = f"feature {name!r}", lists.begin.size
    single = VARINT if kind == INT64_LIST else FIXED32
    found = fields(lists, what)
    right = (found.wire == BYTES) | (found.wire == single)
    some = np.flatnonzero(found.number == 1)
    if not right[some].all():
        raise DamagedFileError(f"{what}: is not a protocol buffer of this kind")
    parts = found.spans.taken(some)
    if kind == INT64_LIST:
        data, sizes = packed_varints(parts, what)
    else:
        raw, lengths = parts.joined(), parts.end - parts.begin
        if (lengths % 4).any():
            raise DamagedFileError(f"{what}: is not a protocol buffer of this kind")
        data, sizes = raw.view("<f4").astype(np.float32, copy=False), lengths // 4
    counts = np.zeros(count, np.int64)
    np.add.at(counts, parts.owner, sizes)
    return counts, data
