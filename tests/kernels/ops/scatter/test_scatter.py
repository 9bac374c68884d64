"""sequence_scatter: PaddlePaddle 2.6.2, loops, finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.scatter.scatter import sequence_scatter, sequence_scatter_grad
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import GRADIENT_TOLERANCE, compiled, golden, near, on_every_backend, same
from tests.golden_data import GoldenCase, rejected_cases
from tests.strategies import BFLOAT16, LAYOUTS, laid_out, lods


@on_every_backend
@golden("sequence_scatter", 7)
def test_golden_scatter(case: GoldenCase, backend: Backend) -> None:
    x, ids, updates = (case.tensor(slot) for slot in ("X", "Ids", "Updates"))
    same(sequence_scatter(x, ids, updates, backend=backend), case.outputs["Out"])
    if case.grads:
        upstream = case.upstream["Out"].data
        grad_x, grad_updates = sequence_scatter_grad(upstream, x, ids, updates, backend=backend)
        near(grad_x.data, case.grads["X"].data, GRADIENT_TOLERANCE)
        near(grad_updates.data.ravel(), case.grads["Updates"].data.ravel(), GRADIENT_TOLERANCE)


@on_every_backend
def test_gradients_of_short_floating_numbers_are_moved_as_they_are(backend: Backend) -> None:
    ids = LoDTensor(np.array([2, 0, 2]), [[1, 2]])
    for dtype in (np.dtype(np.float16), BFLOAT16, np.dtype(np.complex128)):
        upstream = np.arange(6).reshape(2, 3).astype(dtype)
        given = LoDTensor(upstream), ids, ids.with_data(np.zeros(3, dtype))
        rows, updates = sequence_scatter_grad(upstream, *given, backend=backend)
        assert rows.dtype == updates.dtype == dtype
        assert updates.data.astype(complex).tolist() == [2, 3, 5]


@on_every_backend
def test_parts_of_complex_numbers_do_not_touch_each_other(backend: Backend) -> None:
    ids = LoDTensor(np.array([0, 0]), [[2]])
    updates = ids.with_data(np.array([1, complex(2, np.inf)]))
    found = sequence_scatter(LoDTensor(np.ones((1, 2), complex)), ids, updates, backend=backend)
    assert found.data.tolist() == [[complex(4, np.inf), 1]]


@on_every_backend
def test_repeated_ids_add_up_in_float32(backend: Backend) -> None:
    ids = LoDTensor(np.array([1, 1, 1, 0]), [[3, 0, 1]])
    updates = ids.with_data(np.array([2048, 1, 1, 5], np.float16))
    x = LoDTensor(np.zeros((3, 2), np.float16))
    out = sequence_scatter(x, ids, updates, backend=backend)
    assert out.dtype == np.float16
    assert out.data.tolist() == [[0, 2050], [0, 0], [5, 0]]
    assert not x.data.any()


@on_every_backend
@compiled
@given(
    lod=lods(min_levels=1, max_levels=2),
    dtype=st.sampled_from(["float64", "int64"]),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 1000),
)
def test_scatter_is_that_of_the_loops(
    backend: Backend, lod: LoD, dtype: str, layout: str, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    level = seed % lod.n_levels
    count, rows = lod.count(level), lod.rows or 0
    x = laid_out(generator.integers(-50, 50, (count, 3)).astype(dtype), layout)
    ids = LoDTensor(generator.integers(0, 3, rows).astype(np.int32), lod)
    updates = laid_out(generator.integers(-50, 50, (rows, 1)).astype(dtype), layout)
    wanted = x.copy()
    offsets = lod.absolute(level)
    for sequence in range(count):
        for row in range(offsets[sequence], offsets[sequence + 1]):
            wanted[sequence, ids.data[row]] += updates[row, 0]
    out = sequence_scatter(LoDTensor(x), ids, ids.with_data(updates), level=level, backend=backend)
    np.testing.assert_array_equal(out.data, wanted)
    assert out.dtype == dtype


@pytest.mark.parametrize("identity", ["reject056", "reject057", "reject058", "reject059"])
def test_cases_that_paddle_writes_out_of_bounds_are_refused(identity: str) -> None:
    case = rejected_cases("sequence_scatter")[identity]
    assert case.note == "reject"
    with pytest.raises(LodError):
        sequence_scatter(*(case.tensor(slot) for slot in ("X", "Ids", "Updates")))


def test_invalid_arguments_are_errors() -> None:
    x, ids = LoDTensor(np.zeros((2, 3))), LoDTensor(np.array([0, 3]), [[1, 1]])
    ones: Any = np.ones(2)
    with pytest.raises(SelectionError, match="ids, row 1: no column 3, x has 3"):
        sequence_scatter(x, ids, ids.with_data(ones))
    with pytest.raises(ShapeMismatchError, match="level 0, item 0 has length 1 against 2"):
        sequence_scatter(x, ids, LoDTensor(ones, [[2, 0]]))
    with pytest.raises(InvalidDataError, match="x is float64, updates are float32"):
        sequence_scatter(x, ids, ids.with_data(ones.astype(np.float32)))
    with pytest.raises(ShapeMismatchError, match="one update per row"):
        sequence_scatter(x, ids, ids.with_data(np.ones((2, 2))))
    with pytest.raises(ShapeMismatchError, match=r"x of shape \(2, M\)"):
        sequence_scatter(LoDTensor(np.zeros((3, 3))), ids, ids.with_data(ones))
