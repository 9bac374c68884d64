"""sequence_erase and sequence_enumerate: PaddlePaddle 2.6.2, by hand, loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.ids.ids import sequence_enumerate, sequence_erase
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests import oracles_ids
from tests.cases_ops import compiled, golden, on_every_backend, same
from tests.golden_data import GoldenCase, rejected_cases
from tests.oracles import lengths_of, rows_of, tree_of
from tests.strategies import LAYOUTS, laid_out, lods

INTEGERS = st.sampled_from(["int64", "int32", "uint8"])


@on_every_backend
@golden("sequence_erase", 14)
def test_golden_erase(case: GoldenCase, backend: Backend) -> None:
    x = case.tensor("X")
    same(sequence_erase(x, case.attrs["tokens"], backend=backend), case.outputs["Out"])


@on_every_backend
@golden("sequence_enumerate", 7)
def test_golden_enumerate(case: GoldenCase, backend: Backend) -> None:
    x, size, pad = case.tensor("X"), case.attrs["win_size"], case.attrs["pad_value"]
    same(sequence_enumerate(x, size, pad_value=pad, backend=backend), case.outputs["Out"])


@on_every_backend
def test_a_token_the_dtype_cannot_hold_erases_nothing(backend: Backend) -> None:
    ids = LoDTensor(np.array([0, 255, 1], np.uint8), [[3]])
    assert sequence_erase(ids, [-1, 256, 1], backend=backend).data.tolist() == [0, 255]
    big = LoDTensor(np.array([2**63, 2**63 + 1], np.uint64), [[2]])
    assert sequence_erase(big, [2**63], backend=backend).data.tolist() == [2**63 + 1]
    assert sequence_erase(big, [], backend=backend).identical(big)


@on_every_backend
def test_an_upper_level_looks_past_the_sentence(backend: Backend) -> None:
    ids = LoDTensor(np.array([1, 2, 3, 4]), LoD.from_lengths([[2, 1], [1, 2, 1]]))
    out = sequence_enumerate(ids, 3, level=0, pad_value=-7, backend=backend)
    assert out.data.tolist() == [[1, 2, 3], [2, 3, -7], [3, -7, -7], [4, -7, -7]]
    assert out.lod is ids.lod


@on_every_backend
@compiled
@given(
    lod=lods(min_levels=1),
    tokens=st.lists(st.integers(-1, 4), max_size=4),
    column=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    dtype=INTEGERS,
    seed=st.integers(0, 1000),
)
def test_erase_is_that_of_the_loops(
    backend: Backend, lod: LoD, tokens: list[int], column: bool, layout: str, dtype: str, seed: int
) -> None:
    shape = (lod.rows or 0, 1) if column else (lod.rows or 0,)
    data = np.random.default_rng(seed).integers(0, 5, shape).astype(dtype)
    tensor = LoDTensor(laid_out(data, layout), lod)
    out = sequence_erase(tensor, tokens, backend=backend)

    def left(tree: Any, depth: int) -> Any:
        if depth == 0:
            return [row for row in tree if data.ravel()[row] not in tokens]
        return [left(inner, depth - 1) for inner in tree]

    tree = left(tree_of(lod.recursive_sequence_lengths(), tensor.rows), lod.n_levels)
    assert out.recursive_sequence_lengths() == lengths_of(tree, lod.n_levels)
    assert out.lod.names == lod.names
    assert out.dtype == dtype
    assert out.data.tolist() == [data[row].tolist() for row in rows_of(tree)]
    assert out.row_shape == tensor.row_shape


@on_every_backend
@compiled
@given(
    lod=lods(min_levels=1),
    size=st.integers(1, 5),
    pad=st.integers(0, 9),
    layout=st.sampled_from(LAYOUTS),
    dtype=INTEGERS,
    seed=st.integers(0, 1000),
)
def test_enumerate_is_that_of_the_loops(
    backend: Backend, lod: LoD, size: int, pad: int, layout: str, dtype: str, seed: int
) -> None:
    level = seed % lod.n_levels
    data = np.random.default_rng(seed).integers(0, 100, lod.rows or 0).astype(dtype)
    tensor = LoDTensor(laid_out(data, layout), lod)
    out = sequence_enumerate(tensor, size, pad_value=pad, level=level, backend=backend)
    wanted = []
    for ids in oracles_ids.sequences(data, lod.absolute(level)):
        wanted += oracles_ids.enumerated(ids.tolist(), size, pad)
    assert out.data.tolist() == wanted
    assert out.data.shape == (tensor.rows, size)
    assert out.dtype == dtype
    assert out.lod is lod


@pytest.mark.parametrize("identity", ["reject039", "reject040"])
def test_refused_erasures_are_refused(identity: str) -> None:
    case = rejected_cases("sequence_erase")[identity]
    assert case.note == "reject"
    with pytest.raises(LodError):
        sequence_erase(case.tensor("X"), case.attrs["tokens"])


@on_every_backend
def test_enumerate_takes_a_window_of_one_and_the_last_level(backend: Backend) -> None:
    cases = rejected_cases("sequence_enumerate")
    assert list(cases) == ["reject041", "reject042"]
    one = cases["reject041"].tensor("X")
    assert sequence_enumerate(one, 1, backend=backend).identical(one)
    two = cases["reject042"].tensor("X")
    out = sequence_enumerate(two, 2, backend=backend)
    assert out.lod is two.lod
    wanted = []
    for ids in oracles_ids.sequences(two.data.ravel(), two.lod.levels[-1]):
        wanted += oracles_ids.enumerated(ids.tolist(), 2, 0)
    assert out.data.tolist() == wanted


def test_invalid_ids_are_errors() -> None:
    ids = LoDTensor(np.array([1, 2], np.uint8), [[2]])
    with pytest.raises(SelectionError, match="no levels"):
        sequence_erase(LoDTensor(np.array([1])), [1])
    with pytest.raises(InvalidDataError, match="whole numbers, found float64"):
        sequence_erase(LoDTensor(np.zeros(2), [[2]]), [1])
    with pytest.raises(InvalidDataError, match=r"tokens must be whole numbers, found 1\.5"):
        sequence_erase(ids, [1.5])  # type: ignore[list-item]
    with pytest.raises(InvalidDataError, match="pad_value -1 does not fit uint8"):
        sequence_enumerate(ids, 2, pad_value=-1)
    with pytest.raises(InvalidDataError, match="win_size must be at least 1, found 0"):
        sequence_enumerate(ids, 0)
