"""Callbacks invoked when a kernel is compiled, which takes seconds."""

from __future__ import annotations

from collections.abc import Callable

# Takes whether what is compiled will be kept for the next process.
Listener = Callable[[bool], None]

_waiting: list[Listener] = []


def when_compiling(listener: Listener | None) -> None:
    """Call `listener` when the first kernel is compiled, in place of any set before."""
    _waiting[:] = [] if listener is None else [listener]


def tell(kept: bool) -> None:
    """A kernel is being compiled; said once."""
    while _waiting:
        _waiting.pop()(kept)
