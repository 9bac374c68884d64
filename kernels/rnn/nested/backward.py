"""The gradients of a chain of nested RNNs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.nested.initial_states import Boot
from lodcli.kernels.rnn.nested.nested import Initial, NestedLevel, NestedTape, whole_states
from lodcli.kernels.rnn.stack.stack import RNNWeights, stack_backward
from lodcli.kernels.rnn.stack.states import last_of_gradient
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.summaries import Summarized


@dataclass(frozen=True, eq=False)
class LevelGradients(Summarized):
    """The gradients of one RNN of the chain.

    Attributes:
        weights: in the shapes of the weights.
        boot: in the shapes of the boot's arrays; None if the RNN does not boot.
    """

    weights: RNNWeights
    boot: Boot | None


@dataclass(frozen=True, eq=False)
class NestedGradients(Summarized):
    """The gradients of the arguments of nested_forward.

    Attributes:
        input: (N, D), of the data.
        levels: of every RNN, outermost first.
        initial_hidden: (layers*directions, S, H) of the outermost.
        initial_cell: likewise; None unless an LSTM.
    """

    input: Array
    levels: tuple[LevelGradients, ...]
    initial_hidden: Array
    initial_cell: Array | None


@types_explained
def nested_backward(
    tape: NestedTape,
    *,
    grad_states: tuple[Array | None, ...] | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    threads: int | None = None,
) -> NestedGradients:
    """Return the gradients of the input, the weights and boots, and the initial states.

    Args:
        tape: of nested_forward(.., keep=True).
        grad_states: gradients of the loss with respect to the states of each RNN, outermost
            first, in their shapes; None is zeros, for one RNN or for all.
        grad_last_hidden: with respect to the outermost RNN's last hidden states of all layers.
        grad_last_cell: with respect to its last cell states; LSTM only.
        threads: see rnn_forward.

    Raises:
        ShapeMismatchError: a gradient does not have the shape of its result.
    """
    depth = len(tape.levels)
    given = (None,) * depth if grad_states is None else grad_states
    if len(given) != depth:
        raise ShapeMismatchError(f"grad states: expected {depth} of them, found {len(given)}")
    return _backward(tape, given, Initial(grad_last_hidden, grad_last_cell), threads)


def _backward(
    tape: NestedTape, grads: tuple[Array | None, ...], last: Initial, threads: int | None
) -> NestedGradients:
    if tape.run is None:
        return _backward_booted(tape, grads, last, threads)
    own = stack_backward(
        tape.run,
        grad_outputs=grads[0],
        grad_last_hidden=last.hidden,
        grad_last_cell=last.cell,
        threads=threads,
    )
    zeros = _zeros(tape.levels[0].boot, tape.like)
    levels: tuple[LevelGradients, ...] = (LevelGradients(own.weights, zeros),)
    into = own.input
    if tape.below is not None:
        by_last = last_of_gradient(tape.below.levels[0].weights, own.input)
        below = _backward(tape.below, grads[1:], Initial(by_last), threads)
        levels, into = (*levels, *below.levels), below.input
    return NestedGradients(into, levels, own.initial_hidden, own.initial_cell)


def _backward_booted(
    tape: NestedTape, grads: tuple[Array | None, ...], last: Initial, threads: int | None
) -> NestedGradients:
    """Backpropagate step by step, in reverse order of the forward run."""
    rnn = tape.levels[0]
    _check_states(tape, grads)
    hidden, cell = whole_states(rnn.weights, last, tape.sequences, tape.like)
    levels = tuple(_no_gradients(level, tape.like) for level in tape.levels)
    width = tape.levels[-1].weights.input_size
    into = np.zeros_like(tape.like, shape=(tape.rows, width))
    for step in reversed(tape.steps):
        here = [
            None if grad is None else grad[at] for grad, at in zip(grads, step.places, strict=True)
        ]
        own = stack_backward(
            step.run,
            grad_outputs=here[0],
            grad_last_hidden=hidden[:, step.sequences],
            grad_last_cell=None if cell is None else cell[:, step.sequences],
            threads=threads,
        )
        by_last = last_of_gradient(tape.levels[1].weights, own.input)
        below = _backward(step.below, tuple(here[1:]), Initial(by_last), threads)
        boot, above = _boot_gradients(tape.levels[1], below.initial_hidden, step.state)
        hidden[:, step.sequences] = own.initial_hidden
        hidden[-1, step.sequences] += above
        if cell is not None:
            cell[:, step.sequences] = own.initial_cell
        into[step.places[-1]] = below.input
        found = (
            LevelGradients(own.weights, _zeros(rnn.boot, tape.like)),
            LevelGradients(below.levels[0].weights, boot),
            *below.levels[1:],
        )
        levels = tuple(map(_sum, levels, found))
    return NestedGradients(into, levels, hidden, cell)


def _check_states(tape: NestedTape, grads: tuple[Array | None, ...]) -> None:
    """Raise ShapeMismatchError unless each gradient has the shape of its states."""
    for number, (grad, level) in enumerate(zip(grads, tape.levels, strict=True)):
        items = sum(len(step.places[number]) for step in tape.steps)
        expected = (items, level.weights.output_size)
        if grad is not None and grad.shape != expected:
            raise ShapeMismatchError(
                f"grad states, {level.level}: expected shape {expected}, found {grad.shape}"
            )


@np.errstate(all="ignore")  # values may be infinite
def _boot_gradients(rnn: NestedLevel, start: Array, state: Array) -> tuple[Boot, Array]:
    """Return the gradients of a boot and of its input.

    Args:
        start: gradient of the initial hidden states, (layers*directions, n, H).
        state: (n, O), the input of the boot.
    """
    assert rnn.boot is not None
    flat = start.swapaxes(0, 1).reshape(len(state), -1)
    bias = None if rnn.boot.bias is None else flat.sum(axis=0)
    if rnn.boot.weight is None:
        return Boot(None, bias), start.sum(axis=0)
    weight = rnn.boot.weight.astype(flat.dtype, copy=False)
    return Boot(flat.T @ state, bias), flat @ weight


def _zeros(boot: Boot | None, like: Array) -> Boot | None:
    if boot is None:
        return None
    return boot.moved(lambda array: np.zeros_like(like, shape=array.shape))


def _no_gradients(level: NestedLevel, like: Array) -> LevelGradients:
    weights = level.weights.map(lambda one: one.astype(like.dtype).zeros_like())
    return LevelGradients(weights, _zeros(level.boot, like))


@np.errstate(all="ignore")  # values may be infinite
def _sum(a: LevelGradients, b: LevelGradients) -> LevelGradients:
    others = iter(one for layer in b.weights.layers for one in layer)
    weights = a.weights.map(lambda one: one.plus(next(others)))
    if a.boot is None or b.boot is None:
        return LevelGradients(weights, None)
    theirs = b.boot.arrays()
    sums = {name: array + theirs[name] for name, array in a.boot.arrays().items()}
    return LevelGradients(weights, Boot(**sums))
