"""Marks: what the values of a tensor mean, beyond their numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of
from lodcli.kernels.runtime.argument_types import construction_explained
from lodcli.kernels.suggestions import or_near

Values = Literal["text", "bytes"]
# Bytes decoded at a time: decoded text may take four times as much memory.
_BLOCK_BYTES = 1 << 20
VALUES: tuple[Values, ...] = ("text", "bytes")
TimeKind = Literal["timestamp", "date", "time", "duration"]
# By kind, the units of Arrow; "D" counts days.
TIME_UNITS: dict[str, tuple[str, ...]] = {
    "timestamp": ("s", "ms", "us", "ns"),
    "date": ("D", "ms"),
    "time": ("s", "ms", "us", "ns"),
    "duration": ("s", "ms", "us", "ns"),
}
# Number of bits of Arrow's decimals: the most digits they hold.
DECIMAL_DIGITS = {32: 9, 64: 18, 128: 38, 256: 76}
MOST_ZONE_CHARACTERS = 64
# Words that are compared with an unknown one.
MOST_COMPARED = 1000
# Limits on the attributes of one tensor or of a file: bytes of JSON, and depth of nesting, so that
# recursive functions stay below Python's recursion limit.
MOST_ATTRIBUTE_BYTES = 1 << 18
MOST_ATTRIBUTE_DEPTH = 256
# Declared by formats that keep all marks.
ALL_MARKS = frozenset({*VALUES, *TIME_UNITS, "decimal", "category"})
# Limits on one dictionary of categories: words, and their bytes as UTF-8.
MOST_WORDS, MOST_WORD_BYTES = 1 << 20, 8 << 20
# Maximum number of words in a message.
_SHOWN_WORDS = 20


@construction_explained
@dataclass(frozen=True, slots=True)
class Times:
    """The unit of times as int64.

    Attributes:
        kind: "timestamp" and "date" count from 1970-01-01, "time" from midnight; a
            "duration" has no start.
        unit: "s", "ms", "us" or "ns"; of dates "D" or "ms".
        zone: the time zone of a timestamp, such as "Europe/Zurich", which then counts in UTC; or
            None.

    >>> str(Times("timestamp", "ms", "UTC"))
    'timestamp[ms, UTC]'
    """

    kind: TimeKind
    unit: str
    zone: str | None = None

    def __post_init__(self) -> None:
        texts = (self.kind, self.unit, self.zone or "")
        if not all(isinstance(one, str) for one in texts):
            raise TypeError("an argument of a wrong type")

    def __str__(self) -> str:
        return f"{self.kind}[{self.unit}{'' if self.zone is None else f', {self.zone}'}]"

    def misfit(self) -> str | None:
        """Return why the kind, unit or zone is invalid; None if they are valid."""
        units = TIME_UNITS.get(self.kind)
        if units is None:
            return f"times: expected kind {', '.join(TIME_UNITS)}, found {self.kind!r}"
        if self.unit not in units:
            return f"{self.kind}: expected unit {', '.join(units)}, found {self.unit!r}"
        if self.zone is not None:
            if self.kind != "timestamp":
                return f"a {self.kind} has no zone, found {self.zone!r}"
            if not 0 < len(self.zone) <= MOST_ZONE_CHARACTERS or not self.zone.isprintable():
                return (
                    f"expected a zone of 1 to {MOST_ZONE_CHARACTERS} printable characters, found "
                    f"{self.zone[:80]!r}"
                )
        return None


@construction_explained
@dataclass(frozen=True, slots=True)
class Decimals:
    """The unit of decimal numbers as int64, which are their digits without the point.

    Attributes:
        precision: the maximum number of digits.
        scale: the number of digits after the decimal point.
        bits: width of Arrow's type: 32, 64, 128 or 256.

    >>> str(Decimals(10, 2))
    'decimal(10, 2)'
    """

    precision: int
    scale: int
    bits: int = 128

    def __post_init__(self) -> None:
        if not all(isinstance(one, int) for one in (self.precision, self.scale, self.bits)):
            raise TypeError("an argument of a wrong type")

    @property
    def kind(self) -> str:
        """The name of the mark: one of ALL_MARKS."""
        return "decimal"

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"

    def misfit(self) -> str | None:
        """Return why precision, scale or bits are invalid; None if they are valid."""
        digits = DECIMAL_DIGITS.get(self.bits)
        if digits is None:
            return (
                f"decimal: expected {', '.join(map(str, DECIMAL_DIGITS))} bits, found {self.bits}"
            )
        if not 1 <= self.precision <= digits:
            return (
                f"decimal of {self.bits} bits: expected a precision of 1 to {digits}, found "
                f"{self.precision}"
            )
        if not -digits <= self.scale <= digits:
            return f"decimal: expected a scale of at most {digits}, found {self.scale}"
        return None


@construction_explained
@dataclass(frozen=True, slots=True, eq=False)
class Categories:
    """The unit of category codes: each row is the position of its word in a dictionary.

    Attributes:
        words: the dictionary, in order; all words are different.
        ordered: whether categories compare by the order of their words.

    Raises:
        InvalidDataError: two words are equal, a word is not text, or there are more than
            MOST_WORDS words or MOST_WORD_BYTES bytes.

    >>> str(Categories(("no", "yes")))
    'category[2]'
    """

    words: tuple[str, ...]
    ordered: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.words, list):
            object.__setattr__(self, "words", tuple(self.words))
        if len(self.words) > MOST_WORDS:
            raise InvalidDataError(f"categories: {len(self.words)} words, at most {MOST_WORDS}")
        size, known = 0, set[str]()
        for place, word in enumerate(self.words):
            if not isinstance(word, str):
                raise InvalidDataError(
                    f"categories: word {place}: expected text, found {type(word).__name__}"
                )
            if word in known:
                first = self.words.index(word)
                raise InvalidDataError(
                    f"categories: word {place} is the same as word {first}: {word[:80]!r}"
                )
            known.add(word)
            try:
                size += len(word.encode())
            except UnicodeEncodeError:
                raise InvalidDataError(
                    f"categories: word {place}: half of a surrogate pair in {word[:80]!r}"
                ) from None
        if size > MOST_WORD_BYTES:
            raise InvalidDataError(f"categories: {size} bytes of words, at most {MOST_WORD_BYTES}")

    # Identity is tested first: all batches of a file share the object, and each compares it.
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Categories):
            return NotImplemented
        return self.words == other.words and self.ordered == other.ordered

    def __hash__(self) -> int:
        return hash((len(self.words), self.words[:8], self.ordered))

    @property
    def kind(self) -> str:
        """The name of the mark: one of ALL_MARKS."""
        return "category"

    def __str__(self) -> str:
        return f"category[{len(self.words)}{', ordered' if self.ordered else ''}]"

    # A vocabulary has thousands of words; this is part of the repr of a schema.
    def __repr__(self) -> str:
        more = len(self.words) - _SHOWN_WORDS
        shown = repr(self.words[:_SHOWN_WORDS])
        words = f"{shown[:-1]}, .. {more:,} more)" if more > 0 else shown
        return f"Categories(words={words}, ordered={self.ordered})"

    def misfit(self) -> str | None:
        """Return None, since the constructor has checked the words."""
        return None

    def code_of(self, word: str) -> int:
        """Return the code of a word.

        Raises:
            InvalidDataError: it is not in the dictionary; the message lists words.
        """
        if word in self.words:
            return self.words.index(word)
        known = ", ".join(map(repr, self.words[:_SHOWN_WORDS]))
        more = len(self.words) - _SHOWN_WORDS
        more_text = f" and {more:,} more" if more > 0 else ""
        raise InvalidDataError(
            f"no category {word!r}; there are: {known or 'none'}{more_text}"
            f"{or_near(word, self.words[:MOST_COMPARED])}"
        )

    def with_words(self, other: Categories) -> Categories:
        """Return these words, followed by the other words of another dictionary.

        Raises:
            InvalidDataError: the dictionaries differ, neither is empty, and one is ordered: the
                order of all words is unknown.
        """
        if self == other or not other.words:
            return self
        if not self.words:
            return other
        if self.ordered or other.ordered:
            raise InvalidDataError(
                "ordered categories with other words have no common order; lod cast TENSOR=text "
                "makes texts of them"
            )
        known = set(self.words)
        new = tuple(word for word in other.words if word not in known)
        return Categories((*self.words, *new)) if new else self

    def codes_in(self, other: Categories) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the code of each word in another dictionary, (words,) int64.

        Raises:
            InvalidDataError: the other dictionary lacks a word.
        """
        codes = codes_of(self.words, other.words)
        if codes.min(initial=0) < 0:
            raise InvalidDataError(
                f"categories: expected all words of this tensor, found none called "
                f"{self.words[int(codes.argmin())][:40]!r}; with_words adds those of another "
                "dictionary"
            )
        return codes


def codes_of(
    words: tuple[str, ...], known: tuple[str, ...]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the number of each word among known ones, (words,) int64; -1 for an unknown word."""
    codes = {word: code for code, word in enumerate(known)}
    return np.fromiter((codes.get(word, -1) for word in words), np.int64, len(words))


Unit = Times | Decimals | Categories
_UNITS = (Times, Decimals, Categories)  # isinstance() with a union takes longer


@dataclass(frozen=True, slots=True)
class Field:
    """One step of the path to a tensor inside records.

    Attributes:
        name: of the column, or of the field of a record.
        level: the level at which it begins: the number of levels above it.
        required: whether it holds records that are never null. Otherwise a record is null where
            all its fields are null, or where its field with `present` is false.
        present: whether the rows of this field are the validity mask of the records: true where
            there is a record, false where it is null.
    """

    name: str
    level: int
    required: bool = False
    present: bool = False


@construction_explained
@dataclass(frozen=True, slots=True)
class Marks:
    """What the values of a tensor mean. Without marks they are numbers, in a column of its name.

    Attributes:
        values: what each finest sequence is: "text" (UTF-8) or "bytes"; None for numbers.
        unit: the meaning of each number: times, decimals or categories; None for plain numbers.
        fields: path of the tensor inside records: the column, then the field of its records, and
            so on; () for a column of the tensor's own name.
        attributes: a JSON object with further attributes of the tensor, as text; "" for none.

    >>> str(Marks("text")), str(Marks(unit=Times("date", "D"))), bool(Marks())
    ('text', 'date[D]', False)
    >>> str(Marks("text", fields=(Field("turns", 0), Field("role", 1))))
    'text, field turns[].role'
    """

    values: Values | None = None
    unit: Unit | None = None
    fields: tuple[Field, ...] = ()
    attributes: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.values, _UNITS):
            raise InvalidDataError(
                f"Marks: values: expected 'text' or 'bytes', found {self.values}, which is a unit: "
                f"Marks(unit={type(self.values).__name__}(..))"
            )
        known = self.values in (None, "text", "bytes") and isinstance(self.attributes, str)
        if not known or not (self.unit is None or isinstance(self.unit, _UNITS)):
            raise TypeError("an argument of a wrong type")
        if self.attributes:
            object.__setattr__(self, "attributes", _as_written(self.attributes))

    def __bool__(self) -> bool:
        return self.kind is not None or bool(self.fields or self.attributes)

    def __str__(self) -> str:
        said = [str(one) for one in (self.values, self.unit) if one is not None]
        return ", ".join([*said, f"field {self.path}"] if self.fields else said) or "none"

    @property
    def kind(self) -> str | None:
        """The name of the mark of the values, one of ALL_MARKS; None for numbers."""
        return self.values if self.unit is None else self.unit.kind

    @property
    def is_text(self) -> bool:
        """Whether each finest sequence is UTF-8."""
        return self.values == "text"

    @property
    def categories(self) -> Categories | None:
        """The dictionary of words, if the rows are codes; else None."""
        return self.unit if isinstance(self.unit, Categories) else None

    def require_categories(self) -> Categories:
        """Return the dictionary of words. Raises InvalidDataError: the rows are not codes."""
        if self.categories is None:
            raise InvalidDataError(
                "expected categories, found none; as_categories(words) sets them"
            )
        return self.categories

    @property
    def tells_records(self) -> bool:
        """Whether the rows are the validity mask of records."""
        return bool(self.fields) and self.fields[-1].present

    @property
    def path(self) -> str:
        """The fields as text, such as "turns[].role", with [] for each level between them."""
        found = "".join(
            "[]" * (one.level - before.level) + f".{one.name}"
            for before, one in pairwise(self.fields)
        )
        return "".join(one.name for one in self.fields[:1]) + found

    @property
    def of_values(self) -> Marks:
        """These marks without the fields and attributes."""
        return Marks(self.values, self.unit) if self.fields or self.attributes else self

    def misfit(self, dtype: np.dtype[Any], row_shape: tuple[int, ...], levels: int) -> str | None:
        """Return why a tensor of this dtype and shape cannot have these marks; None if it can."""
        if self.tells_records and (self.kind or dtype != np.bool_ or row_shape):
            found = self.kind or f"{dtype}, rows of shape {row_shape}"
            return (
                f"{self.path} marks which records are null: expected one boolean each, found "
                f"{found}"
            )
        if isinstance(self.unit, Categories):
            if self.values is None and dtype.kind in "iu":
                return None
            return f"categories are codes, whole numbers; found {self.values or dtype}"
        if self.unit is not None:
            if self.values is None and dtype == np.int64:
                return self.unit.misfit()
            return f"{self.unit} is int64, found {self.values or dtype}"
        if self.values is None or (dtype == np.uint8 and not row_shape and levels):
            return None
        return (
            f"{self.values} is uint8 rows of one value under one level or more, found {dtype}, "
            f"rows of shape {row_shape}, {levels} levels"
        )

    def against(self, other: Marks) -> str:
        """Return a description of the first difference between the marks of two tensors' values."""
        one, two = self.of_values, other.of_values
        if str(one) != str(two):
            return f"marks {one} against {two}"
        if one.categories is None or two.categories is None:
            return f"marks {one.unit!r} against {two.unit!r}"
        pairs = enumerate(zip(one.categories.words, two.categories.words, strict=True))
        return next(f"category {n}: {a!r} against {b!r}" for n, (a, b) in pairs if a != b)

    def require_alike(self, other: Marks, what: str, *, kinds: bool = True) -> None:
        """Raise ShapeMismatchError if the numbers of two tensors have different units.

        Plain numbers match every unit.

        Args:
            other: the marks of the other tensor.
            what: the operation or argument, for the message.
            kinds: whether times must also be of the same kind.
        """
        one, two = self.unit, other.unit
        if one is two or one is None or two is None:
            return
        if isinstance(one, Times) and isinstance(two, Times):
            same = replace(one, zone=two.zone) == two and (one.zone is None) == (two.zone is None)
            alike = same if kinds else one.unit == two.unit
        elif isinstance(one, Decimals) and isinstance(two, Decimals):
            alike = one.scale == two.scale
        elif isinstance(one, Categories) and isinstance(two, Categories):
            alike = one.words == two.words
        else:
            alike = False
        if not alike:
            raise ShapeMismatchError(
                f"{what}: {self.against(other)}; as_numbers() returns plain numbers"
            )

    def kept(self, levels: int, before: int) -> Marks:
        """Return the marks of a selection of whole sequences; without levels it is not text.

        Args:
            levels: the number of levels of the selection.
            before: the number of levels of the tensor. If the two differ, the fields are dropped:
                a part of a record is a separate column.
        """
        if not levels and self.unit is None and self.values is not None:
            return Marks(attributes=self.attributes) if before else self
        return self if levels == before or not self.fields else replace(self, fields=())

    def moved(self, *, whole: bool) -> Marks:
        """Return the marks of the same values at other positions, without fields of records.

        Args:
            whole: whether the values of each finest sequence stay together, in order. Otherwise
                text and bytes become numbers.
        """
        if self is NO_MARKS:
            return self
        return Marks(self.values if whole else None, self.unit, attributes=self.attributes)

    def below(self, new_levels: int) -> Marks:
        """Return the marks of the tensor with `new_levels` more outer levels."""
        if not self.fields or not new_levels:
            return self
        column, *inner = self.fields
        moved = (replace(one, level=one.level + new_levels) for one in inner)
        return replace(self, fields=(column, *moved))

    def above(self, dropped: int) -> Marks:
        """Return the marks of the tensor without its `dropped` outermost levels.

        >>> marks = Marks(fields=(Field("turns", 0), Field("words", 1), Field("id", 2)))
        >>> str(marks.above(1))
        'field turns.words[].id'
        """
        if not self.fields or not dropped:
            return self
        moved = (replace(one, level=max(0, one.level - dropped)) for one in self.fields)
        return replace(self, fields=tuple(moved))


NO_MARKS = Marks()
TEXT = Marks("text")
BYTES = Marks("bytes")


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """Return a JSON object as text, for Marks and files; "" for an empty one.

    Raises:
        InvalidDataError: it is not a JSON object, takes more than MOST_ATTRIBUTE_BYTES, or nests
            deeper than MOST_ATTRIBUTE_DEPTH.

    >>> attributes_text({"unit": "m"})
    '{"unit":"m"}'
    """
    if not isinstance(attributes, Mapping) or not all(isinstance(key, str) for key in attributes):
        raise InvalidDataError("attributes: expected an object whose keys are text")
    try:
        text = json.dumps(
            dict(attributes), separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidDataError(f"attributes: are not JSON ({error})") from None
    if size > MOST_ATTRIBUTE_BYTES:
        raise InvalidDataError(f"attributes: {size} bytes of JSON, at most {MOST_ATTRIBUTE_BYTES}")
    if _is_deeper(attributes, MOST_ATTRIBUTE_DEPTH):
        raise InvalidDataError(f"attributes: nest deeper than {MOST_ATTRIBUTE_DEPTH}")
    return text if attributes else ""


# Cached: all batches of a file have the same attributes.
@lru_cache(maxsize=64)
def _as_written(attributes: str) -> str:
    """Return the text of attributes as `attributes_text` writes it."""
    try:
        found = json.loads(attributes)
    except (ValueError, RecursionError) as error:
        raise InvalidDataError(f"attributes: are not JSON ({error})") from None
    return attributes_text(found)


def _is_deeper(value: Any, depth: int) -> bool:
    """Return whether objects and lists are nested deeper than `depth`."""
    if not isinstance(value, Mapping | list | tuple):
        return False
    parts = value.values() if isinstance(value, Mapping) else value
    return not depth or any(_is_deeper(one, depth - 1) for one in parts)


def check_codes(
    data: Array, lod: LoD, categories: Categories, valid: Array | None, before: int = 0
) -> None:
    """Raise InvalidDataError unless every row that is not null holds codes of words.

    Args:
        data: (N, ...) whole numbers.
        lod: of any depth.
        categories: the words.
        valid: (N,) which rows are not null; None for all.
        before: number of outermost items before these, for the message.

    >>> check_codes(np.array([0, 2]), LoD(), Categories(("a", "b")), None)
    Traceback (most recent call last):
    lodcli.kernels.errors.InvalidDataError: row 1: expected the code of one of 2 words, found 2
    """
    count = len(categories.words)
    if not data.size or (int(data.min()) >= 0 and int(data.max()) < count):
        return
    wrong = data < 0
    if count <= np.iinfo(data.dtype).max:
        wrong |= data >= count
    rows = wrong.reshape(len(data), -1).any(axis=1)
    if valid is not None:
        rows &= valid
    if not rows.any():
        return
    row = int(np.argmax(rows))
    found = int(data[row][wrong[row]].reshape(-1)[0])
    first, *inner = branch_of(lod, lod.n_levels, row)
    branch = ",".join(map(str, (first + before, *inner)))
    place = f"item <{branch}>" if lod.n_levels else f"row {branch}"
    raise InvalidDataError(f"{place}: expected the code of one of {count} words, found {found}")


def check_text(data: Array, lod: LoD, before: int = 0) -> None:
    """Raise InvalidDataError unless every finest sequence is UTF-8.

    Args:
        data: (N,) uint8.
        lod: one level or more.
        before: number of outermost items before these, for the message.

    >>> check_text(np.frombuffer(b"a\\xffb", np.uint8), LoD.from_lengths([[1, 2]]))
    Traceback (most recent call last):
    lodcli.kernels.errors.InvalidDataError: item <1>: is not UTF-8 (byte 0xff at position 0)
    """
    if not data.size or int(data.max()) < 0x80:
        return
    wrong = _wrong_byte(np.ascontiguousarray(data), lod.levels[-1][:-1])
    if wrong is None:
        return
    first, *path, position = branch_of(lod, lod.n_levels, wrong)
    path.insert(0, first + before)
    raise InvalidDataError(
        f"item <{','.join(map(str, path))}>: is not UTF-8 (byte {int(data[wrong]):#04x} at "
        f"position {position})"
    )


def _wrong_byte(data: Array, starts: Array) -> int | None:
    """Return the position of the first byte that is invalid in UTF-8, or at the start of a text.

    None if all are valid.
    """
    wrong, start = None, 0
    while start < data.size and wrong is None:
        stop = min(start + _BLOCK_BYTES, data.size)
        while start < stop < data.size and data[stop] & 0xC0 == 0x80:  # within a character
            stop -= 1
        try:
            str(data[start:stop].data, "utf-8")
        except UnicodeDecodeError as error:
            wrong = start + error.start
        start = stop
    starts = starts[starts < data.size]
    inside = starts[data[starts] & 0xC0 == 0x80]
    found = [int(one) for one in (*inside[:1], wrong) if one is not None]
    return min(found, default=None)
