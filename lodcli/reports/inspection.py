"""Reports of `lod inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from lodcli.reports.common import LevelOfTensor, Report


@dataclass(frozen=True)
class Padding:
    """The cost of padding.

    Attributes:
        rows: number of rows.
        padded_rows: number of rows if padded.
        fraction: the share of the padded rows that would be padding; 0 to 1.
        saved_bytes: the bytes of the padding.
    """

    rows: int
    padded_rows: int
    fraction: float
    saved_bytes: int


@dataclass(frozen=True)
class Bucket:
    """Part of a histogram: sequences of `low` to `high` items, both included.

    Attributes:
        count: how many there are.
    """

    low: int
    high: int
    count: int


@dataclass(frozen=True)
class LevelStatistics:
    """Statistics of the lengths of the sequences of a level, in items of the next one.

    Attributes:
        level: its number, 0 the outermost.
        name: its name, or null.
        items: number of sequences.
        total: number of items they hold together.
        empty: number of sequences that hold none.
        min, median, mean, max: of the lengths; null if there are no sequences.
        p90, p95, p99: the least length that 90, 95 or 99 % of the sequences do not exceed.
        histogram: buckets from short to long, without gaps.
        padding: if every sequence were padded to the rows of the longest.
    """

    level: int
    name: str | None
    items: int
    total: int
    empty: int
    min: int | None
    median: float | None
    mean: float | None
    p90: int | None
    p95: int | None
    p99: int | None
    max: int | None
    histogram: tuple[Bucket, ...]
    padding: Padding


class Values(TypedDict):
    """Statistics of all values of a tensor but those of null rows.

    Attributes:
        count: number of values.
        nan, infinite, zeros: how many are not a number, infinite, or 0.
        min, max: the least and greatest that is a number, -inf and inf as text; null if there are
            none, or they are complex.
        mean, std: mean and standard deviation of the finite ones; null if there are none.
    """

    count: int
    nan: int
    infinite: int
    zeros: int
    min: int | float | str | None
    mean: float | None
    max: int | float | str | None
    std: float | None


class Sequence(TypedDict):
    """A sequence of a level.

    Attributes:
        item: its number on the level.
        branch: the numbers that lead to it, outermost first.
        length: items of the next level.
        values: nested lists; nan, infinities and complex numbers are text.
    """

    item: int
    branch: list[int]
    length: int
    values: NotRequired[list[Any] | str]


@dataclass(frozen=True)
class Group:
    """Equal sequences.

    Attributes:
        count: how many there are.
        items: the numbers of the first ones.
    """

    count: int
    items: tuple[int, ...]


@dataclass(frozen=True)
class Duplicates:
    """Equal sequences of a level.

    Attributes:
        level: its number.
        sequences: how many there are.
        duplicates: how many equal an earlier one.
        groups: the largest ones, the most frequent sequence first.
    """

    level: int
    sequences: int
    duplicates: int
    groups: tuple[Group, ...]


class Tensor(TypedDict):
    """A tensor of the file.

    Attributes:
        name: how the file calls it.
        dtype: of the rows.
        marks: what the values mean, such as text; empty for plain numbers.
        nullable: whether rows, items or texts may be null.
        rows: their number.
        row_shape: shape of one row, empty for single values.
        bytes: of all rows.
        levels: outermost first; with --level this one only.
        padding: if every level were padded to its longest sequence.
        tensor_array: whether it holds the time steps that lod unpack writes.
        step_sizes: number of items of each step, of a tensor array.
        outer: levels of the tensor that was unpacked, of a tensor array.
        values: with --stats.
        head: the first sequences, with --head and --values.
        top: the longest or shortest sequences, with --top.
        duplicates: with --duplicates.
    """

    name: str
    dtype: str
    marks: dict[str, Any]
    nullable: bool
    rows: int
    row_shape: list[int]
    bytes: int
    levels: list[LevelStatistics]
    padding: Padding
    tensor_array: bool
    step_sizes: NotRequired[list[int]]
    outer: NotRequired[list[LevelOfTensor]]
    values: NotRequired[Values]
    head: NotRequired[list[Sequence]]
    top: NotRequired[list[Sequence]]
    duplicates: NotRequired[Duplicates]


class Inspection(Report):
    """The content of a file.

    Attributes:
        file: its path, or - for standard input.
        format: its format.
        bytes: its size; null for a pipe or a folder.
        attributes: of the file as a whole; empty for none.
        tensors: those of the file, or the one that was named.
    """

    file: str
    format: str
    bytes: int | None
    attributes: dict[str, Any]
    tensors: list[Tensor]


class Forms(Report):
    """The index in the form that --form names.

    Attributes:
        form: which one.
        order: of the levels.
        tensors: for each tensor its levels.
    """

    form: Literal["lengths", "offsets", "absolute", "starts", "row-lengths"]
    order: Literal["coarse-to-fine", "fine-to-coarse"]
    tensors: dict[str, list[list[int]]]
