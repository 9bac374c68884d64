"""Columns whose values are in the names of folders, `year=2024`, as Hive, Spark and Arrow write."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np

from lodcli.formats.choosing.choice import ValueRange
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.names import check_name, listing
from lodcli.formats.core.schema import LevelSpec, Schema, TensorSpec
from lodcli.formats.values.added_columns import WithColumns
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.exchange.time_texts import number_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, TEXT, Marks, Times
from lodcli.kernels.tensor.nulls import Nulls

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
        like: see Added.
    """

    marks: Marks
    value: int | str | None
    nullable: bool
    like = None

    def spec(self, name: str, items: int | None) -> TensorSpec:
        """Return the column of a file with this many items."""
        if not self.marks.is_text:
            whole = np.dtype(np.int64)
            return TensorSpec(name, whole, (), (), items, marks=self.marks, nullable=self.nullable)
        levels = (LevelSpec(f"partition {name}", None, items),)
        rows = None if items is None else items * len(self._bytes)
        bytes_ = np.dtype(np.uint8)
        return TensorSpec(name, bytes_, (), levels, rows, marks=TEXT, nullable=self.nullable)

    def column(self, like: LoDTensor) -> LoDTensor:
        """See Added."""
        items, nulls = len(like), Nulls()
        if self.value is None:
            nulls = Nulls((np.zeros(items, np.bool_), *[None] * self.marks.is_text))
        if not self.marks.is_text:
            return LoDTensor(np.full(items, self.value or 0, np.int64), LoD(), self.marks, nulls)
        length = len(self._bytes)
        data = np.tile(np.frombuffer(self._bytes, np.uint8), items)
        return LoDTensor(data, LoD([np.arange(items + 1) * length]), self.marks, nulls)

    @property
    def range(self) -> ValueRange:
        """See Added."""
        if self.value is None:
            return ValueRange(nulls=True, values=False)
        value = self._bytes if self.marks.is_text else int(self.value)
        return ValueRange(value, value, nulls=False)

    @property
    def item_bytes(self) -> int:
        """See Added."""
        return 8 + self.marks.is_text * len(self._bytes) + self.nullable

    @property
    def _bytes(self) -> bytes:
        return str(self.value or "").encode()


Keys = Mapping[str, Key]
NO_KEYS: Keys = {}


def keys_of(folder: str, paths: Sequence[str]) -> dict[str, Keys]:
    """Return the keys of each file, from the folders between `folder` and the file.

    A column of whole numbers has int64, one of dates has dates, any other is text.

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


def has_items(source: Source, kind: Format) -> bool:
    """Return whether all tensors of a file have the same items, to which columns can be added."""
    if kind.max_levels == 0:  # the file is an item
        return False
    return source.records or (len(source.schema) == 1 and not source.schema[0].array)


def with_keys(opened: Source, kind: Format, keys: Keys) -> Source:
    """Return a file with the columns of the keys, in place of its own of the same names.

    A file that does not take them is returned as it is.
    """
    if not keys or not has_items(opened, kind):
        return opened
    specs = {spec.name: spec for spec in opened.schema if not _is_replaced(spec, keys)}
    items = min(opened.schema, key=lambda spec: len(spec.levels)).items
    specs |= {name: key.spec(name, items) for name, key in keys.items()}
    found = WithColumns(opened, tuple(specs.values()), keys)
    found.has_keys = True
    return found


def _is_replaced(spec: TensorSpec, keys: Keys) -> bool:
    """Return whether a tensor of a file, or the records whose field it is, is a key."""
    outer = spec.marks.fields[0].name if spec.marks.fields else spec.name
    return spec.name in keys or outer in keys


def refuse_keys(keys: Iterable[str], schema: Schema, names: Iterable[str]) -> None:
    """Raise SelectionError if a key is among the names to read from a file that takes no keys."""
    known = {spec.name for spec in schema}
    for name in names:
        if name in keys and name not in known:
            raise SelectionError(f"{name!r} is in the names of folders, {NOT_READ}")
