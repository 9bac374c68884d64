"""Reports of commands that write files."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from lodcli.reports.common import Report, TensorOfFile


class WrittenFile(TypedDict):
    """A file that was written.

    Attributes:
        file: its path, or - for standard output.
        format: its format.
        bytes: its size; null for standard output and folders.
        tensors: what it holds.
    """

    file: str
    format: str
    bytes: int | None
    tensors: list[TensorOfFile]


class Work(TypedDict):
    """Work of an RNN, as --stats counts it.

    Attributes:
        sequences: how many each RNN ran over, outermost first.
        steps: the longest sequence of each.
        rows, padded_rows: steps computed, and how many there would be with padding.
        operations, padded_operations: floating point operations of these.
        seconds: spent computing, without reading and writing.
    """

    sequences: list[int]
    steps: list[int]
    rows: int
    padded_rows: int
    operations: int
    padded_operations: int
    seconds: float


class Written(Report):
    """The files that a command wrote.

    Attributes:
        files: in the order in which they were written.
        stats: of lod run-rnn --stats.
    """

    files: list[WrittenFile]
    stats: NotRequired[Work]


class Part(WrittenFile):
    """One of the files that lod split wrote.

    Attributes:
        file: its path.
        format: its format.
        bytes: its size.
        tensors: what it holds.
        items: the number of items it got.
        rows: the rows of its largest tensor.
    """

    items: int
    rows: int


class Split(Report):
    """The files that lod split wrote.

    Attributes:
        files: in the order of their numbers.
    """

    files: list[Part]
