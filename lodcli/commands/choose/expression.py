"""A small language over the items of a level: comparisons, arithmetic, lengths and sums.

The text is parsed by Python's own parser and never executed: each kind of node has its method
here, and any other is an error that names its column.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from lodcli.commands.choose.item_values import BINARY, COMPARISONS, REDUCTIONS, Values, combined
from lodcli.formats.core.errors import naming
from lodcli.formats.core.schema import Schema
from lodcli.kernels.errors import InvalidDataError, OptionError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

LONGEST = 10_000
_FUNCTIONS = ("length", *REDUCTIONS, "abs", "tensor")

# By name, the index from the level of the items on, and the rows.
Tensors = Mapping[str, tuple[LoD, Array]]


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


class Expression:
    """An expression that was parsed.

    Attributes:
        text: as it was written.
        tensors: the names of tensors in it, in order, each once.

    Raises:
        ExpressionError: it is none.

    >>> words = (LoD.from_lengths([[2, 0, 1]]), np.array([1.0, 3.0, 8.0]))
    >>> Expression("length() > 1 or max(data) == 8").values({"data": words}, 3).tolist()
    [True, False, True]
    """

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split("\n")).strip()
        self._tree = self._parsed()
        self._level_names = {
            id(call.args[0])
            for call in ast.walk(self._tree)
            if isinstance(call, ast.Call) and _function(call) == "length" and call.args
        }
        names: dict[str, None] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                self._level_names.add(id(node.func))
                if _function(node) == "tensor":
                    names[self._string(node)] = None
            elif isinstance(node, ast.Name) and id(node) not in self._level_names:
                names[node.id] = None
        self.tensors = tuple(names)

    def check(self, schema: Schema) -> None:
        """Raise ExpressionError if it does not fit the tensors of a schema."""
        tensors = {}
        for spec in schema:
            empty = spec.empty()
            tensors[spec.name] = (empty.lod, empty.data)
        self.values(tensors, 0)

    def of_batch(self, batch: Mapping[str, LoDTensor], count: int) -> Array:
        """Return `values` of a batch.

        Raises:
            UnsupportedError: a tensor that is used has nulls; names it and the place.
        """
        for name in self.tensors:
            with naming(name):
                batch[name].refuse_nulls("an expression")
        tensors = {name: (tensor.lod, tensor.values) for name, tensor in batch.items()}
        return self.values(tensors, count)

    def values(self, tensors: Tensors, count: int) -> Array:
        """Return the value for every item, (count,).

        Args:
            tensors: that share the items. Without levels a tensor has one row for each.
            count: how many items there are.
        """
        with np.errstate(all="ignore"):
            found = _Evaluation(self, tensors, count).of(self._tree)
        if found.rows is not None or found.data.ndim > 1:
            several = "row" if found.data.ndim == 1 else "column"
            self.fail(
                self._tree,
                f"has several values for an item, one for each {several}; "
                "take one with mean(..), max(..), any(..) or another function",
            )
        return np.broadcast_to(found.data, (count,))

    def fail(self, node: ast.expr, what: str) -> NoReturn:
        """Raise what is wrong with a part of it."""
        column = len(self.text.encode()[: node.col_offset].decode(errors="replace"))
        raise ExpressionError(what, self.text, column)

    def _parsed(self) -> ast.expr:
        if len(self.text) > LONGEST:
            raise ExpressionError(f"is longer than {LONGEST} characters", self.text[:60], 0)
        try:
            return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            column = min(max(0, (error.offset or 1) - 1), len(self.text))
            hint = "; equality is ==" if "=" in self.text[column - 1 : column + 2] else ""
            hint = (
                "; write and, or, not"
                if {"&&", "||"}
                & {self.text[column - 1 : column + 1], self.text[column : column + 2]}
                else hint
            )
            what = f"not understood ({error.msg}){hint}" if self.text else "is empty"
            raise ExpressionError(what, self.text, column) from None
        except (ValueError, RecursionError, MemoryError):
            raise ExpressionError("is nested too deeply, or no text", self.text[:60], 0) from None

    def _string(self, call: ast.Call) -> str:
        if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Constant):
            name = call.args[0].value
            if isinstance(name, str):
                return name
        self.fail(call, "write tensor('NAME')")


def _function(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


class _Evaluation:
    """The values of the parts of an expression."""

    def __init__(self, expression: Expression, tensors: Tensors, count: int) -> None:
        self._expression = expression
        self._tensors = tensors
        self._count = count
        self._fail = expression.fail

    def of(self, node: ast.expr) -> Values:
        """Return the values of a part."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            self._fail(node, f"{_NAMES.get(type(node), 'this')} cannot be used here")
        try:
            found: Values = method(node)
        except RecursionError:
            self._fail(node, "is nested too deeply")
        return found

    def _constant(self, node: ast.Constant) -> Values:
        value = node.value
        if not isinstance(value, bool | int | float):
            self._fail(node, f"expected a number, found {value!r}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self._fail(node, "the number does not fit 64 bits")
        return Values(np.asarray(value))

    def _name(self, node: ast.Name) -> Values:
        return self._tensor(node, node.id)

    def _tensor(self, node: ast.expr, name: str) -> Values:
        if name not in self._tensors:
            hint = f"; write {name}(..)" if name in _FUNCTIONS else ""
            self._fail(
                node,
                f"no tensor {name!r} with these items{hint}; there are: {', '.join(self._tensors)}",
            )
        lod, data = self._tensors[name]
        return Values(data, lod.absolute(0) if lod.n_levels else None)

    def _subscript(self, node: ast.Subscript) -> Values:
        values = self.of(node.value)
        try:
            column = ast.literal_eval(node.slice)
        except ValueError:
            column = None
        place = column if isinstance(column, tuple) else (column,)
        if not all(type(one) is int for one in place):
            self._fail(node.slice, "expected the number of a column, as in data[2]")
        shape = values.data.shape[1:]
        if len(place) != len(shape) or any(
            not -size <= one < size for one, size in zip(place, shape, strict=False)
        ):
            self._fail(node.slice, f"no column {column}; rows have shape {shape}")
        return Values(values.data[(slice(None), *place)], values.rows)

    def _unaryop(self, node: ast.UnaryOp) -> Values:
        values = self.of(node.operand)
        if isinstance(node.op, ast.Not):
            return Values(values.data == 0, values.rows)
        if isinstance(node.op, ast.USub):
            return Values(-values.number, values.rows)
        if isinstance(node.op, ast.UAdd):
            return Values(values.number, values.rows)
        self._fail(node, "~ cannot be used here; write not")

    def _binop(self, node: ast.BinOp) -> Values:
        function = BINARY.get(type(node.op))
        if function is None:
            self._fail(node, "only + - * / // and % can be used here; write and, or for & and |")
        return self._combined(node, function, self.of(node.left), self.of(node.right))

    def _boolop(self, node: ast.BoolOp) -> Values:
        function = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        found = self.of(node.values[0])
        for more in node.values[1:]:
            found = self._combined(more, function, found, self.of(more))
        return found

    def _compare(self, node: ast.Compare) -> Values:
        left, found = self.of(node.left), None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                right = left
                one = self._member(left, right_node, isinstance(op, ast.NotIn))
            elif type(op) in COMPARISONS:
                right = self.of(right_node)
                one = self._combined(right_node, COMPARISONS[type(op)], left, right)
            else:
                self._fail(right_node, "compare with == and !=, not with is")
            found = one if found is None else self._combined(node, np.logical_and, found, one)
            left = right
        assert found is not None
        return found

    def _member(self, left: Values, node: ast.expr, inverted: bool) -> Values:
        if not isinstance(node, ast.Tuple | ast.List | ast.Set):
            self._fail(node, "expected a list of numbers, as in (1, 3)")
        found = np.zeros(left.data.shape, np.bool_)
        for one in node.elts:
            value = self.of(one)
            if value.data.ndim:
                self._fail(one, "expected a number")
            found |= left.data == value.data
        return Values(found ^ inverted, left.rows)

    def _call(self, node: ast.Call) -> Values:
        name = _function(node)
        if not name:
            self.of(node.func)
            self._fail(node, "only functions can be called")
        if name not in _FUNCTIONS:
            self._fail(node, f"no function {name!r}; there are: {', '.join(_FUNCTIONS)}")
        if name == "length":
            return self._length(node)
        if len(node.args) != 1 or node.keywords:
            self._fail(node, f"{name} takes one argument, as in {name}(data)")
        if name == "tensor":
            argument = node.args[0]
            assert isinstance(argument, ast.Constant)
            return self._tensor(argument, str(argument.value))
        values = self.of(node.args[0])
        if name == "abs":
            return Values(np.abs(values.number), values.rows)
        if not values.data.ndim:
            self._fail(node.args[0], f"{name} is of a tensor, this is one number")
        try:
            return Values(REDUCTIONS[name](values))
        except InvalidDataError as error:
            self._fail(node.args[0], str(error))

    def _length(self, node: ast.Call) -> Values:
        if len(node.args) > 1 or node.keywords:
            self._fail(node, "write length(), length(LEVEL) or length(TENSOR)")
        lod = max((lod for lod, _ in self._tensors.values()), key=lambda lod: lod.n_levels)
        if not lod.n_levels:
            self._fail(node, "the items are rows and have no length")
        depth = 0
        if node.args:
            lod, depth = self._level(node.args[0], lod)
        lengths = lod.lengths(depth)
        if not depth:
            return Values(lengths)
        offsets = lod.levels[0]
        for level in lod.levels[1:depth]:
            offsets = level[offsets]
        return Values(lengths, offsets)

    def _level(self, node: ast.expr, deepest: LoD) -> tuple[LoD, int]:
        """Return the index that has a level or is a tensor's, and the level's number in it."""
        level: object = getattr(node, "value", None)
        if isinstance(node, ast.Name):
            level = node.id
        if isinstance(level, int) and 0 <= level < deepest.n_levels:
            return deepest, level
        for lod, _ in self._tensors.values():
            if isinstance(level, str) and lod.names.count(level) == 1:
                return lod, lod.names.index(level)
        if isinstance(level, str) and level in self._tensors and self._tensors[level][0].n_levels:
            return self._tensors[level][0], 0
        names = [name for name in deepest.names if name]
        known = ", ".join([*names, *map(str, range(deepest.n_levels))])
        self._fail(node, f"no level {ast.unparse(node)} from the items down; there are: {known}")

    def _combined(self, node: ast.expr, function: np.ufunc, left: Values, right: Values) -> Values:
        try:
            return combined(function, left, right)
        except InvalidDataError as error:
            self._fail(node, str(error))


_NAMES: dict[type[ast.expr], str] = {
    ast.Attribute: "a dot",
    ast.Lambda: "lambda",
    ast.IfExp: "if",
    ast.JoinedStr: "text",
    ast.Tuple: "a list",
    ast.List: "a list",
    ast.NamedExpr: ":=",
}
