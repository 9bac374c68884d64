"""Reversed sequences against PaddlePaddle 2.6.2, plain loops, and by hand, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing.reverse import sequence_reverse
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, golden, golden_rejects, on_every_backend
from tests.golden_data import GoldenCase, tensor_of
from tests.oracles import gathered, lengths_of, rows_of, sequences_of, tree_of
from tests.strategies import tensors


@on_every_backend
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 24, 32, 64])
def test_rows_of_any_width_are_reversed(width: int, backend: Backend) -> None:
    lengths = [70, 0, 1, 3, 5, 17, 0, 33]
    rows = np.random.default_rng(0).integers(0, 255, (sum(lengths), width), np.uint8)
    parts = np.split(rows, np.cumsum(lengths)[:-1])
    expected = np.concatenate([part[::-1] for part in parts])
    found = sequence_reverse(LoDTensor(rows, [lengths]), backend=backend)
    np.testing.assert_array_equal(found.data, expected)


@on_every_backend
@golden("sequence_reverse")
def test_golden(case: GoldenCase, backend: Backend) -> None:
    x = case.tensor("X")
    assert sequence_reverse(x, backend=backend).identical(tensor_of(case.outputs["Y"]))
    if case.upstream:
        upstream = tensor_of(case.upstream["Y"])
        assert sequence_reverse(upstream, backend=backend).identical(tensor_of(case.grads["X"]))


@golden_rejects("sequence_reverse")
def test_golden_rejects(case: GoldenCase) -> None:
    x = case.tensor("X")
    if case.note == "reject":
        with pytest.raises(SelectionError, match="no levels"):
            sequence_reverse(x)
    else:
        np.testing.assert_array_equal(sequence_reverse(x).data, x.data[[2, 1, 0, 3, 5, 4]])


@on_every_backend
def test_an_upper_level_turns_rows_or_whole_items(backend: Backend) -> None:
    words = LoDTensor(np.arange(6), LoD.from_lengths([[2, 1], [3, 1, 2]]))
    rows = sequence_reverse(words, level=0, backend=backend)
    assert rows.data.tolist() == [3, 2, 1, 0, 5, 4]
    assert rows.recursive_sequence_lengths() == [[2, 1], [1, 3, 2]]
    items = sequence_reverse(words, level=0, items=True, backend=backend)
    assert items.data.tolist() == [3, 0, 1, 2, 4, 5]
    assert items.recursive_sequence_lengths() == [[2, 1], [1, 3, 2]]


def turned(tree: object, level: int, items: bool, depth: int = 0) -> object:
    """Return a tree whose lists below `level` are reversed: all of them, or the first only."""
    if not isinstance(tree, list):
        return tree
    parts = [turned(part, level, items, depth + 1) for part in tree]
    here = depth == level + 1 or (depth > level and not items)
    return parts[::-1] if here else parts


@settings(deadline=None)
@given(tensors(min_levels=1, any_bits=True), st.data(), st.booleans())
def test_any_level_is_turned_as_lists_are(
    tensor: LoDTensor, data: st.DataObject, items: bool
) -> None:
    levels = tensor.lod.n_levels
    level = data.draw(st.integers(0, levels - 1))
    tree = tree_of(tensor.recursive_sequence_lengths(), tensor.rows)
    expected = turned(tree, level, items)
    assert isinstance(expected, list)
    assert len(sequences_of(expected, level)) == tensor.lod.count(level)
    for backend in BACKENDS:
        found = sequence_reverse(tensor, level=level, items=items, backend=backend)
        assert found.recursive_sequence_lengths() == lengths_of(expected, levels)
        assert found.data.tobytes() == gathered(tensor.data, rows_of(expected)).tobytes()
        again = sequence_reverse(found, level=level, items=items, backend=backend)
        assert again.identical(tensor.copy())
