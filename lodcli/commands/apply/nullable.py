"""Whether the value of an expression may have nulls, which is known before tensors are read."""

from __future__ import annotations

import ast

from lodcli.commands.apply.skipping_nulls import UNDEFINED
from lodcli.expressions.functions import COALESCE, FUNCTIONS, INDEX
from lodcli.expressions.parsing import Parsed, choices_of, function_name, is_length
from lodcli.formats.core.schema import Schema
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.marks import Decimals

_NEVER_NAN = ("all", "any", "length", "isnan", "isfinite", INDEX)
# Functions of single values; values of fewer levels are broadcast.
_ELEMENTWISE = (*FUNCTIONS, "stack")


class Nullable:
    """Tells which parts of an expression may have nulls.

    Args:
        expression: it knows the marks of its tensors.
        schema: of its tensors.
    """

    def __init__(self, expression: Parsed, schema: Schema) -> None:
        self._named = expression.named
        # By name of a tensor that may have nulls, whether it has lists.
        self._nullable = {
            spec.name: len(spec.levels) > spec.marks.is_text for spec in schema if spec.nullable
        }
        self._floats = {
            spec.name
            for spec in schema
            if is_float(spec.dtype) or isinstance(spec.marks.unit, Decimals)
        }
        self._depths = _depths(
            expression, {spec.name: len(spec.levels) - spec.marks.is_text for spec in schema}
        )

    def may_be_null(self, node: ast.AST, depth: int = 0) -> bool:
        """Return whether a part may have nulls.

        Args:
            node: the part.
            depth: the number of levels that its values are broadcast to, at least.
        """
        waiting = [(node, depth)]  # not recursive: a sum may be long
        while waiting:
            one, depth = waiting.pop()
            depth = max(depth, self._depths.get(one) or 0)
            name = self._named(one)
            if isinstance(one, ast.Call) and function_name(one) == COALESCE:
                found = self._has_null_lists(one)
                found = found or all(self.may_be_null(each, depth) for each in one.args)
            elif isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Is | ast.IsNot):
                found = self._has_null_lists(one)
            elif isinstance(one, ast.IfExp):
                sides = choices_of(one)
                found = len(sides) < 2 or self._has_null_lists(one.test)
                waiting += [(side, depth) for side in sides]
            elif name is not None:
                found = name in self._nullable
            elif isinstance(one, ast.Call):
                found = self._is_undefined(one, depth)
                if function_name(one) not in _ELEMENTWISE:
                    depth = 0
                if not is_length(one):
                    waiting += [(each, depth) for each in one.args]
            else:
                found = any(map(self._may_be_nan, _conditions(one)))
                waiting += [(each, depth) for each in ast.iter_child_nodes(one)]
            if found:
                return True
        return False

    def _is_undefined(self, call: ast.Call, depth: int) -> bool:
        """Return whether a function is null for a sequence without rows, and the null remains.

        If its values are broadcast to more levels, there is no row that it is broadcast to.
        """
        own = self._depths.get(call)
        padded = any(one.arg == "pad_value" for one in call.keywords)
        undefined = function_name(call) in UNDEFINED and not padded
        return undefined and (own is None or depth <= own)

    def _may_be_nan(self, node: ast.expr) -> bool:
        """Return whether values may be nan, which is null as a condition."""
        name = self._named(node)
        if name is not None:
            return name in self._floats
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return self._may_be_nan(node.operand)
        if isinstance(node, ast.Call):
            return function_name(node) not in _NEVER_NAN
        return not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)

    def _has_null_lists(self, node: ast.AST) -> bool:
        """Return whether a part may have a null list, which is one in `x is None` as well."""
        return any(self._nullable.get(self._named(one) or "", False) for one in ast.walk(node))


def _conditions(node: ast.AST) -> list[ast.expr]:
    """Return the parts of which `and`, `or` or `not` asks whether they are true."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    return node.values if isinstance(node, ast.BoolOp) else []


def _depths(expression: Parsed, levels: dict[str, int]) -> dict[ast.AST, int | None]:
    """Return the number of levels of each part; None if that is unknown.

    Args:
        expression: the expression.
        levels: by tensor, without those of texts.
    """
    found: dict[ast.AST, int | None] = {}
    for node in reversed(list(ast.walk(expression.tree))):  # inner ones first
        name = expression.named(node)
        if name is not None:
            found[node] = levels.get(name)
            continue
        inner = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        parts = [found[one] for one in inner if isinstance(one, ast.expr)]
        known = [depth for depth in parts if depth is not None]
        deepest = max(known, default=0) if len(known) == len(parts) else None
        if isinstance(node, ast.Call) and function_name(node) not in _ELEMENTWISE:
            entry = OPS.get(function_name(node))
            pools = entry is not None and entry.pools and not node.keywords
            if pools and deepest:
                deepest -= 1
            elif entry is None or not entry.keeps or entry.keeps_by:
                deepest = None
        found[node] = deepest
    return found
