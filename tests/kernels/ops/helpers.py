"""Shared helpers for tests of sequence ops."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lodcli.kernels.runtime.dispatch import Backend
from tests import cases_ops
from tests.golden_data import GoldenCase, GoldenSlot, golden_arrays, golden_dir

Array = npt.NDArray[Any]

BACKENDS: tuple[Backend, ...] = cases_ops.BACKENDS  # type: ignore[assignment]
both = pytest.mark.parametrize("backend", BACKENDS)


def rejects(op: str) -> list[GoldenCase]:
    """Return the bad inputs of an op by id; `note` says what should become of them."""
    entries = json.loads((golden_dir() / "rejects.json").read_text())
    entries = entries["cases"] if isinstance(entries, dict) else entries
    arrays = golden_arrays("rejects.npz")

    def slot(described: Any) -> Any:
        if isinstance(described, list):
            return [slot(one) for one in described]
        return GoldenSlot(arrays[described["array"]], described["lod"])

    return [
        GoldenCase(
            id=entry["id"],
            op=op,
            attrs=entry["attrs"],
            inputs={name: slot(described) for name, described in entry["inputs"].items()},
            outputs={},
            upstream={},
            grads={},
            note=entry["should"],
        )
        for entry in entries
        if entry["op"] == op
    ]


@dataclass(frozen=True)
class Tolerance:
    """How far float32 and float64 may be from the golden values (golden/README.md)."""

    float32: float = 4e-6
    float64: float = 1e-12


def close(found: Array, expected: Array, tolerance: Tolerance | None = None) -> None:
    """Assert equal shape and dtype, and values as near as the golden data promises."""
    limits = tolerance or Tolerance()
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    limit = limits.float32 if found.dtype == np.float32 else limits.float64
    np.testing.assert_allclose(found, expected, rtol=limit, atol=limit)


def differences(
    function: Callable[[Array], Array], at: Array, upstream: Array, step: float = 1e-6
) -> Array:
    """Return the gradient of sum(function(x) * upstream) at x, by central differences."""
    result = np.zeros(at.shape)
    for place in np.ndindex(*at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        result[place] = ((function(up) - function(down)) * upstream).sum() / (2 * step)
    return result
