"""Attention inside sequences: by hand, loops, finite differences."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.attention import attention
from lodcli.kernels.ops.attention.attention import (
    default_scale,
    segment_attention,
    segment_attention_grad,
    sequence_attention,
)
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests import oracles_ids
from tests.cases_ops import check_gradient, compiled, near, on_every_backend
from tests.strategies import FLOATS, LAYOUTS, laid_out


@on_every_backend
def test_the_last_query_sees_all_keys(backend: Backend) -> None:
    # Equal scores, so each query gives the mean of the values it sees.
    q = LoDTensor(np.zeros((5, 1)), [[3, 2]])
    k = LoDTensor(np.zeros((5, 1)), [[2, 3]])
    v = k.with_data(np.array([[2.0], [4.0], [3.0], [6.0], [9.0]]))
    out = sequence_attention(q, k, v, causal=True, backend=backend)
    assert out.data.ravel().tolist() == [0, 2, 3, 4.5, 6]
    assert out.lod is q.lod
    everything = sequence_attention(q, k, v, backend=backend)
    assert everything.data.ravel().tolist() == [3, 3, 3, 6, 6]


@on_every_backend
def test_of_scores_beyond_the_range_of_exp_the_largest_has_all_the_weight(backend: Backend) -> None:
    q = LoDTensor(np.array([[1000.0]]), [[1]])
    k = LoDTensor(np.array([[1000.0], [999.0]]), [[2]])
    out = sequence_attention(q, k, k, backend=backend)
    assert out.data.tolist() == [[1000]]


@on_every_backend
@pytest.mark.parametrize("size", [4, 40, 130])  # one block of queries, or tile of a GPU; more
@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("key_heads", [2, 1])
def test_hidden_rows_reach_no_result(
    backend: Backend, key_heads: int, size: int, poison: float
) -> None:
    generator = np.random.default_rng(3)
    heads = (2, key_heads, key_heads, 2)
    q, k, v, flow = (generator.normal(size=(size, number, 3)) for number in heads)
    offsets = np.array([0, size])
    forward, backward = on(backend, segment_attention), on(backend, segment_attention_grad)

    def results(q: Any, k: Any, v: Any, flow: Any) -> tuple[Any, ...]:
        how: dict[str, Any] = {"causal": True, "scale": 0.5}
        return (
            forward(q, k, v, offsets, offsets, **how),
            *backward(q, k, v, offsets, offsets, flow, **how),
        )

    def poisoned(rows: Any, place: int) -> Any:
        rows = rows.copy()
        rows[place] = poison
        return rows

    expected = results(q, k, v, flow)
    for found in (results(q, poisoned(k, -1), v, flow), results(q, k, poisoned(v, -1), flow)):
        for one, other in zip(found[:2], expected[:2], strict=True):  # only the last query sees it
            near(one[:-1], other[:-1], 1e-12)
            assert not np.isfinite(one[-1]).all()
    for found in (results(poisoned(q, 0), k, v, flow), results(q, k, v, poisoned(flow, 0))):
        near(found[0][1:], expected[0][1:], 1e-12)
        for one, other in zip(found[2:], expected[2:], strict=True):  # it sees only the first key
            near(one[1:], other[1:], 1e-12)


@on_every_backend
def test_float16_stays_float16(backend: Backend) -> None:
    rows = LoDTensor(np.ones((3, 2), np.float16), [[3]])
    assert sequence_attention(rows, rows, rows, backend=backend).identical(rows)


@on_every_backend
@compiled
@given(
    lengths=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    causal=st.booleans(),
    dtype=st.sampled_from(FLOATS),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 1000),
)
def test_attention_is_that_of_the_loops(
    backend: Backend,
    lengths: list[tuple[int, int]],
    sizes: tuple[int, int, int],
    causal: bool,
    dtype: Any,
    layout: str,
    seed: int,
) -> None:
    generator = np.random.default_rng(seed)
    heads, width, values = sizes
    q_lod = LoD.from_lengths([[one for one, _ in lengths]])
    k_lod = LoD.from_lengths([[one for _, one in lengths]])

    def rows(lod: LoD, size: int) -> LoDTensor:
        data = generator.normal(size=(lod.rows or 0, heads, size)).astype(dtype)
        return LoDTensor(laid_out(data, layout), lod)

    q, k, v = rows(q_lod, width), rows(k_lod, width), rows(k_lod, values)
    out = sequence_attention(q, k, v, causal=causal, scale=0.7, backend=backend)
    parts = [oracles_ids.sequences(one.data, one.lod.levels[0]) for one in (q, k, v)]
    wanted = [np.zeros((0, heads, values))]
    for a, b, c in zip(*parts, strict=True):
        wanted.append(oracles_ids.attention(a, b, c, 0.7, causal))
    assert out.dtype == dtype
    near(out.data, np.concatenate(wanted), 4e-6 if dtype == np.float32 else 1e-12)


@on_every_backend
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_finite_differences(backend: Backend, causal: bool) -> None:
    generator = np.random.default_rng(2)
    q, k = generator.normal(size=(7, 2, 3)), generator.normal(size=(6, 2, 3))
    v, upstream = generator.normal(size=(6, 2, 2)), generator.normal(size=(7, 2, 2))
    offsets = np.array([0, 3, 3, 5, 7]), np.array([0, 2, 3, 3, 6])
    options: Any = {"causal": causal, "scale": 0.6}

    def run(a: Any, b: Any, c: Any) -> Any:
        return segment_attention(a, b, c, *offsets, **options)

    of_q, of_k, of_v = on(backend, segment_attention_grad)(
        q, k, v, *offsets, grad=upstream, **options
    )
    check_gradient(lambda at: run(at, k, v), q, upstream, of_q)
    check_gradient(lambda at: run(q, at, v), k, upstream, of_k)
    check_gradient(lambda at: run(q, k, at), v, upstream, of_v)


@on_every_backend
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("key_heads", [2, 1])
def test_blocks_of_queries_and_long_segments_show_no_seam(
    backend: Backend, key_heads: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(3)
    lengths = [200, 3, 0, 90]
    offsets = LoD.from_lengths([lengths]).levels[0]
    # More columns, and more keys, than a GPU's kernel takes at once.
    shapes = ((2, 40), (key_heads, 40), (key_heads, 70), (2, 70))
    q, k, v, upstream = (generator.normal(size=(293, *shape)) for shape in shapes)
    options: Any = {"causal": causal, "scale": 0.1}
    whole = segment_attention(q, k, v, offsets, offsets, **options)
    grads = segment_attention_grad(q, k, v, offsets, offsets, upstream, **options)
    monkeypatch.setattr(attention, "_SCORE_BYTES", 10_000)
    near(on(backend, segment_attention)(q, k, v, offsets, offsets, **options), whole, 1e-12)
    found = on(backend, segment_attention_grad)(q, k, v, offsets, offsets, upstream, **options)
    for one, other in zip(found, grads, strict=True):
        near(one, other, 1e-11)  # sums over hundreds of queries, in another order
    each_k, each_v = (one[203:].repeat(2 // key_heads, axis=1) for one in (k, v))
    last = oracles_ids.attention(q[203:], each_k, each_v, 0.1, causal)
    near(whole[203:], last, 1e-12)


@pytest.mark.parametrize("align", ["last", "first"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_neither_threads_nor_other_segments_change_a_bit(
    dtype: Any, align: attention.Align, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.ops.attention import attention_native as twin

    # Fewer and more queries than a block has, as many, and other numbers of keys.
    lengths = np.array([[1, 5, 0, 70, 33, 32, 64, 7, 300], [3, 0, 4, 70, 20, 90, 64, 300, 300]])
    q_offsets, k_offsets = np.concatenate([np.zeros((2, 1), int), lengths.cumsum(axis=1)], axis=1)
    generator = np.random.default_rng(5)
    sizes = (q_offsets[-1], 9), (k_offsets[-1], 9), (k_offsets[-1], 35), (q_offsets[-1], 35)
    q, k, v, flow = (generator.normal(size=(n, 3, w)).astype(dtype) for n, w in sizes)
    options: Any = {"causal": True, "align": align, "scale": 0.3}

    def results(q: Any, k: Any, v: Any, flow: Any, of_q: Any, of_k: Any) -> tuple[Any, ...]:
        grads = twin.segment_attention_grad(q, k, v, of_q, of_k, flow, **options)
        return twin.segment_attention(q, k, v, of_q, of_k, **options), *grads

    alone = []
    for a, b, c, d in zip(q_offsets, q_offsets[1:], k_offsets, k_offsets[1:], strict=False):
        offsets = np.array([0, b - a]), np.array([0, d - c])
        alone.append(results(q[a:b], k[c:d], v[c:d], flow[a:b], *offsets))
    expected = [np.concatenate(parts) for parts in zip(*alone, strict=True)]
    for threads in (1, 2, 3):
        monkeypatch.setenv("LOD_THREADS", str(threads))
        for one, other in zip(results(q, k, v, flow, q_offsets, k_offsets), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    monkeypatch.setattr(twin, "_SCRATCH_BYTES", 0)  # fewer workers, each of more blocks
    for one, other in zip(results(q, k, v, flow, q_offsets, k_offsets), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    grads = segment_attention_grad(q, k, v, q_offsets, k_offsets, flow, **options)
    reference = segment_attention(q, k, v, q_offsets, k_offsets, **options), *grads
    for one, other in zip(expected, reference, strict=True):
        near(one, other, 1e-4 if dtype == np.float32 else 1e-12)


def test_numpy_does_not_copy_keys_for_the_heads_that_read_them() -> None:
    q, k = np.ones((1, 8, 64), np.float32), np.ones((10_000, 2, 64), np.float32)
    offsets = np.array([0, 1]), np.array([0, 10_000])
    options: dict[str, Any] = {"causal": True, "scale": 1.0}
    tracemalloc.start()
    try:
        segment_attention(q, k, k, *offsets, **options)
        forward = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        segment_attention_grad(q, k, k, *offsets, q, **options)
        backward = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Of the gradients, the results take as much as the keys and values.
    assert forward < 2 * k.nbytes
    assert backward < 4 * k.nbytes


@pytest.mark.parametrize("backward", [False, True])
def test_scores_of_many_keys_take_no_more_memory_with_more_threads(
    backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.ops.attention import attention_native as twin

    q, k = np.zeros((200, 2, 3), np.float32), np.zeros((100_000, 2, 3), np.float32)
    offsets = np.array([0, 200]), np.array([0, 100_000])
    options: dict[str, Any] = {"causal": False, "align": "last", "scale": 1.0}
    monkeypatch.setenv("LOD_THREADS", "64")
    words, workers, _ = twin._queries(q, k, k, *offsets, **options, backward=backward)
    scratch = words[-2]
    assert len(scratch) == workers
    assert 2 <= workers < 64
    assert scratch.nbytes <= twin._SCRATCH_BYTES
    # At most as many workers as queries, for any size of a block.
    few = twin._queries(q[:2], k, k, np.array([0, 2]), offsets[1], **options, backward=backward)
    assert few[1] <= 4


@on_every_backend
def test_sums_over_many_keys_keep_their_digits(backend: Backend) -> None:
    # One score is greater than all others: weights are about 0.1, whose sum loses digits if it is
    # added up one by one.
    generator = np.random.default_rng(7)
    # On the stand-in for GPUs a key takes a millisecond; as few lose digits as well.
    count = 10_000 if backend == "cupy" else 200_000
    q, k = np.ones((1, 1, 1), np.float32), np.zeros((count, 1, 1), np.float32)
    k[5] = np.log(10)
    v = generator.uniform(1, 2, (count, 1, 2)).astype(np.float32)
    flow = np.array([[[1.0, 2.0]]], np.float32)
    where = np.array([0, 1]), np.array([0, count])
    options: dict[str, Any] = {"causal": False, "scale": 1.0}
    a, b, c, d = (one.astype(np.float64) for one in (q, k, v, flow))
    run, back = on(backend, segment_attention), on(backend, segment_attention_grad)
    out = segment_attention(a, b, c, *where, **options)
    grads = segment_attention_grad(a, b, c, *where, grad=d, **options)
    np.testing.assert_allclose(run(q, k, v, *where, **options), out, rtol=2e-5)
    found = back(q, k, v, *where, grad=flow, **options)
    np.testing.assert_allclose(found[2], grads[2], rtol=2e-5)


def test_invalid_arguments_are_errors() -> None:
    rows, other = LoDTensor(np.zeros((3, 2)), [[2, 1]]), LoDTensor(np.zeros((3, 2)), [[3]])
    with pytest.raises(ShapeMismatchError, match="2 sequences of queries against 1"):
        sequence_attention(rows, other, other)
    with pytest.raises(ShapeMismatchError, match="level 0 has 2 items against 1"):
        sequence_attention(rows, rows, other)
    with pytest.raises(ShapeMismatchError, match=r"rows of q \(2,\), k \(3,\)"):
        sequence_attention(rows, rows.with_data(np.zeros((3, 3))), rows)
    heads = [rows.with_data(np.zeros((3, number, 2))) for number in (4, 3, 0)]
    for few in heads[1:]:
        with pytest.raises(ShapeMismatchError, match="the heads of q are a multiple of those of k"):
            sequence_attention(heads[0], few, few)
    with pytest.raises(ShapeMismatchError, match="the heads of q are a multiple of those of k"):
        sequence_attention(heads[2], heads[1], heads[1])
    with pytest.raises(ShapeMismatchError, match=r"k \(3, 2\) and v \(4, 2\) do not fit$"):
        sequence_attention(heads[1], heads[1], heads[0])
    with pytest.raises(ShapeMismatchError, match=r"\(N, D\) or \(N, heads, D\) alike"):
        sequence_attention(rows, rows, rows.with_data(np.zeros((3, 1, 2))))
    with pytest.raises(InvalidDataError, match="expected floating numbers, found int64"):
        sequence_attention(rows, rows, rows.with_data(np.zeros((3, 2), int)))
    assert default_scale(16) == 0.25
