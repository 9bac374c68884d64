"""Functions that pass their arguments on, as fast as calls that are written out."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


def forwarding(function: Callable[..., Any], body: str, /, **held: Any) -> Any:
    """Return a function with the parameters and defaults of another, and this body.

    `*args, **more` take three to seven times as long to pass on.

    Args:
        function: written in Python, without `*args` and `**more`.
        body: its text, indented, with {passed} for the arguments as `function` takes them, and
            {values} for their values.
        held: what the body refers to; no parameter has one of these names.

    >>> def half(number, *, of=2):
    ...     return number / of
    >>> forwarding(half, "    return 10 * half({passed})", half=half)(4)
    20.0
    """
    # Not by `inspect.signature`, which takes longer than all else.
    assert isinstance(function, FunctionType)
    count, all_of_them = function.__code__.co_argcount, function.__code__.co_kwonlyargcount
    names = function.__code__.co_varnames[: count + all_of_them]
    assert not held.keys() & set(names)
    places, keywords = names[:count], names[count:]
    parameters = ", ".join([*places, *["*"] * bool(keywords), *keywords])
    passed = ", ".join([*places, *(f"{name}={name}" for name in keywords)])
    values = ", ".join(names)
    exec(f"def call({parameters}):\n{body.format(passed=passed, values=values)}", held)
    call = held["call"]
    call.__defaults__, call.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return call
