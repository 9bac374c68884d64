"""The sort keys of `lod sort`."""

from __future__ import annotations

import re

import numpy as np

from lodcli.commands.choose.expression import Expression
from lodcli.commands.choose.item_values import Values
from lodcli.kernels.index.checks import Array, Offsets

_LENGTH = re.compile(r"length(?::(.+))?")


def parse_key(text: str) -> tuple[Expression, bool]:
    """Return the expression to sort by, and whether the greatest come first.

    >>> parse_key("-length:sentence")[0].text
    "sum(length('sentence'))"
    """
    text = text.strip()
    found = _LENGTH.fullmatch(text.removeprefix("-"))
    if found is None:
        # A minus before an expression is part of it: sorting by -x puts the greatest x first.
        return Expression(text), False
    level = found[1]
    if level is None:
        return Expression("length()"), text.startswith("-")
    named = level if re.fullmatch(r"[0-9]+", level) else repr(level)
    return Expression(f"sum(length({named}))"), text.startswith("-")


def sorted_order(keys: Values, *, descending: bool) -> Offsets:
    """Return the items in order of their values, (K,) int64.

    Equal ones stay as they were; nan come last, and nulls after them.
    """
    order = _order(keys.data, descending=descending)
    if keys.valid is None:
        return order
    valid = keys.valid[order]
    # Nulls had the order of the values below them; among each other they stay as they were.
    return np.concatenate([order[valid], np.sort(order[~valid])])


def _order(values: Array, *, descending: bool) -> Offsets:
    if values.dtype.kind == "V":  # bfloat16, whose argsort does not put nan last
        values = values.astype(np.float32)
    if not descending:
        return np.argsort(values, kind="stable")
    # In place: there may be as many values as fit into memory.
    order = np.argsort(values[::-1], kind="stable")[::-1]
    np.subtract(values.size - 1, order, out=order)
    nan = int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0
    return np.concatenate([order[nan:], order[:nan]]) if nan else order
