"""Text from files on the terminal: escaped, so that it cannot control it, and its width."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return `text` with control characters, bidi marks and lone surrogates escaped.

    Args:
        text: any text, such as a name in a file.

    >>> print(printable("a\\x1b[2J\\nb"))
    a\\x1b[2J\\nb
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def columns(text: str) -> int:
    """Return how many columns of a terminal a printable text takes.

    >>> columns("国e\\u0301")
    3
    """
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(char) in ("Mn", "Me") else 2 if east_asian_width(char) in "WF" else 1
        for char in text
    )


def aligned(text: str, width: int, *, right: bool = False) -> str:
    """Return a text with blanks at its end, or its beginning, to take `width` columns."""
    blanks = " " * (width - columns(text))
    return blanks + text if right else text + blanks
