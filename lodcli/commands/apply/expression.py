"""Expressions over whole tensors, for `lod apply`: arithmetic, functions and ops."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from lodcli.commands.apply.arguments import described
from lodcli.commands.choose.item_values import both_valid, fits, valid_of
from lodcli.expressions.decimals import exact_floats
from lodcli.expressions.evaluation import Evaluation
from lodcli.expressions.functions import COMPARISONS, GROWING, ONE, TWO, rounded
from lodcli.expressions.parsing import Parsed, function_name, is_length, words_of
from lodcli.formats.core.errors import naming
from lodcli.formats.core.schema import Schema
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import (
    InvalidDataError,
    LodError,
    NotFloatingError,
    NullError,
    ShapeMismatchError,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.plugins import find_op, working
from lodcli.kernels.ops.pooling.pool import sequence_sum
from lodcli.kernels.ops.registry import OPS, OpEntry
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Decimals, Marks, Times, Unit
from lodcli.kernels.tensor.nulls import Mask, Nulls

# Besides the ops, such as sum, which reduce every sequence as well.
_REDUCTIONS = ("all", "any", "length")
# The difference of two dates, and a unit for durations whose unit does not matter.
_DAYS, _SECONDS = Times("duration", "D"), Times("duration", "s")

Values = LoDTensor | bool | int | float


def ops() -> dict[str, OpEntry]:
    """Return the built-in ops that an expression can call: those that work batch by batch."""
    return {name: entry for name, entry in OPS.items() if entry.itemwise}


def op_of(name: str) -> OpEntry | None:
    """Return the op of a name in an expression, built in or of a plug-in; None if it is not one."""
    return None if name in {"", "tensor", *_REDUCTIONS, *ONE, *TWO} else find_op(name)


class TensorExpression(Parsed):
    """An expression whose value is a tensor.

    Attributes:
        keeps: whether every op in it keeps the index, or its upper levels.

    Raises:
        ExpressionError: the text is not an expression, or names no tensor.

    >>> words = LoDTensor(np.array([1.0, 3.0, 8.0]), [[2, 1]])
    >>> TensorExpression("x - mean(x) * 2").of({"x": words}).data.tolist()
    [-3.0, -1.0, -8.0]
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        self.keeps = True
        for call in calls:
            name = function_name(call)
            entry = op_of(name)
            if entry is not None and entry.itemwise:
                self.keeps = self.keeps and bool(entry.keeps or entry.pools)
            elif name not in {"tensor", *_REDUCTIONS, *ONE, *TWO}:
                self._refuse_function(call, name)
        if not self.tensors:
            self.fail(self.tree, "has no tensor; write its name, as in data * 2")

    def check(self, schema: Schema) -> None:
        """Raise ExpressionError if a tensor that it names does not exist, or holds no numbers."""
        self.know(schema)
        of_any_kind = {id(node) for node in self._of_any_kind()}
        for node in ast.walk(self.tree):
            name = self.named(node)
            if name is None:
                continue
            assert isinstance(node, ast.expr)
            if name not in self.marks:
                self.no_tensor(node, name)
            kind = self.marks[name].values
            if kind is not None and id(node) not in of_any_kind:
                self.fail(node, f"{name} is {kind}; an expression computes with numbers")

    def _of_any_kind(self) -> Iterator[ast.AST]:
        """Yield the parts that may be tensors of text."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and is_length(node):
                yield node.args[0]
            elif isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
                if any(words_of(part) for part in parts) or all(map(self.is_of_words, parts)):
                    yield from parts

    def of(self, tensors: Mapping[str, LoDTensor]) -> LoDTensor:
        """Return the value.

        Args:
            tensors: those it names, with equally many outermost items.
        """
        with np.errstate(all="ignore"):
            found = _Tensors(self, tensors).of(self.tree)
            unit = self.marks_of(self.tree)[1].unit
            if unit == _DAYS:  # no unit of a tensor
                found, unit = arithmetic(np.multiply, found, 86_400), _SECONDS
        assert isinstance(found, LoDTensor)
        return _with_unit(found.to_device("cpu"), unit)

    def nulls(self) -> bool:
        """Return whether the value may have nulls: of an empty sequence, no time is the first."""
        return any(isinstance(self.marks[one].unit, Times | Categories) for one in self.tensors)

    def picks(self, function: str) -> bool:
        entry = op_of(function)
        return entry.marks if entry else super().picks(function)

    def _refuse_function(self, call: ast.Call, name: str) -> None:
        if op_of(name) is not None:
            self.fail(
                call,
                f"{name} needs a whole file or several, and cannot be part of an expression; "
                f"see lod apply {name} --help",
            )
        self.refuse_call(call)

    def functions(self) -> Collection[str]:
        theirs = [entry.name for entry in working()[0] if entry.itemwise]
        return {*ONE, *TWO, *_REDUCTIONS, *ops(), *theirs, "tensor"}


class _Tensors(Evaluation[Values]):
    """The values of the parts of an expression: tensors, or numbers."""

    def __init__(self, expression: TensorExpression, tensors: Mapping[str, LoDTensor]) -> None:
        super().__init__(expression)
        self._values = tensors

    def constant(self, value: bool | int | float) -> Values:
        return value

    def tensor(self, node: ast.expr, name: str) -> Values:
        found = self.numbers(name, self._valid(name))
        assert isinstance(found, LoDTensor)
        return LoDTensor(found.data, found.lod)  # the expression knows the marks

    def _valid(self, name: str) -> LoDTensor:
        with naming(name):
            self._values[name].refuse_nulls("lod apply")
        return self._values[name]

    def floats(self, name: str, digits: Array, decimals: Decimals) -> Array:
        with naming(name):
            return exact_floats(digits, decimals)

    def data(self, values: Values) -> Array:
        return values.values if isinstance(values, LoDTensor) else np.asarray(values)

    def mapped(self, function: Callable[[Array], Array], values: Values) -> Values:
        result: Any = function(self.data(values))
        if not isinstance(values, LoDTensor):
            number: bool | int | float = result.item()
            return number
        return LoDTensor(result, values.lod, nulls=values.nulls)

    def combined(self, function: np.ufunc, left: Values, right: Values) -> Values:
        if isinstance(left, LoDTensor) and isinstance(right, LoDTensor):
            left, right = _aligned(left, right)
        elif function in COMPARISONS.values():
            left, right = _compared(left, right), _compared(right, left)
        return arithmetic(function, left, right)

    def paired(
        self, function: Callable[[Array, Array], Array], left: Values, right: Values
    ) -> Values:
        assert isinstance(left, LoDTensor)
        assert isinstance(right, LoDTensor)
        one, other = _aligned(left, right)
        order = function(*(each.to_device("cpu").values for each in (one, other)))
        found = LoDTensor(order, one.lod).to_device(left.device)
        return _with_valid(found, both_valid(one.nulls.rows, other.nulls.rows))

    def timed(self, function: np.ufunc, left: Values, right: Values) -> Values:
        found = self.combined(function, left, right)
        whole = function in GROWING and self.data(found).dtype.kind == "i"
        if whole and not fits(function, self.data(left), self.data(right)):  # some may not fit
            floats = (self.mapped(lambda data: data.astype(float), one) for one in (left, right))
            # An overflow is off by a multiple of 2**64; rounding by far less.
            off = self.data(self.combined(function, *floats)) - self.data(found)
            if np.any(np.abs(off) >= 2.0**62):
                raise InvalidDataError("a time does not fit 64 bits")
        return found

    def elementwise(self, function: np.ufunc, values: Values) -> Values:
        return arithmetic(function, values)

    def of_texts(self, name: str, function: Callable[[Array, Offsets], Array]) -> Values:
        texts = self._valid(name).to_device("cpu")
        found = LoDTensor(function(texts.data, texts.lod.levels[-1]), texts.lod.without_finest())
        return found.to_device(self._values[name].device)

    def call(self, node: ast.Call, name: str) -> Values:
        entry = op_of(name)
        if entry is not None:
            return self._op(node, entry)
        if len(node.args) != 1 or node.keywords:
            self.fail(node, f"{name} takes one argument, as in {name}(data)")
        name_of = self.expression.named(node.args[0])
        if name == "length" and name_of is not None:
            values: Values = self._values[name_of]  # only its index, which may have nulls
        else:
            values = self.of(node.args[0])
        if not isinstance(values, LoDTensor) or not values.lod.n_levels:
            self.fail(node.args[0], f"{name} takes a tensor with a level; this has none")
        if name == "length":
            lengths = LoDTensor(values.lod.lengths(-1), values.lod.without_finest())
            return lengths.to_device(values.device)
        # The number of values that are not 0, or that are.
        found = arithmetic(np.not_equal if name == "any" else np.equal, values, 0)
        assert isinstance(found, LoDTensor)
        counts = sequence_sum(found.astype(np.int64), backend="auto")
        return arithmetic(np.greater if name == "any" else np.equal, counts, 0)

    def _op(self, node: ast.Call, entry: OpEntry) -> Values:
        own = described(entry)
        if len(node.args) != 1:
            self.fail(node, f"{entry.name} takes one tensor, and options by name, as level=0")
        tensor = self.of(node.args[0])
        if not isinstance(tensor, LoDTensor):
            self.fail(node.args[0], f"{entry.name} takes a tensor, this is one number")
        options = {word.arg or "**": self._literal(word.value) for word in node.keywords}
        known = [one.name for one in own.options]
        for word in options:
            if word not in known:
                self.fail(node, f"{entry.name} has no option {word!r}; {_list(known)}")
        for one in own.options:
            if one.required and one.name not in options:
                self.fail(node, f"{entry.name} needs the option {one.name}")
        if own.several:
            self.fail(node, f"{entry.name} returns several tensors; use it alone")
        unit = self.expression.marks_of(node.args[0])[1].unit
        try:
            if isinstance(unit, Times) and "pad_value" in options:
                options["pad_value"] = in_unit(options["pad_value"], unit)
            elif isinstance(unit, Times) and entry.name == "mean":
                options["pad_value"] = np.nan  # as a time, a null
            if entry.marks:
                tensor = _with_unit(tensor, _SECONDS if unit == _DAYS else unit)
            result = own.function(tensor, **options)
        except NotFloatingError as error:
            self.fail(node, f"{error}; --dtype float32 converts them first")
        except NullError as error:
            self.fail(node, f"{error}; pad_value=X replaces those of empty sequences")
        except LodError as error:
            root = "; the square root of each value is x ** 0.5" if entry.name == "sqrt" else ""
            self.fail(node, f"{error}{root}")
        except (TypeError, ValueError, OverflowError) as error:
            self.fail(node, f"{entry.name}: {error}")
        assert isinstance(result, LoDTensor)
        return LoDTensor(result.values, result.lod, nulls=result.nulls)

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            self.fail(node, "expected a number, a text in quotes or a list of them")


def _list(known: list[str]) -> str:
    return f"there are: {', '.join(known)}" if known else "it has none"


def _with_unit(tensor: LoDTensor, unit: Unit | None) -> LoDTensor:
    """Return times or categories in main memory; a time that is no number of 64 bits is null.

    Fractions of a unit are cut, as in NumPy. Other tensors are returned as they are.
    """
    data = tensor.values
    if isinstance(unit, Categories) and not is_float(data.dtype):  # not converted by --dtype
        return LoDTensor(data, tensor.lod, Marks(unit=unit), tensor.nulls)
    if not isinstance(unit, Times):
        return tensor
    if is_float(data.dtype):
        held = np.abs(data) < 2.0**63
        data = np.where(held, data, 0)
        rows: Any = LoDTensor(held.all(axis=tuple(range(1, held.ndim)))).to_device("cpu").data
        tensor = _with_valid(tensor, rows)
    return LoDTensor(data.astype(np.int64), tensor.lod, Marks(unit=unit), tensor.nulls)


def _with_valid(tensor: LoDTensor, valid: Mask | None) -> LoDTensor:
    """Return a tensor with a null for each row that is not valid, besides those that it has."""
    if valid is None or valid.all():
        return tensor
    rows = both_valid(tensor.nulls.rows, valid)
    return LoDTensor(
        tensor.values, tensor.lod, nulls=Nulls.of([*[None] * tensor.lod.n_levels, rows])
    )


def arithmetic(function: np.ufunc, *values: Values) -> Values:
    """Return the result of an elementwise function of tensors and numbers, in NumPy's dtype.

    Raises:
        InvalidDataError: the function is not defined for these dtypes.
    """
    masks = [one.nulls.rows if isinstance(one, LoDTensor) else None for one in values]
    if any(mask is not None for mask in masks):
        plain = [
            LoDTensor(one.values, one.lod) if isinstance(one, LoDTensor) else one for one in values
        ]
        made = arithmetic(function, *plain)
        assert isinstance(made, LoDTensor)
        data = [np.asarray(getattr(one, "values", one)) for one in values]
        return _with_valid(made, valid_of(function, data, masks))
    try:
        result = function(*values)
    except TypeError:
        kinds = " and ".join(
            str(one.dtype) if isinstance(one, LoDTensor) else type(one).__name__ for one in values
        )
        raise InvalidDataError(f"{function.__name__} is not defined for {kinds}") from None
    except (ValueError, OverflowError) as error:
        raise InvalidDataError(f"{function.__name__}: {error}") from None
    return result if isinstance(result, LoDTensor) else result.item()


def _compared(value: Values, beside: Values) -> Any:
    """Return a float beside bfloat16 as `rounded`, for NumPy does not round it; others as given."""
    if isinstance(value, float) and isinstance(beside, LoDTensor) and beside.dtype.kind == "V":
        return rounded(np.asarray(value), beside.dtype)[()]
    return value


def _aligned(left: LoDTensor, right: LoDTensor) -> tuple[LoDTensor, LoDTensor]:
    """Return two tensors under one index, with rows of as many axes.

    A tensor with fewer levels has one row for each sequence of the next level of the other: it is
    broadcast to the rows of that sequence. Single values are broadcast to the columns of a row.
    """
    if left.lod.n_levels < right.lod.n_levels:
        left = _repeated(left, right)
    elif right.lod.n_levels < left.lod.n_levels:
        right = _repeated(right, left)
    rank = max(left.values.ndim, right.values.ndim)
    a, b = (
        one.values.reshape(*one.values.shape, *[1] * (rank - one.values.ndim))
        for one in (left, right)
    )
    if any(x != y and 1 not in (x, y) for x, y in zip(a.shape[1:], b.shape[1:], strict=True)):
        raise ShapeMismatchError(
            f"the two sides have rows of shape {left.row_shape} and {right.row_shape}"
        )
    lod = left.lod
    if lod is not right.lod and not lod.same_levels(right.lod):
        raise ShapeMismatchError("the two sides have sequences of different lengths")
    if len(a) != len(b):
        raise ShapeMismatchError(f"the two sides have {len(a)} and {len(b)} rows")
    return LoDTensor(a, lod, nulls=left.nulls), LoDTensor(b, lod, nulls=right.nulls)


def _repeated(tensor: LoDTensor, deep: LoDTensor) -> LoDTensor:
    depth = tensor.lod.n_levels
    above = [
        np.array_equal(*pair) for pair in zip(tensor.lod.levels, deep.lod.levels, strict=False)
    ]
    if not all(above) or tensor.rows != deep.lod.count(depth):
        raise ShapeMismatchError(
            "the side with fewer levels has not one row for each sequence of the other"
        )
    lengths = np.diff(deep.lod.absolute(depth))
    data = tensor.to_device("cpu").values.repeat(lengths, axis=0)
    rows = tensor.nulls.rows
    found = _with_valid(LoDTensor(data, deep.lod), None if rows is None else rows.repeat(lengths))
    return found.to_device(deep.device)
