"""Groups items with equal keys into sequences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from shlex import quote

import numpy as np

from lodcli.formats.arrays.budget import ITEM_COPIES, batch_bytes, fits, require_fits
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.schema import LevelSpec, Schema, TensorSpec, find
from lodcli.formats.items import keys
from lodcli.formats.items.external_sort import (
    InMemory,
    Keep,
    batch_items,
    size_bytes,
    sorting,
    taken_in_batches,
)
from lodcli.formats.items.indexed_copy import copied
from lodcli.formats.items.items import Items
from lodcli.formats.items.reordering import reordered
from lodcli.formats.items.sharing import Shared
from lodcli.formats.items.taking import item_count, joined_items, part, taken, under
from lodcli.formats.structs.tree import broken_columns, flattened
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import is_level_name
from lodcli.kernels.options import option
from lodcli.kernels.tensor.exchange.time_texts import number_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Decimals, Times

Tensors = dict[str, LoDTensor]


@dataclass(frozen=True)
class Gap:
    """Where a group ends before its key changes: after a step of more than `most` in a tensor.

    Attributes:
        name: of the tensor, with one number or time for each item.
        most: the longest step within a group, in the unit of the tensor.
    """

    name: str
    most: float

    @classmethod
    def of(cls, schema: Schema, name: str, most: str) -> Gap:
        """Return a gap of a tensor, which is a duration for times, and otherwise a number.

        Raises:
            SelectionError: the tensor is not there, or has several values for an item; or `most`
                is no such duration or number, or is negative.
            UnsupportedError: its values have no differences.

        >>> Gap.of((TensorSpec("place", np.dtype(np.int64)),), "place", "2.5")
        Gap(name='place', most=2)
        """
        spec = find(schema, name)
        unit = spec.marks.unit
        if spec.marks.is_text:
            # A gap of times is a duration, such as PT30M.
            kind, made = "timestamp[s]", "times"
            if re.fullmatch(r"[0-9.]+", most):
                kind, made = "float64" if "." in most else "int64", "numbers"
            remedy = f"lod cast FILE {quote(f'{name}={kind}')} makes {made} of it"
            raise UnsupportedError(f"{name}: text has no gaps; {remedy}")
        if spec.depth or spec.row_shape:
            raise SelectionError(f"{name}: a gap needs one time or number for each item")
        if isinstance(unit, Categories) or spec.dtype.kind in "bc":
            what = spec.marks.kind or spec.dtype
            raise UnsupportedError(f"{name}: {what} has no gaps; a gap needs times or numbers")
        try:
            if isinstance(unit, Times):
                exact = Fraction(number_of(most, Times("duration", unit.unit)))
            else:
                exact = Fraction(most) * 10 ** (unit.scale if isinstance(unit, Decimals) else 0)
        except InvalidDataError as error:
            raise SelectionError(f"{name}: {error}") from error
        except (ValueError, ZeroDivisionError) as error:
            raise SelectionError(f"{name}: expected a number, found {most!r}") from error
        if exact < 0:
            raise SelectionError(f"{name}: expected a gap of 0 or more, found {most!r}")
        return cls(name, math.floor(exact) if spec.dtype.kind in "iu" else float(exact))

    def starts(self, tensors: Tensors) -> Offsets:
        """Return the items after a gap, (G,) int64; the items are in order of their numbers."""
        numbers = tensors[self.name].values
        if numbers.dtype.kind in "iu":
            # The difference of two numbers of 64 bits, the second not smaller, needs all 64 bits.
            steps: Array = numbers.astype(np.int64).view(np.uint64)
            apart = steps[1:] - steps[:-1] > np.uint64(min(self.most, 2**64 - 1))
        else:
            with np.errstate(invalid="ignore"):
                apart = ~(np.diff(numbers.astype(np.float64)) <= self.most)
        return np.flatnonzero(apart) + 1

    def checked(self, batches: Iterable[Tensors]) -> Iterator[Tensors]:
        """Yield batches; InvalidDataError if a value is null."""
        first = 0
        for batch in batches:
            tensor = batch[self.name]
            mask = tensor.nulls.mask(0)
            if mask is not None and not mask.all():
                where = f"row <{first + int(np.argmin(mask))}>"
                raise InvalidDataError(
                    f"{self.name}: {where} is null, so it has no distance to others; "
                    f"{option('nulls', 'drop')} leaves such items out"
                )
            first += len(tensor)
            yield batch


def grouped_schema(schema: Schema, names: Sequence[str], keep: Keep | None = None) -> Schema:
    """Return the schema of the batches of `grouped`: keys, and others with one more level.

    Args:
        names: of the keys. One key names the level.
        keep: as for `grouped`; then the tensors have the levels of the items.
    """
    if keep is not None:
        return tuple(spec.uncounted("of {}") for spec in schema)
    return _schema(schema, names, _level_name(schema, names))


def _schema(schema: Schema, once: Sequence[str], level: str | None) -> Schema:
    above = LevelSpec("group", level)
    by_name = {spec.name: spec for spec in schema}

    def under(spec: TensorSpec) -> TensorSpec:
        below = spec.uncounted("in {}")
        marks = spec.marks.below(1)
        return replace(below, levels=(above, *below.levels), marks=marks)

    others = [under(spec) for spec in schema if spec.name not in once]
    found = (*(by_name[name].uncounted("of {}") for name in once), *others)
    return flattened(found, broken_columns(found))


def _level_name(schema: Schema, names: Sequence[str]) -> str | None:
    """Return the name of the new level: that of the only key, if it can name one more level."""
    taken_names = {name for spec in schema for name in spec.level_names}
    free = len(names) == 1 and names[0] not in taken_names and is_level_name(names[0])
    return names[0] if free else None


def grouped(
    schema: Schema,
    batches: Iterable[Tensors],
    names: Sequence[str],
    *,
    by_key: bool,
    gap: Gap | None = None,
    keep: Keep | None = None,
) -> Iterator[Tensors]:
    """Yield items with equal keys as one item, with the key once; at least one batch.

    Items of a group stay in their order, or with a gap in that of its numbers. Memory holds a few
    batches, and each group as a whole; one that is too large for the budget is an error.

    Args:
        batches: of tensors that share their items; at least one.
        by_key: whether groups are in order of their keys; else in that of their first items (or
            of those that `keep` keeps).
        gap: where groups end also.
        keep: which item to yield instead of a group.
    """
    level = _level_name(schema, names)
    order, sooner = names, keep
    if gap is not None:
        order, batches, sooner = [*names, gap.name], gap.checked(batches), None
    marks, once = {spec.name: spec.marks for spec in schema}, list(names)
    if keep is None:  # in the order of `grouped_schema`
        marks = {name: marks[name] for name in (*names, *marks)}
    if not by_key:
        place = "first"
        while place in marks:
            place += "_"
        once.append(place)
        schema = (*schema, TensorSpec(place, np.dtype(np.int64)))
        batches = _placed(batches, place)
    with sorting(schema, batches, order, sooner) as items:
        if isinstance(items, InMemory) and gap is None:
            whole = {name: items.whole[name] for name in marks}
            yield from _in_memory(items._replace(whole=whole), level, by_key=by_key)
            return
        in_order = items.batches() if isinstance(items, InMemory) else items
        groups = _groups(in_order, names, once, level, gap, keep)
        if by_key:
            yield from groups
            return
        found = (
            _schema(schema, once, level) if keep is None else grouped_schema(schema, names, keep)
        )
        with copied(found, groups) as source:
            kept = Items(source, Shared(0, level, source.schema, ()))
            first = source.read_rows(place, 0, kept.count)
            for batch in reordered(kept, np.argsort(first)):
                yield {
                    name: LoDTensor(batch[name].values, batch[name].lod, mark, batch[name].nulls)
                    for name, mark in marks.items()
                }


def _in_memory(items: InMemory, level: str | None, *, by_key: bool) -> Iterator[Tensors]:
    """Yield groups of items, or the items to keep; each batch is copied once."""
    if items.keep is not None:
        order = items.order()
        yield from taken_in_batches(items.whole, order if by_key else np.sort(order))
        return
    order, starts = items.groups()
    lengths = np.diff(starts, append=order.size)
    if not by_key:
        groups = np.argsort(order[starts])
        starts, lengths = starts[groups], lengths[groups]
        order = order[ranges(starts, lengths_to_offsets(lengths, level=0))]
    bounds = lengths_to_offsets(lengths, level=0)
    keys_of, others = (
        {name: tensor for name, tensor in items.whole.items() if (name in items.names) == is_key}
        for is_key in (True, False)
    )
    in_order = bool((order[1:] > order[:-1]).all())
    step, first, last = batch_items(items.whole), 0, -1
    while last < lengths.size:
        last = int(np.searchsorted(bounds, bounds[first] + step, side="right")) - 1
        last = min(max(last, first + 1), lengths.size)
        begin, end = bounds[first], bounds[last]
        below = part(others, begin, end) if in_order else taken(others, order[begin:end])
        keys_once = taken(keys_of, order[bounds[first:last]])
        yield keys_once | under(below, bounds[first : last + 1] - begin, level)
        first = last


def _placed(batches: Iterable[Tensors], name: str) -> Iterator[Tensors]:
    """Yield batches with one more tensor, the numbers of their items."""
    first = 0
    for batch in batches:
        count = item_count(batch)
        yield {**batch, name: LoDTensor(np.arange(first, first + count))}
        first += count


def _groups(
    batches: Iterable[Tensors],
    names: Sequence[str],
    once: Sequence[str],
    level: str | None,
    gap: Gap | None,
    keep: Keep | None,
) -> Iterator[Tensors]:
    """Yield sorted items as groups.

    Args:
        batches: of items in order of their keys; at least one.
        once: names of tensors of which a group keeps only the first item.
        level: the name of the new level.
        gap, keep: as for `grouped`.
    """

    def starts_of(whole: Tensors) -> Offsets:
        starts = keys.starts(keys.columns([whole], names))
        return starts if gap is None else np.union1d(starts, gap.starts(whole))

    def made(whole: Tensors, bounds: Offsets) -> Tensors:
        if keep is None:
            groups = _grouped(whole, bounds, once, level)
            _require_groups_fit(groups, names, once)
            return groups
        if bounds.size > item_count(whole):  # each group has one item
            return whole
        return taken(whole, bounds[:-1] if keep == "first" else bounds[1:] - 1)

    held: list[Tensors] = []
    held_bytes, least_bytes = 0, batch_bytes(BATCH_BYTES)
    limit_bytes = least_bytes
    for batch in batches:
        held.append(batch)
        held_bytes += size_bytes(batch)
        if held_bytes < limit_bytes:
            continue
        whole = joined_items(held)
        starts = starts_of(whole)
        last = int(starts[-1]) if starts.size else 0
        if last:
            yield made(part(whole, 0, last), starts)
            whole = part(whole, last, item_count(whole))
        held, held_bytes = [whole], size_bytes(whole)
        if keep is None:
            what = f"the group of {keys.shown(whole, names)}"
            require_fits(what, held_bytes, ITEM_COPIES, whole=False)
        # Doubled, so that a large group is not copied again for each of its batches.
        limit_bytes = max(least_bytes, 2 * held_bytes)
    whole = joined_items(held)
    yield made(whole, np.append(starts_of(whole), item_count(whole)))


def _require_groups_fit(groups: Tensors, names: Sequence[str], once: Sequence[str]) -> None:
    """Raise TooLargeError if a group does not fit into the memory budget."""
    if fits(size_bytes(groups), ITEM_COPIES):
        return
    sizes = np.zeros(item_count(groups), np.int64)
    for name, tensor in groups.items():
        if name not in once:
            sizes += np.diff(tensor.lod.absolute(0)) * (tensor.nbytes // max(1, tensor.rows))
    if sizes.size:
        largest = int(np.argmax(sizes))
        key = keys.shown(part(groups, largest, largest + 1), names)
        require_fits(f"the group of {key}", int(sizes[largest]), ITEM_COPIES)


def _grouped(whole: Tensors, bounds: Offsets, once: Sequence[str], level: str | None) -> Tensors:
    """Return items as groups; `bounds` are the offsets of the groups."""
    keys_once = taken({name: whole[name] for name in once}, bounds[:-1])
    others = {name: tensor for name, tensor in whole.items() if name not in once}
    return keys_once | under(others, bounds, level)
