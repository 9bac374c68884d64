"""`out=`: the caller's array takes the result of an op, or is refused before it is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining import concat, expand
from lodcli.kernels.ops.padding import pad
from lodcli.kernels.ops.pooling import pool
from lodcli.kernels.ops.slicing import reverse, slice
from lodcli.kernels.ops.softmax import softmax
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import Array, on_every_backend
from tests.strategies import BFLOAT16

OFFSETS = np.array([0, 3, 3, 7, 8])
STARTS, PART = np.array([1, 3, 3, 7]), np.array([0, 2, 2, 5, 6])
POOLS = ("sum", "mean", "sqrt", "max", "min", "first", "last")
# The op as a function of a kernel, rows (8, 2) with OFFSETS, and out.
SEGMENT_OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    **{
        name: (getattr(pool, f"segment_{name}"), lambda run, x, out: run(x, OFFSETS, out=out))
        for name in POOLS
    },
    "softmax": (softmax.segment_softmax, lambda run, x, out: run(x, OFFSETS, out=out)),
    "log_softmax": (softmax.segment_log_softmax, lambda run, x, out: run(x, OFFSETS, out=out)),
    "broadcast": (
        expand.segment_broadcast,
        lambda run, x, out: run(x, np.array([0, 2, 2, 3, 4, 5, 6, 7, 9]), out=out),
    ),
    "concat": (
        concat.segment_concat,
        lambda run, x, out: run([x, x[:6]], [OFFSETS, PART], out=out),
    ),
    "reverse": (reverse.segment_reverse, lambda run, x, out: run(x, OFFSETS, out=out)),
    "pad": (pad.segment_pad, lambda run, x, out: run(x, OFFSETS, 5, pad_value=7, out=out)),
    "unpad": (
        pad.segment_unpad,
        lambda run, x, out: run(x.reshape(2, 4, 2), np.array([0, 1, 4]), out=out),
    ),
    "slice": (slice.segment_slice, lambda run, x, out: run(x, STARTS, PART, out=out)),
}
ops = pytest.mark.parametrize("name", SEGMENT_OPS)


def rows_of(dtype: Any) -> Array:
    return (np.random.default_rng(2).normal(size=(8, 2)) * 4).astype(dtype)


@on_every_backend
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in SEGMENT_OPS
        for dtype in (np.float32, BFLOAT16, np.uint8, np.bool_, np.complex64)
        if not (name.endswith("softmax") and np.dtype(dtype).kind in "ubc")
        if not (name in ("max", "min") and np.dtype(dtype).kind == "c")
    ],
)
def test_out_is_written_and_returned(name: str, dtype: Any, backend: Backend) -> None:
    reference, call = SEGMENT_OPS[name]
    x = rows_of(dtype)
    expected = call(reference, x, None)
    frame = np.ones((len(expected) + 2, *expected.shape[1:]), expected.dtype)
    out = frame[1:-1]
    assert call(on(backend, reference), x, out) is out
    if np.dtype(dtype).kind in "fV":
        np.testing.assert_allclose(out.astype(float), expected.astype(float), rtol=1e-2)
    else:
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert (frame[[0, -1]] == 1).all()


@on_every_backend
@ops
def test_an_out_that_does_not_fit_is_refused_and_left_alone(name: str, backend: Backend) -> None:
    reference, call = SEGMENT_OPS[name]
    kernel, x = on(backend, reference), rows_of(np.float32)
    good = call(reference, x, None)
    wide = np.zeros((*good.shape[:-1], 4), np.float32)
    frozen = np.zeros_like(good)
    frozen.flags.writeable = False
    own = np.zeros(good.size + x.size, np.float32)
    overlapping = own[: good.size].reshape(good.shape)
    beside = own[good.size - 1 : good.size - 1 + x.size].reshape(x.shape)
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (x, np.zeros((len(good) + 1, *good.shape[1:]), np.float32), ShapeMismatchError, "shape"),
        (x, good.astype(np.float64), InvalidDataError, "hold float32, found float64"),
        (x, wide[..., ::2], InvalidDataError, "C-contiguous and writable, found a strided"),
        (x, frozen, InvalidDataError, "found a read-only"),
        (x, good.tolist(), InvalidDataError, "must be an array, found list"),
        (beside, overlapping, InvalidDataError, "must not share memory"),
    ]
    for rows, out, error, words in cases:
        before = np.array(out)
        with pytest.raises(error, match=words):
            call(kernel, rows, out)
        np.testing.assert_array_equal(np.array(out), before)


@on_every_backend
@pytest.mark.parametrize("name", ["max", "min"])
def test_values_and_rows_of_extremes_go_to_a_pair(name: str, backend: Backend) -> None:
    reference = getattr(pool, f"segment_{name}_index")
    x = rows_of(np.float32)
    values, index = np.zeros((4, 2), np.float32), np.zeros((4, 2), np.int64)
    found = on(backend, reference)(x, OFFSETS, out=(values, index))
    assert found[0] is values
    assert found[1] is index
    expected = reference(x, OFFSETS)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(index, expected[1])
    with pytest.raises(InvalidDataError, match="hold int64, found int32"):
        on(backend, reference)(x, OFFSETS, out=(values, index.astype(np.int32)))


def plain(result: Any) -> Array:
    found: Array = result.data if isinstance(result, LoDTensor) else result
    return found


@on_every_backend
def test_every_sequence_op_passes_out_on(backend: Backend) -> None:
    x = LoDTensor(rows_of(np.float32), LoD([[0, 1, 4], OFFSETS]))
    flat = LoDTensor(x.data, LoD([OFFSETS]))
    box, lengths = pad.sequence_pad(flat, backend=backend)
    part = (np.array([1, 0, 0, 0]), np.array([2, 0, 3, 1]))
    calls: list[Callable[..., Any]] = [
        *(
            lambda out, name=name: getattr(pool, f"sequence_{name}")(x, out=out, backend=backend)
            for name in POOLS
        ),
        lambda out: softmax.sequence_softmax(x, out=out, backend=backend),
        lambda out: softmax.sequence_log_softmax(x, out=out, backend=backend),
        lambda out: expand.sequence_expand(LoDTensor(x.data[:4]), x, out=out, backend=backend),
        lambda out: expand.sequence_expand_as(
            LoDTensor(x.data[:4]), x, level=-1, out=out, backend=backend
        ),
        lambda out: concat.sequence_concat([x, x], out=out, backend=backend),
        lambda out: reverse.sequence_reverse(x, out=out, backend=backend),
        lambda out: reverse.sequence_reverse(x, level=0, items=True, out=out, backend=backend),
        lambda out: slice.sequence_slice(x, *part, level=-1, out=out, backend=backend),
        lambda out: pad.sequence_pad(flat, out=out, backend=backend)[0],
        lambda out: pad.sequence_unpad(box, lengths, out=out, backend=backend),
    ]
    for call in calls:
        expected = plain(call(None))
        out = np.zeros_like(expected)
        assert np.shares_memory(plain(call(out)), out)
        np.testing.assert_array_equal(out, expected)
    values, index = np.zeros((4, 2), np.float32), np.zeros((4, 2), np.int64)
    found = pool.sequence_max_index(x, out=(values, index), backend=backend)
    assert np.shares_memory(found[0].data, values)
    assert np.shares_memory(found[1].data, index)
