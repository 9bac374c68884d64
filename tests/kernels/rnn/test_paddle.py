"""Paddle's weight layouts: blocks by hand, round trips, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.rnn.stack.paddle_layout import (
    gru_from_paddle,
    gru_to_paddle,
    lstm_blocks_from_paddle,
    lstm_blocks_to_paddle,
    lstm_from_paddle,
    lstm_to_paddle,
)
from lodcli.kernels.rnn.stack.stack import seeded_weights


def test_lstm_blocks_move_from_cifo_to_ifgo_and_back() -> None:
    cifo = np.array([[10, 11, 20, 21, 30, 31, 40, 41]])
    ifgo = [[20, 21, 30, 31, 10, 11, 40, 41]]  # by hand
    assert lstm_blocks_from_paddle(cifo).tolist() == ifgo
    assert lstm_blocks_to_paddle(np.array(ifgo)).tolist() == cifo.tolist()


def test_a_gru_weight_is_two_matrices_one_after_the_other() -> None:
    # H = 2: flat 0..7 is the (2, 4) update and reset matrix, 8..11 the (2, 2) candidate one.
    weights = gru_from_paddle(np.arange(12.0).reshape(2, 6), None)
    assert weights.weight_hh.tolist() == [[0, 4], [1, 5], [2, 6], [3, 7], [8, 10], [9, 11]]


@pytest.mark.parametrize("use_peepholes", [False, True])
def test_lstm_weights_come_back_as_they_went(use_peepholes: bool) -> None:
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 12)), rng.normal(size=(1, 21 if use_peepholes else 12))
    back = lstm_to_paddle(lstm_from_paddle(weight, bias, use_peepholes))
    np.testing.assert_array_equal(back[0], weight)
    assert back[1] is not None
    np.testing.assert_array_equal(back[1], bias)
    without = lstm_to_paddle(lstm_from_paddle(weight, None, False))
    np.testing.assert_array_equal(without[0], weight)
    assert without[1] is None


def test_gru_weights_come_back_as_they_went() -> None:
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 9)), rng.normal(size=(1, 9))
    back = gru_to_paddle(gru_from_paddle(weight, bias))
    np.testing.assert_array_equal(back[0], weight)
    assert back[1] is not None
    np.testing.assert_array_equal(back[1], bias)


def test_weights_that_paddle_cannot_store_are_errors() -> None:
    rng = np.random.default_rng(0)
    two_biases: Any = seeded_weights("gru_paddle", 5, 3, rng=rng).layers[0][0]
    with pytest.raises(InvalidDataError, match="bias_hh: Paddle's gru does not have it"):
        gru_to_paddle(two_biases)
    projected: Any = seeded_weights("lstm", 5, 3, projection_size=2, bias=False, rng=rng)
    with pytest.raises(InvalidDataError, match="weight_hr: Paddle's lstm does not have it"):
        lstm_to_paddle(projected.layers[0][0])
    peeping: Any = seeded_weights("lstm", 5, 3, peepholes=True, bias=False, rng=rng)
    with pytest.raises(InvalidDataError, match="peepholes: Paddle's lstm keeps them in its bias"):
        lstm_to_paddle(peeping.layers[0][0])


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda: lstm_from_paddle(np.ones((3, 9)), None, False), r"Weight: expected shape .H, 4H."),
        (lambda: lstm_from_paddle(np.ones(12), None, False), r"Weight: expected shape .H, 4H."),
        (lambda: lstm_from_paddle(np.ones((3, 12)), np.ones((1, 12)), True), r"Bias: .*\(1, 21\)"),
        (lambda: lstm_from_paddle(np.ones((3, 12)), None, True), r"Bias: peepholes need .*\(1, 21"),
        (
            lambda: lstm_from_paddle(np.ones((3, 12)), None, False, weight_x=np.ones((5, 9))),
            r"WeightX: expected shape \(5, 12\), found \(5, 9\)",
        ),
        (lambda: gru_from_paddle(np.ones((3, 12)), None), r"Weight: expected shape .H, 3H."),
        (lambda: gru_from_paddle(np.ones((3, 9)), np.ones(9)), r"Bias: expected shape \(1, 9\)"),
        (
            lambda: gru_from_paddle(np.ones((3, 9)), None, weight_x=np.ones((5, 8))),
            r"WeightX: expected shape \(5, 9\), found \(5, 8\)",
        ),
        (lambda: lstm_blocks_from_paddle(np.ones((2, 7))), "expected 4 blocks on the last axis"),
    ],
)
def test_shapes_that_do_not_fit_are_named(convert: Callable[[], object], message: str) -> None:
    with pytest.raises((InvalidDataError, ShapeMismatchError), match=message):
        convert()
