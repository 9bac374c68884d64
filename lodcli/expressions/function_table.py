"""The table of the functions of expressions: what an expression does with each of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

# Functions that are evaluated in their own way.
COALESCE, INDEX, DATE, FLOOR, ROUND = "coalesce", "index", "date", "floor", "round"
SPLIT, REPLACE_MATCHES = "split", "replace_matches"
MEDIAN, QUANTILE = QUANTILES = "median", "quantile"


@dataclass(frozen=True)
class Properties:
    """What an expression does with a function; with one that is not in the table, the defaults.

    Attributes:
        elementwise: whether it has a value for each value; values of fewer levels are broadcast.
        reduces: whether it has one value for all values of a sequence, or of an item.
        of_nothing: whether this value is not null for a sequence without values.
        op: whether it is the op of this name in `lod apply`.
        apply_only: whether `lod filter` and `lod sort` lack it.
        returns: "value", one of the values it takes, in their unit; "condition"; "count", a whole
            number; "text"; "row", several values; "" for other results.
        needs_order: whether it compares values, and takes no categories without an order.
        any_unit: whether it takes times and categories as well, and returns numbers of them.
        times: what it returns of times: "same", times of the same kind; "durations", durations of
            durations alone; "difference", durations; "date", dates; "clock", times of day; "" for
            numbers, or if it is not defined.
        part: the part of each time that its result depends on: "date" or "clock", the time of day.
            Times without it are an error.
        digits: how many digits its exact results of decimals have: "same", as many; "rounded",
            another number after the point; "one more"; "most", as many as fit; "" for floats.
        words: how many texts in quotes follow the texts that it takes; None if it takes none.
        may_fail: whether some values of a kind it takes may be an error: "no"; "times and
            decimals", some of these; "yes".
    """

    elementwise: bool = False
    reduces: bool = False
    of_nothing: bool = False
    op: bool = False
    apply_only: bool = False
    returns: Literal["value", "condition", "count", "text", "row", ""] = ""
    needs_order: bool = False
    any_unit: bool = False
    times: Literal["same", "durations", "difference", "date", "clock", ""] = ""
    part: Literal["date", "clock", ""] = ""
    digits: Literal["same", "rounded", "one more", "most", ""] = ""
    words: int | None = None
    may_fail: Literal["no", "times and decimals", "yes"] = "times and decimals"

    @property
    def picks(self) -> bool:
        """Whether it returns one of all values of a sequence."""
        return self.reduces and self.returns == "value"

    @property
    def picks_by_place(self) -> bool:
        """Whether it returns one of all values of a sequence by its place, also a null."""
        return self.picks and not self.needs_order

    @property
    def asks(self) -> bool:
        """Whether it tests if all values of a sequence, or any, are true."""
        return self.reduces and self.returns == "condition"


_each = functools.partial(Properties, elementwise=True)
_all = functools.partial(Properties, reduces=True)
_op = functools.partial(Properties, op=True, apply_only=True)

_TABLE = {
    "length": Properties(returns="count", any_unit=True, may_fail="no"),
    "sum": _all(op=True, of_nothing=True, times="durations", digits="most"),
    "mean": _all(op=True, times="same"),
    "median quantile": _all(times="same"),
    "max min": _all(op=True, returns="value", needs_order=True, may_fail="no"),
    "first last": _all(op=True, returns="value", may_fail="no"),
    "any all": _all(of_nothing=True, returns="condition", may_fail="no"),
    "cos exp expm1 log log10 log1p log2 sign sin tanh": _each(),
    "abs": _each(times="durations", digits="same"),
    "ceil round": _each(times="durations", digits="rounded"),
    "floor": _each(times="durations", digits="rounded", may_fail="yes"),
    "isfinite isnan": _each(returns="condition", any_unit=True, may_fail="no"),
    "maximum minimum": _each(returns="value", needs_order=True),
    "coalesce": _each(returns="value", may_fail="yes"),
    "index": _each(returns="count", may_fail="no"),
    "tensor": _each(may_fail="no"),
    "date": _each(times="date", part="date", may_fail="no"),
    "time": _each(times="clock", part="clock", may_fail="no"),
    "year month day weekday": _each(returns="count", part="date", may_fail="no"),
    "hour minute second": _each(returns="count", part="clock", may_fail="no"),
    "contains startswith endswith matches": _each(returns="condition", words=1, may_fail="no"),
    "chars": _each(returns="count", words=0, may_fail="no"),
    "lower upper strip": _each(returns="text", words=0, may_fail="no"),
    "replace replace_matches": _each(returns="text", words=2, may_fail="no"),
    "split": _each(returns="text", words=1, may_fail="no"),  # into a list of texts
    "stack": _each(apply_only=True, returns="row"),
    "conv reshape": _op(returns="row"),
    "cumsum": _op(times="durations", digits="most"),
    "diff": _op(times="difference", digits="one more"),
    "max_index min_index topk": _op(needs_order=True),
    "argsort edit_distance enumerate mask max_sequence_len": _op(any_unit=True),
    "pad rank_table searchsorted unpad": _op(any_unit=True),
}
FUNCTIONS = {name: one for names, one in _TABLE.items() for name in names.split()}
_UNKNOWN = Properties()


def properties_of(name: str) -> Properties:
    """Return what an expression does with the function, or op, of a name; "" of no name.

    >>> properties_of("year").returns, properties_of("softmax").returns
    ('count', '')
    """
    return FUNCTIONS.get(name, _UNKNOWN)
