"""Items computed ahead: in order, with their errors, and closed from any thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from lodcli.formats.storage import prefetch
from lodcli.formats.storage.prefetch import LEAST_BYTES, ahead

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


class _Cycle:
    """Holds items until the collector of garbage finds that nothing else uses them."""

    def __init__(self, items: Iterator[int]) -> None:
        self.items = items
        self.itself = self


@pytest.mark.parametrize("name", ["_active_limbo_lock", "_shutdown_locks_lock"])
def test_it_may_be_collected_as_garbage_in_a_thread_that_is_starting(name: str) -> None:
    """Such a thread holds a lock of Python, which the item takes to start a thread itself."""
    lock = getattr(threading, name, None)
    if lock is None:
        pytest.skip("this Python has no such lock")
    held, collected = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 0
        assert held.wait(SECONDS)
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        yield 1

    def collect() -> None:
        cycle = _Cycle(ahead(items()))
        assert next(cycle.items) == 0
        with lock:
            held.set()
            del cycle
            gc.collect()
        collected.set()

    threading.Thread(target=collect, daemon=True).start()
    assert collected.wait(SECONDS)


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


def test_the_thread_has_ended_when_an_error_arrives() -> None:
    threads: list[threading.Thread] = []

    def items() -> Iterator[int]:
        yield 0
        threads.append(threading.current_thread())
        raise ValueError("a broken item")

    with pytest.raises(ValueError, match="a broken item"):
        list(ahead(items()))
    assert not threads[0].is_alive()


def test_few_bytes_are_read_without_a_thread() -> None:
    def threads() -> Iterator[int]:
        for _ in range(3):
            yield threading.get_ident()

    here = threading.get_ident()
    assert set(ahead(threads(), LEAST_BYTES - 1)) == {here}
    assert here not in set(list(ahead(threads(), LEAST_BYTES))[1:])


def test_small_files_are_read_without_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "small.lod.h5"
    lodcli.write(path, {"data": LoDTensor(np.arange(3), [[1, 2]]), "more": LoDTensor(np.arange(9))})
    with (
        mock.patch.object(prefetch, "thread_pool", side_effect=AssertionError),
        lodcli.open(path) as file,
    ):
        (batch,) = file.batches()
        assert batch["data"].to_list() == [[0], [1, 2]]
        assert file["more"][[1, 8]].data.tolist() == [1, 8]
