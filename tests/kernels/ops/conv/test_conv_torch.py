"""conv and row_conv against torch.nn.functional.conv1d of each sequence, and its autograd."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.conv.conv import (
    segment_conv,
    segment_conv_grad,
    segment_row_conv,
    segment_row_conv_grad,
    sequence_conv,
    sequence_row_conv,
)
from lodcli.kernels.ops.conv.conv_grad import sequence_conv_grad, sequence_row_conv_grad
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import near, on_every_backend

WINDOW: dict[str, Any] = {"context_length": 3, "context_start": -1}
# Single values, few and many columns; more than the compiled product takes.
SHAPES = [(1, 1), (1, 8), (3, 3), (8, 1), (64, 48), (5, 130), (400, 80)]
# Rows that share a vector, those that fill it or a little more, and blocks of many rows.
WIDTHS = [1, 3, 8, 16, 17, 100]


def batch(width: int) -> tuple[LoDTensor, np.random.Generator]:
    """Return sequences of 0 to 59 rows, and one that is cut into pieces."""
    generator = np.random.default_rng(6)
    lengths = [*generator.integers(0, 30, 40), 1 if width > 64 else 90_000 // width, 2]
    data = generator.normal(size=(sum(lengths), width)).astype("f4")
    return LoDTensor(data, [lengths]), generator


def per_sequence(
    torch: Any, tensor: LoDTensor, upstream: Any, before: int, after: int, kernel: Any, groups: int
) -> tuple[Any, Any, Any]:
    """Return torch's result, and its gradients for the rows and for the kernel, float64."""
    kernel = torch.from_numpy(kernel.astype("f8")).requires_grad_()
    results, gradients = [], []
    for start, end in pairwise(tensor.lod.levels[0].tolist()):
        if start == end:
            continue
        part = torch.from_numpy(tensor.data[start:end].astype("f8")).requires_grad_()
        padded = torch.nn.functional.pad(part.T[None], (before, after))
        found = torch.nn.functional.conv1d(padded, kernel, groups=groups)[0].T
        found.backward(torch.from_numpy(upstream[start:end].astype("f8")))
        results.append(found.detach().numpy())
        gradients.append(part.grad.numpy())
    return np.concatenate(results), np.concatenate(gradients), kernel.grad.numpy()


@pytest.mark.parametrize(("width", "columns"), SHAPES)
def test_conv_and_its_gradients_are_torchs(width: int, columns: int) -> None:
    torch = pytest.importorskip("torch")
    tensor, generator = batch(width)
    weight = (generator.normal(size=(3 * width, columns)) / width).astype("f4")
    upstream = generator.normal(size=(tensor.rows, columns)).astype("f4")
    out = sequence_conv(tensor, weight, **WINDOW, backend="numba").data
    rows, matrix, _ = sequence_conv_grad(upstream, tensor, weight, **WINDOW, backend="numba")
    kernel = weight.reshape(3, width, columns).transpose(2, 1, 0)
    wanted = per_sequence(torch, tensor, upstream, 1, 1, kernel, 1)
    near(out, wanted[0], 2e-5)
    near(rows.data, wanted[1], 2e-5)
    near(matrix, wanted[2].transpose(2, 1, 0).reshape(matrix.shape), 2e-4)
    if columns < 100:  # NumPy's products depend on how many rows there are
        for item in range(40):
            alone = sequence_conv(tensor[item : item + 1], weight, **WINDOW, backend="numba").data
            start, end = tensor.lod.levels[0][item : item + 2]
            np.testing.assert_array_equal(alone, out[start:end])


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("width", WIDTHS)
def test_row_conv_and_its_gradients_are_torchs(width: int, length: int) -> None:
    torch = pytest.importorskip("torch")
    tensor, generator = batch(width)
    weight = generator.normal(size=(length, width)).astype("f4")
    upstream = generator.normal(size=tensor.data.shape).astype("f4")
    out = sequence_row_conv(tensor, weight, backend="numba").data
    rows, matrix = sequence_row_conv_grad(upstream, tensor, weight, backend="numba")
    wanted = per_sequence(torch, tensor, upstream, 0, length - 1, weight.T[:, None], width)
    near(out, wanted[0], 2e-5)
    near(rows.data, wanted[1], 2e-5)
    near(matrix, wanted[2][:, 0].T, 1e-3)
    for item in range(40):
        alone = sequence_row_conv(tensor[item : item + 1], weight, backend="numba").data
        start, end = tensor.lod.levels[0][item : item + 2]
        np.testing.assert_array_equal(alone, out[start:end])


@pytest.mark.filterwarnings("ignore:invalid value")
@on_every_backend
@pytest.mark.parametrize("columns", [1, 3])
def test_infinity_and_nan_spread_as_far_as_in_numpy(backend: Backend, columns: int) -> None:
    lod = LoD.from_lengths([[3, 0, 1, 12]])
    generator = np.random.default_rng(2)
    data = generator.normal(size=(16, columns))
    upstream = generator.normal(size=(16, columns))
    for bad in (np.inf, np.nan):
        weight = generator.normal(size=(3 * columns, columns))
        weight[0, 0] = bad
        options: dict[str, Any] = {"context_start": -1, "stride": 1, "padding": None}
        given = (data, lod.levels[0], weight)
        same_places(segment_conv(*given, **options), on(backend, segment_conv)(*given, **options))
        wanted = segment_conv_grad(*given, upstream, **options)[0]
        found = on(backend, segment_conv_grad)(*given, upstream, **options)[0]
        same_places(wanted, found)
        each = np.array([[bad] * columns, [1.0] * columns, [bad] * columns])
        given = (data, lod.levels[0], each)
        same_places(segment_row_conv(*given), on(backend, segment_row_conv)(*given))
        wanted = segment_row_conv_grad(*given, upstream)[0]
        same_places(wanted, on(backend, segment_row_conv_grad)(*given, upstream)[0])


def same_places(wanted: Any, found: Any) -> None:
    """Assert that the same values are finite, and those equal but for rounding."""
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
