"""run_rnn: an RNN over the sequences of a level of a LoDTensor."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.stack.run import run_rnn
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights, stack_forward
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.oracles_rnn import Array, close

# The design's example with an empty sentence: articles of 3, 1, 2, 0 sentences.
LOD = LoD.from_lengths([[3, 1, 3, 0], [3, 2, 4, 1, 2, 0, 3]], names=["article", "sentence"])
ONE = np.ones((1, 1))
SUM = RNNWeights(((ElmanWeights(weight_ih=ONE, weight_hh=ONE, nonlinearity="identity"),),))


def make(cell: str = "lstm", **shape: Any) -> RNNWeights:
    return seeded_weights(cell, 5, 3, rng=np.random.default_rng(0), dtype=np.float64, **shape)


def test_running_totals_worked_by_hand() -> None:
    words = LoDTensor(np.arange(15.0), LOD)
    sentences = run_rnn(words, SUM)
    assert sentences.all.data[:, 0].tolist() == (
        [0, 1, 3, 3, 7, 5, 11, 18, 26, 9, 10, 21, 12, 25, 39]
    )
    assert sentences.last.data[:, 0].tolist() == [3, 7, 26, 9, 21, 0, 39]
    articles = run_rnn(words, SUM, level="article")
    assert articles.all.data[8, 0] == sum(range(9))
    assert articles.last.data[:, 0].tolist() == [36, 9, 60, 0]
    backwards = run_rnn(words, SUM, level=0, reverse=True)
    assert backwards.all.data[10:, 0].tolist() == [60, 50, 39, 27, 14]
    assert backwards.last.data[:, 0].tolist() == [36, 9, 60, 0]


def test_rows_and_weights_are_cast_to_a_dtype_that_is_given() -> None:
    weights = seeded_weights("lstm", 2, 3, rng=np.random.default_rng(1))
    rows = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    tensor = LoDTensor(rows, LoD.from_lengths([[3, 1]]))
    whole = run_rnn(tensor, weights)
    half = run_rnn(tensor, weights, dtype="float16")
    assert half.all.dtype == half.last_hidden.dtype == np.float16
    assert half.last_cell is not None
    assert half.last_cell.dtype == np.float16
    # A digit of float16 of values below 1.
    np.testing.assert_allclose(half.all.data, whole.all.data, atol=2e-3)
    assert run_rnn(tensor.with_data(rows.astype(np.float16)), weights).all.dtype == np.float32


def test_all_keeps_the_very_index_and_last_the_levels_above() -> None:
    words = LoDTensor(np.zeros((15, 5)), LOD)
    run = run_rnn(words, make(bidirectional=True))
    assert run.all.lod is LOD
    assert run.last.lod == LoD.from_lengths([[3, 1, 3, 0]], names=["article"])
    assert run.all.data.shape == (15, 6)
    assert run.last.data.shape == (7, 6)
    outer = run_rnn(words, make(), level=0)
    assert outer.all.lod is LOD
    assert len(outer.last.lod.levels) == 0
    assert outer.last.data.shape == (4, 3)


def test_last_states_of_one_level_are_the_rows_of_the_level_above() -> None:
    # Nested RNN: sentences over words, then articles over sentence states.
    rng = np.random.default_rng(1)
    words = LoDTensor(rng.normal(size=(15, 5)), LOD)
    inner = run_rnn(words, make("gru")).last
    outer_weights = seeded_weights("elman", 3, 2, rng=rng)
    outer = run_rnn(inner, outer_weights)
    assert outer.all.data.shape == (7, 2)
    assert outer.last.data.shape == (4, 2)
    wanted = stack_forward(inner.data, np.array([0, 3, 4, 7, 7]), outer_weights)
    close(outer.last.data, wanted.last_hidden[0], 0)


def test_last_is_the_last_layers_both_directions() -> None:
    rng = np.random.default_rng(2)
    words = LoDTensor(rng.normal(size=(15, 5)), LOD)
    weights = make(layers=2, bidirectional=True)
    hidden, cell = rng.normal(size=(4, 7, 3)), rng.normal(size=(4, 7, 3))
    run = run_rnn(words, weights, initial_hidden=hidden, initial_cell=cell)
    ends = LOD.absolute(1)[1:] - 1
    starts = LOD.absolute(1)[:-1]
    full = LOD.lengths(1) > 0
    close(run.last.data[full, :3], run.all.data[ends[full], :3], 0)
    close(run.last.data[full, 3:], run.all.data[starts[full], 3:], 0)
    # The empty sentence, number 5, gives back where it began.
    close(run.last.data[5], np.concatenate([hidden[2, 5], hidden[3, 5]]), 0)
    close(run.last_hidden[:, 5], hidden[:, 5], 0)
    assert run.last_cell is not None
    close(run.last_cell[:, 5], cell[:, 5], 0)


def test_states_can_be_handed_on_to_the_next_run() -> None:
    rng = np.random.default_rng(3)
    rows, weights = rng.normal(size=(6, 5)), make(layers=2)
    whole = run_rnn(LoDTensor(rows, [[6]]), weights)
    first = run_rnn(LoDTensor(rows[:4], [[4]]), weights)
    second = run_rnn(
        LoDTensor(rows[4:], [[2]]),
        weights,
        initial_hidden=first.last_hidden,
        initial_cell=first.last_cell,
    )
    close(second.all.data, whole.all.data[4:], 1e-14)
    close(second.last.data, whole.last.data, 1e-14)


@pytest.mark.parametrize(
    ("dtype", "computed"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (">f8", np.float64),
        (np.float16, np.float32),
        (ml_dtypes.bfloat16, np.float32),
        (np.int64, np.float32),
        (np.uint8, np.float32),
        (np.bool_, np.float32),
    ],
)
def test_data_are_computed_in_the_dtype_that_holds_them(dtype: Any, computed: type) -> None:
    rows = np.array([1, 0, 1, 1, 0]).astype(dtype)
    run = run_rnn(LoDTensor(rows, [[2, 3]]), SUM)
    assert run.all.data.dtype == computed
    assert run.all.data[:, 0].tolist() == [1, 1, 1, 2, 2]


def test_rows_of_any_shape_are_taken_flat() -> None:
    rng = np.random.default_rng(4)
    weights = seeded_weights("gru", 6, 3, rng=rng)
    rows: Array = rng.normal(size=(15, 2, 3))
    folded = run_rnn(LoDTensor(rows, LOD), weights)
    flat = run_rnn(LoDTensor(rows.reshape(15, 6), LOD), weights)
    close(folded.all.data, flat.all.data, 0)
    assert run_rnn(LoDTensor(np.zeros((0, 2, 3)), [[0]]), weights).all.data.shape == (0, 3)


def test_a_batch_of_no_sequences_gives_empty_results() -> None:
    run = run_rnn(LoDTensor(np.zeros((0, 5)), LoD([[0], [0]])), make())
    assert run.all.data.shape == (0, 3)
    assert run.last.data.shape == (0, 3)
    assert run.last.lod == LoD([[0]])


def test_results_are_shown_in_one_line() -> None:
    weights = seeded_weights("gru", 3, 4, rng=np.random.default_rng(0))
    found = run_rnn(LoDTensor(np.ones((60, 3), np.float32), [[20, 40]]), weights, keep=True)
    assert repr(found) == (
        "RNNOutput(all=LoDTensor(60 x 4 float32), last=LoDTensor(2 x 4 float32), "
        "last_hidden=float32 (1, 2, 4), tape=<StackTape>)"
    )
    assert repr(weights) == (
        "RNNWeights(layers=((GRUWeights(weight_ih=float32 (12, 3), weight_hh=float32 (12, 4), "
        "bias_ih=float32 (12,), bias_hh=float32 (12,)),),))"
    )


def test_tensors_that_cannot_be_run_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="run_rnn: expected a tensor of at least one level"):
        run_rnn(LoDTensor(np.zeros((3, 5))), make())
    with pytest.raises(InvalidDataError, match="data: expected real numbers, found complex128"):
        run_rnn(LoDTensor(np.zeros((3, 5), complex), [[3]]), make())
    with pytest.raises(SelectionError, match="no level 2"):
        run_rnn(LoDTensor(np.zeros((15, 5)), LOD), make(), level=2)
