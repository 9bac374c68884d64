"""Escapes text from files, so that it cannot control the terminal."""

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
