"""Pauses the search for garbage while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Let Python search for cycles of objects only after the block.

    It searches after every 700 new objects, and sometimes all objects that there are: of a million
    new ones, none of them garbage, this takes as long as making them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
