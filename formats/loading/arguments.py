"""Arguments of Python in errors of the library, in place of the options of commands."""

from __future__ import annotations

import re
from contextlib import ContextDecorator
from functools import cache

from lodcli.formats.core.errors import places
from lodcli.formats.core.options import NULLS, SEPARATORS, TEXT_LEVELS
from lodcli.formats.core.table import TABLE
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import LodError

# Options that are switches, and those whose arguments have other names.
_SWITCHES = ("decimal-comma", "dtype-unsafe", "skip-partitions", "skip-unsupported", "wide")
_NAMES = {
    **{"compress": "compression", "shard-size": "shard_bytes", "vocab": "vocabulary"},
    **{"from": "format_name", "to": "format_name", "isolate": "limits", "max-bytes": "limits"},
}
# The values that may follow an option in a message, as patterns.
_VALUES = {
    "data": r"/[^\s;:,)]+|[a-z]+,[a-z]+",
    "dtype": "|".join(sorted(ALL_DTYPES, reverse=True)),
    "encoding": r"utf-16(?:-[lb]e)?|utf-16",
    "from": "|".join(sorted(map(re.escape, TABLE), reverse=True)),
    "field": r"\w+(?=\))",
    "levels": "sentence|sequence",
    "nulls": "|".join(map(re.escape, NULLS)),
    "offsets": r"/[^\s;:,)]+|indptr",
    "separator": "|".join(SEPARATORS),
    "text-levels": "|".join(TEXT_LEVELS),
    "to": "|".join(sorted(map(re.escape, TABLE), reverse=True)),
}
_BARE = (
    *("columns", "compress", "cu-seqlens", "end-token", "form", "index-dtype", "isolate"),
    *("lengths", "max-bytes", "names", "rename", "shard-size", "shards", "start-token"),
    *("text-columns", "vocab"),
)
# What nulls are replaced with once they are read.
_ALSO = " (fill_nulls or drop_nulls in Python)", ", or fill_nulls or drop_nulls of a tensor"
# After the name of an argument, its name as an option.
_REPEATED = re.compile(r" \(\w+=(?:True)?\)(?=;|$)")
_OPTIONS = "|".join(sorted({*_SWITCHES, *_VALUES, *_BARE}, key=len, reverse=True))
_OPTION = re.compile(rf"(?<![\w-])--({_OPTIONS})(?![\w-])")
# What stays: a command line, which the user runs in a shell, and quoted names and values of a file.
_KEPT = re.compile(
    r"\blod [a-z][a-z-]*(?: [^;`]*)?"
    r"|(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)"
    r'|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w)'
)


def in_python(message: str) -> str:
    """Return a message with arguments of `lodcli.open` and `lodcli.write` for options.

    >>> in_python("choose others with --field, or the rest with --skip-unsupported")
    'choose others with field=, or the rest with skip_unsupported=True'
    >>> in_python("--nulls keep reads it; `lod convert --wide` writes it")
    "nulls='keep' reads it; `lod convert --wide` writes it"
    """
    if "--" not in message:
        return message
    parts, end = list[str](), 0
    for kept in _KEPT.finditer(message):
        parts += [_replaced(message[end : kept.start()]), kept[0]]
        end = kept.end()
    parts.append(_replaced(message[end:]))
    return _REPEATED.sub("", "".join(parts).replace(*_ALSO))


def _replaced(text: str) -> str:
    """Return a part of a message, without what stays, with arguments for options."""
    found, end = list[str](), 0
    for option in _OPTION.finditer(text):
        flag, between = option[1], text[end : option.start()]
        between = ", " if between == " " and found else between
        found.append(between + _NAMES.get(flag, flag.replace("-", "_")) + "=")
        end = option.end()
        if flag in _SWITCHES:
            found.append("True")
        elif flag in _VALUES and (value := _value(flag, " ").match(text, end)):
            found.append(f"'{value[1]}'")
            end = value.end()
            while flag == "nulls" and (value := _value(flag, ",? or |, ").match(text, end)):
                before = text[end : value.start(1)]
                found.append(f"{before}'{value[1]}'")
                end = value.end()
    return "".join([*found, text[end:]])


@cache
def _value(flag: str, before: str) -> re.Pattern[str]:
    """Return a pattern of a value of an option, after a text."""
    return re.compile(rf"(?:{before})({_VALUES[flag]})(?![\w-])")


class naming_arguments(ContextDecorator):  # lower case: used as `with naming_arguments():`
    """Name arguments of Python in LodErrors raised in the block, or the function."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LodError) and error.args and isinstance(error.args[0], str):
            # Not the name of the file, which may be any text.
            label = "".join(places(error)[:1])
            known = label if error.args[0].startswith(label) else ""
            said = in_python(error.args[0].removeprefix(known))
            error.args = (known + said, *error.args[1:])
