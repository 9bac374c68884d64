"""Interface of a format: a name, its capabilities, a reader and a writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn

import numpy as np

from lodcli.formats.catalogue.packages import Package
from lodcli.formats.choosing.choice import Choice
from lodcli.formats.core.errors import DamagedFileError, TooLargeError, naming
from lodcli.formats.core.names import listing
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import (
    MOST_LEVELS,
    Batch,
    Item,
    ReadItem,
    Schema,
    TensorSpec,
    find_all,
    schema_html,
)
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.dtypes import ALL_DTYPES, dtype_name
from lodcli.kernels.errors import (
    InvalidDataError,
    LodError,
    SelectionError,
    UnsupportedError,
    counted,
)
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import ALL_MARKS

# Large enough to amortise the work per batch. Allocations of 32 MB and more would be mapped anew
# each time, page by page; smaller ones are not, which halves the time of reading.
BATCH_BYTES = 8 << 20

# By the name of unsupported content: the reason.
LeftOut = dict[str, LodError]


@contextmanager
def leaving_out(left_out: LeftOut, name: str) -> Iterator[None]:
    """Record a part of a file that no tensor can hold, and continue with the others."""
    try:
        yield
    except (DamagedFileError, TooLargeError):
        raise
    except (UnsupportedError, InvalidDataError) as error:
        left_out[name] = error


class RowBlocks(NamedTuple):
    """A tensor being read: its index, and its rows block by block, verified.

    Attributes:
        lod: the index.
        rows: the number of rows.
        blocks: the number of each block's first row, and its rows: a view of the caller's memory.
    """

    lod: LoD
    rows: int
    blocks: Iterator[tuple[int, Array]]


class StoredRows(NamedTuple):
    """Rows stored uncompressed, for readers that access the file directly.

    Attributes:
        lod: the index.
        rows: how many rows there are; at least one, of at least one byte.
        fd: the open file; owned by the source.
        offset: where in the file they begin.
        block_bytes: bytes per checksum; at most the size of all rows; the last block may be short.
        check: raises the errors that reading here would raise. Takes the CRC32C of every block,
            (blocks,) uint32, and the maximum byte of booleans, 0 for other dtypes.
    """

    lod: LoD
    rows: int
    fd: int
    offset: int
    block_bytes: int
    check: Callable[[Array, int], None]


class Source(ABC):
    """An open file of some format. `schema` is available at once, rows are read on demand.

    Attributes:
        schema: the tensors of the file; counts that are unknown before the end are None.
        checksums: the checksums verified in this file, valid after everything was read, if they
            differ between files of the format; else None. See Format.
        left_out: content that no tensor can hold, if other parts of the file can be read.
        notes: notes for the user about the file; complete once everything is read.
        records: whether every batch holds all tensors with equally many outermost items, as the
            fields of records have.
        equal_items: whether its tensors have equally many outermost items, as those of records.
        has_keys: whether it has the columns in the names of its folders; see WithColumns.
        untyped: whether it has no values, from which its format would infer the dtypes.
        valueless: names of tensors with nothing but nulls and empty lists, for the same reason;
            their dtypes, and levels below, are assumed.
        attributes: of the file as a whole, a JSON object.
    """

    schema: Schema
    checksums: str | None = None
    left_out: LeftOut = {}  # noqa: RUF012 - replaced, never changed
    notes: Sequence[str] = ()
    records: bool = False
    equal_items: bool = False
    has_keys: bool = False
    untyped: bool = False
    valueless: frozenset[str] = frozenset()
    attributes: Mapping[str, Any] = {}

    def _repr_html_(self) -> str:
        return schema_html(self.schema)

    def refuse_left_out(self, name: str | None = None, *, fields: bool = False) -> None:
        """Raise the error of a left-out part, or of a part of that name.

        Args:
            name: of a tensor or records; None for any.
            fields: whether one field of these records is enough.
        """
        for one, error in self.left_out.items():
            if name is None or one == name or (fields and one.startswith(f"{name}.")):
                raise error

    @abstractmethod
    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Mapping[str, ReadItem]]:
        """Yield all content in order, as batches of whole outermost items.

        Each batch holds about `limit_bytes` of rows, but at least one item; tensors that
        share their outermost level come together. Every tensor appears at least once,
        with no items if it has none. TensorArrays come whole. Checks what it yields.
        """

    def batches_of(
        self, names: Iterable[str], limit_bytes: int = BATCH_BYTES
    ) -> Iterator[Mapping[str, ReadItem]]:
        """Yield the batches of some tensors, perhaps with others among them.

        A format that can skip the others does.
        """
        return self.batches(limit_bytes)

    def chosen_batches(
        self, names: Iterable[str], choice: Choice, limit_bytes: int = BATCH_BYTES
    ) -> Iterator[tuple[int, Mapping[str, ReadItem]]]:
        """Yield `batches_of` of records, each with the number of its first item.

        A format that can leave out parts without chosen items does. The others are whole.
        """
        first = 0
        for batch in self.batches_of(names, limit_bytes):
            yield first, batch
            first += len(next(iter(batch.values())))
            if first >= choice.span.stop:
                return

    def read(self, names: Iterable[str] | None = None) -> dict[str, ReadItem]:
        """Return the content in memory."""
        wanted = [spec.name for spec in self.schema] if names is None else list(names)
        find_all(self.schema, wanted)
        return joined(self.schema, self.batches_of(wanted), wanted)

    def row_blocks(self, name: str, buffer: Callable[[int], Array], block_bytes: int) -> RowBlocks:
        """Return a tensor's index, and its rows in order in the caller's memory.

        Args:
            name: of a tensor that is not a TensorArray.
            buffer: called with a number of bytes; returns a uint8 array, at least as large, for the
                next block.
            block_bytes: approximate size of a block.
        """
        item = self.read([name])[name]
        assert isinstance(item, LoDTensor)
        return RowBlocks(item.lod, item.rows, _copied(item.data, buffer, block_bytes))

    def stored_rows(self, name: str) -> StoredRows | None:
        """Return the position of a tensor's rows, unchecked; None if only `self` can read them.

        Args:
            name: of a tensor that is not a TensorArray.
        """
        return None

    def read_index(self, name: str) -> LoD:
        """Return the index of one tensor; no more of the file is read than needed."""
        item = self.read([name])[name]
        return item.lod if isinstance(item, LoDTensor) else item.array.steps.lod

    def index_parts(self, name: str) -> Iterator[LoD]:
        """Yield the index of one tensor in parts of whole outermost items; at least one.

        If the format allows it, only a part of a large index is in memory.
        """
        yield self.read_index(name)

    def index_parts_of(self, names: Iterable[str]) -> Iterator[tuple[str, LoD]]:
        """Yield the parts of the index of several tensors, each with the name of the tensor.

        Those of one tensor are as in `index_parts`; those of others may be between them.
        """
        for name in names:
            for part in self.index_parts(name):
                yield name, part

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        """Return a slice of one tensor; see `lodcli.kernels.index.selection.select`.

        No more of the file is read than the index and the blocks the slice touches, where
        the format allows it.
        """
        item = self.read([name])[name]
        if not isinstance(item, LoDTensor):
            raise SelectionError(f"{name} is a TensorArray; `lod pack` it to slice it")
        return item.select(*branch, level=level)

    @property
    def partial(self) -> bool:
        """Whether the index, or a slice, is read without reading everything."""
        return type(self).slice is not Source.slice

    def close(self) -> None:  # noqa: B027 - most sources hold nothing but their Input
        """Release the resources of the source."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an open file cannot be copied or pickled; pass its path, and open it in each process"
        )


class SelectiveSource(Source):
    """A source that reads some tensors without the others. A subclass defines `batches_of`."""

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return self.batches_of([spec.name for spec in self.schema], limit_bytes)

    @abstractmethod
    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """See Source."""


def _copied(
    data: Array, buffer: Callable[[int], Array], block_bytes: int
) -> Iterator[tuple[int, Array]]:
    if not data.nbytes:
        return
    step = max(1, block_bytes // data[:1].nbytes)
    for first in range(0, len(data), step):
        part = data[first : first + step]
        rows = buffer(part.nbytes)[: part.nbytes].view(part.dtype).reshape(part.shape)
        np.copyto(rows, part)
        yield first, rows


def joined(
    schema: Schema, batches: Iterable[Batch], names: Iterable[str] | None = None
) -> dict[str, Item]:
    """Return batches as whole tensors, all or those of these names, in memory.

    >>> from lodcli.formats.core.schema import schema_of
    >>> words = LoDTensor([10, 11, 20], [[2, 1]])
    >>> joined(schema_of({"data": words}), [{"data": words[:1]}, {"data": words[1:]}])["data"].lod
    LoD.from_lengths([[2, 1]])
    """
    wanted = [spec.name for spec in schema] if names is None else list(names)
    parts: dict[str, list[LoDTensor]] = {name: [] for name in wanted}
    whole: dict[str, Item] = {}
    for batch in batches:
        for name, item in batch.items():  # each may hold one tensor of very many
            if name not in parts:
                continue
            if isinstance(item, LoDTensor):
                parts[name].append(item)
            else:
                whole[name] = item
    tensors = _joined(schema, parts)
    return {name: whole[name] if name in whole else tensors[name] for name in wanted}


def _joined(schema: Schema, parts: dict[str, list[LoDTensor]]) -> dict[str, LoDTensor]:
    """Return each tensor's batches as one; tensors with equal levels share one index."""
    result: dict[str, LoDTensor] = {}
    shared: dict[tuple[str, ...], LoDTensor] = {}
    for spec in schema:
        if not parts.get(spec.name):
            continue
        tensor = LoDTensor.concatenate(parts[spec.name])
        key = tuple(level.key for level in spec.levels)
        if key and key in shared and shared[key].lod.names == tensor.lod.names:
            tensor = LoDTensor(tensor.values, shared[key].lod, tensor.marks, tensor.nulls)
        shared.setdefault(key, tensor)
        result[spec.name] = tensor
    return result


@dataclass(frozen=True)
class Stored:
    """A file that may be copied.

    Attributes:
        source: the open file.
        passing: a function that iterates over the rows and bytes as they are copied, and adds
            the file name to errors.
    """

    source: Source
    passing: Callable[[Iterator[tuple[int, int]]], Iterator[object]]


class Format(ABC):
    """A file format: its capabilities, its reader and its writer.

    Attributes:
        name: as in `--from` and `--to`.
        endings: file extensions of a plug-in, lower case, with the dot; lod's are in `table.TABLE`.
        max_levels: maximum number of levels of a tensor; None for any, up to `deepest`.
        min_levels: minimum number of levels.
        deepest: see `max_levels`.
        dtypes: names of the dtypes it holds.
        row_ranks: maximum number of dimensions of a row; None for any.
        many: whether it holds several named tensors.
        table: whether it is one table with a value in each cell; then all tensors need the same
            levels and lengths.
        arrays: whether it holds TensorArrays.
        level_names: whether the file holds the names of levels.
        kept_dtypes: those of `dtypes` that reading restores; None for all.
        row_shapes: whether the file distinguishes the shape of a row from another level.
        kept_marks: the marks of values that reading restores.
        nulls: whether it holds null rows and items.
        attributes: whether it holds attributes of tensors.
        file_attributes: whether it holds attributes of the file as a whole; `write` gets them in
            its options.
        structs: whether it holds records of tensors; see docs/decisions/0062-records.md.
        null_lists: with `nulls`, whether lists may be null, and not only numbers and text.
        keeps_null_texts: with `nulls`, whether null texts are read as such without options.
        empty_file: whether a file of no bytes is valid, as a tensor without items.
        any_bytes: whether a file may begin with any bytes; then only a name says that it is
            compressed, also of a pipe.
        record: the unit made of one outermost item of every tensor, such as a line; all tensors
            then need the same number of items. "" if not required.
        options: names of the ReadOptions fields it understands.
        write_options: names of the WriteOptions fields it understands.
        seekable_output: whether its writer needs to seek.
        binary: whether its files are binary; False for text.
        streams: whether only some batches are in memory while it is read or written.
        read_only: why it cannot be written; "" if it can.
        needs: the optional packages that it needs.
        packed: whether a file may be compressed as a whole, by its extension; always true for text
            formats.
        checksums: description for `lod verify` of the checksums that reading verifies, such as
            "CRC-32 of every array"; "" if there are none.
        layout: what it is stored as: a file; several files beside each other, of which
            `open` and `write` get one, and the others by `Input.beside` and `Output.part`;
            or a folder, whose files they get in the same way. How they are recognised is in
            `table.TABLE`. Neither goes through a pipe.
        folder_files: for a folder, a regular expression of all the names it may hold; a
            folder that holds others is never replaced.
        modules: modules that reading imports late; see formats/sandbox/source.py.
        descriptors: number of descriptors that reading duplicates; for the sandbox as well.
        isolated: whether it is always read in a child process, because a damaged file can make a
            library hang.
    """

    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()
    max_levels: ClassVar[int | None] = None
    min_levels: ClassVar[int] = 0
    deepest: ClassVar[int] = MOST_LEVELS
    dtypes: ClassVar[frozenset[str]] = ALL_DTYPES
    row_ranks: ClassVar[int | None] = None
    many: ClassVar[bool] = False
    table: ClassVar[bool] = False
    arrays: ClassVar[bool] = False
    level_names: ClassVar[bool] = False
    kept_dtypes: ClassVar[frozenset[str] | None] = None
    row_shapes: ClassVar[bool] = True
    kept_marks: ClassVar[frozenset[str]] = frozenset()
    nulls: ClassVar[bool] = False
    attributes: ClassVar[bool] = False
    file_attributes: ClassVar[bool] = False
    structs: ClassVar[bool] = False
    null_lists: ClassVar[bool] = True
    keeps_null_texts: ClassVar[bool] = True
    empty_file: ClassVar[bool] = False
    any_bytes: ClassVar[bool] = False
    record: ClassVar[str] = ""
    options: ClassVar[frozenset[str]] = frozenset()
    write_options: ClassVar[frozenset[str]] = frozenset()
    seekable_output: ClassVar[bool] = False
    binary: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    read_only: ClassVar[str] = ""
    needs: ClassVar[tuple[Package, ...]] = ()
    packed: ClassVar[bool] = False
    checksums: ClassVar[str] = ""
    layout: ClassVar[Literal["file", "files", "folder"]] = "file"
    folder_files: ClassVar[str] = ""
    modules: ClassVar[tuple[str, ...]] = ()
    descriptors: ClassVar[int] = 0
    isolated: ClassVar[bool] = False

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins like this is certainly of this format.

        Of the built-in formats, called only for heads with one of `marks` in `table.TABLE`.
        """
        return False

    def stored_bytes(self, source: Input) -> int | None:
        """Return the stored size of the file, or of all files in the folder; None if unknown.

        It is unknown for a pipe, and for several files of which only the format knows the others.
        The default limit on the decompressed size is a multiple of it; None: no limit.
        """
        if source.is_folder:
            return source.listed.size_bytes()
        return source.stored_bytes if self.layout == "file" else None

    @abstractmethod
    def open(self, source: Input, options: ReadOptions) -> Source:
        """Return the open file. Raises lod's errors; the caller adds the file name."""

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        """Write everything to `output`, without committing it."""
        raise NotImplementedError(f"{self.name} defines neither write nor read_only")

    def copy(
        self, output: Output, source: Source, options: WriteOptions
    ) -> Generator[tuple[int, int], None, None] | None:
        """Write all of a source to `output`, as it is stored, without committing it.

        Yields numbers of rows, and their bytes, as they are copied. The result is that of `write`
        with all batches of the source.

        Returns:
            None, before anything is written, if the source cannot be copied as it is stored.
        """
        return None

    def require(self, use: Literal["reading", "writing"]) -> None:
        """Raise UnsupportedError if the format, or a missing package, does not allow this use."""
        if use == "writing" and self.read_only:
            raise UnsupportedError(f"{self.name} is read-only: {self.read_only}")
        for package in self.needs:
            if package.use in ("", use):
                package.require(f"{use} {self.name}")

    # What reading without options does not return: see losses.py.

    def lost_tensor_names(self, schema: Schema) -> Iterable[str]:
        """Return the names of tensors that the file does not store.

        Only called for several tensors: a single one needs no name, reading calls it "data".
        """
        return ()

    def laid_out(self, schema: Schema, options: WriteOptions) -> Schema:
        """Return the tensors as the file stores them with these options."""
        return schema

    def given_level_names(self, spec: TensorSpec, options: WriteOptions) -> tuple[str, ...]:
        """Return the names that reading gives the levels of a tensor, the finest last."""
        return ()

    def keeps_level_name(self, spec: TensorSpec, level: int) -> bool:
        """Return whether a format with `level_names` stores the name of this level."""
        return True

    def lost_levels(self, spec: TensorSpec) -> Iterable[int]:
        """Return the levels of a tensor that the file does not store."""
        return ()

    def keeps_dtype(self, spec: TensorSpec, options: WriteOptions) -> bool:
        """Return whether the format stores the dtype of a tensor."""
        return self.kept_dtypes is None or dtype_name(spec.dtype) in self.kept_dtypes

    def keeps_marks(self, spec: TensorSpec) -> bool:
        """Return whether the format stores the marks of a tensor."""
        return spec.marks.kind is None or spec.marks.kind in self.kept_marks

    def refuse_unheld(self, schema: Schema) -> None:
        """Raise UnsupportedError if a tensor cannot be stored, before anything is written."""
        if len(schema) > 1 and not self.many:
            names = listing(spec.name for spec in schema)
            raise UnsupportedError(
                f"{self.name} holds one tensor, this has {len(schema)} ({names}); "
                "choose one with FILE::NAME"
            )
        for spec in schema:
            self._refuse_spec(spec)
        if self.record:
            self.require_equal({s.name: s.items for s in schema if s.items is not None})

    def require_equal(self, items: Mapping[str, int]) -> None:
        """Raise UnsupportedError unless all tensors have equally many outermost items.

        Args:
            items: number of items of each tensor, if known.
        """
        if len(set(items.values())) > 1:
            found = listing(f"{name} has {count}" for name, count in items.items())
            raise UnsupportedError(
                f"{self.name} holds tensors with the same number of outermost items, one per "
                f"{self.record}; {found}; choose one with FILE::NAME, or those with as many items "
                "with lod select"
            )

    def _refuse_spec(self, spec: TensorSpec) -> None:
        depth = len(spec.levels)
        if spec.array and not self.arrays:
            raise UnsupportedError(
                f"{self.name} holds no TensorArray, {spec.name} is one; `lod pack` it first"
            )
        if depth > (most := self.deepest if self.max_levels is None else self.max_levels):
            held = ("at most " if self.max_levels is None else "") + counted(most, "level")
            raise UnsupportedError(f"{self.name} holds {held}, {spec.name} has {depth}")
        if depth < self.min_levels:
            needed = counted(self.min_levels, "level")
            raise UnsupportedError(f"{self.name} needs {needed}, {spec.name} has {depth}")
        if dtype_name(spec.dtype) not in self.dtypes:
            raise UnsupportedError(
                f"{self.name} holds no {spec.dtype.name}; {spec.name} has that dtype"
                f"{self._cast_for(spec)}"
            )
        if self.row_ranks is not None and len(spec.row_shape) > self.row_ranks:
            raise UnsupportedError(
                f"{self.name} holds rows of at most {counted(self.row_ranks, 'dimension')}, "
                f"those of {spec.name} have shape {spec.row_shape}"
            )

    def _cast_for(self, spec: TensorSpec) -> str:
        """Return the cast to a supported dtype, lossless if there is one; "" for no numbers."""
        if spec.marks.kind is not None:
            return ""
        kinds = "iu" if spec.dtype.kind in "biu" else "f" if spec.dtype.kind in "fV" else "c"
        # Only bfloat16 values fit into bfloat16, which NumPy may not know yet.
        held = [one for one in map(np.dtype, self.dtypes - {"bfloat16"}) if one.kind in kinds]
        exact = [one for one in held if np.can_cast(spec.dtype, one)]
        if not exact:
            wide = sorted(one.name for one in held if one.itemsize == 8) or sorted(self.dtypes)
            return f"; lod cast makes it {' or '.join(wide)}, if all values fit" if held else ""
        best = min(exact, key=lambda one: (one.itemsize, one.name))
        return f"; lod cast makes it {best.name}"


class AnnotatedFormat(Format):
    """Base of the formats of many tensors that keep all marks, nulls, attributes and structs."""

    many = True
    kept_marks = ALL_MARKS
    nulls = True
    attributes = file_attributes = True
    structs = True


def named_batches(label: str, batches: Callable[[], Iterator[Batch]]) -> Iterator[Batch]:
    """Yield the batches of `batches()`, with errors prefixed by the file."""
    with naming(label):
        yield from batches()
