"""Generated functions that pass their arguments on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from lodcli.kernels.runtime.forwarding import forwarding


def scaled(number: float, /, by: float = 2, *, plus: float = 0) -> float:
    """Return a number."""
    return number * by + plus


def doubled(function: Callable[..., Any]) -> Any:
    return forwarding(function, "    return 2 * function({passed})", function=function)


def test_all_arguments_are_passed_on() -> None:
    call = doubled(scaled)
    assert [call(3), call(3, 4), call(3, by=4, plus=1)] == [12, 24, 26]
    with pytest.raises(TypeError):
        call(3, 4, 1)  # plus is keyword-only


def test_a_generated_function_is_passed_on_to() -> None:
    assert doubled(doubled(scaled))(3, 4, plus=1) == 52


def test_it_has_the_parameters_and_defaults_of_the_function() -> None:
    found = inspect.signature(doubled(scaled)).parameters
    expected = {"number": inspect.Parameter.empty, "by": 2, "plus": 0}
    assert {name: one.default for name, one in found.items()} == expected
    assert found["plus"].kind is inspect.Parameter.KEYWORD_ONLY


def test_values_are_all_arguments_in_order() -> None:
    call = forwarding(scaled, "    return ({values})")
    assert call(3, plus=1) == (3, 2, 1)
