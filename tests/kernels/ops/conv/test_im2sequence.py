"""im2sequence: PaddlePaddle 2.6.2, loops and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.ops.conv import im2sequence as im2sequence_module
from lodcli.kernels.ops.conv.im2sequence import (
    im2sequence_back,
    im2sequence_rows,
    sequence_im2sequence,
    sequence_im2sequence_grad,
)
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests import oracles_ids
from tests.cases_ops import (
    BACKENDS,
    GRADIENT_TOLERANCE,
    backends_of,
    check_gradient,
    compiled,
    golden,
    near,
    same,
)
from tests.golden_data import GoldenCase, tensor_of

backend = backends_of(im2sequence_module)


def options_of(case: GoldenCase) -> dict[str, Any]:
    return {name: case.attrs[name] for name in ("kernels", "strides", "paddings")}


@golden("im2sequence", 7)
def test_golden_im2sequence(case: GoldenCase) -> None:
    x, options = case.inputs["X"].data, options_of(case)
    assert case.attrs["out_stride"] == [1, 1]
    same(sequence_im2sequence(LoDTensor(x), **options), case.outputs["Out"])
    upstream = tensor_of(case.upstream["Out"])
    found = sequence_im2sequence_grad(upstream, LoDTensor(x), **options)
    near(found.data, case.grads["X"].data, GRADIENT_TOLERANCE)


def test_windows_go_by_rows_and_are_channel_major() -> None:
    picture = np.arange(8, dtype=np.uint8).reshape(1, 2, 2, 2)
    out = sequence_im2sequence(
        LoDTensor(picture), kernels=(1, 2), strides=(1, 1), paddings=(0, 1, 0, 0)
    )
    assert out.dtype == np.uint8
    assert out.data.tolist() == [[0, 0, 0, 4], [0, 1, 4, 5], [0, 2, 0, 6], [2, 3, 6, 7]]
    assert out.recursive_sequence_lengths() == [[4]]


def test_no_pictures_are_a_batch_of_none() -> None:
    out = sequence_im2sequence(LoDTensor(np.zeros((0, 2, 4, 4))), kernels=(2, 2))
    assert out.data.shape == (0, 8)
    assert out.recursive_sequence_lengths() == [[]]


sizes = st.tuples(st.integers(1, 3), st.integers(1, 3))


@compiled
@given(
    shape=st.tuples(*(st.integers(low, high) for low, high in ((1, 3), (1, 2), (1, 5), (1, 5)))),
    kernels=sizes,
    strides=sizes,
    paddings=st.tuples(*[st.integers(0, 2)] * 4),
    seed=st.integers(0, 1000),
)
def test_windows_are_those_of_the_loops(
    shape: tuple[int, int, int, int],
    kernels: tuple[int, int],
    strides: tuple[int, int],
    paddings: tuple[int, int, int, int],
    seed: int,
) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=shape)
    options: dict[str, Any] = {"kernels": kernels, "strides": strides, "paddings": paddings}
    wanted = [oracles_ids.im2sequence(image, **options) for image in x]
    if not wanted[0]:
        with pytest.raises(InvalidDataError, match="does not fit a padded image"):
            sequence_im2sequence(LoDTensor(x), **options)
        return
    out = sequence_im2sequence(LoDTensor(x), **options)
    assert out.data.tolist() == [row for rows in wanted for row in rows]
    assert out.recursive_sequence_lengths() == [[len(rows) for rows in wanted]]
    # Linear: <upstream, f(x)> = <gradient, x>, for every x.
    upstream = generator.normal(size=out.data.shape)
    gradient = sequence_im2sequence_grad(out.with_data(upstream), LoDTensor(x), **options)
    near(np.sum(gradient.data * x), np.sum(upstream * out.data), 1e-12)


def test_pieces_of_windows_begin_anywhere_in_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    from lodcli.kernels.ops.conv import im2sequence_native as twin

    options: dict[str, Any] = {"kernels": (1, 2), "strides": (1, 2), "paddings": (1, 0, 0, 1)}
    x = np.arange(3 * 2 * 4 * 5, dtype=np.float32).reshape(3, 2, 4, 5)
    wanted = im2sequence_rows(x, **options)
    for piece_rows in (1, 2, 7, 15, 16):
        monkeypatch.setattr(twin, "rows_a_piece", lambda _, rows=piece_rows: rows)
        np.testing.assert_array_equal(twin.im2sequence_rows(x, **options), wanted)


def test_gradient_is_that_of_finite_differences() -> None:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(2, 2, 4, 3))
    options: dict[str, Any] = {"kernels": (3, 2), "strides": (2, 1), "paddings": (1, 0, 2, 1)}
    upstream = generator.normal(size=im2sequence_rows(x, **options).shape)
    gradient = sequence_im2sequence_grad(upstream, LoDTensor(x), **options).data
    check_gradient(lambda at: im2sequence_rows(at, **options), x, upstream, gradient)


@pytest.mark.parametrize("twin", BACKENDS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(2, 2, 5, 6), (1, 3, 1, 9), (0, 2, 4, 4), (2, 0, 4, 4)])
def test_gradients_of_overlapping_windows_are_added_in_the_order_of_their_places(
    twin: Any, dtype: str, shape: tuple[int, int, int, int]
) -> None:
    options: dict[str, Any] = {"kernels": (3, 4), "strides": (1, 2), "paddings": (2, 0, 1, 3)}
    n, c, height, width = shape
    below, beside = height + 3 - 3 + 1, (width + 3 - 4) // 2 + 1
    rows = np.random.default_rng(2).normal(size=(n, below, beside, c, 3, 4)) * 50
    rows = rows.astype(dtype)
    expected = np.zeros(shape, dtype)
    for i, j in np.ndindex(3, 4):
        for picture, y, x, channel in np.ndindex(n, below, beside, c):
            row, column = y + i - 2, 2 * x + j
            if 0 <= row < height and column < width:
                expected[picture, channel, row, column] += rows[picture, y, x, channel, i, j]
    flow = rows.reshape(n * below * beside, c * 12)
    for flows in (flow, np.repeat(flow, 2, axis=0)[::2]):
        found = on(twin, im2sequence_back)(flows, shape, **options)
        assert found.dtype == dtype
        assert found.tobytes() == expected.tobytes()


def test_invalid_images_and_sizes_are_errors() -> None:
    picture = LoDTensor(np.zeros((1, 1, 3, 3)))
    with pytest.raises(InvalidDataError, match=r"images \(n, c, h, w\) without levels"):
        sequence_im2sequence(LoDTensor(np.zeros((3, 3))), kernels=(1, 1))
    with pytest.raises(InvalidDataError, match=r"window 4 high does not fit .* image 3 high"):
        sequence_im2sequence(picture, kernels=(4, 1))
    with pytest.raises(InvalidDataError, match="paddings must be at least 0, found -1"):
        sequence_im2sequence(picture, kernels=(1, 1), paddings=(0, -1, 0, 0))
    with pytest.raises(InvalidDataError, match="strides: expected 2 numbers, found 1"):
        sequence_im2sequence(picture, kernels=(1, 1), strides=(1,))
    with pytest.raises(ShapeMismatchError, match=r"result's shape \(9, 1\), found \(8, 1\)"):
        sequence_im2sequence_grad(np.zeros((8, 1)), picture, kernels=(1, 1))


@pytest.mark.parametrize(
    "kernels", [[True, True], (1, True), np.ones(2, np.bool_), [np.True_] * 2], ids=repr
)
def test_booleans_are_no_sizes(kernels: Any) -> None:
    picture = LoDTensor(np.zeros((1, 1, 3, 3)))
    with pytest.raises(InvalidDataError, match=r"sequence_im2sequence: kernels.*: expected "):
        sequence_im2sequence(picture, kernels=kernels)


def test_sizes_in_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    picture = LoDTensor(np.zeros((1, 1, 3, 3)))
    ones: Any = torch.ones(2, dtype=torch.int64)
    assert sequence_im2sequence(picture, kernels=ones).data.shape == (9, 1)
    for wrong in (ones.bool(), ones.to("meta")):  # RuntimeError: meta tensors have no values
        with pytest.raises(InvalidDataError, match="kernels: expected a sequence of int, found T"):
            sequence_im2sequence(picture, kernels=wrong)
