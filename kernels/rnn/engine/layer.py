"""One RNN layer in one direction with NumPy: the reference of the faster twins.

One GEMM computes the inputs of all steps. Then one GEMM per step computes the states of the
sequences still alive, a prefix of the sequences sorted by length (see plan.py), and the results are
written to their rows. Nothing is padded: the largest buffer has as many rows as the data.

A twin has the same two functions; what it saves between them is private to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.rnn.cells.cell import (
    Cell,
    CellWeights,
    State,
    StepGradients,
    column_sums,
    stacked,
)
from lodcli.kernels.rnn.cells.registry import cell_of
from lodcli.kernels.rnn.engine.plan import StepPlan
from lodcli.kernels.runtime.precision import rounds_on_cpu


class LayerRun(NamedTuple):
    """Result of a forward run.

    Attributes:
        through: the state after every row, (N, ..) each; the cell state only if requested.
        last: the state after every sequence, (S, ..) each.
        kept: values for layer_backward, if requested.
    """

    through: State
    last: State
    kept: Any


class LayerGradients(NamedTuple):
    """The gradients of the arguments of a run: data if wanted, weights, and initial states."""

    input: Array | Any
    weights: Any
    first: State


@np.errstate(all="ignore")  # rows may be infinite
def layer_forward(
    data: Array,
    plan: StepPlan,
    weights: CellWeights,
    begin: State,
    *,
    reverse: bool,
    keep: bool,
    cells: bool,
    threads: int,
) -> LayerRun:
    """Run one layer in one direction; arguments as of rnn_forward, validated and of one dtype."""
    projected = data if weights.weight_ih is None else data @ weights.weight_ih.T
    if weights.bias_ih is not None:
        projected = projected + weights.bias_ih
    through, kept = _run(cell_of(weights), projected, plan, begin, reverse, keep)
    last = last_states(through, begin, plan, reverse)
    return LayerRun(through if cells else through[:1], last, tuple(kept) if keep else None)


@np.errstate(all="ignore")
def layer_backward(
    data: Array,
    plan: StepPlan,
    weights: CellWeights,
    kept: Any,
    by_row: tuple[Array | None, ...],
    by_sequence: tuple[Array | None, ...],
    *,
    reverse: bool,
    with_input: bool,
    threads: int,
) -> LayerGradients:
    """Return the gradients of the arguments of layer_forward.

    Args:
        by_row: the gradient of each part of the state after every row; None is zeros.
        by_sequence: likewise of the state after every sequence.
        with_input: whether to compute the gradient of the data.

    Raises:
        UnsupportedError: products are to be rounded: NumPy's are exact.
    """
    if rounds_on_cpu(data.dtype):
        raise UnsupportedError(
            "precision bfloat16 on a CPU: NumPy has run this layer forward, and only compiled "
            "kernels round; run it forward with backend numba, or in the same float32_products"
        )
    cell = cell_of(weights)
    here_of = [
        np.zeros((len(data), size), data.dtype) if part is None else part
        for part, size in zip(by_row, weights.state_sizes, strict=True)
    ]
    running = [
        np.zeros((len(plan.order), size), data.dtype) if part is None else part[plan.order]
        for part, size in zip(by_sequence, weights.state_sizes, strict=True)
    ]
    steps: list[StepGradients] = []
    for step in range(len(plan.step_sizes) - 1, -1, -1):
        at = plan.rows(step, reverse=reverse)
        # Sequences that end before this step are in the rest of `running`, which holds the
        # gradients of their last states until their last step.
        grad = tuple(
            later[: len(at)] + here[at] for later, here in zip(running, here_of, strict=True)
        )
        gradients = cell.step_backward(grad, kept[step])
        for whole, part in zip(running, gradients.previous, strict=True):
            whole[: len(at)] = part
        steps.append(gradients)
    first = tuple(np.empty_like(part) for part in running)
    for out, part in zip(first, running, strict=True):
        out[plan.order] = part
    grad_input, grad_weights = _parameter_gradients(
        cell, data, plan, weights, kept, reverse, with_input, steps[::-1]
    )
    return LayerGradients(grad_input, grad_weights, first)


def _run(
    cell: Cell[Any], projected: Array, plan: StepPlan, begin: State, reverse: bool, keep: bool
) -> tuple[State, list[tuple[Array, ...]]]:
    """Return the states after every row, and the saved values of every step."""
    shape = len(projected)
    through = tuple(np.empty((shape, part.shape[1]), projected.dtype) for part in begin)
    state = tuple(part[plan.order] for part in begin)
    kept = []
    for step, alive in enumerate(plan.step_sizes):
        rows = plan.rows(step, reverse=reverse)
        # A prefix of the last step's result, which later steps do not overwrite: the tape may keep
        # a reference.
        state, for_backward = cell.step(projected[rows], tuple(part[:alive] for part in state))
        for out, part in zip(through, state, strict=True):
            out[rows] = part
        if keep:
            kept.append(for_backward)
    return through, kept


def last_states(through: State, begin: State, plan: StepPlan, reverse: bool) -> State:
    """Return each sequence's state after its last step, or before it, if it has none."""
    sequences, rows = last_rows(plan, reverse)
    final = tuple(part.copy() for part in begin)
    for out, part in zip(final, through, strict=True):
        out[sequences] = part[rows]
    return final


def last_rows(plan: StepPlan, reverse: bool) -> tuple[Offsets, Offsets]:
    """Return the sequences that have rows, and the row of the last step of each."""
    alive = int(plan.step_sizes[0]) if len(plan.step_sizes) else 0
    rows = plan.starts[:alive] + (0 if reverse else plan.lengths[:alive] - 1)
    return plan.order[:alive], rows


def _parameter_gradients(
    cell: Cell[Any],
    data: Array,
    plan: StepPlan,
    weights: CellWeights,
    kept: Any,
    reverse: bool,
    with_input: bool,
    steps: list[StepGradients],
) -> tuple[Array | None, CellWeights]:
    """Return the gradients of the input and the weights, each one GEMM over all steps."""
    if not steps:
        return np.zeros_like(data) if with_input else None, weights.zeros_like()
    rows = np.concatenate([plan.rows(t, reverse=reverse) for t in range(len(steps))])
    projected = np.empty((len(data), steps[0].projected.shape[1]), data.dtype)
    projected[rows] = np.concatenate([step.projected for step in steps])
    gradients = cell.recurrent_gradients(stacked(kept), stacked([step.recurrent for step in steps]))
    gradients["bias_ih"] = column_sums(projected)
    grad_input = projected if with_input else None
    if weights.weight_ih is not None:
        gradients["weight_ih"] = projected.T @ data
        if with_input:
            grad_input = projected @ weights.weight_ih
    # No gradient for a missing bias.
    return grad_input, weights.with_arrays({name: gradients[name] for name in weights.arrays()})
