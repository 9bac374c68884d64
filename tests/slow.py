"""Values of a parameter that only a full run tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.sampling import every


def slow(*values: Any) -> Any:
    """Return the values of one case, marked slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def slow_except(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Return all values, marked slow unless they are among `quick`, which all must be there.

    A tuple is a value for each of several parameters.
    """
    quick, values = list(quick), list(values)
    assert all(one in values for one in quick), f"{quick} are not all in {values}"
    cases = [one if isinstance(one, tuple) else (one,) for one in values]
    return [
        pytest.param(*case) if one in quick else slow(*case)
        for one, case in zip(values, cases, strict=True)
    ]


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """Return all values, marked slow but for one of `step`."""
    values = list(values)
    return slow_except(values[::step], values)


def compiled_for(quick: Iterable[Any], values: Iterable[Any], backends: Iterable[str]) -> list[Any]:
    """Return every (value, backend), marked slow if numba compiles it for a value not in `quick`.

    Each dtype is compiled for itself, which takes seconds where nothing is cached: as a rule one of
    three that are not in `quick`.
    """
    quick, values, backends = list(quick), list(values), list(backends)
    compiled = [one for one in values if one not in quick][:: every(3)]
    return [
        slow(one, backend) if backend == "numba" and one not in quick else (one, backend)
        for one in values
        for backend in backends
        if backend != "numba" or one in quick or one in compiled
    ]
