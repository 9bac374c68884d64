"""A step function named on the command line: --step module:function."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from lodcli.kernels.errors import LodError, SelectionError
from lodcli.kernels.rnn.loops.dynamic_rnn import Step

# Modules imported only for steps: a later command of this process imports them again.
_imported: set[str] = set()


class StepError(LodError):
    """The code that --step names raised an error."""


def load_step(text: str) -> Step:
    """Return the function that MODULE:FUNCTION names; its exceptions become StepErrors.

    The module is searched in the current folder first, as by `python -m`. No bytecode of it is
    cached: Python would also use it for a file that is edited within the same second.

    Raises:
        SelectionError: no such module or function.
        StepError: the module cannot be imported.
    """
    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise SelectionError(f"--step {text!r}: expected MODULE:FUNCTION, as in model:step")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    if module_name in _imported:
        sys.modules.pop(module_name, None)
    importlib.invalidate_caches()
    known = module_name in sys.modules
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise StepError(_told(text, error)) from error
        raise SelectionError(
            f"--step {text}: no module {module_name!r} in the current folder or installed"
        ) from None
    except Exception as error:
        raise StepError(_told(text, error)) from error
    finally:
        sys.dont_write_bytecode = writes_bytecode
    if not known:
        _imported.add(module_name)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        what = "no function" if found is None else f"a {type(found).__name__}, no function"
        raise SelectionError(f"--step {text}: {module_name} has {what} called {name!r}")
    return _guarded(found, text)


def _guarded(step: Callable[[Any, Any], Any], text: str) -> Step:
    def call(inputs: Any, memory: Any) -> Any:
        try:
            return step(inputs, memory)
        except Exception as error:
            raise StepError(_told(text, error)) from error

    return call


def _told(text: str, error: Exception) -> str:
    """Return an error in one line, with the last line of code that is in the current folder."""
    frames = traceback.extract_tb(error.__traceback__)
    here = os.getcwd() + os.sep
    own = [frame for frame in frames if frame.filename.startswith(here)]
    where = ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({os.path.basename(error.filename)}, line {error.lineno})"
    elif own:
        line = f": {own[-1].line}" if own[-1].line else ""
        where = f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno}{line})"
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    what = " ".join(f"{type(error).__name__}: {message}".split())
    return f"--step {text}: {what.removesuffix(': ')}{where}"
