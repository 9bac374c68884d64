"""Long sequences in chunks of steps: gradient checkpointing, or truncated backpropagation.

    checkpoint   only the states between chunks are kept; the backward pass recomputes each
                 chunk, so that it needs the memory of one chunk. The gradients are the same.
    truncate     the gradient does not pass from a chunk to the one before (truncated
                 backpropagation through time); the states do. The results are the same.

Williams and Peng, 1990; Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.ops.dtypes import is_half, working_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.rnn.engine.engine import (
    RNNResult,
    RNNTape,
    States,
    rnn_backward,
    rnn_forward,
    takes_halves,
)
from lodcli.kernels.rnn.engine.layer import LayerGradients
from lodcli.kernels.rnn.engine.plan import StepPlan, checked_offsets, plan_steps
from lodcli.kernels.runtime.argument_types import construction_explained, types_explained
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.runtime.precision import Precision, current_precision, float32_products
from lodcli.kernels.runtime.summaries import Summarized

W = TypeVar("W", bound=LayerWeights)


@construction_explained
@dataclass(frozen=True)
class Chunking:
    """Chunk lengths in steps, counted from a sequence's first step (from its last if reversed).

    Attributes:
        checkpoint: number of steps of a chunk that the backward pass recomputes; None: keep all.
        truncate: number of steps after which the gradient is cut off; None: never.

    Raises:
        InvalidDataError: a number is below 1.
    """

    checkpoint: int | None = None
    truncate: int | None = None

    def __post_init__(self) -> None:
        for name, steps in (("checkpoint", self.checkpoint), ("truncate", self.truncate)):
            if not isinstance(steps, int | None):
                raise TypeError("not a whole number")
            if steps is not None and steps < 1:
                raise InvalidDataError(f"{name}: expected at least 1 step, found {steps}")

    def bounds(self, longest: int) -> list[int]:
        """Return the steps at which chunks begin, and the end, for at most `longest` steps.

        >>> Chunking(checkpoint=4, truncate=6).bounds(13)
        [0, 4, 6, 8, 12, 13]
        """
        found = {0, longest}
        for steps in (self.checkpoint, self.truncate):
            if steps is not None:
                found |= set(range(0, longest, steps))
        return sorted(found)


@dataclass(frozen=True, eq=False)
class Chunk(Summarized, Generic[W]):
    """One chunk of steps, of all sequences that are long enough to have it.

    Attributes:
        sequences: (n,) the numbers of those sequences.
        rows: the numbers of their rows in the chunk, sequence by sequence.
        offsets: (n+1,), of the sequences in those rows.
        goes_on: (n,) whether a sequence has steps after the chunk.
        cut: whether the gradient is cut off after the chunk.
        initial: the states before its first step.
        tape: the tape of its run; None if it must be recomputed.
    """

    sequences: Offsets
    rows: Offsets
    offsets: Offsets
    goes_on: Array
    cut: bool
    initial: States
    tape: RNNTape[W] | None


@dataclass(frozen=True, eq=False)
class Chunks(Generic[W]):
    """Content of the tape of a run in chunks; for `precision` see float32_products."""

    chunks: tuple[Chunk[W], ...]
    backend: Backend
    precision: Precision


@types_explained
def chunked_forward(
    data: Array,
    offsets: Offsets,
    weights: W,
    *,
    chunking: Chunking,
    initial: States | None = None,
    reverse: bool = False,
    backend: Backend = "auto",
    threads: int | None = None,
    suffix: str = "",
) -> RNNResult[W]:
    """Return the result of rnn_forward(.., keep=True, cells=False), computed chunk by chunk.

    The tape is for rnn_backward. Its gradients are those of a tape of the whole run, except
    for the order in which gradients of weights are summed over rows, and for truncation.
    Of float16 and bfloat16, the states between chunks are float32 as well.

    Args:
        data: (N, D) rows.
        offsets: (S + 1,) int64, of the sequences in the rows.
        weights: of one layer and direction.
        chunking: the steps of a chunk, and which chunks are recomputed or cut off.
        initial, reverse, backend, threads, suffix: as for rnn_forward.

    Returns:
        Outputs (N, H), the last states (S, H), and the tape, which holds the states between
        chunks, (S, H) each; of recomputed chunks nothing else.

    Raises:
        InvalidDataError, ShapeMismatchError, UnsupportedError: as rnn_forward.

    References:
        T. Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016 (recomputed chunks);
        R. Williams and J. Peng, 1990 (truncated backpropagation through time).
    """
    offsets = checked_offsets(offsets, len(data))
    lengths = offsets_to_lengths(offsets)
    # First a run over no rows: it checks all arguments, and its last states are the initial ones.
    begin = rnn_forward(data[:0], np.zeros_like(offsets), weights, initial=initial, suffix=suffix)
    wide = working_dtype(data.dtype)
    weights = weights.astype(data.dtype).astype(wide)
    state = [
        as_dtype(part, wide) for part in (begin.last_hidden, begin.last_cell) if part is not None
    ]
    precision = _precision(data, weights)
    outputs = np.empty_like(data, shape=(len(data), begin.outputs.shape[1]))
    chunks = []
    bounds = chunking.bounds(int(lengths.max(initial=0)))
    for start, stop in itertools.pairwise(bounds):
        sequences = np.flatnonzero(lengths > start)
        rows, inside = _rows(offsets, sequences, start, stop, reverse)
        hidden, *cells = (part[sequences] for part in state)
        before = States(hidden=hidden, cell=cells[0] if cells else None)
        with float32_products(precision):
            result = rnn_forward(
                as_dtype(data[rows], wide),
                inside,
                weights,
                initial=before,
                reverse=reverse,
                keep=chunking.checkpoint is None,
                cells=False,
                backend=backend,
                threads=threads,
                suffix=suffix,
            )
        outputs[rows] = as_dtype(result.outputs, data.dtype)
        for whole, part in zip(state, (result.last_hidden, result.last_cell), strict=False):
            assert part is not None
            whole[sequences] = part
        cut = chunking.truncate is not None and stop % chunking.truncate == 0
        goes_on = lengths[sequences] > stop
        chunks.append(Chunk(sequences, rows, inside, goes_on, cut, before, result.tape))
    hidden, *cells = (as_dtype(part, data.dtype) for part in state)
    kept = Chunks(tuple(chunks), backend, precision)
    tape = RNNTape(weights, plan_steps(offsets), data, reverse, kept, _backward)
    return RNNResult(outputs, None, hidden, cells[0] if cells else None, tape)


def _precision(data: Array, weights: LayerWeights) -> Precision:
    """Return the precision of products of the rows of a chunk, as float32: that of a whole run."""
    if not (is_half(data.dtype) and takes_halves(data, weights)):
        return current_precision()
    from lodcli.kernels.rnn.engine.cupy.ways import precision_of_rows

    return precision_of_rows(data.dtype)


def _rows(
    offsets: Offsets, sequences: Offsets, start: int, stop: int, reverse: bool
) -> tuple[Offsets, Offsets]:
    """Return the rows of steps start..stop of some sequences, and their offsets."""
    first, last = offsets[sequences], offsets[sequences + 1]
    begin = np.maximum(last - stop, first) if reverse else first + start
    end = last - start if reverse else np.minimum(first + stop, last)
    inside = lengths_to_offsets(end - begin, level=0)
    return ranges(begin, inside), inside


def _backward(
    data: Array,
    plan: StepPlan,
    weights: W,
    kept: Chunks[W],
    by_row: tuple[Array | None, ...],
    by_sequence: tuple[Array | None, ...],
    *,
    reverse: bool,
    with_input: bool,
    threads: int,
) -> LayerGradients:
    """Backpropagate chunk by chunk; arguments as for layer_backward."""
    wide = working_dtype(data.dtype)
    running = [
        np.zeros_like(data, wide, shape=(len(plan.order), size))
        if given is None
        else given.astype(wide)
        for given, size in zip(by_sequence, weights.state_sizes, strict=True)
    ]
    cells = by_row[1] if len(by_row) == 2 else None
    total = weights.zeros_like()
    precision = _precision(data, weights)
    grad_input = np.empty_like(data) if with_input else None
    for chunk in reversed(kept.chunks):
        behind = [part[chunk.sequences] for part in running]
        if chunk.cut:
            for part in behind:
                part[chunk.goes_on] = 0
        tape = chunk.tape or _again(data, weights, chunk, reverse, kept, threads)
        with float32_products(precision):
            found = rnn_backward(
                tape,
                grad_outputs=None if by_row[0] is None else by_row[0][chunk.rows],
                grad_cells=None if cells is None else cells[chunk.rows],
                grad_last_hidden=behind[0],
                grad_last_cell=behind[1] if len(behind) == 2 else None,
                input_gradient=with_input,
                threads=threads,
            )
        if grad_input is not None and found.input is not None:
            grad_input[chunk.rows] = as_dtype(found.input, data.dtype)
        total = total.plus(found.weights)
        for whole, new in zip(running, (found.initial_hidden, found.initial_cell), strict=False):
            assert new is not None
            whole[chunk.sequences] = new
    first = tuple(as_dtype(part, data.dtype) for part in running)
    return LayerGradients(grad_input, total.astype(data.dtype), first)


def _again(
    data: Array, weights: W, chunk: Chunk[W], reverse: bool, kept: Chunks[W], threads: int
) -> RNNTape[W]:
    # Recompute with the precision of the forward pass, so that the gradient is that of the states
    # it returned. The precision of the backward pass applies only to its own products.
    with float32_products(kept.precision):
        result = rnn_forward(
            as_dtype(data[chunk.rows], weights.dtype),
            chunk.offsets,
            weights,
            initial=chunk.initial,
            reverse=reverse,
            keep=True,
            cells=False,
            backend=kept.backend,
            threads=threads,
        )
    assert result.tape is not None
    return result.tape
