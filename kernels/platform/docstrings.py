"""Docstrings that are shown to users, also if Python strips them (-OO)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any


def docstring(function: Callable[..., Any]) -> str:
    """Return the docstring of a function, without its indentation; "" if there is none."""
    if sys.flags.optimize < 2:
        return inspect.getdoc(function) or ""
    import ast

    try:
        source = inspect.getsource(inspect.unwrap(function))
    except OSError:  # installed without sources
        return ""
    (definition,) = ast.parse(inspect.cleandoc(source)).body
    assert isinstance(definition, ast.FunctionDef)
    return ast.get_docstring(definition) or ""
