"""jsonl: one sample a line, its levels as nested lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from json.encoder import encode_basestring
from typing import BinaryIO

import numpy as np

from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.json.columns import Column
from lodcli.formats.json.compiled_reader import BLOCK_BYTES, Block, FastColumns, repaid_bytes
from lodcli.formats.json.compiled_writer import FastLines
from lodcli.formats.json.fields import Columns, field_values, find_columns
from lodcli.formats.json.python_reader import parsed
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.text.derived import Derived
from lodcli.formats.text.lines import LineReader, split
from lodcli.formats.text.numerals import put_nulls, tells_dtype, texts
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.tensor.exchange.units import texts as texts_of_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT, Times

# As Python objects, text takes up to thirty times its size.
MOST_BLOCK_BYTES = 2 << 20
# The first lines are read ahead: they tell the levels and the dtype of all.
PEEK_BYTES = 1 << 20
MOST_PEEK_BYTES = 8 << 20
FEW_BYTES = 1 << 16


class JsonLines(Format):
    """Nested lists of numbers, booleans or text, one outermost item a line.

    `[[1,2],[3]]` is an item of two levels, `[1,2]` of one, `7` a row without levels. Text is
    one more level, of its UTF-8 bytes. Whole numbers become int64, others float64, true and
    false bool; what the first lines hold decides, --dtype overrules. If one of them holds a null,
    or with --nulls, nulls are kept; else one is an error. With --levels as many
    levels as names are given; lists below them must all be of equal lengths and become the
    shape of a row. Lines of objects: every field is a tensor of that name, or those that
    --field chooses.

    Writing: several tensors become objects; they need equally many outermost items. Lost,
    and how to get it back when reading: the dtype (--dtype), level names and the shape of a
    row (--levels), and the name of a single tensor. NaN, infinity and complex numbers are
    refused: JSON has none. Times become text as in ISO 8601, decimals numbers.
    """

    name = "jsonl"
    dtypes = ALL_DTYPES - {"complex64", "complex128"}
    many = True
    zero_rows = False
    record = "line"
    kept_dtypes = frozenset({"bool", "int64", "float64"})
    empty_file = True
    row_shapes = False
    kept_marks = frozenset({"text"})
    nulls = True
    options = frozenset({"nulls", "levels", "field", "dtype", "encoding"})
    binary = False

    def open(self, source: Input, options: ReadOptions) -> Source:
        return JsonSource(source, options)

    def lost_tensor_names(self, schema: Schema) -> Iterable[str]:
        named = all(spec.items != 0 for spec in schema)  # in every line
        return [] if named else [spec.name for spec in schema]

    def lost_levels(self, spec: TensorSpec) -> Iterable[int]:
        # Lists tell how deep they are by what is in them.
        hidden = [level for level, found in enumerate(spec.levels) if found.items == 0]
        return range(hidden[0], len(spec.levels)) if hidden else ()

    def keeps_dtype(self, spec: TensorSpec, options: WriteOptions) -> bool:
        if spec.marks == TEXT:
            return spec.levels[-1].items != 0
        return super().keeps_dtype(spec, options) and tells_dtype(spec)

    def keeps_marks(self, spec: TensorSpec) -> bool:
        return super().keeps_marks(spec) and (spec.marks != TEXT or spec.levels[-1].items != 0)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        # Tensors may come one after another; a line can be written when all have their part.
        waiting: dict[str, list[str]] = {spec.name: [] for spec in schema}
        items, rows = dict.fromkeys(waiting, 0), dict.fromkeys(waiting, 0)
        fast = FastLines(schema)
        for batch in batches:
            for name, item in batch.items():
                assert isinstance(item, LoDTensor)
                _require_finite(item.values, name, rows[name])
                items[name] += len(item)
                rows[name] += item.rows
                if item.nulls or item.marks.unit or not fast.takes(item):
                    waiting[name] += _samples(item)
                elif len(schema) > 1:
                    waiting[name] += fast.samples(item)
                else:
                    for piece in fast.pieces(item):
                        output.write(piece)
            ready = min(map(len, waiting.values()))
            lines = _lines({name: found[:ready] for name, found in waiting.items()})
            output.write("".join(lines).encode())
            for found in waiting.values():
                del found[:ready]
        self.require_equal(items)


def _require_finite(data: Array, name: str, rows_before: int) -> None:
    if data.dtype.kind in "biu":
        return
    with np.errstate(invalid="ignore"):  # ml_dtypes warns of a NaN it is asked about
        wrong = ~np.isfinite(data)
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), data.shape)
        raise UnsupportedError(
            f"jsonl holds no {data[place]}, for JSON has none; "
            f"row {rows_before + int(place[0])} of {name} has it"
        )


def _samples(tensor: LoDTensor) -> list[str]:
    """Return the outermost items of a tensor as JSON."""
    if tensor.marks == TEXT:
        return _quoted(tensor)
    shape = tensor.values.shape
    flat, unit = tensor.values.reshape(-1), tensor.marks.unit
    found = texts(flat) if unit is None else texts_of_unit(flat, unit)
    if isinstance(unit, Times):
        found = [f'"{one}"' for one in found]
    for axis in range(len(shape) - 1, 0, -1):
        lists = int(np.prod(shape[:axis], dtype=np.int64))
        found = _grouped(found, np.arange(lists + 1) * shape[axis])
    found = put_nulls(found, tensor.nulls.rows, "null")
    for level in reversed(range(tensor.lod.n_levels)):
        found = _grouped(found, tensor.lod.levels[level])
        found = put_nulls(found, tensor.nulls.masks[level] if tensor.nulls else None, "null")
    return found


def _quoted(tensor: LoDTensor) -> list[str]:
    lod, masks = tensor.lod, tensor.nulls.masks or (None,) * (len(tensor.lod) + 1)
    raw = tensor.values.tobytes()
    cuts = pairwise(lod.levels[-1].tolist())
    found = [encode_basestring(raw[start:stop].decode()) for start, stop in cuts]
    found = put_nulls(found, masks[lod.n_levels - 1], "null")
    for level in reversed(range(lod.n_levels - 1)):
        found = put_nulls(_grouped(found, lod.levels[level]), masks[level], "null")
    return found


def _grouped(values: list[str], offsets: Offsets) -> list[str]:
    return [f"[{','.join(values[start:stop])}]" for start, stop in pairwise(offsets.tolist())]


def _lines(samples: dict[str, list[str]]) -> Iterator[str]:
    if len(samples) == 1:
        (only,) = samples.values()
        return (f"{sample}\n" for sample in only)
    keys = [json.dumps(name) for name in samples]
    return (
        "{" + ",".join(map(":".join, zip(keys, line, strict=True))) + "}\n"
        for line in zip(*samples.values(), strict=True)
    )


class JsonSource(Source):
    """An open file, its first lines read and understood.

    Args:
        source: the file.
        options: how to read it.
        lines: makes its lines, where it has others.
    """

    def __init__(
        self,
        source: Input,
        options: ReadOptions,
        lines: Callable[[BinaryIO], Derived] | None = None,
    ) -> None:
        self._source = source
        self._reader = LineReader(source, encoding=options.encoding, derived=lines)
        found = self._found(options)
        self._columns, self._known = found.found, found.known
        self.left_out = found.left_out
        self._fast = _scanning(found)
        self.schema = tuple(column.spec for column in self._columns)

    def _found(self, options: ReadOptions) -> Columns:
        """Return the columns inferred from the first lines."""
        values: list[object] = []
        step = total = PEEK_BYTES
        while lines := self._reader.peek(step):
            if not values and self._repays(0):
                found = self._told(lines, options)
                if found is not None:
                    return found
            values += parsed(lines, len(values) + 1)
            found = find_columns(values, options)
            if found.sure or total >= MOST_PEEK_BYTES:
                return found
            step, total = total, 2 * total
        return find_columns(values, options)

    def _told(self, lines: list[bytes], options: ReadOptions) -> Columns | None:
        """Return what the first few lines tell; None unless it is surely so of all of them.

        That takes a tenth of the time. Lines that the scanner takes hold no other kinds of
        values than those few, and are nested as deeply.
        """
        few = max(1, len(lines) * FEW_BYTES // max(1, sum(map(len, lines))))
        found = find_columns(parsed(lines[:few], 1), options)
        fast = _scanning(found)
        told = found.sure and not found.left_out and fast.fits
        return found if told and fast.fit(b"".join(lines)) else None

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        self._reader.restart()
        done = False
        # A number takes two bytes at least, and eight as a row.
        limit_bytes = max(1, limit_bytes // 4)
        seen = 0
        while not self._is_worth(seen) and (block := self._block(limit_bytes)):
            yield self._exactly(*block)
            seen += len(block[0])
            done = True
        if self._is_worth(seen):
            for found in self._fast.tensors(self._reader, min(limit_bytes, BLOCK_BYTES)):
                yield found if isinstance(found, dict) else self._exactly(*found)
                done = True
        if not done:
            yield {spec.name: spec.empty() for spec in self.schema}

    def _is_worth(self, seen_bytes: int) -> bool:
        """Return whether to read the rest with the compiled scanner."""
        # It takes either the fields of the columns or any: of others, one that line 1 lacks would
        # go by unnoticed.
        return self._repays(seen_bytes) and self._fast.fits and not self.left_out

    def _repays(self, seen_bytes: int) -> bool:
        """Return whether the compiled scanner is worth loading."""
        return max(seen_bytes, self._source.size_bytes or 0) >= repaid_bytes()

    def _block(self, limit_bytes: int) -> Block | None:
        """Return the next lines, None at the end."""
        first = self._reader.line + 1
        block = self._reader.block(min(limit_bytes, MOST_BLOCK_BYTES))
        self._reader.line += block.count(b"\n")
        return (block, first) if block else None

    def _exactly(self, block: bytes, first: int) -> Batch:
        values = parsed(split(block), first)
        return {column.name: self._tensor(column, values, first) for column in self._columns}

    def _tensor(self, column: Column, values: list[object], first: int) -> LoDTensor:
        if column.field is not None:
            values = field_values(values, column.field, self._known, first)
        return column.tensor(values, first)


def _scanning(found: Columns) -> FastColumns:
    return FastColumns(found.found, others=found.known is None)
