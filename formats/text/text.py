"""text: articles of lines of words, and back."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from lodcli.formats.arrays.budget import ITEM_COPIES, require_fits
from lodcli.formats.core.errors import NotThisFormatError, naming
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.names import shown
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME, Batch, LevelSpec, Schema, TensorSpec, tensor_of
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.text.lines import BYTE_ORDER_MARK, LineReader, nul, wide_text
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor

NAMES = ("article", "sentence", "word")
UNKNOWN = b"<unk>"
# About the size of a cache: larger blocks are slower and take ten times their size in memory.
MOST_BLOCK_BYTES = 2 << 20
# Memory of a token besides its letters: the object, its number and its entry in a dict.
_TOKEN_BYTES = 160
SPACES = b" \t\n\v\f\r"
_IS_SPACE = bytes(byte in SPACES for byte in range(256))
_BLANK_LINE = re.compile(rb"\n[ \t\r\v\f]*\n")
_BLANK_START = re.compile(rb"[ \t\r\v\f]*\n")


class Text(Format):
    """Text as its bytes (uint8), in any encoding.

    The number of level names is the number of levels; by default article, sentence, word:

    - 3: blank lines separate articles, a sentence is a line, a word is a run of bytes other than
      ASCII white space;
    - 2: every line is an item of words; a blank line is an item without words;
    - 1: every line is an item of bytes; only its end (LF or CRLF) is left out.

    With a vocabulary a row is the number of a token (int64), and there is no level of words: 2
    names (article, sentence) or 1. A word that is not in the vocabulary becomes `<unk>`, if the
    vocabulary has that token.

    Text cannot represent an empty word, sentence or article, white space or NUL in a word, or the
    names of levels; writing refuses all of these except names. A byte order mark is left out.
    """

    name = "text"
    max_levels = 3
    min_levels = 1
    dtypes = frozenset(["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
    row_ranks = 0
    empty_file = True
    options = frozenset({"levels", "vocabulary", "encoding"})
    write_options = frozenset({"vocabulary"})
    binary = False

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _TextSource(source, options)

    def given_level_names(self, spec: TensorSpec, options: WriteOptions) -> tuple[str, ...]:
        names = NAMES if options.vocabulary is None else NAMES[:-1]
        return names if len(names) == len(spec.levels) else ()

    def keeps_dtype(self, spec: TensorSpec, options: WriteOptions) -> bool:
        return spec.dtype.name == ("uint8" if options.vocabulary is None else "int64")

    def laid_out(self, schema: Schema, options: WriteOptions) -> Schema:
        for spec in schema if len(schema) == 1 else ():
            numbers = spec.dtype.name in self.dtypes - {"uint8"}
            if options.vocabulary is None and numbers:
                raise UnsupportedError(
                    f"text holds bytes (uint8), {spec.name} is {spec.dtype}; "
                    f"give {option('vocab')} to write token numbers as words"
                )
            if options.vocabulary is not None and len(spec.levels) >= len(NAMES):
                raise UnsupportedError(
                    f"text by a vocabulary holds 2 levels, {spec.name} has {len(spec.levels)}"
                )
        return schema

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        (spec,) = schema
        vocabulary = None if options.vocabulary is None else _Vocabulary(options.vocabulary)
        writer = _Writer(output, len(spec.levels) + (vocabulary is not None))
        for batch in batches:
            tensor = tensor_of(batch[spec.name])
            writer.add(tensor if vocabulary is None else vocabulary.spelled(tensor))


class _TextSource(Source):
    """Open text. Each article must fit in memory, but not the file."""

    def __init__(self, source: Input, options: ReadOptions) -> None:
        self._vocabulary = None if options.vocabulary is None else _Vocabulary(options.vocabulary)
        most = len(NAMES) - (self._vocabulary is not None)
        names = NAMES[:most] if options.levels is None else options.levels
        if not 1 <= len(names) <= most:
            raise UnsupportedError(f"text has 1 to {most} levels here, found {len(names)} names")
        self._depth = len(names) + len(NAMES) - most
        levels = tuple(LevelSpec(str(level), name) for level, name in enumerate(names))
        dtype = np.dtype(np.uint8 if self._vocabulary is None else np.int64)
        spec = TensorSpec(DEFAULT_NAME, dtype, levels=levels)
        self._empty = spec.empty()
        self.schema = (spec,)
        if options.encoding is None:
            _refuse_nul(source.head(), 0)
        self._reader = LineReader(source, utf_8=False, encoding=options.encoding)

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        self._reader.restart()
        lines, place, found = 0, self._reader.mark_bytes, False
        for block in self._blocks(min(limit_bytes, MOST_BLOCK_BYTES)):
            _refuse_nul(block, place)
            tensor = self._tensor(block, lines)
            lines += block.count(b"\n")
            place += len(block)
            if len(tensor):
                found = True
                yield {DEFAULT_NAME: tensor}
        if not found:
            yield {DEFAULT_NAME: self._empty}

    def _blocks(self, limit_bytes: int) -> Iterator[bytes]:
        """Yield the text in pieces of whole outermost items."""
        begun: list[bytes] = []
        begun_bytes = 0
        block = self._reader.block(limit_bytes)
        while block:
            following = self._reader.block(limit_bytes)
            # The last article ends with the text, so that a small text is one piece.
            end = _articles_end(block) if following and self._depth == 3 else len(block)
            if end:
                yield b"".join([*begun, block[:end]])
                begun, begun_bytes = [], 0
            if end < len(block):
                begun.append(block[end:])
                begun_bytes += len(block) - end
                require_fits("an article", begun_bytes, ITEM_COPIES, whole=False)
            block = following

    def _tensor(self, block: bytes, lines_before: int) -> LoDTensor:
        """Return the tensor of whole items."""
        names = self._empty.lod.names
        if self._depth == 1:
            block = block.replace(b"\r\n", b"\n")
            rows = np.frombuffer(block.replace(b"\n", b""), np.uint8)
            # A line has a row for each byte except its end.
            ends = _line_ends(block)
            return LoDTensor(rows, LoD([_from_zero(ends - np.arange(ends.size))], names))
        edges = _word_edges(block)
        starts, ends = edges[::2], edges[1::2]
        line_ends = _line_ends(block)
        levels = _levels(np.searchsorted(starts, line_ends), articles=self._depth == 3)
        if self._vocabulary is None:
            offsets = np.zeros(ends.size + 1, np.int64)
            np.subtract(ends, starts, out=offsets[1:])
            del edges, starts, ends  # of a line that is large, these take most of the memory
            np.cumsum(offsets, out=offsets)
            letters = np.frombuffer(block.translate(None, SPACES), np.uint8)
            return LoDTensor(letters, LoD([*levels, immutable(offsets)], names))
        words = block.split()
        try:
            ids = self._vocabulary.numbers(words)
        except KeyError:
            first = self._vocabulary.first_unknown(words)
            line = lines_before + 1 + int(np.searchsorted(line_ends, starts[first]))
            raise InvalidDataError(
                f"line {line}: {shown(words[first])} is not in the vocabulary; "
                f"add the line {UNKNOWN.decode()} to it to read such words as that"
            ) from None
        return LoDTensor(ids, LoD(levels, names))


def _articles_end(block: bytes) -> int:
    """Return where the last blank line of `block`, whole lines, ends; 0 if it has none."""
    for blank in (b"\n\n", b"\n\r\n"):
        found = block.rfind(blank)
        if found >= 0:
            return found + len(blank)
    end = 0
    if first := _BLANK_START.match(block):
        end = first.end()
    for match in _BLANK_LINE.finditer(block):
        end = match.end()
    return end


def _word_edges(block: bytes) -> Offsets:
    """Return where each word of `block` starts and ends."""
    space = np.ones(len(block) + 2, np.bool_)
    space[1:-1] = np.frombuffer(block.translate(_IS_SPACE), np.bool_)
    return np.flatnonzero(space[1:] != space[:-1])


def _line_ends(block: bytes) -> Offsets:
    """Return where each line of `block` ends; the last may lack its end."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    return ends if block.endswith(b"\n") or not block else np.append(ends, len(block))


def _from_zero(ends: Offsets) -> Offsets:
    return np.concatenate([np.zeros(1, np.int64), ends])


def _levels(words_until: Offsets, *, articles: bool) -> list[Offsets]:
    """Return the levels above the words, from the number of words before each line's end."""
    if not articles:
        return [_from_zero(words_until)]
    written = np.diff(words_until, prepend=0) > 0
    begins = written & ~np.concatenate([[False], written[:-1]])
    firsts = np.flatnonzero(begins[written])
    sentences = np.append(firsts, np.count_nonzero(written))
    return [sentences, _from_zero(words_until[written])]


def vocabulary_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a vocabulary without their ends, which are \\n or \\r\\n.

    Size and length of lines are limited: a device may have no end, and no line ends.

    Raises:
        TooLargeError: more than fits into the memory budget.
    """
    size_bytes = pending_bytes = 0
    with path.open("rb") as file:
        lines = iter(functools.partial(file.readline, MOST_BLOCK_BYTES), b"")
        for number, line in enumerate(lines, 1):
            if len(line) == MOST_BLOCK_BYTES and not line.endswith(b"\n"):
                raise InvalidDataError(
                    f"line {number}: {shown(line)} is not a token; expected one word of less "
                    f"than {MOST_BLOCK_BYTES} bytes"
                )
            pending_bytes += len(line) + _TOKEN_BYTES
            if pending_bytes >= MOST_BLOCK_BYTES:
                size_bytes, pending_bytes = size_bytes + pending_bytes, 0
                require_fits(f"line {number}", size_bytes, 1)
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if line:
                yield line.removesuffix(b"\n").removesuffix(b"\r")


class _Vocabulary:
    """Tokens, one per line of a file; a token's number is its line, from 0."""

    def __init__(self, path: Path) -> None:
        self.tokens: list[bytes] = []
        with naming(str(path)):
            self._numbers: dict[bytes, int] = {}
            for number, token in enumerate(vocabulary_lines(path)):
                if token.split() != [token] or b"\0" in token:
                    raise InvalidDataError(
                        f"line {number + 1}: {shown(token)} is not a token; expected one word"
                    )
                if token in self._numbers:
                    raise InvalidDataError(
                        f"line {number + 1}: {shown(token)} is also "
                        f"on line {self._numbers[token] + 1}"
                    )
                self._numbers[token] = number
                self.tokens.append(token)
        self._unknown = self._numbers.get(UNKNOWN)
        self._bytes = np.frombuffer(b"".join(self.tokens), np.uint8)
        self._sizes = np.fromiter(map(len, self.tokens), np.int64, len(self.tokens))
        self._starts = np.cumsum(self._sizes) - self._sizes

    def numbers(self, words: list[bytes]) -> Array:
        """Return the number of each word. Raises KeyError if one is unknown."""
        known, unknown = self._numbers, self._unknown
        if unknown is None:
            return np.fromiter(map(known.__getitem__, words), np.int64, len(words))
        return np.fromiter([known.get(word, unknown) for word in words], np.int64, len(words))

    def first_unknown(self, words: list[bytes]) -> int:
        return next(place for place, word in enumerate(words) if word not in self._numbers)

    def spelled(self, tensor: LoDTensor) -> LoDTensor:
        """Return the tensor with words, as their bytes, in place of token numbers."""
        # Compared in their own dtype: as int64, a large uint64 would be negative.
        wrong = (tensor.data < 0) | (tensor.data >= len(self.tokens))
        if wrong.any():
            raise InvalidDataError(
                f"token {tensor.data[np.argmax(wrong)]} is not in the vocabulary "
                f"of {len(self.tokens)} tokens (0 to {len(self.tokens) - 1})"
            )
        ids = tensor.data.astype(np.int64)
        offsets = _from_zero(np.cumsum(self._sizes[ids]))
        source = np.repeat(self._starts[ids] - offsets[:-1], self._sizes[ids])
        letters = self._bytes[source + np.arange(source.size)]
        return LoDTensor(letters, LoD([*tensor.lod.levels, offsets]))


class _Writer:
    """Writes tensors of bytes, of one depth, so that they can be read back exactly."""

    def __init__(self, output: Output, depth: int) -> None:
        self._output = output
        self._depth = depth
        self._done = [0] * depth
        self._begun = False

    def add(self, tensor: LoDTensor) -> None:
        self._check(tensor)
        levels = tensor.lod.levels
        letters, ends = np.ascontiguousarray(tensor.data), levels[-1]
        if self._depth == 1:
            self._write(_joined(letters, ends, np.zeros(0, np.int64), b"\n" * len(tensor)))
        else:
            words = levels[-1].size - 1
            marks = np.full(words, ord(" "), np.uint8)
            lasts = levels[-2][1:][np.diff(levels[-2]) > 0] - 1
            marks[lasts] = ord("\n")
            if self._depth == 2:
                lone = levels[0][:-1][np.diff(levels[0]) == 0]
            else:
                lone = levels[1][levels[0][:-1]]
                lone = lone if self._begun else lone[1:]
            self._write(_joined(letters, ends, lone, marks.tobytes()))
        for level, offsets in enumerate(levels):
            self._done[level] += offsets.size - 1

    def _write(self, text: bytes) -> None:
        if text and not self._begun:
            self._begun = True
            if text.startswith(BYTE_ORDER_MARK):
                raise UnsupportedError(
                    "text cannot begin with a byte order mark: it is left out when read"
                )
        self._output.write(text)

    def _check(self, tensor: LoDTensor) -> None:
        """Raise UnsupportedError for content that would not be read back."""
        letters, levels = np.ascontiguousarray(tensor.data), tensor.lod.levels
        # Lines may be empty where every line is an item.
        for level in range(1 if self._depth < 3 else 0, len(levels)):
            empty = np.diff(levels[level]) == 0
            if empty.any():
                item = self._done[level] + int(np.argmax(empty))
                raise UnsupportedError(f"text holds no empty {self._kind(level)}; {item} is empty")
        refused = (b"\n" if self._depth == 1 else SPACES) + b"\0"
        text = letters.tobytes()
        if len(text.translate(None, refused)) < len(text):
            place = int(np.argmax(np.isin(letters, np.frombuffer(refused, np.uint8))))
            self._refuse(levels[-1], letters, place)
        if self._depth == 1:
            lasts = levels[0][1:][np.diff(levels[0]) > 0] - 1
            returns = letters[lasts] == ord("\r")
            if returns.any():
                self._refuse(levels[0], letters, int(lasts[np.argmax(returns)]))

    def _refuse(self, offsets: Offsets, letters: Array, place: int) -> None:
        item = self._done[-1] + int(np.searchsorted(offsets, place, side="right")) - 1
        byte = bytes([letters[place]])
        where = "at its end" if byte == b"\r" and self._depth == 1 else "in it"
        raise UnsupportedError(
            f"text holds no {self._kind(-1)} with {byte!r} {where}; {item} has that"
        )

    def _kind(self, level: int) -> str:
        return "line" if self._depth == 1 else NAMES[len(NAMES) - self._depth :][level]


def _joined(letters: Array, ends: Offsets, lone: Offsets, marks: bytes) -> bytes:
    r"""Return pieces of text, each followed by its mark.

    Args:
        letters: the bytes of all pieces, one after another.
        ends: offsets of the pieces.
        lone: numbers of pieces preceded by an extra "\n"; ascending, may repeat.
        marks: one byte per piece.
    """
    count = ends.size - 1
    pieces = np.arange(count)
    at = ends[1:] + pieces + np.searchsorted(lone, pieces, side="right")
    alone = ends[lone] + lone + np.arange(lone.size)
    text = np.empty(letters.size + count + lone.size, np.uint8)
    keep = np.ones(text.size, np.bool_)
    keep[at] = keep[alone] = False
    text[at] = np.frombuffer(marks, np.uint8)
    text[alone] = ord("\n")
    text[keep] = letters
    return text.tobytes()


def _refuse_nul(block: bytes, place: int) -> None:
    found = block.find(b"\0")
    if found >= 0:
        wide = wide_text(block[:4]) if place == 0 else None
        raise NotThisFormatError(wide or f"byte {place + found} is {nul()}")
