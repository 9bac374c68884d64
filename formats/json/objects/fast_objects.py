"""Writes tensors as lines of JSON, one value or object per item, with the compiled writer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from lodcli.formats.json.compiled_writer import list_offsets
from lodcli.formats.json.objects.writing import node_samples
from lodcli.formats.structs.tree import Node
from lodcli.formats.text.record_fields import JSON_TEXT, LIST, TEXT, Field
from lodcli.formats.text.records_native import RecordWriter
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask


class FastObjects:
    """Writes the lines of a file.

    Args:
        bare: whether a line is the value of the only column, instead of an object.
    """

    def __init__(self, columns: Sequence[Node], *, bare: bool) -> None:
        self._columns = columns
        fixed = ["", "\n"] if bare else _braces(columns, "\n")
        self._writer = _writer(fixed)

    def pieces(self, batch: Mapping[str, LoDTensor]) -> Iterator[memoryview]:
        """Yield the lines of equally many items of all tensors, whose numbers are finite.

        A piece is valid until the next one is requested.
        """
        fields = [self._field(column, batch) for column in self._columns]
        return self._writer.pieces(fields, len(next(iter(batch.values()))))

    def _field(self, node: Node, batch: Mapping[str, LoDTensor]) -> Field:
        """Return the items of the level at which a node begins."""
        if node.spec is not None:
            return self._values(_below(batch[node.spec.name], node.level))
        if node.present is not None or any(batch[spec.name].nulls for spec in node.specs):
            return Field.of_words(node_samples(node, batch))
        fields = [self._field(part, batch) for part in node.fields]
        lod = batch[next(node.specs).name].lod
        objects = _writer(_braces(node.fields, ",")).whole(fields, fields[0].size)
        return _lists(objects, lod.levels[node.level : node.inner])

    def _values(self, tensor: LoDTensor) -> Field:
        """Return the outermost items of a tensor."""
        lod, unit, nulls = tensor.lod, tensor.marks.unit, tensor.nulls
        axes = [None] * (tensor.values.ndim - 1)  # of a row, whose parts are not null
        masks = [*(nulls.masks or (None,) * (lod.n_levels + 1)), *axes]
        levels, values = list_offsets(tensor), tensor.values.reshape(-1)
        if tensor.marks.is_text:
            found = Field.of_texts(JSON_TEXT, values, levels.pop(), masks[-2])
        elif unit is None:
            found = Field.of_numbers(values, masks[-1])
        else:
            found = Field.of_units(values, unit, masks[-1], in_quotes=True)
        if not levels:
            return found
        return _lists(_writer(["", ","]).whole([found], found.size), levels, masks)


def _lists(
    items: tuple[Array, Offsets],
    levels: Sequence[Offsets],
    masks: Sequence[Mask | None] | None = None,
) -> Field:
    """Return lists of items.

    Args:
        items: their text, with a comma after each, and its offsets.
        levels: of the lists, outermost first.
        masks: which lists of each level are not null.
    """
    for level in reversed(range(len(levels))):
        text, ends = items
        mask = None if masks is None else masks[level]
        lists = Field.of_texts(LIST, text, ends[levels[level]], mask, detail=1)
        if level:
            items = _writer(["", ","]).whole([lists], lists.size)
    return lists if levels else Field.of_texts(TEXT, *items, detail=1)


def _writer(fixed: Sequence[str]) -> RecordWriter:
    return RecordWriter([text.encode() for text in fixed], b"null")


def _braces(fields: Sequence[Node], end: str) -> list[str]:
    """Return the texts around the values of objects, which end with `end`."""
    first, *others = [f"{json.dumps(field.name)}:" for field in fields]
    return ["{" + first, *(f",{key}" for key in others), "}" + end]


def _below(tensor: LoDTensor, level: int) -> LoDTensor:
    """Return a tensor with the items of a level as the outermost ones."""
    if not level:
        return tensor
    nulls = tensor.nulls.below(level)
    return LoDTensor(tensor.values, tensor.lod.below(level - 1), tensor.marks, nulls)
