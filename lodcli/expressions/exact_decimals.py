"""Exact arithmetic, comparisons and functions of decimals, for any kind of values.

The values are digits, int64: see Decimals. A result that does not fit 64 bits is an error.
"""

from __future__ import annotations

import ast
import functools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

import numpy as np

from lodcli.expressions.comparisons import MIRRORED, compared
from lodcli.expressions.digits import (
    CONDITION,
    WHOLE,
    compared_digits,
    digits_of_number,
    order_of_digits,
    stepped,
)
from lodcli.expressions.functions import BINARY, COMPARISONS, MANY, TWO
from lodcli.expressions.operations import Operations, OverflowsError, V
from lodcli.expressions.parsing import LISTS, Parsed, choices_of, function_name, is_none
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.marks import Decimals

_LEAST, _MOST = -(2**63), 2**63 - 1


class ExactDecimals(Operations[V]):
    """The parts of an expression that are decimals, as their digits."""

    def __init__(self, expression: Parsed) -> None:
        self.expression = expression
        self.fail = expression.fail
        # Functions and columns of whole numbers below decimals, which count in 64 bits.
        self._below: set[ast.expr] = set()

    @abstractmethod
    def in_own_unit(self, node: ast.expr) -> V:
        """Return the values of a part, which count its unit: of decimals, the digits."""

    @abstractmethod
    def of(self, node: ast.expr) -> V:
        """Return the values of a part: of decimals, floating numbers."""

    @abstractmethod
    def both(self, node: ast.expr, function: np.ufunc, left: V, right: V) -> V:
        """Return a function of two values; if they do not fit, the column of `node` is shown."""

    @abstractmethod
    def one_of(self, node: ast.IfExp | ast.Call, values: list[V | None]) -> V:
        """Return values chosen by `if` or `coalesce`; None for nulls."""

    def digits(self, node: ast.expr, decimals: Decimals) -> V:
        """Return a part whose values these decimals hold, see `Parsed.exact_of`, as digits."""
        own = self.expression.unit_of(node)
        if isinstance(own, Decimals):
            return self._moved(node, self.in_own_unit(node), own, decimals)
        if (number := self.expression.number_of(node)) is not None:
            digits = digits_of_number(number, decimals.scale)
            if digits is None or not _LEAST <= digits <= _MOST:
                self.refuse(node, decimals)
            return self.constant(digits)
        if isinstance(node, ast.Call) and function_name(node) in TWO:
            return self.extreme(node, self.alternatives(node.args, decimals))
        if isinstance(node, ast.IfExp | ast.Call) and choices_of(node):
            sides = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.args
            known = iter(self.alternatives([s for s in sides if not is_none(s)], decimals))
            return self.one_of(node, [None if is_none(one) else next(known) for one in sides])
        return self._moved(node, self._whole(node), None, decimals)

    def extreme(self, node: ast.Call, values: Sequence[V]) -> V:
        """Return `maximum` or `minimum` of several values."""
        return functools.reduce(
            functools.partial(self.both, node, TWO[function_name(node)]), values
        )

    def alternatives(self, parts: Sequence[ast.expr], decimals: Decimals) -> list[V]:
        """Return the digits of parts of which one is picked, in one dtype."""
        found = [self.digits(part, decimals) for part in parts]
        known = [self.data(one) for one in found]
        unsigned = {one.dtype for one in known if one.ndim} == {np.dtype(np.uint64)}
        if unsigned and all(one.ndim or one >= 0 for one in known):
            return found  # comparisons take all of them
        pairs = zip(parts, found, strict=True)
        return [self._wide(part, one, decimals) for part, one in pairs]

    def _whole(self, node: ast.expr) -> V:
        """Return the values of a part of whole numbers, in 64 bits for further computation."""
        if isinstance(node, ast.BinOp):
            chain = [node]  # a long sum is nested on the left
            while isinstance(inner := chain[-1].left, ast.BinOp):
                if self.expression.number_of(inner) is not None:
                    break
                chain.append(inner)
            found = self.digits(chain[-1].left, WHOLE)
            for one in reversed(chain):
                right = self.digits(one.right, WHOLE)
                found = self._exactly(one, BINARY[type(one.op)], found, right, WHOLE)
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            found = self.digits(node.operand, WHOLE)
            return self.negative(node, found, WHOLE) if isinstance(node.op, ast.USub) else found
        is_condition = self.expression.exact_of(node) == CONDITION  # maybe of floats
        if isinstance(node, ast.Call | ast.Subscript) and not is_condition:
            self._below.add(node)
        return self.in_own_unit(node)

    def decimals_of(self, node: ast.expr) -> Decimals | None:
        """Return the decimals that the values of a function or column are; None of other values.

        Whole numbers below decimals are some too.
        """
        unit = self.expression.unit_of(node)
        below = WHOLE if node in self._below else None
        return unit if isinstance(unit, Decimals) else below

    def taken(self, node: ast.Call | ast.Subscript) -> V:
        """Return the values of which a function or a column is: see `decimals_of`."""
        part = node.args[0] if isinstance(node, ast.Call) else node.value
        if node in self._below:
            return self._wide(part, self.digits(part, WHOLE), WHOLE)
        exact = isinstance(node, ast.Subscript) or self.decimals_of(node) is not None
        return self.in_own_unit(part) if exact else self.of(part)

    def exact_operator(
        self, node: ast.BinOp, function: np.ufunc, decimals: Decimals, left: V | None
    ) -> V:
        """Return the digits of a result; `left` are those of the left side, if known."""
        exact_of, multiplies = self.expression.exact_of, isinstance(node.op, ast.Mult)
        one, two = exact_of(node.left), exact_of(node.right)
        assert one is not None
        assert two is not None
        if not multiplies:
            one = two = replace(decimals, scale=max(one.scale, two.scale))
        if left is None:
            left = self.digits(node.left, one)
        else:
            left = self._moved(node.left, left, self.decimals_of(node.left), one)
        return self._exactly(node, function, left, self.digits(node.right, two), decimals)

    def negative(self, node: ast.expr, values: V, decimals: Decimals) -> V:
        """Return digits with the other sign."""
        return self._exactly(node, np.subtract, self.constant(0), values, decimals)

    def exact_function(self, node: ast.Call, name: str, decimals: Decimals) -> V:
        """Return the digits of an exact function of single values."""
        values, unit = self.taken(node), self.expression.unit_of(node.args[0])
        if name == "abs":
            return self.both(node, np.maximum, values, self.negative(node, values, decimals))
        places = unit.scale - decimals.scale if isinstance(unit, Decimals) else 0
        return self.mapped(stepped(name, places), values) if places else values

    def exact_comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> V | None:
        """Return a comparison with decimals; None of others, and with floats."""
        units = [self.expression.unit_of(one) for one in (left, right)]
        if not any(isinstance(unit, Decimals) for unit in units):
            return None
        if isinstance(op, ast.In | ast.NotIn):
            return self._exact_member(left, op, right)
        function = COMPARISONS[type(op)]
        number = self.expression.number_of(right)
        if number is None and (number := self.expression.number_of(left)) is not None:
            left, function, units = right, MIRRORED[function], units[::-1]
        unit = units[0]
        if number is not None:
            assert isinstance(unit, Decimals)
            compare = compared_digits(function, number * Fraction(10) ** unit.scale)
            return self.mapped(compare, self.in_own_unit(left))
        one, two = self.expression.exact_of(left), self.expression.exact_of(right)
        if one is None or two is None:
            return None
        both, places = (self.digits(left, one), self.digits(right, two)), two.scale - one.scale
        if not places:
            return self.both(right, function, *both)
        try:
            found = self.paired(order_of_digits(places), *both)
        except LodError as error:
            self.fail(right, str(error))
        return self.mapped(lambda order: function(order, 0), found)

    def _exact_member(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> V | None:
        """Return which decimals are in a list of numbers; None of a list of others."""
        unit = self.expression.unit_of(left)
        elements = right.elts if isinstance(right, LISTS) else []
        numbers = [self.expression.number_of(one) for one in elements]
        if not isinstance(unit, Decimals) or None in numbers:
            return None
        known = [digits_of_number(one, unit.scale) for one in numbers if one is not None]
        held = [np.asarray(one) for one in known if one is not None and _LEAST <= one <= _MOST]
        return self.among(self.in_own_unit(left), held, inverted=isinstance(op, ast.NotIn))

    def among(self, values: V, members: Sequence[Array], *, inverted: bool) -> V:
        """Return which values are one of some numbers (), or which are not."""
        whole = len(members) > MANY and all(member.dtype.kind in "biu" for member in members)

        def is_in(data: Array) -> Array:
            if whole and data.dtype.kind in "iu" and isinstance(data, np.ndarray):
                info = np.iinfo(data.dtype)
                held = [n for n in map(int, members) if info.min <= n <= info.max]
                return np.isin(data, np.array(held, data.dtype), invert=inverted)
            found = np.zeros(data.shape, np.bool_)
            for member in members:
                found |= compared(np.equal, data, member)
            return found ^ inverted

        return self.mapped(is_in, values)

    def require_digits(self, node: ast.Call, values: V) -> V:
        """Return the digits of a sum. Fails if they are no whole numbers of 64 bits."""
        unit = self.decimals_of(node)
        if unit is not None and self.data(values).dtype.kind == "f":
            self.refuse(node, unit)
        return values

    def _moved(self, node: ast.expr, values: V, own: Decimals | None, decimals: Decimals) -> V:
        """Return values of an own unit as digits of decimals with no fewer after the point."""
        places = decimals.scale - (0 if own is None else own.scale)
        if not places:
            return values
        data = self.data(values)
        if places >= len(str(_MOST)) and not np.any(data):
            return values
        factor = self.constant(min(10**places, _MOST))
        return self._exactly(node, np.multiply, values, factor, decimals)

    def _exactly(
        self, node: ast.expr, function: np.ufunc, left: V, right: V, decimals: Decimals
    ) -> V:
        """Return digits computed from digits, all of 64 bits."""
        left, right = (self._wide(node, one, decimals) for one in (left, right))
        one, two = self.data(left), self.data(right)
        if not one.ndim and not two.ndim:
            number = int(function(int(one), int(two), dtype=object))
            if not _LEAST <= number <= _MOST:
                self.refuse(node, decimals)
            return self.constant(number)
        if function is np.floor_divide and not two.ndim and two == -1:  # the least may overflow
            return self.negative(node, left, decimals)
        try:
            found = self.timed(function, left, right)
        except OverflowsError:
            self.refuse(node, decimals)
        except LodError as error:
            self.fail(node, str(error))
        data = self.data(found)
        if data.dtype.kind != "f":
            return found
        # Long doubles, of which those in 64 bits are exact.
        if not np.all((data >= -(2.0**63)) & (data < 2.0**63)):
            self.refuse(node, decimals)
        return self.mapped(lambda data: data.astype(np.int64), found)

    def _wide(self, node: ast.expr, values: V, decimals: Decimals) -> V:
        """Return whole numbers as int64; a number as it is. Fails if one does not fit."""
        data = self.data(values)
        if data.dtype.kind == "f" or (data.dtype == np.uint64 and np.any(data > _MOST)):
            self.refuse(node, decimals)
        if not data.ndim or data.dtype == np.int64:
            return values
        return self.mapped(lambda data: data.astype(np.int64), values)

    def refuse(self, node: ast.expr, decimals: Decimals) -> NoReturn:
        source, cast = self.expression.source_of(node), self.expression.cast()
        what = f"a number does not fit {decimals}, whose digits have 64 bits"
        self.fail(node, f"{source}: {what}; {cast}")
