"""The model of `lod view`: single items of a level, read on demand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from lodcli.commands.inspect.drawing import preview
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import Schema, TensorSpec, find
from lodcli.kernels.errors import LodError, SelectionError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_below, branch_of
from lodcli.kernels.index.selection import level_text
from lodcli.kernels.tensor.display import item_text
from lodcli.kernels.tensor.exchange.units import texts
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks, Unit

# For a longer item, the number of its rows is shown instead of its values.
MOST_ROWS = 20_000
SEARCH_BYTES = 8 << 20
# Unmarked bytes are shown as text if the first ones are text.
PREVIEW_SEQUENCES, PREVIEW_BYTES = 64, 1 << 20
# Of a float.
SHOWN_DIGITS = 4
_BOOLEANS = {"False": "0", "True": "1"}


@dataclass(frozen=True)
class Line:
    """An item as it is shown.

    Attributes:
        item: its number on the level.
        branch: the path to it, outermost first.
        length: items of the next level; None for a row.
        values: in one line, the middle of long sequences left out.
    """

    item: int
    branch: tuple[int, ...]
    length: int | None
    values: str


class Browser:
    """A position in a tensor: a level, and an item of it.

    Args:
        schema: its tensors; TensorArrays are left out.
        name: the tensor to begin with; None: the only one, or "data", or the first.

    Attributes:
        level: 0 is the outermost; with L levels, level L is the rows.
        item: the number on this level.
    """

    def __init__(self, source: IndexedSource, schema: Schema, name: str | None) -> None:
        self._source = source
        self._schema = tuple(spec for spec in schema if not spec.array)
        if not self._schema:
            raise SelectionError("holds TensorArrays only; `lod pack` them first")
        usual = next((one.name for one in self._schema if one.name == "data"), None)
        self.spec: TensorSpec = find(self._schema, name or usual or self._schema[0].name)
        self.level = self.item = 0
        self._marks = self._shown_as()

    def _shown_as(self) -> Marks:
        """Return the marks of the tensor; without marks, text if its first sequences are text."""
        spec = self.spec
        if spec.marks.kind or spec.dtype.name != "uint8" or spec.row_shape or not spec.levels:
            return spec.marks
        lod, rows = self.lod.items(-1, 0, min(PREVIEW_SEQUENCES, self.lod.count(-1)))
        if rows.stop > PREVIEW_BYTES:
            return spec.marks
        try:
            data = self._source.read_rows(spec.name, rows.start, rows.stop)
        except (LodError, OSError):  # which is reported where they are shown
            return spec.marks
        return spec.marks if preview(LoDTensor(data, lod)) is None else Marks("text")

    @property
    def lod(self) -> LoD:
        """The index of the tensor."""
        return self._source.lods[self.spec.name]

    @property
    def count(self) -> int:
        """Number of items of this level."""
        return self.counts[self.level]

    @property
    def counts(self) -> list[int]:
        """Number of items of each level, the rows last."""
        assert self.spec.rows is not None
        return [*(self.lod.count(level) for level in range(self.lod.n_levels)), self.spec.rows]

    @property
    def level_name(self) -> str:
        """Name of this level, or of rows."""
        return self._name_of(self.level)

    def _name_of(self, level: int) -> str:
        return "row" if level == self.lod.n_levels else level_text(self.lod, level)

    def lines(self, start: int, stop: int) -> list[Line]:
        """Return some items of this level, each read by itself."""
        return [self.line(item) for item in range(max(start, 0), min(stop, self.count))]

    def line(self, item: int) -> Line:
        """Return one item of this level."""
        lod, level = self.lod, self.level
        place = branch_of(lod, level, item)
        if level == lod.n_levels:
            row = self._source.read_rows(self.spec.name, item, item + 1)
            nulls = self._source.read_nulls(self.spec.name, level, item, item + 1)
            return Line(item, place, None, item_text(row, LoD(), 0, self._marks, nulls))
        inner, rows = lod.items(level, item, item + 1)
        length = int(np.diff(inner.levels[0])[0])
        if rows.stop - rows.start > MOST_ROWS:
            return Line(item, place, length, f".. {rows.stop - rows.start:,} rows")
        data = self._source.read_rows(self.spec.name, rows.start, rows.stop)
        nulls = self._source.read_nulls(self.spec.name, level, item, item + 1)
        return Line(item, place, length, item_text(data, inner, 0, self._marks, nulls))

    def move(self, item: int) -> None:
        """Go to an item of this level; numbers out of range go to the first or the last."""
        self.item = max(0, min(item, self.count - 1))

    def go(self, level: int, item: int) -> None:
        """Go to an item of any level."""
        self.level = level
        self.move(item)

    def enter(self) -> bool:
        """Go to the first part of this item; return whether there is one."""
        if self.level == self.lod.n_levels or not self.count:
            return False
        start, stop = self.lod.levels[self.level][self.item : self.item + 2].tolist()
        if start < stop:
            self.go(self.level + 1, start)
        return bool(start < stop)

    def leave(self) -> bool:
        """Go to the item that contains this one; return whether there is one."""
        if not self.level:
            return False
        above = self.lod.levels[self.level - 1]
        self.go(self.level - 1, int(np.searchsorted(above, self.item, side="right")) - 1)
        return True

    def next_tensor(self) -> None:
        """Go to the beginning of the next tensor of the file."""
        names = [spec.name for spec in self._schema]
        self.spec = self._schema[(names.index(self.spec.name) + 1) % len(names)]
        self.level = self.item = 0
        self._marks = self._shown_as()

    def jump(self, text: str) -> None:
        """Go to an item of this level by its number, or to a branch such as 2,0 by its numbers.

        Raises:
            SelectionError: it is neither, or is not there.
        """
        try:
            numbers = [int(part) for part in text.split(",")]
        except ValueError:
            raise SelectionError(
                f"expected a number such as 12 or a branch such as 2,0, found {text!r}"
            ) from None
        if len(numbers) == 1:
            self.move(_inside(numbers[0], 0, self.count, self.level_name))
            return
        lod = self.lod
        if len(numbers) > lod.n_levels + 1:
            raise SelectionError(f"{text}: there are {lod.n_levels} levels and rows")
        start, stop = 0, self.counts[0]
        for level, number in enumerate(numbers):
            item = _inside(number, start, stop, self._name_of(level))
            if level < lod.n_levels:
                start, stop = lod.levels[level][item : item + 2].tolist()
        self.go(len(numbers) - 1, item)

    def longest(self) -> None:
        """Go to the longest sequence of this level; from rows, to that of the finest level."""
        level = min(self.level, self.lod.n_levels - 1)
        if level < 0 or not self.lod.count(level):
            raise SelectionError(f"{self.spec.name} has no sequences")
        self.go(level, int(np.argmax(self.lod.lengths(level))))

    def search(self, text: str, stopped: Callable[[], bool] = lambda: False) -> int | None:
        """Return the next item of this level that holds a value or a text, None if none does.

        Args:
            text: a number, found among floats at the precision with which it is written, or shown;
                for a tensor of single bytes, a text that is within one item; for times, decimals
                and categories, a part of the text that is shown.
            stopped: called between blocks; True ends the search.
        """
        spec, lod, level = self.spec, self.lod, self.level
        wanted = _wanted(spec, self._marks, text)
        overlap = len(wanted) - 1 if isinstance(wanted, bytes) else 0
        # As texts, values take about 16 times their bytes.
        row_bytes = spec.row_bytes * (16 if isinstance(wanted, str) else 1)
        step = max(overlap + 1, SEARCH_BYTES // max(1, row_bytes))
        start = _first_row(lod, level, min(self.item + 1, self.count))
        end = _first_row(lod, level, self.count)
        while start < end and not stopped():
            block = self._source.read_rows(spec.name, start, min(start + step + overlap, end))
            there = self._source.read_mask(spec.name, lod.n_levels, start, start + len(block))
            for place in _places(block, wanted, spec.marks.unit):
                if there is not None and not there[place]:
                    continue
                item = branch_below(lod.levels[level:], start + place)[0]
                if start + place + overlap < _first_row(lod, level, item + 1):
                    return item
            start += step
        return None


def _inside(number: int, start: int, stop: int, name: str) -> int:
    """Return item `number` of the range start..stop; a negative number counts from its end."""
    found = number + (stop if number < 0 else start)
    if not start <= found < stop:
        what = f"item {number} of {name}" if name.startswith("level ") else f"{name} {number}"
        raise SelectionError(f"no {what}, there are {stop - start:,} here")
    return found


def _first_row(lod: LoD, level: int, item: int) -> int:
    """Return the number of rows before an item of a level."""
    for offsets in lod.levels[level:]:
        item = int(offsets[item])
    return item


class _Near(NamedTuple):
    """A number, and how far from it a float may be."""

    number: float
    most: float


def _wanted(spec: TensorSpec, marks: Marks, text: str) -> bytes | str | int | _Near:
    if marks.unit is not None:
        return text
    is_bytes = spec.dtype.name == "uint8" and not spec.row_shape
    if marks.kind or (is_bytes and not text.lstrip("-").isdigit()):
        return text.encode()
    try:
        if spec.dtype.kind in "biu":
            return int(_BOOLEANS.get(text, text))
        number = float(text)
        if not number or not math.isfinite(number):
            return _Near(number, 0)
        exact = Decimal(text)
        digits = max(SHOWN_DIGITS, len(exact.as_tuple().digits))
        return _Near(number, float(Decimal(5).scaleb(exact.adjusted() - digits)))
    except ValueError:
        raise SelectionError(f"{spec.name} holds {spec.dtype.name}: search for a number") from None


def _places(block: Array, wanted: bytes | str | int | _Near, unit: Unit | None) -> list[int]:
    """Return the rows of a block that hold a value, or at which a text begins."""
    if isinstance(wanted, bytes):
        raw, found = block.tobytes(), []
        place = raw.find(wanted) if wanted else -1
        while place >= 0:
            found.append(place)
            place = raw.find(wanted, place + 1)
        return found
    if isinstance(wanted, str):
        assert unit is not None
        same = _holding(block, wanted, unit)
    elif isinstance(wanted, int):
        same = block == np.asarray(wanted)
    elif math.isnan(wanted.number):
        same = np.isnan(block)
    else:
        wide = block.astype(np.result_type(block, np.float64), copy=False)
        with np.errstate(invalid="ignore", over="ignore"):
            same = np.abs(wide - wanted.number) <= wanted.most
        same |= wide == wanted.number  # infinite
    rows: list[int] = np.flatnonzero(same.reshape(len(block), -1).any(axis=1)).tolist()
    return rows


def _holding(block: Array, text: str, unit: Unit) -> Array:
    """Return the mask of the values of a block that are shown as a text with this part."""
    if isinstance(unit, Categories):
        return np.isin(block, [code for code, word in enumerate(unit.words) if text in word])
    shown = texts(np.ascontiguousarray(block).reshape(-1), unit)
    return np.array([text in one for one in shown], np.bool_).reshape(block.shape)
