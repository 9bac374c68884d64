"""Writes tensors as lines of JSON, one value or object per item, with the compiled writer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from lodcli.formats.json.compiled_writer import FastLines
from lodcli.formats.json.objects.writing import node_samples, samples
from lodcli.formats.structs.tree import Node
from lodcli.formats.text.record_fields import JSON_TEXT, TEXT, Field
from lodcli.formats.text.records_native import RecordWriter
from lodcli.kernels.tensor.lod_tensor import LoDTensor


class FastObjects:
    """Writes the lines of a file.

    Args:
        columns: of the file.
        lines: the compiled writer of nested lists.
        bare: whether a line is the value of the only column, instead of an object.
    """

    def __init__(self, columns: Sequence[Node], lines: FastLines, *, bare: bool) -> None:
        self._columns = columns
        self._lines = lines
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
        # With a comma after each, as in a list.
        found = _writer(_braces(node.fields, ",")).whole(fields, fields[0].size)
        for level in reversed(range(node.level, node.inner)):
            text, ends = found
            lists = Field.of_texts(TEXT, text, ends[lod.levels[level]], detail=1)
            found = _writer(["[", "],"]).whole([lists], lod.count(level))
        return Field.of_texts(TEXT, *found, detail=1)

    def _values(self, tensor: LoDTensor) -> Field:
        """Return the outermost items of a tensor."""
        lod, unit, nulls = tensor.lod, tensor.marks.unit, tensor.nulls
        if tensor.marks.is_text and lod.n_levels == 1:
            valid = nulls.masks[0] if nulls else None
            return Field.of_texts(JSON_TEXT, tensor.values, lod.levels[0], valid)
        if not lod.n_levels and tensor.values.ndim == 1:
            if unit is None:
                return Field.of_numbers(tensor.values, nulls.rows)
            return Field.of_units(tensor.values, unit, nulls.rows, in_quotes=True)
        if unit is None and not nulls and self._lines.holds(tensor):
            return self._lines.field(tensor)
        return Field.of_words(samples(tensor))


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
