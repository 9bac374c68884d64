"""RNNs of several layers, in one direction or both, as torch's nn.RNN, GRU and LSTM.

Layer l+1 takes the outputs of layer l. With two directions the outputs of a layer are
the forward run's and then the backward run's, side by side. Initial and last states are
stacked (layers*directions, S, H) in the order l0, l0_reverse, l1, l1_reverse, ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic, Literal, overload

import numpy as np
from numpy.typing import DTypeLike

from lodcli.kernels.dtypes import dtype_of_rows, is_float
from lodcli.kernels.errors import (
    InvalidDataError,
    OptionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.options import option_name
from lodcli.kernels.rnn.cells.registry import weights_class
from lodcli.kernels.rnn.cells.weights import LayerWeights, Sizes
from lodcli.kernels.rnn.engine.engine import (
    G_co,
    RNNGradients,
    RNNResult,
    RNNTape,
    States,
    rnn_backward,
    rnn_forward,
)
from lodcli.kernels.rnn.stack.chunked import Chunking, chunked_forward
from lodcli.kernels.runtime.argument_types import construction_explained, types_explained
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.runtime.summaries import Summarized

MOST_LAYERS = 10_000


@construction_explained
@dataclass(frozen=True, eq=False)
class RNNWeights(Summarized):
    """The weights of a whole RNN, or, in the same shape, their gradients.

    Attributes:
        layers: `layers[l][d]`, d 0 forward and 1 backward; all of one kind of cell.

    Raises:
        InvalidDataError: there are no layers, or layers differ in directions or kind of cell.
        ShapeMismatchError: weights do not match; names them as torch does.
    """

    layers: tuple[tuple[LayerWeights, ...], ...]

    def __post_init__(self) -> None:
        counts = {len(layer) for layer in self.layers}
        if counts not in ({1}, {2}):
            raise InvalidDataError(
                "weights: expected 1 or 2 directions, the same in every layer, "
                f"found {[len(layer) for layer in self.layers]}"
            )
        first = self.layers[0][0]
        first.check_ranks(self.suffixes()[0][0])  # before its sizes are read
        expected_input = first.input_size
        for layer, (suffixes, directions) in enumerate(
            zip(self.suffixes(), self.layers, strict=True)
        ):
            for suffix, weights in zip(suffixes, directions, strict=True):
                self._check_direction(weights, suffix, layer, expected_input)
            expected_input = first.output_size * self.directions

    def _check_direction(
        self, weights: LayerWeights, suffix: str, layer: int, input_size: int
    ) -> None:
        first = self.layers[0][0]
        if weights.KIND != first.KIND:
            raise InvalidDataError(
                f"weights{suffix}: expected cells of kind {first.KIND}, found {weights.KIND}"
            )
        weights.check(suffix)
        if weights.takes_projected and layer:
            raise InvalidDataError(
                f"{weights.name_of(weights.INPUT_WEIGHT)}{suffix}: only layer 0 may omit it"
            )
        if weights.takes_projected != first.takes_projected and not layer:
            raise InvalidDataError(
                "weight_ih_l0, weight_ih_l0_reverse: expected both or neither, found one"
            )
        if weights.state_sizes != first.state_sizes:
            name = weights.name_of(weights.STATE_WEIGHT)
            raise ShapeMismatchError(
                f"{name}{suffix}: expected the state sizes of {name}_l0, {first.state_sizes}, "
                f"found {weights.state_sizes}"
            )
        if weights.input_size != input_size:
            field, sizes = weights.INPUT_WEIGHT, weights.sizes()
            expected, found = (
                weights.weight_shapes(dataclasses.replace(sizes, input=size))[field]
                for size in (input_size, weights.input_size)
            )
            raise ShapeMismatchError(
                f"{weights.name_of(field)}{suffix}: expected shape {expected}, found {found}"
            )

    @property
    def cell(self) -> str:
        """The kind of cell, one of CELLS."""
        return self.layers[0][0].KIND

    @property
    def directions(self) -> int:
        """1, or 2 if bidirectional."""
        return len(self.layers[0])

    @property
    def input_size(self) -> int:
        """D, the width of a row of data."""
        return self.layers[0][0].input_size

    @property
    def hidden_size(self) -> int:
        """H."""
        return self.layers[0][0].hidden_size

    @property
    def output_size(self) -> int:
        """The width of a row of outputs: directions times H, or P with a projection."""
        return self.layers[0][0].output_size * self.directions

    def suffixes(self) -> tuple[tuple[str, ...], ...]:
        """Return the suffixes of weights' names in a state dict, by layer and direction."""
        return _suffixes(len(self.layers), self.directions, self.layers[0][0].SUFFIXED)

    @types_explained
    def map(self, function: Callable[[LayerWeights], LayerWeights]) -> RNNWeights:
        """Return weights with `function` applied to every layer and direction."""
        return RNNWeights(
            tuple(tuple(function(weights) for weights in layer) for layer in self.layers)
        )

    def like(self, function: Callable[[LayerWeights], LayerWeights]) -> RNNWeights:
        """Return the result of `map` without checks, for functions that keep shapes and options."""
        made = object.__new__(RNNWeights)
        layers = tuple(tuple(map(function, layer)) for layer in self.layers)
        object.__setattr__(made, "layers", layers)
        return made

    def moved(self, move: Callable[[Array], Array]) -> RNNWeights:
        """Return weights with `move` applied to every array: cupy.asarray, for a GPU."""
        return self.map(lambda weights: weights.moved(move))

    def frozen(self, dtype: DTypeLike | None = None) -> RNNWeights:
        """Return read-only copies, in `dtype`: compiled backends prepare such weights only once."""
        return self.map(lambda one: (one if dtype is None else one.astype(dtype)).frozen())

    def option_names(self) -> frozenset[str]:
        """Return the names of the options that its cell has: activations, origin_mode."""
        return frozenset(self.layers[0][0].option_defaults())

    def with_options(self, **options: str | bool) -> RNNWeights:
        """Return the same arrays with other options: activations, origin_mode.

        >>> rng = np.random.default_rng(0)
        >>> weights = seeded_weights("elman", 3, 2, rng=rng).with_options(nonlinearity="relu")

        Raises:
            UnsupportedError: the cell has no such option.
        """
        known = self.option_names()
        for name in options:
            if name not in known:
                has = ", ".join(sorted(known)) or "none"
                raise UnsupportedError(f"cell {self.cell}: no option {name!r}; it has {has}")
        values: dict[str, Any] = dict(options)
        return self.map(lambda weights: dataclasses.replace(weights, **values))


@lru_cache(maxsize=32)
def _suffixes(layers: int, directions: int, suffixed: bool) -> tuple[tuple[str, ...], ...]:
    if layers == directions == 1 and not suffixed:
        return (("",),)
    names = ("", "_reverse")[:directions]
    return tuple(tuple(f"_l{layer}{name}" for name in names) for layer in range(layers))


@dataclass(frozen=True, eq=False)
class StackTape(Summarized):
    """What stack_backward needs: the tape of every layer and direction."""

    weights: RNNWeights
    tapes: tuple[tuple[RNNTape[LayerWeights], ...], ...]


@dataclass(frozen=True, eq=False)
class StackResult(Summarized):
    """Result of a stack of layers.

    Attributes:
        outputs: (N, directions*H), of the last layer; P instead of H with a projection.
        last_hidden: (layers*directions, S, H), after each sequence's last step.
        last_cell: (layers*directions, S, H); None unless an LSTM.
        tape: for stack_backward; None without `keep`.
    """

    outputs: Array
    last_hidden: Array
    last_cell: Array | None
    tape: StackTape | Any


@dataclass(frozen=True, eq=False)
class StackGradients(Summarized, Generic[G_co]):
    """The gradients of the arguments of stack_forward, in their shapes.

    Attributes:
        input: of the data; None if not requested, StackGradients[None] for type checkers.
        weights: of every array, in an object of the same class.
        initial_hidden: (layers*directions, S, H), also if no initial state was given.
        initial_cell: likewise; None unless an LSTM.
    """

    input: G_co
    weights: RNNWeights
    initial_hidden: Array
    initial_cell: Array | None


@types_explained
def stack_forward(
    data: Array,
    offsets: Offsets,
    weights: RNNWeights,
    *,
    initial_hidden: Array | None = None,
    initial_cell: Array | None = None,
    reverse: bool = False,
    keep: bool = False,
    chunking: Chunking | None = None,
    backend: Backend = "auto",
    threads: int | None = None,
) -> StackResult:
    """Return the outputs of the last layer and the last states of all.

    Args:
        data: (N, D), float16, bfloat16, float32 or float64: see rnn_forward.
        offsets: (S+1,) int64, in rows.
        weights: of any cell, cast to the dtype of the data.
        initial_hidden: (layers*directions, S, H), P instead of H with a projection; also (S, H)
            for one layer in one direction. None is zeros.
        initial_cell: likewise, always H wide; LSTM only.
        reverse: run every layer from last row to first; one direction only.
        keep: return a tape, for stack_backward.
        chunking: of the tape, to keep less or cut the gradient off; see chunked.py.
        backend, threads: see rnn_forward.

    Raises:
        InvalidDataError, ShapeMismatchError: see rnn_forward.
        UnsupportedError: reverse with two directions, which run both ways already.
    """
    if reverse and weights.directions == 2:
        raise UnsupportedError(
            f"{option_name('reverse')}: these weights are bidirectional and run both ways already; "
            "leave it out"
        )
    hidden = _by_direction("initial_hidden", initial_hidden, weights)
    cell = _by_direction("initial_cell", initial_cell, weights)
    zeros = initial_hidden is None and initial_cell is None
    run: Callable[..., RNNResult[LayerWeights]] = partial(rnn_forward, keep=keep, cells=False)
    if keep and chunking is not None:
        run = partial(chunked_forward, chunking=chunking)
    results: list[list[RNNResult[LayerWeights]]] = []
    for suffixes, layer in zip(weights.suffixes(), weights.layers, strict=True):
        results.append(
            [
                run(
                    data,
                    offsets,
                    direction,
                    initial=None if zeros else States(hidden=next(hidden), cell=next(cell)),
                    reverse=reverse or suffix.endswith("_reverse"),
                    backend=backend,
                    threads=threads,
                    suffix=suffix,
                )
                for suffix, direction in zip(suffixes, layer, strict=True)
            ]
        )
        parts = [result.outputs for result in results[-1]]
        data = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    flat = [result for layer_results in results for result in layer_results]
    cells = [result.last_cell for result in flat if result.last_cell is not None]
    tape = None
    if keep:
        tapes = tuple(tuple(result.tape for result in of_layer) for of_layer in results)
        tape = StackTape(weights, tapes)
    return StackResult(
        outputs=data,
        last_hidden=_stacked([result.last_hidden for result in flat]),
        last_cell=_stacked(cells) if cells else None,
        tape=tape,
    )


@overload
def stack_backward(
    tape: StackTape,
    *,
    grad_outputs: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    input_gradient: Literal[True] = True,
    threads: int | None = None,
) -> StackGradients: ...
@overload
def stack_backward(
    tape: StackTape,
    *,
    grad_outputs: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    input_gradient: Literal[False],
    threads: int | None = None,
) -> StackGradients[None]: ...
@overload
def stack_backward(
    tape: StackTape,
    *,
    grad_outputs: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    input_gradient: bool,
    threads: int | None = None,
) -> StackGradients[Array | None]: ...
@types_explained
def stack_backward(
    tape: StackTape,
    *,
    grad_outputs: Array | None = None,
    grad_last_hidden: Array | None = None,
    grad_last_cell: Array | None = None,
    input_gradient: bool = True,
    threads: int | None = None,
) -> StackGradients[Array | None]:
    """Return the gradients of the input, all weights and the initial states.

    Args:
        tape: of stack_forward(.., keep=True).
        grad_outputs: gradient of the loss with respect to the outputs, in their shape; None is
            zeros, here and below.
        grad_last_hidden: with respect to the last hidden states of all layers.
        grad_last_cell: with respect to the last cell states of all layers; LSTM only.
        input_gradient: False leaves out the gradient of the input: see rnn_backward.
        threads: see rnn_forward.
    """
    weights = tape.weights
    # The loop runs backwards through layers and directions, so these two yield the last part first.
    hidden = reversed(list(_by_direction("grad_last_hidden", grad_last_hidden, weights)))
    cell = reversed(list(_by_direction("grad_last_cell", grad_last_cell, weights)))
    grad = grad_outputs
    shape = (len(tape.tapes[0][0].data), weights.output_size)
    if grad is not None and grad.shape != shape:
        raise ShapeMismatchError(f"grad outputs: expected shape {shape}, found {grad.shape}")
    found: list[RNNGradients[LayerWeights, Array | None]] = []
    for number, tapes in reversed(list(enumerate(tape.tapes))):
        count, wanted = len(tapes), input_gradient or number > 0
        shares = [grad] * count if grad is None or count == 1 else np.split(grad, count, axis=1)
        layer = [
            rnn_backward(
                direction,
                grad_outputs=share,
                grad_last_hidden=next(hidden),
                grad_last_cell=next(cell),
                input_gradient=wanted,
                threads=threads,
            )
            for direction, share in zip(reversed(tapes), reversed(shares), strict=True)
        ]
        inputs = [part.input for part in layer if part.input is not None]
        with np.errstate(all="ignore"):  # they may be infinite
            grad = sum(inputs[1:], start=inputs[0]) if inputs else None
        found.extend(layer)
    found.reverse()
    parts = iter(found)
    cells = [part.initial_cell for part in found if part.initial_cell is not None]
    return StackGradients(
        input=grad,
        weights=weights.like(lambda _: next(parts).weights),
        initial_hidden=_stacked([part.initial_hidden for part in found]),
        initial_cell=_stacked(cells) if cells else None,
    )


def _stacked(parts: list[Array]) -> Array:
    """Return np.stack of arrays that have no other references; a single one is not copied."""
    return parts[0][np.newaxis] if len(parts) == 1 else np.stack(parts)


def _by_direction(name: str, stacked: Array | None, weights: RNNWeights) -> Iterator[Array | None]:
    """Return the (S, H) part of each layer and direction, in torch's order."""
    count = len(weights.layers) * weights.directions
    if stacked is None:
        return iter([None] * count)
    parts = stacked[np.newaxis] if stacked.ndim == 2 and count == 1 else stacked
    if parts.ndim != 3 or len(parts) != count:
        raise ShapeMismatchError(
            f"{name}: expected ({count}, S, H) for {len(weights.layers)} layers in "
            f"{weights.directions} directions, found shape {stacked.shape}"
        )
    return iter(parts)


@types_explained
def seeded_weights(
    cell: str,
    input_size: int,
    hidden_size: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    projection_size: int = 0,
    peepholes: bool = False,
    heads: int = 1,
    bias: bool | None = None,
    rng: np.random.Generator,
    dtype: DTypeLike = np.float32,
) -> RNNWeights:
    """Return random initial weights as in torch: uniform between -1/sqrt(H) and 1/sqrt(H).

    The file of each cell gives the exceptions. The numbers depend on `dtype` only by rounding:
    they are drawn as float64.

    Args:
        cell: one of CELLS.
        projection_size: P, the width of outputs that are a projection of the state; 0: none.
        peepholes: whether an LSTM has peepholes.
        heads: for an rglru the number of diagonal blocks of its gate matrices; for an slstm the
            number of parts of its state without connections between them.
        bias: whether there are biases; None: as in torch's module, or in the published
            implementation of the cell.
        rng: the generator of the random numbers.

    Raises:
        UnsupportedError: there is no such cell, or it has no projection or peepholes.
        InvalidDataError: a size is below 1, or heads have different sizes.
        OptionError: a size exceeds that of any array, there are more than MOST_LAYERS layers, or
            the dtype is not floating-point.

    >>> weights = seeded_weights("gru", 3, 2, layers=2, rng=np.random.default_rng(0))
    >>> weights.layers[1][0].weight_ih.shape
    (6, 2)
    """
    kind, dtype = weights_class(cell), dtype_of_rows(dtype)
    if not is_float(dtype):
        raise OptionError(f"dtype: expected a floating-point dtype, found {dtype}")
    for name, size in (("input", input_size), ("hidden", hidden_size), ("layers", layers)):
        if size < 1:
            raise InvalidDataError(f"{name}: expected a size of at least 1, found {size}")
    # A larger number of layers would be drawn one after another until the memory is full.
    if layers > MOST_LAYERS:
        raise OptionError(f"layers: expected at most {MOST_LAYERS}, found {layers}")
    bias = kind.HAS_BIAS if bias is None else bias
    extras = {"bias": bias, "peepholes": peepholes}
    directions = 2 if bidirectional else 1

    def draw(width: int) -> LayerWeights:
        has = frozenset(name for name, wanted in extras.items() if wanted)
        return kind.seeded(Sizes(width, hidden_size, projection_size, has, heads), rng, dtype)

    first = tuple(draw(input_size) for _ in range(directions))
    width = first[0].output_size * directions
    rest = (tuple(draw(width) for _ in range(directions)) for _ in range(layers - 1))
    return RNNWeights((first, *rest))
