"""Parts and other widths of sequences against PaddlePaddle 2.6.2, loops, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.backends import Backend
from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.lod import LoD
from lodcli.kernels.ops.reshape import sequence_reshape
from lodcli.kernels.ops.slice import sequence_slice, sequence_slice_grad
from lodcli.kernels.tensor import LoDTensor
from tests.golden_data import GoldenCase
from tests.kernels.ops.helpers import BACKENDS, both, golden, rejects, tensor_of
from tests.oracles_ops import pieces_of
from tests.strategies import tensors


@both
@golden("sequence_slice")
def test_golden_slice(case: GoldenCase, backend: Backend) -> None:
    x, start, length = (case.inputs[name] for name in ("X", "Offset", "Length"))
    found = sequence_slice(tensor_of(x), start.data, length.data, backend=backend)
    assert found.identical(tensor_of(case.outputs["Out"]))
    if case.upstream:
        gradient = sequence_slice_grad(
            case.upstream["Out"].data, start.data, length.data, LoD(x.lod)
        )
        np.testing.assert_array_equal(gradient, case.grads["X"].data)


@golden("sequence_reshape")
def test_golden_reshape(case: GoldenCase) -> None:
    x = tensor_of(case.inputs["X"])
    assert sequence_reshape(x, case.attrs["new_dim"]).identical(tensor_of(case.outputs["Out"]))
    if case.upstream:
        back = sequence_reshape(tensor_of(case.upstream["Out"]), x.row_shape[0])
        assert back.identical(tensor_of(case.grads["X"]))


@pytest.mark.parametrize("case", rejects("sequence_slice"), ids=lambda case: case.id)
def test_golden_rejects_of_slice(case: GoldenCase) -> None:
    x, start, length = (case.inputs[name] for name in ("X", "Offset", "Length"))
    if len(x.lod) == 2:  # the finest level, here as everywhere
        found = sequence_slice(tensor_of(x), start.data, length.data)
        assert found.lod.levels[0].tolist() == x.lod[0]
        return
    with pytest.raises(ShapeMismatchError, match="sequence_slice"):
        sequence_slice(tensor_of(x), start.data, length.data)


@pytest.mark.parametrize("case", rejects("sequence_reshape"), ids=lambda case: case.id)
def test_golden_rejects_of_reshape(case: GoldenCase) -> None:
    x = tensor_of(case.inputs["X"])
    if x.lod.n_levels == 2:  # refused unless a level is chosen
        out = sequence_reshape(x, 1, level=-1)
        assert out.lod.levels[0].tolist() == x.lod.levels[0].tolist()
    with pytest.raises((SelectionError, ShapeMismatchError), match="sequence_reshape"):
        sequence_reshape(x, case.attrs["new_dim"])


@settings(deadline=None)
@given(tensors(min_levels=1, any_bits=True), st.integers(0, 2), st.integers(0, 3))
def test_parts_are_those_of_plain_loops(tensor: LoDTensor, first: int, most: int) -> None:
    lengths = tensor.recursive_sequence_lengths()[-1]
    start = [min(first, length) for length in lengths]
    count = [min(most, length - at) for length, at in zip(lengths, start, strict=True)]
    parts = [
        rows[at : at + n]
        for rows, at, n in zip(
            pieces_of(list(range(tensor.rows)), lengths), start, count, strict=True
        )
    ]
    for backend in BACKENDS:
        found = sequence_slice(tensor, start, count, backend=backend)
        assert found.recursive_sequence_lengths()[-1] == count
        expected = b"".join(tensor.data[row].tobytes() for part in parts for row in part)
        assert found.data.tobytes() == expected


def test_what_cannot_be_is_refused() -> None:
    words = LoDTensor(np.arange(4.0).reshape(4, 1), [[3, 1]])
    with pytest.raises(ShapeMismatchError, match="sequence 1 has 1 rows, no 2 from row 0 on"):
        sequence_slice(words, [0, 0], [3, 2])
    with pytest.raises(ShapeMismatchError, match="from row"):
        sequence_slice(words, [1, 0], [2**63 - 1, 0])
    with pytest.raises(InvalidDataError, match="offset must be whole numbers, found float64"):
        sequence_slice(words, [0.0, 0.0], [1, 1])
    with pytest.raises(InvalidDataError, match="at least 1, found 0"):
        sequence_reshape(words, 0)
    with pytest.raises(SelectionError, match="no levels"):
        sequence_reshape(LoDTensor(np.zeros((2, 2))), 4)
