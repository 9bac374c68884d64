"""A classifier of sequences: an RNN, pooling of its states, and a linear layer.

    rows = the data, standardized if the model says so, or, with an embedding, its row for each id
    pooled = the state after the last row (both directions side by side), or the mean
    scores = weight pooled + bias

Of a model that predicts values, the targets, the scores are the targets, standardized.

The names of its arrays are those of a torch module with `rnn = nn.LSTM(..)` (or GRU, RNN),
`out = nn.Linear(..)` and, for ids, `embedding = nn.Embedding(..)`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import EmptySequenceError, InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.pooling.pool import segment_mean
from lodcli.kernels.ops.pooling.pool_grad import segment_mean_grad
from lodcli.kernels.rnn.cells.cell import column_sums
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.rnn.engine.plan import checked_offsets
from lodcli.kernels.rnn.stack.embedding import EMBEDDING, check_table, embed, embed_grad
from lodcli.kernels.rnn.stack.run import arithmetic_dtype, rows_as_vectors
from lodcli.kernels.rnn.stack.stack import (
    RNNWeights,
    StackResult,
    seeded_weights,
    stack_backward,
    stack_forward,
)
from lodcli.kernels.rnn.stack.standardization import (
    MEAN,
    ROWS,
    TARGETS,
    Standardization,
    standardization_in,
)
from lodcli.kernels.rnn.stack.state_dict import (
    StateDict,
    named_arrays,
    state_dict,
    weights_from_state_dict,
)
from lodcli.kernels.rnn.stack.states import last_of, last_of_gradient
from lodcli.kernels.runtime.argument_types import construction_explained, types_explained
from lodcli.kernels.runtime.devices import moved
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.runtime.summaries import Summarized

RNN_PREFIX = "rnn."
# Key of the facts about a model, a JSON object, in the metadata of its state dict.
ABOUT = "lod.classifier"
POOLS = ("last", "mean")


@construction_explained
@dataclass(frozen=True, eq=False)
class Classifier(Summarized):
    """An RNN and a linear layer.

    Attributes:
        rnn: layers and directions of any cell.
        weight: (C, directions*H).
        bias: (C,).
        pool: "last" or "mean": how the states of a sequence are pooled.
        embedding: (V, D), the row of each id; None: the data are rows, not ids.
        standardization: applied to the rows; not trained. None: rows are used unchanged.
        targets: standardization of the C values that the model predicts; not trained. None: it
            predicts classes.

    Raises:
        ShapeMismatchError, InvalidDataError: the shapes or dtypes of the parts do not match.
    """

    rnn: RNNWeights
    weight: Array
    bias: Array
    pool: str = "last"
    embedding: Array | None = None
    standardization: Standardization | None = None
    targets: Standardization | None = None

    def __post_init__(self) -> None:
        if self.pool not in POOLS:
            raise InvalidDataError(f"pool: expected last or mean, found {self.pool!r}")
        if self.weight.ndim != 2 or self.weight.shape[1] != self.rnn.output_size:
            raise ShapeMismatchError(
                f"out.weight: expected (classes, {self.rnn.output_size}), found {self.weight.shape}"
            )
        if self.bias.shape != self.weight.shape[:1]:
            raise ShapeMismatchError(
                f"out.bias: expected {self.weight.shape[:1]}, found {self.bias.shape}"
            )
        if self.embedding is not None:
            check_table(self.embedding, self.rnn.input_size)
        if self.standardization is not None:
            if self.embedding is not None:
                raise InvalidDataError(f"{MEAN}: expected none beside {EMBEDDING}, which takes ids")
            if self.standardization.mean.shape != (self.rnn.input_size,):
                raise ShapeMismatchError(
                    f"{MEAN}: expected {(self.rnn.input_size,)}, found "
                    f"{self.standardization.mean.shape}"
                )
        if self.targets is not None and self.targets.mean.shape != self.bias.shape:
            raise ShapeMismatchError(
                f"{TARGETS}.mean: expected {self.bias.shape}, as out.bias, found "
                f"{self.targets.mean.shape}"
            )

    @property
    def classes(self) -> int:
        """Number of classes, or of values that the model predicts, C."""
        return len(self.weight)

    def arrays(self) -> StateDict:
        """Return the arrays by torch's names; shared, not copied."""
        rnn = state_dict(self.rnn)
        named = {} if self.embedding is None else {EMBEDDING: self.embedding}
        named |= {RNN_PREFIX + name: array for name, array in rnn.items()}
        named |= {"out.weight": self.weight, "out.bias": self.bias}
        for role, scale in self._scales().items():
            named |= scale.arrays(role)
        return StateDict(named, {RNN_PREFIX: rnn.said[""]})

    def _scales(self) -> dict[str, Standardization]:
        """Return the standardizations of the model by their roles."""
        found = {ROWS: self.standardization, TARGETS: self.targets}
        return {role: scale for role, scale in found.items() if scale is not None}

    def rows(self, data: Array) -> Array:
        """Return data (N, ..) as rows (N, D), standardized, in the dtype of the model."""
        dtype = self.weight.dtype
        if self.standardization is not None:
            return self.standardization.applied(data, dtype)
        return as_dtype(rows_as_vectors(data), dtype)

    def of_standardized(self) -> Classifier:
        """Return the same classifier for rows, and targets, that are standardized already."""
        return dataclasses.replace(self, standardization=None, targets=None)

    def moved(self, device: str) -> Classifier:
        """Return the same classifier in main memory ("cpu") or on a GPU ("cuda", "cuda:N")."""
        return self.with_arrays({name: moved(one, device) for name, one in self.arrays().items()})

    @types_explained
    def with_arrays(self, arrays: Mapping[str, Array]) -> Classifier:
        """Return the classifier with other arrays, of the names that `arrays()` returns.

        Raises:
            InvalidDataError, ShapeMismatchError: an array is missing, or has a wrong shape.
        """
        try:
            return self._with_arrays(arrays)
        except KeyError as error:
            raise InvalidDataError(f"arrays: expected one of {error.args[0]}, found none") from None

    def _with_arrays(self, arrays: Mapping[str, Array]) -> Classifier:
        places = iter(
            RNN_PREFIX + "{}" + suffix for layer in self.rnn.suffixes() for suffix in layer
        )

        def filled(one: LayerWeights) -> LayerWeights:
            place = next(places)
            names = one.names()
            return one.with_arrays(
                {names[name]: arrays[place.format(name)] for name in one.named()}
            )

        scales = {
            role: Standardization(*(arrays[name] for name in scale.arrays(role)))
            for role, scale in self._scales().items()
        }
        rnn = self.rnn.like(filled)
        return dataclasses.replace(
            self,
            rnn=rnn,
            weight=arrays["out.weight"],
            bias=arrays["out.bias"],
            embedding=None if self.embedding is None else arrays[EMBEDDING],
            standardization=scales.get(ROWS),
            targets=scales.get(TARGETS),
        )


@types_explained
def classifier_from_arrays(
    arrays: Mapping[str, Array], cell: str | None = None, pool: str | None = None
) -> Classifier:
    """Return the classifier in a state dict, as `Classifier.arrays` returns it; no copy.

    Args:
        arrays: those of the RNN, whose names begin with "rnn.", such as "rnn.weight_ih_l0", and of
            the linear layer, "out.weight" (C, directions*H) and "out.bias" (C,). With
            "embedding.weight" (V, D) the classifier takes ids; with "standardize.mean" (D,) and
            "standardize.std" (D,) it standardizes rows; with "targets.mean" and "targets.std" (C,)
            it predicts values.
        cell: one of CELLS; None: see `weights_from_state_dict`.
        pool: how the states of a sequence are pooled: "last" or "mean". None: as stored with the
            arrays, else "last".

    Raises:
        InvalidDataError: an array is missing or unknown, or `pool` is invalid.
        ShapeMismatchError: shapes do not match each other or the cell.
        OptionError, UnsupportedError: the arrays are of another cell, or the cell is unknown.

    >>> made = seeded_classifier("gru", 3, 2, 5, rng=np.random.default_rng(0))
    >>> classifier_from_arrays(made.arrays()).rnn.output_size
    2
    """
    for name in ("out.weight", "out.bias"):
        if name not in arrays:
            raise InvalidDataError(
                f"state dict: {name} is missing; a classifier has rnn.weight_ih_l0, .., "
                "out.weight and out.bias"
            )
    rnn = weights_from_state_dict(arrays, cell, prefix=RNN_PREFIX)
    return Classifier(
        rnn,
        arrays["out.weight"],
        arrays["out.bias"],
        _pool_of(arrays) if pool is None else pool,
        embedding=arrays.get(EMBEDDING),
        standardization=standardization_in(arrays),
        targets=standardization_in(arrays, TARGETS),
    )


def _pool_of(arrays: Mapping[str, Array]) -> str:
    """Return the pool that the metadata of a state dict names, or else "last"."""
    about = arrays.metadata.get(ABOUT, "{}") if isinstance(arrays, StateDict) else "{}"
    try:
        found: str = json.loads(about).get("pool", "last")
    except (ValueError, AttributeError, RecursionError):
        raise InvalidDataError(f"state dict: metadata {ABOUT}: is not a JSON object") from None
    return found


def seeded_classifier(
    cell: str,
    input_size: int,
    hidden_size: int,
    classes: int,
    *,
    pool: str = "last",
    vocabulary: int | None = None,
    rng: np.random.Generator,
    **more: Any,
) -> Classifier:
    """Return a classifier with random weights, uniform within 1/sqrt(size) as torch.nn.Linear's.

    The embedding is drawn from the standard normal distribution, as torch.nn.Embedding's.

    Args:
        cell: one of CELLS.
        input_size, hidden_size: D, the values of a row, and H, those of a state.
        classes: C, the number of scores.
        pool: how the states of a sequence are pooled: "last" or "mean".
        vocabulary: V, the number of ids, for an embedding of (V, D); None: no embedding.
        rng: source of all numbers.
        more: further arguments of `seeded_weights`, such as `layers` and `dtype`.

    Returns:
        A classifier with weight (C, directions*H) and bias (C,), in the dtype of the RNN.

    Raises:
        InvalidDataError: `classes` or a size is below 1, or `pool` is invalid.
        UnsupportedError: there is no such cell.

    >>> made = seeded_classifier("gru", 3, 2, 5, rng=np.random.default_rng(0))
    >>> made.classes, made.weight.shape
    (5, (5, 2))
    """
    ids = 1 if vocabulary is None else vocabulary
    for name, count in (("classes", classes), ("vocabulary", ids)):
        if not (isinstance(count, int | np.integer) and count >= 1):
            raise InvalidDataError(f"{name}: expected at least 1, found {count!r}")
    rnn = seeded_weights(cell, input_size, hidden_size, rng=rng, **more)
    bound = 1 / np.sqrt(rnn.output_size)
    dtype = rnn.layers[0][0].dtype
    weight, bias = (
        rng.uniform(-bound, bound, shape).astype(dtype)
        for shape in ((classes, rnn.output_size), (classes,))
    )
    table = None
    if vocabulary is not None:
        table = rng.standard_normal((vocabulary, input_size)).astype(dtype)
    return Classifier(rnn, weight, bias, pool, table)


def require_finite(model: Classifier) -> None:
    """Raise InvalidDataError unless all arrays of a model are finite floating-point values."""
    for name, array in model.arrays().items():
        if not is_float(array.dtype) or not np.isfinite(array).all():
            found = array.dtype if not is_float(array.dtype) else "values that are not"
            raise InvalidDataError(f"{name}: expected finite floating-point values, found {found}")


def require_rows(offsets: Offsets, *, before: int = 0) -> None:
    """Raise EmptySequenceError unless every sequence has rows.

    Args:
        offsets: (S+1,).
        before: the number of sequences before these, as in earlier batches of a file.
    """
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if empty.size:
        raise EmptySequenceError(
            f"sequence {before + empty[0]} has no rows to predict from; leave it out, as with lod "
            "filter 'length(NAME) > 0'"
        )


@dataclass(frozen=True, eq=False)
class Scored(Summarized):
    """The scores of a batch, and the data for the backward pass.

    Attributes:
        scores: (S, C).
        pooled: (S, directions*H), after dropout.
        kept: the scaled mask of dropout, a factor of the pooled states; None without dropout.
        run: the result of the RNN.
        offsets: of the batch.
        ids: of the batch; None without an embedding.
    """

    scores: Array
    pooled: Array
    kept: Array | None
    run: StackResult
    offsets: Offsets
    ids: Array | None = None


@types_explained
def classify(
    model: Classifier,
    data: Array,
    offsets: Offsets,
    *,
    keep: bool = False,
    dropout: float = 0.0,
    rng: np.random.Generator | None = None,
    backend: Backend = "auto",
    threads: int | None = None,
) -> Scored:
    """Return the scores of every sequence.

    Args:
        model: the classifier.
        data: (N, D), float32 or float64, the dtype of all arithmetic; for a classifier with an
            embedding (N,) ids in main memory, and the dtype is that of the embedding.
        offsets: (S+1,), in rows.
        keep: keep the tape that `classifier_gradients` needs.
        dropout: the share of pooled values set to zero, with the others scaled up; for training.
        rng: the generator of the dropout mask; required with dropout.
        backend, threads: see rnn_forward.
    """
    offsets = checked_offsets(offsets, len(data))
    ids = None
    if model.embedding is not None:
        ids, data = data, embed(data, model.embedding)
        data = data.astype(arithmetic_dtype(data.dtype), copy=False)
    elif model.standardization is not None:
        data = model.standardization.applied(data)
    run = stack_forward(data, offsets, model.rnn, keep=keep, backend=backend, threads=threads)
    if model.pool == "mean":
        pooled = on("auto", segment_mean)(run.outputs, offsets)
    else:
        pooled = last_of(model.rnn, run.last_hidden)
    kept = None
    if dropout:
        if rng is None:
            raise InvalidDataError("rng: dropout needs one, numpy.random.default_rng(seed)")
        drawn = (rng.random(pooled.shape) >= dropout).astype(data.dtype) / (1 - dropout)
        kept = np.asarray(drawn, like=pooled)
        pooled = pooled * kept.astype(data.dtype)
    weight, bias = (part.astype(data.dtype, copy=False) for part in (model.weight, model.bias))
    return Scored(pooled @ weight.T + bias, pooled, kept, run, offsets, ids)


@types_explained
def classifier_gradients(
    model: Classifier, scored: Scored, grad: Array, *, threads: int | None = None
) -> dict[str, Array]:
    """Return the gradients of the arrays of a classifier, by name.

    Gradients of a standardization, which is not trained, are zeros.

    Args:
        model: the classifier.
        scored: the result of classify(.., keep=True).
        grad: (S, C), the gradient of the loss with respect to the scores.
        threads: see rnn_forward.
    """
    if scored.run.tape is None:
        raise InvalidDataError("scored: expected what classify(.., keep=True) returns")
    if grad.shape != scored.scores.shape:
        raise ShapeMismatchError(f"grad: expected {scored.scores.shape}, found {grad.shape}")
    into = grad @ model.weight.astype(grad.dtype, copy=False)
    if scored.kept is not None:
        into = into * scored.kept.astype(grad.dtype)
    if model.pool == "mean":
        given = {"grad_outputs": on("auto", segment_mean_grad)(into, scored.offsets)}
    else:
        given = {"grad_last_hidden": last_of_gradient(model.rnn, into)}
    found = stack_backward(
        scored.run.tape, **given, input_gradient=model.embedding is not None, threads=threads
    )
    named = named_arrays(found.weights, RNN_PREFIX)
    if model.embedding is not None and found.input is not None and scored.ids is not None:
        named[EMBEDDING] = embed_grad(found.input, scored.ids, len(model.embedding))
    for role, scale in model._scales().items():
        named |= {name: np.zeros_like(array) for name, array in scale.arrays(role).items()}
    return {**named, "out.weight": grad.T @ scored.pooled, "out.bias": column_sums(grad)}
