"""Parses JSON lines to Python values, with errors that name the line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from lodcli.formats.core.names import shown
from lodcli.formats.text.lines import BYTE_ORDER_MARK, WITHOUT_MARK, WITHOUT_RETURNS, to_utf_8
from lodcli.kernels.errors import InvalidDataError, LodError
from lodcli.kernels.options import option


class _RefusedError(ValueError):
    """Input that Python's parser accepts and lod refuses."""


def _no_constant(text: str) -> NoReturn:
    raise _RefusedError(f"{text} is not JSON, which has no such number; write null instead")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"field {shown(key)} appears twice; rename one of them")
            seen.add(key)
    return result


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_unique)
_BLANKS = b" \t\r\n"
_NUMBER_END = re.compile(r"(?<=\d)(\.|[eE][-+]?)")
# What follows the place of an error if the text ends within a word, an escape or a number.
_PARTS = {
    "Expecting value": re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-"),
    "Invalid \\uXXXX escape": re.compile(r"u[0-9a-fA-F]{0,4}"),
    "Expecting ',' delimiter": _NUMBER_END,
    "Extra data": _NUMBER_END,
}
# Begins each value in a sequence of RFC 7464, as `jq --seq` and GDAL write it.
RECORD_SEPARATOR = b"\x1e"
WITHOUT_SEPARATORS = r"lines begin with the separator of RFC 7464; remove it, as with tr -d '\36'"


def parsed(lines: list[bytes], first: int, blanks: list[int] | None = None) -> list[object]:
    """Return the value of each line.

    Args:
        lines: with or without their ends.
        first: the number of the first line.
        blanks: receives the numbers of blank lines, which have no value; None: they are errors.

    Raises:
        InvalidDataError: names the line, and the column where it can.
    """
    decode = _DECODER.decode
    values: list[object] = []
    for number, line in enumerate(lines, first):
        try:
            values.append(decode(line.decode()))
        except (ValueError, RecursionError) as error:
            if blanks is None or line.strip(_BLANKS):
                remedy = "" if blanks is None else _remedy(error, line)
                told = _told(error, line, lines=blanks is not None)
                raise InvalidDataError(f"line {number}: {told}{remedy}") from None
            blanks.append(number)
    return values


@contextmanager
def placing(place: Callable[[int], str]) -> Iterator[None]:
    """Replace "line N" in errors by the place of the Nth value."""
    try:
        yield
    except LodError as error:
        raise placed(error, place) from None


def placed(error: LodError, place: Callable[[int], str]) -> LodError:
    """Return an error about a line as one about the place of its value; see `placing`."""
    return type(error)(re.sub(r"\bline (\d+)", lambda found: place(int(found[1])), str(error)))


def beyond(blanks: list[int]) -> Callable[[int], str]:
    """Return a function that names the line of a value, if `blanks` were not counted."""

    def place(number: int) -> str:
        for blank in blanks:
            number += blank <= number
        return f"line {number}"

    return place


def _remedy(error: Exception, line: bytes) -> str:
    """Return advice on a line of another kind of file of JSON values."""
    as_json = option("from", "json")
    if line.startswith(RECORD_SEPARATOR):
        if line.lstrip(RECORD_SEPARATOR + _BLANKS).startswith(b"{"):
            return f"; {as_json} reads objects with the separators of RFC 7464"
        return f"; {WITHOUT_SEPARATORS}"
    if not isinstance(error, json.JSONDecodeError) or error.msg != "Extra data":
        return ""
    if line.rstrip().endswith(b","):
        return f"; for elements of an array, put them in [ and ], and read them with {as_json}"
    return f"; jsonl has one value per line; {as_json} reads values one after another"


def _is_cut(error: ValueError, line: bytes, *, lines: bool) -> bool:
    """Return whether a text that is not JSON may be the beginning of a value."""
    if line.endswith(b"\n"):
        return False
    if isinstance(error, UnicodeDecodeError):
        return error.reason == "unexpected end of data"
    if not isinstance(error, json.JSONDecodeError):
        return False
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return True
    part = _PARTS.get(error.msg)
    # An element of an array may end within a word, but is not the end of the file.
    return lines and part is not None and part.fullmatch(error.doc, error.pos) is not None


def _told(error: ValueError | RecursionError, line: bytes, *, lines: bool) -> str:
    """Return what is wrong with a value; `lines`: of JSON lines, not of a document."""
    if isinstance(error, _RefusedError):
        return str(error)
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    part = "line" if lines else "value"
    cut = f"the file seems cut off: copy it again, or delete its last {part}"
    is_cut = isinstance(error, ValueError) and _is_cut(error, line, lines=lines)
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8; {cut if is_cut else to_utf_8()}"
    if not line.strip(_BLANKS):
        return "is blank; expected one JSON value; take it out"
    if isinstance(error, json.JSONDecodeError):
        remedy = ""
        if line.startswith(BYTE_ORDER_MARK):
            remedy = f"; {WITHOUT_MARK}"
        elif b"\r" in line.rstrip():
            remedy = f"; {WITHOUT_RETURNS}"
        # Not error.colno: at the end of a truncated line it is a column of the next line.
        end = len(line.decode().rstrip())
        if not remedy and is_cut:
            remedy = f"; {cut}"
        if error.pos >= end:
            if not remedy and line.endswith(b"\n"):
                as_json = option("from", "json")
                remedy = (
                    f"; jsonl has one value per line; {as_json} reads values over several lines"
                )
            return f"column {end + 1}: ends before its value does ({error.msg}){remedy}"
        return f"column {error.pos + 1}: is not JSON ({error.msg}){remedy}"
    return "holds a number of too many digits"
