"""Two files compared: names and dtypes, then the index, then the values, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from lodcli.expressions.units import MOMENTS, joint_unit
from lodcli.formats.core.errors import naming_file
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.items.indexed_copy import Labelled
from lodcli.formats.storage.interrupts import checked
from lodcli.formats.storage.prefetch import ahead
from lodcli.formats.values.file_attributes import alike
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of
from lodcli.kernels.tensor.casting import scaled
from lodcli.kernels.tensor.compare import same_bytes
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS
from lodcli.kernels.tensor.marks import Decimals, Times, Unit
from lodcli.kernels.tensor.nulls import Mask
from lodcli.reports.comparison import Difference


@dataclass
class TensorComparison:
    """The differences in one tensor.

    Attributes:
        level_names: of its levels, as in the first file that has it.
        unit: of the values in both files; None if they are numbers.
        rows: compared rows; None if the values could not be compared.
        different_rows, different_values: how many differ.
        max_abs: greatest difference of two values; None if no difference is a number.
        differences: the first differences.
    """

    name: str
    level_names: tuple[str | None, ...] = ()
    unit: Unit | None = None
    rows: int | None = None
    different_rows: int = 0
    different_values: int = 0
    max_abs: float | None = None
    differences: list[Difference] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.differences and not self.different_values


@dataclass(frozen=True)
class Comparison:
    """The differences between two files.

    Attributes:
        tensors: of both files.
        attributes: the attributes of the files that differ, by name: a pair of values, or None.
    """

    tensors: list[TensorComparison]
    attributes: dict[str, tuple[object, object]]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.attributes and all(tensor.equal for tensor in self.tensors)


def compared(
    a: Labelled[IndexedSource], b: Labelled[IndexedSource], *, rtol: float, atol: float, first: int
) -> Comparison:
    """Return the differences between two files.

    Args:
        rtol, atol: values differ by more than atol + rtol * abs(value of b).
        first: how many different values or lengths of a tensor to keep; all are counted.
    """
    left = {spec.name: spec for spec in a.schema}
    right = {spec.name: spec for spec in b.schema}
    if len(left) == len(right) == 1 and "data" in {*left, *right}:
        # A single tensor needs no name, and many formats store none.
        right = {name: spec for name, spec in zip(left, right.values(), strict=True)}
    found = []
    for name in {**left, **right}:
        one, two = left.get(name), right.get(name)
        spec = one or two
        assert spec is not None
        result = TensorComparison(name, spec.level_names)
        found.append(result)
        if one is None or two is None:
            result.differences.append(
                Difference("tensor", None if one is None else name, None if two is None else name)
            )
        elif one.array or two.array:
            raise SelectionError(f"{name} is a TensorArray; `lod pack` it first")
        elif _alike(result, one, two):
            x, y = _Side(a, one), _Side(b, two)
            if _same_index(result, x, y, first) and _same_nulls(result, x, y, first):
                _compare_values(result, x, y, (rtol, atol), first)
    return Comparison(found, _unlike(a.source.attributes, b.source.attributes))


def _unlike(
    one: Mapping[str, object], two: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """Return the attributes of two files that differ."""
    same = alike([one, two])
    names = [name for name in {**one, **two} if name not in same]
    return {name: (one.get(name), two.get(name)) for name in names}


def _alike(result: TensorComparison, one: TensorSpec, two: TensorSpec) -> bool:
    """Record differences in dtype, shape and levels; return whether the rest can be compared."""
    add = result.differences.append
    if one.dtype.newbyteorder("=") != two.dtype.newbyteorder("="):
        add(Difference("dtype", one.dtype.name, two.dtype.name))
    if one.row_shape != two.row_shape:
        add(Difference("row_shape", list(one.row_shape), list(two.row_shape)))
    if str(one.marks) != str(two.marks):
        add(Difference("marks", str(one.marks), str(two.marks)))
    elif (words := one.marks.categories) and words != (others := two.marks.categories) and others:
        pairs = enumerate(zip_longest(words.words, others.words))
        place, (left, right) = next(each for each in pairs if each[1][0] != each[1][1])
        add(Difference("word", left, right, branch=(place,)))
    if one.marks.attributes != two.marks.attributes:
        add(Difference("attributes", one.marks.attributes, two.marks.attributes))
    if len(one.levels) != len(two.levels):
        add(Difference("levels", len(one.levels), len(two.levels)))
        return False
    for number, names in enumerate(zip(one.level_names, two.level_names, strict=True)):
        if names[0] != names[1]:
            add(Difference("level_name", *names, level=number))
    return True


class _Side(NamedTuple):
    """A tensor in one of the files."""

    file: Labelled[IndexedSource]
    spec: TensorSpec

    @property
    def lod(self) -> LoD:
        return self.file.source.lods[self.spec.name]

    def rows(self, start: int, stop: int) -> Array:
        with naming_file(self.file.label):
            return self.file.source.read_rows(self.spec.name, start, stop)

    def mask(self, level: int, start: int, stop: int) -> Mask:
        with naming_file(self.file.label):
            mask = self.file.source.read_mask(self.spec.name, level, start, stop)
        return np.ones(stop - start, np.bool_) if mask is None else mask


def _same_index(result: TensorComparison, a: _Side, b: _Side, first: int) -> bool:
    """Record differences on the first level that differs; return whether the indexes are equal."""
    for number, (x, y) in enumerate(zip(a.lod.levels, b.lod.levels, strict=True)):
        if x is y or np.array_equal(x, y):
            continue
        if x.size != y.size:
            result.differences.append(Difference("items", x.size - 1, y.size - 1, level=number))
        count = min(x.size, y.size) - 1
        lengths, others = np.diff(x[: count + 1]), np.diff(y[: count + 1])
        unequal = np.flatnonzero(lengths != others)
        # At least one is recorded if nothing else shows that the indexes differ.
        for item in unequal[: first if x.size != y.size else max(first, 1)]:
            result.differences.append(
                Difference(
                    "length",
                    int(lengths[item]),
                    int(others[item]),
                    level=number,
                    branch=branch_of(a.lod, number, int(item)),
                )
            )
        return False
    if a.spec.rows != b.spec.rows:
        result.differences.append(Difference("rows", a.spec.rows, b.spec.rows))
        return False
    return a.spec.row_shape == b.spec.row_shape


def _same_nulls(result: TensorComparison, a: _Side, b: _Side, first: int) -> bool:
    """Record nulls that differ on the first level with any; return whether all are equal."""
    if not (a.spec.nullable or b.spec.nullable):
        return True
    lod = a.lod
    for level in range(lod.n_levels + 1):
        count = lod.levels[level].size - 1 if level < lod.n_levels else a.spec.rows or 0
        found = 0
        for start in range(0, count, BATCH_BYTES):
            stop = min(start + BATCH_BYTES, count)
            x, y = a.mask(level, start, stop), b.mask(level, start, stop)
            for item in np.flatnonzero(x != y)[: max(first, 1) - found]:
                found += 1
                branch = branch_of(lod, level, start + int(item))
                left, right = ("a value" if valid else "null" for valid in (x[item], y[item]))
                result.differences.append(Difference("null", left, right, level, branch))
        if found:
            return False
    return True


def _common_unit(one: Unit | None, other: Unit | None) -> Unit | None:
    """Return the unit in which values of two are compared; None for numbers.

    Times of one kind, and dates and timestamps, are compared in the finer of their units.
    """
    if one == other:
        return one
    if isinstance(one, Times) and isinstance(other, Times):
        kinds = {one.kind, other.kind}
        if len(kinds) == 1 or kinds == MOMENTS:
            return joint_unit(one, other)
    return None


def _in_common(rows: Array, spec: TensorSpec, joint: Unit | None) -> Array:
    """Return rows in another unit; decimals as float64, because the other file may have floats."""
    unit = spec.marks.unit
    if isinstance(unit, Decimals):
        return scaled(rows.astype(np.longdouble), unit).astype(np.float64)
    if not isinstance(unit, Times) or not isinstance(joint, Times):
        return rows
    factor = NANOSECONDS[unit.unit] // NANOSECONDS[joint.unit]
    most = (2**63 - 1) // factor
    # A time beyond 64 bits differs from all of the other file: its product would wrap to one.
    held = (rows <= most) & (rows >= -most)
    return np.where(held, rows * factor, np.where(rows > 0, 2**63 - 1, -(2**63)))


def _compare_values(
    result: TensorComparison, a: _Side, b: _Side, tolerance: tuple[float, float], first: int
) -> None:
    lod, one, two = a.lod, a.spec, b.spec
    result.rows = one.rows
    joint = _common_unit(one.marks.unit, two.marks.unit)
    result.unit = joint
    if not one.row_bytes and not two.row_bytes:
        return  # no values: there may be too many rows to loop over
    size_bytes = (one.rows or 0) * (one.row_bytes + two.row_bytes)
    for start, x, y in checked(ahead(_blocks(a, b), size_bytes)):
        if one.marks.unit != two.marks.unit:
            x, y = _in_common(x, one, joint), _in_common(y, two, joint)
        if x.dtype == y.dtype and same_bytes(x, y):
            continue
        unequal = _unequal(x, y, *tolerance)
        flat = np.flatnonzero(unequal)
        if not flat.size:
            continue
        result.different_values += flat.size
        rows = flat // max(1, x[:1].size)
        result.different_rows += np.unique(rows).size
        with np.errstate(all="ignore"):
            apart = np.abs(_wide(x)[unequal] - _wide(y)[unequal])
        numbers = apart[~np.isnan(apart)]
        if numbers.size:
            result.max_abs = max(result.max_abs or 0.0, float(numbers.max()))
        shown = sum(one.what == "value" for one in result.differences)
        for place in flat[: max(0, first - shown)]:
            row, *column = (int(axis) for axis in np.unravel_index(int(place), x.shape))
            at = (row, *column)
            branch = branch_of(lod, lod.n_levels, start + row)
            result.differences.append(
                Difference("value", x[at].item(), y[at].item(), branch=branch, column=tuple(column))
            )


def _blocks(a: _Side, b: _Side) -> Iterator[tuple[int, Array, Array]]:
    """Yield the rows of both files, block by block, each with the number of its first row."""
    rows = a.spec.rows
    assert rows is not None
    step = max(1, BATCH_BYTES // max(1, a.spec.row_bytes))
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        yield start, a.rows(start, stop), b.rows(start, stop)


def _unequal(x: Array, y: Array, rtol: float, atol: float) -> Array:
    # NumPy rounds large integers to compare them with floats.
    unequal: Array = np.asarray(x != y if x.dtype == y.dtype else _wide(x) != _wide(y))
    if x.dtype.kind not in "biu" and y.dtype.kind not in "biu":
        unequal &= ~((x != x) & (y != y))  # nan
    if rtol or atol:
        with np.errstate(all="ignore"):
            near = np.abs(_wide(x) - _wide(y)) <= atol + rtol * np.abs(_wide(y))
        unequal &= ~(near & np.isfinite(y))  # the tolerance of infinity is infinite
    return unequal


def _wide(data: Array) -> Array:
    """Return numbers in a dtype whose differences are exact; long doubles for 64 bits on Linux."""
    if data.dtype.kind == "c":
        return data
    large = data.dtype.kind in "iu" and data.dtype.itemsize == 8
    return data.astype(np.longdouble if large else np.float64)
