"""An open file: its tensors by name, and its content in batches."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.io import OpenFile, open_file
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.names import listing, split_reference
from lodcli.formats.core.options import ReadKeywords, ReadOptions, read_options
from lodcli.formats.core.schema import ReadItem, by_name, find, find_all, names_of
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.items.indexed_copy import in_place
from lodcli.formats.items.items import Items
from lodcli.formats.items.sharing import sharing
from lodcli.formats.loading.stored_tensor import StoredTensor
from lodcli.kernels.errors import OptionError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.tensor.indexing import item_numbers
from lodcli.kernels.tensor.lod_tensor import LoDTensor

T = TypeVar("T")


class File(Wrapped, Mapping[str, StoredTensor]):
    """An open file: its tensors by name, `file["words"]`, and the methods of a Source.

    It is closed at the end of a `with` block, by `close()`, or when it is deleted. A closed file
    raises UnsupportedError for every read. Several threads may read from one file.

    Args:
        opening: function that opens the file.
    """

    def __init__(self, opening: AbstractContextManager[OpenFile]) -> None:
        with ExitStack() as files:
            found = files.enter_context(opening)
            self._files = files.pop_all()
        # Closed at the latest before the interpreter clears its modules.
        self._closing = weakref.finalize(self, self._files.close)
        super().__init__(found.source)
        self._label = found.input.label
        self._items: dict[tuple[str, int], Items | None] = {}

    def __getitem__(self, name: str) -> StoredTensor:
        """Return a tensor, without reading it.

        Raises:
            SelectionError: there is no tensor of this name; the message lists the names.
        """
        with naming(self._label):
            return StoredTensor(self, find(self.schema, name), self._label, self._gather)

    def __iter__(self) -> Iterator[str]:
        return (spec.name for spec in self.schema)

    def __len__(self) -> int:
        return len(self.schema)

    def __contains__(self, name: object) -> bool:
        return name in by_name(self.schema)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a tensor without reading it, or the default if there is none of this name."""
        return self[name] if name in self else default  # noqa: SIM401 - it is this `get`

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{'closed ' if self.closed else ''}File {self._label}: {listing(self)}>"

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return not self._closing.alive

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Mapping[str, ReadItem]]:
        return self._while_open(lambda source: source.batches(_whole(limit_bytes)))

    def batches_of(
        self, names: Iterable[str], limit_bytes: int = BATCH_BYTES
    ) -> Iterator[Mapping[str, ReadItem]]:
        return self._while_open(
            lambda source: source.batches_of(self._named(names), _whole(limit_bytes))
        )

    def index_parts(self, name: str) -> Iterator[LoD]:
        return self._while_open(lambda source: source.index_parts(find(self.schema, name).name))

    def read(self, names: Iterable[str] | None = None) -> dict[str, ReadItem]:
        with naming(self._label):
            return self._open().read(None if names is None else self._named(names))

    def read_index(self, name: str) -> LoD:
        with naming(self._label):
            return self._open().read_index(find(self.schema, name).name)

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        with naming(self._label):
            if not isinstance(branch, tuple | list):
                raise SelectionError(
                    "a branch is a tuple of numbers and ranges, such as (0, slice(1, 3)); found "
                    f"{branch!r}"
                )
            if type(name) is not str:
                name = find(self.schema, name).name
            return self._open().slice(name, tuple(branch), level)

    def _named(self, names: Iterable[str]) -> list[str]:
        """Return the names of tensors that a caller gives, checked."""
        return [spec.name for spec in find_all(self.schema, names_of(names))]

    def _gather(self, name: str, level: int, part: Any) -> LoDTensor | None:
        """Return the items of a level of a tensor that one part of a key selects.

        Args:
            name: of a tensor that is not a TensorArray.
            level: the number of the level, 0 without levels.
            part: a range, or an array of numbers or booleans.

        Returns:
            None if the file cannot be read in any order.
        """
        with naming(self._label):
            source, place = self._open(), (name, level)
            if place not in self._items:
                self._items[place] = _items(source, name, level)
            items = self._items[place]
            if items is None:
                return None
            (spec,) = items.schema
            found = items.gather(item_numbers(items.lods[name], items.count, part))[name]
            return LoDTensor(found.values, found.lod, spec.marks, found.nulls)

    def close(self) -> None:
        """Close the file; does nothing if it is closed."""
        self._closing()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._closing.detach():
            self._files.__exit__(kind, error, trace)

    def _open(self) -> Source:
        """Return the source; it reads nothing after it was closed.

        The system reuses the number of a closed descriptor for the next open file, which it
        would read.
        """
        if not self._closing.alive:
            raise UnsupportedError(
                f"{self._label}: is closed; read it inside of `with lodcli.open(..)`"
            )
        return self._inner

    def _while_open(self, request: Callable[[Source], Iterator[T]]) -> Iterator[T]:
        """Yield the items of a request until the file is closed."""
        with naming(self._label):
            for part in request(self._open()):
                yield part
                self._open()


def _whole(limit_bytes: int) -> int:
    try:
        return operator.index(limit_bytes)
    except TypeError:
        raise OptionError(
            f"limit_bytes: expected a whole number of bytes, found {limit_bytes!r}"
        ) from None


def _items(source: Source, name: str, level: int) -> Items | None:
    """Return the items of a level of a tensor, or None if only all of it can be read."""
    stored = in_place(source, [name])
    if stored is None:
        return None
    return Items(stored, sharing(stored.schema, name, level).only(name))


def open_source(
    path: PathLike,
    name: str | None = None,
    *,
    format_name: str | None = None,
    options: ReadOptions | None = None,
    limits: Limits | None = None,
    **keywords: Unpack[ReadKeywords],
) -> File:
    """Open a file, or "-" for standard input, of any format: `lodcli.open`.

    Args:
        path: the file; or FILE::NAME, as in the shell.
        name: the only tensor to read: other content of the file need not fit a tensor, and
            `levels` apply to this one only.
        format_name: its format, as in `--from`; None: detected from the content, then the name.
        options: how to read it, as one value; keywords override it.
        limits: limits on size and isolation.
        keywords: options for reading. An option that the format does not have is an error.

            - levels: names of the levels, outermost first, for every format. Inner levels without a
              name must be rectangular, and become axes of the rows. `"day"` is the same as
              `["day"]`, here and below.
            - field: names of the fields or columns to read.
            - dtype: the dtype of numbers, in every format; a value that is not exact in it is an
              error.
            - dtype_unsafe: whether such values are rounded.
            - nulls: how nulls are read, in every format: "keep" (the default); "empty", of lists
              and text; "zero", "nan" or "fill=X", of rows, and lists empty; "drop"; "error".
            - data, offsets, lengths: the arrays of a plain HDF5, npz or safetensors file that
              hold the rows, and the offsets or lengths of each level, outermost first.
            - names: names for the tensors of a Paddle file, which does not name them.
            - vocabulary: a text file with one token per line; words become token numbers.
            - end_token, start_token: the tokens that end and begin a document in a run of tokens.
            - skip_unsupported: whether to leave out content that no tensor can hold; see
              `left_out` of the Source.
            - skip_partitions: whether the names of folders of several files, such as `year=2024`,
              are not read as columns.
            - columns: names of the tensors, or of records, to read, in every format.
            - rename: new names of tensors, or of records, by those in the file, in every format;
              `name` is then a new one.
            - text_levels: "text" or "bytes" mark sequences of uint8 as that, and "text" makes
              categories text; "numbers" leaves bytes and codes, in every format.
            - encoding: of text formats, such as "latin1"; by default UTF-8.
            - separator: the character between the fields of a csv file, or its name: "semicolon".
            - decimal_comma: whether numbers of a csv file have a decimal comma, as in 1,5.
            - text_columns: names of csv columns that are text even if they look like numbers.
            - float_decimals: whether decimals of more than 18 digits, in arrow, parquet and orc,
              become float64.
            - wide: whether the columns of numbers of a csv file are one tensor of rows (H,).
            - part: (k, n), part k, from 0, of n parts of a lod.h5, of about equally many items.
            - mmap: whether `read` may return maps of a lod.h5; see `read`.

    Returns:
        The open file, which `with` closes: its tensors by name, `schema`, `read` and `batches`.
        A closed file raises UnsupportedError for every request but `schema`.

    Raises:
        OSError: it cannot be opened.
        LodError: it is damaged, or of no known format; names the file.
        UnsupportedError: the format does not have an option.
        OptionError, TypeError: a value that an option cannot have, or no such option.
        SelectionError: not as many names of levels as levels; no tensor of this name.

    >>> with open_source("samples/events.jsonl", levels=["day", "hour"], dtype="int16") as file:
    ...     hours = file["data"]
    ...     hours[0, 5].to_list()
    [2, 4, 2, -1, -4, 0]
    """
    chosen = read_options(options, keywords)
    if name is None and isinstance(path, str):
        path, name = split_reference(path)
    file = File(open_file(path, name, format_name=format_name, options=chosen, limits=limits))
    if name is not None:
        with naming(file._label):
            find(file.schema, name)
    return file
