"""Nested RNNs: an inner RNN over the words of every sentence, an outer one over its results.

The RNNs form a chain, outermost first: article, sentence. The innermost runs over rows;
every other runs over the last states of the one below it, one step for each sequence. If an
inner RNN *boots*, each of its sequences starts from the state that the RNN above has
reached: sentence t starts from the article's state after sentence t-1 (the first from the
article's initial state), so that its states depend on the sentences before it. The articles
then run in parallel, one sentence of each at a time. Without a boot all sentences do.

    h(t) = outer(last(inner(words of sentence t, h0 = boot(h(t-1)))), h(t-1))
    boot(h) = weight h + bias, or h itself

Source: "Design Doc: LoD Tensor", whose network has an RNN for articles, sentences and words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from lodcli.kernels.errors import InvalidDataError, OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.rnn.cells.linear_cell import LinearWeights
from lodcli.kernels.rnn.cells.weights import require_real
from lodcli.kernels.rnn.engine.plan import checked_offsets, plan_steps
from lodcli.kernels.rnn.nested.initial_states import Boot, boot_shape, booted
from lodcli.kernels.rnn.stack.stack import RNNWeights, StackTape, stack_forward
from lodcli.kernels.rnn.stack.states import last_of, state_count
from lodcli.kernels.runtime.argument_types import (
    CheckedFields,
    construction_explained,
    types_explained,
)
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.runtime.summaries import Summarized


@dataclass(frozen=True, eq=False)
class NestedLevel(CheckedFields, Summarized):
    """One RNN of the chain.

    Attributes:
        level: the level of its sequences, by number or name.
        weights: layers and directions of any cell.
        boot: maps states of the RNN above to its initial hidden states; None: zeros.
        reverse: from the last item of a sequence to the first; one direction only.
    """

    level: int | str
    weights: RNNWeights
    boot: Boot | None = None
    reverse: bool = False


@construction_explained
@dataclass(frozen=True, eq=False)
class NestedRNN(Summarized):
    """A chain of RNNs, outermost first.

    Raises:
        InvalidDataError: there is no RNN.
        OptionError: the outermost RNN has a boot, or an RNN with a boot is below a bidirectional
            one, or its cell has an output that is not its state.
        ShapeMismatchError: the widths of two RNNs do not match; names the level.
    """

    levels: tuple[NestedLevel, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise InvalidDataError("nested: expected at least one RNN, found none")
        if self.levels[0].boot is not None:
            raise OptionError(
                f"nested, {self.levels[0].level}: boots from the RNN above, but is the outermost"
            )
        for outer, inner in zip(self.levels, self.levels[1:], strict=False):
            width = inner.weights.output_size
            if outer.weights.input_size != width:
                raise ShapeMismatchError(
                    f"nested, {outer.level}: weight_ih_l0 takes rows of "
                    f"{outer.weights.input_size}, {inner.level} gives {width}"
                )
            if inner.boot is not None:
                _check_boot(outer, inner, inner.boot)

    @property
    def input_size(self) -> int:
        """D, the width of a row of data."""
        return self.levels[-1].weights.input_size

    def frozen(self, dtype: DTypeLike | None = None) -> NestedRNN:
        """See RNNWeights.frozen."""
        return NestedRNN(
            tuple(replace(level, weights=level.weights.frozen(dtype)) for level in self.levels)
        )

    def moved(self, move: Callable[[Array], Array]) -> NestedRNN:
        """Return a chain with `move` applied to every array: cupy.asarray, for a GPU."""
        return NestedRNN(
            tuple(
                replace(
                    level,
                    weights=level.weights.moved(move),
                    boot=None if level.boot is None else level.boot.moved(move),
                )
                for level in self.levels
            )
        )


def _check_boot(outer: NestedLevel, inner: NestedLevel, boot: Boot) -> None:
    if outer.weights.directions != 1:
        raise OptionError(
            f"nested, {inner.level}: boots from {outer.level}, which is bidirectional: its state "
            "would be known only after all of the sequence"
        )
    first = inner.weights.layers[0][0]
    if isinstance(first, LinearWeights) and len(first.state_sizes) == 2:
        raise OptionError(
            f"nested, {inner.level}: boot sets the hidden state; this {first.KIND} continues from "
            "its cell state"
        )
    rows, width = boot_shape(outer.weights, inner.weights)
    if boot.weight is None and width != first.output_size:
        raise ShapeMismatchError(
            f"nested, {inner.level}: the state above has {width} values, the initial state "
            f"{first.output_size}; a boot weight is needed between them"
        )
    expected = {"weight": (rows, width), "bias": (rows,)}
    for name, array in boot.arrays().items():
        if array.shape != expected[name]:
            raise ShapeMismatchError(
                f"nested, {inner.level}: boot {name}: expected shape {expected[name]}, "
                f"found {array.shape}"
            )
        require_real(f"nested, {inner.level}: boot {name}", array)


class Initial(NamedTuple):
    """The states of all layers and directions before the first step; None is zeros."""

    hidden: Array | None = None
    cell: Array | None = None


@dataclass(frozen=True, eq=False)
class NestedTape(Summarized):
    """The values that nested_backward needs of one RNN of the chain and of all below it.

    Attributes:
        levels: the RNN and those below it.
        run: tape of all its own steps; None if the RNN below boots.
        below: tape of the RNN below; None for the innermost, and if the RNN below boots.
        steps: if the RNN below boots, one entry for each step.
        rows: N.
        sequences: S, of this RNN.
        like: (0,), with the dtype of all arithmetic, on the device of the data.
    """

    levels: tuple[NestedLevel, ...]
    run: StackTape | None
    below: NestedTape | None
    steps: tuple[NestedStep, ...]
    rows: int
    sequences: int
    like: Array


@dataclass(frozen=True, eq=False)
class NestedStep(Summarized):
    """One step of an outer RNN whose inner one boots.

    Attributes:
        sequences: (n,) the sequences still alive, longest first.
        places: the positions of the step's items on every level below, then of its rows.
        state: (n, O), the outer state that the inner sequences started from.
        run: tape of the outer RNN's one step.
        below: tape of the inner RNN over the items of the step.
    """

    sequences: Offsets
    places: tuple[Offsets, ...]
    state: Array
    run: StackTape
    below: NestedTape


@dataclass(frozen=True, eq=False)
class NestedResult(Summarized):
    """Result of a chain of RNNs.

    Attributes:
        states: for each RNN, outermost first, its output after every item of its
            sequences: (items, directions*H).
        last_hidden: (layers*directions, S, H) of the outermost.
        last_cell: likewise; None unless an LSTM.
        tape: for nested_backward; None without `keep`.
    """

    states: tuple[Array, ...]
    last_hidden: Array
    last_cell: Array | None
    tape: NestedTape | Any


@types_explained
def nested_forward(
    data: Array,
    offsets: tuple[Offsets, ...],
    rnn: NestedRNN,
    *,
    initial_hidden: Array | None = None,
    initial_cell: Array | None = None,
    keep: bool = False,
    backend: Backend = "auto",
    threads: int | None = None,
) -> NestedResult:
    """Return the states of all RNNs of the chain.

    Args:
        data: (N, D), float32 or float64, the dtype of all arithmetic.
        offsets: for each RNN, outermost first, where its sequences begin and end, counted
            in sequences of the next one; in rows for the innermost.
        rnn: the chain.
        initial_hidden: (layers*directions, S, H) of the outermost RNN; None is zeros.
        initial_cell: likewise, LSTM only.
        keep: return a tape, for nested_backward.
        backend, threads: see rnn_forward.

    Raises:
        InvalidLoDError, InvalidDataError, ShapeMismatchError: an argument is wrong, or does
            not fit the others.
    """
    if len(offsets) != len(rnn.levels):
        raise ShapeMismatchError(
            f"nested: {len(rnn.levels)} RNNs take {len(rnn.levels)} levels, found {len(offsets)}"
        )
    # Step by step, the states of halves would be rounded at every step.
    if data.dtype not in (np.float32, np.float64):
        raise InvalidDataError(f"data: expected float32 or float64, found {data.dtype}")
    sizes = [*(len(part) - 1 for part in offsets[1:]), len(data)]
    checked = tuple(checked_offsets(*pair) for pair in zip(offsets, sizes, strict=True))
    run = _Run(keep, backend, threads)
    return run.forward(data, checked, rnn.levels, Initial(initial_hidden, initial_cell))


class _Run(NamedTuple):
    """Settings of a run, the same at every depth."""

    keep: bool
    backend: Backend
    threads: int | None

    def forward(
        self,
        data: Array,
        offsets: tuple[Offsets, ...],
        levels: tuple[NestedLevel, ...],
        initial: Initial,
    ) -> NestedResult:
        """Return the result of the RNNs in `levels`; `initial` is for the first of them."""
        if len(levels) > 1 and levels[1].boot is not None:
            return self._booted(data, offsets, levels, initial)
        own, below = levels[0], None
        rows = data
        if len(levels) > 1:
            below = self.forward(data, offsets[1:], levels[1:], Initial())
            rows = last_of(levels[1].weights, below.last_hidden)
        result = self._stack(rows, offsets[0], own, initial, reverse=own.reverse)
        tape = None
        if self.keep:
            under = None if below is None else below.tape
            tape = _tape(levels, data, offsets, run=result.tape, below=under)
        states = (result.outputs, *(() if below is None else below.states))
        return NestedResult(states, result.last_hidden, result.last_cell, tape)

    def _stack(
        self, rows: Array, offsets: Offsets, rnn: NestedLevel, initial: Initial, *, reverse: bool
    ) -> Any:
        return stack_forward(
            rows,
            offsets,
            rnn.weights,
            initial_hidden=initial.hidden,
            initial_cell=initial.cell,
            reverse=reverse,
            keep=self.keep,
            backend=self.backend,
            threads=self.threads,
        )

    def _booted(
        self,
        data: Array,
        offsets: tuple[Offsets, ...],
        levels: tuple[NestedLevel, ...],
        initial: Initial,
    ) -> NestedResult:
        """Run step by step, since the inner RNN starts from the states of the outer one."""
        own, inner = levels[0], levels[1]
        assert inner.boot is not None
        plan = plan_steps(offsets[0])
        hidden, cell = whole_states(own.weights, initial, len(plan.order), data)
        # How many items each RNN runs over: sequences of the next level, rows for the innermost.
        sizes = (*(len(part) - 1 for part in offsets[1:]), len(data))
        states = tuple(
            np.empty_like(data, shape=(size, level.weights.output_size))
            for size, level in zip(sizes, levels, strict=True)
        )
        steps = []
        for number, alive in enumerate(plan.step_sizes):
            sequences = plan.order[:alive]
            before = Initial(hidden[:, sequences], None if cell is None else cell[:, sequences])
            part, inside, places = _picked(
                data, offsets[1:], plan.rows(number, reverse=own.reverse)
            )
            assert before.hidden is not None
            above = before.hidden[-1]
            start = Initial(booted(inner.boot, above, inner.weights))
            below = self.forward(part, inside, levels[1:], start)
            vectors = last_of(inner.weights, below.last_hidden)
            one = self._stack(vectors, np.arange(alive + 1), own, before, reverse=False)
            hidden[:, sequences] = one.last_hidden
            if cell is not None:
                cell[:, sequences] = one.last_cell
            for out, at, found in zip(states, places, (one.outputs, *below.states), strict=True):
                out[at] = found
            if self.keep:
                assert below.tape is not None
                steps.append(NestedStep(sequences, places, above, one.tape, below.tape))
        tape = None
        if self.keep:
            tape = _tape(levels, data, offsets, steps=tuple(steps))
        return NestedResult(states, hidden, cell, tape)


def _tape(
    levels: tuple[NestedLevel, ...],
    data: Array,
    offsets: tuple[Offsets, ...],
    *,
    run: StackTape | None = None,
    below: NestedTape | None = None,
    steps: tuple[NestedStep, ...] = (),
) -> NestedTape:
    like = np.empty_like(data, shape=0)
    return NestedTape(levels, run, below, steps, len(data), len(offsets[0]) - 1, like)


@np.errstate(all="ignore")  # values may be infinite
def whole_states(
    weights: RNNWeights, initial: Initial, sequences: int, like: Array
) -> tuple[Array, Array | None]:
    """Return the states (or their gradients) of all layers as new arrays, zeros for None.

    They have the dtype and device of `like`.
    """
    sizes = weights.layers[0][0].state_sizes
    parts = []
    for name, given, size in zip(("hidden", "cell"), initial, sizes, strict=False):
        shape = (state_count(weights), sequences, size)
        if given is None:
            given = np.zeros_like(like, shape=shape)
        if given.shape != shape and (shape[0] != 1 or given.shape != shape[1:]):
            raise ShapeMismatchError(f"{name} states: expected {shape}, found {given.shape}")
        require_real(f"{name} states", given)
        parts.append(given.astype(like.dtype).reshape(shape))
    if len(sizes) == 1 and initial.cell is not None:
        raise InvalidDataError(f"cell states: a cell of kind {weights.cell} has none")
    return parts[0], parts[1] if len(parts) == 2 else None


def _picked(
    data: Array, offsets: tuple[Offsets, ...], items: Offsets
) -> tuple[Array, tuple[Offsets, ...], tuple[Offsets, ...]]:
    """Return the rows below some items, their offsets, and the positions they came from."""
    inside, places = [], [items]
    for level, part in enumerate(offsets):
        starts = part[places[-1]]
        inside.append(lengths_to_offsets(part[places[-1] + 1] - starts, level=level))
        places.append(ranges(starts, inside[-1]))
    # np.take is several times faster, but cannot gather on a GPU by an index in main memory.
    rows = data[places[-1]] if is_on_device(data) else np.take(data, places[-1], axis=0)
    return rows, tuple(inside), tuple(places)
