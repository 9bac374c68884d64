"""rnn_forward: by hand, by the book, and what it refuses."""

from __future__ import annotations

import dataclasses
import pickle
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import (
    InvalidDataError,
    InvalidLoDError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.engine.engine import RNNResult, States, rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.stack import seeded_weights
from tests.cells_rnn import STEPPED, VARIANTS, cell_weights, initial_states
from tests.oracles_rnn import Array, close, cut, offsets_of, rnn_by_the_book

LENGTHS = [2, 0, 4, 1, 4, 3, 0]  # ties, empty ones inside and last
ONE = np.ones((1, 1))


def run(
    variant: str, lengths: list[int], seed: int, *, reverse: bool, order: list[int] | None = None
) -> tuple[RNNResult[CellWeights], list[Array], CellWeights, States]:
    """Run random data; `order` rearranges the same sequences and states within the batch."""
    rng = np.random.default_rng(seed)
    weights = cell_weights(variant, rng)
    hidden, *cells = initial_states(weights, len(lengths), rng)
    cell = cells[0] if cells else np.zeros((len(lengths), weights.hidden_size))
    sequences = [rng.normal(size=(length, 5)) for length in lengths]
    if order is not None:
        sequences, hidden, cell = [sequences[i] for i in order], hidden[order], cell[order]
    data = np.concatenate([np.zeros((0, 5)), *sequences])
    is_lstm = len(weights.state_sizes) == 2
    states = States(hidden=hidden, cell=cell if is_lstm else None)
    result = rnn_forward(
        data,
        offsets_of([len(rows) for rows in sequences]),
        weights,
        initial=states,
        reverse=reverse,
    )
    return result, sequences, weights, dataclasses.replace(states, cell=cell)


def check_by_the_book(variant: str, lengths: list[int], seed: int, *, reverse: bool) -> None:
    result, sequences, weights, states = run(variant, lengths, seed, reverse=reverse)
    assert states.hidden is not None
    assert states.cell is not None
    hiddens, cells, last_hidden, last_cell = rnn_by_the_book(
        sequences, weights, hidden=states.hidden, cell=states.cell, reverse=reverse
    )
    close(result.outputs, np.concatenate([np.zeros((0, weights.output_size)), *hiddens]), 1e-13)
    close(result.last_hidden, last_hidden, 1e-13)
    if len(weights.state_sizes) == 2:
        close(result.cells, np.concatenate([np.zeros((0, weights.state_sizes[1])), *cells]), 1e-13)
        close(result.last_cell, last_cell, 1e-13)
    else:
        assert result.cells is None
        assert result.last_cell is None


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_agrees_with_one_sequence_at_a_time(variant: str, reverse: bool) -> None:
    check_by_the_book(variant, LENGTHS, 3, reverse=reverse)


@given(
    st.sampled_from(list(VARIANTS)),
    st.lists(st.integers(0, 6), max_size=7),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_any_batch_agrees_with_one_sequence_at_a_time(
    variant: str, lengths: list[int], seed: int, reverse: bool
) -> None:
    check_by_the_book(variant, lengths, seed, reverse=reverse)


@given(
    st.sampled_from(list(VARIANTS)),
    st.lists(st.integers(0, 5), min_size=1, max_size=6).flatmap(
        lambda lengths: st.tuples(st.just(lengths), st.permutations(range(len(lengths))))
    ),
    st.booleans(),
)
def test_the_order_of_the_batch_does_not_matter(
    variant: str, batch: tuple[list[int], list[int]], reverse: bool
) -> None:
    lengths, order = batch
    plain, sequences, _, _ = run(variant, lengths, 5, reverse=reverse)
    moved, moved_sequences, _, _ = run(variant, lengths, 5, reverse=reverse, order=order)
    outputs = cut(plain.outputs, offsets_of([len(s) for s in sequences]).tolist())
    moved_outputs = cut(moved.outputs, offsets_of([len(s) for s in moved_sequences]).tolist())
    for place, sequence in enumerate(order):
        # Another place in the batch may take another path through BLAS.
        close(moved_outputs[place], outputs[sequence], 1e-13)
        close(moved.last_hidden[place], plain.last_hidden[sequence], 1e-13)
    assert sorted(order) == list(range(len(lengths)))


@pytest.mark.parametrize(
    ("reverse", "outputs", "last"),
    [
        # h' = x + h/2 from h = 8, 4, 2: by hand.
        (False, [[5.0], [4.5], [6.0]], [[4.5], [4.0], [6.0]]),
        (True, [[4.0], [6.0], [6.0]], [[4.0], [4.0], [6.0]]),
    ],
)
def test_a_run_worked_by_hand(
    reverse: bool, outputs: list[list[float]], last: list[list[float]]
) -> None:
    weights = ElmanWeights(weight_ih=ONE, weight_hh=ONE / 2, nonlinearity="identity")
    data = np.array([[1.0], [2.0], [5.0]])
    result = rnn_forward(
        data,
        np.array([0, 2, 2, 3]),
        weights,
        initial=States(hidden=np.array([[8.0], [4.0], [2.0]])),
        reverse=reverse,
    )
    np.testing.assert_array_equal(result.outputs, outputs)
    np.testing.assert_array_equal(result.last_hidden, last)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_a_batch_without_rows_gives_back_its_initial_states(
    variant: str, lengths: list[int]
) -> None:
    result, _, weights, states = run(variant, lengths, 1, reverse=False)
    assert result.outputs.shape == (0, weights.output_size)
    np.testing.assert_array_equal(result.last_hidden, states.hidden)
    if result.last_cell is not None:
        np.testing.assert_array_equal(result.last_cell, states.cell)


def test_last_states_start_from_zero_where_none_is_given() -> None:
    rng = np.random.default_rng(0)
    weights = cell_weights("lstm", rng)
    data = rng.normal(size=(3, 5))
    zeros = np.zeros((2, 3))
    given_zeros = States(hidden=zeros, cell=zeros)
    with_zeros = rnn_forward(data, np.array([0, 3, 3]), weights, initial=given_zeros)
    for states in (None, States(), States(hidden=zeros), States(cell=zeros)):
        result = rnn_forward(data, np.array([0, 3, 3]), weights, initial=states)
        np.testing.assert_array_equal(result.outputs, with_zeros.outputs)
        close(result.last_cell, with_zeros.last_cell, 0)


@pytest.mark.parametrize("variant", STEPPED)
def test_projected_data_give_the_same_as_the_engines_own_projection(variant: str) -> None:
    rng = np.random.default_rng(4)
    weights = cell_weights(variant, rng)
    data, offsets = rng.normal(size=(9, 5)), offsets_of([2, 4, 0, 3])
    assert weights.weight_ih is not None
    without = dataclasses.replace(weights, weight_ih=None)
    plain = rnn_forward(data, offsets, weights, keep=True)
    projected = rnn_forward(data @ weights.weight_ih.T, offsets, without, keep=True)
    np.testing.assert_array_equal(projected.outputs, plain.outputs)
    assert plain.tape is not None
    assert projected.tape is not None
    grad = rng.normal(size=plain.outputs.shape)
    through = rnn_backward(plain.tape, grad_outputs=grad)
    direct = rnn_backward(projected.tape, grad_outputs=grad)
    close(direct.input @ weights.weight_ih, through.input, 1e-13)
    close(direct.weights.weight_hh, through.weights.weight_hh, 1e-13)
    assert direct.weights.weight_ih is None


@pytest.mark.parametrize("variant", VARIANTS)
def test_float32_data_are_computed_in_float32(variant: str) -> None:
    rng = np.random.default_rng(6)
    weights = cell_weights(variant, rng)
    data, offsets = rng.normal(size=(9, 5)), offsets_of([2, 4, 0, 3])
    double = rnn_forward(data, offsets, weights)
    single = rnn_forward(data.astype(np.float32), offsets, weights, keep=True)
    assert single.tape is not None
    gradients = rnn_backward(single.tape, grad_outputs=np.ones_like(single.outputs))
    assert single.outputs.dtype == single.last_hidden.dtype == np.float32
    assert gradients.input.dtype == gradients.weights.dtype == np.float32
    # Four steps of sums of eight float32 products each.
    close(single.outputs, double.outputs, 4e-6)


def test_a_run_changes_nothing_it_was_given() -> None:
    rng = np.random.default_rng(2)
    weights = cell_weights("lstm-everything", rng)
    # A strided, read-only view: every other row of a wider array.
    data = np.asfortranarray(rng.normal(size=(18, 7)))[::2, 1:6]
    states = States(hidden=rng.normal(size=(4, 2)), cell=rng.normal(size=(4, 3)))
    frozen = [data, offsets_of([2, 4, 0, 3]), *weights.arrays().values()]
    frozen += [array for array in (states.hidden, states.cell) if array is not None]
    before = [array.copy() for array in frozen]
    for array in frozen:
        array.flags.writeable = False
    result = rnn_forward(data, frozen[1], weights, initial=states, keep=True)
    assert result.tape is not None
    first = rnn_backward(result.tape, grad_outputs=np.ones((9, 2)))
    again = rnn_backward(result.tape, grad_outputs=np.ones((9, 2)))
    np.testing.assert_array_equal(first.input, again.input)
    contiguous = rnn_forward(data.copy(), frozen[1], weights, initial=states)
    close(result.outputs, contiguous.outputs, 1e-14)
    for array, copy in zip(frozen, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_tape_does_not_change_with_the_offsets_of_the_caller(backend: Any) -> None:
    rng = np.random.default_rng(3)
    offsets, rows = np.array([0, 2, 3, 7]), rng.normal(size=(7, 3))
    weights = seeded_weights("gru", 3, 4, rng=rng, dtype=np.float64).layers[0][0]
    run = rnn_forward(rows, offsets, weights, keep=True, backend=backend)
    before = rnn_backward(run.tape, grad_outputs=run.outputs)
    offsets[1:] = 0
    after = rnn_backward(run.tape, grad_outputs=run.outputs)
    np.testing.assert_array_equal(after.input, before.input)
    np.testing.assert_array_equal(after.weights.weight_hh, before.weights.weight_hh)


def test_no_tape_is_kept_unless_asked_for() -> None:
    data, weights = np.ones((2, 1)), ElmanWeights(weight_ih=ONE, weight_hh=ONE)
    assert rnn_forward(data, np.array([0, 2]), weights).tape is None
    tape = rnn_forward(data, np.array([0, 2]), weights, keep=True, backend="numpy").tape
    assert tape is not None
    assert len(tape.kept) == 2


def test_nothing_is_padded() -> None:
    # One sequence of 500 rows among 500 of one. Padded, the projected inputs alone would
    # be 501 x 500 x 12 float64, 24 MB; unpadded they are 96 kB, and the tape is not much more.
    rng = np.random.default_rng(0)
    lengths = [1] * 250 + [500] + [1] * 250
    weights = cell_weights("lstm", rng)
    data = rng.normal(size=(sum(lengths), 5))
    tracemalloc.start()
    try:
        tape = rnn_forward(data, offsets_of(lengths), weights, keep=True, backend="numpy").tape
        assert tape is not None
        rnn_backward(tape, grad_outputs=np.ones((len(data), 3)))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 6_000_000
    assert sum(len(step[0]) for step in tape.kept) == len(data)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight_hh": np.ones((12, 2))}, r"weight_hh_l0: expected shape \(12, 3\), found \(12, 2"),
        ({"weight_hh": np.ones(12)}, r"weight_hh_l0: expected 2 dimensions, found shape \(12,\)"),
        ({"weight_hh": np.ones((11, 3))}, r"weight_hh_l0: expected 4 blocks of rows \(lstm\), fou"),
        ({"weight_ih": np.ones((9, 5))}, r"weight_ih_l0: expected shape \(12, 5\), found \(9, 5\)"),
        ({"weight_ih": np.ones(12)}, r"weight_ih_l0: expected 2 dimensions, found shape \(12,\)"),
        ({"bias_ih": np.ones((1, 12))}, r"bias_ih_l0: expected shape \(12,\), found \(1, 12\)"),
        ({"bias_hh": np.ones(3)}, r"bias_hh_l0: expected shape \(12,\), found \(3,\)"),
        ({"peepholes": np.ones((3, 4))}, r"peepholes_l0: expected shape \(3, 3\), found \(3, 4\)"),
        ({"weight_hr": np.ones((2, 4))}, r"weight_hh_l0: expected shape \(12, 2\), found \(12, 3"),
        ({"weight_hr": np.ones(2)}, r"weight_hr_l0: expected 2 dimensions, found shape \(2,\)"),
        ({"gate_activation": "soft"}, "activation: expected one of sigmoid.* found 'soft'"),
        ({"bias_hh": np.ones(12, complex)}, "bias_hh_l0: expected real numbers, found complex128"),
    ],
)
def test_weights_that_do_not_fit_are_named(changes: dict[str, Any], message: str) -> None:
    weights = cell_weights("lstm", np.random.default_rng(0))
    wrong = dataclasses.replace(weights, **changes)
    with pytest.raises(InvalidDataError, match=message):
        rnn_forward(np.ones((3, 5)), np.array([0, 3]), wrong, suffix="_l0")


def test_an_array_resized_in_place_since_the_last_run_is_refused() -> None:
    weights = dataclasses.replace(
        cell_weights("gru", np.random.default_rng(0)), bias_hh=np.zeros(9)
    )
    rnn_forward(np.ones((3, 5)), np.array([0, 3]), weights)
    assert weights.bias_hh is not None
    weights.bias_hh.resize(1, refcheck=False)
    with pytest.raises(ShapeMismatchError, match=r"bias_hh: expected shape \(9,\), found \(1,\)"):
        rnn_forward(np.ones((3, 5)), np.array([0, 3]), weights)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            np.ones((3, 5), np.int64),
            "data: expected float16, bfloat16, float32 or float64, found int64",
        ),
        (np.ones((3, 4)), r"data: expected \(N, 5\) for weight_ih, found \(3, 4\)"),
        (np.ones(3), r"data: expected \(N, 5\) for weight_ih, found \(3,\)"),
    ],
)
def test_data_that_do_not_fit_are_refused(data: Array, message: str) -> None:
    weights = cell_weights("gru", np.random.default_rng(0))
    with pytest.raises(InvalidDataError, match=message):
        rnn_forward(data, np.array([0, 3]), weights)


def test_offsets_that_do_not_fit_are_refused() -> None:
    weights = cell_weights("gru", np.random.default_rng(0))
    with pytest.raises(InvalidLoDError, match="number of rows"):
        rnn_forward(np.ones((3, 5)), np.array([0, 2]), weights)


@pytest.mark.parametrize(
    ("variant", "states", "message"),
    [
        ("lstm", States(hidden=np.ones((1, 3))), r"initial hidden: expected shape \(2, 3\), found"),
        ("lstm", States(cell=np.ones((2, 2))), r"initial cell: expected shape \(2, 3\), found"),
        ("gru", States(hidden=np.ones((2, 3), complex)), "initial hidden: expected real numbers"),
    ],
)
def test_initial_states_that_do_not_fit_are_refused(
    variant: str, states: States, message: str
) -> None:
    weights = cell_weights(variant, np.random.default_rng(0))
    with pytest.raises(InvalidDataError, match=message):
        rnn_forward(np.ones((3, 5)), np.array([0, 1, 3]), weights, initial=states)


def test_a_cell_state_for_a_cell_without_one_is_unsupported() -> None:
    weights, offsets = cell_weights("gru", np.random.default_rng(0)), np.array([0, 1, 3])
    with pytest.raises(UnsupportedError, match=r"initial cell: .* gru has no cell state"):
        rnn_forward(np.ones((3, 5)), offsets, weights, initial=States(cell=np.ones((2, 3))))
    tape = rnn_forward(np.ones((3, 5)), offsets, weights, keep=True).tape
    assert tape is not None
    with pytest.raises(UnsupportedError, match=r"grad_last cell: .* gru has no cell state"):
        rnn_backward(tape, grad_last_cell=np.ones((2, 3)))


def test_gradients_that_do_not_fit_are_refused() -> None:
    weights = cell_weights("gru", np.random.default_rng(0))
    tape = rnn_forward(np.ones((3, 5)), np.array([0, 1, 3]), weights, keep=True).tape
    assert tape is not None
    with pytest.raises(ShapeMismatchError, match=r"grad hidden: expected shape \(3, 3\), found"):
        rnn_backward(tape, grad_outputs=np.ones((2, 3)))
    with pytest.raises(ShapeMismatchError, match=r"grad_last hidden: expected shape \(2, 3\)"):
        rnn_backward(tape, grad_last_hidden=np.ones((3, 3)))


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), deepcopy])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("cell", ["lstm", "slstm", "s5"])
def test_a_result_with_a_tape_can_be_pickled(
    cell: str, dtype: str, again: Callable[[Any], Any]
) -> None:
    """Enough work for compiled kernels, which a dispatcher of this process calls."""
    rng = np.random.default_rng(0)
    weights = seeded_weights(cell, 64, 128, rng=rng).layers[0][0]
    data = rng.normal(size=(300, 64)).astype(dtype)
    result = rnn_forward(data, offsets_of([200, 100]), weights, keep=True)
    grads = rng.normal(size=result.outputs.shape).astype(dtype)
    found = []
    for one in (result, again(result)):
        assert one.tape is not None
        found.append(rnn_backward(one.tape, grad_outputs=grads))
    np.testing.assert_array_equal(found[0].input, found[1].input)


@pytest.mark.parametrize("backend", ["auto", "numba"])
def test_matrices_and_masked_arrays_are_refused(backend: Any) -> None:
    plain, offsets = np.ones((2, 2)), np.array([0, 2])
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(plain)
    for array in (matrix, np.ma.masked_equal(np.eye(2), 0)):
        kind = f"expected a plain array, found a {type(array).__name__}"
        weights = ElmanWeights(weight_ih=array, weight_hh=plain)
        with pytest.raises(InvalidDataError, match=f"weight_ih: {kind}"):
            rnn_forward(plain, offsets, weights, backend=backend)
        weights = ElmanWeights(weight_ih=plain, weight_hh=plain)
        with pytest.raises(InvalidDataError, match=f"data: {kind}"):
            rnn_forward(array, offsets, weights, backend=backend)
