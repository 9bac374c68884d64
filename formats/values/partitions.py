"""Columns whose values are in the names of folders, `year=2024`, as Hive, Spark and Arrow write."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np

from lodcli.formats.choosing.choice import Choice, ValueRange
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.names import check_name, listing
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, TensorSpec, tensor_of
from lodcli.formats.core.wrapped import Wrapped
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.exchange.time_texts import number_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, TEXT, Marks, Times
from lodcli.kernels.tensor.nulls import Mask, Nulls

# The value of a key that is null.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE, _DATE = r"-?[0-9]{1,19}", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DAYS = Times("date", "D")
# Why some files take no keys.
NOT_READ = "which are read only with formats of records, and files of one tensor with items"


@dataclass(frozen=True)
class Key:
    """The value of one key in all items of a file.

    Attributes:
        marks: of the column: text, dates or whole numbers.
        value: a number, or text; None for a null.
        nullable: whether it is null in any of the files.
    """

    marks: Marks
    value: int | str | None
    nullable: bool

    def spec(self, name: str, items: int | None) -> TensorSpec:
        """Return the column of a file with this many items."""
        if not self.marks.is_text:
            whole = np.dtype(np.int64)
            return TensorSpec(name, whole, (), (), items, marks=self.marks, nullable=self.nullable)
        levels = (LevelSpec(f"partition {name}", None, items),)
        rows = None if items is None else items * len(self._bytes)
        bytes_ = np.dtype(np.uint8)
        return TensorSpec(name, bytes_, (), levels, rows, marks=TEXT, nullable=self.nullable)

    def column(self, items: int) -> LoDTensor:
        """Return the column with this many items."""
        nulls = Nulls()
        if self.value is None:
            nulls = Nulls((np.zeros(items, np.bool_), *[None] * self.marks.is_text))
        if not self.marks.is_text:
            return LoDTensor(np.full(items, self.value or 0, np.int64), LoD(), self.marks, nulls)
        length = len(self._bytes)
        data = np.tile(np.frombuffer(self._bytes, np.uint8), items)
        return LoDTensor(data, LoD([np.arange(items + 1) * length]), self.marks, nulls)

    @property
    def range(self) -> ValueRange:
        """The range of its values in the file."""
        if self.value is None:
            return ValueRange(nulls=True, values=False)
        value = self._bytes if self.marks.is_text else int(self.value)
        return ValueRange(value, value, nulls=False)

    @property
    def item_bytes(self) -> int:
        """The bytes of an item of the column, with its offset."""
        return 8 + self.marks.is_text * len(self._bytes) + self.nullable

    @property
    def _bytes(self) -> bytes:
        return str(self.value or "").encode()


Keys = Mapping[str, Key]
NO_KEYS: Keys = {}


def keys_of(folder: str, paths: Sequence[str]) -> dict[str, Keys]:
    """Return the keys of each file, from the folders between `folder` and the file.

    A column of whole numbers has int64, one of dates has dates, any other is text.

    Args:
        folder: contains all files.
        paths: of the files.

    Raises:
        SelectionError: files have different keys.
        InvalidDataError: a name is that of no tensor, or no UTF-8.

    >>> keys_of("", ["year=2024/part-0.csv"])["year=2024/part-0.csv"]["year"].value
    2024
    """
    found = {path: _pairs(path, os.path.relpath(path, folder or ".")) for path in paths}
    first, pairs = next(iter(found.items()))
    for path, others in found.items():
        if others.keys() != pairs.keys():
            without, beside = (path, first) if len(others) < len(pairs) else (first, path)
            more = [one for one in found[beside] if one not in found[without]]
            raise SelectionError(
                f"{without}: is in no folder {listing(f'{one}=..' for one in more)}, and {beside} "
                "is; name files with the same keys, or read none with "
                f"{option('skip-partitions', True)}"
            )
    columns = {name: _column([one[name] for one in found.values()]) for name in pairs}
    return {
        path: {name: column[place] for name, column in columns.items()}
        for place, path in enumerate(paths)
    }


def _pairs(path: str, relative: str) -> dict[str, str | None]:
    """Return the texts of the keys in the names of folders; None of a null."""
    found: dict[str, str | None] = {}
    for part in os.path.dirname(relative).split(os.sep):
        name, equals, value = part.partition("=")
        if not name or not equals:
            continue
        with naming(path):
            try:
                name, text = (unquote(one, errors="strict") for one in (name, value))
                os.fsencode(text).decode()
            except UnicodeDecodeError:
                raise InvalidDataError(f"the folder {part!a} is not UTF-8") from None
            try:
                check_name(name)
            except InvalidDataError as error:
                skip = option("skip-partitions", True)
                raise InvalidDataError(f"{error}; {skip} reads no names of folders") from None
            if name in found:
                raise InvalidDataError(f"two folders name {name!r}")
        found[name] = None if value == _NULL else text
    return found


def _column(texts: Sequence[str | None]) -> list[Key]:
    """Return the values of a key in all files."""
    known = [one for one in texts if one is not None]
    nullable = len(known) < len(texts)
    numbers: dict[str, int] = {}
    marks = TEXT
    try:
        if known and all(re.fullmatch(_WHOLE, one) for one in known):
            numbers, marks = {one: int(np.int64(int(one))) for one in known}, NO_MARKS
        elif known and all(re.fullmatch(_DATE, one) for one in known):
            numbers, marks = {one: number_of(one, _DAYS) for one in known}, Marks(unit=_DAYS)
    except (LodError, OverflowError):  # the 31st of June, or a number of more than 64 bits
        numbers, marks = {}, TEXT
    return [Key(marks, one if one is None else numbers.get(one, one), nullable) for one in texts]


def takes_keys(source: Source, kind: Format) -> bool:
    """Return whether a file has items of which each can have the values of the keys."""
    if kind.max_levels == 0:  # the file is an item
        return False
    return source.records or (len(source.schema) == 1 and not source.schema[0].array)


def with_keys(opened: Source, kind: Format, keys: Keys) -> Source:
    """Return a file with the columns of the keys if it takes them; else itself."""
    return Partitioned(opened, keys) if keys and takes_keys(opened, kind) else opened


def refuse_keys(keys: Iterable[str], schema: Schema, names: Iterable[str]) -> None:
    """Raise SelectionError if a key is among the names to read from a file that takes no keys."""
    known = {spec.name for spec in schema}
    for name in names:
        if name in keys and name not in known:
            raise SelectionError(f"{name!r} is in the names of folders, {NOT_READ}")


class Partitioned(Wrapped):
    """A file with further columns, the keys; in place of a column of the file with that name.

    Args:
        inner: the open file; it takes keys.
        keys: the values, by name.
    """

    def __init__(self, inner: Source, keys: Keys) -> None:
        super().__init__(inner)
        self.records = self.has_keys = True
        self._keys = keys
        # To count the items, if only keys are read.
        self._lead = min(inner.schema, key=lambda spec: len(spec.levels))
        items = self._lead.items
        self._own_specs = {spec.name: spec for spec in inner.schema if not self._is_replaced(spec)}
        specs = dict(self._own_specs)
        specs |= {name: key.spec(name, items) for name, key in keys.items()}
        self.schema = tuple(specs.values())

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = list(names)
        for batch in self._inner.batches_of(self._own(wanted), self._left(limit_bytes, wanted)):
            yield self._with_keys(batch, wanted)

    def chosen_batches(
        self, names: Iterable[str], choice: Choice, limit_bytes: int = BATCH_BYTES
    ) -> Iterator[tuple[int, Batch]]:
        wanted = list(names)
        keyed = _Keyed(choice, self._keys, self._with_keys)
        left = self._left(limit_bytes, wanted)
        for first, batch in self._inner.chosen_batches(self._own(wanted), keyed, left):
            yield first, self._with_keys(batch, wanted)

    def _own(self, names: Sequence[str]) -> list[str]:
        """Return the tensors of the file to read."""
        return [name for name in names if name not in self._keys] or [self._lead.name]

    def _is_replaced(self, spec: TensorSpec) -> bool:
        """Return whether a tensor of the file, or the records whose field it is, is a key."""
        outer = spec.marks.fields[0].name if spec.marks.fields else spec.name
        return spec.name in self._keys or outer in self._keys

    def _left(self, limit_bytes: int, names: Sequence[str]) -> int:
        """Return the bytes of a batch without those of its keys."""
        own = sum(_item_bytes(self._own_specs.get(one, self._lead)) for one in self._own(names))
        keys = sum(key.item_bytes for name, key in self._keys.items() if name in names)
        return max(1, int(limit_bytes * own / (own + keys))) if keys else limit_bytes

    def _with_keys(self, batch: Batch, names: Sequence[str]) -> Batch:
        """Return a batch of the file with those of the keys that are among the names."""
        count = len(tensor_of(next(iter(batch.values()))))
        columns = {name: key.column(count) for name, key in self._keys.items() if name in names}
        return {**{k: one for k, one in batch.items() if k in self._own_specs}, **columns}


def _item_bytes(spec: TensorSpec) -> float:
    """Return the mean bytes of an item; of one row if their number is unknown."""
    row = spec.dtype.itemsize * math.prod(spec.row_shape)
    rows = 1.0 if spec.rows is None or not spec.items else spec.rows / spec.items
    return row * rows + 8 * len(spec.levels)


class _Keyed:
    """A choice by further columns, the keys; see Choice."""

    def __init__(
        self, choice: Choice, keys: Keys, with_keys: Callable[[Batch, Sequence[str]], Batch]
    ) -> None:
        self._choice, self._keys, self._with_keys = choice, keys, with_keys

    @property
    def deciding(self) -> list[str]:
        return [name for name in self._choice.deciding if name not in self._keys]

    @property
    def span(self) -> range:
        return self._choice.span

    def of_ranges(self, ranges: Mapping[str, Sequence[ValueRange]], offsets: Offsets) -> Mask:
        known = {name: [key.range] * (offsets.size - 1) for name, key in self._keys.items()}
        return self._choice.of_ranges({**ranges, **known}, offsets)

    def of_batch(self, batch: Batch, first: int) -> bool:
        return self._choice.of_batch(self._with_keys(batch, self._choice.deciding), first)
