"""jsonl: one sample a line, its levels as nested lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from lodcli.formats.core.batching import aligned
from lodcli.formats.core.format import BATCH_BYTES, Format, SelectiveSource, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, tensor_of
from lodcli.formats.json.columns import Column
from lodcli.formats.json.compiled_reader import BLOCK_BYTES, Block, FastColumns, repaid_bytes
from lodcli.formats.json.compiled_writer import FastLines
from lodcli.formats.json.fields import Columns, check_fields, field_values, find_columns
from lodcli.formats.json.objects.fast_objects import FastObjects
from lodcli.formats.json.objects.reading import picked
from lodcli.formats.json.objects.writing import object_lines, samples
from lodcli.formats.json.python_reader import beyond, parsed, placed, placing
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.structs.tree import tree
from lodcli.formats.text.derived import Derived
from lodcli.formats.text.lines import LineReader, split
from lodcli.formats.text.numerals import tells_dtype
from lodcli.formats.text.records_native import is_available
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# As Python objects, text takes up to thirty times its size.
MOST_BLOCK_BYTES = 2 << 20
# A number of one byte takes up to sixty as text. Each tensor of a part takes time, even if it has
# few values.
WRITTEN_BYTES = 1 << 18
WRITTEN_TENSOR_BYTES = 1 << 11
# The first lines are read ahead: levels and dtypes are inferred from them.
PEEK_BYTES = 1 << 20
MOST_PEEK_BYTES = 8 << 20
FEW_BYTES = 1 << 16


class JsonLines(Format):
    """Nested lists of numbers, booleans or text, one outermost item per line.

    `[[1,2],[3]]` is an item of two levels, `[1,2]` of one, `7` a row without levels. Text has
    one more level, of its UTF-8 bytes. Integers become int64, or uint64 if the first lines need it,
    other numbers float64, true and false bool; the first lines decide, --dtype overrides this. If
    one of the first lines contains a null, or with --nulls, nulls are kept; otherwise a null is an
    error. With --levels there are as many levels as names; lists below them must all have equal
    lengths and become the shape of a row. Lines of objects: every field, or those that --field
    chooses, is a tensor of that name.
    Blank lines are skipped.

    Writing: several tensors become objects; they must have the same number of outermost items. The
    dtype (restored by --dtype when reading), level names and the shape of a row (--levels), and the
    name of a single tensor are lost. NaN, infinity and complex numbers are refused: JSON has none.
    Times become text as in ISO 8601, decimals numbers.
    """

    name = "jsonl"
    dtypes = ALL_DTYPES - {"complex64", "complex128"}
    many = True
    record = "line"
    kept_dtypes = frozenset({"bool", "int64", "float64"})
    empty_file = True
    row_shapes = False
    kept_marks = frozenset({"text"})
    nulls = True
    structs = True
    options = frozenset({"nulls", "levels", "field", "dtype", "dtype_unsafe", "encoding"})
    binary = False

    def open(self, source: Input, options: ReadOptions) -> Source:
        return JsonSource(source, options)

    def lost_tensor_names(self, schema: Schema) -> Iterable[str]:
        named = all(spec.items != 0 for spec in schema)  # in every line
        return [spec.name for spec in schema if not named or not _is_in_lines(spec)]

    def lost_levels(self, spec: TensorSpec) -> Iterable[int]:
        # Empty lists do not show how deep they could be nested.
        hidden = [level for level, found in enumerate(spec.levels) if found.items == 0]
        return range(hidden[0], len(spec.levels)) if hidden else ()

    def keeps_dtype(self, spec: TensorSpec, options: WriteOptions) -> bool:
        if spec.marks.is_text:
            return spec.levels[-1].items != 0
        return super().keeps_dtype(spec, options) and tells_dtype(spec)

    def keeps_marks(self, spec: TensorSpec) -> bool:
        return super().keeps_marks(spec) and (not spec.marks.is_text or spec.levels[-1].items != 0)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        columns = tree(schema)
        items, rows = ({spec.name: 0 for spec in schema} for _ in range(2))
        fast = FastLines(schema)
        bare = len(columns) == 1 and columns[0].spec is not None
        # The compiled writer of lists divides a batch itself.
        whole = bare and fast.holds(schema[0])
        objects = FastObjects(columns, bare=bare)
        limit_bytes = max(WRITTEN_BYTES, WRITTEN_TENSOR_BYTES * len(schema))
        for batch in batches if whole else aligned(schema, batches, limit_bytes, output):
            tensors = {name: tensor_of(item) for name, item in batch.items()}
            for name, tensor in tensors.items():
                _require_finite(tensor.values, name, rows[name])
                items[name] += len(tensor)
                rows[name] += tensor.rows
            if len(batch) < len(schema):  # the rest of a tensor that has more items
                continue
            first, repays = tensors[schema[0].name], fast.repays(tensors.values())
            pieces: Iterable[bytes | memoryview]
            if whole and repays and fast.is_available(schema[0]):
                pieces = fast.pieces(first)
            elif repays and is_available():
                pieces = objects.pieces(tensors)
            else:
                lines = samples(first) if bare else object_lines(columns, tensors)
                pieces = ["\n".join([*lines, ""]).encode()]
            for piece in pieces:
                output.write(piece)
        self.require_equal(items)


def _is_in_lines(spec: TensorSpec) -> bool:
    """Return whether a field of records is in any line; if all lists of records are empty, not."""
    above = spec.marks.fields[-1].level if spec.marks.fields else 0
    return all(level.items != 0 for level in spec.levels[:above])


def _require_finite(data: Array, name: str, rows_before: int) -> None:
    if data.dtype.kind in "biu":
        return
    with np.errstate(invalid="ignore"):  # isfinite of ml_dtypes warns about NaN
        wrong = ~np.isfinite(data)
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), data.shape)
        raise UnsupportedError(
            f"{name}: row {rows_before + int(place[0])}: JSON has no {data[place]}; replace it, or "
            "write another format"
        )


class JsonSource(SelectiveSource):
    """An open file, with columns inferred from its first lines.

    Args:
        lines: converts the file to JSON lines, if it is in another format.
    """

    records = True

    def __init__(
        self,
        source: Input,
        options: ReadOptions,
        lines: Callable[[BinaryIO], Derived] | None = None,
    ) -> None:
        self._source = source
        self._reader = LineReader(source, encoding=options.encoding, derived=lines)
        # The lines of a document are its values: none of them may be missing.
        self._skips_blanks = lines is None
        found = self._found(options)
        self._found_columns = found
        self.left_out, self.untyped = found.left_out, found.untyped
        self.notes = list(found.notes)
        self.schema = tuple(column.spec for column in found.found)
        self.valueless = frozenset(one.spec.name for one in found.found if not one.sure)

    def _found(self, options: ReadOptions) -> Columns:
        """Return the columns inferred from the first lines."""
        values: list[object] = []
        blanks: list[int] = []
        unread: list[bytes] = []
        guess: FastColumns | None = None
        told: Columns | None = None
        step = total = PEEK_BYTES
        while lines := self._reader.peek(step):
            unread += lines
            if total == PEEK_BYTES and self._repays(0):
                told = self._guessed(lines, options)
                guess = None if told is None else self._scanning(told)
            if told is not None and guess is not None and guess.fits and guess.fit(lines):
                found = told
            else:
                told = None
                values += self._parsed(unread, len(values) + len(blanks) + 1, blanks)
                unread.clear()
                found = _columns(values, blanks, options)
            if found.sure or total >= MOST_PEEK_BYTES:
                return found
            step, total = total, 2 * total
        return told or _columns(values, blanks, options)

    def _guessed(self, lines: list[bytes], options: ReadOptions) -> Columns | None:
        """Return the columns inferred from few of these lines; None if those do not tell them.

        If the scanner accepts the others, they hold the same types of values as those few, and are
        nested equally deep. It takes a tenth of the time of the exact parser.
        """
        few = max(1, len(lines) * FEW_BYTES // max(1, sum(map(len, lines))))
        blanks: list[int] = []
        try:
            found = _columns(self._parsed(lines[:few], 1, blanks), blanks, options)
        except LodError:  # perhaps the others have what is chosen
            return None
        return None if found.left_out else found

    def _parsed(self, lines: list[bytes], first: int, blanks: list[int]) -> list[object]:
        """Return the values of lines, and add the numbers of blank ones to `blanks`."""
        return parsed(lines, first, blanks if self._skips_blanks else None)

    def _scanning(self, found: Columns) -> FastColumns:
        return FastColumns(found, skips_blanks=self._skips_blanks)

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        columns, wanted = self._found_columns, {*names}
        chosen = tuple(column for column in columns.found if column.name in wanted)
        if len(chosen) < len(columns.found):
            columns = replace(columns, found=chosen, known=None)  # whatever the others hold
        fast = self._scanning(columns)
        self._reader.restart()
        done = False
        # A number takes at least two bytes in a line, and eight as a row.
        limit_bytes = max(1, limit_bytes // 4)
        seen = 0
        while not self._is_worth(seen, fast) and (block := self._block(limit_bytes)):
            yield self._exactly(columns, *block)
            seen += len(block[0])
            done = True
        if self._is_worth(seen, fast):
            for found in fast.tensors(self._reader, min(limit_bytes, BLOCK_BYTES)):
                yield found if isinstance(found, dict) else self._exactly(columns, *found)
                done = True
        if not done:
            yield {column.name: column.spec.empty() for column in columns.found}

    def _is_worth(self, seen_bytes: int, fast: FastColumns) -> bool:
        """Return whether to read the rest with the compiled scanner."""
        return self._repays(seen_bytes) and fast.fits

    def _repays(self, seen_bytes: int) -> bool:
        """Return whether the compiled scanner is worth loading."""
        return max(seen_bytes, self._source.size_bytes or 0) >= repaid_bytes()

    def _block(self, limit_bytes: int) -> Block | None:
        """Return the next lines, None at the end."""
        first = self._reader.line + 1
        block = self._reader.block(min(limit_bytes, MOST_BLOCK_BYTES))
        return (block, first) if block else None

    def _exactly(self, columns: Columns, block: bytes, first: int) -> Batch:
        blanks: list[int] = []
        values = self._parsed(split(block), first, blanks)
        with placing(beyond(blanks)):
            return _converted(columns, values, first)


def _converted(columns: Columns, values: list[object], first: int) -> Batch:
    """Return the tensors of lines, the first of which has the number `first`."""
    fields = [column.field for column in columns.found if column.field is not None]
    if fields:
        check_fields(values, fields, columns.known, first, lacking=columns.lacking)
    checked: set[str] = set()
    return {
        column.name: _tensor(columns, column, values, first, checked) for column in columns.found
    }


def _tensor(
    columns: Columns, column: Column, values: list[object], first: int, checked: set[str]
) -> LoDTensor:
    if column.field is None:
        return column.tensor(values, first)
    found = whole = field_values(values, column.field, first, lacking=columns.lacking)
    lacking = column.spec.nullable or column.spec.marks.tells_records
    for step in column.inside:
        found = picked(found, step, first, nullable=lacking)
    # Picking has checked that all of them are objects.
    if columns.nulls is not None and column.inside and column.spec.nullable:
        columns.nulls.check(whole, column.inside, first, checked)
    return column.tensor(found, first)


def _columns(values: list[object], blanks: list[int], options: ReadOptions) -> Columns:
    """Return the columns of the first lines but the blank ones."""
    line = beyond(blanks)
    with placing(line):
        found = find_columns(values, options)
    left_out = {name: placed(error, line) for name, error in found.left_out.items()}
    return replace(found, left_out=left_out)
