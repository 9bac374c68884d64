"""sequence_conv and row_conv: PaddlePaddle 2.6.2, by hand, loops and finite differences."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.conv.conv import (
    segment_conv,
    segment_conv_grad,
    segment_row_conv_grad,
    segment_strided,
    sequence_conv,
    sequence_row_conv,
    strided_offsets,
)
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests import oracles_ids
from tests.cases_ops import (
    BACKENDS,
    GRADIENT_TOLERANCE,
    check_gradient,
    compiled,
    golden,
    near,
    on_every_backend,
    same,
)
from tests.golden_data import GoldenCase, rejected_cases, tensor_of
from tests.strategies import FLOATS, LAYOUTS, laid_out, lods


@on_every_backend
@golden("sequence_conv", 26)
def test_golden_conv(case: GoldenCase, backend: Backend) -> None:
    x, weight, padding = (case.array(slot) for slot in ("X", "Filter", "PaddingData"))
    assert x is not None
    assert weight is not None
    start = case.attrs["contextStart"]
    out = sequence_conv(
        case.tensor("X"),
        weight,
        context_length=case.attrs["contextLength"],
        context_start=start,
        padding=padding,
        backend=backend,
    )
    same(out, case.outputs["Out"])
    if not case.grads:
        return
    found = on(backend, segment_conv_grad)(
        x,
        np.array(case.inputs["X"].lod[0]),
        weight,
        case.upstream["Out"].data,
        context_start=start,
        stride=1,
        padding=padding,
    )
    for gradient, slot in zip(found, ("X", "Filter", "PaddingData"), strict=True):
        assert (gradient is None) == (slot not in case.grads)
        if gradient is not None:
            near(gradient, case.grads[slot].data, GRADIENT_TOLERANCE)


@on_every_backend
@golden("row_conv", 7)
def test_golden_row_conv(case: GoldenCase, backend: Backend) -> None:
    x, weight = case.inputs["X"], case.inputs["Filter"].data
    same(sequence_row_conv(tensor_of(x), weight, backend=backend), case.outputs["Out"])
    shape = x.data.shape
    offsets = x.lod[0] if x.lod else [n * shape[1] for n in range(shape[0] + 1)]
    grad_data, grad_weight = on(backend, segment_row_conv_grad)(
        x.data.reshape(-1, shape[-1]),
        np.array(offsets),
        weight,
        case.upstream["Out"].data.reshape(-1, shape[-1]),
    )
    near(grad_data.reshape(shape), case.grads["X"].data, GRADIENT_TOLERANCE)
    near(grad_weight, case.grads["Filter"].data, GRADIENT_TOLERANCE)


# -- by hand ---------------------------------------------------------------------------

WORDS = LoDTensor(np.array([[1.0], [2.0], [3.0], [10.0]]), LoD.from_lengths([[3, 0, 1]]))


@on_every_backend
def test_trained_padding_stands_next_to_its_sequence(backend: Backend) -> None:
    out = sequence_conv(
        WORDS,
        np.eye(4),
        context_length=4,
        context_start=-2,
        padding=[[-2.0], [-1.0], [7.0]],
        backend=backend,
    )
    assert out.data.tolist() == [
        [-2, -1, 1, 2],
        [-1, 1, 2, 3],
        [1, 2, 3, 7],
        [-2, -1, 10, 7],
    ]
    assert out.lod is WORDS.lod


@on_every_backend
def test_a_stride_computes_every_second_row(backend: Backend) -> None:
    out = sequence_conv(
        WORDS, np.eye(2), context_length=2, context_start=0, stride=2, backend=backend
    )
    assert out.data.tolist() == [[1, 2], [3, 0], [10, 0]]
    assert out.recursive_sequence_lengths() == [[2, 0, 1]]


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=st.lists(st.integers(0, 9), max_size=6), stride=st.integers(2, 4))
def test_a_stride_keeps_the_first_row_of_a_sequence_and_each_after_it(
    backend: Backend, lengths: list[int], stride: int
) -> None:
    offsets = np.array([0, *np.cumsum(lengths, dtype=int)])
    kept = on(backend, segment_strided)(offsets, stride)
    assert np.diff(kept).tolist() == [len(range(0, length, stride)) for length in lengths]


@on_every_backend
def test_an_upper_level_lets_the_context_cross_sentences(backend: Backend) -> None:
    nested = LoDTensor(WORDS.data, LoD.from_lengths([[2, 1], [1, 2, 1]]))
    out = sequence_conv(
        nested, np.eye(2), context_length=2, context_start=0, level=0, backend=backend
    )
    assert out.data.tolist() == [[1, 2], [2, 3], [3, 0], [10, 0]]
    assert out.lod is nested.lod
    strided = sequence_conv(
        nested, np.eye(2), context_length=2, context_start=0, level=0, stride=3, backend=backend
    )
    assert strided.recursive_sequence_lengths() == [[1, 1]]
    ahead = sequence_row_conv(nested, [[1.0], [100.0]], level=0, backend=backend)
    assert ahead.data.ravel().tolist() == [201, 302, 3, 10]


@on_every_backend
def test_float16_is_summed_in_float32(backend: Backend) -> None:
    # 2048 + 1 is not a float16, but 2048 + 1 + 1 is.
    rows = LoDTensor(np.array([[2048.0], [1.0], [1.0]], np.float16), [[3]])
    ones = np.ones((3, 1), np.float16)
    out = sequence_row_conv(rows, ones, backend=backend)
    assert out.dtype == np.float16
    assert out.data[0, 0] == 2050
    conv = sequence_conv(rows, ones, context_length=3, context_start=0, backend=backend)
    assert conv.data[0, 0] == 2050


# -- against loops ---------------------------------------------------------------------

starts = st.integers(-5, 5)
counts = st.integers(1, 4)


@on_every_backend
@compiled
@given(
    lod=lods(min_levels=1, max_levels=3),
    start=starts,
    length=counts,
    stride=counts,
    padded=st.booleans(),
    columns=st.sampled_from([1, 2, 7, 16, 17, 24, 40, 100]),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(FLOATS),
    seed=st.integers(0, 1000),
)
def test_conv_is_that_of_the_loops(
    backend: Backend,
    lod: LoD,
    start: int,
    length: int,
    stride: int,
    padded: bool,
    columns: int,
    layout: str,
    dtype: Any,
    seed: int,
) -> None:
    generator = np.random.default_rng(seed)
    level = seed % lod.n_levels
    rows = lod.rows or 0
    data = laid_out(generator.normal(size=(rows, 3)).astype(dtype), layout)
    weight = generator.normal(size=(length * 3, columns)).astype(dtype)
    extra = max(0, -start) + max(0, start + length - 1)
    padding = generator.normal(size=(extra, 3)).astype(dtype) if padded else None
    out = sequence_conv(
        LoDTensor(data, lod),
        weight,
        context_length=length,
        context_start=start,
        stride=stride,
        padding=padding,
        level=level,
        backend=backend,
    )
    assert out.dtype == dtype
    parts = oracles_ids.sequences(data, lod.absolute(level))
    wanted = [oracles_ids.conv(part, weight, start, length, padding)[::stride] for part in parts]
    near(out.data, np.concatenate([np.zeros((0, columns)), *wanted]), 4e-6)
    if stride == 1:
        assert out.lod is lod
    else:
        assert out.lod.lengths(-1).tolist() == [len(part) for part in wanted]


@on_every_backend
@compiled
@given(
    lod=lods(min_levels=1, max_levels=2),
    size=counts,
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 1000),
)
def test_row_conv_is_that_of_the_loops(
    backend: Backend, lod: LoD, size: int, layout: str, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    data = laid_out(generator.normal(size=(lod.rows or 0, 3)), layout)
    weight = generator.normal(size=(size, 3))
    out = sequence_row_conv(LoDTensor(data, lod), weight, backend=backend)
    parts = [oracles_ids.row_conv(x, weight) for x in oracles_ids.sequences(data, lod.levels[-1])]
    near(out.data, np.concatenate([np.zeros((0, 3)), *parts]), 1e-12)
    assert out.lod is lod


# -- gradients -------------------------------------------------------------------------

OFFSETS = np.array([0, 0, 4, 5, 8])


@on_every_backend
def test_padding_beyond_the_dtype_of_the_rows_is_infinite(backend: Backend) -> None:
    words, weight = LoDTensor(np.ones((2, 1), np.float32), [[2]]), np.ones((2, 1), np.float32)
    found = sequence_conv(
        words, weight, context_length=2, context_start=-1, padding=[[1e300]], backend=backend
    )
    assert found.data.tolist() == [[math.inf], [2.0]]


# Sequences shorter than a positive start, and contexts wholly before or behind the row:
# where PaddlePaddle's gradients are wrong or refused.
@on_every_backend
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("start", "length"), [(-1, 3), (2, 3), (-5, 2), (4, 2), (0, 1), (-2, 2)])
def test_conv_gradients_are_finite_differences(
    backend: Backend, start: int, length: int, stride: int, padded: bool
) -> None:
    generator = np.random.default_rng(3)
    data, weight = generator.normal(size=(8, 2)), generator.normal(size=(2 * length, 3))
    extra = max(0, -start) + max(0, start + length - 1)
    padding = generator.normal(size=(extra, 2)) if padded else None
    upstream = generator.normal(size=(int(strided_offsets(OFFSETS, stride)[-1]), 3))

    def run(x: Any, w: Any, p: Any) -> Any:
        return segment_conv(x, OFFSETS, w, context_start=start, stride=stride, padding=p)

    grad_data, grad_weight, grad_padding = on(backend, segment_conv_grad)(
        data, OFFSETS, weight, upstream, context_start=start, stride=stride, padding=padding
    )
    check_gradient(lambda x: run(x, weight, padding), data, upstream, grad_data)
    check_gradient(lambda w: run(data, w, padding), weight, upstream, grad_weight)
    assert (grad_padding is None) == (padding is None)
    if padding is not None and grad_padding is not None:
        check_gradient(lambda p: run(data, weight, p), padding, upstream, grad_padding)


def test_a_long_batch_is_cut_into_blocks_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    native = importlib.import_module("lodcli.kernels.ops.conv.conv_native")
    monkeypatch.setattr(native, "_BLOCK_BYTES", 9999)
    monkeypatch.setattr(native, "_PIECE_ROWS", 100)
    generator = np.random.default_rng(5)
    lengths = generator.integers(0, 40, 500)
    lod = LoD.from_lengths([lengths])
    data, weight = generator.normal(size=(lod.rows or 0, 16)), generator.normal(size=(80, 3))
    options: dict[str, Any] = {"context_start": -2, "stride": 3, "padding": np.ones((4, 16))}
    wanted = segment_conv(data, lod.levels[0], weight, **options)
    compiled_conv = on("numba", segment_conv)
    near(compiled_conv(data, lod.levels[0], weight, **options), wanted, 1e-12)
    many = np.tile(weight, 40)  # this many columns are multiplied by NumPy
    near(compiled_conv(data, lod.levels[0], many, **options)[:, -3:], wanted, 1e-12)
    grad = generator.normal(size=wanted.shape)
    one = segment_conv_grad(data, lod.levels[0], weight, grad, **options)
    two = on("numba", segment_conv_grad)(data, lod.levels[0], weight, grad, **options)
    for a, b in zip(one, two, strict=True):
        assert a is not None
        near(b, a, 1e-11)  # sums of 10,000 products, in another order


# -- refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("identity", ["reject023", "reject024", "reject025", "reject027"])
def test_arguments_that_paddle_rejects_are_errors(identity: str) -> None:
    case = rejected_cases("sequence_conv")[identity]
    assert case.note == "reject"
    with pytest.raises(LodError):
        sequence_conv(
            case.tensor("X"),
            case.inputs["Filter"].data,
            context_length=case.attrs["contextLength"],
            context_start=case.attrs["contextStart"],
        )


def test_every_refused_conv_is_known() -> None:
    # reject026 is stride 2, which PaddlePaddle has an argument for and does not do: we do.
    assert list(rejected_cases("sequence_conv")) == [f"reject{n:03d}" for n in range(23, 28)]
    assert list(rejected_cases("row_conv")) == [f"reject{n:03d}" for n in range(28, 32)]


@on_every_backend
def test_row_conv_leaves_an_empty_sequence_empty_and_takes_the_last_level(backend: Backend) -> None:
    cases = rejected_cases("row_conv")
    for identity in ("reject028", "reject029"):
        x, weight = cases[identity].tensor("X"), cases[identity].inputs["Filter"].data
        out = sequence_row_conv(x, weight, backend=backend)
        assert out.lod is x.lod
        parts = oracles_ids.sequences(x.data, x.lod.levels[-1])
        near(out.data, np.concatenate([oracles_ids.row_conv(part, weight) for part in parts]), 4e-6)
    for identity in ("reject030", "reject031"):
        with pytest.raises(LodError):
            sequence_row_conv(cases[identity].tensor("X"), cases[identity].inputs["Filter"].data)


def test_invalid_arguments_are_errors() -> None:
    nested = LoDTensor(WORDS.data, LoD.from_lengths([[2, 1], [1, 2, 1]]))
    with pytest.raises(SelectionError, match="has 2 levels; choose one"):
        sequence_conv(nested, np.eye(2), context_length=2, context_start=0)
    with pytest.raises(ShapeMismatchError, match=r"padding: expected shape \(2, 1\)"):
        sequence_conv(WORDS, np.eye(3), context_length=3, context_start=-1, padding=[[1.0]])
    with pytest.raises(InvalidDataError, match="stride must be at least 1, found 0"):
        sequence_conv(WORDS, np.eye(1), context_length=1, context_start=0, stride=0)
    with pytest.raises(InvalidDataError, match="expected floating numbers, found int64"):
        sequence_row_conv(LoDTensor(np.zeros((3, 1), int), [[3]]), [[1.0]])
    with pytest.raises(ShapeMismatchError, match=r"weight \(K, D\)"):
        sequence_row_conv(WORDS, np.zeros((0, 1)))
    with pytest.raises(ShapeMismatchError, match=r"data \(N, D\)"):
        sequence_conv(LoDTensor(np.zeros(3), [[3]]), [[1.0]], context_length=1, context_start=0)


@on_every_backend
def test_the_gradient_of_the_weights_of_row_conv_is_precise_for_many_rows(backend: Backend) -> None:
    rows = np.full((200_000, 2), 0.3, np.float32)
    offsets, weight = np.array([0, len(rows)]), np.ones((2, 2), np.float32)
    _, found = on(backend, segment_row_conv_grad)(rows, offsets, weight, rows)
    exact = np.float64(rows[0, 0]) ** 2 * np.array([[len(rows)], [len(rows) - 1]])
    np.testing.assert_allclose(found, exact.repeat(2, axis=1), rtol=1e-4)
