"""The evaluation of expressions over any kind of values.

Each kind of node of the syntax tree has its method; any other is an error that names its column.
"""

from __future__ import annotations

import ast
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from shlex import quote
from typing import Generic, TypeVar

import numpy as np

from lodcli.expressions.functions import (
    BINARY,
    COALESCE,
    COMPARISONS,
    GROWING,
    INDEX,
    MANY,
    ONE,
    ORDERING,
    SWAPPED,
    TWO,
    picked,
    rounded,
)
from lodcli.expressions.hints import CHOICE, name_hint
from lodcli.expressions.parsing import (
    LISTS,
    MOMENTS,
    Parsed,
    dotted,
    function_name,
    words_of,
)
from lodcli.expressions.texts import pair_order, texts_among, word_order
from lodcli.expressions.units import as_numbers, is_duration, joint_unit, undefined
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.order.texts import Texts, text_order
from lodcli.kernels.tensor.casting import scaled
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.marks import NO_MARKS, Categories, Decimals, Times, Unit

_NULL = "compare with None as in x is None, x is not None"

V = TypeVar("V")
_Units = tuple[Unit | None, Unit | None]


class Evaluation(ABC, Generic[V]):
    """The values of the parts of an expression.

    Args:
        expression: what is evaluated.
    """

    def __init__(self, expression: Parsed) -> None:
        self.expression = expression
        self.fail = expression.fail

    @abstractmethod
    def constant(self, value: bool | int | float) -> V:
        """Return a number."""

    @abstractmethod
    def tensor(self, node: ast.expr, name: str) -> V:
        """Return the tensor of that name, or fail."""

    @abstractmethod
    def data(self, values: V) -> Array:
        """Return the array of values; () for one number."""

    @abstractmethod
    def mapped(self, function: Callable[[Array], Array], values: V) -> V:
        """Return an elementwise function of values."""

    @abstractmethod
    def combined(self, function: np.ufunc, left: V, right: V) -> V:
        """Return an elementwise function of two values. Raises LodError if they do not fit."""

    @abstractmethod
    def paired(self, function: Callable[[Array, Array], Array], left: V, right: V) -> V:
        """Return a function of the numbers of two values, in pairs. Raises LodError as `combined`.

        Args:
            function: returns a number for each pair, of two flat arrays.
        """

    @abstractmethod
    def coalesced(self, left: V, right: V) -> V:
        """Return values with others where they are null. Raises LodError as `combined`."""

    def condition(self, values: V) -> V:
        """Return values of which `and`, `or` and `not` ask whether they are true."""
        return values

    def timed(self, function: np.ufunc, left: V, right: V) -> V:
        """Return `combined`, for times. Raises LodError also if one does not fit 64 bits."""
        return self.combined(function, left, right)

    @abstractmethod
    def elementwise(self, function: np.ufunc, values: V) -> V:
        """Return a function of one value. Raises LodError if it is not defined for the dtype."""

    @abstractmethod
    def of_texts(self, name: str, function: Callable[[Array, Offsets], Array]) -> V:
        """Return a value for each text of a tensor: a function of its bytes and offsets."""

    @abstractmethod
    def index(self) -> V:
        """Return the number of each item, from 0 in the first batch."""

    @abstractmethod
    def call(self, node: ast.Call, name: str) -> V:
        """Return the result of a function, or fail."""

    def of(self, node: ast.expr) -> V:
        """Return the values of a part."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            choice = f"; {CHOICE}" if isinstance(node, ast.IfExp) else ""
            self.fail(node, f"{_NAMES.get(type(node), 'this')} cannot be used here{choice}")
        try:
            found: V = method(node)
        except RecursionError:
            self.fail(node, "is nested too deeply")
        return found

    @abstractmethod
    def floats(self, name: str, digits: Array, decimals: Decimals) -> Array:
        """Return digits of decimals as floating numbers. Raises LodError if they lose some."""

    def numbers(self, name: str, values: V) -> V:
        """Return the values of the rows of a tensor: of decimals, floating numbers."""
        unit = self.expression.marks.get(name, NO_MARKS).unit
        if not isinstance(unit, Decimals) or not unit.scale:
            return values
        return self.mapped(lambda data: scaled(self.floats(name, data, unit), unit), values)

    def contained(self, node: ast.expr, values: ast.expr) -> V:
        """Return which sequences have a value among theirs, or fail."""
        if isinstance(values, ast.Constant):
            self.fail(values, "expected a list of numbers or words, as in (1, 3) or ('a',)")
        equal = ast.copy_location(ast.Compare(values, [ast.Eq()], [node]), values)
        function = ast.copy_location(ast.Name("any", ast.Load()), values)
        return self.of(ast.copy_location(ast.Call(function, [equal], []), values))

    def null(self, node: ast.expr) -> V:
        """Return where a part is null, or fail."""
        if parts := self.expression.texts_of(node):
            nulls = [self.constant(False) if words_of(one) else self.null(one) for one in parts]
            return functools.reduce(functools.partial(self.combined, np.logical_and), nulls)
        name, marks = self.expression.marks_of(node)
        if marks.is_text and not isinstance(node, ast.Subscript):
            return self.missing(self.of_texts(name, lambda data, offsets: offsets[:-1]))
        return self.missing(self.of(node))

    @abstractmethod
    def missing(self, values: V) -> V:
        """Return where values are null."""

    def both(
        self, node: ast.expr, function: np.ufunc, left: V, right: V, unit: Times | None = None
    ) -> V:
        """Return a function of two values; if they do not fit, the column of `node` is shown.

        Args:
            unit: that of the result.
        """
        if function in ORDERING and any(self.data(one).dtype.kind == "c" for one in (left, right)):
            self.fail(node, "complex numbers have no order")
        try:
            found = (self.timed if unit else self.combined)(function, left, right)
            if unit and unit.kind == "time":  # a day later, it is the same time
                day = NANOSECONDS["D"] // NANOSECONDS[unit.unit]
                found = self.combined(np.remainder, found, self.constant(day))
        except LodError as error:
            self.fail(node, str(error))
        numbers = [self.data(one) for one in (left, right, found)]
        if function in GROWING and all(not one.ndim and one.dtype.kind in "iu" for one in numbers):
            # An overflow is off by a multiple of 2**64; rounding by far less.
            first, second, result = map(float, numbers)
            if abs(function(first, second) - result) >= 2.0**62:
                self.fail(node, f"the result does not fit {numbers[2].dtype}")
        return found

    def _constant(self, node: ast.Constant) -> V:
        value = node.value
        if value is None:
            self.fail(node, _NULL)
        if not isinstance(value, bool | int | float):
            self.fail(node, f"expected a number, found {value!r}")
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            self.fail(node, "the number does not fit 64 bits")
        return self.constant(value)

    def _name(self, node: ast.Name) -> V:
        return self.tensor(node, node.id)

    def _attribute(self, node: ast.Attribute) -> V:
        name = dotted(node)
        if name is None:
            self.fail(node, "a dot can only be in a name")
        return self.tensor(node, name)

    def _subscript(self, node: ast.Subscript) -> V:
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            inner = node.slice.value
            self.fail(node, f"write {inner}, of a record r.{inner}, or tensor({inner!r})")
        values = self.of(node.value)
        try:
            column = ast.literal_eval(node.slice)
        except (TypeError, ValueError):  # TypeError: a set or dict of lists
            column = None
        place = column if isinstance(column, tuple) else (column,)
        if not all(type(one) is int for one in place):
            self.fail(node.slice, "expected the number of a column, as in data[2]")
        shape = self.data(values).shape[1:]
        if len(place) != len(shape) or any(
            not -size <= one < size for one, size in zip(place, shape, strict=False)
        ):
            first = "; the first row is first(x)" if column == 0 and not shape else ""
            self.fail(node.slice, f"no column {column}; rows have shape {shape}{first}")
        return self.mapped(lambda data: data[(slice(None), *place)], values)

    def _unaryop(self, node: ast.UnaryOp) -> V:
        number = getattr(node.operand, "value", None)
        if isinstance(node.op, ast.USub) and type(number) is int:
            # As one number: 2**63 alone is no int64.
            return self._constant(ast.copy_location(ast.Constant(-number), node))
        if not is_duration(self.expression.marks_of(node)[1].unit):
            self._require_numbers(node, _UNARY.get(type(node.op), "~"), node.operand)
        values = self.of(node.operand)
        if isinstance(node.op, ast.Not):
            return self.mapped(lambda data: np.equal(data, 0), self.condition(values))
        if isinstance(node.op, ast.USub):
            return self._function(node, np.negative, values)
        if isinstance(node.op, ast.UAdd):
            return values
        self.fail(node, "~ cannot be used here; write not")

    def _binop(self, node: ast.BinOp) -> V:
        chain = [node]  # a long sum is nested on the left
        while isinstance(inner := chain[-1].left, ast.BinOp):
            chain.append(inner)
        found: V | None = None
        for one in reversed(chain):
            found = self._operated(one, found)
        assert found is not None
        return found

    def _operated(self, node: ast.BinOp, left: V | None) -> V:
        """Return the result of an operator; `left` is its left side, None if not known yet."""
        function = BINARY.get(type(node.op))
        if function is None:
            write = "; write and, or for & and |, ** for ^"
            self.fail(node, f"only + - * / // % and ** can be used here{write}")
        unit = self.expression.time_of(node)
        one, two = self.expression.sides[node]
        if unit is None:
            self._require_one_kind(node, node.left, node.right)
            if not (is_duration(one) and is_duration(two) and isinstance(node.op, _QUOTIENTS)):
                self._require_numbers(node, function.__name__, node.left, node.right)
        if left is None:
            left = self.of(self._counted(node.left, "", one))
        right = self.of(self._counted(node.right, "", two))
        if unit is not None and isinstance(node.op, ast.Add | ast.Sub):
            for side, value in ((node.left, left), (node.right, right)):
                if self.data(value).dtype.kind == "b":
                    self.fail(side, f"{function.__name__} is not defined for booleans and {unit}")
        values = self._in_one_unit(node, (left, right), (one, two))
        return self.both(node, function, *values, unit)

    def _boolop(self, node: ast.BoolOp) -> V:
        function = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        for one in node.values:
            self._require_numbers(one, type(node.op).__name__.lower(), one)
        found = self.condition(self.of(node.values[0]))
        for more in node.values[1:]:
            found = self.both(more, function, found, self.condition(self.of(more)))
        return found

    def _compare(self, node: ast.Compare) -> V:
        nodes = [node.left, *node.comparators]
        found = self._compared(nodes[0], node.ops[0], nodes[1])
        for place, op in enumerate(node.ops[1:], 1):
            more = self._compared(nodes[place], op, nodes[place + 1])
            found = self.both(node, np.logical_and, found, more)
        return found

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> V:
        if isinstance(op, ast.Is | ast.IsNot):
            if not isinstance(right, ast.Constant) or right.value is not None:
                self.fail(right, "compare with == and !=; is is only for None")
            null = self.null(left)
            return null if isinstance(op, ast.Is) else self.mapped(np.logical_not, null)
        for side, other, mirrored in ((left, right, False), (right, left, True)):
            in_them = mirrored and isinstance(op, ast.In | ast.NotIn)
            if not in_them and (parts := self.expression.texts_of(side)):
                return self._any_text(parts, op, other, mirrored=mirrored)
        compared = self._texts(left, op, right)
        if compared is not None:
            return compared
        if isinstance(op, ast.In | ast.NotIn) and not isinstance(right, LISTS):
            found = self.contained(left, right)
            return found if isinstance(op, ast.In) else self.mapped(np.logical_not, found)
        values = self._beside(left, right, op)
        if isinstance(op, ast.In | ast.NotIn):
            assert isinstance(right, LISTS)
            return self._member(values, left, right, isinstance(op, ast.NotIn))
        units = self._require_one_kind(right, left, right)
        if type(op) in SWAPPED:
            self._require_order(right, units)
        both = self._in_one_unit(right, (values, self._beside(right, left, op)), units)
        return self.both(right, COMPARISONS[type(op)], *both)

    def _require_one_kind(self, node: ast.expr, left: ast.expr, right: ast.expr) -> _Units:
        """Return the units of two parts. Fails if they are times of different kinds, or words."""
        (one, a), (other, b) = map(self.expression.marks_of, (left, right))
        marked = Times | Categories
        if isinstance(a.unit, marked) and isinstance(b.unit, marked):
            kinds = {getattr(mark.unit, "kind", "") for mark in (a, b)}
            if len(kinds) > 1 and kinds != MOMENTS:
                self.fail(node, f"{one} is {a.unit} and {other} is {b.unit}: the kinds differ")
        return a.unit, b.unit

    def _require_order(self, node: ast.expr, units: _Units) -> None:
        if all(isinstance(unit, Categories) and not unit.ordered for unit in units):
            self.fail(node, "these categories have no order; use == or !=")

    def _require_numbers(self, node: ast.expr, function: str, *parts: ast.expr) -> None:
        """Fail if one of the parts is times or categories.

        Args:
            node: what is not defined for them.
            function: the name of the function or operator.
            parts: what it is applied to.
        """
        units = [self.expression.marks_of(part)[1].unit for part in parts]
        for part, unit in zip(parts, units, strict=True):
            if isinstance(unit, Times | Categories):
                kinds = " and ".join(map(_kind, parts, units))
                how = as_numbers(self.expression.text_of(part), unit)
                self.fail(node, f"{function} is not defined for {kinds}; {how}")

    def _require_defined(self, node: ast.Call, name: str) -> None:
        """Fail if a function is not defined for times or categories, and is called with them."""
        argument, (_, marks) = node.args[0], self.expression.marks_of(node)
        unit, text = self.expression.marks_of(argument)[1].unit, self.expression.text_of(argument)
        why = undefined(name, text, unit, picks=marks.unit is not None)
        if why:
            self.fail(node, why)

    def _in_one_unit(self, node: ast.expr, values: tuple[V, V], units: _Units) -> tuple[V, V]:
        """Return two values as numbers of one unit, or codes of the same words."""
        try:
            joint = joint_unit(*units)
            one, two = (self._in_unit(*pair, joint) for pair in zip(values, units, strict=True))
        except LodError as error:
            self.fail(node, str(error))
        return one, two

    def _in_unit(self, values: V, unit: Unit | None, joint: Unit | None) -> V:
        if isinstance(unit, Times) and isinstance(joint, Times) and unit.unit != joint.unit:
            factor = NANOSECONDS[unit.unit] // NANOSECONDS[joint.unit]
            return self.timed(np.multiply, values, self.constant(factor))
        if isinstance(unit, Categories) and isinstance(joint, Categories) and unit != joint:
            codes = np.append(unit.codes_in(joint), 0)  # a null has code 0, also without words
            return self.mapped(functools.partial(picked, codes), values)
        return values

    def _texts(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> V | None:
        """Return a comparison of texts with words, texts or categories; None if it has no texts."""
        for node, other, mirrored in ((left, right, False), (right, left, True)):
            words = words_of(other)
            of_list = isinstance(op, ast.In | ast.NotIn)
            fits = isinstance(other, LISTS) == of_list and not (of_list and mirrored)
            if not self.expression.is_text(node) or words is None or not fits:
                continue
            name, _ = self.expression.marks_of(node)
            if isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                found = self.of_texts(name, functools.partial(texts_among, words))
                inverted = isinstance(op, ast.NotEq | ast.NotIn)
                return self.mapped(np.logical_not, found) if inverted else found
            function = COMPARISONS[SWAPPED[type(op)] if mirrored else type(op)]
            return self.of_texts(name, functools.partial(_ordered, function, words[0]))
        sides = left, right
        count = sum(map(self.expression.is_text, sides))
        if not count or not all(map(self.expression.is_of_words, sides)):
            return None
        if type(op) not in COMPARISONS:  # in
            return None
        if count == 1 and type(op) in SWAPPED:
            self.fail(right, "a text and a category are compared with == or !=")
        texts: list[Texts] = []
        one, two = (self._numbered(node, texts) for node in sides)
        order = functools.partial(pair_order, texts, equality=type(op) not in SWAPPED)
        try:
            found = self.paired(order, one, two)
        except LodError as error:
            self.fail(right, str(error))
        return self.mapped(lambda data: COMPARISONS[type(op)](data, 0), found)

    def _any_text(
        self, parts: list[ast.expr], op: ast.cmpop, other: ast.expr, *, mirrored: bool
    ) -> V:
        """Return a comparison of the first of several texts that is not null.

        It is the first comparison that is not null: where `other` is null, all are.

        Args:
            parts: the texts.
            op: the comparison.
            other: what they are compared with.
            mirrored: whether the texts are on the right side.
        """
        found: V | None = None
        for part in parts:
            left, right = (other, part) if mirrored else (part, other)
            words, others = words_of(left), words_of(right)
            if words is None or others is None:
                more = self._compared(left, op, right)
            else:
                more = self.constant(_words_compared(words[0], op, others))
            found = more if found is None else self.coalesced(found, more)
        assert found is not None
        return found

    def _numbered(self, node: ast.expr, texts: list[Texts]) -> V:
        """Append the texts, or the words of the categories, of a part; return their numbers."""
        name, marks = self.expression.marks_of(node)
        if marks.categories is not None:
            # A null has code 0, also without words.
            texts.append(Texts.of_words([*marks.categories.words] or [""]))
            return self.of(node)

        def numbered(data: Array, offsets: Offsets) -> Array:
            texts.append(Texts.of(data, offsets))
            return np.arange(offsets.size - 1)

        return self.of_texts(name, numbered)

    def _beside(self, node: ast.expr, other: ast.expr, op: ast.cmpop, known: V | None = None) -> V:
        """Return the values of a part that is compared with another, whose unit a text has.

        Args:
            node, other: the parts.
            op: how they are compared.
            known: the values, if they were evaluated already.
        """
        name, marks = self.expression.marks_of(other)
        of_words = marks.is_text or marks.categories is not None
        if of_words and isinstance(node, ast.Name) and node.id not in self.expression.marks:
            self.expression.no_tensor(node, node.id, f'a text is written "{node.id}"')
        words = marks.categories
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            if words is not None and self.expression.marks_of(node)[1].categories is None:
                example = f" such as {words.words[0]!r}" if words.words else ""
                expected = f"expected a word in quotes{example}, or categories"
                self.fail(node, f"{name} is {words}; {expected}, beside it")
            return self.of(node) if known is None else known
        if isinstance(marks.unit, Times):
            return self.of(self._counted(node, f"{name} is {marks.unit}: ", marks.unit))
        if words is None and node.value in self.expression.marks:
            self.fail(node, f"a name is written without quotes, or as tensor({node.value!r})")
        if words is None:
            hint = name_hint(node.value, ()) or f"{name} is no text"
            if marks.is_text:
                hint = "text is compared with text only"
            self.fail(node, f"expected a number, found {node.value!r}; {hint}")
        if type(op) in SWAPPED and not words.ordered:
            self.fail(node, f"the categories of {name} have no order; use ==, != or in")
        return self.of(self._counted(node, f"{name}: ", words))

    def _counted(self, node: ast.expr, prefix: str, unit: Unit | None) -> ast.expr:
        """Return a part; for a text beside times or categories, its number."""
        text = node.value if isinstance(node, ast.Constant) else None
        if not isinstance(text, str) or not isinstance(unit, Times | Categories):
            return node
        try:
            number: int = in_unit(text, unit)
            return _replaced(node, number)
        except LodError as error:
            self.fail(node, f"{prefix}{error}")

    def _member(
        self, left: V, left_node: ast.expr, node: ast.Tuple | ast.List | ast.Set, inverted: bool
    ) -> V:
        members = []
        for one in node.elts:
            member = self.data(self._beside(one, left_node, ast.In()))
            if member.ndim:
                self.fail(one, "expected a number or a word; compare tensors with ==")
            members.append(member)

        whole = len(members) > MANY and all(member.dtype.kind in "biu" for member in members)

        def is_in(data: Array) -> Array:
            if whole and data.dtype.kind in "iu" and isinstance(data, np.ndarray):
                info = np.iinfo(data.dtype)
                held = [n for n in map(int, members) if info.min <= n <= info.max]
                return np.isin(data, np.array(held, data.dtype), invert=inverted)
            found = np.zeros(data.shape, np.bool_)
            for member in members:
                found |= data == rounded(member, data.dtype)
            return found ^ inverted

        return self.mapped(is_in, left)

    def _call(self, node: ast.Call) -> V:
        name = function_name(node)
        if not name:
            self.expression.refuse_call(node)
        if name == "tensor":
            argument = node.args[0]
            assert isinstance(argument, ast.Constant)
            return self.tensor(argument, str(argument.value))
        if name == COALESCE:
            return self._coalesce(node)
        if name == INDEX:
            if node.args or node.keywords:
                self.fail(node, f"write {INDEX}() % 10 == 0; it is the number of the item, from 0")
            return self.index()
        if name not in ONE and name not in TWO:
            return self.call(node, name)
        count = 1 if name in ONE else 2
        if len(node.args) != count or node.keywords:
            example = f"{name}(data)" if count == 1 else f"{name}(data, 0)"
            self.fail(node, f"{name} takes {count} argument{'s' * (count > 1)}, as in {example}")
        if count == 1:
            self._require_defined(node, name)
            return self._function(node, ONE[name], self.of(node.args[0]))
        left, right = node.args
        return self.both(node, TWO[name], *self._alike(node, left, right, ast.Gt()))

    def _alike(
        self,
        node: ast.Call,
        left: ast.expr,
        right: ast.expr,
        op: ast.cmpop,
        known: V | None = None,
    ) -> tuple[V, V]:
        """Return two values of which one is picked, in one unit.

        Args:
            node: the call of the function.
            left, right: the parts.
            op: a comparison that the words must have.
            known: the left values, if they were evaluated already.
        """
        units = self._require_one_kind(node, left, right)
        if type(op) in SWAPPED:
            self._require_order(node, units)
        values = self._beside(left, right, op, known), self._beside(right, left, op)
        for side, value, other in ((left, values[0], right), (right, values[1], left)):
            name, marks = self.expression.marks_of(other)
            plain = not isinstance(self.expression.marks_of(side)[1].unit, Times)
            if isinstance(marks.unit, Times) and plain and self.data(value).ndim:
                expected = "expected times, or one number"
                self.fail(side, f"{name} is {marks.unit}; {expected}, beside it")
        return self._in_one_unit(node, values, units)

    def _coalesce(self, node: ast.Call) -> V:
        if len(node.args) < 2 or node.keywords:
            self.fail(
                node, f"{COALESCE} takes a tensor and what replaces its nulls, as {COALESCE}(x, 0)"
            )
        left, *others = node.args
        if self.expression.is_text(left):
            what = self.expression.text_of(node)
            makes = f"lod apply {quote(what)} .. --into NAME makes a tensor of them"
            self.fail(node, f'texts are only compared, as in {what} == "word"; {makes}')
        found = self.of(left)
        if not self.data(found).ndim:
            self.fail(left, f"{COALESCE} takes a tensor first, this is one number")
        for right in others:
            values = self._alike(node, left, right, ast.Eq(), found)
            try:
                found = self.coalesced(*values)
            except LodError as error:
                self.fail(node, str(error))
            # coalesce(x, y, 0) is coalesce(coalesce(x, y), 0)
            left = ast.copy_location(ast.Call(node.func, [left, right], []), node)
        return found

    def _function(self, node: ast.expr, function: np.ufunc, values: V) -> V:
        try:
            return self.elementwise(function, values)
        except LodError as error:
            self.fail(node, str(error))


def _replaced(node: ast.expr, value: int) -> ast.Constant:
    return ast.copy_location(ast.Constant(value), node)


def _ordered(function: np.ufunc, word: str, data: Array, offsets: Offsets) -> Array:
    found: Array = function(word_order(word, data, offsets), 0)
    return found


def _words_compared(word: str, op: ast.cmpop, others: list[str]) -> bool:
    """Return the comparison of a word with a word, or with a list of words."""
    if isinstance(op, ast.In | ast.NotIn):
        return (word in others) == isinstance(op, ast.In)
    texts = Texts.of_words([word]), Texts.of_words(others[:1])
    return bool(COMPARISONS[type(op)](text_order(*texts), 0)[0])


def _kind(part: ast.expr, unit: Unit | None) -> str:
    """Return what the values of a part are, for a message."""
    text = isinstance(part, ast.Constant) and isinstance(part.value, str)
    return str(unit) if unit is not None else "a text" if text else "a number"


_UNARY: dict[type[ast.unaryop], str] = {ast.Not: "not", ast.USub: "-", ast.UAdd: "+"}
# Of two durations, these are numbers.
_QUOTIENTS = ast.Div | ast.FloorDiv
_NAMES: dict[type[ast.expr], str] = {
    ast.Lambda: "lambda",
    ast.IfExp: "if",
    ast.JoinedStr: "text",
    ast.Tuple: "a list",
    ast.List: "a list",
    ast.NamedExpr: ":=",
}
