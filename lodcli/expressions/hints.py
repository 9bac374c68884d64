"""What to write instead of parts of other languages: SQL, pandas, Polars, C."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from shlex import quote

from lodcli.formats.core.names import is_plain, listing
from lodcli.kernels.suggestions import did_you_mean

Listed = ast.Tuple | ast.List | ast.Set
# Replacement for a choice between two values.
CHOICE = "write a if x > 0 else b"
TEXT_OF_BYTES = "lod convert --text-levels text makes text of bytes"
_CASTING = "lod cast x=int64 converts a tensor"
_PARTS = "write year(time), month(time), day(time), hour(time), .."
# Of a text that is no expression, by what it has near the error or anywhere.
_SYNTAX: tuple[tuple[str, str], ...] = (
    (r"\bis\s+(not\s+)?null\b", "write x is None, x is not None"),
    (r"\bbetween\b", "write 20 <= x <= 30"),
    (r"\bi?like\b|=~|~\s*['\"]", "write contains(x, 'ab') or matches(x, '^a.*b$')"),
    (r"(?<![\w)\]'.])\.[a-z_]", "write a name without a point before it"),
    (r"\w\s+contains\b(?!\s*\()", "write 'a' in x of a list, and contains(x, 'ab') of a text"),
    (r"\bcast\s*\(|::[a-z]", _CASTING),
    (r"\bextract\s*\(", _PARTS),
    (r"\bas\s+\w+$", "lod apply --into NAME names the result"),
    (r"[`$@]", "write a name that is not an identifier as tensor('NAME')"),
    (r"[\u2018-\u201e\u00ab\u00bb]", "write \" or ' around a text"),
    (r"≥|≤|≠|=>|=<|<>", "write >=, <= and !="),
    (r"\|\|", "write and, or, not for conditions, x + y to join texts"),
    (r"&&|!(?!=)|\b(AND|OR|NOT)\b", "write and, or, not"),
    (r"\?|\bcase\b|\bthen\b|(^|[-+*/(,=<>])\s*if\s*\(", CHOICE),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "write a date in quotes"),
    (
        r"^\s*(where|select)\b(?!\s*(:?=|[<>!]|(and|or|in|is)\b))",
        "write the condition alone, as in x > 1",
    ),
    (
        r"[\w)](\s+|:)(desc|asc)(ending)?\b",
        "lod sort --by x puts the least first, --by -x the greatest",
    ),
    # A calculation, not only a value or a call to compare with, as in x = -1.
    (
        r"^\s*\w+\s*:?=(?!=).*[\w)\]]\s*[-+*/]",
        "equality is ==; lod apply --into NAME names the result",
    ),
    (r"(?<![=<>!])=(?!=)|===", "equality is =="),
    (r";\s*$", "write it without the semicolon"),
)
_NAMES = {
    **dict.fromkeys(
        ("null", "na", "none"), "a null is found by x is None, and made by x if x > 0 else None"
    ),
    "nan": "nan is found by isnan(x)",
    **dict.fromkeys(("inf", "infinity"), "infinity is 1e999"),
    **dict.fromkeys(("true", "false"), "write True or False"),
    "df": "write the name of a column alone, as in x > 1",
    "pi": "write 3.141592653589793",
}
# Parts that have no values.
_MISPLACED: dict[type[ast.expr], str] = {
    **{ast.Lambda: "lambda", ast.JoinedStr: "an f-string", ast.NamedExpr: ":="},
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set), "a list"),
}
_INSTEAD = {
    "a list": "only in takes one, as in x in (1, 3)",
    "lambda": "write its expression, with the names of tensors",
    "an f-string": "write 'text', or x + 'text' to join texts",
    ":=": "write the value in place of its name; lod apply keeps one under a name with --into",
}
_FUNCTIONS = {
    **dict.fromkeys(("avg", "average"), "write mean(x)"),
    **dict.fromkeys(("count", "len", "size"), "write length(x)"),
    **dict.fromkeys(("isna", "isnull", "is_na", "is_null"), "write x is None"),
    **dict.fromkeys(("notna", "notnull", "is_not_null"), "write x is not None"),
    "is_nan": "write isnan(x)",
    **dict.fromkeys(("pow", "power"), "write x ** 2"),
    "sqrt": "write x ** 0.5; the op sqrt is sum(x) / sum(x is not None) ** 0.5",
    **dict.fromkeys(("std", "stddev"), "write mean((x - mean(x)) ** 2) ** 0.5"),
    **dict.fromkeys(("var", "variance"), "write mean((x - mean(x)) ** 2)"),
    **dict.fromkeys(
        ("zscore", "normalize", "standardize"),
        "write (x - mean(x)) / std, where std is mean((x - mean(x)) ** 2) ** 0.5",
    ),
    **dict.fromkeys(("diff", "difference", "delta"), "lod apply has diff(x)"),
    **dict.fromkeys(("shift", "lag", "previous"), "lod apply has shift(x), the row before"),
    **dict.fromkeys(("lead", "next"), "lod apply has shift(x, -1), the row after"),
    **dict.fromkeys(("percentile", "approx_quantile"), "write quantile(x, 0.9)"),
    **dict.fromkeys(
        ("nunique", "n_unique", "count_distinct", "approx_count_distinct"),
        "lod apply has length(unique(x)); of texts, after lod cast x=category",
    ),
    **dict.fromkeys(("argmax", "idxmax"), "lod apply max_index finds it"),
    **dict.fromkeys(("argmin", "idxmin"), "lod apply min_index finds it"),
    "nullif": "write x if x != -1 else None",
    **dict.fromkeys(("ifnull", "nvl", "fillna", "fill_null", "fill_nulls"), "write coalesce(x, 0)"),
    **dict.fromkeys(("row_number", "row_index", "rowid", "rownum"), "write index()"),
    **dict.fromkeys(("col", "column"), "write the name, or tensor('NAME')"),
    **dict.fromkeys(("has", "list_contains", "array_contains"), "write 'a' in x"),
    **dict.fromkeys(("isin", "is_in"), "write x in (1, 3)"),
    **dict.fromkeys(("greatest", "least"), "write maximum(x, y) or minimum(x, y)"),
    **dict.fromkeys(("clip", "clamp"), "write minimum(maximum(x, 0), 1)"),
    **dict.fromkeys(
        ("int", "float", "str", "bool", "cast", "try_cast", "astype"),
        _CASTING,
    ),
    **dict.fromkeys(("datetime", "timestamp"), "write time > '2024-05-01'"),
    "to_date": "lod cast x=date makes dates of texts",
    **dict.fromkeys(
        ("to_datetime", "to_timestamp", "strptime"),
        "lod cast x=timestamp[s] makes times of texts",
    ),
    **dict.fromkeys(("datediff", "date_diff"), "write (date(y) - date(x)) // 'P1D'"),
    **dict.fromkeys(("total_seconds", "days", "seconds"), "write x / 'PT1S', or 'P1D'"),
    **dict.fromkeys(("date_part", "datepart", "extract"), _PARTS),
    **dict.fromkeys(
        ("week", "isoweek", "week_of_year", "weekofyear"),
        "write (t - floor(t, 'P1Y')) // 'P7D' + 1, where t is floor(date(time), 'P1W') + 'P3D'",
    ),
    "quarter": "write (month(time) + 2) // 3",
    **dict.fromkeys(
        ("yearday", "dayofyear", "day_of_year", "ordinal_day"),
        "write (date(time) - floor(date(time), 'P1Y')) / 'P1D' + 1",
    ),
    **dict.fromkeys(("dayofmonth", "day_of_month"), "write day(time)"),
    **dict.fromkeys(
        ("trunc", "truncate", "date_trunc", "time_bucket"),
        "write floor(time, 'PT1H'), or 'P1D', 'P1W', 'P1M'",
    ),
    **dict.fromkeys(("time_of_day", "timeofday"), "write time(x)"),
    **dict.fromkeys(
        ("dayofweek", "day_of_week", "dow", "isoweekday"), "write weekday(time), 0 on Mondays"
    ),
    **dict.fromkeys(("now", "today", "current_date"), "write the date in quotes"),
    "starts_with": "write startswith(x, 'ab')",
    "ends_with": "write endswith(x, 'ab')",
    **dict.fromkeys(("ilike", "casefold", "lowercase"), "write lower(x) == 'ab'"),
    **dict.fromkeys(("trim", "strip_chars"), "write strip(x)"),
    **dict.fromkeys(("concat_ws", "concat_str"), "write x + '-' + y"),
    **dict.fromkeys(
        ("regexp_extract", "regexp_substr", "str_extract"),
        "write replace_matches(x, '^[^0-9]*([0-9]+).*$', r'\\1'); "
        "a text without a match stays as it is",
    ),
    "zip": "lod apply has stack(x, y)",
    **dict.fromkeys(
        ("like", "match", "regexp_matches", "regexp_like", "rlike", "search"),
        "write contains(x, 'ab') or matches(x, '^a.*b$')",
    ),
    **dict.fromkeys(("char_length", "character_length", "len_chars", "nchar"), "write chars(x)"),
    **dict.fromkeys(("string_split", "str_split"), "write split(x, ',')"),
    **dict.fromkeys(
        ("regexp_replace", "replace_all", "regex_replace", "sub", "gsub"),
        "write replace_matches(x, '[0-9]+', '#')",
    ),
    **dict.fromkeys(
        ("substr", "substring", "left", "right", "head", "tail", "list_slice", "array_slice"),
        "write x[:3], x[-3:] or x[2:5]",
    ),
    **dict.fromkeys(
        ("get", "element_at", "list_element", "list_extract", "array_extract"),
        "write x[0] or x[-1]",
    ),
    **dict.fromkeys(("where", "if_else", "ifelse", "iff", "iif", "when", "case"), CHOICE),
}


# Replacements for functions of all values that are called with two arguments.
_OF_TWO = {
    "max": "; maximum(x, y) is the greater of two",
    "min": "; minimum(x, y) is the less of two",
    "sum": "; write x + y",
    "mean": "; write (x + y) / 2",
    "any": "; write x or y",
    "all": "; write x and y",
    "log": "; write log(x) / log(3), or log2(x), log10(x)",
}


# Of functions that are not called with one tensor alone.
_CALLS = {
    "coalesce": "coalesce(x, 0)",
    "index": "x + index()",
    "quantile": "quantile(x, 0.9)",
    "tensor": 'tensor("x")',
    "stack": "stack(x, y)",
    **{name: f"{name}(x, 0)" for name in ("maximum", "minimum")},
    **{name: f'{name}(x, "a")' for name in ("contains", "startswith", "endswith")},
    "matches": 'matches(x, "^a.*b$")',
    "replace": 'replace(x, "a", "b")',
    "replace_matches": 'replace_matches(x, "[0-9]+", "#")',
    "split": 'split(x, ",")',
}


def call_of(name: str, argument: str = "x") -> str:
    """Return an example of a call of a function.

    >>> call_of("lower", "text"), call_of("maximum")
    ('lower(text)', 'maximum(x, 0)')
    """
    return _CALLS.get(name, f"{name}(x)").replace("(x", f"({argument}", 1)


def hint_of_two(call: ast.Call) -> str:
    """Return what to write instead of a function of all values with several arguments.

    >>> hint_of_two(ast.parse("sum(a, b)", mode="eval").body)
    '; write x + y'
    """
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return _OF_TWO.get(name, "") if len(call.args) > 1 else ""


def misplaced(node: ast.expr) -> str:
    """Return the message for a part that has no values, with what to write instead if known.

    >>> misplaced(ast.parse("[1, 3]", mode="eval").body)
    'a list cannot be used here; only in takes one, as in x in (1, 3)'
    """
    name = _MISPLACED.get(type(node), "this")
    how = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
    return f"{name} cannot be used here{how}"


def has_literals(listed: Listed) -> bool:
    """Return whether all elements of a list are literals, of which there is one at least."""
    parts = [part for one in listed.elts for part in ast.walk(one)]
    values = [one for one in parts if not isinstance(one, ast.UnaryOp | ast.unaryop)]
    literals = all(isinstance(one, ast.Constant) and one.value is not None for one in values)
    return bool(parts) and literals


def compared_list(
    name: str | None,
    listed: Listed,
    text: str,
    op: ast.cmpop,
    lists: int,
    *,
    of_text: bool,
    several: bool = False,
) -> str:
    """Return the message for == or != of a part and a list, with what to write instead if known.

    Args:
        name: the tensor that the part is; None of others.
        text: the list as it was written.
        lists: in how many lists the values of the part are.
        several: whether the part has several values for one item, which must be one.

    >>> listed = ast.parse("[1, 3]", mode="eval").body
    >>> compared_list("x", listed, "[1, 3]", ast.NotEq(), 0, of_text=False)
    'a list cannot be used here; write x not in [1, 3]'
    """
    equal = isinstance(op, ast.Eq)
    how = ""
    if of_text and any(not isinstance(getattr(one, "value", None), str) for one in listed.elts):
        how = (
            f"texts in quotes, as in {as_written(name or 'x')} {'in' if equal else 'not in'} ['a']"
        )
    elif name is not None and has_literals(listed):
        how = f"{as_written(name)} {'in' if equal else 'not in'} {text}"
        if several:
            how = f"{'' if equal else 'not '}any({as_written(name)} in {text})"
    elif name is not None and not listed.elts and lists:
        how = f"length({as_written(name)}) {'==' if equal else '>'} 0"
    return f"a list cannot be used here; write {how}" if how else misplaced(listed)


def syntax_hint(text: str) -> str:
    """Return what to write instead of a text that is no expression, as "; .."; "" if unknown.

    >>> syntax_hint("age IS NULL")
    '; write x is None, x is not None'
    >>> syntax_hint("n = max(tags)"), syntax_hint("where = 1")
    ('; equality is ==', '; equality is ==')
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
    """Return a hint on an unknown name; "" if there is none.

    >>> name_hint("AGE", ["age", "size"])
    'did you mean age?'
    """
    known = list(known)
    same = next((one for one in known if one.casefold() == name.casefold()), None)
    if same is not None:
        return f"did you mean {same}?"
    if fields := [one for one in known if one.startswith(f"{name}.")]:
        there = listing(map(as_written, fields))
        return f"its records have fields: {there}; name one (a record is null if all of them are)"
    return _NAMES.get(name.casefold(), "") or did_you_mean(name, known)


def function_hint(name: str, known: Iterable[str]) -> str:
    """Return a hint on an unknown function, or the list of functions.

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
    return name if is_plain(name) else f"tensor({name!r})"


def cast_hint(name: str | None, text: str, dtype: str) -> str:
    """Return how to make times, or numbers, of texts, as "; ..".

    Args:
        name: of the tensor; None of texts that an expression computes.
        text: the part, as it was written.
        dtype: of the result, such as timestamp[s].

    >>> cast_hint("start", "start", "timestamp[s]")
    "; lod cast 'start=timestamp[s]' makes times of texts"
    >>> cast_hint(None, "x[:2]", "float64").partition(" makes ")[0]
    "; lod apply 'x[:2]' .. --into NAME writes it, then lod cast NAME=float64"
    """
    what = "times" if dtype.startswith("timestamp") else "numbers"
    target = quote(f"{name or 'NAME'}={dtype}")
    writes = "" if name else f"lod apply {quote(text)} .. --into NAME writes it, then "
    return f"; {writes}lod cast {target} makes {what} of texts"
