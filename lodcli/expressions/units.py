"""The units of times and categories that an expression combines."""

from __future__ import annotations

import ast
import re
from typing import TypeGuard

from lodcli.expressions.function_table import FLOOR, properties_of
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS
from lodcli.kernels.tensor.marks import Categories, Times, Unit

# Kinds of times that are compared with each other.
MOMENTS = {"date", "timestamp"}


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


def unit_of_times(function: str, times: Times, *, picks: bool, steps: bool) -> Times | None:
    """Return the unit of a function of times; None of numbers.

    Args:
        function: its name; "" of a choice.
        picks: whether it returns some of its values.
        steps: whether it has a second argument.
    """
    returned = properties_of(function).times
    if returned == "difference":
        return Times("duration", times.unit)
    if returned == "date":
        return Times("date", "D")
    if returned == "clock":
        return Times("time", times.unit)
    if picks or returned == "same" or (function == FLOOR and steps):
        return times
    return times if is_duration(times) else None  # a sum of moments has no meaning


def is_duration(unit: Unit | None) -> TypeGuard[Times]:
    return isinstance(unit, Times) and unit.kind == "duration"


def undefined(function: str, text: str, unit: Unit | None, *, picks: bool) -> str:
    """Return why a function is not defined for values of a unit, and what to write; "" if it is.

    Args:
        text: the values, as they are written in an expression.
        picks: whether the result is times or categories too.
    """
    known = properties_of(function)
    if isinstance(unit, Categories) and not unit.ordered and known.needs_order:
        return f"the categories of {text} have no order; use first, last, any or all"
    if picks or known.any_unit or not isinstance(unit, Times | Categories):
        return ""
    if function == FLOOR and isinstance(unit, Times):
        return f"{FLOOR} of {unit} takes a step, as in {FLOOR}({text}, 'PT1H')"
    return f"{function} is not defined for {unit}; {as_numbers(text, unit)}"


def as_numbers(text: str, unit: Times | Categories, origin: str = "") -> str:
    """Return how a user makes numbers of times or categories.

    Args:
        origin: from when to count; by default from 1970, or from midnight.

    >>> as_numbers("day", Times("date", "D"))
    "write (day - '1970-01-01') / 'P1D'"
    """
    if isinstance(unit, Categories):
        return "lod convert --text-levels numbers makes numbers of its codes"
    origin = origin or ("'00:00'" if unit.kind == "time" else "'1970-01-01'")
    since = text if unit.kind == "duration" else f"({text} - {origin})"
    return f"write {since} / '{'P1D' if unit.unit == 'D' else 'PT1S'}'"
