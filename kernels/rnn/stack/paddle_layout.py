"""Weights in the layouts of Paddle's lstm, gru, fusion_lstm and fusion_gru, and back.

Paddle's lstm and gru take data that are projected already, so their weights come back
without weight_ih. The fusion ops project the data themselves: pass their WeightX as well.

    lstm    Weight (H, 4H), column blocks candidate, input, forget, output
            Bias (1, 4H) in the same order, then with peepholes i, f, o: (1, 7H)
    gru     Weight (H, 3H) in name only: its flat data are an (H, 2H) matrix, columns
            update, reset, and then an (H, H) matrix, candidate
            Bias (1, 3H): update, reset, candidate

A gru keeps its own gate order (gru_paddle.py). An lstm becomes torch's i, f, g, o, and
projected data must follow: `lstm_blocks_from_paddle`.
"""

from __future__ import annotations

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUWeights
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights
from lodcli.kernels.runtime.argument_types import types_explained


def lstm_blocks_from_paddle(blocks: Array) -> Array:
    """Return the four blocks of the last axis, c i f o, in torch's order i f g o.

    >>> lstm_blocks_from_paddle(np.array([[0, 1, 2, 3]])).tolist()
    [[1, 2, 0, 3]]
    """
    c, i, f, o = _blocks(blocks)
    return np.concatenate([i, f, c, o], axis=-1)


def lstm_blocks_to_paddle(blocks: Array) -> Array:
    """Return the four blocks of the last axis, i f g o, in Paddle's order c i f o.

    >>> lstm_blocks_to_paddle(np.array([[1, 2, 0, 3]])).tolist()
    [[0, 1, 2, 3]]
    """
    i, f, g, o = _blocks(blocks)
    return np.concatenate([g, i, f, o], axis=-1)


@types_explained
def lstm_from_paddle(
    weight: Array,
    bias: Array | None,
    use_peepholes: bool,
    *,
    weight_x: Array | None = None,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
) -> LSTMWeights:
    """Return Paddle's LSTM in torch's gate order.

    Args:
        weight: (H, 4H); fusion_lstm's WeightH.
        bias: (1, 4H), (1, 7H) with peepholes, or None for neither.
        use_peepholes: whether the bias's last 3H are peepholes.
        weight_x: (D, 4H), of fusion_lstm; None: the data are projected already, and
            need `lstm_blocks_from_paddle`.

    Raises:
        ShapeMismatchError: a weight does not have its shape.
        InvalidDataError: peepholes without a bias to hold them.
    """
    size = _hidden_size(weight, 4)
    peepholes = None
    if bias is None and use_peepholes:
        raise InvalidDataError(f"Bias: peepholes need one of shape {(1, 7 * size)}, found none")
    if bias is not None:
        _check_shape("Bias", bias, (1, (7 if use_peepholes else 4) * size))
        peepholes = bias[0, 4 * size :].reshape(3, size) if use_peepholes else None
    return LSTMWeights(
        weight_ih=None if weight_x is None else _lstm_rows("WeightX", weight_x, size),
        weight_hh=_lstm_rows("Weight", weight, size),
        bias_ih=None if bias is None else lstm_blocks_from_paddle(bias[0, : 4 * size]),
        peepholes=peepholes,
        gate_activation=gate_activation,
        cell_activation=cell_activation,
        candidate_activation=candidate_activation,
    )


@types_explained
def lstm_to_paddle(weights: LSTMWeights) -> tuple[Array, Array | None]:
    """Return Weight and Bias, the inverse of `lstm_from_paddle`; also for gradients.

    Raises:
        InvalidDataError: a second bias or a projection, which Paddle does not have, or
            peepholes without a bias.
    """
    for name in ("bias_hh", "weight_hr"):
        if getattr(weights, name) is not None:
            raise InvalidDataError(f"{name}: Paddle's lstm does not have it")
    weight = lstm_blocks_to_paddle(weights.weight_hh.T)
    if weights.bias_ih is None:
        if weights.peepholes is not None:
            raise InvalidDataError("peepholes: Paddle's lstm keeps them in its bias; found none")
        return weight, None
    parts = [lstm_blocks_to_paddle(weights.bias_ih)]
    if weights.peepholes is not None:
        parts.append(weights.peepholes.ravel())
    return weight, np.concatenate(parts)[np.newaxis]


@types_explained
def gru_from_paddle(
    weight: Array,
    bias: Array | None,
    *,
    weight_x: Array | None = None,
    origin_mode: bool = False,
    gate_activation: str = "sigmoid",
    activation: str = "tanh",
) -> PaddleGRUWeights:
    """Return Paddle's GRU; its gate order stays u, r, c.

    Args:
        weight: (H, 3H), flat data as described at the top of this file; fusion_gru's WeightH.
        bias: (1, 3H) or None.
        weight_x: (D, 3H), of fusion_gru; None: the data are projected already.

    Raises:
        ShapeMismatchError: a weight does not have its shape.
    """
    size = _hidden_size(weight, 3)
    flat = weight.ravel()
    gates = flat[: 2 * size * size].reshape(size, 2 * size)
    candidate = flat[2 * size * size :].reshape(size, size)
    if bias is not None:
        _check_shape("Bias", bias, (1, 3 * size))
    if weight_x is not None:
        _check_shape("WeightX", weight_x, (*weight_x.shape[:1], 3 * size))
    return PaddleGRUWeights(
        weight_ih=None if weight_x is None else weight_x.T,
        weight_hh=np.concatenate([gates, candidate], axis=1).T,
        bias_ih=None if bias is None else bias[0],
        gate_activation=gate_activation,
        candidate_activation=activation,
        origin_mode=origin_mode,
    )


@types_explained
def gru_to_paddle(weights: PaddleGRUWeights) -> tuple[Array, Array | None]:
    """Return Weight and Bias, the inverse of `gru_from_paddle`; also for gradients.

    Raises:
        InvalidDataError: a second bias, which Paddle does not have.
    """
    if weights.bias_hh is not None:
        raise InvalidDataError("bias_hh: Paddle's gru does not have it")
    size = weights.hidden_size
    columns = weights.weight_hh.T
    flat = [columns[:, : 2 * size].ravel(), columns[:, 2 * size :].ravel()]
    bias = None if weights.bias_ih is None else weights.bias_ih[np.newaxis]
    return np.concatenate(flat).reshape(size, 3 * size), bias


def _lstm_rows(name: str, weight: Array, size: int) -> Array:
    """Return a (.., 4H) matrix of column blocks c i f o as (4H, ..), rows i f g o."""
    _check_shape(name, weight, (*weight.shape[:1], 4 * size))
    return lstm_blocks_from_paddle(weight).T


def _blocks(blocks: Array) -> list[Array]:
    if blocks.ndim == 0 or blocks.shape[-1] % 4:
        raise ShapeMismatchError(
            f"lstm blocks: expected 4 blocks on the last axis, found shape {blocks.shape}"
        )
    return np.split(blocks, 4, axis=-1)


def _hidden_size(weight: Array, gates: int) -> int:
    if weight.ndim != 2 or weight.shape[1] != gates * weight.shape[0]:
        raise ShapeMismatchError(f"Weight: expected shape (H, {gates}H), found {weight.shape}")
    return int(weight.shape[0])


def _check_shape(name: str, array: Array, expected: tuple[int, ...]) -> None:
    if array.shape != expected:
        raise ShapeMismatchError(f"{name}: expected shape {expected}, found {array.shape}")
