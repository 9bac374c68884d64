"""Items computed ahead: in order, with their errors, and closed from any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from lodcli.formats.storage.prefetch import ahead

SECONDS = 60


def test_items_and_errors_come_in_their_place() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("here")

    found = ahead(items())
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="here"):
        next(found)
    assert list(ahead(iter(()))) == []


def test_it_may_be_closed_in_its_own_thread() -> None:
    """As the collector of garbage does, which runs in any thread."""
    waits, closed = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def items() -> Iterator[int]:
        yield 0
        assert waits.wait(SECONDS)
        try:
            found.close()  # type: ignore[attr-defined]
        except BaseException as error:
            errors.append(error)
        closed.set()
        yield 1

    found = ahead(items())
    assert next(found) == 0
    waits.set()
    assert closed.wait(SECONDS)
    assert errors == []


def test_closing_waits_for_what_is_being_computed() -> None:
    begun, finished = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 0
        begun.set()
        threading.Event().wait(0.05)
        finished.set()
        yield 1

    found = ahead(items())
    assert next(found) == 0
    assert begun.wait(SECONDS)
    found.close()  # type: ignore[attr-defined]
    assert finished.is_set()
