"""The sort keys of `lod sort`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from itertools import chain, starmap

import numpy as np

from lodcli.commands.choose.expression import Expression
from lodcli.commands.choose.item_values import Values
from lodcli.expressions.parsing import Parsed
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.order.stable import sortable, stable_order

_LENGTH = re.compile(r"length(?::(.+))?")


def parse_keys(text: str) -> list[tuple[Expression, bool]]:
    """Return the expressions to sort by, each with whether the order is descending.

    >>> parse_keys("-length:sentence")[0][0].text
    "sum(length('sentence'))"
    >>> [key.text for key, _ in parse_keys("city, -max(age, level)")]
    ['city', 'max(age, level)']
    """
    if "," not in text or _LENGTH.fullmatch(text.strip().removeprefix("-")):
        return [_parse_key(text)]
    whole = Parsed(text)
    if not isinstance(whole.tree, ast.Tuple):
        return [_parse_key(text)]
    parts = [ast.get_source_segment(whole.text, one) for one in whole.tree.elts]
    return [_parse_key(part) for part in parts if part is not None]


def _parse_key(text: str) -> tuple[Expression, bool]:
    text = text.strip()
    found = _LENGTH.fullmatch(text.removeprefix("-"))
    if found is None:
        key = Expression(text)
        tree = key.tree
        if not isinstance(tree, ast.UnaryOp) or not isinstance(tree.op, ast.USub):
            return key, False
        # Not the negative of x, which times and categories do not have: descending order.
        return Expression(ast.get_source_segment(key.text, tree.operand) or ""), True
    level = found[1]
    if level is None:
        return Expression("length()"), text.startswith("-")
    named = level if re.fullmatch(r"[0-9]+", level) else repr(level)
    return Expression(f"sum(length({named}))"), text.startswith("-")


def sorted_order(keys: Iterable[tuple[Values, bool]]) -> Offsets:
    """Return the items in order of their values, (K,) int64.

    Equal ones stay as they were; nan come last, and nulls after them.

    Args:
        keys: at least one, the primary key first, each with whether the order is descending.
            Values need not stay in memory.
    """
    return stable_order(*chain.from_iterable(starmap(_columns, keys)))


def _columns(values: Values, descending: bool) -> list[Array]:
    """Return integers to sort by, after which values are null if any is."""
    numbers = sortable(values.data, descending=descending)
    if values.valid is None:
        return [numbers]
    return [~values.valid, np.where(values.valid, numbers, 0)]
