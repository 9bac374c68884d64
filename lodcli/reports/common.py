"""Shared parts of several reports."""

from __future__ import annotations

from typing import Any, TypedDict


class Report(TypedDict):
    """What every report begins with.

    Attributes:
        schema_version: rises when a key is removed or changes its meaning, not when one is added.
    """

    schema_version: int


class LevelOfTensor(TypedDict):
    """A level of a tensor.

    Attributes:
        name: the name of an item, if there is one.
        items: number of sequences, null if unknown.
    """

    name: str | None
    items: int | None


class TensorOfFile(TypedDict):
    """A tensor of a file.

    Attributes:
        name: how the file calls it.
        dtype: of the rows.
        marks: what the values mean, such as text; empty for plain numbers.
        nullable: whether rows, items or texts may be null.
        rows: their number.
        row_shape: shape of one row, empty for single values.
        levels: outermost first.
        tensor_array: whether it holds the time steps that lod unpack writes.
    """

    name: str
    dtype: str
    marks: dict[str, Any]
    nullable: bool
    rows: int
    row_shape: list[int]
    levels: list[LevelOfTensor]
    tensor_array: bool
