"""Whether the value of an expression may have nulls, which is known before tensors are read."""

from __future__ import annotations

import ast

from lodcli.expressions.function_table import COALESCE, SPLIT, properties_of
from lodcli.expressions.parsing import LISTS, Parsed, choices_of, function_name, is_length
from lodcli.expressions.syntax import is_slice
from lodcli.formats.core.schema import Schema
from lodcli.kernels.dtypes import has_nan
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.marks import Decimals

# The keys of the levels of values, outermost first.
_Levels = tuple[str, ...]


class Nullable:
    """Tells which parts of an expression may have nulls.

    Args:
        expression: it has the marks of its tensors.
    """

    def __init__(self, expression: Parsed, schema: Schema) -> None:
        self._named, self._lists_of = expression.named, expression.lists_of
        # By name of a tensor that may have nulls, whether it has lists.
        self._nullable = {
            spec.name: len(spec.levels) > spec.marks.is_text for spec in schema if spec.nullable
        }
        self._with_nan = {
            spec.name
            for spec in schema
            if has_nan(spec.dtype) or isinstance(spec.marks.unit, Decimals)
        }
        keys = {spec.name: tuple(level.key for level in spec.levels) for spec in schema}
        texts = {spec.name for spec in schema if spec.marks.is_text}
        self._levels = _levels(
            expression, {name: key[:-1] if name in texts else key for name, key in keys.items()}
        )
        # Calls of split that may return null lists: those of null texts.
        self._null_splits: set[ast.AST] = set()
        for node in reversed(list(ast.walk(expression.tree))):  # inner ones first
            if not isinstance(node, ast.Call) or function_name(node) != SPLIT:
                continue
            if any(map(self.may_be_null, node.args[:1])):
                self._null_splits.add(node)

    def may_be_null(self, node: ast.AST, broadcast: _Levels = ()) -> bool:
        """Return whether a part may have nulls.

        Args:
            broadcast: the levels that its values are broadcast to, at least.
        """
        waiting = [(node, broadcast)]  # not recursive: a sum may be long
        while waiting:
            one, broadcast = waiting.pop()
            own = self._levels.get(one) or ()
            broadcast = own if len(own) >= len(broadcast) else broadcast
            name = self._named(one)
            if isinstance(one, ast.Call) and function_name(one) == COALESCE:
                found = self._has_null_lists(one)
                found = found or all(self.may_be_null(each, broadcast) for each in one.args)
            elif isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Is | ast.IsNot):
                found = self._has_null_lists(one)
            elif isinstance(one, ast.IfExp):
                sides = choices_of(one)
                found = len(sides) < 2 or self._has_null_lists(one.test)
                waiting += [(side, broadcast) for side in sides]
            elif name is not None:
                found = name in self._nullable
            elif isinstance(one, ast.Call):
                found = self._is_undefined(one, broadcast)
                found = found or any(map(self._may_be_nan, _conditions(one)))
                # Of lists of lists, a null list has null lengths.
                if not is_length(one) or self._lists_of(one.args[0]) > 1:
                    below = broadcast if _is_elementwise(one) else ()
                    waiting += [(each, below) for each in one.args]
            else:
                found = any(map(self._may_be_nan, _conditions(one)))
                below = broadcast if _is_elementwise(one) else ()
                waiting += [(each, below) for each in ast.iter_child_nodes(one)]
            if found:
                return True
        return False

    def _is_undefined(self, call: ast.Call, broadcast: _Levels) -> bool:
        """Return whether a function is null for a sequence without rows, and the null remains.

        If its values are broadcast to the rows of these same sequences, there is no row that it is
        broadcast to.
        """
        padded = any(one.arg == "pad_value" for one in call.keywords)
        function = properties_of(function_name(call))
        if not function.reduces or function.of_nothing or padded:
            return False
        if self._levels.get(call) is None:
            return True
        sequences = self._levels[call.args[0]]
        return sequences is None or broadcast[: len(sequences)] != sequences

    def _may_be_nan(self, node: ast.expr) -> bool:
        """Return whether values may be nan, which is null as a condition."""
        name = self._named(node)
        if name is not None:
            return name in self._with_nan
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return self._may_be_nan(node.operand)
        if isinstance(node, ast.Call):
            return properties_of(function_name(node)).returns not in ("condition", "count")
        return not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)

    def _has_null_lists(self, node: ast.AST) -> bool:
        """Return whether a part may have a null list, which is one in `x is None` as well."""
        return any(
            one in self._null_splits or self._nullable.get(self._named(one) or "", False)
            for one in ast.walk(node)
        )


def _conditions(node: ast.AST) -> list[ast.expr]:
    """Return the parts whose truth values an operator or function uses."""
    if isinstance(node, ast.Call):
        return node.args[:1] if properties_of(function_name(node)).asks else []
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    return node.values if isinstance(node, ast.BoolOp) else []


def _is_elementwise(node: ast.AST) -> bool:
    """Return whether a part is computed value by value; any(..) and `in` are of sequences."""
    if isinstance(node, ast.Compare):
        sides = zip(node.ops, node.comparators, strict=True)
        return all(
            isinstance(right, LISTS) or not isinstance(op, ast.In | ast.NotIn)
            for op, right in sides
        )
    return not isinstance(node, ast.Call) or properties_of(function_name(node)).elementwise


def _levels(expression: Parsed, levels: dict[str, _Levels]) -> dict[ast.AST, _Levels | None]:
    """Return the levels of each part; None if they are unknown.

    Values of several tensors have one index when they are computed: these are the levels of one of
    those with most.

    Args:
        levels: by tensor, without those of texts.
    """
    found: dict[ast.AST, _Levels | None] = {}
    for node in reversed(list(ast.walk(expression.tree))):  # inner ones first
        name = expression.named(node)
        if name is not None:
            found[node] = levels.get(name)
            continue
        if function_name(node) == SPLIT or is_slice(node):  # other lengths
            found[node] = None
            continue
        inner = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        parts = [found[one] for one in inner if isinstance(one, ast.expr)]
        known = [one for one in parts if one is not None]
        deepest = max(known, key=len, default=()) if len(known) == len(parts) else None
        found[node] = deepest if _is_elementwise(node) else _levels_of_result(node, deepest)
    return found


def _levels_of_result(node: ast.AST, levels: _Levels | None) -> _Levels | None:
    """Return the levels of a function that is not elementwise, given those of its argument."""
    if not isinstance(node, ast.Call):  # `in`; a chain compares with other levels as well
        single = isinstance(node, ast.Compare) and len(node.ops) == 1
        return levels[:-1] if levels and single else None
    name, options = function_name(node), {one.arg for one in node.keywords}
    entry = OPS.get(name)
    pools = properties_of(name).reduces or (entry and entry.pools)
    if levels and not options and pools:
        return levels[:-1]
    # A function of another level keeps only those above it.
    keeps = entry is not None and entry.keeps and not entry.keeps_by and "level" not in options
    return levels if keeps else None
