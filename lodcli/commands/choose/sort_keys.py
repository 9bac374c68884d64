"""The sort keys of `lod sort`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import numpy as np

from lodcli.commands.choose.evaluating import ItemValues
from lodcli.commands.choose.expression import Expression
from lodcli.expressions.parsing import Parsed
from lodcli.formats.items.keys import Column
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.order.ranks import sorted_texts
from lodcli.kernels.order.stable import sortable, stable_order
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.nulls import Mask

_LENGTH = re.compile(r"length(?::(.+))?")
_REVERSED = slice(None, None, -1)


def parse_keys(text: str) -> list[tuple[Expression, bool]]:
    """Return the expressions to sort by, each with whether the greatest come first.

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
        # Not the negative of x, which times and categories have not: the greatest come first.
        return Expression(ast.get_source_segment(key.text, tree.operand) or ""), True
    level = found[1]
    if level is None:
        return Expression("length()"), text.startswith("-")
    named = level if re.fullmatch(r"[0-9]+", level) else repr(level)
    return Expression(f"sum(length({named}))"), text.startswith("-")


def sorted_order(keys: Iterable[tuple[ItemValues, bool]]) -> Offsets:
    """Return the items in order of their values, (K,) int64.

    Equal ones stay as they were; nan come last, and nulls after them.

    Args:
        keys: at least one, the least important first, each with whether the greatest come first.
            The values of only one at a time need to be in memory.
    """
    order: Offsets | None = None
    for (values, valid), descending in keys:
        order = _ordered(values, valid, descending, order)
        del values, valid
    assert order is not None
    return order


def _ordered(
    values: Column, valid: Mask | None, descending: bool, before: Offsets | None
) -> Offsets:
    """Return the items in order of their values; equal ones, and nulls, stay in the order before.

    Args:
        values: of all items, (K,).
        valid: which of them are not null; None for all.
        descending: whether the greatest come first.
        before: the items, (K,); None for the order of the file.
    """
    if valid is None:
        known = before
    else:
        known = np.flatnonzero(valid) if before is None else before[valid[before]]
    if known is not None:
        values = values.taken(known) if isinstance(values, Texts) else values[known]
    order = _order(values, descending)
    if known is not None:
        order = known[order]
    if valid is None:
        return order
    nulls = np.flatnonzero(~valid) if before is None else before[~valid[before]]
    return np.concatenate([order, nulls])


def _order(values: Column, descending: bool) -> Offsets:
    if not isinstance(values, Texts):
        return stable_order(sortable(values, descending=descending))
    if not descending:
        return sorted_texts(values)[0]
    # The texts are reversed as well, so that equal ones stay in their order.
    return values.lengths.size - 1 - sorted_texts(values.taken(_REVERSED))[0][::-1]
