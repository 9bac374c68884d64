"""Writes tensors with the same levels as lines of csv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.formats.csv.records import quoted, words_of
from lodcli.formats.text.numerals import put_nulls, texts
from lodcli.formats.text.record_fields import CSV_TEXT, Field
from lodcli.formats.text.records_native import RecordWriter, is_available, is_repaid
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.exchange.units import texts as texts_of_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Times

# Fields written at a time: as Python objects they take up to a hundred bytes each.
WRITTEN_FIELDS = 1 << 18
# Text without letters, so that it differs from a null; of a null number, if there is only one
# column, as other programs skip blank lines.
_EMPTY = '""'


class LineWriter:
    """Writes lines of a file, with the compiled writer if there are many.

    Args:
        name: of the format.
        schema: of the tensors.
        levels: the number of columns before theirs, of the numbers of items.
        separator: between fields.
        decimal_comma: whether numbers have a decimal comma.
    """

    def __init__(
        self, name: str, schema: Schema, levels: int, separator: str, *, decimal_comma: bool
    ) -> None:
        self._decimal_comma = decimal_comma
        self._name = name
        self._schema = schema
        self._separator = separator
        self._columns = levels + len(schema)
        alone = self._columns == 1 and not schema[0].marks.is_text
        self._null = _EMPTY if alone else ""
        self._values = self._columns * max((spec.rows or 0 for spec in schema), default=0)
        self._seen = 0
        mark = separator.encode()
        fixed = [b"", *[mark] * (self._columns - 1), b"\n"]
        self._writer = RecordWriter(fixed, self._null.encode())

    def pieces(
        self, batch: Mapping[str, LoDTensor], lod: LoD, rows: int, done: int
    ) -> Iterator[bytes | memoryview]:
        """Yield the lines of a batch in pieces; each is valid until the next one.

        Args:
            batch: tensors with the same levels; text has one more.
            lod: the levels; no item is without rows.
            rows: their number.
            done: the number of the first outermost item.
        """
        self._seen += self._columns * rows
        fast = is_repaid(max(self._values, self._seen)) and is_available()
        step = max(1, WRITTEN_FIELDS // self._columns)
        # Of a large item, not all rows at once.
        for start in range(0, rows, step):
            part = slice(start, min(start + step, rows))
            numbers = [_places(lod, level, done, part) for level in range(lod.n_levels)]
            if fast:
                fields = [Field.of_numbers(each) for each in numbers]
                fields += [self._field(batch[spec.name], spec, part) for spec in self._schema]
                yield from self._writer.pieces(fields, part.stop - part.start)
            else:
                columns = list(map(texts, numbers))
                columns += [self._words(batch[spec.name], spec, part) for spec in self._schema]
                lines = map(self._separator.join, zip(*columns, strict=True))
                yield "\n".join([*lines, ""]).encode()

    def _field(self, tensor: LoDTensor, spec: TensorSpec, part: slice) -> Field:
        """Return some numbers, or finest sequences of text, for the compiled writer."""
        if spec.marks.is_text:
            ends = self._ends(tensor, spec, part)
            detail = ord(self._separator)
            return Field.of_texts(CSV_TEXT, tensor.values, ends, _valid(tensor, part, -2), detail)
        unit, values, valid = spec.marks.unit, tensor.values[part], _valid(tensor, part)
        if self._decimal_comma and _has_points(spec):
            return Field.of_words(self._words(tensor, spec, part), valid)
        if unit is None:
            return Field.of_numbers(values, valid)
        if isinstance(unit, Times) and self._separator == ":":
            return Field.of_words(quoted(texts_of_unit(values, unit), self._separator), valid)
        return Field.of_units(values, unit, valid)

    def _words(self, tensor: LoDTensor, spec: TensorSpec, part: slice) -> list[str]:
        """Return some numbers, or finest sequences of text, as fields."""
        if spec.marks.is_text:
            words = words_of(Texts.of(tensor.values, self._ends(tensor, spec, part)))
            found = [word or _EMPTY for word in quoted(words, self._separator)]
            return put_nulls(found, _valid(tensor, part, -2), self._null)
        unit, values = spec.marks.unit, np.ascontiguousarray(tensor.values[part])
        found = texts(values) if unit is None else texts_of_unit(values, unit)
        found = found if unit is None else quoted(found, self._separator)
        if self._decimal_comma and _has_points(spec):
            found = [one.replace(".", ",") for one in found]
        return put_nulls(found, _valid(tensor, part), self._null)

    def _ends(self, tensor: LoDTensor, spec: TensorSpec, part: slice) -> Array:
        """Return the offsets of some texts. Raises UnsupportedError: one holds NUL."""
        ends: Array = tensor.lod.levels[-1][part.start : part.stop + 1]
        if not tensor.values[ends[0] : ends[-1]].all():
            raise UnsupportedError(
                f"{self._name} holds no NUL characters, found in the text of {spec.name}"
            )
        return ends


def _has_points(spec: TensorSpec) -> bool:
    """Return whether numbers, which are no times, may have a decimal point."""
    unit = spec.marks.unit
    return isinstance(unit, Decimals) or (unit is None and is_float(spec.dtype))


def _valid(tensor: LoDTensor, part: slice, level: int = -1) -> Array | None:
    """Return the mask of some rows; of some texts, on level -2; None if no value is null."""
    mask = tensor.nulls.mask(level)
    return None if mask is None else mask[part]


def _places(lod: LoD, level: int, done: int, part: slice) -> Array:
    """Return the number of the item of a level that each row is in, within its parent.

    Args:
        lod: no item is without rows.
        level: the level.
        done: the number of the first outermost item.
        part: the rows.
    """
    rows = np.arange(part.start, part.stop)
    items = np.searchsorted(lod.absolute(level), rows, "right") - 1
    if not level:
        return items + done
    above = lod.levels[level - 1]
    found: Array = items - above[np.searchsorted(above, items, "right") - 1]
    return found
