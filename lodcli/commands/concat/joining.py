"""Several sources as one: their common schema and their batches in sequence."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from lodcli.formats.core.schema import Batch, Item, LevelKeys, LevelSpec, Schema, TensorSpec
from lodcli.kernels.errors import SelectionError, ShapeMismatchError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.opened import Opened, opened
from lodcli.shell.references import Reference


@contextmanager
def joined(sources: Sequence[Reference]) -> Iterator[tuple[Schema, Iterator[Batch]]]:
    """Give what all sources together hold, and their batches one after another."""
    with ExitStack() as stack:
        parts = [_Part(source, stack) for source in sources]
        yield _joined([part.schema for part in parts], sources), _batches(parts)


class _Part:
    """One source. A pipe stays open, for it can be read only once; a file is opened again."""

    def __init__(self, source: Reference, stack: ExitStack) -> None:
        self.source = source
        self.opened: Opened | None = None
        if os.path.isfile(source.path) or os.path.isdir(source.path):
            with opened(source) as file:
                self.schema = file.schema
        else:
            self.opened = stack.enter_context(opened(source))
            self.schema = self.opened.schema

    def batches(self) -> Iterator[Batch]:
        if self.opened is not None:
            yield from self.opened.batches()
            return
        with opened(self.source) as file:
            yield from file.batches()


def _batches(parts: Sequence[_Part]) -> Iterator[Batch]:
    """Yield all batches, their levels called as in the first source."""
    names = [spec.name for spec in parts[0].schema]
    level_names = {spec.name: spec.level_names for spec in parts[0].schema}
    for part in parts:
        # Tensors without a name of their own are told by their place.
        called = {spec.name: name for spec, name in zip(part.schema, names, strict=True)}
        for batch in part.batches():
            yield {
                called[name]: _renamed(item, level_names[called[name]])
                for name, item in batch.items()
            }


def _renamed(item: Item, names: tuple[str | None, ...]) -> Item:
    if not isinstance(item, LoDTensor) or item.lod.names == names:
        return item
    return LoDTensor(item.data, item.lod.with_names(names), item.marks)


def _joined(schemas: Sequence[Schema], sources: Sequence[Reference]) -> Schema:
    """Return what all sources together hold.

    Raises:
        ShapeMismatchError: they do not fit; names the first that does not.
    """
    first = schemas[0]
    for schema, source in zip(schemas, sources, strict=True):
        if found := _difference(first, schema):
            raise ShapeMismatchError(f"{source.label}: does not fit {sources[0].label}: {found}")
    joined, keys = [], LevelKeys()
    for specs in zip(*schemas, strict=True):
        parts = list(zip(*(spec.levels for spec in specs), strict=True))
        # Levels that only some of the sources share may coincide there by chance.
        shared = keys.of(tuple(level.key for level in same) for same in parts)
        levels = tuple(
            LevelSpec(key, same[0].name, _sum([level.items for level in same]))
            for key, same in zip(shared, parts, strict=True)
        )
        rows = _sum([spec.rows for spec in specs])
        joined.append(dataclasses.replace(specs[0], levels=levels, rows=rows))
    return tuple(joined)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _difference(first: Schema, other: Schema) -> str | None:
    """Return what keeps two files from being joined, in words; None if nothing does."""
    names, others = [spec.name for spec in first], [spec.name for spec in other]
    if len(names) != len(others) or (len(names) > 1 and names != others):
        return f"it holds the tensors {', '.join(others)}, not {', '.join(names)}"
    for a, b in zip(first, other, strict=True):
        if a.array or b.array:
            raise SelectionError(f"{b.name} is a TensorArray; `lod pack` it first")
        if found := _spec_difference(a, b):
            return f"{b.name} has {found}"
    return None


def _spec_difference(a: TensorSpec, b: TensorSpec) -> str | None:
    if a.dtype != b.dtype:
        return f"dtype {b.dtype.name}, not {a.dtype.name}"
    if a.row_shape != b.row_shape:
        return f"rows of shape {b.row_shape}, not {a.row_shape}"
    if len(a.levels) != len(b.levels):
        return f"{len(b.levels)} levels, not {len(a.levels)}"
    if a.marks != b.marks:
        return f"the marks {b.marks}, not {a.marks}; lod convert --text-levels changes them"
    for number, (one, two) in enumerate(zip(a.level_names, b.level_names, strict=True)):
        if one and two and one != two:
            return f"a level {number} called {two}, not {one}"
    return None
