"""An RNN over the sequences of one level of a LoDTensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.rnn.cells.weights import require_real
from lodcli.kernels.rnn.stack.chunked import Chunking
from lodcli.kernels.rnn.stack.stack import RNNWeights, StackTape, stack_forward
from lodcli.kernels.rnn.stack.states import last_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.runtime.summaries import Summarized
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@dataclass(frozen=True, eq=False)
class RNNOutput(Summarized):
    """Result of an RNN.

    Attributes:
        all: data (N, directions*H), a state for every row, with the index of the input.
        last: data (S, directions*H), the last layer's state after each sequence's last
            step, directions side by side as in `all`, with the levels above the sequences.
        last_hidden: (layers*directions, S, H), of all layers, in the form of `initial_hidden`.
        last_cell: (layers*directions, S, H), in the form of `initial_cell`; None unless an LSTM.
        tape: for stack_backward; None without `keep`.
    """

    all: LoDTensor
    last: LoDTensor
    last_hidden: Array
    last_cell: Array | None
    tape: StackTape | Any = None


@types_explained
def run_rnn(
    tensor: LoDTensor,
    weights: RNNWeights,
    *,
    level: int | str = -1,
    reverse: bool = False,
    initial_hidden: Array | None = None,
    initial_cell: Array | None = None,
    keep: bool = False,
    chunking: Chunking | None = None,
    dtype: DTypeLike | None = None,
    backend: Backend = "auto",
    threads: int | None = None,
) -> RNNOutput:
    """Return the states of an RNN over every sequence of `level`, one step for each row.

    Args:
        tensor: data (N, ...), at least one level. Rows of any shape are flattened; real numbers
            other than float32 and float64 are computed in float32, unless `dtype` is given.
        weights: layers and directions of any cell, cast to the dtype of the arithmetic.
        level: the level of the sequences; the levels below it are ignored.
        reverse: run from the last row to the first; every result stays at its row.
        initial_hidden: (layers*directions, S, H), P instead of H with a projection; also (S, H)
            for one layer in one direction. None is zeros.
        initial_cell: likewise, LSTM only.
        keep: return a tape, for stack_backward.
        chunking: of the tape; see chunked.py.
        dtype: float16, bfloat16, float32 or float64, to which rows, weights and states are cast,
            and the dtype of the results: see rnn_forward.
        backend, threads: see rnn_forward.

    Raises:
        InvalidDataError: the tensor has no level, the data are complex, or shapes do not match
            (ShapeMismatchError).
        SelectionError: there is no such level.
        UnsupportedError: `reverse` with bidirectional weights, or the backend does not have this
            cell.

    >>> from lodcli.kernels.index.lod import LoD
    >>> from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
    >>> one = np.ones((1, 1))
    >>> cell = ElmanWeights(weight_ih=one, weight_hh=one, nonlinearity="identity")
    >>> words = LoDTensor(np.array([1.0, 2.0, 5.0]), LoD.from_lengths([[2, 1]]))
    >>> run_rnn(words, RNNWeights(((cell,),))).last.data.ravel().tolist()
    [3.0, 5.0]
    """
    if not len(tensor.lod.levels):
        raise InvalidDataError(
            "run_rnn: expected a tensor of at least one level, found none: "
            "the boundaries of its sequences are unknown"
        )
    number = tensor.lod.level(level)
    result = stack_forward(
        rows_as_vectors(tensor.data, dtype),
        tensor.lod.absolute(number),
        weights,
        initial_hidden=initial_hidden,
        initial_cell=initial_cell,
        reverse=reverse,
        keep=keep,
        chunking=chunking,
        backend=backend,
        threads=threads,
    )
    return RNNOutput(
        all=tensor._with_rows(result.outputs),
        last=LoDTensor._made(last_of(weights, result.last_hidden), tensor.lod.above(number)),
        last_hidden=result.last_hidden,
        last_cell=result.last_cell,
        tape=result.tape,
    )


def rows_as_vectors(data: Array, dtype: DTypeLike | None = None) -> Array:
    """Return data as (N, D) in `dtype`; if that is None, in float32 or float64."""
    require_real("data", data)
    # The width is computed here, since reshape(-1) fails if there are no rows.
    width = math.prod(data.shape[1:])
    wanted = arithmetic_dtype(data.dtype) if dtype is None else dtype_of_rows(dtype)
    return as_dtype(data.reshape(len(data), width), wanted)


def arithmetic_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype of the arithmetic on data of a dtype.

    >>> str(arithmetic_dtype(">f8")), str(arithmetic_dtype("int64"))
    ('float64', 'float32')
    """
    given = np.dtype(dtype)
    # By kind and size: a big-endian float64 is not equal to np.float64.
    return np.dtype(np.float64 if given.kind == "f" and given.itemsize == 8 else np.float32)
