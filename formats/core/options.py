"""What a person may say about how to read and write a file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from lodcli.kernels.errors import SelectionError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ReadOptions:
    """What a person may say about how to read. A format refuses what it does not know.

    Attributes:
        levels: names of the levels, outermost first.
        vocabulary: a text file of one token per line; rows become token numbers.
        field: which fields of a record to read.
        dtype: the dtype to store the rows as.
        data: the dataset of a plain HDF5 file that holds the rows; the arrays of a flat
            file that do, with commas between.
        offsets: the datasets or arrays that hold offsets, outermost first.
        lengths: the same, where they hold lengths.
        names: what to call the tensors of a file that does not name them, in its order.
        nulls: "empty" to read a null list or text as an empty one; else a null is an error.
        end_token: the token that ends a document, in a run of tokens.
        start_token: the token that begins one.
        mmap: whether rows may be maps of the file: see `lodcli.read`.
        skip_unsupported: whether to leave out what no tensor can hold, and read the rest. Every
            format takes it.
    """

    levels: tuple[str, ...] | None = None
    vocabulary: Path | None = None
    field: tuple[str, ...] | None = None
    dtype: np.dtype[np.generic] | None = None
    data: str | None = None
    offsets: tuple[str, ...] | None = None
    lengths: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    nulls: str | None = None
    end_token: int | None = None
    start_token: int | None = None
    mmap: bool | None = None
    skip_unsupported: bool | None = None

    def __post_init__(self) -> None:
        names = self.levels or ()
        if len(set(names)) < len(names):
            double = next(name for name in names if names.count(name) > 1)
            raise SelectionError(
                f"--levels: two levels are called {double!r}; name each differently"
            )


@dataclass(frozen=True)
class WriteOptions:
    """What a person may say about how to write.

    Attributes:
        compression: a codec of the lod container, None for none.
        vocabulary: a text file of one token per line, to turn token numbers into words.
        cu_seqlens: names of the arrays of offsets, outermost first, which all tensors share.
        index_dtype: "int32" or "int64", of the arrays of offsets.
        form: which of torch's forms of sequences.
        end_token: the token that ends each item, so that it can be told in a run of tokens.
        start_token: the token that begins each.
    """

    compression: str | None = None
    vocabulary: Path | None = None
    cu_seqlens: tuple[str, ...] | None = None
    index_dtype: str | None = None
    form: str | None = None
    end_token: int | None = None
    start_token: int | None = None


def refuse_unknown_options(
    known: frozenset[str], given: ReadOptions | WriteOptions, name: str
) -> None:
    """Raise UnsupportedError for an option the format does not understand."""
    for field in fields(given):
        if field.name == "skip_unsupported":
            continue
        if getattr(given, field.name) is not None and field.name not in known:
            raise UnsupportedError(f"{name} has no option {field.name!r}")
