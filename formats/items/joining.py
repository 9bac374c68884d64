"""Items of two files, joined where their keys are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from lodcli.formats.arrays.budget import batch_bytes
from lodcli.formats.core.batching import item_cuts
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.schema import Schema, TensorSpec, find
from lodcli.formats.items import keys
from lodcli.formats.items.external_sort import BLOCK_BYTES, size_bytes, sorted_by
from lodcli.formats.items.taking import item_count, joined_items, part, taken
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

How = Literal["inner", "left", "semi", "anti"]
Tensors = dict[str, LoDTensor]
# Of `_kind`, those that one command makes equal.
_NUMBERS = {"uint64", "whole numbers", "floating numbers"}
_WORDS = {"text", "categories", "ordered categories"}


def joined_schema(left: Schema, right: Schema, names: Sequence[str], how: How) -> Schema:
    """Return the schema of what `joined` yields.

    Raises:
        InvalidDataError: keys of different types, or tensors of one name that are not keys.
    """
    for name in names:
        one, two = (_kind(find(schema, name)) for schema in (left, right))
        if one != two:
            remedy = ""
            if {one, two} <= _NUMBERS:
                remedy = "; `lod cast` makes them equal"
            elif {one, two} <= _WORDS:
                remedy = "; `lod convert --text-levels text` makes texts of categories"
            raise InvalidDataError(
                f"{name}: the keys are {one} in the first file and {two} in the second{remedy}"
            )
    added = [spec for spec in right if spec.name not in names] if how in ("inner", "left") else []
    known = {spec.name for spec in left}
    for spec in added:
        if spec.name in known:
            raise InvalidDataError(
                f"both files have a tensor {spec.name}; rename one first, as with lod rename FILE "
                f"{spec.name}=OTHER"
            )
    beside = (replace(spec, nullable=spec.nullable or how == "left") for spec in added)
    return (
        *(spec.uncounted("a {}") for spec in left),
        *(spec.uncounted("b {}") for spec in beside),
    )


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
        left = np.repeat(np.arange(first, last), counts[first:last])
        right = ranges(starts[first:last], lengths_to_offsets(counts[first:last], level=0))
        yield {**taken(items, left), **taken(matches, right)}


class _Matches:
    """A window on the sorted items of the second file.

    Args:
        batches: in order of their keys.
        schema: of them.
        names: of the keys.
    """

    def __init__(self, batches: Iterator[Tensors], schema: Schema, names: Sequence[str]) -> None:
        # Small ones: the ranks of all held items are computed for each call of `of`.
        self._batches = (
            part(batch, start, stop)
            for batch in batches
            for start, stop in item_cuts(batch, BLOCK_BYTES)
        )
        self._names = names
        self._held: Tensors = {spec.name: spec.empty() for spec in schema}

    def of(self, items: Tensors) -> tuple[Tensors, Offsets, Offsets]:
        """Return items, and for each given one the first with its key, and their number.

        Args:
            items: in order of their keys, not before those of the previous call.
        """
        parts = [self._held]
        if item_count(items):
            while not self._is_behind(parts[-1], items):
                batch = next(self._batches, None)
                if batch is None:
                    break
                own, others = self._ranks(items, batch)
                needed = np.isin(others, own) | (others > own[-1])
                parts.append(batch if needed.all() else taken(batch, np.flatnonzero(needed)))
        whole = joined_items(parts)
        own, others = self._ranks(items, whole)
        starts = np.searchsorted(others, own, "left")
        counts = np.searchsorted(others, own, "right") - starts
        if own.size:
            self._held = part(whole, int(starts[-1]), item_count(whole))
        return whole, starts, counts

    def _is_behind(self, batch: Tensors, items: Tensors) -> bool:
        """Return whether the last key of a batch is greater than those of all items."""
        if not item_count(batch):
            return False
        own, others = self._ranks(part(items, item_count(items) - 1, item_count(items)), batch)
        return bool(others[-1] > own[-1])

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
