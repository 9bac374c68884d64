"""Expressions over the items of a level: comparisons, arithmetic, lengths and sums."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from lodcli.commands.choose.item_values import (
    Values,
    below,
    chosen,
    coalesced,
    combined,
    elementwise,
    reduced,
)
from lodcli.expressions.evaluation import Evaluation
from lodcli.expressions.function_table import FUNCTIONS, QUANTILES
from lodcli.expressions.functions import EXACT_DIGITS, clipped
from lodcli.expressions.hints import TEXT_OF_BYTES, hint_of_two
from lodcli.expressions.parsing import Parsed, function_name
from lodcli.expressions.syntax import no_lists
from lodcli.expressions.texts import Packed, listed
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Schema
from lodcli.formats.items.items import Items
from lodcli.formats.structs.names import named_below, records_above
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.suggestions import or_near
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask, Nulls

_FUNCTIONS = tuple(name for name, one in FUNCTIONS.items() if not one.apply_only)

# By name, the index from the level of the items on, and the rows.
Tensors = Mapping[str, tuple[LoD, Array]]


class Expression(Parsed):
    """An expression with one value for each item.

    >>> words = (LoD.from_lengths([[2, 0, 1]]), np.array([1.0, 3.0, 8.0]))
    >>> Expression("length() > 1 or max(data) == 8").values({"data": words}, 3).data.tolist()
    [True, False, True]
    """

    of_levels = True
    # The tensors that length() may refer to; set by `check`.
    measured: Schema = ()
    # By the name of lists of records, a tensor in them and their level; set by `check`.
    records: Mapping[str, tuple[str, int]] = {}

    def functions(self) -> Collection[str]:
        return _FUNCTIONS

    def check(self, schema: Schema, lead: str | None = None) -> None:
        """Raise ExpressionError if it does not fit the tensors of a schema.

        Afterwards it knows them; length() refers to `lead` or, without it, to a level that all
        tensors share.
        """
        self.prepare(schema, lead)
        self.of_batch({spec.name: spec.empty() for spec in schema}, 0, 0)

    def prepare(self, schema: Schema, lead: str | None = None) -> None:
        """Know the tensors of a schema: see `check`."""
        self.know(schema)
        chosen = [] if lead is None else [s for s in named_below(schema, lead) if s.levels]
        self.measured = tuple(chosen[:1] or (spec for spec in schema if spec.levels))
        self.records = {}
        for spec in schema:
            steps = pairwise(spec.marks.fields)
            for name, (one, inner) in zip(records_above(spec), steps, strict=True):
                if inner.level > one.level:
                    self.records.setdefault(name, (spec.name, one.level))

    def read_names(self, schema: Schema) -> Sequence[str]:
        """Return the tensors of a schema that it reads; all for length(), which may be of any."""
        if "length" in map(function_name, ast.walk(self.tree)):
            return [spec.name for spec in schema]
        return self.tensors

    def of_batch(self, batch: Mapping[str, LoDTensor], first: int, count: int) -> Values:
        """Return `values` of a batch of `count` items, from the item `first` on."""
        tensors, nulls = _parts_of(batch)
        return self.values(tensors, count, nulls, first)

    def texts_of_batch(
        self, batch: Mapping[str, LoDTensor], first: int, count: int
    ) -> tuple[Texts, Mask | None]:
        """Return the text of each item of a batch, see `of_batch`, and which are not null.

        Raises:
            ExpressionError: an item has several texts, or there is none in the expression.
        """
        pool: list[Packed] = []
        numbers = range(first, first + count)
        with np.errstate(all="ignore"):
            found = _Items(self, *_parts_of(batch), numbers).numbered(self.tree, pool)
        found = self._single(found, count)
        texts = Texts.joined([Texts.of(*each) for each in pool])
        return texts.taken(found.data), found.valid

    def of_index(self, items: Items) -> Values:
        """Return `values` of items, for an expression that uses no values of tensors."""
        empty = {spec.name: spec.empty().data for spec in items.schema}
        tensors = {name: (lod, empty[name]) for name, lod in items.lods.items()}
        return self.values(tensors, items.count)

    def values(
        self,
        tensors: Tensors,
        count: int,
        nulls: Mapping[str, Nulls] | None = None,
        first: int = 0,
    ) -> Values:
        """Return the value for every item: data (count,).

        Args:
            tensors: those that share the items; one without levels has one row for each item.
            nulls: of tensors, by name.
            first: the number of the first item.
        """
        values = _Items(self, tensors, nulls or {}, range(first, first + count))
        with np.errstate(all="ignore"):
            return self._single(values.in_own_unit(self.tree), count)

    def _single(self, found: Values, count: int) -> Values:
        """Return values of the whole expression with one for every item, or fail."""
        if found.rows is not None or found.data.ndim > 1:
            several = "row" if found.data.ndim == 1 else "column"
            take = "take one with mean(..), max(..), any(..) or another function"
            used = [self.marks[name] for name in self.tensors if name in self.marks]
            if any(marks.values == "bytes" for marks in used):
                several, take = "byte", TEXT_OF_BYTES
            if any(marks.is_text for marks in used):
                several = "byte or text"
                take = 'compare a text with a word or a text, as in NAME == "word"'
                take += '; of texts in a list take one, as in any(NAME == "word")'
            self.fail(self.tree, f"has several values for an item, one for each {several}; {take}")
        valid = None if found.valid is None else np.broadcast_to(found.valid, (count,))
        return replace(found, data=np.broadcast_to(found.data, (count,)), valid=valid)

    def part(self, node: ast.expr, tensors: Tensors, count: int) -> Array:
        """Return the values of a part of the expression, which none of them needs to be null."""
        with np.errstate(all="ignore"):
            return _Items(self, tensors, {}, range(count)).of(node).data


def _parts_of(batch: Mapping[str, LoDTensor]) -> tuple[Tensors, Mapping[str, Nulls]]:
    """Return the indexes and rows of tensors, and their nulls."""
    tensors = {name: (tensor.lod, tensor.values) for name, tensor in batch.items()}
    return tensors, {name: tensor.nulls for name, tensor in batch.items()}


class _Items(Evaluation[Values]):
    """The values of the parts of an expression, for each item."""

    def __init__(
        self, expression: Expression, tensors: Tensors, nulls: Mapping[str, Nulls], items: range
    ) -> None:
        super().__init__(expression)
        self.expression: Expression = expression
        self._tensors = tensors
        self._nulls = nulls
        self._numbers = items
        # How many functions of all values of an item are around the part being evaluated.
        self._reductions = 0

    def constant(self, value: bool | int | float) -> Values:
        return Values(np.asarray(value))

    def floats(self, name: str, digits: Array, decimals: Decimals) -> Array:
        # By the precision of all, and not by the digits: columns and batches must compare alike.
        units = (self.expression.marks[one].unit for one in self.expression.tensors)
        wide = any(isinstance(one, Decimals) and one.precision > EXACT_DIGITS for one in units)
        return digits.astype(np.longdouble if wide else np.float64)

    def of_texts(self, name: str, function: Callable[[Array, Offsets], Array]) -> Values:
        (lod, data), depth = self._tensors[name], self._tensors[name][0].n_levels - 1
        masks = self._nulls.get(name, NO_NULLS).masks or (None,) * (depth + 2)
        found = function(data, lod.levels[-1])
        return Values(found, below(lod, depth), masks[depth], masks[0] if depth else None)

    def lists_of(self, values: Values, offsets: Offsets) -> Values:
        data, ends = listed(values.data, values.valid, offsets, level=0)
        if values.rows is not None:
            return Values(data, ends[values.rows], None, values.items)
        return Values(data, ends, None, values.valid)

    def sliced(self, values: Values, start: int | None, stop: int | None) -> Values:
        if values.rows is None:
            raise InvalidDataError(no_lists(values.data.shape[1:]))
        begins, lengths = clipped(np.diff(values.rows), start, stop)
        ends = lengths_to_offsets(lengths, level=0)
        taken = ranges(values.rows[:-1] + begins, ends)
        valid = None if values.valid is None else values.valid[taken]
        return Values(values.data[taken], ends, valid, values.items)

    def contained(self, node: ast.expr, values: ast.expr) -> Values:
        if not isinstance(values, ast.Constant):
            text = self.expression.is_text(values)
            found = self.numbered(values, []) if text else self.of(values)
            if found.rows is None:
                self.refuse_single(node, values)
        return super().contained(node, values)

    def missing(self, values: Values) -> Values:
        if values.rows is not None and not self._reductions:
            values = Values(values.rows[:-1], None, values.items)
        null = np.zeros(values.data.shape[:1], np.bool_) if values.valid is None else ~values.valid
        return Values(null, values.rows, None, values.items)

    def tensor(self, node: ast.expr, name: str) -> Values:
        if name not in self._tensors:
            self.expression.no_tensor(node, name)
        if self._reductions and self.expression.marks_of(node)[1].values == "text":
            self.fail(
                node,
                f"{name} is text, and this function computes with numbers; compare a text with a "
                f"word or a text, or make numbers of texts: lod cast {name}=float64",
            )
        lod, data = self._tensors[name]
        nulls = self._nulls.get(name, NO_NULLS)
        items = nulls.masks[0] if nulls and lod.n_levels else None
        rows = lod.absolute(0) if lod.n_levels else None
        return Values(data, rows, nulls.rows, items)

    def data(self, values: Values) -> Array:
        return values.data

    def is_of_several(self, values: Values) -> bool:
        return values.rows is not None and not self._reductions

    def condition(self, values: Values) -> Values:
        return values.condition

    def mapped(self, function: Callable[[Array], Array], values: Values) -> Values:
        # NumPy makes a scalar of an array ().
        return replace(values, data=np.asarray(function(values.data)))

    def combined(
        self, function: Callable[[Array, Array], Array], left: Values, right: Values
    ) -> Values:
        return combined(function, left, right, self._numbers.start)

    paired = combined

    def coalesced(self, left: Values, right: Values) -> Values:
        return coalesced(left, right, self._numbers.start)

    def chosen(self, condition: Values, left: Values | None, right: Values | None) -> Values:
        return chosen(condition, left, right, self._numbers.start)

    def elementwise(self, function: np.ufunc, values: Values) -> Values:
        return elementwise(function, values)

    def picked_of(self, node: ast.Call, values: Values) -> Values:
        if len(node.args) != 1 or node.keywords:
            name = function_name(node)
            self.fail(node, f"{name} takes one argument, as in {name}(data)")
        return reduced(function_name(node), values)

    def index(self) -> Values:
        return Values(np.arange(self._numbers.start, self._numbers.stop))

    def call(self, node: ast.Call, name: str) -> Values:
        if name not in _FUNCTIONS:
            self.expression.refuse_call(node)
        if name == "length":
            return self._length(node)
        options = [self.fraction(node)] if name in QUANTILES else []
        if not options and (len(node.args) != 1 or node.keywords):
            self.fail(node, f"{name} takes one argument, as in {name}(data){hint_of_two(node)}")
        self._require_defined(node, name)
        self._reductions += 1
        values = self.taken(node)
        self._reductions -= 1
        if not values.data.ndim:
            self.fail(node.args[0], f"{name} takes a tensor, this is one number")
        try:
            found = reduced(name, values, *options)
        except InvalidDataError as error:
            self.fail(node.args[0], str(error))
        self.require_digits(node, found)
        return found

    def _length(self, node: ast.Call) -> Values:
        if len(node.args) > 1 or node.keywords:
            self.fail(node, "write length(), length(LEVEL) or length(TENSOR)")
        if not any(lod.n_levels for lod, _ in self._tensors.values()):
            self.fail(node, "the items are rows and have no length")
        if node.args and not _names_level(node.args[0]):
            return self._counts(node.args[0])
        lod, depth = self._level(node.args[0]) if node.args else (self._at(node, 0), 0)
        return Values(lod.lengths(depth), below(lod, depth))

    def _counts(self, node: ast.expr) -> Values:
        """Return how many values a part has in each item; of texts, how many bytes each has."""
        text = self.expression.is_text(node)
        rows = (self.numbered(node, []) if text else self.of(node)).rows
        if rows is not None:
            return Values(np.diff(rows))
        if text:
            return self.text_lengths(node)
        self.fail(node, "length takes lists, this is one value for each item")

    def _at(self, node: ast.expr, depth: int) -> LoD:
        """Return the index of the tensors that have a level of this number, or fail."""
        found = [spec for spec in self.expression.measured if len(spec.levels) > depth]
        if len({spec.levels[: depth + 1] for spec in found}) > 1:
            names = [spec.name for spec in found]
            lists = (name for name in names if not self.expression.marks[name].is_text)
            one = next(lists, names[0])
            self.fail(
                node,
                f"{listing(names)} have lengths of their own: write length({one}), or "
                f"FILE::{one} for the file",
            )
        return self._tensors[found[0].name][0] if found else self._deepest()

    def _deepest(self) -> LoD:
        """Return the index with most levels among those that length() may refer to."""
        measured = [self._tensors[spec.name] for spec in self.expression.measured]
        lods = (lod for lod, _ in measured or self._tensors.values())
        return max(lods, key=lambda lod: lod.n_levels)

    def _level(self, node: ast.expr) -> tuple[LoD, int]:
        """Return the index of a named level, or of a named tensor, and the level's number in it."""
        deepest = self._deepest()
        level: object = self.expression.written(node) or getattr(node, "value", None)
        if isinstance(level, int) and 0 <= level < deepest.n_levels:
            return self._at(node, level), level
        for lod, _ in self._tensors.values():
            if isinstance(level, str) and lod.names.count(level) == 1:
                return lod, lod.names.index(level)
        if isinstance(level, str) and level in self._tensors and self._tensors[level][0].n_levels:
            return self._tensors[level][0], 0
        if isinstance(level, str) and level in self.expression.records:
            name, depth = self.expression.records[level]
            return self._tensors[name][0], depth
        names = [name for name in deepest.names if name]
        known = ", ".join([*names, *map(str, range(deepest.n_levels))])
        near = or_near(level, [*names, *self._tensors, *self.expression.records])
        what = f"no level {ast.unparse(node)} from the items down; there are: {known}{near}"
        self.fail(node, what)


def _names_level(node: ast.expr) -> bool:
    """Return whether the argument of length is a level or a tensor, and not computed."""
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Constant)
    return plain or function_name(node) == "tensor"
