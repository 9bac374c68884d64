"""ts: series of channels with a class or target each, in the format of sktime and aeon."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.names import shown
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelSpec, Schema, TensorSpec
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.text.lines import BYTE_ORDER_MARK, LineReader
from lodcli.formats.text.numerals import BEYOND, exceeds_float64, narrowed
from lodcli.formats.ts.header import COMMENTS, DIRECTIVES, Header, read_header
from lodcli.formats.ts.writer import LABEL, LABEL_NAMES, TsWriter, refuse_unheld
from lodcli.kernels.dtypes import ALL_DTYPES, is_float
from lodcli.kernels.errors import InvalidDataError, UnsupportedError, counted
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Categories, Marks

MOST_BLOCK_BYTES = 4 << 20


class SktimeTs(Format):
    """Series of steps, each a row (C,), and the labels of the series.

    - "data": one level, "series"; float64, or the dtype of --dtype. A missing value is NaN.
    - "label", one row per series: with `@classLabel` the index of its class in that list,
      int64, marked as categories if the classes are UTF-8; with `@targetLabel` a number,
      float64. With neither there is no label.
    - "label_names": the classes as text, uint8, one level, "class".

    Writing takes the same tensors: "data", or a single one of any name, of one level and
    rows (C,); integers if float64 can represent them. The classes are the words of a label of
    categories, else those of "label_names", else 0, 1, ..
    Numbers are written with as many digits as needed to read the same bits with the same dtype.
    The header depends on all series, so the lines are collected in an unnamed temporary file and
    the labels in memory. Comments and the name of the problem are not kept. Timestamps and empty
    series are not supported.
    """

    name = "ts"
    max_levels = 1
    dtypes = ALL_DTYPES - {"bool", "complex64", "complex128"}
    row_ranks = 1
    many = True
    kept_marks = frozenset({"category"})
    options = frozenset({"dtype", "levels", "encoding"})
    binary = False

    def sniff(self, head: bytes) -> bool:
        for line in head.removeprefix(BYTE_ORDER_MARK).splitlines():
            words = line.lower().split()
            if words and not words[0].startswith(COMMENTS):
                return words[0].startswith(b"@") and words[0][1:] in DIRECTIVES
        return False

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _TsSource(source, options)

    def given_level_names(self, spec: TensorSpec, options: WriteOptions) -> tuple[str, ...]:
        return ("class",) if spec.name == LABEL_NAMES else ("series",)

    def keeps_dtype(self, spec: TensorSpec, options: WriteOptions) -> bool:
        kept = {LABEL: ("int64", "float64"), LABEL_NAMES: ("uint8",)}
        return spec.dtype.name in kept.get(spec.name, ("float64",))

    def keeps_marks(self, spec: TensorSpec) -> bool:
        words = spec.marks.categories
        unheld = words is not None and (spec.name != LABEL or words.ordered)
        return super().keeps_marks(spec) and not unheld

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        refuse_unheld(schema)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        with TsWriter(schema, output) as writer:
            for batch in batches:
                writer.add(batch)
            writer.finish()


class _TsSource(Source):
    """An open file, whose header was read."""

    def __init__(self, source: Input, options: ReadOptions) -> None:
        names = ("series",) if options.levels is None else options.levels
        if len(names) != 1:
            raise UnsupportedError(f"ts has 1 level, found {len(names)} names")
        dtype = np.dtype(np.float64) if options.dtype is None else np.dtype(options.dtype)
        if not is_float(dtype):
            raise UnsupportedError(f"ts values are real numbers, found dtype {dtype}")
        self._reader = LineReader(source, encoding=options.encoding)
        header = self._header = read_header(self._reader)
        self._reader.begin_here()
        channels = self._channels = header.channels or self._counted_channels()
        data = TensorSpec(DEFAULT_NAME, dtype, (channels,), (LevelSpec("series", names[0]),))
        specs = [data]
        self._names: LoDTensor | None = None
        self._marks = NO_MARKS if header.classes is None else _marks(header.classes)
        if header.labelled:
            kind = np.dtype(np.float64 if header.target else np.int64)
            specs.append(TensorSpec(LABEL, kind, marks=self._marks))
        if header.classes is not None:
            letters = np.frombuffer(b"".join(header.classes), np.uint8)
            lod = LoD.from_lengths([[len(name) for name in header.classes]], ["class"])
            self._names = LoDTensor(letters, lod)
            level = LevelSpec("class", "class", len(header.classes))
            specs.append(TensorSpec(LABEL_NAMES, letters.dtype, levels=(level,), rows=letters.size))
        self._dtype = dtype
        self._level = names[0]
        self._places = {name: place for place, name in enumerate(header.classes or ())}
        self.schema = tuple(specs)

    def _counted_channels(self) -> int:
        first = self._reader.peek(1)
        if not first:
            return 1
        fields = first[0].strip().split(b":")
        return max(1, len(fields) - (self._header.labelled or not fields[-1]))

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        self._reader.restart()
        series = _Series(self._header, self._channels, self._places)
        extra = {} if self._names is None else {LABEL_NAMES: self._names}
        done = False
        while lines := self._reader.lines(min(limit_bytes, MOST_BLOCK_BYTES)):
            number = self._reader.line - len(lines)
            for line in lines:
                number += 1
                series.add(line, number)
            if len(series):
                yield self._batch(series) | extra
                done, extra = True, {}
                series.clear()
        if not done:
            yield self._batch(series) | extra

    def _batch(self, series: _Series) -> dict[str, LoDTensor]:
        batch = {DEFAULT_NAME: LoDTensor(series.rows(self._dtype), series.lod(self._level))}
        if self._header.labelled:
            batch[LABEL] = LoDTensor(series.label_rows(), marks=self._marks)
        return batch


def _marks(classes: tuple[bytes, ...]) -> Marks:
    """Return the marks of labels of these classes; none if they cannot be categories."""
    try:
        return Marks(unit=Categories(tuple(name.decode() for name in classes)))
    except (UnicodeDecodeError, InvalidDataError):
        return NO_MARKS


class _Series:
    """Some lines, converted to rows and labels."""

    def __init__(self, header: Header, channels: int, places: dict[bytes, int]) -> None:
        self._header = header
        self._channels = channels
        self._places = places
        self._equal = header.steps
        self._blank: int | None = None
        self.clear()

    def clear(self) -> None:
        """Drop the lines, keeping the properties that later lines must match."""
        self._values: list[Array] = []
        self._labels: list[float] = []
        self._numbers: list[int] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, line: bytes, number: int) -> None:
        """Add the series of one line. Raises InvalidDataError, naming it."""
        fields = line.strip().split(b":")
        if fields == [b""]:
            self._blank = self._blank or number
            return
        if self._blank is not None:
            raise InvalidDataError(f"line {self._blank}: is blank; expected a series; take it out")
        label = fields.pop().strip() if self._header.labelled else b""
        # aeon ends every channel with a colon if no label follows.
        if not self._header.labelled and len(fields) == self._channels + 1 and not fields[-1]:
            fields.pop()
        if len(fields) != self._channels:
            raise InvalidDataError(
                f"line {number}: expected {counted(self._channels, 'channel')}"
                f"{' and a label' if self._header.labelled else ''}, found {len(fields)}"
            )
        if self._header.labelled:
            self._labels.append(self._label(label, number))
        channels = [field.split(b",") for field in fields]
        self._add_values(channels, number, underlined=b"_" in line)

    def _add_values(self, channels: list[list[bytes]], number: int, *, underlined: bool) -> None:
        steps = len(channels[0])
        for channel, values in enumerate(channels):
            if len(values) != steps:
                raise InvalidDataError(
                    f"line {number}, channel {channel}: expected {counted(steps, 'step')} "
                    f"as in channel 0, found {len(values)}"
                )
        if self._header.equal and steps != (self._equal or steps):
            raise InvalidDataError(
                f"line {number}: expected {counted(self._equal or 0, 'step')}, found {steps}; "
                "the header says @equalLength true"
            )
        self._equal = self._equal or steps
        try:
            if underlined:
                raise ValueError  # float() takes 1_000 for 1000
            rows = _rows(channels, float)
        except ValueError:
            # First, because it ends at the first value that is not a number.
            self._check(channels, number)
            rows = _rows(channels, _number)
        if not np.isfinite(rows).all():
            self._check(channels, number)
        self._values.append(rows)
        self._numbers.append(number)

    def _check(self, channels: list[list[bytes]], number: int) -> None:
        """Raise for the first value that the header excludes or that is not a float64 number."""
        for channel, values in enumerate(channels):
            for step, value in enumerate(values):
                missing = value.strip().lower() in (b"?", b"nan")
                if missing and self._header.missing:
                    continue
                if missing:
                    said = "is missing, but the header says @missing false"
                elif math.isnan(_number(value)):
                    said = f"expected a number, found {shown(value)}"
                elif exceeds_float64(value):
                    said = f"{shown(value)} {BEYOND}"
                else:
                    continue
                raise InvalidDataError(f"line {number}, channel {channel}, step {step}: {said}")

    def _label(self, text: bytes, number: int) -> float:
        if self._header.target:
            value = _number(text)
            if np.isnan(value):
                raise InvalidDataError(
                    f"line {number}: expected a number as target, found {shown(text)}"
                )
            if exceeds_float64(text):
                raise InvalidDataError(f"line {number}: target {shown(text)} {BEYOND}")
            return value
        if text not in self._places:
            known = b" ".join(self._header.classes or ())
            raise InvalidDataError(
                f"line {number}: class {shown(text)} is not in the header's list ({shown(known)})"
            )
        return self._places[text]

    def rows(self, dtype: np.dtype[Any]) -> Array:
        """Return the rows of all lines. Raises InvalidDataError for one beyond `dtype`."""
        values = np.concatenate([np.empty((0, self._channels)), *self._values])
        rows = narrowed(values, dtype)
        if rows is not None:
            return rows
        for number, part in zip(self._numbers, self._values, strict=True):
            if narrowed(part, dtype) is None:
                raise InvalidDataError(f"line {number}: holds a value beyond {dtype}")
        raise AssertionError("expected an error in one of the parts")

    def lod(self, name: str) -> LoD:
        """Return the index of all lines."""
        return LoD.from_lengths([[len(rows) for rows in self._values]], [name])

    def label_rows(self) -> Array:
        """Return the label of each line."""
        return np.array(self._labels, np.float64 if self._header.target else np.int64)


def _rows(channels: list[list[bytes]], number: Callable[[bytes], float]) -> Array:
    """Return the values of one series, (steps, channels) float64."""
    steps = len(channels[0])
    return np.stack(
        [np.fromiter(map(number, values), np.float64, steps) for values in channels], axis=1
    )


def _number(text: bytes) -> float:
    """Return the number, NaN if the text is not a number."""
    if text.strip() == b"?":  # an exception takes far longer
        return np.nan
    try:
        return np.nan if b"_" in text else float(text)
    except ValueError:
        return np.nan
