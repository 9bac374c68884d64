"""Expressions over whole tensors, for `lod apply`: arithmetic, functions and ops."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np

from lodcli.commands.apply.arguments import Parameter, described
from lodcli.commands.apply.elementwise import (
    Values,
    aligned,
    arithmetic,
    chosen,
    coalesced,
    paired,
    require_exact_extremes,
    stacked,
    true_of,
    with_valid,
)
from lodcli.commands.apply.nullable import Nullable
from lodcli.commands.apply.picked_texts import lists_of, picked_texts
from lodcli.commands.apply.skipping_nulls import pooled, refusal
from lodcli.expressions.comparisons import MIRRORED, compared, compared_pairs, is_rounded
from lodcli.expressions.digits import exact_floats
from lodcli.expressions.evaluation import Evaluation
from lodcli.expressions.function_table import COALESCE, FLOOR, FUNCTIONS, QUANTILES, properties_of
from lodcli.expressions.functions import (
    BINARY,
    GROWING,
    TWO,
    clipped,
    fits,
    overflowed,
)
from lodcli.expressions.hints import cast_hint, hint_of_two
from lodcli.expressions.operations import OverflowsError
from lodcli.expressions.parsing import Parsed, function_name, is_words, words_of
from lodcli.expressions.syntax import is_slice, no_lists
from lodcli.expressions.texts import Packed
from lodcli.expressions.units import as_numbers
from lodcli.formats.core.errors import naming
from lodcli.formats.core.schema import Schema
from lodcli.kernels.dtypes import has_nan, is_float
from lodcli.kernels.errors import (
    InvalidDataError,
    LodError,
    NotFloatingError,
    NullError,
    SelectionError,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import require_order
from lodcli.kernels.ops.plugins import find_op, working
from lodcli.kernels.ops.pooling.pool import sequence_sum
from lodcli.kernels.ops.registry import OPS, OpEntry
from lodcli.kernels.ops.slicing.slice import sequence_slice
from lodcli.kernels.ops.sorting.quantile import segment_quantile
from lodcli.kernels.suggestions import or_near
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Decimals, Marks, Times, Unit
from lodcli.kernels.tensor.nulls import Nulls

# The functions that are not ops.
OWN = {name for name, one in FUNCTIONS.items() if not one.op}
_NO_LEVEL = (
    "{} takes a tensor with a level; this has none; lod group --by KEY makes a list of the items "
    "of each key"
)
# Options that are values of the tensor.
_OF_VALUES = {"pad_value", "tokens", "blank"}
# The difference of two dates, and a unit for durations whose unit does not matter.
_DAYS, _SECONDS = Times("duration", "D"), Times("duration", "s")
# An op that pools a sequence, by the name of a function of each value in other languages.
_ROOT = "sqrt"


def ops() -> dict[str, OpEntry]:
    """Return the built-in ops that an expression can call: those that work batch by batch."""
    return {name: entry for name, entry in OPS.items() if entry.itemwise and name != _ROOT}


def op_of(name: str) -> OpEntry | None:
    """Return the op of a name in an expression, built in or of a plug-in; None if it is not one."""
    return None if name in {"", _ROOT, *OWN} else find_op(name)


class TensorExpression(Parsed):
    """An expression whose value is a tensor.

    Attributes:
        keeps: whether every op in it keeps the index, or its upper levels.

    Raises:
        ExpressionError: the text is not an expression.

    >>> words = LoDTensor(np.array([1.0, 3.0, 8.0]), [[2, 1]])
    >>> TensorExpression("x - mean(x) * 2").of({"x": words}).data.tolist()
    [-3.0, -1.0, -8.0]
    """

    def __init__(self, text: str, tree: ast.expr | None = None) -> None:
        super().__init__(text, tree)
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        self.keeps = not any(map(is_slice, ast.walk(self.tree)))
        for call in calls:
            name = function_name(call)
            entry = op_of(name)
            if entry is not None and entry.itemwise:
                self.keeps = self.keeps and bool(entry.keeps or entry.pools)
            elif name not in OWN:
                self._refuse_function(call, name)

    def check(self, schema: Schema) -> None:
        """Raise ExpressionError if a tensor that it names does not exist, or holds no numbers."""
        self.know(schema)
        self._known_nulls = Nullable(self, schema)
        of_any_kind = {
            id(one) for node in self._of_any_kind() for one in [node, *self.texts_of(node)]
        }
        for node in ast.walk(self.tree):
            name = self.named(node)
            if name is None:
                continue
            assert isinstance(node, ast.expr)
            if name not in self.marks:
                self.no_tensor(node, name)
            kind = self.marks[name].values
            if kind is not None and id(node) not in of_any_kind:
                hint = self._remedy_of_text(node, name)
                self.fail(node, f"{name} is {kind}; an expression computes with numbers{hint}")

    def _remedy_of_text(self, text: ast.expr, name: str) -> str:
        """Return what to make of texts for the function that takes them, as "; .."."""
        if self.marks[name].values != "text":
            return ""
        above = {
            inner: node for node in ast.walk(self.tree) for inner in ast.iter_child_nodes(node)
        }
        part, outer = text, above.get(text)
        while isinstance(outer, ast.expr) and self.texts_of(outer):
            part, outer = outer, above.get(outer)
        call = outer if isinstance(outer, ast.Call) and part in outer.args else None
        function, named = function_name(call) if call else "", self.named(part)
        steps = call is not None and len(call.args) > 1
        if properties_of(function).part or (function == FLOOR and steps):
            return cast_hint(named, self.source_of(part), "timestamp[s]")
        entry = op_of(function)
        if entry is not None and entry.marks and named:
            return f"; after lod cast {quote(name)}=category, {function} takes it"
        joins = ""
        if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add):
            other = outer.left if part is outer.right else outer.right
            if (number := self.named(other)) is not None:
                joins = f"; + joins texts, which lod cast {quote(number)}=text makes of numbers"
            elif isinstance(other, ast.Constant) and type(other.value) in (int, float):
                joins = f"; + joins texts, as in '{self.source_of(other)}'"
        return cast_hint(named, self.source_of(part), "float64") + joins

    def _of_any_kind(self) -> Iterator[ast.expr]:
        """Yield the parts that may be texts."""
        if self.texts_of(self.tree):
            yield self.tree
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                name = function_name(node)
                if name == "length" or properties_of(name).words is not None:
                    yield from node.args[:1]
            elif isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
                if isinstance(node.ops[0], ast.Is | ast.IsNot):
                    yield node.left
                elif any(words_of(part) for part in parts) or all(map(self.is_of_words, parts)):
                    yield from parts

    def of(self, tensors: Mapping[str, LoDTensor], first: int = 0) -> LoDTensor:
        """Return the value.

        Args:
            tensors: those it names, or any, with equally many outermost items.
            first: the number of the first item.
        """
        values = _Tensors(self, tensors, first)
        with np.errstate(all="ignore"):
            if self.texts_of(self.tree) or is_words(self.tree):
                return values.texts(self.tree)
            found = values.in_own_unit(self.tree)
            unit = self.unit_of(self.tree)
            if unit == _DAYS:  # no unit of a tensor
                found, unit = arithmetic(np.multiply, found, 86_400), _SECONDS
            found = values.of_each_item(found)
        return _with_unit(found.to_device("cpu"), unit)

    def nulls(self) -> bool:
        """Return whether the value may have nulls: of an empty sequence, no time is the first."""
        return self._known_nulls.may_be_null(self.tree) or any(
            isinstance(self.marks[one].unit, Times | Categories) for one in self.tensors
        )

    def picks(self, function: str) -> bool:
        entry = op_of(function)
        return entry.marks if entry else super().picks(function)

    def _refuse_function(self, call: ast.Call, name: str) -> None:
        if op_of(name) is not None:
            joins = "; x + 'text' joins texts" if name == "concat" else ""
            self.fail(
                call,
                f"{name} needs a whole file or several, and cannot be part of an expression; "
                f"see lod apply {name} --help{joins}",
            )
        self.refuse_call(call)

    def functions(self) -> Collection[str]:
        theirs = [entry.name for entry in working()[0] if entry.itemwise]
        return {*OWN, *ops(), *theirs}


class _Tensors(Evaluation[Values]):
    """The values of the parts of an expression: tensors, or numbers."""

    of_several = "expected one expression; --then EXPRESSION --into NAME computes one more"

    def __init__(
        self, expression: TensorExpression, tensors: Mapping[str, LoDTensor], first: int
    ) -> None:
        super().__init__(expression)
        self._values = tensors
        self._first = first

    def constant(self, value: bool | int | float) -> Values:
        return value

    def tensor(self, node: ast.expr, name: str) -> Values:
        found: Values = self._values[name]
        assert isinstance(found, LoDTensor)
        return LoDTensor(found.values, found.lod, nulls=found.nulls)  # the expression handles marks

    def floats(self, name: str, digits: Array, decimals: Decimals) -> Array:
        if name == "this":  # computed: rounded as every result of floats
            return digits.astype(np.float64)
        with naming(name):
            return exact_floats(digits, decimals)

    def data(self, values: Values) -> Array:
        return values.values if isinstance(values, LoDTensor) else np.asarray(values)

    def condition(self, values: Values) -> Values:
        return _without_nan(values, np.all)  # a row is null as a whole

    def mapped(self, function: Callable[[Array], Array], values: Values) -> Values:
        result: Any = function(self.data(values))
        if not isinstance(values, LoDTensor):
            number: bool | int | float = result.item()
            return number
        return LoDTensor(result, values.lod, nulls=values.nulls)

    def combined(self, function: np.ufunc, left: Values, right: Values) -> Values:
        if isinstance(left, LoDTensor) and isinstance(right, LoDTensor):
            left, right = aligned(left, right)
            if function in MIRRORED and is_rounded(left.dtype, right.dtype):
                return arithmetic(functools.partial(compared_pairs, function), left, right)
        elif function in MIRRORED and isinstance(left, LoDTensor):
            number = np.asarray(right)
            return self.mapped(lambda data: compared(function, data, number), left)
        elif function in MIRRORED and isinstance(right, LoDTensor):
            number = np.asarray(left)
            return self.mapped(lambda data: compared(MIRRORED[function], data, number), right)
        kinds = {self.data(one).dtype.kind for one in (left, right)}
        if function in BINARY.values() and kinds == {"b"}:
            left = self._as(np.int64, left)  # the numbers 0 and 1; NumPy's sum of booleans is `or`
        found = arithmetic(function, left, right)
        if function in TWO.values() and isinstance(found, LoDTensor):
            require_exact_extremes(function, left, right, found)
        return found

    def paired(
        self, function: Callable[[Array, Array], Array], left: Values, right: Values
    ) -> Values:
        return paired(function, left, right)

    def coalesced(self, left: Values, right: Values) -> Values:
        return coalesced(left, right) if isinstance(left, LoDTensor) else left

    def chosen(self, condition: Values, left: Values | None, right: Values | None) -> Values:
        return chosen(condition, left, right)

    def missing(self, values: Values) -> Values:
        if not isinstance(values, LoDTensor):
            return False
        rows = values.nulls.rows
        null = np.zeros(values.rows, np.bool_) if rows is None else ~rows
        above = Nulls.of([*values.nulls.masks[:-1], None])
        return LoDTensor(null, values.lod, nulls=above).to_device(values.device)

    def timed(self, function: np.ufunc, left: Values, right: Values) -> Values:
        found = self.combined(function, left, right)
        whole = function in GROWING and self.data(found).dtype.kind == "i"
        if whole and not fits(function, self.data(left), self.data(right)):  # some may not fit
            floats = (self.mapped(lambda data: data.astype(float), one) for one in (left, right))
            _require_near(self.data(found), self.data(self.combined(function, *floats)))
        if function in GROWING and isinstance(found, LoDTensor) and is_float(found.dtype):
            _require_times(found)
        return found

    def whole_times(self, values: Values) -> Values:
        if not isinstance(values, LoDTensor) or not is_float(values.dtype):
            return values
        found = _with_unit(
            LoDTensor(np.floor(values.values), values.lod, nulls=values.nulls), _SECONDS
        )
        return LoDTensor(found.values, found.lod, nulls=found.nulls).to_device(values.device)

    def elementwise(self, function: np.ufunc, values: Values) -> Values:
        kind = self.data(values).dtype.kind
        if kind in "biu" and function not in (np.isfinite, np.isnan):
            if kind == "b":
                values = self._as(np.int64, values)
            if function in (np.ceil, np.floor, np.rint):
                return values
            if function not in (np.absolute, np.negative, np.sign):
                values = self._as(np.float64, values)  # NumPy's exp of uint8 is float16
        return arithmetic(function, values)

    def _as(self, dtype: type[np.generic], values: Values) -> Values:
        return self.mapped(lambda data: data.astype(dtype), values)

    def of_texts(self, name: str, function: Callable[[Array, Offsets], Array]) -> Values:
        texts = self._values[name].to_device("cpu")
        data, nulls = function(texts.values, texts.lod.levels[-1]), Nulls(texts.nulls.masks[:-1])
        found = LoDTensor(data, texts.lod.without_finest(), nulls=nulls)
        return found.to_device(self._values[name].device)

    def lists_of(self, values: Values, offsets: Offsets) -> Values:
        assert isinstance(values, LoDTensor)
        return lists_of(values.to_device("cpu"), offsets)

    def sliced(self, values: Values, start: int | None, stop: int | None) -> Values:
        if not isinstance(values, LoDTensor) or not values.lod.n_levels:
            raise InvalidDataError(no_lists(self.data(values).shape[1:]))
        begins, lengths = clipped(values.lod.lengths(-1), start, stop)
        return sequence_slice(values, begins, lengths, level=-1)

    def texts(self, node: ast.expr) -> LoDTensor:
        """Return the texts that a part picks."""
        pool: list[Packed] = []
        numbers = self.of_each_item(self.numbered(node, pool))
        try:
            return picked_texts(numbers.to_device("cpu"), pool)
        except LodError as error:
            self.fail(node, str(error))

    def index(self) -> Values:
        one = next(iter(self._values.values()))
        numbers = LoDTensor(np.arange(self._first, self._first + len(one)))
        return numbers.to_device(one.device)

    def of_each_item(self, values: Values) -> LoDTensor:
        """Return values; a single number once for each item."""
        if isinstance(values, LoDTensor):
            return values
        return LoDTensor(np.full(len(next(iter(self._values.values()))), values))

    def call(self, node: ast.Call, name: str) -> Values:
        entry = op_of(name)
        if entry is not None:
            return self._op(node, entry)
        if name == "stack":
            return self._stack(node)
        if name in QUANTILES:
            return self._quantile(node, name)
        if len(node.args) != 1 or node.keywords:
            self.fail(node, f"{name} takes one argument, as in {name}(data){hint_of_two(node)}")
        if name == "length":
            return self._length(node.args[0])
        # The number of values that are true, or false: nan is neither.
        values = _without_nan(self._sequences(node, name), np.any)
        found = self.mapped(true_of if name == "any" else np.logical_not, values)
        assert isinstance(found, LoDTensor)
        counts = pooled(name, sequence_sum, found.astype(np.int64))
        return arithmetic(np.greater if name == "any" else np.equal, counts, 0)

    def _sequences(self, node: ast.Call, name: str) -> LoDTensor:
        """Return the argument of a function of sequences, or fail."""
        values = self.of(node.args[0])
        if not isinstance(values, LoDTensor) or not values.lod.n_levels:
            self.fail(node.args[0], _NO_LEVEL.format(name))
        self._require_defined(node, name)
        return values

    def _quantile(self, node: ast.Call, name: str) -> Values:
        """Return the quantile of the rows of each finest sequence, for each column."""
        fraction, values = self.fraction(node), self._sequences(node, name)
        try:
            require_order(values.dtype, name)
        except LodError as error:
            self.fail(node, str(error))

        def quantiles(tensor: LoDTensor) -> LoDTensor:
            data = segment_quantile(tensor.values, tensor.lod.levels[-1], fraction)
            return LoDTensor(data, tensor.lod.without_finest())

        found = pooled(name, quantiles, values.to_device("cpu"))
        return found if found.nulls else found.to_device(values.device)

    def _length(self, node: ast.expr) -> Values:
        """Return the lengths of the finest lists of a part; of texts without lists, their bytes."""
        name, text = self.expression.named(node), self.expression.is_text(node)
        if name is not None:  # only its index, which may have nulls
            values: Values = self._values[name]
        else:
            values = self.numbered(node, []) if text else self.of(node)
        lod = values.lod if isinstance(values, LoDTensor) else LoD()
        if text and name is not None and lod.n_levels > 1:
            lod = lod.without_finest()
        if text and not lod.n_levels:
            return self.text_lengths(node)
        if not isinstance(values, LoDTensor) or not lod.n_levels:
            self.fail(node, _NO_LEVEL.format("length"))
        above = [*values.nulls.masks[: lod.n_levels - 1], None] if values.nulls else []
        found = LoDTensor(lod.lengths(-1), lod.without_finest(), nulls=Nulls.of(above))
        return found.to_device(values.device)

    def _stack(self, node: ast.Call) -> Values:
        if len(node.args) < 2 or node.keywords:
            self.fail(node, "stack takes several tensors, as in stack(x, y)")
        values = [self.of(one) for one in node.args]
        for one, value in zip(node.args, values, strict=True):
            unit = self.expression.unit_of(one)
            if isinstance(unit, Times | Categories):
                levels = isinstance(value, LoDTensor) and value.lod.n_levels > 0
                text = self.expression.text_of(one)
                how = as_numbers(text, unit, f"first({text})" if levels else "")
                self.fail(one, f"stack takes numbers, this is a {unit}; {how}")
        device = next((one.device for one in values if isinstance(one, LoDTensor)), None)
        if device is None:
            self.fail(node, "stack takes at least one tensor")
        try:
            return stacked(values).to_device(device)
        except LodError as error:
            self.fail(node, str(error))

    def picked_of(self, node: ast.Call, values: Values) -> Values:
        entry = op_of(function_name(node))
        assert entry is not None
        if any(one.arg == "pad_value" for one in node.keywords):
            what = self.expression.source_of(node.args[0])
            remedy = f'write {COALESCE}({entry.name}({what}), "word")'
            self.fail(node, f"{entry.name} of texts has no option 'pad_value'; {remedy}")
        return self._op(node, entry, values)

    def _op(self, node: ast.Call, entry: OpEntry, known: Values | None = None) -> Values:
        """Return the result of an op; `known` are the values of its argument, if evaluated."""
        own = described(entry)
        by_place = [one.name for one in own.options if one.positional]
        if not 1 <= len(node.args) <= 1 + len(by_place):
            others = f", {', '.join(by_place)} by position" if by_place else ""
            self.fail(
                node,
                f"{entry.name} takes one tensor{others}, and options by name, as level=0"
                f"{hint_of_two(node)}",
            )
        tensor = self.taken(node) if known is None else known
        if not isinstance(tensor, LoDTensor):
            self.fail(node.args[0], f"{entry.name} takes a tensor, this is one number")
        if entry.pools and not tensor.lod.n_levels:
            self.fail(node.args[0], _NO_LEVEL.format(entry.name))
        if own.several:
            self.fail(node, f"{entry.name} returns several tensors; use it alone")
        if entry.package is None:
            self._require_defined(node, entry.name)
        options = self._options(node, own.options)
        unit, made = (self.expression.unit_of(one) for one in (node.args[0], node))
        decimals = self.decimals_of(node)
        if isinstance(unit, Categories):
            self._require_words(node, unit, options)
        try:
            # Ops that pick decimals convert it.
            digits = isinstance(made, Decimals) and not entry.marks
            if "pad_value" in options and (digits or isinstance(unit, Times)):
                options["pad_value"] = in_unit(options["pad_value"], made or unit)
            if entry.marks:
                tensor = _with_unit(tensor, _SECONDS if unit == _DAYS else unit)
            compute = functools.partial(_computed, entry, own.function, options)
            result = compute(tensor)
            held = isinstance(unit, Times) and not is_float(tensor.dtype)
            if properties_of(entry.name).digits and (
                decimals is not None or (entry.name == "diff" and held)
            ):
                _require_held(compute, tensor, result)
        except OverflowsError as error:
            if decimals is not None:
                self.refuse(node, decimals)
            self.fail(node, str(error))
        except NotFloatingError as error:
            remedy = "" if is_float(tensor.dtype) else "; --dtype float32 converts them first"
            self.fail(node, f"{error}{remedy}")
        except NullError:
            given = self.expression.source_of(node.args[0])
            value = "'..'" if isinstance(unit, Times | Categories) else "0"
            remedy = f"write {entry.name}({COALESCE}({given}, {value}))"
            rows = tensor.nulls.rows is not None
            self.fail(node, refusal(entry.name, tensor, remedy if rows else ""))
        except SelectionError as error:
            no_level = None if tensor.lod.n_levels else _NO_LEVEL.format(entry.name)
            self.fail(node, no_level or str(error))
        except LodError as error:
            self.fail(node, str(error))
        except (TypeError, ValueError, OverflowError) as error:
            self.fail(node, f"{entry.name}: {error}")
        assert isinstance(result, LoDTensor)
        return LoDTensor(result.values, result.lod, nulls=result.nulls)

    def _require_words(
        self, node: ast.Call, categories: Categories, options: Mapping[str, Any]
    ) -> None:
        """Fail if an option has codes of categories, which are compared with words only."""
        example = f" such as {categories.words[0]!r}" if categories.words else ""
        for name in _OF_VALUES & options.keys():
            values = options[name]
            for one in values if isinstance(values, list | tuple | set) else [values]:
                if isinstance(one, bool | int | float):
                    self.fail(node, f"{name}: expected a word in quotes{example}, found {one}")

    def _options(self, node: ast.Call, own: Sequence[Parameter]) -> dict[str, Any]:
        """Return the options of a call of an op, or fail."""
        name, known = function_name(node), [one.name for one in own]
        positional = [one.name for one in own if one.positional]
        given = zip(positional, node.args[1:], strict=False)
        options = {key: self._literal(value) for key, value in given}
        for keyword in node.keywords:
            if keyword.arg in options:
                self.fail(node, f"{name} has the option {keyword.arg} twice")
            options[keyword.arg or "**"] = self._literal(keyword.value)
        for word in options:
            if word not in known:
                self.fail(
                    node, f"{name} has no option {word!r}; {_list(known)}{or_near(word, known)}"
                )
        for one in own:
            if one.required and one.name not in options:
                self.fail(node, f"{name} needs the option {one.name}")
        return options

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            self.fail(node, "expected a number, a text in quotes or a list of them")


def _without_nan(values: Values, of_row: Callable[..., Any]) -> Values:
    """Return values with a null for each row without known values.

    Args:
        of_row: np.all if no value of a row may be nan, np.any if one of them is enough.
    """
    if not isinstance(values, LoDTensor) or not has_nan(values.dtype):
        return values
    known: Any = LoDTensor(~np.isnan(values.values)).to_device("cpu").data
    known = of_row(known, axis=tuple(range(1, known.ndim)))
    return values if known.all() else with_valid(values, known)


def _computed(
    entry: OpEntry,
    function: Callable[..., LoDTensor],
    options: Mapping[str, Any],
    tensor: LoDTensor,
) -> LoDTensor:
    """Return the result of an op; those that reduce skip nulls."""
    given = functools.partial(function, **options)
    if properties_of(entry.name).reduces:
        return pooled(entry.name, given, tensor, padded="pad_value" in options)
    return _under_null_lists(given, entry, tensor)


def _require_held(
    compute: Callable[[LoDTensor], LoDTensor], tensor: LoDTensor, result: LoDTensor
) -> None:
    """Raise OverflowsError if a sum or difference of whole numbers does not fit 64 bits."""
    data = tensor.values.astype(float)
    if data.size and float(abs(data).max()) * max(2, len(data)) >= 2.0**63:
        floats = compute(LoDTensor(data, tensor.lod, nulls=tensor.nulls))
        _require_near(result.values, floats.values)


def _under_null_lists(
    function: Callable[[LoDTensor], LoDTensor], entry: OpEntry, tensor: LoDTensor
) -> LoDTensor:
    """Return the result of an op; null lists stay null if it keeps the index."""
    if not tensor.nulls or entry.nulls or not entry.keeps or tensor.nulls.rows is not None:
        return function(tensor)
    found = function(LoDTensor(tensor.values, tensor.lod, tensor.marks))
    if not found.lod.same_levels(tensor.lod):
        return function(tensor)
    return LoDTensor(found.values, found.lod, found.marks, tensor.nulls)


def _require_near(found: Array, floats: Array) -> None:
    """Raise OverflowsError if a result is not near the same computed with floats."""
    if overflowed(found, floats):
        raise OverflowsError("a time does not fit 64 bits")


def _require_times(found: LoDTensor) -> None:
    """Raise OverflowsError if floats are beyond 64 bits; infinite ones are times that are null."""
    data: Any = found.values
    beyond = np.isfinite(data) & (np.abs(data) >= 2.0**63)
    if found.nulls.rows is not None:
        beyond = beyond & found.nulls.rows.reshape(-1, *[1] * (beyond.ndim - 1))
    if beyond.any():
        raise OverflowsError("a time does not fit 64 bits")


def _list(known: list[str]) -> str:
    return f"there are: {', '.join(known)}" if known else "it has none"


def _with_unit(tensor: LoDTensor, unit: Unit | None) -> LoDTensor:
    """Return times, categories or decimals in main memory; a time beyond 64 bits is null.

    Fractions of a unit are cut, as in NumPy. Other tensors are returned as they are.
    """
    data = tensor.values
    if isinstance(unit, Categories | Decimals):
        return LoDTensor(data, tensor.lod, Marks(unit=unit), tensor.nulls)
    if not isinstance(unit, Times):
        return tensor
    if is_float(data.dtype):
        held = np.abs(data) < 2.0**63
        data = np.where(held, data, 0)
        rows: Any = LoDTensor(held.all(axis=tuple(range(1, held.ndim)))).to_device("cpu").data
        tensor = with_valid(tensor, rows)
    return LoDTensor(data.astype(np.int64), tensor.lod, Marks(unit=unit), tensor.nulls)
