"""Paddle's attention_lstm, forward only: an LSTM that attends to its whole sequence.

Before every step each row x of the sequence is scored against the cell state. The input of
the step is the mean of the rows weighted by the softmax of the scores; there are as many steps
as rows.

    e = relu(attention_weight[:D] x + attention_bias + attention_weight[D:] c)
    e = relu(attention_scalar * e + attention_scalar_bias)     only with attention_scalar
    a = softmax of e over the sequence's rows
    s = sum of a x
    f, i, o = gate(blocks of lstm_weight [h, s] + lstm_bias)    g = candidate(its block)
    c' = f * c + i * g
    h' = o * cell(c')

Gate order f, i, o, g; h's rows come before x's:

    attention_weight (D+H, 1)    attention_bias, -scalar, -scalar_bias (1, 1)
    lstm_weight (H+D, 4H)    lstm_bias (1, 4H)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.rnn.cells.activations import activation_named
from lodcli.kernels.rnn.cells.weights import require_real
from lodcli.kernels.rnn.engine.plan import StepPlan, checked_offsets, plan_steps
from lodcli.kernels.runtime.argument_types import CheckedFields, types_explained
from lodcli.kernels.runtime.summaries import Summarized


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionLSTMWeights(CheckedFields, Summarized):
    """The weights of an attention_lstm; see the top of this file for shapes and gate order."""

    attention_weight: Array
    lstm_weight: Array
    lstm_bias: Array
    attention_bias: Array | None = None
    attention_scalar: Array | None = None
    attention_scalar_bias: Array | None = None
    gate_activation: str = "sigmoid"
    cell_activation: str = "tanh"
    candidate_activation: str = "tanh"

    def check(self, data: Array) -> None:
        """Check that the weights fit each other and the data.

        Raises:
            InvalidDataError: a dtype of the data or a weight, or an activation, is unsupported.
            ShapeMismatchError: a weight has a wrong shape.
        """
        if data.dtype not in (np.float32, np.float64):
            raise InvalidDataError(f"data: expected float32 or float64, found {data.dtype}")
        if data.ndim != 2:
            raise ShapeMismatchError(f"data: expected (N, D), found shape {data.shape}")
        for name in (self.gate_activation, self.cell_activation, self.candidate_activation):
            activation_named(name)
        if self.lstm_bias.ndim != 2 or not self.lstm_bias.size or self.lstm_bias.shape[1] % 4:
            raise ShapeMismatchError(
                f"lstm_bias: expected shape (1, 4H), found {self.lstm_bias.shape}"
            )
        size, width = self.lstm_bias.shape[1] // 4, data.shape[1]
        for expected, names in {
            (width + size, 1): ("attention_weight",),
            (size + width, 4 * size): ("lstm_weight",),
            (1, 4 * size): ("lstm_bias",),
            (1, 1): ("attention_bias", "attention_scalar", "attention_scalar_bias"),
        }.items():
            for name in names:
                array = getattr(self, name)
                if array is None:
                    continue
                if array.shape != expected:
                    raise ShapeMismatchError(
                        f"{name}: expected shape {expected}, found {array.shape}"
                    )
                require_real(name, array)


@dataclass(frozen=True, eq=False)
class AttentionLSTMResult(Summarized):
    """The states after every step: those of step t are at row t of their sequence.

    Attributes:
        outputs: (N, H), hidden states.
        cells: (N, H), cell states.
    """

    outputs: Array
    cells: Array


@types_explained
def attention_lstm(
    data: Array,
    offsets: Offsets,
    weights: AttentionLSTMWeights,
    *,
    initial_cell: Array,
    initial_hidden: Array | None = None,
) -> AttentionLSTMResult:
    """Return the states of an attention_lstm over every sequence.

    Args:
        data: (N, D), float32 or float64, the dtype of the results.
        offsets: (S+1,) int64, in rows.
        initial_cell: (S, H).
        initial_hidden: (S, H); None is zeros.

    Raises:
        InvalidDataError, InvalidLoDError, ShapeMismatchError: an argument is wrong, or
            does not fit the others.
    """
    weights.check(data)
    plan = plan_steps(checked_offsets(offsets, len(data), kept=False))
    shape = (len(plan.order), weights.lstm_bias.shape[1] // 4)
    if initial_hidden is None:
        initial_hidden = np.zeros(shape, data.dtype)
    for name, array in (("hidden", initial_hidden), ("cell", initial_cell)):
        if array.shape != shape:
            raise ShapeMismatchError(f"initial_{name}: expected shape {shape}, found {array.shape}")
        require_real(f"initial_{name}", array)
    hidden = as_dtype(initial_hidden, data.dtype)[plan.order]
    cell = as_dtype(initial_cell, data.dtype)[plan.order]
    outputs = np.empty((len(data), shape[1]), data.dtype)
    cells = np.empty_like(outputs)
    with np.errstate(all="ignore"):  # as in softmax: an infinite score minus itself is NaN
        attention = _Attention(data, plan, weights)
        for step, alive in enumerate(plan.step_sizes):
            hidden, cell = _step(weights, attention(cell[:alive]), hidden[:alive], cell[:alive])
            rows = plan.rows(step)
            outputs[rows], cells[rows] = hidden, cell
    return AttentionLSTMResult(outputs, cells)


class _Attention:
    """The mean of each live sequence's rows, weighted by their scores against its cell state."""

    def __init__(self, data: Array, plan: StepPlan, weights: AttentionLSTMWeights) -> None:
        # Rows in sorted order of the sequences, so that those of live sequences are a prefix.
        rows = [np.arange(s, s + n) for s, n in zip(plan.starts, plan.lengths, strict=True)]
        self.data = data[np.concatenate(rows)] if rows else data
        self.lengths = plan.lengths
        self.ends = np.cumsum(plan.lengths)
        self.weights = weights
        width = data.shape[1]
        self.scores = (self.data @ weights.attention_weight[:width].astype(data.dtype)).ravel()
        if weights.attention_bias is not None:
            self.scores += weights.attention_bias.astype(data.dtype).item()
        self.cell_weight = weights.attention_weight[width:].astype(data.dtype)

    def __call__(self, cell: Array) -> Array:
        alive = len(cell)
        lengths, end = self.lengths[:alive], self.ends[alive - 1]
        starts = self.ends[:alive] - lengths
        against_cell = np.repeat((cell @ self.cell_weight).ravel(), lengths)
        scores = np.maximum(self.scores[:end] + against_cell, 0)
        if self.weights.attention_scalar is not None:
            scores = scores * self.weights.attention_scalar.item()
            if self.weights.attention_scalar_bias is not None:
                scores = scores + self.weights.attention_scalar_bias.item()
            scores = np.maximum(scores, 0)
        # No live sequence is empty, so reduceat meets no empty segment.
        share = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
        share /= np.repeat(np.add.reduceat(share, starts), lengths)
        return np.add.reduceat(share[:, np.newaxis] * self.data[:end], starts)


def _step(
    weights: AttentionLSTMWeights, row: Array, hidden: Array, cell: Array
) -> tuple[Array, Array]:
    """Return the hidden and the cell state after one step."""
    gate = activation_named(weights.gate_activation).value
    inner = np.concatenate([hidden, row], axis=1) @ weights.lstm_weight.astype(row.dtype)
    inner += weights.lstm_bias.astype(row.dtype)
    inner_f, inner_i, inner_o, inner_g = np.split(inner, 4, axis=1)
    candidate = activation_named(weights.candidate_activation).value(inner_g)
    new_cell = gate(inner_f) * cell + gate(inner_i) * candidate
    return gate(inner_o) * activation_named(weights.cell_activation).value(new_cell), new_cell
