"""Categories in formats without them: their words, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Format
from lodcli.formats.core.schema import Batch, Item, LevelSpec, Schema, TensorSpec
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def in_words(schema: Schema) -> Schema:
    """Return the schema with text in the place of categories."""
    return tuple(_worded(spec) if spec.marks.categories else spec for spec in schema)


def _worded(spec: TensorSpec) -> TensorSpec:
    axes = [str(axis) for axis in range(len(spec.row_shape))]
    added = (LevelSpec(f"words of {spec.name}/{part}") for part in (*axes, "letters"))
    empty = spec.empty().as_text()
    return replace(
        spec,
        dtype=empty.dtype,
        row_shape=(),
        levels=(*spec.levels, *_counted(spec, tuple(added))),
        rows=None,
        marks=empty.marks,
    )


def _counted(spec: TensorSpec, levels: tuple[LevelSpec, ...]) -> tuple[LevelSpec, ...]:
    """Return the first of the added levels with the rows as its items, which are known."""
    return (replace(levels[0], items=spec.rows), *levels[1:])


def batches_in_words(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches with text in the place of categories."""
    for batch in batches:
        yield {name: _in_words(name, item) for name, item in batch.items()}


def _in_words(name: str, item: Item) -> Item:
    if not isinstance(item, LoDTensor) or item.marks.categories is None:
        return item
    with naming(name):
        return item.as_text()


def writes_words(kind: Format, schema: Schema) -> bool:
    """Return whether a format gets words as text where there are categories."""
    return (
        "category" not in kind.kept_marks
        and "text" in kind.kept_marks
        and any(spec.marks.categories for spec in schema)
    )
