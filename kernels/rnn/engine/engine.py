"""One RNN layer in one direction over ragged sequences, forward and backward.

This module checks arguments and chooses a backend; layer.py is the reference. The state after the
last step is the output at a sequence's last row, so it needs no separate code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.dtypes import is_half, working_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.scan.linear_scan import segment_linear_scan, segment_linear_scan_grad
from lodcli.kernels.options import option
from lodcli.kernels.rnn.cells.cell import State
from lodcli.kernels.rnn.cells.linear_cell import LinearWeights
from lodcli.kernels.rnn.cells.slstm.slstm import SLSTMWeights
from lodcli.kernels.rnn.cells.weights import LayerWeights, require_real
from lodcli.kernels.rnn.engine import halves, heads, layer, linear_layer
from lodcli.kernels.rnn.engine.amx.availability import require_amx
from lodcli.kernels.rnn.engine.plan import StepPlan, checked_offsets, plan_steps
from lodcli.kernels.runtime.argument_types import CheckedFields, types_explained
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.dispatch import COMPILED_BYTES, Backend, on
from lodcli.kernels.runtime.precision import rounds_on_cpu
from lodcli.kernels.runtime.summaries import Summarized
from lodcli.kernels.runtime.threads import thread_count

W = TypeVar("W", bound=LayerWeights)
if TYPE_CHECKING:
    # That of typing has defaults since Python 3.13 only.
    from typing_extensions import TypeVar as VarWithDefault

    # The gradient of the input: None where it is left out.
    G_co = VarWithDefault("G_co", bound=Array | None, default=Array, covariant=True)
else:
    G_co = TypeVar("G_co", covariant=True)
# From this many floating-point operations on, compiled code repays its loading, about a third of a
# second per process. Training runs it many times.
COMPILED_WORK = 1e8
COMPILED_TRAINING_WORK = 5e6
_STATE_NAMES = ("hidden", "cell")


@dataclass(frozen=True, eq=False, kw_only=True)
class States(CheckedFields, Summarized):
    """States before a first step, one row per sequence in the batch's own order.

    Attributes:
        hidden: (S, H), P instead of H with a projection; None is zeros.
        cell: (S, H), of an LSTM only; None is zeros.
    """

    hidden: Array | None = None
    cell: Array | None = None


@dataclass(frozen=True, eq=False)
class RNNTape(Summarized, Generic[W]):
    """The values of a forward run that rnn_backward needs; `kept` is private to its backend.

    A tape may be used more than once. It holds a reference to `data`, and with a compiled backend
    to the outputs and cells: those become read-only, except on a GPU, which cannot protect them.
    """

    weights: W
    plan: StepPlan
    data: Array
    reverse: bool
    kept: Any
    backward: Callable[..., layer.LayerGradients]


@dataclass(frozen=True, eq=False)
class RNNResult(Summarized, Generic[W]):
    """Result of one layer in one direction.

    Attributes:
        outputs: (N, H), the hidden state after each row; P instead of H with a projection.
        cells: (N, H), the cell state after each row, if there is one and it was requested.
        last_hidden: (S, H), after each sequence's last step; of an empty sequence its
            initial state.
        last_cell: (S, H), likewise; None unless an LSTM.
        tape: for rnn_backward, if requested.
    """

    outputs: Array
    cells: Array | None
    last_hidden: Array
    last_cell: Array | None
    tape: RNNTape[W] | Any


@dataclass(frozen=True, eq=False)
class RNNGradients(Summarized, Generic[W, G_co]):
    """The gradients of the arguments of rnn_forward.

    Attributes:
        input: (N, D); None if not requested, RNNGradients[W, None] for type checkers.
        weights: the gradient of each array, in an object of the same class.
        initial_hidden: (S, H), also if no initial state was given.
        initial_cell: (S, H), likewise; None without a cell state.
    """

    input: G_co
    weights: W
    initial_hidden: Array
    initial_cell: Array | None

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            """Return the class with these parameters; by default, the last is an array."""
            # The default of G_co, which is for type checkers only.
            if cls.__parameters__ == (W, G_co) and not isinstance(given, tuple):
                given = (given, Array)
            return super().__class_getitem__(given)


@types_explained
def rnn_forward(
    data: Array,
    offsets: Offsets,
    weights: W,
    *,
    initial: States | None = None,
    reverse: bool = False,
    keep: bool = False,
    cells: bool = True,
    backend: Backend = "auto",
    threads: int | None = None,
    suffix: str = "",
) -> RNNResult[W]:
    """Return the states after every row and after every sequence.

    Args:
        data: (N, D), float16, bfloat16, float32 or float64, the dtype of the results; with
            weight_ih None the projected inputs, (N, gates*H). For float16 and bfloat16, sums and
            the states from step to step are float32; a GPU stores rows in two bytes if it can.
        offsets: (S+1,) int64, in rows.
        weights: of any cell; cast to the dtype of the data.
        initial: states before the first step, in the order of the batch; None is zeros.
        reverse: run each sequence from its last row to its first; every result stays at
            its row.
        keep: return a tape for rnn_backward.
        cells: return the cell state after every row, if there is one.
        backend: "numpy", the reference; "numba"; "cupy", for data, weights and states on a
            GPU; "auto": cupy for those, else numba if it has the cell and there is enough work,
            else numpy. With numba, the result of a sequence does not depend on the other
            sequences, not even in rounding, except for linear cells; with numpy, rounding may.
        threads: maximum number; None is LOD_THREADS, else all processors. Results do not
            depend on it. (NumPy's matrix products ignore it.)
        suffix: appended to names of weights in messages: "_l0", "_l1_reverse".

    Raises:
        InvalidDataError, InvalidLoDError, ShapeMismatchError: an argument is wrong, or
            does not fit the others.
        UnsupportedError: the backend does not have this cell, or the cell has no cell state.

    >>> from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
    >>> one = np.ones((1, 1))
    >>> add_up = ElmanWeights(weight_ih=one, weight_hh=one, nonlinearity="identity")
    >>> run = rnn_forward(np.array([[1.0], [2.0], [5.0]]), np.array([0, 2, 2, 3]), add_up)
    >>> run.outputs.ravel().tolist(), run.last_hidden.ravel().tolist()
    ([1.0, 3.0, 5.0], [3.0, 0.0, 5.0])
    """
    weights.check(suffix)
    _check_data(data, weights, suffix)
    _require_together(data, weights, suffix)
    plan = plan_steps(checked_offsets(offsets, len(data), kept=False))
    weights = weights.astype(data.dtype)
    begin = _initial_states(initial, weights, len(plan.order), data, keep)
    run_forward, run_backward = _on(backend, weights, data, keep)
    run = run_forward(
        data,
        plan,
        weights,
        begin,
        reverse=reverse,
        keep=keep,
        cells=cells,
        threads=thread_count(threads),
    )
    tape = None
    if keep:
        back = _Backward(backend, weights, data, run_backward)
        tape = RNNTape(weights, plan, data, reverse, run.kept, back)
    return RNNResult(
        outputs=run.through[0],
        cells=run.through[1] if len(run.through) == 2 else None,
        last_hidden=run.last[0],
        last_cell=run.last[1] if len(run.last) == 2 else None,
        tape=tape,
    )


@overload
def rnn_backward(
    tape: RNNTape[W],
    *,
    grad_outputs: Array | None = None,
    grad_cells: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    input_gradient: Literal[True] = True,
    threads: int | None = None,
) -> RNNGradients[W]: ...
@overload
def rnn_backward(
    tape: RNNTape[W],
    *,
    grad_outputs: Array | None = None,
    grad_cells: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    input_gradient: Literal[False],
    threads: int | None = None,
) -> RNNGradients[W, None]: ...
@overload
def rnn_backward(
    tape: RNNTape[W],
    *,
    grad_outputs: Array | None = None,
    grad_cells: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    input_gradient: bool,
    threads: int | None = None,
) -> RNNGradients[W, Array | None]: ...
@types_explained
def rnn_backward(
    tape: RNNTape[W],
    *,
    grad_outputs: Array | None = None,
    grad_cells: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    input_gradient: bool = True,
    threads: int | None = None,
) -> RNNGradients[W, Array | None]:
    """Return the gradients of the input, all weights and biases, and the initial states.

    The backend is that of the forward run.

    Args:
        tape: from rnn_forward(.., keep=True).
        grad_outputs: (N, H), the gradient of the outputs. None is zeros, here and below.
        grad_cells: (N, H), of the cells, for a cell with a cell state.
        grad_last_hidden: (S, H), of the last hidden states, in addition to grad_outputs.
        grad_last_cell: (S, H), of the last cell states, for a cell with a cell state.
        input_gradient: False leaves out the gradient of the input, which takes up to a third of
            the time of a backward pass.
        threads: as for rnn_forward.

    Raises:
        ShapeMismatchError: a gradient does not have the shape of its result.
        UnsupportedError: the cell has no cell state, whose gradient is given; or products are to
            be rounded (see float32_products), and that backend cannot do it.
    """
    weights, data = tape.weights, tape.data
    if not is_on_device(data) and rounds_on_cpu(working_dtype(data.dtype)):
        _rounding_backend("auto", weights)
    rows, sequences = len(data), len(tape.plan.order)
    found = tape.backward(
        data,
        tape.plan,
        weights,
        tape.kept,
        _checked_states("grad", (grad_outputs, grad_cells), weights, rows, data),
        _checked_states("grad_last", (grad_last_hidden, grad_last_cell), weights, sequences, data),
        reverse=tape.reverse,
        with_input=input_gradient,
        threads=thread_count(threads),
    )
    first = found.first
    return RNNGradients(found.input, found.weights, first[0], first[1] if len(first) == 2 else None)


@dataclass(frozen=True, eq=False)
class _Backward:
    """The function of a tape. Dispatchers cannot be pickled: another process dispatches again."""

    backend: Backend
    weights: LayerWeights
    data: Array
    run: Callable[..., layer.LayerGradients]

    def __call__(self, *args: Any, **more: Any) -> layer.LayerGradients:
        return self.run(*args, **more)

    def __reduce__(self) -> tuple[Any, ...]:
        return _backward_on, (self.backend, self.weights, self.data)


def _backward_on(backend: Backend, weights: LayerWeights, data: Array) -> _Backward:
    _, run = _on(backend, weights, data, True)
    return _Backward(backend, weights, data, run)


def _on(backend: Backend, weights: LayerWeights, data: Array, keep: bool) -> tuple[Any, Any]:
    """Return the functions of layer.py on a backend, for the dtype of the data.

    Raises:
        UnsupportedError: it does not have this cell.
    """
    forward, backward = _twins(backend, weights, data, keep)
    if not is_half(data.dtype) or takes_halves(data, weights):
        return forward, backward
    return partial(halves.layer_forward, run=forward), partial(halves.layer_backward, run=backward)


def takes_halves(data: Array, weights: LayerWeights) -> bool:
    """Return whether the kernels themselves accept rows of two bytes: those of layer_cupy.py."""
    return is_on_device(data) and not isinstance(weights, LinearWeights | SLSTMWeights)


def _twins(backend: Backend, weights: LayerWeights, data: Array, keep: bool) -> tuple[Any, Any]:
    if not is_on_device(data) and rounds_on_cpu(working_dtype(data.dtype)):
        backend = _rounding_backend(backend, weights)
    # On a GPU there are all cells. Compiled kernels take a weight_ih without columns for none.
    plain = weights.is_plain and (data.shape[1] > 0 or isinstance(weights, LinearWeights))
    if not plain and backend != "cupy" and not is_on_device(data):
        if backend not in ("auto", "numpy"):
            raise UnsupportedError(
                f"no {backend} kernel for this {weights.KIND}: it has plain cells only, not "
                f"peepholes, projections, chosen activations or rows of no values; use "
                f"{option('backend', 'numpy')}"
            )
        backend = "numpy"
    work = float(len(data)) * weights.operations
    repays = work >= (COMPILED_TRAINING_WORK if keep else COMPILED_WORK)
    size_bytes = COMPILED_BYTES if repays else 0
    if isinstance(weights, LinearWeights):
        scan = on(backend, segment_linear_scan, size_bytes=size_bytes)
        gradient = on(backend, segment_linear_scan_grad, size_bytes=size_bytes)
        return (
            partial(linear_layer.layer_forward, scan=scan),
            partial(linear_layer.layer_backward, scan_gradient=gradient),
        )
    forward = on(backend, layer.layer_forward, size_bytes=size_bytes)
    backward = on(backend, layer.layer_backward, size_bytes=size_bytes)
    if isinstance(weights, SLSTMWeights):
        return (
            partial(heads.layer_forward, run=forward),
            partial(heads.layer_backward, run=backward),
        )
    return forward, backward


def _rounding_backend(backend: Backend, weights: LayerWeights) -> Backend:
    """Return the backend that rounds factors on a CPU.

    Raises:
        UnsupportedError: it does not have this cell, another backend was chosen, or there is no
            AMX.
    """
    if backend not in ("auto", "numba"):
        raise UnsupportedError(
            f"precision bfloat16 on a CPU: expected backend auto or numba, found {backend}"
        )
    if not weights.is_plain or isinstance(weights, LinearWeights):
        raise UnsupportedError(
            f"precision bfloat16 on a CPU: this {weights.KIND} has no kernel for it, only a plain "
            "lstm, gru, elman or slstm; use float32"
        )
    require_amx()
    return "numba"


def _check_data(data: Array, weights: LayerWeights, suffix: str) -> None:
    if data.dtype not in (np.float32, np.float64) and not (
        is_half(data.dtype) and data.dtype.isnative
    ):
        raise InvalidDataError(
            f"data: expected float16, bfloat16, float32 or float64, found {data.dtype}"
        )
    if data.ndim != 2 or data.shape[1] != weights.input_size:
        source = f"{weights.name_of(weights.INPUT_WEIGHT)}{suffix}"
        if weights.takes_projected:
            source = (
                f"{weights.name_of(weights.STATE_WEIGHT)}{suffix}, the data being projected already"
            )
        raise ShapeMismatchError(
            f"data: expected (N, {weights.input_size}) for {source}, found {data.shape}"
        )


def _initial_states(
    initial: States | None, weights: LayerWeights, sequences: int, data: Array, keep: bool
) -> State:
    hidden, cell = (None, None) if initial is None else (initial.hidden, initial.cell)
    if (
        hidden is not None
        and cell is None
        and isinstance(weights, LinearWeights)
        and len(weights.state_sizes) == 2
    ):
        raise InvalidDataError(
            f"initial hidden: a {weights.KIND} whose output is not its state continues from its "
            "cell state; give that as well"
        )
    given = _checked_states("initial", (hidden, cell), weights, sequences, data)
    # zeros_like is several times slower for a few rows.
    zeros = np.zeros if type(data) is np.ndarray else partial(_zeros_like, data)
    # A tape keeps copies: the caller may change its arrays, often the last states of the previous
    # run.
    return tuple(
        [
            zeros((sequences, size), data.dtype) if part is None else part.copy() if keep else part
            for part, size in zip(given, weights.state_sizes, strict=True)
        ]
    )


def _zeros_like(data: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.zeros_like(data, shape=shape, dtype=dtype)


def _require_together(data: Array, weights: LayerWeights, suffix: str) -> None:
    """Reject data and weights in different memories: nothing is moved implicitly.

    Raises:
        InvalidDataError: a matrix or a masked array, whose operators are other ones.
        UnsupportedError: names the first weight that lies elsewhere.
    """
    there = is_on_device(data)
    if type(data) is not np.ndarray:
        _require_plain("data", data)
    for name, array in weights.arrays().items():
        # A plain array in main memory is the common case, and needs no call.
        if not there and type(array) is np.ndarray:
            continue
        _require_plain(f"{name}{suffix}", array)
        if is_on_device(array) != there:
            places = ("main memory", "a GPU's memory")
            move = "cupy.asarray" if there else "cupy.asnumpy"
            raise UnsupportedError(
                f"{name}{suffix} is in {places[not there]}, the data are in {places[there]}; "
                f"move all weights with weights.moved({move})"
            )


def _require_plain(name: str, array: Array) -> None:
    if isinstance(array, np.matrix) or (isinstance(array, np.ndarray) and hasattr(array, "mask")):
        raise InvalidDataError(
            f"{name}: expected a plain array, found a {type(array).__name__}; "
            "numpy.asarray makes one, without a mask"
        )


def _checked_states(
    what: str,
    given: tuple[Array | None, Array | None],
    weights: LayerWeights,
    rows: int,
    data: Array,
) -> tuple[Array | None, ...]:
    """Return the parts of a state in the dtype of the data, shapes and places checked."""
    sizes = weights.state_sizes
    if given[0] is None and given[1] is None:  # fast path
        return given[: len(sizes)]
    if len(sizes) == 1 and given[1] is not None:
        raise UnsupportedError(f"{what} cell: a cell of kind {weights.KIND} has no cell state")
    parts: list[Array | None] = []
    for name, array, size in zip(_STATE_NAMES, given, sizes, strict=False):
        if array is not None:
            require_real(f"{what} {name}", array)
            if array.shape != (rows, size):
                raise ShapeMismatchError(
                    f"{what} {name}: expected shape {(rows, size)}, found {array.shape}"
                )
            if is_on_device(array) != is_on_device(data):
                raise UnsupportedError(
                    f"{what} {name}: expected it in the memory of the data, found it in "
                    f"{'main memory' if is_on_device(data) else 'the memory of a GPU'}"
                )
            array = as_dtype(array, data.dtype)
        parts.append(array)
    return tuple(parts)
