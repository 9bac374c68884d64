"""Expansion against PaddlePaddle 2.6.2, plain loops, and by hand, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining.expand import (
    sequence_expand,
    sequence_expand_as,
    sequence_expand_as_grad,
    sequence_expand_grad,
)
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, close, golden, golden_rejects, on_every_backend
from tests.golden_data import GoldenCase, tensor_of
from tests.oracles_ops import pieces_of
from tests.strategies import tensors


@on_every_backend
@pytest.mark.parametrize("width", [*range(1, 36), 48, 64])
def test_rows_of_any_width_are_repeated(width: int, backend: Backend) -> None:
    lengths = [70, 0, 1, 3, 5, 17, 0, 300, 33, 260]
    rows = np.random.default_rng(0).integers(0, 255, (len(lengths), width), np.uint8)
    expected = np.concatenate([row for row, n in zip(rows, lengths, strict=True) for _ in range(n)])
    y = LoDTensor(np.zeros(sum(lengths)), [lengths])
    found = sequence_expand_as(LoDTensor(rows), y, backend=backend)
    np.testing.assert_array_equal(found.data, expected.reshape(-1, width))


@on_every_backend
@golden("sequence_expand")
def test_golden_expand(case: GoldenCase, backend: Backend) -> None:
    x, y = case.tensor("X"), case.tensor("Y")
    level = case.attrs["ref_level"]
    found = sequence_expand(x, y, ref_level=level, backend=backend)
    assert found.identical(tensor_of(case.outputs["Out"]))
    if case.upstream:
        gradient = sequence_expand_grad(
            case.upstream["Out"].data, x, y, ref_level=level, backend=backend
        )
        close(gradient.data, case.grads["X"].data)


@on_every_backend
@golden("sequence_expand_as")
def test_golden_expand_as(case: GoldenCase, backend: Backend) -> None:
    x, y = case.tensor("X"), case.tensor("Y")
    assert sequence_expand_as(x, y, backend=backend).identical(tensor_of(case.outputs["Out"]))
    if case.upstream:
        upstream = case.upstream["Out"].data
        gradient = sequence_expand_as_grad(upstream, x, y, backend=backend)
        close(gradient.data, case.grads["X"].data)


@golden_rejects("sequence_expand")
def test_golden_rejects_of_expand(case: GoldenCase) -> None:
    x, y = case.tensor("X"), case.tensor("Y")
    with pytest.raises((SelectionError, ShapeMismatchError), match=r"sequence_expand|no level 1"):
        sequence_expand(x, y, ref_level=case.attrs["ref_level"])


@golden_rejects("sequence_expand_as")
def test_golden_rejects_of_expand_as(case: GoldenCase) -> None:
    x, y = case.tensor("X"), case.tensor("Y")
    if y.lod.n_levels == 2:  # refused unless a level is chosen
        assert sequence_expand_as(x, y, level=-1).rows == y.rows
    wanted = r"2 levels; choose one|\d+ rows, y \d+ sequences"
    with pytest.raises((SelectionError, ShapeMismatchError), match=wanted):
        sequence_expand_as(x, y)


@on_every_backend
def test_a_value_of_an_upper_level_comes_to_all_its_rows(backend: Backend) -> None:
    words = LoDTensor(np.zeros(6), LoD.from_lengths([[1, 2], [3, 1, 2]]))
    articles = LoDTensor(np.array([[1, 2], [3, 4]], np.int16))
    found = sequence_expand_as(articles, words, level=0, backend=backend)
    assert found.lod is words.lod
    assert found.data.tolist() == [[1, 2]] * 3 + [[3, 4]] * 3


@settings(deadline=None)
@given(tensors(min_levels=1, max_levels=1, any_bits=True), st.data())
def test_blocks_are_those_of_plain_loops(x: LoDTensor, data: st.DataObject) -> None:
    lengths = x.recursive_sequence_lengths()[0]
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(lengths), max_size=len(lengths)))
    y = LoDTensor(np.zeros(sum(counts)), [counts])
    rows, made = [], []
    for piece, count in zip(pieces_of(list(range(x.rows)), lengths), counts, strict=True):
        for _ in range(count):
            rows += piece
            made.append(len(piece))
    for backend in BACKENDS:
        found = sequence_expand(x, y, backend=backend)
        assert found.recursive_sequence_lengths() == [made]
        assert found.data.tobytes() == b"".join(x.data[row].tobytes() for row in rows)
