"""Calls of the operating system that fail one after another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

# What the commit of a file is made of; reading is not here, nor is taking away what failed.
CALLS = ("pwrite", "write", "ftruncate", "fsync", "fchmod", "replace", "link", "open", "dup")


class Failing:
    """Calls of `os`, the k-th of which fails; counts them."""

    def __init__(self, fail_at: int, number: int) -> None:
        self.fail_at, self.number, self.count, self.failed = fail_at, number, 0, ""

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self.fail_at:
                self.failed = name
                raise OSError(self.number, os.strerror(self.number))
            return real(*args, **kwargs)

        return call


@contextmanager
def failing(fail_at: int, number: int, calls: tuple[str, ...] = CALLS) -> Iterator[Failing]:
    """Let the k-th of these calls fail inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        found = Failing(fail_at, number)
        for name in calls:
            patch.setattr(os, name, found.wrap(name, getattr(os, name)))
        yield found


def error_of(call: Callable[[], None]) -> OSError | None:
    """Return what the call fails with, if it does."""
    try:
        call()
    except OSError as error:
        return error
    return None
