"""Options for reading and writing files: as values, and as keywords of `lodcli.read`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from lodcli.formats.core.names import repeated
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import OptionError, SelectionError, UnsupportedError
from lodcli.kernels.options import ARGUMENTS, by_reader, option, option_name
from lodcli.kernels.suggestions import did_you_mean, or_near

# Imported where a dtype is given: --help can do without.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
# One name, or several.
Names = str | Iterable[str]


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a file. An option that the format does not have is an error.

    Attributes:
        levels: names of the levels, outermost first. For every format.
        vocabulary: a text file of one token per line; rows become token numbers.
        field: names of the fields of a record to read.
        dtype: the dtype of the rows in memory. For every format: if the reader does not support it,
            numbers are cast afterwards; text, times and categories are not.
        dtype_unsafe: whether values are rounded to that dtype; else a value that is not exact in
            it is an error. For every format.
        data: the dataset of a plain HDF5 file that holds the rows; for a flat file its arrays of
            rows, separated by commas. With a pattern such as "arr_*", each matching array is a
            sequence.
        offsets: the datasets or arrays that hold offsets, outermost first.
        lengths: instead of `offsets`, the datasets or arrays that hold lengths.
        names: names for the tensors of a file that does not name them, in the order of the file.
        nulls: how to read nulls: "keep", "empty", "zero", "nan", "drop", "error" or "fill=X".
            None keeps them too, but assumes that a text file without nulls at its beginning has
            none, and refuses several files some of which lack a column. For every format.
        end_token: the token that ends each document, in a file of tokens.
        start_token: the token that begins each document.
        encoding: the encoding of text, such as "latin1"; None is UTF-8.
        separator: the character between the fields of a csv file.
        decimal_comma: whether numbers of a csv file have a decimal comma, as in 1,5.
        text_columns: the columns of a csv file that are text even if they look like numbers.
        float_decimals: whether decimals of more than 18 digits, which may exceed 64 bits, become
            float64 in arrow, parquet and orc, each the nearest number.
        wide: whether rows of H numbers are H columns of a csv file.
        mmap: whether rows may be maps of the file: see `lodcli.read`.
        part: (k, n): part k, from 0, of n parts of about equally many outermost items.
        skip_unsupported: whether to leave out content that no tensor can hold, and read the rest.
            For every format.
        skip_partitions: whether to ignore the values in names of folders of several files, such as
            `year=2024`, which are otherwise columns. For every format.
        columns: names of the tensors or records to read, in this order. For every format.
        rename: pairs of the name of a tensor or records, and its new name. For every format.
        text_levels: "text" or "bytes" mark sequences of uint8 as such, and "text" turns categories
            into text; "numbers" returns the bytes of text, and codes. For every format.
    """

    levels: tuple[str, ...] | None = None
    vocabulary: Path | None = None
    field: tuple[str, ...] | None = None
    dtype: np.dtype[np.generic] | None = None
    dtype_unsafe: bool | None = None
    data: str | None = None
    offsets: tuple[str, ...] | None = None
    lengths: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    nulls: str | None = None
    end_token: int | None = None
    start_token: int | None = None
    encoding: str | None = None
    separator: str | None = None
    decimal_comma: bool | None = None
    text_columns: tuple[str, ...] | None = None
    float_decimals: bool | None = None
    wide: bool | None = None
    mmap: bool | None = None
    part: tuple[int, int] | None = None
    skip_unsupported: bool | None = None
    skip_partitions: bool | None = None
    columns: tuple[str, ...] | None = None
    rename: tuple[tuple[str, str], ...] | None = None
    text_levels: str | None = None

    def __post_init__(self) -> None:
        if self.dtype_unsafe and self.dtype is None:
            raise OptionError(
                f"{option('dtype-unsafe', True)} rounds to a dtype; give {option('dtype')} as well"
            )
        names = self.levels or ()
        if names:
            from lodcli.kernels.index.lod import is_level_name

            for name in names:
                if not is_level_name(name):
                    raise OptionError(
                        f"{option_name('levels')}: {name!r} is not a valid level name: use "
                        "letters, digits, '_' and '-', not all digits"
                    )
        for double in repeated(names):
            raise SelectionError(
                f"{option_name('levels')}: two levels are called {double!r}; name each differently"
            )


@dataclass(frozen=True)
class WriteOptions:
    """Options for writing a file.

    Attributes:
        compression: the codec of a lod.h5, dataset or Parquet file; None: the format's default.
        vocabulary: a text file of one token per line, to turn token numbers into words.
        cu_seqlens: names of the arrays of offsets, outermost first, which all tensors share.
        index_dtype: "int32" or "int64", of the arrays of offsets.
        form: the name of one of torch's forms of sequences.
        end_token: the token that ends each item in a file of tokens, so that readers find its end.
        start_token: the token that begins each item.
        separator: the character between the fields of a csv file.
        decimal_comma: whether numbers of a csv file are written with a decimal comma.
        wide: whether rows of H numbers are H columns of a csv file.
        shards: the number of containers of a dataset, about equal in bytes.
        shard_bytes: maximum bytes of the rows and offsets in one of them; a single item may exceed
            it.
        attributes: those of the file as a whole, a JSON object as text; None and "" for none. For
            every format, but some cannot store them.
    """

    compression: str | None = None
    vocabulary: Path | None = None
    cu_seqlens: tuple[str, ...] | None = None
    index_dtype: str | None = None
    form: str | None = None
    end_token: int | None = None
    start_token: int | None = None
    separator: str | None = None
    decimal_comma: bool | None = None
    wide: bool | None = None
    shards: int | None = None
    shard_bytes: int | None = None
    attributes: str | None = None


class ReadKeywords(TypedDict, total=False):
    """The fields of ReadOptions as keywords; None leaves an option out."""

    levels: Names | None
    vocabulary: str | os.PathLike[str] | None
    field: Names | None
    dtype: npt.DTypeLike | None
    dtype_unsafe: bool | None
    data: str | None
    offsets: Names | None
    lengths: Names | None
    names: Names | None
    nulls: str | None
    end_token: int | None
    start_token: int | None
    encoding: str | None
    separator: str | None
    decimal_comma: bool | None
    text_columns: Names | None
    float_decimals: bool | None
    wide: bool | None
    mmap: bool | None
    part: tuple[int, int] | None
    skip_unsupported: bool | None
    skip_partitions: bool | None
    columns: Names | None
    rename: Mapping[str, str] | None
    text_levels: str | None


class WriteKeywords(TypedDict, total=False):
    """The fields of WriteOptions as keywords; None leaves an option out."""

    compression: str | None
    vocabulary: str | os.PathLike[str] | None
    cu_seqlens: Names | None
    index_dtype: str | None
    form: str | None
    end_token: int | None
    start_token: int | None
    separator: str | None
    decimal_comma: bool | None
    wide: bool | None
    shards: int | None
    shard_bytes: int | None
    attributes: Mapping[str, Any] | None


SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}

_NAMES = frozenset(
    {"levels", "field", "offsets", "lengths", "names", "cu_seqlens", "columns", "text_columns"}
)
_SWITCHES = frozenset(
    {
        *("decimal_comma", "dtype_unsafe", "float_decimals", "mmap", "skip_partitions"),
        *("skip_unsupported", "wide"),
    }
)
_NUMBERS = frozenset({"end_token", "start_token", "shards", "shard_bytes"})
_TEXTS = frozenset({"compression", "data", "encoding", "form", "nulls", "separator", "text_levels"})
# The types of values, and their names in messages; each other option checks its own.
_TYPES: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(_NAMES, (Iterable, "a name or a list of names")),
    **dict.fromkeys(_TEXTS, (str, "a text")),
    **dict.fromkeys(_NUMBERS, (Integral, "a whole number")),
    "rename": (Mapping, "a dict of new names by the names in the file"),
    "vocabulary": (str | os.PathLike, "the path of a text file"),
}
# Options for every format: if the reader does not support one, `io` applies it.
GENERAL = frozenset(
    {
        *("levels", "dtype", "dtype_unsafe", "nulls", "columns", "rename", "text_levels"),
        "skip_partitions",
    }
)
TEXT_LEVELS = ("text", "bytes", "numbers")
NULLS = ("keep", "empty", "zero", "nan", "drop", "error", "fill=X")
# Other arguments of the functions in Python, and options of the shell that are called differently.
_ARGUMENTS = {
    ReadOptions: ("format_name", "limits"),
    WriteOptions: ("format_name", "overwrite", "strict"),
}
_IN_SHELL = {
    **{name.replace("-", "_"): argument for name, argument in ARGUMENTS.items()},
    "name": "columns",  # of read_all, which has no name
}
_FLAGS = {argument: name for name, argument in ARGUMENTS.items()}
# The formats of options that few take.
_ONLY = {
    "compression": "lod.h5, lod.dataset and parquet",
    "cu_seqlens": "npz and safetensors",
    "data": "formats of named arrays, such as hdf5, npz and zarr",
    "decimal_comma": "csv and tsv",
    "encoding": "text formats, and text in hdf5",
    "end_token": "token files",
    "float_decimals": "arrow, parquet and orc",
    "form": "torch",
    "index_dtype": "npz and safetensors",
    "lengths": "formats of named arrays, such as hdf5, npz and zarr",
    "mmap": "lod.h5",
    "offsets": "formats of named arrays, such as hdf5, npz and zarr",
    "part": "lod.h5",
    "separator": "csv and tsv",
    "shard_bytes": "lod.dataset",
    "shards": "lod.dataset",
    "start_token": "token files",
    "text_columns": "csv and tsv",
    "vocabulary": "text",
    "wide": "csv and tsv",
}
# Fields with an alternative that works with every format, and the effect of that.
_INSTEAD = {
    "field": ("columns", "chooses tensors of every format"),
    "names": ("rename", "gives other names in every format"),
}

NO_OPTIONS = ReadOptions()
_DEFAULTS: dict[type[Any], Any] = {ReadOptions: NO_OPTIONS, WriteOptions: WriteOptions()}


def read_options(given: ReadOptions | None, keywords: ReadKeywords) -> ReadOptions:
    """Return options with keywords added.

    Raises:
        TypeError: there is no such option.
        OptionError: no such dtype, a name that is not text, or another invalid value.
        SelectionError: two levels have the same name.

    >>> read_options(None, {"levels": ["day", "hour"], "field": "clicks"}).field
    ('clicks',)
    """
    options = _given(given, ReadOptions)
    return replace(options, **_values(options, keywords)) if keywords else options


def write_options(given: WriteOptions | None, keywords: WriteKeywords) -> WriteOptions:
    """Return options with keywords added; see `read_options`."""
    options = _given(given, WriteOptions)
    return replace(options, **_values(options, keywords))


def _given(options: T | None, kind: type[T]) -> T:
    """Return options, the default ones for None."""
    if options is not None and not isinstance(options, kind):
        raise OptionError(
            f"options: expected lodcli.formats.{kind.__name__}, found {type(options).__name__}; "
            "or give each option as a keyword"
        )
    return _DEFAULTS[kind] if options is None else options


def _values(
    options: ReadOptions | WriteOptions, keywords: ReadKeywords | WriteKeywords
) -> dict[str, Any]:
    known = [field.name for field in fields(options)]
    given: Mapping[str, object] = keywords
    for name in given:
        if name not in known:
            known += _ARGUMENTS[type(options)]
            near = did_you_mean(_IN_SHELL.get(name, name), known, 1)
            hint = f"{near} " if near else ""
            raise TypeError(f"no option is called {name!r}; {hint}there are: {', '.join(known)}")
    return {name: _value(name, value) for name, value in given.items()}


def _value(name: str, value: Any) -> Any:
    """Return the value of one option as its dataclass holds it."""
    if name in _SWITCHES:
        if value not in (None, True, False):  # "no" would count as true
            raise OptionError(f"{name}: expected True or False, found {value!r}")
        return bool(value) or None  # None, since every format accepts a switch that is off
    if value is None:
        return None
    kind, expected = _TYPES.get(name, (object, ""))
    if not isinstance(value, kind) or (kind is Integral and isinstance(value, bool)):
        raise OptionError(f"{name}: expected {expected}, found {value!r}")
    if name in _NAMES:
        names = _texts(name, (value,) if isinstance(value, str) else value)
        if name == "columns" and not names:  # which could mean all as well as none
            raise OptionError(
                f"{option_name('columns')}: expected at least one name, found {value!r}; "
                "omit it for all"
            )
        return names or None
    if name == "vocabulary":
        return Path(value)
    if name == "attributes":
        from lodcli.kernels.tensor.marks import attributes_text

        return attributes_text(value)
    if name == "rename":
        return tuple(zip(_texts(name, value), _texts(name, value.values()), strict=True)) or None
    if name == "text_levels" and value not in TEXT_LEVELS:
        raise OptionError(
            f"{option_name('text-levels')}: expected {', '.join(TEXT_LEVELS)}, found {value!r}"
            f"{or_near(value, TEXT_LEVELS)}"
        )
    if name == "dtype":
        return dtype_of_rows(value)
    if name == "nulls":
        filling = isinstance(value, str) and value.startswith("fill=") and value != "fill="
        if value not in NULLS[:-1] and not filling:
            near = or_near(value, NULLS[:-1])
            raise OptionError(
                f"{option_name('nulls')}: expected {', '.join(NULLS)}, found {value!r}{near}"
            )
    if name in ("shards", "shard_bytes") and value < 1:
        raise OptionError(f"{name}: expected a whole number from 1, found {value!r}")
    if name in _NUMBERS:
        return int(value)
    if name == "index_dtype":
        return _index_dtype(value)
    if name == "part":
        return _part(value)
    if name == "encoding":
        from lodcli.formats.text.encodings import encoding_named

        return encoding_named(value)
    if name == "separator":
        return _separator(value)
    return value


def _texts(option: str, values: Iterable[object]) -> tuple[str, ...]:
    """Return the names that an option holds, checked."""
    names = []
    for value in values:
        if not isinstance(value, str):
            raise OptionError(f"{option}: names have type str, found {value!r}")
        names.append(value)
    return tuple(names)


def _index_dtype(value: Any) -> str:
    """Return the name of the dtype of offsets."""
    try:
        found = dtype_of_rows(value).name
    except OptionError:
        found = ""
    if found not in ("int32", "int64"):
        raise OptionError(f"index_dtype: expected int32 or int64, found {value!r}")
    return found


def _part(value: Any) -> tuple[int, int]:
    """Return the number of the part, and the number of parts, checked."""
    match value:
        case (int(), int()) if 0 <= value[0] < value[1]:
            return value[0], value[1]
    raise OptionError(f"part: expected (k, n), part k of n from 0 to n - 1, found {value!r}")


def may_separate(mark: str) -> bool:
    """Return whether a character may be between the fields of a csv."""
    return mark.isascii() and not mark.isalnum() and mark not in '"+-.\r\n\0'


def _separator(value: str) -> str:
    """Return the character between fields, given as itself or by its name."""
    found = SEPARATORS.get(value, value)
    if len(found) != 1 or not may_separate(found):
        raise OptionError(
            f"{option_name('separator')}: expected one ASCII character that is not a letter, "
            f"digit, quote or part of a number, or one of {', '.join(SEPARATORS)}; found {value!r}"
        )
    return found


def fill_value(how: str) -> Any:
    """Return the value that fills null rows; text if it is not a number.

    >>> fill_value("fill=-1"), fill_value("fill=2024-05-01"), fill_value("zero")
    (-1, '2024-05-01', 0)
    """
    if how in ("zero", "nan"):
        return 0 if how == "zero" else math.nan
    text = how.removeprefix("fill=")
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def wide_dtype(dtype: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """Return the dtype in which numbers are read before rounding; None for whole numbers."""
    import numpy as np

    return None if dtype is None or dtype.kind in "biu" else np.dtype(np.float64)


def refuse_unknown_options(
    known: frozenset[str], given: ReadOptions | WriteOptions, name: str
) -> None:
    """Raise UnsupportedError for an option the format does not understand."""
    if given == NO_OPTIONS:  # nearly always; takes a tenth of the time of the loop
        return
    for field in fields(given):
        if field.name in ("skip_unsupported", "attributes"):
            continue
        if getattr(given, field.name) is not None and field.name not in known:
            advice = f"; it is for {_ONLY[field.name]}" if field.name in _ONLY else ""
            if field.name == "vocabulary":
                advice += by_reader(shell="; lod cast TENSOR=category numbers words", python="")
            if field.name in _INSTEAD:
                other, what = _INSTEAD[field.name]
                advice = f"; {option(other)} {what}"
            flag = _FLAGS.get(field.name, field.name.replace("_", "-"))
            shown = by_reader(shell=option_name(flag), python=repr(field.name))
            raise UnsupportedError(f"{name} has no option {shown}{advice}")


def choose_others(what: str = "others") -> str:
    """Return advice on content that no tensor can hold, for a message.

    >>> choose_others("other columns")
    'choose other columns with columns=, or the rest with skip_unsupported=True'
    """
    rest = option("skip-unsupported", True)
    return f"choose {what} with {option('columns')}, or the rest with {rest}"


def index_names(options: ReadOptions, has: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the names of the datasets or arrays of the index, outermost level first.

    Args:
        options: those of offsets or lengths.
        has: whether the file has a dataset or array of a name.

    Raises:
        SelectionError: both offsets and lengths; a name that is several, separated by commas.
    """
    if options.offsets and options.lengths:
        both = f"{option_name('offsets')} or {option_name('lengths')}"
        raise SelectionError(f"give {both}, not both")
    kind, index = ("lengths" if options.lengths else "offsets"), options.offsets or options.lengths
    for name in index or ():
        several = name.split(",")
        if several[1:] and not has(name) and all(map(has, several)):
            each = by_reader(
                shell=" ".join(option(kind, one) for one in several),
                python=option(kind, tuple(several)),
            )
            raise SelectionError(f"{option(kind, name)}: names several levels; give {each}")
    return index or ()
