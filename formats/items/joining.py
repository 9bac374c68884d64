"""Items of two files, joined where their keys are equal."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import Any, Literal

import numpy as np

from lodcli.formats.arrays.budget import ITEM_COPIES, batch_bytes, require_fits
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.schema import Schema, TensorSpec, find
from lodcli.formats.items import keys
from lodcli.formats.items.external_sort import size_bytes, sorted_by
from lodcli.formats.items.taking import item_count, joined_items, part, taken
from lodcli.formats.structs.presence import with_optional_records
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Decimals, Times
from lodcli.kernels.tensor.nulls import Nulls

How = Literal["inner", "left", "right", "outer", "semi", "anti"]
Tensors = dict[str, LoDTensor]
# Schema and batches of a file; the batches are of tensors that share their items.
Side = tuple[Schema, Iterable[Tensors]]
_CAST = "; `lod cast` makes them equal"
# Of `_kind`, those that one command makes equal, and of numbers decimals too.
_NUMBERS = {"uint64", "whole numbers", "floating numbers"}
_WORDS = {"text", "categories", "ordered categories"}


def joined_schema(left: Schema, right: Schema, keys: Sequence[tuple[str, str]], how: How) -> Schema:
    """Return the schema of the batches of `joined`.

    Args:
        left, right: of both files, with the names of the first for the keys of both.
        keys: their names in the first file and in the second, for messages.
        how: as for `joined`.

    Raises:
        InvalidDataError: keys of different types, or tensors of one name that are not keys.
        UnsupportedError: keys of the first file are in records, which all items must then have.
    """
    names = [name for name, _ in keys]
    for name, other in keys:
        if how in ("right", "outer") and find(left, name).marks.fields:
            remedy = "; exchange the files"
            if how == "right":
                remedy += f", with {option('how', 'left')}"
            elif find(right, name).marks.fields:
                remedy = ""
            raise UnsupportedError(
                f"{name}: is a field of records, which cannot be a key of "
                f"{option('how', how)}{remedy}"
            )
        specs = [find(schema, name) for schema in (left, right)]
        one, two = map(_kind, specs)
        if one != two:
            remedy = _remedy(specs)
            raise InvalidDataError(
                f"{_key(name, other)}: the keys are {one} in the first file and {two} in the "
                f"second{remedy}"
            )
    ours = [spec.uncounted("a {}") for spec in left]
    if how in ("semi", "anti"):
        return tuple(ours)
    theirs = [spec.uncounted("b {}") for spec in right if spec.name not in names]
    known = {spec.name for spec in left}
    for spec in theirs:
        if spec.name in known:
            raise _twice(spec.name)
    if how in ("left", "outer"):
        theirs = [replace(spec, nullable=True) for spec in theirs]
    if how in ("right", "outer"):
        given = {name: _filled_key(left, right, name, how) for name in names}
        ours = [given.get(spec.name) or replace(spec, nullable=True) for spec in ours]
    return (*ours, *theirs)


def _remedy(specs: Sequence[TensorSpec]) -> str:
    """Return advice on making keys of two types equal, for the error; "" if there is none."""
    units = [spec.marks.unit for spec in specs]
    kinds = {_kind(spec) for spec in specs}
    times = {unit.kind for unit in units if isinstance(unit, Times)}
    are_times = all(isinstance(unit, Times) for unit in units)
    are_numbers = all(
        isinstance(unit, Decimals) or _kind(spec) in _NUMBERS
        for unit, spec in zip(units, specs, strict=True)
    )
    if are_numbers or (are_times and (len(times) == 1 or times <= {"date", "timestamp"})):
        return _CAST
    if kinds <= _WORDS:
        return "; `lod convert --text-levels text` makes texts of categories"
    if kinds == {"text", "bytes"}:
        return "; `lod convert --text-levels text` makes text of bytes"
    if "text" in kinds and "bytes" not in kinds:
        return "; `lod cast` makes texts of whole numbers, and numbers and times of texts"
    return ""


def _filled_key(left: Schema, right: Schema, name: str, how: How) -> TensorSpec:
    """Return the spec of a key that has values of the second file; for "outer", of both."""
    if how == "right":
        spec = find(right, name)
        return replace(spec, marks=replace(spec.marks, fields=())).uncounted("b {}")
    one, other = (find(schema, name) for schema in (left, right))
    for words in _words_of_both(left, right, [name]).values():
        one, other = one.with_words(words), other.with_words(words)
    try:
        dtype = np.promote_types(one.dtype, other.dtype)
    except TypeError:
        raise InvalidDataError(
            f"{name}: the keys are {one.dtype} in the first file and {other.dtype} in the "
            f"second{_CAST}"
        ) from None
    nullable = one.nullable or other.nullable
    return replace(one, dtype=dtype, nullable=nullable).uncounted("keys {}")


def _key(name: str, other: str) -> str:
    """Return a key as it is written for a user."""
    return name if name == other else f"{name}={other}"


def _twice(name: str) -> InvalidDataError:
    return InvalidDataError(
        f"both files have a tensor {name}; rename one first, as with lod rename FILE {name}=OTHER"
    )


def sides(left: Side, right: Side, keys: Sequence[tuple[str, str]], how: How) -> tuple[Side, Side]:
    """Return both files for `joined`: the keys have the names of the first, records may be null.

    Args:
        left, right: as for `joined`, but for these names.
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
    theirs: Side = (
        schema,
        ({new: batch[name] for name, new in renamed.items()} for batch in batches),
    )
    if how in ("left", "outer"):
        theirs = with_optional_records(*theirs, _own_columns(schema, left[0], names.values()))
    if how in ("right", "outer"):
        left = with_optional_records(*left, _own_columns(left[0], schema, names.values()))
    return left, theirs


def _own_columns(schema: Schema, other: Schema, keys: Collection[str]) -> set[str]:
    """Return the columns of records that have tensors of this file, besides keys, and no others."""
    columns = {
        spec.marks.fields[0].name for spec in schema if spec.marks.fields and spec.name not in keys
    }
    # Also not those beside a tensor that is called like a field of theirs.
    return columns.difference(*(accumulate(spec.name.split("."), "{}.{}".format) for spec in other))


def _kind(spec: TensorSpec) -> str:
    """Return the type as which keys are compared, for messages."""
    if spec.marks.categories is not None:
        return "ordered categories" if spec.marks.categories.ordered else "categories"
    if spec.marks.kind is not None:
        return str(spec.marks.of_values)
    if spec.dtype.kind in "biu":
        return "uint64" if spec.dtype == np.uint64 else "whole numbers"
    return "floating numbers"


def joined(left: Side, right: Side, names: Sequence[str], how: How) -> Iterator[Tensors]:
    """Yield items of both files in order of their keys; at least one batch.

    Items with equal keys are yielded in all pairs: those of `left` in their order, and for each of
    them those of `right` in theirs; for "right", the other way round. Null keys are equal to none.
    Memory holds a few batches, and all matches of an item; too many for the budget are an error.

    Args:
        left, right: one batch or more; as from `sides`.
        names: of the keys, which both have.
        how: "inner": pairs; "left": also items of `left` without a match, paired with nulls;
            "right": also those of `right`; "outer": those of both;
            "semi", "anti": only items of `left`, those with or without a match.
    """
    if how == "right":
        yield from joined(right, left, names, "left")
        return
    if how == "outer":
        yield from _outer(left, right, names)
        return
    right = _recoded(right, _words_of_both(left[0], right[0], names))
    beside = [spec.name for spec in right[0] if spec.name not in names]
    nothing = {spec.name: _null(spec) for spec in right[0]}
    only = how in ("semi", "anti")  # whether there is a match
    theirs = sorted_by(right[0], keys.with_keys(right[1], names), names, "first" if only else None)
    second = _Matches(theirs, right[0], names)
    for items, passed in _in_turn(left, names, second):
        if passed:
            second.rest()
            continue
        matches, starts, counts = second.of(items)
        if only:
            yield taken(items, np.flatnonzero((counts > 0) == (how == "semi")))
            continue
        if how == "left":
            matches = joined_items([matches, nothing])
            starts = np.where(counts == 0, item_count(matches) - 1, starts)
            counts = np.maximum(counts, 1)
        yield from _pairs(items, {name: matches[name] for name in beside}, starts, counts)


def _steps(batches: Iterable[Tensors]) -> Iterator[Tensors]:
    """Yield the items in batches for which the matches are found at once; at least one."""
    for batch in batches:
        count = item_count(batch)
        step = max(1, count * batch_bytes(BATCH_BYTES) // max(1, size_bytes(batch)))
        for first in range(0, max(1, count), step):
            yield part(batch, first, min(first + step, count))


def _outer(left: Side, right: Side, names: Sequence[str]) -> Iterator[Tensors]:
    """Yield all pairs of equal keys, and the items of both without a match, paired with nulls."""
    given = {name: _filled_key(left[0], right[0], name, "outer").dtype for name in names}
    words = _words_of_both(left[0], right[0], names)
    left, right = (_as_dtypes(_recoded(side, words), given) for side in (left, right))
    beside = [spec.name for spec in right[0] if spec.name not in names]
    no_left, nothing = ({spec.name: _null(spec) for spec in schema} for schema, _ in (left, right))
    second = _Matches(sorted_by(*right, names), right[0], names, null_keys=True)
    end = {spec.name: spec.empty() for spec in left[0]}
    after = ((end, True) for _ in iter(second.last_key, None))
    for items, passed in chain(_in_turn(left, names, second), after):
        matches, starts, counts = second.of(items)
        others = second.rest() if passed else second.without_match()
        added, count = item_count(others), item_count(matches)
        matches = joined_items([matches, nothing, others])
        starts = np.where(counts == 0, count, starts)
        counts = np.maximum(counts, 1)
        if added:
            filled = taken(no_left, np.zeros(added, np.int64))
            filled |= {name: others[name] for name in names}
            order = keys.ordered(keys.columns([items, filled], names))
            items = taken(joined_items([items, filled]), order)
            starts = np.append(starts, count + 1 + np.arange(added))[order]
            counts = np.append(counts, np.ones(added, np.int64))[order]
        yield from _pairs(items, {name: matches[name] for name in beside}, starts, counts)


def _in_turn(left: Side, names: Sequence[str], second: _Matches) -> Iterator[tuple[Tensors, bool]]:
    """Yield the items of `left`, in parts that end with the next batch of the second file.

    So memory holds one batch of the second file, and the matches of one item. Beside each part:
    whether all of that batch comes before the next item of `left`; then the part is empty, and
    `second.rest()` must follow. At least one part.
    """
    for items in _steps(sorted_by(*left, names)):
        count, done = item_count(items), 0
        key = keys.lookup(items, names)
        while done < count:
            last = second.last_key()
            stop = count if last is None else bisect_right(range(count), last, done, key=key)
            yield part(items, done, stop), stop == done
            done = stop
        if not count:
            yield items, False


def _words_of_both(left: Schema, right: Schema, names: Sequence[str]) -> dict[str, Categories]:
    """Return the words of both files for categorical keys with different ones, `left` first."""
    words = {}
    for name in names:
        own, other = find(left, name).marks.categories, find(right, name).marks.categories
        if own is not None and other is not None and own.words != other.words:
            with naming(name):
                words[name] = own.with_words(other)
    return words


def _recoded(side: Side, words: Mapping[str, Categories]) -> Side:
    """Return a file with categorical keys recoded to these words."""
    if not words:
        return side
    schema = tuple(
        spec.with_words(words[spec.name]) if spec.name in words else spec for spec in side[0]
    )
    marks = {spec.name: spec.marks for spec in side[0]}

    def recoded(name: str, tensor: LoDTensor) -> LoDTensor:
        whole = LoDTensor(tensor.values, tensor.lod, marks[name], tensor.nulls)
        return whole.recoded(words[name])

    return schema, (
        {name: recoded(name, one) if name in words else one for name, one in batch.items()}
        for batch in side[1]
    )


def _as_dtypes(side: Side, dtypes: Mapping[str, np.dtype[Any]]) -> Side:
    """Return a file with keys of these dtypes, which hold all their values."""
    changed = {name for name, dtype in dtypes.items() if find(side[0], name).dtype != dtype}
    if not changed:
        return side
    schema = tuple(
        replace(spec, dtype=dtypes[spec.name]) if spec.name in changed else spec for spec in side[0]
    )

    def cast(name: str, one: LoDTensor) -> LoDTensor:
        return LoDTensor(one.values.astype(dtypes[name]), one.lod, one.marks, one.nulls)

    return schema, (
        {name: cast(name, one) if name in changed else one for name, one in batch.items()}
        for batch in side[1]
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
        null_keys: whether keys may be null; those match none.
    """

    def __init__(
        self,
        batches: Iterator[Tensors],
        schema: Schema,
        names: Sequence[str],
        *,
        null_keys: bool = False,
    ) -> None:
        self._batches = batches
        self._names = names
        self._null_keys = null_keys
        self._none: Tensors = {spec.name: spec.empty() for spec in schema}
        # Matches of the last item given, which the next one may match as well; and the batch that
        # was read, of which items before `_start` are done.
        self._held, self._batch, self._start = self._none, self._none, 0
        self._without: list[Tensors] = []  # items without a match, up to the last item given

    def of(self, items: Tensors) -> tuple[Tensors, Offsets, Offsets]:
        """Return items, and for each given one the first with its key, and their number.

        Args:
            items: in order of their keys, not before those of the previous call.
        """
        count = item_count(items)
        starts, counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
        found: list[Tensors] = []
        total, done, key = 0, 0, keys.lookup(items, self._names)
        last_matches: tuple[keys.Key, int] = ((), 0)  # the last key, and the size of its matches
        self._without = []
        for others in self._upto(key(count - 1)) if count else ():
            key_of_other = keys.lookup(others, self._names)
            first, last = key_of_other(0), key_of_other(item_count(others) - 1)
            done = bisect_left(range(count), first, done, key=key)
            some = slice(done, bisect_right(range(count), last, done, key=key))
            own, theirs = self._ranks(part(items, some.start, some.stop), others)
            has_key = np.ones(own.size, np.bool_)
            if self._null_keys:
                has_key = keys.have_keys(part(items, some.start, some.stop), self._names)
            begins = np.searchsorted(theirs, own, "left")
            ends = np.searchsorted(theirs, own, "right")
            more = (ends - begins) * has_key
            matched = more > 0
            needed = _within(begins[matched], ends[matched], theirs.size)
            many = np.count_nonzero(needed)
            if others is not self._held and many < needed.size:
                self._without.append(taken(others, np.flatnonzero(~needed)))
            if 2 * many < needed.size:
                others = taken(others, np.flatnonzero(needed))
                begins = lengths_to_offsets(needed.astype(np.int64), level=0)[begins]
            # Of items with a match in a batch before, the others are beside it.
            starts[some] = np.where(matched & (counts[some] == 0), total + begins, starts[some])
            counts[some] += more
            if many:
                total += item_count(others)
                found.append(others)
                last_matches = self._fitting(others, *last_matches)
        whole = joined_items(found or [self._none])
        if count:
            begin = starts.item(-1)
            self._held = part(whole, begin, begin + counts.item(-1))
        return whole, starts, counts

    def _fitting(self, others: Tensors, last: keys.Key, last_bytes: int) -> tuple[keys.Key, int]:
        """Return the last key of items with matches, and the size of all its matches.

        Args:
            others: the items.
            last: the last key of those before.
            last_bytes: the size of its matches.

        Raises:
            TooLargeError: matches of one key in several batches do not fit into the budget.
        """
        count, key = item_count(others), keys.lookup(others, self._names)
        begin = bisect_left(range(count), key(count - 1), key=key)
        matches = part(others, begin, count)
        total_bytes = size_bytes(matches)
        if not begin and key(0) == last:
            total_bytes += last_bytes
            what = f"the matches of {keys.shown(matches, self._names)}"
            require_fits(what, total_bytes, ITEM_COPIES, whole=False)
        return key(count - 1), total_bytes

    def _upto(self, last: keys.Key) -> Iterator[Tensors]:
        """Yield the items up to this key, in batches without empty ones."""
        # Null keys match none: those of the first file come first, some perhaps in the next call.
        bisect = bisect_left if any(missing for missing, _ in last) else bisect_right
        if item_count(self._held):
            yield self._held
        while self._has_more():
            count = item_count(self._batch)
            key = keys.lookup(self._batch, self._names)
            start = self._start
            self._start = bisect(range(count), last, start, key=key)
            if start < self._start:
                yield part(self._batch, start, self._start)
            if self._start < count:
                return

    def _has_more(self) -> bool:
        """Return whether items are left, of which `_batch` then has the first at `_start`."""
        while self._start == item_count(self._batch):
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._batch, self._start = batch, 0
        return True

    def last_key(self) -> keys.Key | None:
        """Return the last key of the next items, of one batch; None if none are left."""
        if not self._has_more():
            return None
        return keys.lookup(self._batch, self._names)(item_count(self._batch) - 1)

    def rest(self) -> Tensors:
        """Return the next items, of one batch, as done without a match."""
        start, self._start = self._start, item_count(self._batch)
        return part(self._batch, start, self._start)

    def without_match(self) -> Tensors:
        """Return the items that no item given to the last `of` matches, up to its last key."""
        return joined_items([self._none, *self._without])

    def _ranks(self, items: Tensors, batch: Tensors) -> tuple[Array, Array]:
        """Return integers in the order of the keys of both."""
        both = keys.comparable(keys.columns([items, batch], self._names))
        return both[: item_count(items)], both[item_count(items) :]


def _within(starts: Offsets, stops: Offsets, count: int) -> Array:
    """Return which of `count` places are in one of these ranges, (count,) bool.

    No two ranges overlap, but some may be equal.
    """
    steps = np.zeros(count + 1, np.int8)
    steps[starts] = 1
    ends = np.zeros(count + 1, np.int8)
    ends[stops] = 1
    steps -= ends
    return np.cumsum(steps, dtype=np.int8)[:-1].view(np.bool_)


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
