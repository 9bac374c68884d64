"""What a condition may be in parts of a file of which only the ranges of values are known."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lodcli.commands.choose.expression import Expression
from lodcli.expressions.function_table import DATE, properties_of
from lodcli.expressions.parsing import LISTS, function_name
from lodcli.expressions.syntax import is_slice
from lodcli.formats.choosing.choice import UNKNOWN, ValueRange
from lodcli.formats.core.schema import LevelSpec, Schema, TensorSpec
from lodcli.kernels.dtypes import has_nan
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.marks import TEXT
from lodcli.kernels.tensor.nulls import Mask


@dataclass(frozen=True)
class Outcomes:
    """What a condition may be for items of each part: three masks (P,).

    If a mask is False, the condition is certainly never so; if it is True, it may be.
    """

    true: Mask
    false: Mask
    null: Mask

    def both(self, other: Outcomes) -> Outcomes:
        """Return the outcomes of `and`."""
        null = (self.null & (other.null | other.true)) | (self.true & other.null)
        return Outcomes(self.true & other.true, self.false | other.false, null)

    def either(self, other: Outcomes) -> Outcomes:
        """Return the outcomes of `or`."""
        return self.inverted().both(other.inverted()).inverted()

    def inverted(self) -> Outcomes:
        """Return the outcomes of `not`."""
        return Outcomes(self.false, self.true, self.null)


def outcomes(
    expression: Expression,
    schema: Schema,
    ranges: Mapping[str, Sequence[ValueRange]],
    parts: int,
) -> Outcomes:
    """Return the possible outcomes of an expression for the items of each part.

    Args:
        expression: fits the schema.
        ranges: of tensors in each part, by name; those of others are unknown.

    Returns:
        Anything may be if the expression may be an error for some values: these are then read.
    """
    anything = Outcomes(*(np.ones(parts, np.bool_) for _ in range(3)))
    try:
        if _may_fail(expression, schema):
            return anything
        found = {name: ranges.get(name, [UNKNOWN] * parts) for name in expression.tensors}
        return _Conditions(expression, schema, found, anything).whole()
    except RecursionError:
        return anything


class _Side(NamedTuple):
    """One side of a comparison: a constant, or values that rise with those of a tensor.

    Attributes:
        name: of the tensor; None of a constant.
        known: its ranges of values; None for a constant.
        nulls: whether the side may also be null where no value of the tensor is.
    """

    name: str | None = None
    known: _Known | None = None
    nulls: bool = False


class _Known:
    """What is known of the values of one tensor in each part: arrays (P,).

    Attributes:
        low, high: tensors with one value for each part, 0 or no text where it is unknown.
        known: where low and high are known.
        nulls, values: see ValueRange.
        nan: whether there may be nan.
    """

    def __init__(self, spec: TensorSpec, ranges: Sequence[ValueRange]) -> None:
        self.spec = spec
        # The file has the words of categories, and not their codes.
        texts = spec.marks.is_text or spec.marks.categories is not None
        known = [
            not spec.row_shape and all(_is_value(end, spec, texts) for end in (one.low, one.high))
            for one in ranges
        ]
        self.known = np.array(known, np.bool_)
        pairs = zip(known, ranges, strict=True)
        ends = [(one.low, one.high) if is_known else (None, None) for is_known, one in pairs]
        make = self._of_texts if texts else self._of_numbers
        self.low, self.high = (make([pair[side] for pair in ends]) for side in (0, 1))
        self.nulls = np.array([one.nulls for one in ranges], np.bool_)
        self.values = np.array([one.values for one in ranges], np.bool_)
        self.nan = has_nan(spec.dtype)

    def _of_texts(self, texts: Sequence[Any]) -> tuple[LoD, Array]:
        texts = [one or b"" for one in texts]
        data = np.frombuffer(b"".join(texts), np.uint8)
        return self._tensor(data, np.cumsum([0, *map(len, texts)]))

    def _of_numbers(self, numbers: Sequence[Any]) -> tuple[LoD, Array]:
        return self._tensor(np.array([one or 0 for one in numbers], self.spec.dtype))

    def _tensor(self, data: Array, *offsets: Array) -> tuple[LoD, Array]:
        """Return a tensor of lists of one value, as deep as those of the file."""
        above = [np.arange(self.known.size + 1)] * self.spec.depth
        return LoD([*above, *offsets]), data


class _Conditions:
    """The outcomes of the parts of an expression.

    Comparisons are evaluated as those of items, with the least and the greatest values as items.

    Args:
        expression: the whole one.
        ranges: of each of its tensors.
        anything: the outcomes of an unknown value.
    """

    def __init__(
        self,
        expression: Expression,
        schema: Schema,
        ranges: Mapping[str, Sequence[ValueRange]],
        anything: Outcomes,
    ) -> None:
        self._expression = Expression(expression.text)
        self._expression.know(tuple(map(_in_words, schema)))
        self._known = {
            spec.name: _Known(spec, ranges[spec.name]) for spec in schema if spec.name in ranges
        }
        self._anything = anything
        self._parts = anything.true.size

    def whole(self) -> Outcomes:
        """Return the outcomes of the expression."""
        return self._of(self._expression.tree)

    def _of(self, node: ast.expr) -> Outcomes:
        """Return the outcomes of a condition, for items or for their rows."""
        if isinstance(node, ast.BoolOp):
            found = [self._of(one) for one in node.values]
            is_and = isinstance(node.op, ast.And)
            return functools.reduce(Outcomes.both if is_and else Outcomes.either, found)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._of(node.operand).inverted()
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            found = [self._pair(left, op, right) for left, op, right in pairs]
            return functools.reduce(Outcomes.both, found)
        if isinstance(node, ast.Call) and function_name(node) == "any" and len(node.args) == 1:
            return self._any(self._of(node.args[0]))
        if self._expression.named(node) is not None:
            return self._nonzero(node)
        return self._anything

    def _any(self, found: Outcomes) -> Outcomes:
        """Return the outcomes of `any`, which may be without values."""
        return replace(self._anything, true=found.true)

    def _nonzero(self, node: ast.expr) -> Outcomes:
        """Return the outcomes of a tensor as a condition."""
        side = self._side(node)
        if side is None or side.known is None or side.known.spec.marks.kind is not None:
            return self._anything
        one = side.known
        (_, low), (_, high) = one.low, one.high
        known, zero = one.known, (low == 0) & (high == 0)
        true, false = ~known | ~zero, ~known | ((low <= 0) & (high >= 0)) | one.nan
        return Outcomes(true & one.values, false & one.values, one.nulls | one.nan)

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Outcomes:
        """Return the outcomes of one comparison."""
        if isinstance(op, ast.IsNot | ast.NotIn | ast.NotEq):
            return self._pair(left, _OPPOSITES[type(op)](), right).inverted()
        if isinstance(op, ast.Is):
            return self._is_null(left)
        if isinstance(op, ast.In) and isinstance(right, LISTS):
            found = [self._pair(left, ast.Eq(), one) for one in right.elts]
            return functools.reduce(Outcomes.either, found) if found else self._anything
        if isinstance(op, ast.In):
            return self._any(self._pair(right, ast.Eq(), left))
        one, two = self._side(left), self._side(right)
        if one is None or two is None or (one.name is not None and one.name == two.name):
            return self._anything
        sides = one, two
        try:
            true, false = self._compared(left, op, right, sides)
        except LodError:
            return self._anything
        null = np.zeros(self._parts, np.bool_)
        for side in sides:
            if side.known is not None:
                true, false = (
                    (mask | ~side.known.known) & side.known.values for mask in (true, false)
                )
                false |= side.known.nan & side.known.values
                null |= side.known.nulls | side.nulls
        return Outcomes(true, false, null)

    def _compared(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, sides: tuple[_Side, _Side]
    ) -> tuple[Mask, Mask]:
        """Return where a comparison may be true, and where it may be false."""

        def at(one: type[ast.cmpop], *, high: bool) -> Mask:
            """Compare the greatest values on the left with the least on the right, or reverse."""
            node = ast.copy_location(ast.Compare(left, [one()], [right]), left)
            ends = {
                side.name: side.known.high if is_high else side.known.low
                for side, is_high in zip(sides, (high, not high), strict=True)
                if side.name is not None and side.known is not None
            }
            found = self._expression.part(node, ends, self._parts)
            return np.broadcast_to(found, (self._parts,)).astype(np.bool_)

        if isinstance(op, ast.Eq):
            equal = at(ast.GtE, high=False) & at(ast.LtE, high=True)  # all values of both sides
            return at(ast.LtE, high=False) & at(ast.GtE, high=True), ~equal
        ordered = any(side.known is not None and side.known.spec.marks.categories for side in sides)
        if ordered:  # by their codes, and not as texts
            return self._anything.true, self._anything.false
        high = isinstance(op, ast.Gt | ast.GtE)
        return at(type(op), high=high), ~at(type(op), high=not high)

    def _is_null(self, node: ast.expr) -> Outcomes:
        side = self._side(node)
        if side is None or side.known is None or self._expression.named(node) is None:
            return self._anything
        return Outcomes(side.known.nulls, side.known.values, np.zeros(self._parts, np.bool_))

    def _side(self, node: ast.expr) -> _Side | None:
        """Return the known range of a side of a comparison; None if it is unknown."""
        function = function_name(node)
        properties = properties_of(function)
        of_range = properties.picks or function == DATE
        if isinstance(node, ast.Call) and len(node.args) == 1 and of_range:
            node = node.args[0]
        name = self._expression.named(node)
        if name is None:
            inside = list(ast.walk(node))
            calls = any(isinstance(one, ast.Call) for one in inside)
            names = any(self._expression.named(one) is not None for one in inside)
            return None if function or calls or names else _Side()
        known = self._known[name]
        by_code = properties.needs_order and known.spec.marks.categories is not None
        return None if by_code else _Side(name, known, nulls=properties.picks)


_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.IsNot: ast.Is,
    ast.NotIn: ast.In,
    ast.NotEq: ast.Eq,
}


def _is_value(value: object, spec: TensorSpec, text: bool) -> bool:
    """Return whether a bound is a value of a tensor."""
    if text:
        return isinstance(value, bytes)
    if has_nan(spec.dtype):
        return isinstance(value, float)
    if spec.dtype.kind == "b":
        return isinstance(value, bool)
    if spec.marks.values is not None or spec.dtype.kind not in "iu" or not isinstance(value, int):
        return False
    return np.iinfo(spec.dtype).min <= value <= np.iinfo(spec.dtype).max


def _in_words(spec: TensorSpec) -> TensorSpec:
    """Return a tensor of categories as one of texts."""
    if spec.marks.categories is None:
        return spec
    level = LevelSpec(f"{spec.name} as text")
    levels = (*spec.levels, level)
    return replace(spec, dtype=np.dtype(np.uint8), levels=levels, marks=TEXT)


def _may_fail(expression: Expression, schema: Schema) -> bool:
    """Return whether an expression may be an error for some values, and not for others."""
    specs = {spec.name: spec for spec in schema}

    def rows_of(node: ast.AST) -> set[str]:
        """Return the tensors of lists, or slices, whose rows the values of a part have."""
        name = expression.named(node)
        if name is not None:
            return {name} if specs[name].depth else set()
        found = set[str]().union(*map(rows_of, ast.iter_child_nodes(node)))
        several.update(found if len(found) > 1 else ())
        if found and is_slice(node):  # as long as no other slice, nor as the tensor
            return {ast.unparse(node)}
        return set() if properties_of(function_name(node)).reduces else found

    several = set[str]()
    rows_of(expression.tree)
    if several:  # which may differ in length
        return True

    def has_unit(node: ast.expr) -> bool:
        names = map(expression.named, ast.walk(node))
        return any(name is not None and specs[name].marks.unit is not None for name in names)

    return any(
        _may_fail_alone(node, exact=has_unit(condition))
        for condition in _conditions(expression.tree)
        for node in ast.walk(condition)
    )


def _conditions(node: ast.expr) -> list[ast.expr]:
    """Return the conditions that `and`, `or` and `not` join."""
    if isinstance(node, ast.BoolOp):
        return [one for value in node.values for one in _conditions(value)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _conditions(node.operand)
    return [node]


def _may_fail_alone(node: ast.AST, *, exact: bool) -> bool:
    """Return whether a part may be an error for some values, its own parts aside.

    Args:
        exact: whether there are times or decimals in its condition, all numbers of which are then
            exact, or an error.
    """
    if isinstance(node, ast.IfExp):
        return True  # whole numbers may not be exact beside others
    if isinstance(node, ast.Call):
        may_fail = properties_of(function_name(node)).may_fail
        return may_fail == "yes" or (exact and may_fail == "times and decimals")
    if isinstance(node, ast.UnaryOp):
        is_number = isinstance(node.operand, ast.Constant)
        return exact and not is_number and not isinstance(node.op, ast.Not)
    return exact and isinstance(node, ast.BinOp)
