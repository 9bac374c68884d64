"""Rows of every width, dtype and alignment have the same results in every kernel."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.checks import lengths_to_offsets
from lodcli.kernels.ops.conv import im2sequence
from lodcli.kernels.ops.elementwise import elementwise
from lodcli.kernels.ops.joining import concat
from lodcli.kernels.ops.norms import norms
from lodcli.kernels.ops.padding import pad
from lodcli.kernels.ops.pooling import pool, pool_grad
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.ops.scan import scan
from lodcli.kernels.ops.softmax import softmax
from lodcli.kernels.ops.sorting import sort
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.sampling import by_turns
from tests.strategies import BFLOAT16

cupy: Any = pytest.importorskip("cupy")
at_once: Any = importlib.import_module("lodcli.kernels.cuda.launch").at_once
pytestmark = pytest.mark.gpu

# Narrow ones; such as are read a value, two or four at a time; more than a block has threads.
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 65, 130, 1028)
# Ends of tiles, lengths that leave a remainder of rows read together, and a long sequence.
LENGTHS = [0, 3, 1, 61, 5, 0, 0, 64, 17, 65, 1, 190, 2, 0, 258, 4, 700, 9, 0]
OFFSETS = lengths_to_offsets(np.array(LENGTHS), level=0)
SHORT = lengths_to_offsets(np.array([1, 64, 3, 5, 17, 31, 2, 64, 4]), level=0)
# Of softmax: the capacity of a thread, a warp and a block, and one more.
KEPT = lengths_to_offsets(np.array([0, 7, 13, 14, 8, 28, 29, 52, 0, 53, 96, 104, 1]), level=0)
# What sums of that many values between -1 and 1 lose to rounding, in units of the last place.
ROUNDINGS = 64

Op = Callable[..., Any]


def rows_of(width: int, dtype: Any, offsets: Any = OFFSETS) -> Any:
    rows = np.random.default_rng(width).uniform(-1, 1, size=(int(offsets[-1]), width))
    return rows.astype(dtype)


def compared(op: Op, rows: Any, offsets: Any = OFFSETS) -> None:
    """Compare an op on the device with NumPy's, which is given the same values in float64."""
    found = _parts(
        on("cupy", op)(rows if isinstance(rows, cupy.ndarray) else cupy.asarray(rows), offsets)
    )
    wanted = _parts(op(cupy.asnumpy(rows).astype(np.float64), offsets))
    limit = ROUNDINGS * 2.0 ** {2: -10, 4: -23, 8: -52}[rows.itemsize]
    for there, here in zip(found, wanted, strict=True):
        values = cupy.asnumpy(there).astype(here.dtype)
        np.testing.assert_allclose(values, here, rtol=limit, atol=limit)


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_sums_of_every_width() -> None:
    for width in WIDTHS:
        compared(pool.segment_sum, rows_of(width, np.float32))
    # Eight values at a time.
    compared(pool.segment_sum, rows_of(16, np.float16, SHORT), SHORT)


def test_softmax_of_every_width() -> None:
    for width in WIDTHS:
        compared(softmax.segment_softmax, rows_of(width, np.float32, KEPT), KEPT)
    view = moved(cupy.asarray(rows_of(16, np.float32, KEPT)), 1)
    compared(softmax.segment_softmax, view, KEPT)


# Of rows of 28 bytes a block brings 576 to shared memory: sequences that begin in one go on in the
# next. One is as long as a unit does alone, and one is longer.
@pytest.mark.parametrize(("op", "more"), [
    (pool.segment_sum, {}),
    (softmax.segment_softmax, {}),
    (scan.segment_cumsum, {"exclusive": False, "reverse": False}),
    (scan.segment_cumsum, {"exclusive": True, "reverse": True}),
])  # fmt: skip
def test_narrow_sequences_that_reach_into_the_next_block(op: Op, more: dict[str, bool]) -> None:
    offsets = lengths_to_offsets(np.array([50] * 11 + [64, 200] + [50] * 20), level=0)
    rows = rows_of(7, np.float32, offsets)
    found = on("cupy", op)(cupy.asarray(rows), offsets, **more)
    wanted = op(rows.astype(np.float64), offsets, **more)
    np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 16])
def test_softmax_of_infinities_before_other_values(width: int) -> None:
    # More of them than are read together, and than one thread has room for.
    offsets = lengths_to_offsets(np.array([12, 31, 60]), level=0)
    rows = rows_of(width, np.float32, offsets)
    for start, stop in itertools.pairwise(offsets):
        rows[start : stop - 4] = -np.inf
    compared(softmax.segment_softmax, rows, offsets)


@pytest.mark.parametrize(("width", "offsets"), [(7, SHORT), (64, KEPT)])
def test_gradients_of_softmax(width: int, offsets: Any) -> None:
    flow, result = rows_of(width, np.float32, offsets), rows_of(width, np.float32, offsets)[::-1]
    found = on("cupy", softmax.segment_softmax_grad)(
        cupy.asarray(flow), cupy.asarray(result.copy()), offsets
    )
    wanted = softmax.segment_softmax_grad(flow.astype("f8"), result.astype("f8"), offsets)
    np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reverse", [False, True])
def test_running_totals_of_every_width(reverse: bool) -> None:
    def totals(rows: Any, offsets: Any) -> Any:
        where = on("cupy" if isinstance(rows, cupy.ndarray) else "numpy", scan.segment_cumsum)
        return where(rows, offsets, exclusive=reverse, reverse=reverse)

    for width in (1, 3, 7, 8, 31, 64, 65, 1028):
        rows = cupy.asarray(rows_of(width, np.float32))
        wanted = totals(cupy.asnumpy(rows).astype("f8"), OFFSETS)
        found = totals(rows, OFFSETS)
        # Sums of up to 700 values, one after another.
        np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-4, atol=1e-4)
        again = totals(moved(rows, 1), OFFSETS)
        assert cupy.asnumpy(again).tobytes() == cupy.asnumpy(found).tobytes()


# Dealt out, and four at a time, or one where they lie elsewhere.
@pytest.mark.parametrize("width", [3, 64])
def test_rows_and_what_goes_with_them(width: int) -> None:
    def multiplied(rows: Any, values: Any, offsets: Any) -> Any:
        there = isinstance(rows, cupy.ndarray)
        return on("cupy" if there else "numpy", elementwise.segment_binary)(
            "mul", rows, values, offsets
        )

    def same(found: Any, wanted: Any) -> None:
        np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-6)

    rows = rows_of(width, np.float32)
    each, one = rows[: len(LENGTHS)].copy(), rows[: len(LENGTHS), :1].copy()
    there = cupy.asarray(rows)
    for values in (each, one):
        wanted = multiplied(rows, values, OFFSETS)
        for skipped in (0, 1):
            same(multiplied(there, moved(cupy.asarray(values), skipped), OFFSETS), wanted)
    same(multiplied(there, there, None), rows * rows)
    same(multiplied(there, there[:, :1].copy(), None), rows * rows[:, :1])
    for skipped in (0, 1):
        found = on("cupy", pool_grad.segment_mean_grad)(moved(cupy.asarray(each), skipped), OFFSETS)
        same(found, pool_grad.segment_mean_grad(each, OFFSETS))


def test_norms_of_wide_rows() -> None:
    rows, flow = rows_of(64, np.float32), rows_of(64, np.float32)[::-1].copy()
    weight, bias = rows[0] + 2, rows[1].copy()
    there = [cupy.asarray(one) for one in (rows, flow, weight, bias)]
    wanted = norms.rows_layer_norm(rows.astype("f8"), weight, bias, 1e-5)
    found = on("cupy", norms.rows_layer_norm)(there[0], there[2], there[3], 1e-5)
    np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-5, atol=1e-5)
    gradients = norms.rows_layer_norm_grad(flow.astype("f8"), rows.astype("f8"), weight, 1e-5)
    arrays = on("cupy", norms.rows_layer_norm_grad)(there[1], there[0], there[2], 1e-5)
    for one, expected in zip(arrays, gradients, strict=True):
        # Sums over 1,386 rows.
        np.testing.assert_allclose(cupy.asnumpy(one), expected, rtol=1e-4, atol=1e-4)


# Rows dealt out to units, 16 bytes a thread, and more columns than a block has threads.
@pytest.mark.parametrize(("width", "dtype"), [(3, "f4"), (8, "f8"), (1028, "f4")])
@pytest.mark.parametrize("most", [1, 3, 2048])
def test_sums_of_many_blocks_are_added_up_by_the_last(
    width: int, dtype: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.kernels.ops.norms.norms_cupy.MOST_PARTS", most)
    rows = np.resize(rows_of(width, dtype), (9000 if width < 1028 else 200, width))
    flow = rows[::-1].copy()
    wanted = norms.rows_layer_norm_grad(flow.astype("f8"), rows.astype("f8"), None, 1e-5)
    there = cupy.asarray(flow), cupy.asarray(rows)
    found = on("cupy", norms.rows_layer_norm_grad)(*there, None, 1e-5)
    for one, expected in zip(found, wanted, strict=True):
        # Sums over 9,000 rows.
        np.testing.assert_allclose(cupy.asnumpy(one), expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("dtype", "width", "wide_weights"),
    by_turns(2, ["f2", BFLOAT16], (1, 3, 16, 64, 130), [False, True]),
)
def test_halves_are_normalised_as_float32_is(dtype: Any, width: int, wide_weights: bool) -> None:
    rows, flow, weight = (
        cupy.asarray(rows_of(width, "f4")[first::3].astype(dtype)) for first in range(3)
    )
    weight = weight[0].astype("f4" if wide_weights else dtype)
    wide_rows, wide_flow, wide_weight = (one.astype("f4") for one in (rows, flow, weight))
    found = [
        on("cupy", norms.rows_layer_norm)(rows, weight, weight, 1e-5),
        *on("cupy", norms.rows_layer_norm_grad)(flow, rows, weight, 1e-5),
    ]
    wanted = [
        on("cupy", norms.rows_layer_norm)(wide_rows, wide_weight, wide_weight, 1e-5),
        *on("cupy", norms.rows_layer_norm_grad)(wide_flow, wide_rows, wide_weight, 1e-5),
    ]
    assert [one.dtype for one in found] == [dtype, dtype, np.float32, np.float32]
    for one, expected in zip(found, wanted, strict=True):
        values = cupy.asnumpy(one.astype("f4"))
        # Half of the last digit of bfloat16.
        np.testing.assert_allclose(values, cupy.asnumpy(expected), rtol=2**-8, atol=2**-8)


def moved(rows: Any, skipped: int) -> Any:
    """Return the same rows as a view at this offset, in values, in an aligned array."""
    larger = cupy.empty(rows.size + skipped, rows.dtype)
    larger[skipped:] = rows.reshape(rows.size)
    return larger[skipped:].reshape(rows.shape)


@pytest.mark.parametrize(("op", "width", "skipped"), [
    (pool.segment_sum, 1, 1),
    (pool.segment_sum, 16, 1),
    (pool.segment_sum, 16, 2),
    (pool.segment_max_index, 16, 2),
])  # fmt: skip
def test_rows_that_lie_anywhere_give_the_same_bits(op: Op, width: int, skipped: int) -> None:
    rows = cupy.asarray(rows_of(width, np.float32))
    view = moved(rows, skipped)
    assert at_once(16, rows) == 4
    assert at_once(16, view) == skipped
    found, wanted = (_parts(on("cupy", op)(one, OFFSETS)) for one in (view, rows))
    for there, here in zip(found, wanted, strict=True):
        assert cupy.asnumpy(there).tobytes() == cupy.asnumpy(here).tobytes()


@pytest.mark.parametrize("width", [1, 8])
def test_one_sequence_beside_empty_ones(width: int) -> None:
    offsets = lengths_to_offsets(np.array([0] * 300 + [70_001] + [0] * 300 + [3]), level=0)
    compared(pool.segment_sum, rows_of(width, np.float32, offsets), offsets)


def test_results_that_lie_anywhere_are_written_all_the_same() -> None:
    rows = cupy.asarray(rows_of(16, np.float32))
    wanted = on("cupy", pool.segment_sum)(rows, OFFSETS)
    larger = cupy.empty(wanted.size + 1, np.float32)
    out = larger[1:].reshape(wanted.shape)
    on("cupy", pool.segment_sum)(rows, OFFSETS, out=out)
    assert cupy.asnumpy(out).tobytes() == cupy.asnumpy(wanted).tobytes()


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_rows_of_one_index_are_combined_without_it(
    op: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(offsets: Any) -> Any:
        raise AssertionError("the index was copied to the device")

    for module in ("elementwise.elementwise_cupy", "pooling.pool_cupy"):
        monkeypatch.setattr(f"lodcli.kernels.ops.{module}.on_device", refuse)
    rows, others, flow = (rows_of(3, np.float32) + number for number in (2, 4, 6))
    for other in (others, others[:, 0]):
        one, two = (LoDTensor(rows, [LENGTHS]), LoDTensor(other, [LENGTHS]))
        call, gradient = OPS[op].load(), OPS[op].load_gradient()
        assert gradient
        there = (one.to_device("cuda"), two.to_device("cuda"))
        pairs = [(call(*there), call(one, two))]
        pairs += zip(gradient(cupy.asarray(flow), *there), gradient(flow, one, two), strict=True)
        for found, wanted in pairs:
            np.testing.assert_allclose(cupy.asnumpy(found.data), wanted.data, rtol=1e-5)


# Steps of fewer rows than a block has units, of as many, of more; all of more than one block.
@pytest.mark.parametrize("steps", [1, 7, 64, 300])
@pytest.mark.parametrize("width", [1, 3, 16])
def test_padding_of_every_width(steps: int, width: int) -> None:
    lengths = np.random.default_rng(steps).integers(0, steps + 1, 9000 // steps)
    offsets = lengths_to_offsets(lengths, level=0)
    rows = rows_of(width, np.float32, offsets)
    there = cupy.asarray(rows)
    for fill in (np.array(7, "f4"), np.arange(width, dtype="f4")):
        wanted = pad.segment_pad(rows, offsets, steps, pad_value=fill)
        for skipped in (0, 1):
            found = on("cupy", pad.segment_pad)(
                moved(there, skipped), offsets, steps, pad_value=fill
            )
            np.testing.assert_array_equal(cupy.asnumpy(found), wanted)
    box = np.random.default_rng(0).normal(size=(len(lengths), steps, width)).astype("f4")
    for op, given in ((pad.segment_unpad, box), (pad.segment_pad_grad, box[:, : steps // 2 + 1])):
        found = on("cupy", op)(cupy.asarray(given), offsets)
        np.testing.assert_array_equal(cupy.asnumpy(found), op(given, offsets))


@pytest.mark.parametrize("width", [1, 3, 16, 65])
def test_rows_of_any_number_of_inputs_are_joined_and_divided(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.kernels.ops.joining.concat_cupy.MOST_BLOCKS", 2)
    offsets = [OFFSETS, np.zeros_like(OFFSETS), np.arange(OFFSETS.size) * 3]
    rows = [rows_of(width, np.float32, each) for each in offsets]
    wanted = concat.segment_concat(rows, offsets)
    for skipped in (0, 1):
        there = [moved(cupy.asarray(each), skipped) for each in rows]
        found = on("cupy", concat.segment_concat)(there, offsets)
        np.testing.assert_array_equal(cupy.asnumpy(found), wanted)
        parts = on("cupy", concat.segment_concat_grad)(moved(found, skipped), offsets)
        for part, each in zip(parts, rows, strict=True):
            np.testing.assert_array_equal(cupy.asnumpy(part), each)


@pytest.mark.parametrize("dtype", ["i1", "f2", "f8", "c8", "c16"])
@pytest.mark.parametrize("op", [pool.segment_sum, pool.segment_first, pool.segment_last])
def test_sequences_without_rows_have_any_value(op: Op, dtype: str) -> None:
    pad_value = 3 - 2j if dtype[0] == "c" else 3
    for width in (1, 3, 16, 65):
        rows = rows_of(width, dtype)
        found = on("cupy", op)(cupy.asarray(rows), OFFSETS, pad_value=pad_value)
        empty = OFFSETS[:-1] == OFFSETS[1:]
        assert (cupy.asnumpy(found)[empty] == pad_value).all()


@pytest.mark.parametrize(
    ("dtypes", "width"),
    by_turns(2, [("f4", "f4"), ("f2", "f4"), ("i4", "u8"), ("i8", "i2")], WIDTHS),
)
def test_dot_products_of_every_width(dtypes: tuple[str, str], width: int) -> None:
    ours, theirs = ((rows_of(width, np.float64) * 9).astype(one) for one in dtypes)
    found = on("cupy", elementwise.segment_dot)(
        cupy.asarray(ours), moved(cupy.asarray(theirs), 1), OFFSETS
    )
    wanted = elementwise.segment_dot(ours, theirs, OFFSETS)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-4, atol=1e-2)


def test_complex_rows_off_a_multiple_of_16_bytes_are_padded() -> None:
    rows = cupy.asarray(np.arange(19.0))[1:].view(np.complex128)
    for width, lengths in ((1, [2, 0, 4, 3]), (3, [1, 0, 2])):
        there, index = rows.reshape(-1, width), lengths_to_offsets(np.array(lengths), level=0)
        wanted = pad.segment_pad(cupy.asnumpy(there), index, 5, pad_value=1 + 2j)
        found = on("cupy", pad.segment_pad)(there, index, 5, pad_value=1 + 2j)
        np.testing.assert_array_equal(cupy.asnumpy(found), wanted)


@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_rows_of_more_columns_than_a_grid_has_blocks_are_sorted(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.kernels.ops.sorting.sort_cupy.MOST_BLOCKS", 2)
    monkeypatch.setattr("lodcli.kernels.ops.sorting.sort_cupy.LONG", 0)
    rows = (rows_of(70, np.float64, SHORT) * 9).astype(dtype)
    found = on("cupy", sort.segment_order)(cupy.asarray(rows), SHORT, False)
    np.testing.assert_array_equal(cupy.asnumpy(found), sort.segment_order(rows, SHORT, False))


@pytest.mark.parametrize("dtype", ["f2", "f4", "c16", "i4"])
@pytest.mark.parametrize(
    ("kernels", "strides", "paddings"),
    [
        ((1, 1), (1, 1), (0, 0, 0, 0)),
        ((3, 2), (2, 3), (1, 0, 2, 3)),
        ((2, 4), (1, 2), (0, 2, 1, 0)),
    ],
)
def test_windows_and_their_gradients_are_numpys(
    kernels: tuple[int, ...], strides: tuple[int, ...], paddings: tuple[int, ...], dtype: str
) -> None:
    given: Any = {"kernels": kernels, "strides": strides, "paddings": paddings}
    shape = (2, 3, 7, 9)
    images = np.random.default_rng(3).uniform(-9, 9, shape).astype(dtype)
    rows = im2sequence.im2sequence_rows(images, **given)
    found = on("cupy", im2sequence.im2sequence_rows)(cupy.asarray(images), **given)
    np.testing.assert_array_equal(cupy.asnumpy(found), rows)
    flow = np.random.default_rng(4).uniform(-9, 9, rows.shape).astype(dtype)
    back = on("cupy", im2sequence.im2sequence_back)(cupy.asarray(flow), shape, **given)
    np.testing.assert_array_equal(
        cupy.asnumpy(back), im2sequence.im2sequence_back(flow, shape, **given)
    )
