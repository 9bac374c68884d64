"""Items of two files, joined where their keys are equal."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from lodcli.formats.arrays.budget import batch_bytes
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.schema import Schema, TensorSpec, find
from lodcli.formats.items import keys
from lodcli.formats.items.external_sort import size_bytes, sorted_by
from lodcli.formats.items.taking import item_count, joined_items, part, taken
from lodcli.formats.structs.presence import with_optional_records
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals
from lodcli.kernels.tensor.nulls import Nulls

How = Literal["inner", "left", "semi", "anti"]
Tensors = dict[str, LoDTensor]
# Of `_kind`, those that one command makes equal, and of numbers decimals too.
_NUMBERS = {"uint64", "whole numbers", "floating numbers"}
_WORDS = {"text", "categories", "ordered categories"}


def joined_schema(left: Schema, right: Schema, keys: Sequence[tuple[str, str]], how: How) -> Schema:
    """Return the schema of what `joined` yields.

    Args:
        left, right: of both files, with the names of the first for the keys of both.
        keys: their names in the first file and in the second, for messages.
        how: as for `joined`.

    Raises:
        InvalidDataError: keys of different types, or tensors of one name that are not keys.
    """
    names = [name for name, _ in keys]
    for name, other in keys:
        specs = [find(schema, name) for schema in (left, right)]
        one, two = map(_kind, specs)
        if one != two:
            remedy = ""
            if all(
                isinstance(spec.marks.unit, Decimals) or _kind(spec) in _NUMBERS for spec in specs
            ):
                remedy = "; `lod cast` makes them equal"
            elif {one, two} <= _WORDS:
                remedy = "; `lod convert --text-levels text` makes texts of categories"
            elif "text" in (one, two):
                remedy = "; `lod cast` makes texts of whole numbers, and numbers and times of texts"
            raise InvalidDataError(
                f"{_key(name, other)}: the keys are {one} in the first file and {two} in the "
                f"second{remedy}"
            )
    added = [spec for spec in right if spec.name not in names] if how in ("inner", "left") else []
    known = {spec.name for spec in left}
    for spec in added:
        if spec.name in known:
            raise _twice(spec.name)
    beside = (replace(spec, nullable=spec.nullable or how == "left") for spec in added)
    return (
        *(spec.uncounted("a {}") for spec in left),
        *(spec.uncounted("b {}") for spec in beside),
    )


def _key(name: str, other: str) -> str:
    """Return a key as it is written for a user."""
    return name if name == other else f"{name}={other}"


def _twice(name: str) -> InvalidDataError:
    return InvalidDataError(
        f"both files have a tensor {name}; rename one first, as with lod rename FILE {name}=OTHER"
    )


def with_names(
    right: tuple[Schema, Iterable[Tensors]], keys: Sequence[tuple[str, str]], how: How
) -> tuple[Schema, Iterable[Tensors]]:
    """Return schema and batches of the second file, its keys under their names in the first.

    Args:
        right: as for `joined`.
        keys: their names in the first file and in the second.
        how: as for `joined`; for "semi" and "anti", the result has only the keys.

    Raises:
        InvalidDataError: another tensor that the result has is named as a key.
    """
    schema, batches = right
    names = {other: name for name, other in keys}
    if how in ("semi", "anti"):
        schema = tuple(spec for spec in schema if spec.name in names)
    for spec in schema:
        if spec.name in names.values() and spec.name not in names:
            raise _twice(spec.name)
    renamed = {spec.name: names.get(spec.name, spec.name) for spec in schema}
    schema = tuple(replace(spec, name=renamed[spec.name]) for spec in schema)
    found = ({new: batch[name] for name, new in renamed.items()} for batch in batches)
    return with_optional_records(schema, found) if how == "left" else (schema, found)


def _kind(spec: TensorSpec) -> str:
    """Return the type as which keys are compared, for messages."""
    if spec.marks.categories is not None:
        return "ordered categories" if spec.marks.categories.ordered else "categories"
    if spec.marks.kind is not None:
        return str(spec.marks.of_values)
    if spec.dtype.kind in "biu":
        return "uint64" if spec.dtype == np.uint64 else "whole numbers"
    return "floating numbers"


def joined(
    left: tuple[Schema, Iterable[Tensors]],
    right: tuple[Schema, Iterable[Tensors]],
    names: Sequence[str],
    how: How,
) -> Iterator[Tensors]:
    """Yield items of `left` in order of their keys, beside those of `right`; at least one batch.

    Items with equal keys are yielded in all pairs: those of `left` in their order, and for each of
    them those of `right` in theirs. Null keys are equal to none. Memory holds a few batches, and
    all matches of one of them.

    Args:
        left, right: schema and batches of tensors that share their items; one batch or more.
        names: of the keys, which both have.
        how: "inner": pairs; "left": also items of `left` without a match, paired with nulls;
            "semi", "anti": only items of `left`, those with or without a match.
    """
    right = _recoded(left[0], right, names)
    beside = [spec.name for spec in right[0] if spec.name not in names]
    nothing = {spec.name: _null(spec) for spec in right[0]}
    second = _Matches(sorted_by(right[0], keys.with_keys(right[1], names), names), right[0], names)
    for batch in sorted_by(*left, names):
        count = item_count(batch)
        step = max(1, count * batch_bytes(BATCH_BYTES) // max(1, size_bytes(batch)))
        for first in range(0, max(1, count), step):
            items = part(batch, first, min(first + step, count))
            matches, starts, counts = second.of(items)
            if how in ("semi", "anti"):
                yield taken(items, np.flatnonzero((counts > 0) == (how == "semi")))
                continue
            if how == "left":
                matches = joined_items([matches, nothing])
                starts = np.where(counts == 0, item_count(matches) - 1, starts)
                counts = np.maximum(counts, 1)
            yield from _pairs(items, {name: matches[name] for name in beside}, starts, counts)


def _recoded(
    left: Schema, right: tuple[Schema, Iterable[Tensors]], names: Sequence[str]
) -> tuple[Schema, Iterable[Tensors]]:
    """Return the second file with categorical keys recoded to the words of both, `left` first."""
    words = {}
    for name in names:
        own, other = find(left, name).marks.categories, find(right[0], name).marks.categories
        if own is not None and other is not None and own.words != other.words:
            with naming(name):
                words[name] = own.with_words(other)
    if not words:
        return right
    schema = tuple(
        spec.with_words(words[spec.name]) if spec.name in words else spec for spec in right[0]
    )
    marks = {spec.name: spec.marks for spec in right[0]}

    def recoded(name: str, tensor: LoDTensor) -> LoDTensor:
        whole = LoDTensor(tensor.values, tensor.lod, marks[name], tensor.nulls)
        return whole.recoded(words[name])

    return schema, (
        {name: recoded(name, one) if name in words else one for name, one in batch.items()}
        for batch in right[1]
    )


def _pairs(items: Tensors, matches: Tensors, starts: Offsets, counts: Offsets) -> Iterator[Tensors]:
    """Yield each item with each of its matches, `counts` of them from `starts` on."""
    pair_bytes = sum(size_bytes(one) // max(1, item_count(one)) for one in (items, matches) if one)
    step = max(1, batch_bytes(BATCH_BYTES) // max(1, pair_bytes))
    ends = np.cumsum(counts)
    total = int(counts.sum())
    borders = np.unique(np.searchsorted(ends, np.arange(step, total, step))).tolist()
    for first, last in pairwise([0, *borders, counts.size]):
        some = counts[first:last]
        right = ranges(starts[first:last], lengths_to_offsets(some, level=0))
        if (some == 1).all():
            one = part(items, first, last)
        else:
            one = taken(items, np.repeat(np.arange(first, last), some))
        yield one | taken(matches, right)


class _Matches:
    """The items of the second file that match those of the first, both in order of their keys.

    Args:
        batches: in order of their keys.
        schema: of them.
        names: of the keys.
    """

    def __init__(self, batches: Iterator[Tensors], schema: Schema, names: Sequence[str]) -> None:
        self._batches = batches
        self._names = names
        self._none: Tensors = {spec.name: spec.empty() for spec in schema}
        # Matches of the last item given, which the next one may match as well; and the batch that
        # was read, of which items before `_start` are done.
        self._held, self._batch, self._start = self._none, self._none, 0

    def of(self, items: Tensors) -> tuple[Tensors, Offsets, Offsets]:
        """Return items, and for each given one the first with its key, and their number.

        Args:
            items: in order of their keys, not before those of the previous call.
        """
        count = item_count(items)
        found, starts, counts = [self._none], np.zeros(count, np.int64), np.zeros(count, np.int64)
        total, done, key = 0, 0, keys.lookup(items, self._names)
        for others in self._upto(key(count - 1)) if count else ():
            key_of_other = keys.lookup(others, self._names)
            first, last = key_of_other(0), key_of_other(item_count(others) - 1)
            done = bisect_left(range(count), first, done, key=key)
            some = slice(done, bisect_right(range(count), last, done, key=key))
            own, theirs = self._ranks(part(items, some.start, some.stop), others)
            needed = np.isin(theirs, own)
            places = total + lengths_to_offsets(needed.astype(np.int64), level=0)
            begins = np.searchsorted(theirs, own, "left")
            more = np.searchsorted(theirs, own, "right") - begins
            # Of items with a match in a batch before, the others are beside it.
            starts[some] = np.where(counts[some] == 0, places[begins], starts[some])
            counts[some] += more
            total = places.item(-1)
            found.append(others if needed.all() else taken(others, np.flatnonzero(needed)))
        whole = joined_items(found)
        if count:
            begin = starts.item(-1)
            self._held = part(whole, begin, begin + counts.item(-1))
        return whole, starts, counts

    def _upto(self, last: keys.Key) -> Iterator[Tensors]:
        """Yield the items up to this key, in batches without empty ones."""
        if item_count(self._held):
            yield self._held
        while True:
            count = item_count(self._batch)
            key = keys.lookup(self._batch, self._names)
            start = self._start
            self._start = bisect_right(range(count), last, start, key=key)
            if start < self._start:
                yield part(self._batch, start, self._start)
            if self._start < count:
                return
            batch = next(self._batches, None)
            if batch is None:
                return
            self._batch, self._start = batch, 0

    def _ranks(self, items: Tensors, batch: Tensors) -> tuple[Offsets, Offsets]:
        """Return the ranks of the keys of both, in their common order."""
        both = keys.ranks(keys.columns([items, batch], self._names))
        return both[: item_count(items)], both[item_count(items) :]


def _null(spec: TensorSpec) -> LoDTensor:
    """Return a tensor of one item, which is null."""
    depth = len(spec.levels)
    if not depth:
        rows = np.zeros((1, *spec.row_shape), spec.dtype)
        return LoDTensor(rows, LoD(), spec.marks, Nulls.of([[False]]))
    offsets = [np.zeros(2 if level == 0 else 1, np.int64) for level in range(depth)]
    masks: list[list[bool] | None] = [[False], *[None] * depth]
    empty = np.empty((0, *spec.row_shape), spec.dtype)
    return LoDTensor(empty, LoD(offsets, spec.level_names), spec.marks, Nulls.of(masks))
