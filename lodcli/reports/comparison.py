"""Reports of `lod diff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from lodcli.reports.common import Report


@dataclass(frozen=True)
class Difference:
    """One difference between two tensors.

    Attributes:
        what: tensor (one file does not have it), dtype, row_shape, levels, level_name, marks,
            word of categories, attributes, null of an item or a row, items of a level, length of a
            sequence, rows, or value.
        left, right: the values in the two files; null for nothing.
        level: the number of the level, for those that are of a level.
        branch: the path to a sequence or row, outermost first; the position of a word.
        column: of a value in its row; empty if rows are single values.
    """

    what: str
    left: Any
    right: Any
    level: int | None = None
    branch: tuple[int, ...] = ()
    column: tuple[int, ...] = ()


class TensorComparison(TypedDict):
    """What differs in one tensor.

    Attributes:
        name: of the tensor.
        level_names: of its levels, as in the first file that has it.
        rows: compared rows; null if the values could not be compared.
        different_rows, different_values: how many differ.
        max_abs: greatest difference of two values, inf as text; null if none is a number.
        differences: the first of them.
        equal: whether nothing differs.
    """

    name: str
    level_names: list[str | None]
    rows: int | None
    different_rows: int
    different_values: int
    max_abs: float | str | None
    differences: list[Difference]
    equal: bool


class UnlikeAttribute(TypedDict):
    """An attribute of the files as a whole that differs.

    Attributes:
        name: of the attribute.
        left, right: the properties of the two files; null for none.
    """

    name: str
    left: Any
    right: Any


class Comparison(Report):
    """What differs between two files.

    Attributes:
        files: the two.
        equal: whether nothing differs.
        attributes: those of the files as a whole that differ.
        tensors: those of either file.
    """

    files: list[str]
    equal: bool
    attributes: list[UnlikeAttribute]
    tensors: list[TensorComparison]
