"""Generated functions that pass their arguments on."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from lodcli.kernels.runtime.forwarding import forwarding


def scaled(number: float, /, by: float = 2, *, plus: float = 0) -> float:
    """Return a number."""
    return number * by + plus


def doubled(function: Callable[..., Any]) -> Any:
    return forwarding(function, "    return 2 * function({passed})", function=function)


def test_the_first_and_later_calls_pass_all_arguments() -> None:
    call = doubled(scaled)
    for _ in range(3):
        assert [call(3), call(3, 4), call(3, by=4, plus=1)] == [12, 24, 26]


def test_a_generated_function_that_was_not_called_is_passed_on_to() -> None:
    call = doubled(doubled(scaled))
    assert [call(3, 4, plus=1), call(3, 4, plus=1)] == [52, 52]


def test_it_is_compiled_once_and_has_the_parameters_then() -> None:
    call = doubled(scaled)
    before = call.__code__
    call(1)
    after = call.__code__
    call(1)
    assert before is not after is call.__code__
    assert list(inspect.signature(call).parameters) == ["number", "by", "plus"]


def test_threads_call_it_first_at_the_same_time() -> None:
    for _ in range(50):
        call, found, start = doubled(scaled), list[Any](), threading.Barrier(4)

        def use(call: Any = call, found: list[Any] = found, start: Any = start) -> None:
            start.wait()
            found.append(call(3, 4, plus=1))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [26] * 4
