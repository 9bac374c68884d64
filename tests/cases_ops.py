"""Shared cases for tests of ops: backends, golden cases, invalid input, finite differences."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.golden_data import GoldenSlot, golden_cases, is_another_set, rejected_cases

Array = npt.NDArray[Any]

# LOD_TEST_BACKENDS=cupy runs the same tests on the GPU kernels; see tests/cuda/moving.py.
BACKENDS: tuple[Backend, ...] = tuple(
    os.environ.get("LOD_TEST_BACKENDS", "numpy,numba").split(",")  # type: ignore[arg-type]
)
# Relative to 1 + |x|: the tolerances of the golden files for each dtype, and for gradients.
TOLERANCES = {"float32": 4e-6, "float64": 1e-12}
GRADIENT_TOLERANCE = 3e-6

# No deadline: a compiled twin is slow on the first call for each layout.
compiled = settings(deadline=None, max_examples=60)

on_every_backend = pytest.mark.parametrize("backend", BACKENDS)


def backends_of(module: ModuleType) -> Any:
    """Return a fixture that runs all tests of a file on each backend, for rows of any size."""

    @pytest.fixture(params=BACKENDS, autouse=True, scope="module")
    def backend(request: pytest.FixtureRequest) -> Iterator[None]:
        chosen = partial(on, request.param)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "on", lambda _, reference, size_bytes=0: chosen(reference))
            yield

    return backend


def golden(op: str, count: int | None = None) -> pytest.MarkDecorator:
    """Parametrise over the golden cases of an op; the set in the repository must have `count`."""
    cases = golden_cases(op)
    assert cases
    assert count in (None, len(cases)) or is_another_set(), f"{len(cases)} cases of {op}"
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


def golden_rejects(*ops: str) -> pytest.MarkDecorator:
    """Parametrise over the cases of these ops that PaddlePaddle rejects; see `rejected_cases`."""
    cases = rejected_cases(*ops)
    return pytest.mark.parametrize("case", cases.values(), ids=[*cases])


def same(found: LoDTensor, slot: GoldenSlot) -> None:
    """Assert equal indexes, and rows as `close`."""
    assert found.lod == LoD(slot.lod)
    close(found.data, slot.data)


def close(found: Array, expected: Array) -> None:
    """Assert equal dtype, shape, and equal or (floating point) close values."""
    assert found.dtype == expected.dtype
    if found.dtype.kind == "f":
        limit = TOLERANCES[found.dtype.name]
        np.testing.assert_allclose(found, expected, rtol=limit, atol=limit, strict=True)
    else:
        np.testing.assert_array_equal(found, expected, strict=True)


def near(found: Any, expected: Any, tolerance: float) -> None:
    """Assert |found - expected| <= tolerance * (1 + |expected|), and equal shapes."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    error = np.abs(found - expected) / (1 + np.abs(expected))
    # Not error.max() <= tolerance: NaN must fail too.
    assert bool((error <= tolerance).all()), f"off by {error.max()}"


def check_gradient(
    function: Callable[[Array], Array], at: Array, upstream: Array, gradient: Array
) -> None:
    """Assert that `gradient` is that of sum(upstream * function(at)), by central differences."""
    assert at.dtype == np.float64
    assert gradient.shape == at.shape
    step = 1e-6
    wanted = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        moved = at.copy()
        moved[place] = at[place] + step
        above = np.sum(upstream * function(moved))
        moved[place] = at[place] - step
        wanted[place] = (above - np.sum(upstream * function(moved))) / (2 * step)
    # A step of 1e-6 leaves errors of about 1e-16 / 1e-6 times the sum's size.
    near(gradient, wanted, 1e-7)
