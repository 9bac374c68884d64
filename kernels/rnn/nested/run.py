"""Nested RNNs over the levels of a LoDTensor."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.nested.nested import NestedRNN, NestedTape, nested_forward
from lodcli.kernels.rnn.stack.run import rows_as_vectors
from lodcli.kernels.rnn.stack.states import last_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.runtime.summaries import Summarized
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@dataclass(frozen=True, eq=False)
class NestedOutput(Summarized):
    """Result of nested RNNs.

    Attributes:
        states: for each RNN, outermost first, its output after every item of its
            sequences, with the levels down to its own: after every word for the RNN over
            sentences, after every sentence for the one over articles.
        last: the outermost RNN's output after each of its sequences, (S, directions*H).
        last_hidden: (layers*directions, S, H) of the outermost RNN.
        last_cell: likewise; None unless an LSTM.
        tape: for nested_backward; None without `keep`.
    """

    states: tuple[LoDTensor, ...]
    last: LoDTensor
    last_hidden: Array
    last_cell: Array | None
    tape: NestedTape | Any


@types_explained
def run_nested(
    tensor: LoDTensor,
    rnn: NestedRNN,
    *,
    initial_hidden: Array | None = None,
    initial_cell: Array | None = None,
    keep: bool = False,
    backend: Backend = "auto",
    threads: int | None = None,
) -> NestedOutput:
    """Return the states of a chain of RNNs over the levels it names.

    Levels of the tensor that are not in the chain are skipped: with RNNs over articles and over
    words, a step of the upper RNN is a word, and sentences are ignored.

    Args:
        tensor: data (N, ...), real; rows of any shape are flattened.
        rnn: the chain; its levels from the outermost down.
        initial_hidden: (layers*directions, S, H) of the outermost RNN, S its sequences;
            None is zeros.
        initial_cell: likewise, LSTM only.
        keep: return a tape, for nested_backward.
        backend, threads: see rnn_forward.

    Raises:
        SelectionError: no such level.
        OptionError: the levels of the chain are not in order from the outermost down.
        InvalidDataError: the data are not real numbers, or shapes do not match
            (ShapeMismatchError).

    >>> import numpy as np
    >>> from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
    >>> from lodcli.kernels.rnn.nested.initial_states import Boot
    >>> from lodcli.kernels.rnn.nested.nested import NestedLevel
    >>> from lodcli.kernels.rnn.stack.stack import RNNWeights
    >>> one = np.ones((1, 1))
    >>> adds = RNNWeights(((ElmanWeights(weight_ih=one, weight_hh=one, nonlinearity="identity"),),))
    >>> words = LoDTensor(np.arange(1.0, 6.0), LoD.from_lengths([[2, 1], [2, 1, 2]]))
    >>> apart = NestedRNN((NestedLevel(0, adds), NestedLevel(1, adds)))
    >>> run_nested(words, apart).last.data.ravel().tolist()
    [6.0, 9.0]
    >>> chained = NestedRNN((NestedLevel(0, adds), NestedLevel(1, adds, Boot())))
    >>> run_nested(words, chained).last.data.ravel().tolist()  # 3, then 3 + (3 + 3)
    [9.0, 9.0]
    """
    numbers = level_numbers(tensor.lod, rnn)
    result = nested_forward(
        rows_as_vectors(tensor.data),
        chained_offsets(tensor.lod, numbers),
        rnn,
        initial_hidden=initial_hidden,
        initial_cell=initial_cell,
        keep=keep,
        backend=backend,
        threads=threads,
    )
    indices = [*(tensor.lod.above(number) for number in numbers[1:]), tensor.lod]
    last = last_of(rnn.levels[0].weights, result.last_hidden)
    return NestedOutput(
        states=tuple(map(LoDTensor, result.states, indices)),
        last=LoDTensor(last, tensor.lod.above(numbers[0])),
        last_hidden=result.last_hidden,
        last_cell=result.last_cell,
        tape=result.tape,
    )


def level_numbers(lod: LoD, rnn: NestedRNN) -> list[int]:
    """Return the numbers of the levels of a chain.

    Raises:
        SelectionError: no such level.
        OptionError: they do not run from the outermost down.
    """
    numbers = [lod.level(one.level) for one in rnn.levels]
    for (upper, outer), (lower, inner) in itertools.pairwise(zip(numbers, rnn.levels, strict=True)):
        if upper >= lower:
            raise OptionError(
                f"nested: expected the levels from the outermost down, found {outer.level!r} "
                f"(level {upper}) before {inner.level!r} (level {lower})"
            )
    return numbers


def chained_offsets(lod: LoD, numbers: list[int]) -> tuple[Offsets, ...]:
    """Return the offsets of each level of the chain, counted in sequences of the next one."""
    found = []
    for number, following in itertools.zip_longest(numbers, numbers[1:]):
        offsets = lod.levels[number]
        for lower in lod.levels[number + 1 : following]:
            offsets = lower[offsets]
        found.append(offsets)
    return tuple(found)
