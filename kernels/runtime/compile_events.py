"""Callbacks invoked when a kernel is compiled, which takes seconds."""

from __future__ import annotations

from collections.abc import Callable

# Its argument is whether the compiled code is cached on disk for later processes.
Listener = Callable[[bool], None]

_waiting: list[Listener] = []


def when_compiling(listener: Listener | None) -> None:
    """Set the callback for the first compilation, replacing any other; None removes it."""
    _waiting[:] = [] if listener is None else [listener]


def tell(kept: bool) -> None:
    """Invoke the callback, if any, and remove it: it is called only once."""
    while _waiting:
        _waiting.pop()(kept)
