"""Attention on rows that lie on a GPU: in tiles, of every dtype, width and precision."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.attention import attention
from lodcli.kernels.ops.attention.attention import (
    segment_attention,
    segment_attention_grad,
    sequence_attention,
    sequence_attention_grad,
)
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.runtime.precision import float32_products
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.sampling import by_turns

cupy: Any = pytest.importorskip("cupy")
ml_dtypes: Any = pytest.importorskip("ml_dtypes")
torch: Any = pytest.importorskip("torch")
launch: Any = importlib.import_module("lodcli.kernels.cuda.launch")
pytestmark = pytest.mark.gpu

# Ends of tiles of 16, 32 and 64, and sequences that have keys or queries only.
QUERIES, KEYS = [3, 0, 65, 33, 7, 64], [70, 5, 64, 17, 0, 31]
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
# The error of one rounding to this many bits, for values about 1.
ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "tf32": 2.0**-10, "float32": 2.0**-21}


def offsets_of(lengths: list[int]) -> Any:
    return LoD.from_lengths([lengths]).levels[0]


def rows_of(width: int, values: int, heads: int = 2, dtype: Any = np.float32) -> list[Any]:
    """Return q, k, v and the gradient of the result."""
    generator = np.random.default_rng(width)
    shapes = (
        (sum(QUERIES), width),
        (sum(KEYS), width),
        (sum(KEYS), values),
        (sum(QUERIES), values),
    )
    found = (generator.normal(size=(rows, heads, size)) for rows, size in shapes)
    return [one.astype(dtype) for one in found]


def wanted(rows: list[Any], options: dict[str, Any]) -> list[Any]:
    """Return the result of torch in float64, and its gradients of q, k and v."""
    out, *grads = (np.zeros(rows[i].shape) for i in (3, 0, 1, 2))
    bounds = zip(
        itertools.pairwise(offsets_of(QUERIES)), itertools.pairwise(offsets_of(KEYS)), strict=True
    )
    for own, other in bounds:
        n, m = own[1] - own[0], other[1] - other[0]
        last = options.get("align", "last") == "last"
        mask = torch.ones(n, m, dtype=torch.bool)
        if options["causal"]:
            mask = mask.tril(m - n if last else 0)
        # For queries that see no key, torch returns NaN.
        first = int((~mask.any(dim=1)).sum())
        if first == n:
            continue
        ours, theirs = slice(own[0] + first, own[1]), slice(*other)
        given = [
            torch.tensor(one[where].astype(np.float64).transpose(1, 0, 2), requires_grad=True)
            for one, where in zip(rows, (ours, theirs, theirs), strict=False)
        ]
        made = torch.nn.functional.scaled_dot_product_attention(
            *given, attn_mask=mask[first:], scale=options["scale"]
        )
        made.backward(torch.tensor(rows[3][ours].astype(np.float64).transpose(1, 0, 2)))
        out[ours] = made.detach().numpy().transpose(1, 0, 2)
        for grad, one, where in zip(grads, given, (ours, theirs, theirs), strict=True):
            grad[where] = one.grad.numpy().transpose(1, 0, 2)
    return [out, *grads]


def found(rows: list[Any], options: dict[str, Any]) -> list[Any]:
    *there, flow = (one if isinstance(one, cupy.ndarray) else cupy.asarray(one) for one in rows)
    index = offsets_of(QUERIES), offsets_of(KEYS)
    forward: Any = on("cupy", segment_attention)
    backward: Any = on("cupy", segment_attention_grad)
    out = forward(*there, *index, **options)
    grads = backward(*there, *index, grad=flow, **options)
    return [cupy.asnumpy(one) for one in (out, *grads)]


def forward(rows: list[Any], options: dict[str, Any]) -> Any:
    there = map(cupy.asarray, rows[:3])
    run: Any = on("cupy", segment_attention)
    return cupy.asnumpy(run(*there, offsets_of(QUERIES), offsets_of(KEYS), **options))


def in_main_memory(rows: list[Any], options: dict[str, Any]) -> Any:
    q, k, v, _ = rows
    return segment_attention(q, k, v, offsets_of(QUERIES), offsets_of(KEYS), **options)


def compare(rows: list[Any], options: dict[str, Any], rounding: float) -> list[Any]:
    """Compare with torch, by the greatest value of each: a gradient is a sum of many products."""
    arrays = found(rows, options)
    for one, expected in zip(arrays, wanted(rows, options), strict=True):
        limit = 8 * rounding * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(one.astype(np.float64), expected, rtol=0, atol=limit)
    return arrays


# Widths that are read 16 bytes at a time or not, of one slab, two and more.
@pytest.mark.parametrize(("width", "values"), [(20, 64), (65, 3), (130, 200)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_of_every_width_are_computed_exactly(width: int, values: int, dtype: str) -> None:
    rows = rows_of(width, values, dtype=dtype)
    compare(rows, {"causal": True, "scale": 0.3}, 2.0 ** (-21 if dtype == "f4" else -48))


@pytest.mark.parametrize(("dtype", "options"), by_turns(2, HALVES, [
    {"causal": False, "scale": 0.2},
    {"causal": True, "scale": 0.2},
    {"causal": True, "align": "first", "scale": 0.2},
    {"causal": False, "scale": -0.1},
]), ids=str)  # fmt: skip
def test_rows_of_two_bytes_stay_such(dtype: Any, options: dict[str, Any]) -> None:
    arrays = compare(rows_of(40, 24, dtype=dtype), options, ROUNDING[dtype.name])
    assert {one.dtype for one in arrays} == {dtype}


@pytest.mark.parametrize(("width", "values"), [(1, 3), (128, 100)])
def test_halves_of_every_width_go_to_tensor_cores(width: int, values: int) -> None:
    rows = rows_of(width, values, 1, np.float16)
    arrays = compare(rows, {"causal": True, "scale": width**-0.5}, ROUNDING["float16"])
    assert {one.dtype.name for one in arrays} == {"float16"}


@pytest.mark.parametrize(("width", "values", "precision"), [
    (5, 32, "tf32"),
    (64, 40, "tf32"),
    (128, 128, "tf32"),
    (40, 64, "bfloat16"),
    (64, 3, "float16"),
])  # fmt: skip
def test_products_of_float32_are_rounded_where_asked_for(
    width: int, values: int, precision: Any
) -> None:
    rows, options = rows_of(width, values, 1), {"causal": True, "scale": width**-0.5}
    with float32_products(precision):
        arrays = compare(rows, options, ROUNDING[precision])
    assert {one.dtype.name for one in arrays} == {"float32"}
    exact = found(rows, options)
    assert not np.array_equal(arrays[0], exact[0])


def test_halves_wider_than_tensor_cores_take_are_computed_in_float32() -> None:
    rows = rows_of(130, 20, 1, np.float16)
    arrays = compare(rows, {"causal": False, "scale": 0.1}, ROUNDING["float32"])
    assert {one.dtype.name for one in arrays} == {"float32"}


def test_a_gpu_without_tensor_cores_computes_halves_in_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older = launch.limits()._replace(capability=(7, 5))
    monkeypatch.setattr(f"{attention.__name__}_cupy.limits", lambda: older)
    arrays = compare(
        rows_of(16, 16, 1, np.float16), {"causal": False, "scale": 0.1}, ROUNDING["float32"]
    )
    assert {one.dtype.name for one in arrays} == {"float32"}


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), *HALVES], ids=str)
def test_rows_that_lie_anywhere_give_the_same_bits(dtype: Any) -> None:
    rows, options = rows_of(16, 16, dtype=dtype), {"causal": True, "scale": 0.3}
    views = []
    for one in rows:
        larger = cupy.empty(one.size + 1, dtype)
        larger[1:] = cupy.asarray(one.reshape(-1))
        views.append(larger[1:].reshape(one.shape))
    for one, other in zip(found(views, options), found(rows, options), strict=True):
        assert one.tobytes() == other.tobytes()


def test_nan_and_infinite_scores_are_numpys() -> None:
    rows = rows_of(8, 8)
    rows[1][2, 0, 0], rows[1][80, 1, 3] = np.nan, np.inf
    options: dict[str, Any] = {"causal": False, "scale": 0.3}
    here = in_main_memory(rows, options)
    there = found(rows, options)[0]
    np.testing.assert_array_equal(np.isnan(there), np.isnan(here))
    np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)


def test_keys_of_no_weight_leave_the_others_theirs() -> None:
    rows = rows_of(8, 8)
    rows[0][..., 0] = np.abs(rows[0][..., 0]) + 1
    # A tile of scores of -inf before others; and queries that see no other score.
    rows[1][:66, 1, 0] = rows[1][139:156, 0, 0] = -np.inf
    options: dict[str, Any] = {"causal": False, "scale": 0.3}
    here = in_main_memory(rows, options)
    assert np.isfinite(here[:3]).all()
    assert np.isnan(here[68:101, 0]).all()
    np.testing.assert_allclose(forward(rows, options), here, rtol=1e-4, atol=1e-5)


# Of the sequences of 65 queries and 64 keys, 33 and 17, 64 and 31: in the middle of tiles, at their
# ends, in those that the diagonal cuts and in others.
@pytest.mark.parametrize("poison", [np.nan, -np.inf])
@pytest.mark.parametrize("align", ["last", "first"])
@pytest.mark.parametrize(("dtype", "precision"), [
    *(("f8", "float32"), ("f4", "float32"), ("f4", "tf32")),
    *((one, "float32") for one in HALVES),
], ids=str)  # fmt: skip
def test_hidden_rows_reach_no_result(
    dtype: Any, precision: Any, align: attention.Align, poison: float
) -> None:
    rows = rows_of(8, 8, 1, dtype)
    options: dict[str, Any] = {"causal": True, "align": align, "scale": 0.2}
    queries, keys = offsets_of(QUERIES), offsets_of(KEYS)
    name = precision if precision == "tf32" else np.dtype(dtype).name
    limit = 16 * ROUNDING.get(name, ROUNDING["float32"])
    for which, *places in (
        (0, queries[2] + 30),
        (1, keys[2] + 40, keys[4] - 1),
        (2, keys[2] + 40, keys[4] - 3, keys[6] - 1),
        (3, queries[2] + 30, queries[6] - 34),
    ):
        given = [one.copy() for one in rows]
        given[which][places, 0, 7] = poison
        q, k, v, flow = (one if one.itemsize > 2 else one.astype("f4") for one in given)
        expected = [
            segment_attention(q, k, v, queries, keys, **options),
            *segment_attention_grad(q, k, v, queries, keys, flow, **options),
        ]
        with float32_products(precision):
            arrays = found(given, options)
        for one, other in zip(arrays, expected, strict=True):
            there, here = np.isfinite(one.astype("f8")), np.isfinite(other)
            np.testing.assert_array_equal(there, here, f"{which}, {places}")
            most = max(1.0, np.abs(other[here]).max())
            close = {"rtol": 0, "atol": limit * most}
            np.testing.assert_allclose(one.astype("f8")[here], other[here], **close)


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the kernels that join parts of few queries over many keys."""
    # A single query, one without keys, keys without any, and more queries than a block has.
    monkeypatch.setitem(globals(), "QUERIES", [1, 1, 0, 66])
    monkeypatch.setitem(globals(), "KEYS", [160, 0, 5, 290])
    twin: Any = importlib.import_module(f"{attention.__name__}_cupy")
    monkeypatch.setattr(twin, "LEAST_KEYS", 64)
    seen: list[str] = []

    def noted(file: str, kernel: str, *args: Any, **more: Any) -> None:
        if kernel.startswith("attention_joined"):
            seen.append(kernel)
        launch.run(file, kernel, *args, **more)

    monkeypatch.setattr(twin, "run", noted)
    return seen


@pytest.mark.parametrize(("dtype", "options"), by_turns(2, ["f4", "f8", *HALVES], [
    {"causal": False, "scale": 0.2},
    {"causal": True, "scale": 0.2},
    {"causal": False, "scale": -3.0},  # so that parts have very different sums of powers
]), ids=str)  # fmt: skip
def test_keys_of_few_queries_are_divided_among_blocks(
    dtype: Any, options: dict[str, Any], joined: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype = np.dtype(dtype)
    rounding = {"float32": 2.0**-21, "float64": 2.0**-48}.get(dtype.name) or ROUNDING[dtype.name]
    rows = rows_of(20, 24, 1, dtype)
    first = compare(rows, options, 4 * rounding)
    assert len(joined) == 2  # with the gradients once more
    assert forward(rows, options).tobytes() == first[0].tobytes()
    # Without parts, as where a GPU is full.
    monkeypatch.setattr(f"{attention.__name__}_cupy._MANY", 0)
    whole = forward(rows, options).astype(np.float64)
    np.testing.assert_allclose(first[0].astype(np.float64), whole, rtol=0, atol=8 * rounding)
    assert len(joined) == 3


def test_nan_and_infinite_scores_of_parts_are_numpys(joined: list[str]) -> None:
    rows = rows_of(8, 8)
    rows[1][2, 0, 0], rows[1][240, 1, 3] = np.nan, np.inf
    options: dict[str, Any] = {"causal": False, "scale": 0.3}
    here = in_main_memory(rows, options)
    np.testing.assert_allclose(forward(rows, options), here, rtol=1e-4, atol=1e-5)
    assert joined


def test_parts_of_no_weight_leave_the_others_theirs(joined: list[str]) -> None:
    rows = rows_of(8, 8)
    rows[0][..., 0] = np.abs(rows[0][..., 0]) + 1
    # Whole parts of scores of -inf, at both ends; and a query that sees no other score.
    rows[1][165:300, 0, 0] = rows[1][385:455, 0, 0] = rows[1][:160, 1, 0] = -np.inf
    options: dict[str, Any] = {"causal": False, "scale": 0.3}
    here = in_main_memory(rows, options)
    assert np.isfinite(here[2:]).all()
    assert np.isnan(here[0, 1]).all()
    np.testing.assert_allclose(forward(rows, options), here, rtol=1e-4, atol=1e-5)
    assert joined


def test_values_hidden_from_all_of_a_part_reach_no_result(joined: list[str]) -> None:
    rows = rows_of(8, 8)
    # Of the sequence of 66 queries and 290 keys, and of that of one that sees no key.
    rows[2][-3:] = np.nan
    options: dict[str, Any] = {"causal": True, "scale": 0.3}
    here = in_main_memory(rows, options)
    assert np.isfinite(here[:-3]).all()
    np.testing.assert_allclose(forward(rows, options), here, rtol=1e-4, atol=1e-5)
    assert joined


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_tensors_of_two_bytes_keep_their_dtype(dtype: Any) -> None:
    q, k, v, flow = rows_of(16, 16, dtype=dtype)
    index, other = LoD.from_lengths([QUERIES]), LoD.from_lengths([KEYS])
    here = LoDTensor(q, index), LoDTensor(k, other), LoDTensor(v, other)
    there = [one.to_device("cuda") for one in here]
    pairs = [(sequence_attention(*there), sequence_attention(*here))]
    mine = sequence_attention_grad(cupy.asarray(flow), *there)
    # The gradient in another dtype: all are computed in float32.
    wide = sequence_attention_grad(cupy.asarray(flow.astype("f4")), *there)
    theirs = sequence_attention_grad(flow, *here)
    pairs += [*zip(mine, theirs, strict=True), *zip(wide, theirs, strict=True)]
    for one, expected in pairs:
        assert one.dtype == expected.dtype == dtype
        limit = 8 * ROUNDING[dtype.name]
        values, others = (
            np.asarray(part, np.float64) for part in (one.to_device("cpu").data, expected.data)
        )
        np.testing.assert_allclose(values, others, rtol=limit, atol=limit)


def test_more_heads_than_a_grid_has_blocks_are_refused() -> None:
    rows = LoDTensor(cupy.asarray(np.zeros((1, 65536, 1), np.float32)), [[1]])
    with pytest.raises(UnsupportedError, match=r"needs 65536 blocks .* takes 65535; move the rows"):
        sequence_attention(rows, rows, rows)


def test_a_sequence_too_long_for_the_kernels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = LoDTensor(cupy.asarray(np.zeros((9, 2), np.float32)), [[4, 5]])
    monkeypatch.setattr(f"{attention.__name__}_cupy._LONGEST", 4)
    with pytest.raises(UnsupportedError, match="at most 4 rows; move the rows to main memory"):
        sequence_attention(rows, rows, rows)
