"""Extension of griffe: the examples of docstrings are blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From the first prompt to the next empty line.
_EXAMPLE = re.compile(r"^( *)>>> .*\n(?:.*\S.*\n)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts fences around `>>>` lines, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was loaded."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with fences around its examples."""
    return _EXAMPLE.sub(
        lambda found: f"{found[1]}```pycon\n{found[0]}{found[1]}```\n", text + "\n"
    ).rstrip()
