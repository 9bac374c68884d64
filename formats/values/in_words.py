"""Categories in formats without them: their words, as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from lodcli.formats.core.batching import cuts
from lodcli.formats.core.errors import TooLargeError, naming
from lodcli.formats.core.format import BATCH_BYTES, Format
from lodcli.formats.core.schema import Batch, Item, LevelSpec, Schema, TensorSpec
from lodcli.formats.items.taking import part
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Maximum size of the words of one item, as text.
MOST_BYTES = 1 << 30


def in_words(schema: Schema) -> Schema:
    """Return the schema with text instead of categories."""
    return tuple(worded(spec) if spec.marks.categories else spec for spec in schema)


def worded(spec: TensorSpec) -> TensorSpec:
    """Return the description of a tensor with a text in place of each value."""
    parts = [*map(str, range(len(spec.row_shape))), "letters"]
    first, *rest = (LevelSpec(f"words of {spec.name}/{part}") for part in parts)
    return replace(
        spec,
        dtype=np.dtype(np.uint8),
        row_shape=(),
        levels=(*spec.levels, replace(first, items=spec.rows), *rest),  # an item for each row
        rows=None,
        marks=replace(spec.marks, values="text", unit=None),
    )


def batches_in_words(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches with text instead of categories, in parts of about BATCH_BYTES.

    Raises:
        TooLargeError: the words of one item take more than MOST_BYTES.
    """
    for batch in batches:
        for piece in _pieces(batch):
            yield {name: _in_words(name, item) for name, item in piece.items()}


def _pieces(batch: Batch) -> Iterator[Batch]:
    """Yield a batch in parts with few bytes of words each: a code may represent a long word."""
    tensors = {name: item for name, item in batch.items() if isinstance(item, LoDTensor)}
    coded = {
        name: _word_offsets(one)
        for name, one in tensors.items()
        if one.marks.categories is not None
    }
    if not coded or len(tensors) < len(batch) or len(set(map(len, tensors.values()))) > 1:
        _check_words(coded, 0, -1)
        yield batch
        return
    for start, stop in cuts(list(coded.values()), [1] * len(coded), BATCH_BYTES):
        _check_words(coded, start, stop)
        yield part(tensors, start, stop)


def _check_words(offsets: Mapping[str, Offsets], start: int, stop: int) -> None:
    """Raise TooLargeError if the words of items start..stop exceed MOST_BYTES."""
    for name, each in offsets.items():
        size = int(each[stop] - each[start])
        if size > MOST_BYTES:
            raise TooLargeError(
                f"{name}: the words of an item take {size} bytes as text, at most {MOST_BYTES} are "
                "written at once; lod convert --text-levels numbers writes its codes"
            )


def _word_offsets(tensor: LoDTensor) -> Offsets:
    """Return the offsets of the outermost items, in bytes of words."""
    assert tensor.marks.categories is not None
    sizes = [len(word.encode()) for word in tensor.marks.categories.words]
    codes = tensor.values.reshape(tensor.rows, math.prod(tensor.values.shape[1:]))
    rows = np.array([*sizes, 0], np.int64)[codes].sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(rows)])
    return offsets[tensor.lod.absolute(0)] if tensor.lod.n_levels else offsets


def _in_words(name: str, item: Item) -> Item:
    if not isinstance(item, LoDTensor) or item.marks.categories is None:
        return item
    with naming(name):
        return item.as_text()


def writes_words(kind: Format, schema: Schema) -> bool:
    """Return whether categories of this schema are written to a format as text."""
    return (
        "category" not in kind.kept_marks
        and "text" in kind.kept_marks
        and any(spec.marks.categories for spec in schema)
    )
