"""One layer of a cell with heads in one direction: each head runs as a separate layer.

Heads do not depend on each other's states. A head reads its own columns of the data or projected
inputs, and of states, and writes its own columns; so no product is padded with zeros for other
heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import State
from lodcli.kernels.rnn.cells.linear_cell import contiguous
from lodcli.kernels.rnn.cells.slstm.slstm import SLSTMWeights
from lodcli.kernels.rnn.engine.layer import LayerGradients, LayerRun
from lodcli.kernels.rnn.engine.plan import StepPlan


def layer_forward(
    data: Array,
    plan: StepPlan,
    weights: SLSTMWeights,
    begin: State,
    *,
    run: Callable[..., LayerRun],
    **how: Any,
) -> LayerRun:
    """See layer.py.

    Args:
        run: a twin of layer.layer_forward.
        how: its keyword arguments.
    """
    heads = weights.heads()
    runs = [
        run(inputs, plan, head, state, **how)
        for inputs, head, state in zip(
            _inputs(data, weights), heads, _states(begin, len(heads)), strict=True
        )
    ]
    through = _joined_states([one.through for one in runs])
    last = _joined_states([one.last for one in runs])
    return LayerRun(through, last, [one.kept for one in runs] if how["keep"] else None)


def layer_backward(
    data: Array,
    plan: StepPlan,
    weights: SLSTMWeights,
    kept: Sequence[Any],
    by_row: tuple[Array | None, ...],
    by_sequence: tuple[Array | None, ...],
    *,
    run: Callable[..., LayerGradients],
    **how: Any,
) -> LayerGradients:
    """See layer.py.

    Args:
        run: a twin of layer.layer_backward.
        how: its keyword arguments.
    """
    heads = weights.heads()
    found = [
        run(inputs, plan, head, before, rows, ends, **how)
        for inputs, head, before, rows, ends in zip(
            _inputs(data, weights),
            heads,
            kept,
            _states(by_row, len(heads)),
            _states(by_sequence, len(heads)),
            strict=True,
        )
    ]
    return LayerGradients(
        _input_gradient([one.input for one in found], weights) if how["with_input"] else None,
        weights.of_heads([one.weights for one in found]),
        _joined_states([one.first for one in found]),
    )


def _blocks(weights: SLSTMWeights) -> int | None:
    """Return the number of blocks of all heads that a row of data is divided into; None if not
    divided."""
    if weights.weight_i is None:
        return 4
    return 1 if len(weights.weight_i) == len(weights.recurrent_kernel) else None


def _inputs(data: Array, weights: SLSTMWeights) -> list[Array]:
    heads, blocks = len(weights.recurrent_kernel), _blocks(weights)
    return [data] * heads if blocks is None else _divided(data, blocks, heads)


def _input_gradient(parts: list[Array], weights: SLSTMWeights) -> Array:
    blocks = _blocks(weights)
    if blocks is not None:
        return _joined(parts, blocks)
    return sum(parts[1:], start=parts[0])


def _states(state: tuple[Array | None, ...], heads: int) -> list[tuple[Any, ...]]:
    """Return each head's columns of hidden and cell states; of None, None."""
    hidden, cell = state
    return list(
        zip(
            [None] * heads if hidden is None else _divided(hidden, 1, heads),
            [None] * heads if cell is None else _divided(cell, 3, heads),
            strict=True,
        )
    )


def _joined_states(states: list[State]) -> State:
    columns = list(zip(*states, strict=True))
    return tuple(_joined(list(parts), 3 if n else 1) for n, parts in enumerate(columns))


def _divided(array: Array, blocks: int, heads: int) -> list[Array]:
    """Return the columns of each head of (n, blocks * heads * K), (n, blocks * K)."""
    if heads == 1:
        return [array]
    width = array.shape[1] // (blocks * heads)
    parts, shape = array.reshape(len(array), blocks, heads, width), (len(array), blocks * width)
    return [contiguous(parts[:, :, head]).reshape(shape) for head in range(heads)]


def _joined(parts: list[Array], blocks: int) -> Array:
    """Return the inverse of `_divided`."""
    if len(parts) == 1:
        return parts[0]
    rows, columns = parts[0].shape
    wide = [part.reshape(rows, blocks, columns // blocks) for part in parts]
    return np.concatenate(wide, axis=2).reshape(rows, columns * len(parts))
