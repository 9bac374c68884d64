"""tokens and llmc: flat arrays of token numbers, as nanoGPT and llm.c use (.bin)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelSpec, Schema, TensorSpec, tensor_of
from lodcli.formats.storage.compression import codec_of, codec_suffix
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.tokens.marks import Mark, MarkChecker
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option, option_name
from lodcli.kernels.tensor.lod_tensor import LoDTensor

LEVEL = "document"
HEADER_INTS = 256
# By magic number: version, dtype.
HEADERS = {20240520: (1, "uint16"), 20240801: (7, "uint32")}
EVALUATION = 20240522
MOST_TOKENS = 2**31 - 1


class Tokens(Format):
    """Only tokens, without a header, little-endian: uint16, or another integer with `--dtype`.

    With `--end-token N` or `--start-token N`, each N ends or begins a document: one level,
    "document"; N remains part of the document. Without these options there are no levels. Writing
    documents takes the same option, and refuses documents that reading would split differently.
    The last document may lack its end token, and the first one its start token.
    """

    name = "tokens"
    max_levels = 1
    dtypes = frozenset({"uint16", "uint32"})
    row_ranks = 0
    options = frozenset({"dtype", "levels", "end_token", "start_token"})
    write_options = frozenset({"end_token", "start_token"})
    empty_file: ClassVar[bool] = True
    any_bytes: ClassVar[bool] = True
    kept_dtypes: ClassVar[frozenset[str] | None] = frozenset({"uint16"})

    def open(self, source: Input, options: ReadOptions) -> Source:
        if _magic(source.head()) in (*HEADERS, EVALUATION):
            raise UnsupportedError(
                f"begins like a file of llm.c; read it with {option('from', 'llmc')}"
            )
        if _is_litdata(source.head(), source.size_bytes):
            raise UnsupportedError(
                "begins like a chunk of LitData, which lod does not read; write its samples to "
                "Parquet"
            )
        dtype = np.dtype(np.uint16) if options.dtype is None else np.dtype(options.dtype)
        if dtype.kind not in "iu":
            raise UnsupportedError(f"tokens must be of an integer dtype, found {dtype}")
        found = _TokensSource(source, options, dtype, count=None)
        notes = []
        if options.dtype is None:
            notes.append(
                "raw token files have no magic number: reading as uint16; "
                f"{option('dtype')} changes it"
            )
        if (codec := codec_of(source.head())) is not None:
            notes.append(
                f"begins like data compressed by {codec}, but is read as token numbers; if it is "
                f"compressed, give a file whose name ends with {codec_suffix(codec)}, or "
                f"the output of {codec} -dc"
            )
        found.notes = tuple(notes)
        return found

    def given_level_names(self, spec: TensorSpec, options: WriteOptions) -> tuple[str, ...]:
        return (LEVEL,)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        _write(output, schema, batches, options)


class LlmC(Tokens):
    """The same behind a header of 256 int32: magic number, version, number of tokens.

    uint16 is written for GPT-2 (magic 20240520), uint32 for Llama 3 (magic 20240801).
    """

    name = "llmc"
    options = frozenset({"levels", "end_token", "start_token"})
    kept_dtypes = None
    empty_file = False
    any_bytes = False
    seekable_output = True

    def sniff(self, head: bytes) -> bool:
        return _magic(head) in (*HEADERS, EVALUATION)

    def open(self, source: Input, options: ReadOptions) -> Source:
        head = source.file.read(4 * HEADER_INTS)
        magic = _magic(head)
        if magic == EVALUATION:
            raise UnsupportedError("is an evaluation file of llm.c, not a run of tokens")
        if magic not in HEADERS:
            raise DamagedFileError(
                f"begins with {magic}; expected the magic number {' or '.join(map(str, HEADERS))}"
            )
        if len(head) < 4 * HEADER_INTS:
            raise DamagedFileError(
                f"is cut off within its header, {len(head)} of 1024 bytes{FETCH_AGAIN}"
            )
        version, count = np.frombuffer(head, "<i4", 2, 4).tolist()
        expected, dtype = HEADERS[magic]
        if version != expected:
            raise UnsupportedError(f"has version {version}; expected {expected}")
        if count < 0:
            raise DamagedFileError(f"announces {count} tokens")
        return _TokensSource(source, options, np.dtype(dtype), count)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        output.write(bytes(4 * HEADER_INTS))
        count = _write(output, schema, batches, options)
        if count > MOST_TOKENS:
            raise UnsupportedError(f"llmc holds at most {MOST_TOKENS} tokens, these are {count}")
        magic, version = next(
            (magic, version)
            for magic, (version, dtype) in HEADERS.items()
            if dtype == schema[0].dtype.name
        )
        output.write_at(np.array([magic, version, count], "<i4").tobytes(), 0)


def _magic(head: bytes) -> int:
    return int.from_bytes(head[:4], "little", signed=True)


def _is_litdata(head: bytes, size_bytes: int | None) -> bool:
    """Return whether a file begins with a count of samples, and their offsets behind these.

    The last offset is the size of the file. It tells a short chunk from tokens.
    """
    numbers = np.frombuffer(head[: len(head) // 4 * 4], "<u4").astype(np.int64)
    if numbers.size < 3 or not numbers[0]:
        return False
    count = numbers[0]
    offsets = numbers[1 : count + 2]
    ends = offsets.size <= count or size_bytes is None or offsets[-1] == size_bytes
    return bool(ends and offsets[0] == 4 * (count + 2) and (np.diff(offsets) > 0).all())


def _write(output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions) -> int:
    """Write all tokens and return how many there are."""
    spec = schema[0]
    mark = Mark.of(options, spec.dtype)
    if spec.levels and mark is None:
        raise UnsupportedError(
            f"holds no levels, {spec.name} has 1, unless a token ends or begins each of its "
            f"items; name it with {option('end-token')} or {option('start-token')}"
        )
    if mark is not None and not spec.levels:
        raise SelectionError(f"{option_name(mark.option)}: {spec.name} has no level to split")
    checker = MarkChecker(spec.name, mark) if mark else None
    count = 0
    for batch in batches:
        tensor = tensor_of(batch[spec.name])
        if checker:
            checker.check(tensor.data, tensor.lod.levels[0])
        data = np.ascontiguousarray(tensor.data, spec.dtype.newbyteorder("<"))
        output.write(data.view(np.uint8).data)
        count += tensor.rows
    return count


class _TokensSource(Source):
    """An open file, positioned at its first token."""

    def __init__(
        self, source: Input, options: ReadOptions, dtype: np.dtype[Any], count: int | None
    ) -> None:
        self._file = source.file
        self._dtype = dtype
        self._count = self._announced = count
        self._mark = Mark.of(options, dtype)
        levels = options.levels or ((LEVEL,) if self._mark else ())
        if len(levels) != (self._mark is not None):
            raise UnsupportedError(
                f"has {int(self._mark is not None)} levels, found {len(levels)} names; "
                f"{option('end-token')} and {option('start-token')} make one"
            )
        self._start = self._file.tell() if source.seekable else None
        if self._start is not None:
            size = os.fstat(self._file.fileno()).st_size - self._start
            self._count = self._checked_count(size)
        specs = tuple(LevelSpec(str(number), name) for number, name in enumerate(levels))
        self.schema = (TensorSpec(DEFAULT_NAME, dtype, (), specs, self._count),)

    def _checked_count(self, size: int) -> int:
        """Return the number of tokens in `size` bytes.

        Raises:
            DamagedFileError: it is not an integer, or differs from the count in the header.
        """
        count, rest = divmod(size, self._dtype.itemsize)
        if rest:
            # The header of llm.c has the dtype.
            other = (
                f"; give another {option('dtype')}, or, if it is truncated, fetch or copy it again"
            )
            raise DamagedFileError(
                f"has {size} bytes of tokens, not a multiple of {self._dtype}"
                f"{other if self._announced is None else FETCH_AGAIN}"
            )
        if self._count is not None and self._count != count:
            cut = "; it is truncated" if self._count > count else ""
            raise DamagedFileError(f"announces {self._count} tokens, has {count}{cut}{FETCH_AGAIN}")
        return count

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        parts = self._blocks(limit_bytes)
        for part in parts if self._mark is None else self._documents(self._mark, parts):
            yield {DEFAULT_NAME: part}

    def _blocks(self, limit_bytes: int) -> Iterator[LoDTensor]:
        """Yield all tokens in blocks, at least one, and check their number."""
        if self._start is not None:
            self._file.seek(self._start)
        size = 0
        most = max(1, limit_bytes // self._dtype.itemsize) * self._dtype.itemsize
        while block := self._file.read(most):
            size += len(block)
            whole = len(block) // self._dtype.itemsize
            found: Array = np.frombuffer(block, self._dtype.newbyteorder("<"), whole)
            yield LoDTensor(found.astype(self._dtype, copy=False))
        self._checked_count(size)
        if not size:
            yield LoDTensor(np.empty(0, self._dtype))

    def _documents(self, mark: Mark, blocks: Iterable[LoDTensor]) -> Iterator[LoDTensor]:
        """Yield whole documents; the last need not be finished."""
        names = self.schema[0].level_names
        begun: list[Array] = []
        any_whole = False
        for block in blocks:
            places = mark.places(block.data)
            cuts = places + sum(part.size for part in begun)
            if cuts.size and cuts[0] == 0:  # no document ends before the first token
                cuts = cuts[1:]
            if not cuts.size:
                begun.append(block.data)
                continue
            rows = np.concatenate([*begun, block.data[: places[-1]]])
            yield LoDTensor(rows, LoD([np.concatenate([[0], cuts])], names))
            any_whole = True
            begun = [block.data[places[-1] :]]
        rows = np.concatenate([np.empty(0, self._dtype), *begun])
        if rows.size or not any_whole:
            yield LoDTensor(rows, LoD.from_lengths([[rows.size] if rows.size else []], names))
