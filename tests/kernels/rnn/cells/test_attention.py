"""attention_lstm; test_golden_rnn.py compares it with Paddle's."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.rnn.loops.attention_lstm import AttentionLSTMWeights, attention_lstm
from tests.oracles_rnn import Array, close, offsets_of


def make(**changes: Any) -> AttentionLSTMWeights:
    rng = np.random.default_rng(0)
    weights = AttentionLSTMWeights(
        attention_weight=rng.normal(size=(8, 1)),
        lstm_weight=rng.normal(size=(8, 12)),
        lstm_bias=rng.normal(size=(1, 12)),
    )
    return dataclasses.replace(weights, **changes)


def by_the_book(rows: Array, weights: AttentionLSTMWeights, h: Array, c: Array) -> list[Array]:
    def sigmoid(x: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-x)))

    def score(x: Array, c: Array) -> float:
        e = float(np.r_[x, c] @ weights.attention_weight[:, 0])
        if weights.attention_bias is not None:
            e += float(weights.attention_bias[0, 0])
        e = max(0.0, e)
        if weights.attention_scalar is not None:
            bias = weights.attention_scalar_bias
            e *= float(weights.attention_scalar[0, 0])
            e = max(0.0, e + (0.0 if bias is None else float(bias[0, 0])))
        return e

    hiddens = []
    for _ in rows:
        scores = [score(x, c) for x in rows]
        share = np.exp(scores) / np.exp(scores).sum()
        seen = sum(part * x for part, x in zip(share, rows, strict=True))
        f, i, o, g = np.split(np.r_[h, seen] @ weights.lstm_weight + weights.lstm_bias[0], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hiddens.append(h)
    return hiddens


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention_bias": np.array([[0.5]])},
        {"attention_scalar": np.array([[-2.0]])},
        # Small scores come out below 0 and are cut there, large ones are not.
        {"attention_scalar": np.array([[2.0]]), "attention_scalar_bias": np.array([[-1.0]])},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
@pytest.mark.parametrize("lengths", [[2, 0, 4, 1, 4], [0], []])
def test_a_run_agrees_with_one_sequence_at_a_time(
    lengths: list[int], options: dict[str, Array]
) -> None:
    weights = make(**options)
    rng = np.random.default_rng(1)
    offsets = offsets_of(lengths)
    rows = rng.normal(size=(sum(lengths), 5))
    hidden, cell = rng.normal(size=(2, len(lengths), 3))
    found = attention_lstm(rows, offsets, weights, initial_hidden=hidden, initial_cell=cell)
    wanted = [
        state
        for n in range(len(lengths))
        for state in by_the_book(rows[offsets[n] : offsets[n + 1]], weights, hidden[n], cell[n])
    ]
    close(found.outputs, np.array(wanted).reshape(-1, 3), 1e-13)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lstm_bias": np.ones((1, 11))}, r"lstm_bias: expected shape \(1, 4H\), found \(1, 11\)"),
        ({"lstm_weight": np.ones((7, 12))}, r"lstm_weight: expected shape \(8, 12\), found \(7, 1"),
        ({"attention_weight": np.ones(8)}, r"attention_weight: expected shape \(8, 1\), found \(8"),
        ({"attention_bias": np.ones(1)}, r"attention_bias: expected shape \(1, 1\), found \(1,\)"),
        ({"cell_activation": "soft"}, "activation: expected one of .* found 'soft'"),
    ],
)
def test_weights_that_do_not_fit_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        attention_lstm(
            np.ones((3, 5)), np.array([0, 3]), make(**changes), initial_cell=np.ones((1, 3))
        )


def test_data_and_states_that_do_not_fit_are_refused() -> None:
    offsets, cell = np.array([0, 3]), np.ones((1, 3))
    with pytest.raises(InvalidDataError, match="data: expected float32 or float64, found int64"):
        attention_lstm(np.ones((3, 5), np.int64), offsets, make(), initial_cell=cell)
    with pytest.raises(ShapeMismatchError, match=r"data: expected \(N, D\), found shape \(3,\)"):
        attention_lstm(np.ones(3), offsets, make(), initial_cell=cell)
    with pytest.raises(ShapeMismatchError, match=r"initial_cell: expected shape \(1, 3\), found"):
        attention_lstm(np.ones((3, 5)), offsets, make(), initial_cell=np.ones((2, 3)))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e308])
def test_infinite_rows_give_no_warning(value: float) -> None:
    rows = np.ones((3, 5))
    rows[1] = value
    with np.errstate(all="raise"):
        found = attention_lstm(rows, offsets_of([2, 1]), make(), initial_cell=np.ones((2, 3)))
    expected = attention_lstm(rows[2:], offsets_of([1]), make(), initial_cell=np.ones((1, 3)))
    close(found.outputs[2:], expected.outputs, 1e-12)


def test_weights_and_states_out_of_range_give_no_warning() -> None:
    rows = np.ones((2, 5), np.float32)
    weights = make(lstm_bias=np.full((1, 12), 1e300))
    state = np.full((1, 3), -1e300)
    run = attention_lstm(rows, offsets_of([2]), weights, initial_cell=state, initial_hidden=-state)
    assert np.isnan(run.outputs).all()


def test_complex_weights_and_states_are_refused() -> None:
    rows, offsets, state = np.ones((2, 5)), offsets_of([2]), np.zeros((1, 3))
    expected = "expected real numbers, found complex128"
    with pytest.raises(InvalidDataError, match=f"attention_weight: {expected}"):
        attention_lstm(rows, offsets, make(attention_weight=np.ones((8, 1), complex)),
                       initial_cell=state)  # fmt: skip
    for name in ("initial_cell", "initial_hidden"):
        states = {"initial_cell": state, "initial_hidden": state} | {name: state.astype(complex)}
        with pytest.raises(InvalidDataError, match=f"{name}: {expected}"):
            attention_lstm(rows, offsets, make(), **states)
