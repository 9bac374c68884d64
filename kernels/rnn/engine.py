"""One RNN layer in one direction over ragged sequences, forward and backward.

Sort by length, one GEMM for all inputs, then one GEMM per step over the sequences still
alive (a prefix of the sorted order, see plan.py), results scattered straight to their
rows. Nothing is padded: the largest buffer has as many rows as the data.

This is the reference that faster engines are compared with. The state after the last
step needs no code of its own: it is the output at a sequence's last row.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.rnn.cell import (
    Cell,
    CellWeights,
    State,
    StepGradients,
    require_real,
    stacked,
)
from lodcli.kernels.rnn.cells import cell_of
from lodcli.kernels.rnn.plan import StepPlan, checked_offsets, plan_steps

W = TypeVar("W", bound=CellWeights)
_STATE_NAMES = ("hidden", "cell")


@dataclass(frozen=True, eq=False, kw_only=True)
class States:
    """States before a first step, one row per sequence in the batch's own order.

    Attributes:
        hidden: (S, H), P instead of H with a projection; None is zeros.
        cell: (S, H), of an LSTM only; None is zeros.
    """

    hidden: Array | None = None
    cell: Array | None = None


@dataclass(frozen=True, eq=False)
class RNNTape(Generic[W]):
    """What rnn_backward needs of a forward run. Steps are kept one by one, unpadded."""

    weights: W
    plan: StepPlan
    data: Array
    reverse: bool
    kept: tuple[tuple[Array, ...], ...]


@dataclass(frozen=True, eq=False)
class RNNResult(Generic[W]):
    """What one layer gave in one direction.

    Attributes:
        outputs: (N, H), the hidden state after each row; P instead of H with a projection.
        cells: (N, H), the cell state after each row; None unless an LSTM.
        last_hidden: (S, H), after each sequence's last step; of an empty sequence its
            initial state.
        last_cell: (S, H), likewise; None unless an LSTM.
        tape: for rnn_backward; None unless asked for.
    """

    outputs: Array
    cells: Array | None
    last_hidden: Array
    last_cell: Array | None
    tape: RNNTape[W] | None


@dataclass(frozen=True, eq=False)
class RNNGradients(Generic[W]):
    """The gradients of everything rnn_forward took.

    Attributes:
        input: as the data.
        weights: the same dataclass, each array the gradient of the weight it replaces.
        initial_hidden: (S, H), of the zeros if no initial state was given.
        initial_cell: (S, H), likewise; None unless an LSTM.
    """

    input: Array
    weights: W
    initial_hidden: Array
    initial_cell: Array | None


def rnn_forward(
    data: Array,
    offsets: Offsets,
    weights: W,
    *,
    initial: States | None = None,
    reverse: bool = False,
    keep: bool = False,
    suffix: str = "",
) -> RNNResult[W]:
    """Return the states after every row and after every sequence.

    Args:
        data: (N, D), float32 or float64, the dtype of all the arithmetic and of the
            results; with weight_ih None the projected inputs, (N, gates*H).
        offsets: (S+1,) int64, in rows.
        weights: of any cell; cast to the dtype of the data.
        initial: states before the first step (the last row when reversed), in the order
            of the batch; None is zeros.
        reverse: run each sequence from its last row to its first; every result stays at
            its row.
        keep: give a tape, for rnn_backward.
        suffix: what follows a weight's name in messages: "_l0", "_l1_reverse".

    Raises:
        InvalidDataError, InvalidLoDError, ShapeMismatchError: an argument is wrong, or
            does not fit the others.

    >>> from lodcli.kernels.rnn.elman import ElmanWeights
    >>> one = np.ones((1, 1))
    >>> add_up = ElmanWeights(weight_ih=one, weight_hh=one, nonlinearity="identity")
    >>> run = rnn_forward(np.array([[1.0], [2.0], [5.0]]), np.array([0, 2, 2, 3]), add_up)
    >>> run.outputs.ravel().tolist(), run.last_hidden.ravel().tolist()
    ([1.0, 3.0, 5.0], [3.0, 0.0, 5.0])
    """
    weights.check(suffix)
    _check_data(data, weights, suffix)
    plan = plan_steps(checked_offsets(offsets, len(data)))
    weights = weights.astype(data.dtype)
    begin = _initial_states(initial, weights, len(plan.order), data.dtype)
    through, kept = _run(cell_of(weights), _project(data, weights), plan, begin, reverse, keep)
    final = _last_states(through, begin, plan, reverse)
    has_cell = len(through) == 2
    return RNNResult(
        outputs=through[0],
        cells=through[1] if has_cell else None,
        last_hidden=final[0],
        last_cell=final[1] if has_cell else None,
        tape=RNNTape(weights, plan, data, reverse, tuple(kept)) if keep else None,
    )


def _project(data: Array, weights: CellWeights) -> Array:
    """Return data @ weight_ih.T + bias_ih for all rows at once."""
    projected: Array = data if weights.weight_ih is None else data @ weights.weight_ih.T
    return projected if weights.bias_ih is None else projected + weights.bias_ih


def _run(
    cell: Cell[Any],
    projected: Array,
    plan: StepPlan,
    begin: State,
    reverse: bool,
    keep: bool,
) -> tuple[State, list[tuple[Array, ...]]]:
    """Return the states after every row, and what every step kept."""
    shape = len(projected)
    through = tuple(np.empty((shape, part.shape[1]), projected.dtype) for part in begin)
    state = tuple(part[plan.order] for part in begin)
    kept = []
    for step, alive in enumerate(plan.step_sizes):
        rows = plan.rows(step, reverse=reverse)
        # A prefix of the last step's own result, which no later step writes to: the
        # tape may hold on to it without a copy.
        state, for_backward = cell.step(projected[rows], tuple(part[:alive] for part in state))
        for out, part in zip(through, state, strict=True):
            out[rows] = part
        if keep:
            kept.append(for_backward)
    return through, kept


def _last_states(through: State, begin: State, plan: StepPlan, reverse: bool) -> State:
    """Return each sequence's state after its last step, or before it, if it has none."""
    alive = int(plan.step_sizes[0]) if len(plan.step_sizes) else 0
    last_rows = plan.starts[:alive] + (0 if reverse else plan.lengths[:alive] - 1)
    final = tuple(part.copy() for part in begin)
    for out, part in zip(final, through, strict=True):
        out[plan.order[:alive]] = part[last_rows]
    return final


def rnn_backward(
    tape: RNNTape[W],
    *,
    grad_outputs: Array | None = None,
    grad_cells: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
) -> RNNGradients[W]:
    """Return the gradients of the input, all weights and biases, and the initial states.

    Args:
        tape: of rnn_forward(.., keep=True).
        grad_outputs: (N, H), the loss by the outputs; None is zeros, as for all four.
        grad_cells: (N, H), by the cells; LSTM only.
        grad_last_hidden: (S, H), by the last hidden states, on top of grad_outputs.
        grad_last_cell: (S, H), by the last cell states; LSTM only.

    Raises:
        InvalidDataError: the gradient of a cell state that the cell does not have.
        ShapeMismatchError: a gradient does not have the shape of its result.
    """
    plan, weights = tape.plan, tape.weights
    rows, sequences = len(tape.data), len(plan.order)
    by_row = _states_like("grad", (grad_outputs, grad_cells), weights, rows, tape.data.dtype)
    by_sequence = _states_like(
        "grad_last", (grad_last_hidden, grad_last_cell), weights, sequences, tape.data.dtype
    )
    cell = cell_of(weights)
    running = tuple(part[plan.order] for part in by_sequence)
    steps: list[StepGradients] = []
    for step in range(len(plan.step_sizes) - 1, -1, -1):
        at = plan.rows(step, reverse=tape.reverse)
        # Sequences that end before this step wait in the rest of `running`, which
        # holds the gradients of their last states until their own last step.
        grad = tuple(
            later[: len(at)] + here[at] for later, here in zip(running, by_row, strict=True)
        )
        gradients = cell.step_backward(grad, tape.kept[step])
        for whole, part in zip(running, gradients.previous, strict=True):
            whole[: len(at)] = part
        steps.append(gradients)
    first = tuple(np.empty_like(part) for part in running)
    for out, part in zip(first, running, strict=True):
        out[plan.order] = part
    grad_input, grad_weights = _parameter_gradients(cell, tape, steps[::-1])
    return RNNGradients(grad_input, grad_weights, first[0], first[1] if len(first) == 2 else None)


def _parameter_gradients(
    cell: Cell[Any], tape: RNNTape[W], steps: list[StepGradients]
) -> tuple[Array, W]:
    """Return the gradients of the input and the weights, each one GEMM over all steps."""
    weights, plan = tape.weights, tape.plan
    if not steps:
        return np.zeros_like(tape.data), weights.zeros_like()
    rows = np.concatenate([plan.rows(t, reverse=tape.reverse) for t in range(len(steps))])
    projected = np.empty((len(tape.data), steps[0].projected.shape[1]), tape.data.dtype)
    projected[rows] = np.concatenate([step.projected for step in steps])
    gradients = cell.recurrent_gradients(
        stacked(tape.kept), stacked([step.recurrent for step in steps])
    )
    gradients["bias_ih"] = projected.sum(axis=0)
    grad_input = projected
    if weights.weight_ih is not None:
        gradients["weight_ih"] = projected.T @ tape.data
        grad_input = projected @ weights.weight_ih
    # A bias that is not there has no gradient either.
    present: dict[str, Any] = {name: gradients[name] for name in weights.arrays()}
    return grad_input, dataclasses.replace(weights, **present)


def _check_data(data: Array, weights: CellWeights, suffix: str) -> None:
    if data.dtype not in (np.float32, np.float64):
        raise InvalidDataError(f"data: expected float32 or float64, found {data.dtype}")
    if data.ndim != 2 or data.shape[1] != weights.input_size:
        source = f"weight_ih{suffix}"
        if weights.weight_ih is None:
            source = f"weight_hh{suffix}, the data being projected already"
        raise ShapeMismatchError(
            f"data: expected (N, {weights.input_size}) for {source}, found {data.shape}"
        )


def _initial_states(
    initial: States | None, weights: CellWeights, sequences: int, dtype: np.dtype[Any]
) -> State:
    states = States() if initial is None else initial
    return _states_like("initial", (states.hidden, states.cell), weights, sequences, dtype)


def _states_like(
    what: str,
    given: tuple[Array | None, Array | None],
    weights: CellWeights,
    rows: int,
    dtype: np.dtype[Any],
) -> State:
    """Return the parts of a state in `dtype`, zeros where not given, shapes checked."""
    sizes = weights.state_sizes
    if len(sizes) == 1 and given[1] is not None:
        raise InvalidDataError(f"{what} cell: a cell of kind {weights.KIND} has no cell state")
    parts = []
    for name, array, size in zip(_STATE_NAMES, given, sizes, strict=False):
        if array is None:
            array = np.zeros((rows, size), dtype)
        require_real(f"{what} {name}", array)
        if array.shape != (rows, size):
            raise ShapeMismatchError(
                f"{what} {name}: expected shape {(rows, size)}, found {array.shape}"
            )
        parts.append(array.astype(dtype, copy=False))
    return tuple(parts)
