"""The sort keys of `lod sort`."""

from __future__ import annotations

import re

import numpy as np

from lodcli.commands.choose.expression import Expression
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


def sorted_order(values: Array, *, descending: bool) -> Offsets:
    """Return the items in order of their values, (K,) int64; equal ones as they were, nan last."""
    if values.dtype.kind == "V":  # bfloat16, whose argsort does not put nan last
        values = values.astype(np.float32)
    if not descending:
        return np.argsort(values, kind="stable")
    # In place: there may be as many values as fit into memory.
    order = np.argsort(values[::-1], kind="stable")[::-1]
    np.subtract(values.size - 1, order, out=order)
    nan = int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0
    return np.concatenate([order[nan:], order[:nan]]) if nan else order
