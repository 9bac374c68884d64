"""Levels of equal lengths as axes of the rows, in any format: `--levels` with fewer names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import Batch, Item, TensorSpec
from lodcli.formats.core.wrapped import Wrapped
from lodcli.kernels.errors import InvalidDataError, counted
from lodcli.kernels.index.places import branch_of
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls


def takes_axes(spec: TensorSpec) -> bool:
    """Return whether levels of a tensor can become axes: not those of text, or around records."""
    return not (spec.array or spec.marks.values or spec.marks.fields)


class InnerAxes(Wrapped):
    """A source with fewer levels of some tensors: the inner ones are the first axes of a row.

    Three numbers in every item of the finest level become rows of shape (3,).

    Args:
        kept: the number of levels to keep, of tensors that have more.

    Raises:
        InvalidDataError: there are no items, whose lengths would be the shape; later, an item of
            another length, or a null within a row. Names it.
    """

    option = "levels"

    def __init__(self, inner: Source, kept: Mapping[str, int]) -> None:
        super().__init__(inner)
        self._kept = dict(kept)
        specs = [spec for spec in inner.schema if spec.name in kept]
        self._shapes = {spec.name: _declared(spec, kept[spec.name]) for spec in specs}
        # Batches that were read to learn the lengths, and those after them: a pipe is read once.
        self._begun: Iterator[Batch] | None = None
        if None in self._shapes.values():
            self._look_ahead([spec.name for spec in inner.schema])
        self.schema = tuple(map(self._spec, inner.schema))

    def _look_ahead(self, names: list[str]) -> None:
        """Read up to the first items of tensors whose counts the file does not store."""
        batches = iter(self._inner.batches_of(names))
        first = []
        for batch in batches:
            first.append(batch)
            for name, shape in self._shapes.items():
                item = batch.get(name)
                if shape is None and isinstance(item, LoDTensor):
                    self._shapes[name] = _first_lengths(item, self._kept[name])
            if None not in self._shapes.values():
                break
        self._begun = chain(first, batches)

    def _spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.name not in self._kept:
            return spec
        kept, shape = self._kept[spec.name], self._shapes[spec.name]
        if shape is None:
            raise InvalidDataError(
                f"{spec.name}: {counted(kept, 'level')} of {len(spec.levels)} named, but without "
                "items the shape of a row is unknown; name all"
            )
        return replace(
            spec,
            row_shape=(*shape, *spec.row_shape),
            levels=spec.levels[:kept],
            rows=spec.levels[kept].items,
        )

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        begun, self._begun = self._begun, None
        names, before = list(names), dict.fromkeys(self._kept, 0)
        for batch in begun or self._inner.batches_of(names, limit_bytes):
            made: dict[str, Item] = {}
            for name, item in batch.items():
                if name not in names:  # of a batch that was read ahead
                    continue
                if name in self._kept and isinstance(item, LoDTensor):
                    with naming(name):
                        made[name] = self._made(name, item, before[name])
                    before[name] += len(item)
                else:
                    made[name] = item
            if made:
                yield made

    def _made(self, name: str, item: LoDTensor, before: int) -> LoDTensor:
        """Return a part of a tensor, after `before` outermost items, with the axes."""
        kept, lod, shape = self._kept[name], item.lod, self._shapes[name]
        assert shape is not None
        for level, mask in item.nulls.present():
            if level >= kept:
                where = self._where(item, level, int(np.argmin(mask)), before)
                raise InvalidDataError(
                    f"{where} is null, and a row of shape {shape} has no nulls; name all "
                    f"{lod.n_levels} levels, or replace it, as with "
                    f"{option('nulls', 'nan', 'drop')}"
                )
        for level, length in enumerate(shape, kept):
            lengths = lod.lengths(level)
            other = lengths != length
            if other.any():
                place = int(np.argmax(other))
                raise InvalidDataError(
                    f"{self._where(item, level, place, before)} has length {lengths[place]}, "
                    "unlike others: levels without a name must be rectangular; name all "
                    f"{lod.n_levels} levels"
                )
        rows = item.values.reshape(lod.count(kept), *shape, *item.row_shape)
        nulls = Nulls.of([*item.nulls.masks[:kept], None]) if item.nulls else item.nulls
        return LoDTensor(rows, lod.above(kept), item.marks, nulls)

    def _where(self, item: LoDTensor, level: int, place: int, before: int) -> str:
        first, *rest = branch_of(item.lod, level, place)
        return f"item <{','.join(map(str, (first + before, *rest)))}>"


def _declared(spec: TensorSpec, kept: int) -> tuple[int, ...] | None:
    """Return the lengths of the inner levels by the counts of the file, if it stores them."""
    counts = [*(level.items for level in spec.levels[kept:]), spec.rows]
    if None in counts or 0 in counts[:-1]:
        return None
    found = [divmod(n, m) for m, n in pairwise(counts)]  # type: ignore[operator]
    return None if any(rest for _, rest in found) else tuple(length for length, _ in found)


def _first_lengths(item: LoDTensor, kept: int) -> tuple[int, ...] | None:
    """Return the lengths of the first item of each inner level; None without items."""
    found = [item.lod.lengths(level)[:1].tolist() for level in range(kept, item.lod.n_levels)]
    return tuple(chain(*found)) if all(found) else None
