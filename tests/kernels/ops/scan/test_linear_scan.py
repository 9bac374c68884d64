"""Linear recurrences against plain loops, torch's autograd, finite differences, and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import NotFloatingError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.scan import linear_scan_native
from lodcli.kernels.ops.scan.linear_scan import sequence_linear_scan, sequence_linear_scan_grad
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, Array, on_every_backend
from tests.oracles_order import linear_recurrence
from tests.sampling import many
from tests.strategies import BFLOAT16

DTYPES = ("float32", "float64", "complex64", "complex128")
LIMITS = {"f": 1e-4, "d": 1e-11, "F": 1e-4, "D": 1e-11}


@on_every_backend
@pytest.mark.parametrize(
    ("reverse", "initial", "expected"),
    [
        (False, None, [1, 2 * 1 + 3, 3 * 5 + 4, 5, 6 * 5 + 7]),
        (True, None, [1 * 11 + 1, 2 * 4 + 3, 4, 5 * 7 + 5, 7]),
        (False, [10, 20, 30], [1 * 10 + 1, 2 * 11 + 3, 3 * 25 + 4, 5 * 30 + 5, 6 * 155 + 7]),
    ],
)
def test_by_hand(reverse: bool, initial: Any, expected: list[float], backend: Backend) -> None:
    a = LoDTensor(np.array([1.0, 2, 3, 5, 6]), [[3, 0, 2]])
    b = a.with_data(np.array([1.0, 3, 4, 5, 7]))
    start = None if initial is None else np.array(initial, float)
    found = sequence_linear_scan(a, b, initial=start, reverse=reverse, backend=backend)
    assert found.data.tolist() == expected
    assert found.lod is b.lod


def drawn(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Return numbers whose products stay near 1."""
    found: Any = generator.uniform(-1.1, 1.1, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * generator.uniform(-0.5, 0.5, shape)
    return found.astype(dtype)  # type: ignore[no-any-return]


@settings(deadline=None)
@given(
    lengths=st.lists(st.one_of(st.integers(0, 9), st.integers(60, 400)), max_size=5),
    width=st.sampled_from([1, 2, 3, 5, 16, 17, 64, 67]),
    dtype=st.sampled_from(DTYPES),
    begins=st.booleans(),
    reverse=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    backend=st.sampled_from(BACKENDS),
)
def test_states_and_gradients_are_those_of_plain_loops(
    lengths: list[int],
    width: int,
    dtype: str,
    begins: bool,
    reverse: bool,
    seed: int,
    backend: Backend,
) -> None:
    generator = np.random.default_rng(seed)
    shape = (sum(lengths), width)
    a, b, upstream = (drawn(generator, shape, dtype) for _ in range(3))
    start = drawn(generator, (len(lengths), width), dtype) if begins else None
    lod = LoD.from_lengths([lengths])
    options: Any = {"initial": start, "reverse": reverse, "backend": backend}
    x, y = LoDTensor(a, lod), LoDTensor(b, lod)
    with pytest.MonkeyPatch.context() as patch:
        # Pieces of 64 rows, so that sequences reach over several.
        patch.setattr(linear_scan_native, "PIECE_BYTES", 1)
        found = sequence_linear_scan(x, y, **options)
        grads = sequence_linear_scan_grad(upstream, x, y, **options)
        again = sequence_linear_scan_grad(upstream, x, y, result=found, **options)
    expected, *wanted = linear_recurrence(a, b, start, upstream, lengths, reverse)
    limit = LIMITS[np.dtype(dtype).char]
    assert found.dtype == dtype
    np.testing.assert_allclose(found.data, expected, rtol=limit, atol=limit * size_of(expected))
    for grad, want, same in zip(grads, wanted, again, strict=True):
        if grad is None or same is None:
            assert want is None
            continue
        rows, others = (each.data if isinstance(each, LoDTensor) else each for each in (grad, same))
        assert rows.dtype == dtype
        np.testing.assert_allclose(rows, want, rtol=limit, atol=limit * size_of(want))
        assert rows.tobytes() == others.tobytes()


def size_of(values: Array) -> float:
    return 1 + float(np.abs(values).max(initial=0))


@on_every_backend
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_of_torch(reverse: bool, backend: Backend) -> None:
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(4)
    lengths = [3, 0, 70, 1]
    for dtype in ("float64", "complex128"):
        arrays = [drawn(generator, (sum(lengths), 2, 2), dtype) for _ in range(2)]
        arrays.append(drawn(generator, (len(lengths), 2, 2), dtype))
        upstream = drawn(generator, (sum(lengths), 2, 2), dtype)
        a, b, start = (torch.tensor(each, requires_grad=True) for each in arrays)
        states, at = [], 0
        for s, n in enumerate(lengths):
            h, parts = start[s], []
            for t in reversed(range(n)) if reverse else range(n):
                h = a[at + t] * h + b[at + t]
                parts.append(h)
            states += parts[::-1] if reverse else parts
            at += n
        result = torch.stack(states)
        wanted = torch.autograd.grad(result, (a, b, start), torch.tensor(upstream))
        x, y = (LoDTensor(each, [lengths]) for each in arrays[:2])
        options: Any = {"initial": arrays[2], "reverse": reverse, "backend": backend}
        found = sequence_linear_scan(x, y, **options)
        np.testing.assert_allclose(found.data, result.detach().numpy(), rtol=1e-11, atol=1e-11)
        of_a, of_b, of_start = sequence_linear_scan_grad(upstream, x, y, **options)
        assert of_start is not None
        for one, other in zip((of_a.data, of_b.data, of_start), wanted, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("width", [1, 2, 6, 16, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_do_not_depend_on_the_number_of_threads(
    width: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(8)
    lengths = [5000, 3, 0, 700]
    a, b = (LoDTensor(drawn(generator, (5703, width), dtype), [lengths]) for _ in range(2))
    monkeypatch.setattr(linear_scan_native, "PIECE_BYTES", 1)
    alone = sequence_linear_scan(a, b, backend="numba").data
    of_alone = sequence_linear_scan_grad(b.data, a, b, backend="numba")
    monkeypatch.setattr(linear_scan_native, "SHARED_BYTES", 0)
    monkeypatch.setattr(linear_scan_native, "thread_count", lambda: 4)
    for _ in range(many(20)):
        assert sequence_linear_scan(a, b, backend="numba").data.tobytes() == alone.tobytes()
        found = sequence_linear_scan_grad(b.data, a, b, backend="numba")
        for one, other in zip(found[:2], of_alone[:2], strict=True):
            assert one.data.tobytes() == other.data.tobytes()


@pytest.mark.parametrize("width", [1, 2, 6, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_that_overflow_spoil_nothing(
    width: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state stays 0 where the product of the factors of a block is infinite or NaN."""
    monkeypatch.setattr(linear_scan_native, "PIECE_BYTES", 1)
    a, b = np.full((640, width), 1e30, dtype), np.zeros((640, width), dtype)
    b[600:] = 1e-30
    a[600:] = 0.5
    tensor = LoDTensor(a, [[640]])
    found = sequence_linear_scan(tensor, tensor.with_data(b), backend="numba").data
    wanted = sequence_linear_scan(tensor, tensor.with_data(b), backend="numpy").data
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert np.isfinite(found).all()


@on_every_backend
def test_the_first_factor_counts_only_with_an_initial_state(backend: Backend) -> None:
    a = LoDTensor(np.array([np.nan, 0.5, np.inf]), [[2, 1]])
    b = a.with_data(np.ones(3))
    assert sequence_linear_scan(a, b, backend=backend).data.tolist() == [1, 1.5, 1]
    found = sequence_linear_scan(a, b, initial=np.ones(2), backend=backend).data
    assert [math.isnan(found[0]), found[2]] == [True, math.inf]


@on_every_backend
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16])
def test_halves_are_computed_in_float32(dtype: np.dtype[Any], backend: Backend) -> None:
    a = LoDTensor(np.ones(5000, dtype), [[5000]])
    found = sequence_linear_scan(a, a, backend=backend)
    assert found.dtype == dtype
    # In their own precision the sum would stay at 2048 or 256.
    assert float(found.data[-1]) == float(np.float32(5000).astype(dtype))


def test_dtypes_are_those_of_numpy_and_gradients_those_of_the_arguments() -> None:
    a = LoDTensor(np.ones((2, 1), np.float32), [[2]])
    b = a.with_data(np.ones((2, 1), np.complex128))
    found = sequence_linear_scan(a, b)
    assert found.dtype == np.complex128
    of_a, of_b, none = sequence_linear_scan_grad(found, a, b)
    assert of_a.dtype == np.float32
    assert of_b.dtype == np.complex128
    assert none is None


def test_invalid_arguments_are_errors() -> None:
    a = LoDTensor(np.zeros((3, 2)), [[3]])
    with pytest.raises(SelectionError, match="sequence_linear_scan: the tensor has no levels"):
        sequence_linear_scan(LoDTensor(np.zeros(3)), LoDTensor(np.zeros(3)))
    with pytest.raises(NotFloatingError, match="floating or complex numbers for a, found int64"):
        sequence_linear_scan(a.with_data(np.zeros((3, 2), int)), a)
    with pytest.raises(ShapeMismatchError, match="a and b differ: shape"):
        sequence_linear_scan(a.with_data(np.zeros((3, 1))), a)
    with pytest.raises(ShapeMismatchError, match="a and b differ: level 0"):
        sequence_linear_scan(LoDTensor(a.data, [[1, 2]]), a)
    with pytest.raises(ShapeMismatchError, match=r"initial: expected shape \(1, 2\), found \(2,\)"):
        sequence_linear_scan(a, a, initial=np.zeros(2))
    with pytest.raises(ShapeMismatchError, match="the upstream gradient must have"):
        sequence_linear_scan_grad(np.zeros(3), a, a)
    with pytest.raises(ShapeMismatchError, match="result: expected shape"):
        sequence_linear_scan_grad(a, a, a, result=np.zeros((2, 2)))
