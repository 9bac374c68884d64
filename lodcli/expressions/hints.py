"""What to write instead of parts of other languages: SQL, pandas, Polars, C."""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword

from lodcli.kernels.suggestions import did_you_mean

# What stands for a choice between two values.
CHOICE = "write a if x > 0 else b"
# Of a text that is no expression, by what it has near the error or anywhere.
_SYNTAX: tuple[tuple[str, str], ...] = (
    (r"\bis\s+(not\s+)?null\b", "write x is None, x is not None"),
    (r"\bbetween\b", "write 20 <= x <= 30"),
    (r"\bi?like\b|=~|~\s*['\"]", "a text is compared with ==, !=, <, > or in"),
    (r"[`$@]", "a name that is no identifier is tensor('NAME')"),
    (r"[\u2018-\u201e\u00ab\u00bb]", "write \" or ' around a text"),
    (r"≥|≤|≠|=>|=<|<>", "write >=, <= and !="),
    (r"&&|\|\||!(?!=)|\b(AND|OR|NOT)\b", "write and, or, not"),
    (r"\?|\bcase\b|(^|[-+*/(,=<>])\s*if\s*\(", CHOICE),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "write a date in quotes"),
    (r"(?<![=<>!])=(?!=)|===", "equality is =="),
)
_NAMES = {
    **dict.fromkeys(
        ("null", "na", "none"), "a null is found by x is None, and made by x if x > 0 else None"
    ),
    "nan": "nan is found by isnan(x)",
    **dict.fromkeys(("inf", "infinity"), "infinity is 1e999"),
    **dict.fromkeys(("true", "false"), "write True or False"),
}
_FUNCTIONS = {
    **dict.fromkeys(("avg", "average"), "write mean(x)"),
    **dict.fromkeys(("count", "len", "size"), "write length(x)"),
    **dict.fromkeys(("isna", "isnull", "is_na", "is_null"), "write x is None"),
    **dict.fromkeys(("notna", "notnull", "is_not_null"), "write x is not None"),
    "is_nan": "write isnan(x)",
    **dict.fromkeys(("pow", "power"), "write x ** 2"),
    "sqrt": "write x ** 0.5",
    **dict.fromkeys(("std", "stddev"), "write mean((x - mean(x)) ** 2) ** 0.5"),
    **dict.fromkeys(("var", "variance"), "write mean((x - mean(x)) ** 2)"),
    **dict.fromkeys(
        ("zscore", "normalize", "standardize"),
        "write (x - mean(x)) / std, where std is mean((x - mean(x)) ** 2) ** 0.5",
    ),
    **dict.fromkeys(("diff", "difference", "delta"), "lod apply has diff(x)"),
    **dict.fromkeys(("shift", "lag", "previous"), "lod apply has shift(x), the row before"),
    **dict.fromkeys(("lead", "next"), "lod apply has shift(x, -1), the row after"),
    **dict.fromkeys(("median", "quantile", "percentile"), "there is none; lod apply sort sorts"),
    **dict.fromkeys(("argmax", "idxmax"), "lod apply max_index finds it"),
    **dict.fromkeys(("argmin", "idxmin"), "lod apply min_index finds it"),
    "nullif": "write x if x != -1 else None",
    **dict.fromkeys(("ifnull", "nvl", "fillna", "fill_null", "fill_nulls"), "write coalesce(x, 0)"),
    **dict.fromkeys(("row_number", "row_index", "rowid", "rownum"), "write index()"),
    **dict.fromkeys(("col", "column"), "write the name, or tensor('NAME')"),
    **dict.fromkeys(("contains", "has"), "write 'a' in x"),
    **dict.fromkeys(("datetime", "timestamp"), "write time > '2024-05-01'"),
    **dict.fromkeys(
        ("year", "month"),
        "write '2024-01-01' <= time and time < '2025-01-01', or floor(time, 'P1Y')",
    ),
    **dict.fromkeys(
        ("trunc", "truncate", "date_trunc", "time_bucket"),
        "write floor(time, 'PT1H'), or 'P1D', 'P1W', 'P1M'",
    ),
    **dict.fromkeys(("time_of_day", "timeofday"), "write time(x)"),
    "hour": "write (time - '1970-01-01') // 'PT1H' % 24, in UTC",
    **dict.fromkeys(
        ("weekday", "dayofweek", "dow"), "write (day - '1970-01-05') // 'P1D' % 7, 0 on Mondays"
    ),
    **dict.fromkeys(("now", "today", "current_date"), "write the date in quotes"),
    **dict.fromkeys(("startswith", "starts_with"), "write x >= 'ab' and x < 'ac'"),
    **dict.fromkeys(
        ("lower", "upper", "replace", "split", "strip", "trim", "endswith", "like", "match"),
        "a text is compared with ==, !=, <, > or in",
    ),
    **dict.fromkeys(("where", "if_else", "ifelse", "iif", "when", "case"), CHOICE),
}


def syntax_hint(text: str) -> str:
    """Return what to write instead of a text that is no expression, as "; .."; "" if unknown.

    >>> syntax_hint("age IS NULL")
    '; write x is None, x is not None'
    """
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "''", text)
    found = (
        hint
        for pattern, hint in _SYNTAX
        if re.search(pattern, bare, re.IGNORECASE if pattern.islower() else 0)
    )
    hint = next(found, "")
    return f"; {hint}" if hint else ""


def name_hint(name: str, known: Iterable[str]) -> str:
    """Return what an unknown name may mean; "" if that is unknown.

    >>> name_hint("AGE", ["age", "size"])
    'did you mean age?'
    """
    known = list(known)
    same = next((one for one in known if one.casefold() == name.casefold()), None)
    if same is not None:
        return f"did you mean {same}?"
    return _NAMES.get(name.casefold(), "") or did_you_mean(name, known)


def function_hint(name: str, known: Iterable[str]) -> str:
    """Return what an unknown function may mean, or which there are.

    >>> function_hint("AVG", ["mean"])
    'write mean(x)'
    """
    known = sorted(known)
    near = did_you_mean(name.casefold(), known) or f"there are: {', '.join(known)}"
    return _FUNCTIONS.get(name.casefold(), near)


def as_written(name: str) -> str:
    """Return how an expression refers to a tensor.

    >>> as_written("turns.ids"), as_written("a-b"), as_written("in")
    ('turns.ids', "tensor('a-b')", "tensor('in')")
    """
    plain = all(one.isidentifier() and not iskeyword(one) for one in name.split("."))
    return name if plain else f"tensor({name!r})"
