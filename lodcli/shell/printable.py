"""Escapes text from files, so that it cannot control the terminal."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """Return `text` with control characters, bidi marks and lone surrogates escaped.

    Args:
        text: anything, such as a name out of a file.
        keep: characters to leave as they are.

    >>> print(printable("a\\x1b[2J\\nb"))
    a\\x1b[2J\\nb
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )
