"""Parts and other widths of sequences against PaddlePaddle 2.6.2, loops, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.reshaping.reshape import sequence_reshape, sequence_reshape_grad
from lodcli.kernels.ops.slicing.slice import sequence_slice, sequence_slice_grad
from lodcli.kernels.ops.slicing.truncate import Side, sequence_truncate, sequence_truncate_grad
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, golden, golden_rejects, on_every_backend
from tests.golden_data import GoldenCase, tensor_of
from tests.oracles import gathered, lengths_of, rows_of, tree_of
from tests.oracles_ops import pieces_of
from tests.strategies import tensors


@on_every_backend
@golden("sequence_slice")
def test_golden_slice(case: GoldenCase, backend: Backend) -> None:
    x, start, length = (case.inputs[name] for name in ("X", "Offset", "Length"))
    found = sequence_slice(tensor_of(x), start.data, length.data, backend=backend)
    assert found.identical(tensor_of(case.outputs["Out"]))
    if case.upstream:
        upstream = tensor_of(case.upstream["Out"])
        gradient = sequence_slice_grad(upstream, tensor_of(x), start.data, length.data)
        assert gradient.identical(tensor_of(case.grads["X"]))


@golden("sequence_reshape")
def test_golden_reshape(case: GoldenCase) -> None:
    x = case.tensor("X")
    assert sequence_reshape(x, case.attrs["new_dim"]).identical(tensor_of(case.outputs["Out"]))
    if case.upstream:
        upstream = tensor_of(case.upstream["Out"])
        back = sequence_reshape_grad(upstream, x, case.attrs["new_dim"])
        assert back.identical(tensor_of(case.grads["X"]))


@golden_rejects("sequence_slice")
def test_golden_rejects_of_slice(case: GoldenCase) -> None:
    x, start, length = (case.inputs[name] for name in ("X", "Offset", "Length"))
    if len(x.lod) == 2:  # refused unless a level is chosen
        found = sequence_slice(tensor_of(x), start.data, length.data, level=-1)
        assert found.lod.levels[0].tolist() == x.lod[0]
    with pytest.raises((SelectionError, ShapeMismatchError), match="sequence_slice"):
        sequence_slice(tensor_of(x), start.data, length.data)


@golden_rejects("sequence_reshape")
def test_golden_rejects_of_reshape(case: GoldenCase) -> None:
    x = case.tensor("X")
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
        found = sequence_slice(tensor, start, count, level=-1, backend=backend)
        assert found.recursive_sequence_lengths()[-1] == count
        expected = b"".join(tensor.data[row].tobytes() for part in parts for row in part)
        assert found.data.tobytes() == expected


def test_invalid_arguments_are_errors() -> None:
    words = LoDTensor(np.arange(4.0).reshape(4, 1), [[3, 1]])
    with pytest.raises(ShapeMismatchError, match="sequence 1 has 1 rows, not 2 from 0 on"):
        sequence_slice(words, [0, 0], [3, 2])
    with pytest.raises(ShapeMismatchError, match="not 9223372036854775807 from 1 on"):
        sequence_slice(words, [1, 0], [2**63 - 1, 0])
    with pytest.raises(ShapeMismatchError, match="sequence 1 has 1 rows, not 1 from -1 on"):
        sequence_slice(words, [0, -1], [1, 1])
    with pytest.raises(InvalidDataError, match="offset must be whole numbers, found float64"):
        sequence_slice(words, [0.0, 0.0], [1, 1])
    with pytest.raises(InvalidDataError, match=r"below 2\*\*61, found"):
        sequence_reshape(LoDTensor(np.zeros((2, 1)), [[2]]), 2**70)
    with pytest.raises(InvalidDataError, match="at least 1, found 0"):
        sequence_reshape(words, 0)
    with pytest.raises(SelectionError, match="no levels"):
        sequence_reshape(LoDTensor(np.zeros((2, 2))), 4)


@on_every_backend
def test_whole_sentences_are_cut_out_of_articles(backend: Backend) -> None:
    words = LoDTensor(
        np.arange(10), LoD.from_lengths([[2, 0, 3], [1, 2, 0, 3, 4]], ["article", "sentence"])
    )
    found = sequence_slice(words, [1, 0, 1], [1, 0, 2], level="article", backend=backend)
    assert found.recursive_sequence_lengths() == [[1, 0, 2], [2, 3, 4]]
    assert found.data.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert found.lod.names == ("article", "sentence")
    back = sequence_slice_grad(np.ones(9), words, [1, 0, 1], [1, 0, 2], level=0)
    assert back.data.tolist() == [0] + [1] * 9
    with pytest.raises(ShapeMismatchError, match="sequence 1 has 0 items, not 1 from 0 on"):
        sequence_slice(words, [0, 0, 0], [1, 1, 1], level=0)


@settings(deadline=None)
@given(tensors(min_levels=1, any_bits=True), st.integers(0, 3), st.booleans(), st.data())
def test_truncated_sequences_are_those_of_plain_slices(
    tensor: LoDTensor, length: int, first: bool, data: st.DataObject
) -> None:
    levels = tensor.lod.n_levels
    level = data.draw(st.integers(0, levels - 1))

    def cut(tree: list[Any], depth: int) -> list[Any]:
        if depth <= level:
            return [cut(inner, depth + 1) for inner in tree]
        return tree[:length] if first else tree[max(0, len(tree) - length) :]

    tree = cut(tree_of(tensor.recursive_sequence_lengths(), tensor.rows), 0)
    keep: Side = "first" if first else "last"
    rows = gathered(tensor.data, rows_of(tree))
    for backend in BACKENDS:
        found = sequence_truncate(tensor, length, keep=keep, level=level, backend=backend)
        assert found.recursive_sequence_lengths() == lengths_of(tree, levels)
        assert found.data.tobytes() == rows.tobytes()
        assert found.dtype == tensor.dtype
    flow = np.ones((len(rows), *tensor.row_shape))
    back = sequence_truncate_grad(flow, tensor, length, keep=keep, level=level)
    kept = set(rows_of(tree))
    for row in range(tensor.rows):
        assert (back.data[row] == float(row in kept)).all()


@pytest.mark.parametrize("keep", ["first", "last"])
def test_a_truncation_to_more_than_an_int64_holds_keeps_all(keep: Side) -> None:
    tensor = LoDTensor(np.arange(6), [[3, 1, 2]])
    assert sequence_truncate(tensor, 10**30, keep=keep).to_list() == tensor.to_list()


def test_a_truncation_that_means_nothing_is_refused() -> None:
    words = LoDTensor(np.arange(3), [[3]])
    with pytest.raises(InvalidDataError, match="length must be at least 0, found -1"):
        sequence_truncate(words, -1)
    with pytest.raises(InvalidDataError, match="keep must be 'first' or 'last', found 'middle'"):
        sequence_truncate(words, 1, keep="middle")  # type: ignore[arg-type]
