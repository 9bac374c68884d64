"""Joined sequences against PaddlePaddle 2.6.2, plain loops, and by hand, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining.concat import sequence_concat, sequence_concat_grad
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, golden, golden_rejects, on_every_backend
from tests.golden_data import GoldenCase, tensor_of
from tests.oracles_ops import pieces_of
from tests.strategies import DTYPES, laid_out, random_values


@on_every_backend
@golden("sequence_concat")
def test_golden(case: GoldenCase, backend: Backend) -> None:
    parts = [tensor_of(slot) for slot in case.inputs["X"]]
    assert sequence_concat(parts, backend=backend).identical(tensor_of(case.outputs["Out"]))
    if case.upstream:
        found = sequence_concat_grad(case.upstream["Out"].data, parts, backend=backend)
        for gradient, slot in zip(found, case.grads["X"], strict=True):
            assert gradient.identical(tensor_of(slot))


@golden_rejects("sequence_concat")
def test_golden_rejects(case: GoldenCase) -> None:
    parts = [tensor_of(slot) for slot in case.inputs["X"]]
    if len(parts) == 1:
        assert sequence_concat(parts).identical(parts[0])
        return
    with pytest.raises((SelectionError, ShapeMismatchError), match="sequence_concat"):
        sequence_concat(parts)


@on_every_backend
def test_equal_upper_levels_stay(backend: Backend) -> None:
    a = LoDTensor(np.array([1, 2, 3]), LoD.from_lengths([[1, 1], [2, 1]], ["article", "s"]))
    b = LoDTensor(np.array([8, 9]), LoD.from_lengths([[1, 1], [0, 2]]))
    found = sequence_concat([a, b], backend=backend)
    assert found.data.tolist() == [1, 2, 3, 8, 9]
    assert found.lod == LoD.from_lengths([[1, 1], [2, 3]], ["article", "s"])
    other = LoDTensor(np.array([8, 9]), LoD.from_lengths([[2, 0], [0, 2]]))
    with pytest.raises(ShapeMismatchError, match="part 1 differ: level 0, item 0"):
        sequence_concat([a, other])
    with pytest.raises(ShapeMismatchError, match="no tensor"):
        sequence_concat([])


@settings(deadline=None)
@given(st.data())
def test_joined_sequences_are_those_of_plain_loops(data: st.DataObject) -> None:
    count, dtype = data.draw(st.integers(0, 4)), data.draw(st.sampled_from(DTYPES))
    generator = np.random.default_rng(data.draw(st.integers(0, 9)))
    shape = data.draw(st.sampled_from([(), (1,), (3,), (2, 2), (0,)]))
    parts, expected = [], [b""] * count
    for _ in range(data.draw(st.integers(1, 3))):
        lengths = generator.integers(0, 4, count).tolist()
        rows = random_values(generator, (sum(lengths), *shape), dtype, any_bits=True)
        layout = data.draw(st.sampled_from(["plain", "rows strided", "read-only", "reversed"]))
        parts.append(LoDTensor(laid_out(rows, layout), LoD.from_lengths([lengths])))
        for i, piece in enumerate(pieces_of(list(rows), lengths)):
            expected[i] += b"".join(np.asarray(row).tobytes() for row in piece)
    for backend in BACKENDS:
        found = sequence_concat(parts, backend=backend)
        assert found.data.tobytes() == b"".join(expected)
        back = sequence_concat_grad(found, parts, backend=backend)
        for gradient, part in zip(back, parts, strict=True):
            assert gradient.identical(part)


@on_every_backend
def test_parts_of_more_rows_than_a_thread_takes_at_once_come_apart_again(backend: Backend) -> None:
    generator = np.random.default_rng(3)
    parts = []
    for _ in range(3):
        lengths = generator.integers(0, 60, 1000)
        rows = generator.normal(size=(int(lengths.sum()), 7)).astype(np.float32)
        parts.append(LoDTensor(rows, LoD.from_lengths([lengths])))
    back = sequence_concat_grad(sequence_concat(parts, backend=backend), parts, backend=backend)
    for gradient, part in zip(back, parts, strict=True):
        assert gradient.identical(part)
