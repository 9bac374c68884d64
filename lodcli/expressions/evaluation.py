"""The evaluation of expressions over any kind of values.

Each kind of node of the syntax tree has its method; any other is an error that names its column.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from math import isfinite
from shlex import quote
from typing import NoReturn

import numpy as np

from lodcli.expressions.calendar import clock_of, date_of, floor_to, part_of
from lodcli.expressions.compared_texts import ComparedTexts
from lodcli.expressions.comparisons import compared, float_of
from lodcli.expressions.function_table import (
    COALESCE,
    DATE,
    FLOOR,
    INDEX,
    MEDIAN,
    QUANTILE,
    ROUND,
    properties_of,
)
from lodcli.expressions.functions import (
    BINARY,
    COMPARISONS,
    GROWING,
    ONE,
    ORDERING,
    SWAPPED,
    TWO,
    overflowed,
    picked,
    rounded_to,
    written,
)
from lodcli.expressions.hints import (
    TEXT_OF_BYTES,
    call_of,
    cast_hint,
    has_literals,
    hint_of_two,
    misplaced,
    name_hint,
)
from lodcli.expressions.operations import UnfitError, V
from lodcli.expressions.parsing import (
    LISTS,
    dotted,
    function_name,
    is_none,
    is_words,
)
from lodcli.expressions.syntax import is_slice, quotient_of
from lodcli.expressions.units import (
    MOMENTS,
    as_numbers,
    is_duration,
    joint_unit,
    undefined,
)
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.casting import scaled
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.marks import Categories, Decimals, Times, Unit

# A time in a coarser unit is a smaller number.
_COARSER = "lod cast 'TENSOR=timestamp[s]' gives times a coarser unit"
_NULL = "compare with None as in x is None, x is not None"

_Units = tuple[Unit | None, Unit | None]


class Evaluation(ComparedTexts[V]):
    """The values of the parts of an expression."""

    # The message for several expressions.
    of_several = "expected one expression; write and between conditions, as in x > 1 and y > 2"

    def of(self, node: ast.expr) -> V:
        """Return the values of a part: of decimals, floating numbers."""
        name, marks = self.expression.marks_of(node)
        return self.numbers(name, self.in_own_unit(node), marks.unit)

    def in_own_unit(self, node: ast.expr) -> V:
        """Return the values of a part, which count its unit: of decimals, the digits."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            whole = isinstance(node, ast.Tuple) and node is self.expression.tree
            self.fail(node, self.of_several if whole else misplaced(node))
        try:
            found: V = method(node)
        except RecursionError:
            self.fail(node, "is nested too deeply")
        return found

    def numbers(self, name: str, values: V, unit: Unit | None) -> V:
        """Return the numbers that values of a unit are: of decimals, floating ones."""
        if not isinstance(unit, Decimals) or not unit.scale:
            return values

        def floats(data: Array) -> Array:
            found = scaled(self.floats(name, data, unit), unit)
            return found.astype(np.float64, copy=False)

        return self.mapped(floats, values)

    def contained(self, node: ast.expr, values: ast.expr) -> V:
        """Return which sequences have a value among theirs, or fail."""
        if isinstance(values, ast.Constant):
            self.fail(values, "expected a list of numbers or words, as in (1, 3) or ('a',)")
        if self.expression.is_text(values) and not self.expression.in_lists(values):
            self.refuse_single(node, values)
        equal = ast.copy_location(ast.Compare(values, [ast.Eq()], [node]), values)
        function = ast.copy_location(ast.Name("any", ast.Load()), values)
        return self.of(ast.copy_location(ast.Call(function, [equal], []), values))

    def refuse_single(self, node: ast.expr, values: ast.expr) -> NoReturn:
        """Fail because a list of values is expected, and there is one for each item."""
        name = self.expression.text_of(values)
        word = node.value if isinstance(node, ast.Constant) else None
        of_text = self.expression.is_text(values) and word is not None
        how = f"; contains({name}, {word!r}) searches in it" if of_text else ""
        self.fail(values, f"{name} is one value for each item; compare it with =={how}")

    def null(self, node: ast.expr) -> V:
        """Return where a part is null, or fail."""
        text = self.expression.is_text(node)
        return self.missing(self.numbered(node, []) if text else self.of(node))

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
            self._unfit(node, error)
        numbers = [self.data(one) for one in (left, right, found)]
        if function in GROWING and all(not one.ndim and one.dtype.kind in "iu" for one in numbers):
            first, second, result = map(float, numbers)
            if overflowed(result, function(first, second)):
                self.fail(node, f"the result does not fit {numbers[2].dtype}")
        return found

    def _unfit(self, node: ast.expr, error: LodError) -> NoReturn:
        """Fail because values do not fit each other; no cast makes room for a number of times."""
        of_times = isinstance(self.expression.unit_of(node), Times)
        if isinstance(error, UnfitError) and of_times:
            self.fail(node, f"{error.what}; {_COARSER}")
        self.fail(node, str(error))

    def _constant(self, node: ast.Constant) -> V:
        value = node.value
        if value is None:
            self.fail(node, _NULL)
        if not isinstance(value, bool | int | float):
            self.fail(node, f"expected a number, found {value!r}")
        if not isinstance(value, int) or -(2**63) <= value < 2**64:
            return self.constant(value)
        near = float_of(value)
        of_text = self.expression.source_of(node)[:1] in ("'", '"')  # of a time: see _counted
        if of_text or near != value:
            rounds = f"write {near!r} for the nearest float" if isfinite(near) else ""
            how = _COARSER if of_text else rounds
            self.fail(node, "the number does not fit 64 bits" + f"; {how}" * bool(how))
        return self.constant(near)

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
        if is_slice(node):
            self._refuse_texts(node)
            return self.slice_of(node, self.taken(node))
        values = self.taken(node)
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
            self.fail(node.slice, f"no column {column}; rows have shape {shape}")
        return self.mapped(lambda data: data[(slice(None), *place)], values)

    def _unaryop(self, node: ast.UnaryOp) -> V:
        unit = self.expression.unit_of(node)
        if isinstance(unit, Decimals):
            values = self.in_own_unit(node.operand)
            negates = isinstance(node.op, ast.USub)
            return self.negative(node, values, unit) if negates else values
        if not is_duration(unit):
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
        self._refuse_texts(node)
        if any(isinstance(getattr(one, "value", None), str) for one in ast.walk(node)):
            self.require_known(node)  # before the word is taken for a number
        chain = [node]  # a long sum is nested on the left
        while isinstance(inner := chain[-1].left, ast.BinOp):
            if self.decimals_of(chain[-1]) is not None and self.decimals_of(inner) is None:
                break  # whole numbers, whose digits are computed
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
        decimals = self.expression.unit_of(node)
        if isinstance(decimals, Decimals):
            return self.exact_operator(node, function, decimals, left)
        if left is not None:
            left = self.numbers("this", left, self.expression.unit_of(node.left))
        unit = self.expression.time_of(node)
        one, two = self.expression.sides[node]
        if unit is None:
            self._require_one_kind(node, node.left, node.right)
            if not (is_duration(one) and is_duration(two) and isinstance(node.op, _QUOTIENTS)):
                self._require_numbers(node, written(function), node.left, node.right)
        if unit is not None and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            self._require_held(node.left, node.right)
        if left is None:
            left = self.of(self._counted(node.left, "", one))
        right = self.of(self._counted(node.right, "", two))
        if unit is not None and isinstance(node.op, ast.Add | ast.Sub):
            for side, value in ((node.left, left), (node.right, right)):
                if self.data(value).dtype.kind == "b":
                    self.fail(side, f"{written(function)} is not defined for booleans and {unit}")
        if isinstance(node.op, ast.Pow):
            left, right = self._base(node.left, left), self._base(node.right, right)
        values = self._in_one_unit(node, (left, right), (one, two))
        return self.both(node, function, *values, unit)

    def _base(self, node: ast.expr, values: V) -> V:
        """Return the base or the exponent of a power: of decimals without a point, floats too."""
        name, unit = self.expression.marks_of(node)[0], self.expression.unit_of(node)
        if not isinstance(unit, Decimals) or unit.scale:
            return values
        return self.mapped(lambda digits: self.floats(name, digits, unit), values)

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
        for one, other in ((left, right), (right, left)):
            if isinstance(one, LISTS) and isinstance(op, ast.Eq | ast.NotEq):
                # Its error, where `in` is no remedy.
                found = self._compared(other, ast.In(), one) if has_literals(one) else None
                self.refuse_list(one, other, op, found)
        if isinstance(op, ast.Is | ast.IsNot):
            if not is_none(right):
                self.fail(right, "compare with == and !=, and nulls with is None and is not None")
            null = self.null(left)
            return null if isinstance(op, ast.Is) else self.mapped(np.logical_not, null)
        compared = self.text_comparison(left, op, right)
        if compared is not None:
            return compared
        if isinstance(op, ast.In | ast.NotIn) and not isinstance(right, LISTS):
            found = self.contained(left, right)
            return found if isinstance(op, ast.In) else self.mapped(np.logical_not, found)
        if (exact := self.exact_comparison(left, op, right)) is not None:
            return exact
        if (wide := self._compared_wide(left, op, right)) is not None:
            return wide
        values = self._beside(left, right, op)
        if isinstance(op, ast.In | ast.NotIn):
            assert isinstance(right, LISTS)
            members = [self._member(one, left) for one in right.elts]
            return self.among(values, members, inverted=isinstance(op, ast.NotIn))
        units = self._require_one_kind(right, left, right)
        if type(op) in SWAPPED:
            self._require_order(right, units)
        both = self._in_one_unit(right, (values, self._beside(right, left, op)), units)
        return self.both(right, COMPARISONS[type(op)], *both)

    def _compared_wide(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> V | None:
        """Return a comparison with a whole number, or a time, beyond 64 bits; None of others."""
        for node, other, mirrored in ((left, right, False), (right, left, True)):
            if type(op) not in COMPARISONS or (number := self._wide_beside(node, other)) is None:
                continue
            function = COMPARISONS[SWAPPED.get(type(op), type(op)) if mirrored else type(op)]
            values = self.of(node)
            if type(op) in SWAPPED and self.data(values).dtype.kind == "c":
                self.fail(right, "complex numbers have no order")
            of_number = functools.partial(compared, function, number=np.asarray(number, object))
            return self.mapped(of_number, values)
        return None

    def _wide_beside(self, node: ast.expr, other: ast.expr) -> int | None:
        """Return the number of `other` if it is a constant beyond 64 bits; else None.

        Args:
            node: numbers, or times, which determine the unit of a time in quotes.
            other: the part that may be such a constant.
        """
        name, marks = self.expression.marks_of(node)
        if isinstance(marks.unit, Times) and isinstance(other, ast.Constant):
            counted = self._counted(other, f"{name} is {marks.unit}: ", marks.unit)
            return self.expression.wide_number(counted)
        return self.expression.wide_number(other) if marks.kind is None else None

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
            node: the operation that is not defined for them.
        """
        units = [self.expression.unit_of(part) for part in parts]
        for part, unit in zip(parts, units, strict=True):
            if isinstance(unit, Times | Categories):
                kinds = " and ".join(map(_kind, parts, units))
                how = as_numbers(self.expression.text_of(part), unit)
                self.fail(node, f"{function} is not defined for {kinds}; {how}")

    def _require_defined(self, node: ast.Call, name: str) -> None:
        """Fail if a function is not defined for times or categories, and is called with them."""
        argument, (_, marks) = node.args[0], self.expression.marks_of(node)
        unit, text = self.expression.unit_of(argument), self.expression.text_of(argument)
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

    def _beside(
        self, node: ast.expr, other: ast.expr, op: ast.cmpop, joint: Unit | None = None
    ) -> V:
        """Return the values of a part that is beside another, whose unit a text has.

        Args:
            joint: the unit of both, if it is not that of the other.
        """
        name, marks = self.expression.marks_of(other)
        unit = marks.unit if joint is None else joint
        words = unit if isinstance(unit, Categories) else None
        of_words, tensors = marks.is_text or words is not None, self.expression.marks
        if of_words and isinstance(node, ast.Name) and node.id not in tensors:
            self.expression.no_tensor(node, node.id, f'a text is written "{node.id}"')
        if not is_words(node):
            if words is not None and self.expression.marks_of(node)[1].categories is None:
                example = f" such as {words.words[0]!r}" if words.words else ""
                expected = f"expected a word in quotes{example}, or categories"
                self.fail(node, f"{name} is {words}; {expected}, beside it")
            return self.of(node)
        if isinstance(unit, Times):
            return self.of(self._counted(node, f"{name} is {unit}: ", unit))
        if words is None:
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text in self.expression.marks:
                self.fail(node, f"a name is written without quotes, or as tensor({text!r})")
            hint = name_hint(str(text), ()) or f"{name} is not text"
            if marks.is_text:
                hint = "text is compared with text only"
            elif marks.values == "bytes":
                hint = f"{name} is bytes; {TEXT_OF_BYTES}"
            elif is_words(other):
                hint = "both sides are words; a name is written without quotes"
            found = repr(text) if isinstance(text, str) else "a text"
            self.fail(node, f"expected a number, found {found}; {hint}")
        if type(op) in SWAPPED and not words.ordered:
            self.fail(node, f"the categories of {name} have no order; use ==, != or in")
        if not words.words and joint is None:  # of an empty file, say: all rows are null
            return self.constant(-1)
        return self.of(self._counted(node, f"{name}: ", words))

    def _counted(self, node: ast.expr, prefix: str, unit: Unit | None) -> ast.expr:
        """Return a part; for a text beside times or categories, its number."""
        of_words = is_words(node) and not isinstance(node, ast.Call)
        if not isinstance(unit, Times | Categories) or not of_words:
            return node
        if isinstance(node, ast.IfExp):
            body, other = (self._counted(one, prefix, unit) for one in (node.body, node.orelse))
            return ast.copy_location(ast.IfExp(node.test, body, other), node)
        try:
            number: int = in_unit(getattr(node, "value", None), unit)
        except LodError as error:
            self.fail(node, f"{prefix}{error}")
        return ast.copy_location(ast.Constant(number), node)

    def _member(self, node: ast.expr, left: ast.expr) -> Array:
        """Return a number, or the code of a word, of the list in which values of the left are."""
        if (wide := self._wide_beside(left, node)) is not None:
            return np.asarray(wide, object)
        member = self.data(self._beside(node, left, ast.In()))
        if member.ndim:
            self.fail(node, "expected a number or a word; compare tensors with ==")
        return member

    def _call(self, node: ast.Call) -> V:
        name = function_name(node)
        known = properties_of(name)
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
        if known.part or (name == FLOOR and len(node.args) == 2):
            return self._of_times(node, name)
        if known.words is not None and known.returns != "text":
            return self.of_text_function(node)
        if known.returns == "text":
            self.words_after(node)
            self._refuse_texts(node)
        if name == ROUND and (len(node.args) > 1 or node.keywords):
            return self._rounded(node)
        if name not in ONE and name not in TWO:
            self._refuse_texts(node)
            return self.call(node, name)
        if name in TWO and (len(node.args) < 2 or node.keywords):
            self.fail(node, f"{name} takes several arguments, as in {name}(data, 0)")
        if name in ONE and (len(node.args) != 1 or node.keywords):
            self.fail(node, f"{name} takes 1 argument, as in {name}(data){hint_of_two(node)}")
        if name in ONE:
            self._require_defined(node, name)
            if (decimals := self.decimals_of(node)) is not None:
                return self.exact_function(node, name, decimals)
            return self._function(node, ONE[name], self.of(node.args[0]))
        return self.extreme(node, self._alternatives(node, node.args, ast.Gt()))

    def _alternatives(self, node: ast.expr, parts: Sequence[ast.expr], op: ast.cmpop) -> list[V]:
        """Return values of which one is picked, all in the unit of the result.

        Args:
            op: a comparison that the words of categories must have.
        """
        unit_of = self.expression.unit_of
        unit = unit_of(node)
        if isinstance(unit, Decimals):
            return self.alternatives(parts, unit)
        marked = (one for one in parts if isinstance(unit_of(one), Times | Categories))
        given = next(marked, parts[0])
        name, found = self.expression.marks_of(given)[0], []
        if isinstance(unit, Times):
            self._require_held(*parts)
        for part in parts:
            own = self._require_one_kind(node, given, part)[1]
            values = self.of(part) if part is given else self._beside(part, given, op, unit)
            if isinstance(unit, Times) and not isinstance(own, Times) and self.data(values).ndim:
                expected = "expected times, or one number"
                self.fail(part, f"{name} is {unit}; {expected}, beside it")
            try:
                found.append(self._in_unit(values, own, unit))
            except LodError as error:
                self.fail(node, str(error))
        if type(op) in SWAPPED:
            self._require_order(node, (unit, unit))
        if isinstance(unit, Times) and any(self.data(one).dtype.kind == "f" for one in found):
            # A time in quotes is rounded as means and quotients of times are.
            floats = functools.partial(self.mapped, lambda data: data.astype(np.float64))
            return [one if self.data(one).ndim else floats(one) for one in found]
        return found

    def _require_held(self, *parts: ast.expr) -> None:
        """Fail if a part beside times is a whole number beyond 64 bits: they count in int64."""
        for part in parts:
            if self.expression.wide_number(part) is not None:
                self.fail(part, f"the number does not fit 64 bits; {_COARSER}")

    def _require_coalesce(self, node: ast.Call) -> None:
        """Fail if the arguments of coalesce are too few, or named."""
        if len(node.args) < 2 or node.keywords:
            self.fail(
                node, f"{COALESCE} takes a tensor and what replaces its nulls, as {COALESCE}(x, 0)"
            )

    def _coalesce(self, node: ast.Call) -> V:
        self._require_coalesce(node)
        self._refuse_texts(node)
        return self._first_known(node, self._alternatives(node, node.args, ast.Eq()))

    def one_of(self, node: ast.IfExp | ast.Call, values: list[V | None]) -> V:
        if isinstance(node, ast.IfExp):
            return self._chosen(node, *values)
        self._require_coalesce(node)
        return self._first_known(node, [one for one in values if one is not None])

    def _first_known(self, node: ast.Call, values: list[V]) -> V:
        """Return the first of the values of coalesce that is not null."""
        found, *others = values
        if not self.data(found).ndim:
            kind = "text" if self.expression.texts_of(node) else "number"
            self.fail(node.args[0], f"{COALESCE} takes a tensor first, this is one {kind}")
        for other in others:
            try:
                found = self.coalesced(found, other)
            except LodError as error:
                self._unfit(node, error)
        return found

    def _ifexp(self, node: ast.IfExp) -> V:
        self._refuse_texts(node)
        sides = (node.body, node.orelse)
        given = [one for one in sides if not is_none(one)]
        if not given:
            self.fail(node, "both sides are None")
        values = iter(self._alternatives(node, given, ast.Eq()))
        left, right = (None if is_none(one) else next(values) for one in sides)
        return self._chosen(node, left, right)

    def _chosen(self, node: ast.IfExp, left: V | None, right: V | None) -> V:
        if self.expression.is_text(node.test):
            self.fail(node.test, 'expected a condition, found a text; compare it, as x == "word"')
        self._require_numbers(node.test, "if", node.test)
        condition = self.of(node.test)
        try:
            return self.chosen(condition, left, right)
        except LodError as error:
            self._unfit(node, error)

    def _refuse_texts(self, node: ast.expr) -> None:
        """Fail if a choice is one of texts, which are no numbers."""
        if self.expression.texts_of(node):
            what = self.expression.text_of(node)
            makes = f"lod apply {quote(what)} .. --into NAME makes a tensor of them"
            self.fail(node, f'texts are only compared, as in {what} == "word"; {makes}')

    def _of_times(self, node: ast.Call, name: str) -> V:
        """Return the dates, the times of day or their parts, or times rounded down to a step."""
        most = 2 if name == FLOOR else 1
        if not 1 <= len(node.args) <= most or node.keywords:
            example = "floor(time, 'PT1H')" if name == FLOOR else f"{name}(time)"
            self.fail(node, f"{name} takes {most} argument{'s' * (most > 1)}, as in {example}")
        part, *steps = node.args
        unit, text = self.expression.unit_of(part), self.expression.text_of(part)
        known = properties_of(name)
        kinds = {"date": MOMENTS, "clock": {"timestamp", "time"}}.get(known.part)
        if not isinstance(unit, Times) or (kinds and unit.kind not in kinds):
            what = f"{text} is {unit}" if unit else f"{text} is not a time"
            how = f"; write {text} // 10 * 10 for multiples of a number" if steps else ""
            if unit is None and self.expression.is_text(part):
                source = self.expression.source_of(part)
                how = cast_hint(self.expression.named(part), source, "timestamp[s]")
            moments = {"date": "a timestamp or date", "clock": "a timestamp"}
            expected = moments.get(known.part, "times")
            self.fail(part, f"{name} takes {expected}, {what}{how}")
        values, step = self.whole_times(self.of(part)), self._step(steps[0]) if steps else ""
        try:
            if name == FLOOR:
                function = floor_to(step, unit)
            elif known.returns == "count":
                function = part_of(name, unit)
            else:
                function = date_of(unit) if name == DATE else clock_of(unit)
            return self.mapped(function, values)
        except LodError as error:
            self.fail(steps[0] if steps else node, str(error))

    def fraction(self, node: ast.Call) -> float:
        """Return the share of the values that are below a quantile, from 0 to 1, or fail."""
        name, given = function_name(node), node.args[1:]
        if name == MEDIAN and len(node.args) == 1 and not node.keywords:
            return 0.5
        single = len(given) == 1 and not node.keywords
        number_of = self.expression.number_of
        number = quotient_of(given[0], number_of) if name == QUANTILE and single else None
        if number is not None and 0 <= number <= 1:
            return float(number)
        what = "one argument" if name == MEDIAN else "an argument and a number from 0 to 1"
        self.fail(node, f"{name} takes {what}, as in {call_of(name)}{hint_of_two(node)}")

    def _rounded(self, node: ast.Call) -> V:
        """Return values rounded to a number of digits after the point."""
        digits = self.expression.rounding(node)
        self._require_numbers(node, ROUND, node.args[0])
        if (decimals := self.decimals_of(node)) is not None:
            return self.exact_function(node, ROUND, decimals)
        values = self.of(node.args[0])
        if self.data(values).dtype.kind in "biu":
            return self._function(node, np.rint, values)
        return self.mapped(functools.partial(rounded_to, digits=digits), values)

    def _step(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        self.fail(node, "expected a duration in quotes, such as 'PT1H', 'P1D' or 'P1M'")

    def _function(self, node: ast.expr, function: np.ufunc, values: V) -> V:
        try:
            return self.elementwise(function, values)
        except LodError as error:
            self.fail(node, str(error))


def _kind(part: ast.expr, unit: Unit | None) -> str:
    """Return a description of the values of a part, for a message."""
    text = isinstance(part, ast.Constant) and isinstance(part.value, str)
    return str(unit) if unit is not None else "a text" if text else "a number"


_UNARY: dict[type[ast.unaryop], str] = {ast.Not: "not", ast.USub: "-", ast.UAdd: "+"}
# Of two durations, these are numbers.
_QUOTIENTS = ast.Div | ast.FloorDiv
