"""Parameter values marked slow, which only a full run uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.sampling import every


def slow(*values: Any) -> Any:
    """Return the values of one case, marked slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def slow_except(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Return all values, marked slow except those in `quick`, which must all be among them.

    A tuple holds one value for each of several parameters.
    """
    quick, values = list(quick), list(values)
    assert all(one in values for one in quick), f"{quick} are not all in {values}"
    cases = [one if isinstance(one, tuple) else (one,) for one in values]
    return [
        pytest.param(*case) if one in quick else slow(*case)
        for one, case in zip(values, cases, strict=True)
    ]


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """Return all values, marked slow except one of every `step`."""
    values = list(values)
    return slow_except(values[::step], values)


def compiled_for(quick: Iterable[Any], values: Iterable[Any], backends: Iterable[str]) -> list[Any]:
    """Return every (value, backend), marked slow if numba compiles it for a value not in `quick`.

    Kernels are compiled for each dtype separately, which takes seconds without a cache. So of the
    values not in `quick` numba gets one of three, all in a thorough run.
    """
    quick, values, backends = list(quick), list(values), list(backends)
    compiled = [one for one in values if one not in quick][:: every(3)]
    return [
        slow(one, backend) if backend == "numba" and one not in quick else (one, backend)
        for one in values
        for backend in backends
        if backend != "numba" or one in quick or one in compiled
    ]
