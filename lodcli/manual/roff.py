"""Text as roff, for man(7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def escaped(text: str) -> str:
    """Return text escaped so that roff prints it unchanged.

    >>> print(escaped(".x -v"))
    \\&.x \\-v
    """
    shown = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    )
    return "\\&" + shown if shown.startswith(".") else shown


def section(title: str, lines: Iterable[str]) -> list[str]:
    """Return a section with lines of roff; nothing if there are no lines."""
    body = list(lines)
    return [f".SH {title.upper()}", *body] if body else []


def prose(text: str) -> list[str]:
    """Return the paragraphs of a help text; \\b on a line before one preserves its line breaks."""
    lines = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        rows = [row.strip() for row in paragraph.splitlines()]
        if rows and rows[0] == "\b":
            lines += literal(paragraph.split("\b\n", 1)[1].splitlines())
        else:
            lines += [".PP", escaped(" ".join(rows))]
    return lines


def literal(rows: Sequence[str]) -> list[str]:
    """Return rows as roff that preserves line breaks."""
    return [".PP", ".nf", *map(escaped, rows), ".fi"]


def definitions(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return terms in bold, with their definitions."""
    lines = []
    for term, meaning in pairs:
        lines += [".TP", f"\\fB{escaped(term)}\\fR", escaped(meaning) or "\\&"]
    return lines
