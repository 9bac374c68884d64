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
    # Not ast.parse, which strips docstrings as well from Python 3.14 on.
    text = inspect.cleandoc(source)
    tree = compile(text, "", "exec", ast.PyCF_ONLY_AST, optimize=0)
    assert isinstance(tree, ast.Module)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    return ast.get_docstring(definition) or ""
