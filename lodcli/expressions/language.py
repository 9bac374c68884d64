"""The language of expressions: its parser, and its evaluation over any kind of values.

The text is parsed by Python's own parser and never executed: each kind of node has its method
here, and any other is an error that names its column.
"""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import LodError, OptionError
from lodcli.kernels.index.checks import Array

LONGEST = 10_000
BINARY: dict[type[ast.operator], np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder,
}
COMPARISONS: dict[type[ast.cmpop], np.ufunc] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}

# Functions of whole numbers whose result may be outside the range of the dtype.
GROWING = (np.add, np.subtract, np.multiply, np.power)
_NULL = "compare with None as in x is None, x is not None"
_LISTS = (ast.Tuple, ast.List, ast.Set)

V = TypeVar("V")


class ExpressionError(OptionError):
    """An expression that means nothing, or not with these tensors.

    Attributes:
        text: the expression.
        column: where, in characters from 0.
    """

    def __init__(self, what: str, text: str, column: int) -> None:
        super().__init__(f"expression, column {column + 1}: {what}")
        self.text = text
        self.column = column


class Parsed:
    """An expression that was parsed.

    Attributes:
        text: as it was written.
        tree: its syntax tree.
        tensors: the names of tensors in it, in order, each once.

    Raises:
        ExpressionError: it is none.
    """

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split("\n")).strip()
        self.tree = self._parsed()
        self._level_names = {
            id(call.args[0])
            for call in ast.walk(self.tree)
            if isinstance(call, ast.Call) and function_name(call) == "length" and call.args
        }
        nodes = list(ast.walk(self.tree))
        self._level_names |= {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self._level_names |= {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        names = [name for node in nodes if (name := self.named(node)) is not None]
        self.tensors = tuple(dict.fromkeys(names))

    def named(self, node: ast.AST) -> str | None:
        """Return the name of the tensor that a part refers to, also tensor('NAME'); else None."""
        if isinstance(node, ast.Call) and function_name(node) == "tensor":
            return self._string(node)
        return None if id(node) in self._level_names else dotted(node)

    def fail(self, node: ast.expr, what: str) -> NoReturn:
        """Raise an error at the column of a part of the expression."""
        column = len(self.text.encode()[: node.col_offset].decode(errors="replace"))
        raise ExpressionError(what, self.text, column)

    def _parsed(self) -> ast.expr:
        if len(self.text) > LONGEST:
            raise ExpressionError(f"is longer than {LONGEST} characters", self.text[:60], 0)
        try:
            return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            # 0 where the text ends too early.
            column = min(error.offset - 1 if error.offset else len(self.text), len(self.text))
            near = self.text[max(column - 1, 0) : column + 2]
            hint = "; equality is ==" if "=" in near else ""
            operators = "&&" in near or "||" in near or "!" in near.replace("!=", "")
            if operators or re.search(r"\b(AND|OR|NOT)\b", self.text):
                hint = "; write and, or, not"
            what = f"not understood ({error.msg}){hint}" if self.text else "is empty"
            if "integer string" in error.msg:
                what = "a number has too many digits"
            raise ExpressionError(what, self.text, column) from None
        except UnicodeEncodeError as error:
            what = f"expected UTF-8, found {self.text[error.start]!a}"
            raise ExpressionError(what, self.text, error.start) from None
        except (ValueError, RecursionError, MemoryError):
            raise ExpressionError("is nested too deeply", self.text[:60], 0) from None

    def _string(self, call: ast.Call) -> str:
        if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Constant):
            name = call.args[0].value
            if isinstance(name, str):
                return name
        self.fail(call, "write tensor('NAME')")


def rounded(number: Array, dtype: np.dtype[Any]) -> Array:
    """Return a number () in the dtype of the floats beside it, as NumPy rounds Python's numbers.

    A number that the dtype does not hold, such as a large whole one, stays as it is.

    >>> rounded(np.asarray(0.1), np.dtype("float32")) == np.float32(0.1)
    np.True_
    """
    if not is_float(dtype):
        return number
    near = number.astype(dtype)
    same = np.isfinite(near) == np.isfinite(number) if is_float(number.dtype) else near == number
    return near if same else number


def dotted(node: ast.AST) -> str | None:
    """Return a name, or one of a field of records such as s.t.x; None of others."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *names[::-1]]) if isinstance(node, ast.Name) else None


def function_name(call: ast.Call) -> str:
    """Return the name that is called; "" if it is none."""
    return call.func.id if isinstance(call.func, ast.Name) else ""


class Evaluation(ABC, Generic[V]):
    """The values of the parts of an expression.

    Args:
        expression: what is evaluated.
    """

    # Other operators than those of BINARY, and what may be written.
    binary: ClassVar[dict[type[ast.operator], np.ufunc]] = BINARY
    operators: ClassVar[str] = "+ - * / // and %"

    def __init__(self, expression: Parsed) -> None:
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
    def negative(self, values: V) -> V:
        """Return - values."""

    @abstractmethod
    def call(self, node: ast.Call, name: str) -> V:
        """Return the result of a function, or fail."""

    def of(self, node: ast.expr) -> V:
        """Return the values of a part."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            self.fail(node, f"{_NAMES.get(type(node), 'this')} cannot be used here")
        try:
            found: V = method(node)
        except RecursionError:
            self.fail(node, "is nested too deeply")
        return found

    def word(self, node: ast.Constant, beside: ast.expr) -> V:
        """Return the code of a word, compared with the categories of a tensor, or fail."""
        self.fail(node, f"expected a number, found {node.value!r}")

    def contained(self, node: ast.expr, values: ast.expr) -> V:
        """Return which items have a value among others, or fail."""
        self.fail(values, "expected a list of numbers or words, as in (1, 3)")

    def null(self, node: ast.expr) -> V:
        """Return where a part is null, or fail."""
        self.fail(node, "these expressions have no nulls; --nulls fill=X or zero replaces them")

    def texts(self, node: ast.expr, words: Sequence[str]) -> V | None:
        """Return which texts of a tensor are one of some words; None if it holds no text."""
        return None

    def both(self, node: ast.expr, function: np.ufunc, left: V, right: V) -> V:
        """Return a function of two values; if they do not fit, the column of `node` is shown."""
        try:
            found = self.combined(function, left, right)
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
            self.fail(node.slice, f"no column {column}; rows have shape {shape}")
        return self.mapped(lambda data: data[(slice(None), *place)], values)

    def _unaryop(self, node: ast.UnaryOp) -> V:
        number = getattr(node.operand, "value", None)
        if isinstance(node.op, ast.USub) and type(number) is int:
            # As one number: 2**63 alone is no int64.
            return self._constant(ast.copy_location(ast.Constant(-number), node))
        values = self.of(node.operand)
        if isinstance(node.op, ast.Not):
            return self.mapped(lambda data: np.equal(data, 0), values)
        if isinstance(node.op, ast.USub):
            try:
                return self.negative(values)
            except LodError as error:
                self.fail(node, str(error))
        if isinstance(node.op, ast.UAdd):
            return values
        self.fail(node, "~ cannot be used here; write not")

    def _binop(self, node: ast.BinOp) -> V:
        function = self.binary.get(type(node.op))
        if function is None:
            self.fail(node, f"only {self.operators} can be used here; write and, or for & and |")
        return self.both(node, function, self.of(node.left), self.of(node.right))

    def _boolop(self, node: ast.BoolOp) -> V:
        function = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        found = self.of(node.values[0])
        for more in node.values[1:]:
            found = self.both(more, function, found, self.of(more))
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
        texts = self._texts(left, op, right)
        if texts is not None:
            return texts
        if isinstance(op, ast.In | ast.NotIn) and not isinstance(right, _LISTS):
            found = self.contained(left, right)
            return found if isinstance(op, ast.In) else self.mapped(np.logical_not, found)
        values = self._beside(left, right, op)
        if isinstance(op, ast.In | ast.NotIn):
            assert isinstance(right, _LISTS)
            return self._member(values, left, right, isinstance(op, ast.NotIn))
        return self.both(right, COMPARISONS[type(op)], values, self._beside(right, left, op))

    def _texts(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> V | None:
        """Return which texts are one of the words beside them; None if there are no texts."""
        pairs: list[tuple[ast.expr, list[ast.expr]]] = []
        if isinstance(op, ast.Eq | ast.NotEq):
            pairs = [(left, [right]), (right, [left])]
        elif isinstance(op, ast.In | ast.NotIn) and isinstance(
            right, ast.Tuple | ast.List | ast.Set
        ):
            pairs = [(left, right.elts)]
        for node, others in pairs:
            words = [one.value for one in others if isinstance(one, ast.Constant)]
            strings = [word for word in words if isinstance(word, str)]
            if not strings or len(strings) < len(others):
                continue
            found = self.texts(node, strings)
            if found is not None:
                inverted = isinstance(op, ast.NotEq | ast.NotIn)
                return self.mapped(np.logical_not, found) if inverted else found
        return None

    def _beside(self, node: ast.expr, other: ast.expr, op: ast.cmpop) -> V:
        """Return the values of a part that is compared with another: a word has a code there."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return self.of(node)
        if isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            return self.word(node, other)
        self.fail(node, "a word is compared with ==, != or in")

    def _member(
        self, left: V, left_node: ast.expr, node: ast.Tuple | ast.List | ast.Set, inverted: bool
    ) -> V:
        members = []
        for one in node.elts:
            member = self.data(self._beside(one, left_node, ast.In()))
            if member.ndim:
                self.fail(one, "expected a number")
            members.append(member)

        def is_in(data: Array) -> Array:
            found = np.zeros(data.shape, np.bool_)
            for member in members:
                found |= data == rounded(member, data.dtype)
            return found ^ inverted

        return self.mapped(is_in, left)

    def _call(self, node: ast.Call) -> V:
        name = function_name(node)
        if not name:
            self.of(node.func)
            self.fail(node, "only functions can be called")
        if name == "tensor":
            argument = node.args[0]
            assert isinstance(argument, ast.Constant)
            return self.tensor(argument, str(argument.value))
        return self.call(node, name)


_NAMES: dict[type[ast.expr], str] = {
    ast.Lambda: "lambda",
    ast.IfExp: "if",
    ast.JoinedStr: "text",
    ast.Tuple: "a list",
    ast.List: "a list",
    ast.NamedExpr: ":=",
}
