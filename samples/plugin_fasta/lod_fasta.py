"""FASTA: titles and sequences of DNA, RNA or proteins, as text. An example of a plug-in for lod.

>sp|P01308|INS_HUMAN Insulin
MALWMRLLPLLALLALWGPDPAAAFVNQHLCGSHLVEALYLVCGERGFFYTPKTRREAED
LQVGQVELGGGPGAGSLQPLALEGSLQKRGIVEQCCTSICSLYQLENYCN
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from lodcli import InvalidDataError, LoD, LoDTensor, Marks, UnsupportedError
from lodcli.formats import (
    Batch,
    Format,
    Input,
    LevelSpec,
    Output,
    ReadOptions,
    Schema,
    Source,
    TensorSpec,
    WriteOptions,
)

TEXT = Marks("text")
DATA, TITLE = "data", "title"
LINE_LETTERS = 60
_LETTERS = bytes(range(33, 127)).replace(b">", b"")


class Fasta(Format):
    """Records of a title and a sequence: the tensors "title" and "data", both text.

    Writing takes "data", or both; without titles records are numbered from 1. Lines have 60
    letters, as Biopython writes them.
    """

    name = "fasta"
    endings = (".fasta", ".fa", ".fna", ".faa")
    min_levels = max_levels = 1
    dtypes = frozenset({"uint8"})
    row_ranks = 0
    many = True
    kept_marks = frozenset({"text"})
    empty_file = True
    record = "record"
    binary = False

    def sniff(self, head: bytes) -> bool:
        title, _, rest = head.partition(b"\n")
        line = rest.partition(b"\n")[0].rstrip()
        return title.startswith(b">") and (line[:1] == b">" or not line.translate(None, _LETTERS))

    def open(self, source: Input, options: ReadOptions) -> Source:
        return FastaSource(source)

    def refuse_unheld(self, schema: Schema) -> None:
        super().refuse_unheld(schema)
        for spec in schema:
            if spec.name not in (DATA, TITLE) or (len(schema) == 1 and spec.name == TITLE):
                raise UnsupportedError(
                    f"fasta holds the tensors data and title, found {spec.name}; "
                    "`lod rename` gives them other names"
                )
            if spec.marks != TEXT:
                raise UnsupportedError(
                    f"fasta holds text, {spec.name} holds numbers; `lod convert --text-levels text`"
                )

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        # Tensors may come one after another: a record is written once both have their part.
        waiting: dict[str, list[bytes]] = {spec.name: [] for spec in schema}
        done = 0
        for batch in batches:
            for name, item in batch.items():
                waiting[name] += texts(item)
            ready = min(map(len, waiting.values()))
            for number in range(ready):
                sequence = waiting[DATA][number]
                title = waiting[TITLE][number] if TITLE in waiting else b"%d" % (done + number + 1)
                output.write(record(title, sequence, done + number))
            for found in waiting.values():
                del found[:ready]
            done += ready
        self.require_equal({name: done + len(found) for name, found in waiting.items()})


def record(title: bytes, sequence: bytes, number: int) -> bytes:
    """Return a record as the file has it.

    Raises:
        UnsupportedError: letters or a title that no file can hold; names the item.
    """
    if b"\n" in title or b"\r" in title or title != title.strip():
        raise UnsupportedError(
            f"title <{number}>: fasta holds no line breaks in titles, and no blanks around them"
        )
    wrong = sequence.translate(None, _LETTERS)
    if wrong:
        raise UnsupportedError(f"data <{number}>: fasta holds letters, found {wrong[:1]!r}")
    lines = [sequence[at : at + LINE_LETTERS] for at in range(0, len(sequence), LINE_LETTERS)]
    return b"\n".join([b">" + title, *lines, b""])


def texts(item: object) -> list[bytes]:
    """Return each sequence of a tensor as bytes."""
    assert isinstance(item, LoDTensor)
    data = item.data.tobytes()
    offsets = item.lod.levels[0].tolist()
    return [data[start:stop] for start, stop in pairwise(offsets)]


class FastaSource(Source):
    """An open file. Its counts are known only at its end."""

    records = True

    def __init__(self, source: Input) -> None:
        self._source = source
        self.schema = tuple(
            TensorSpec(name, np.dtype(np.uint8), levels=(LevelSpec(name),), marks=TEXT)
            for name in (TITLE, DATA)
        )

    def batches(self, limit_bytes: int = 8 << 20) -> Iterator[Batch]:
        titles, sequences, size, any_yet = list[bytes](), list[bytes](), 0, False
        for title, sequence in self._records():
            titles.append(title)
            sequences.append(sequence)
            size += len(title) + len(sequence)
            if size >= limit_bytes:
                yield {TITLE: tensor(titles), DATA: tensor(sequences)}
                titles, sequences, size, any_yet = [], [], 0, True
        if titles or not any_yet:
            yield {TITLE: tensor(titles), DATA: tensor(sequences)}

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        bounds = self._source.bounds
        title: bytes | None = None
        lines, size = list[bytes](), 0
        # A line of a damaged file may be as long as the file: never ask for all of it.
        number, most = 0, bounds.line_bytes + 1
        while line := self._source.file.readline(most):
            number += 1
            bounds.check_line(len(line), number)
            line = line.strip()
            if line.startswith(b">"):
                if title is not None:
                    yield title, b"".join(lines)
                title, lines, size = line[1:].strip(), [], 0
                check_title(title, number)
            elif line:
                if title is None:
                    raise InvalidDataError(f"line {number}: expected a title after >, found text")
                wrong = line.translate(None, _LETTERS)
                if wrong:
                    raise InvalidDataError(f"line {number}: expected letters, found {wrong[:1]!r}")
                size += len(line)
                bounds.check(size, "has a sequence of at least")
                lines.append(line)
        if title is not None:
            yield title, b"".join(lines)


def check_title(title: bytes, number: int) -> None:
    """Raise InvalidDataError for a title that is not UTF-8."""
    try:
        title.decode()
    except UnicodeDecodeError as error:
        raise InvalidDataError(f"line {number}: a title that is not UTF-8: {error}") from None


def tensor(found: list[bytes]) -> LoDTensor:
    """Return texts as a tensor of one level."""
    data = np.frombuffer(b"".join(found), np.uint8)
    return LoDTensor(data, LoD.from_lengths([[len(one) for one in found]]), TEXT)
