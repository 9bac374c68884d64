"""The units of times and categories that an expression combines."""

from __future__ import annotations

import ast
import re
from typing import TypeGuard

from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS
from lodcli.kernels.tensor.marks import Categories, Times, Unit


def unit_beside(times: Unit | None, op: ast.operator, side: ast.expr) -> Times | None:
    """Return the unit of numbers, or a text such as "PT1H", in arithmetic with times.

    Only a text divides a duration, or is divided by one, as a duration: `wait / 2` is half of it.
    """
    text = side.value if isinstance(side, ast.Constant) else None
    if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) and isinstance(text, str):
        return times if is_duration(times) else None
    if not isinstance(times, Times) or not isinstance(op, ast.Add | ast.Sub):
        return None
    if isinstance(op, ast.Sub) and isinstance(text, str) and not re.match("[+-]?P", text):
        return times
    return Times("duration", times.unit)


def joint_unit(one: Unit | None, other: Unit | None) -> Unit | None:
    """Return the unit in which values of two are compared and added; None of two without unit.

    Times count the finer of their units, and categories have the words of both.

    Raises:
        InvalidDataError: ordered categories with other words.
    """
    if isinstance(one, Times) and isinstance(other, Times):
        if one.kind == "duration" or (one.kind, other.kind) == ("date", "timestamp"):
            one, other = other, one
        unit = min(one.unit, other.unit, key=NANOSECONDS.__getitem__)
        # Only dates may have no such unit.
        alike = unit == one.unit or one.kind in ("time", other.kind)
        return Times(one.kind if alike else "timestamp", unit, one.zone)
    if isinstance(one, Categories) and isinstance(other, Categories):
        return one.with_words(other)
    return other if one is None else one


def is_duration(unit: Unit | None) -> TypeGuard[Times]:
    return isinstance(unit, Times) and unit.kind == "duration"
