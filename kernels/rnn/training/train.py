"""Training a model of sequences: mini-batches, cross-entropy or squared errors, Adam."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.rnn.stack.embedding import check_ids
from lodcli.kernels.rnn.stack.flops import operations_per_row
from lodcli.kernels.rnn.stack.run import rows_as_vectors
from lodcli.kernels.rnn.stack.standardization import TARGETS
from lodcli.kernels.rnn.training.adam import Adam, AdamState, clipped
from lodcli.kernels.rnn.training.classifier import (
    Classifier,
    classifier_gradients,
    classify,
    require_rows,
)
from lodcli.kernels.rnn.training.loss import (
    Loss,
    check_labels,
    softmax_cross_entropy,
    squared_error,
)
from lodcli.kernels.runtime.argument_types import construction_explained, types_explained
from lodcli.kernels.runtime.devices import moved
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.runtime.summaries import Summarized
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Below this number of operations in total, NumPy finishes before compiled code has been loaded.
COMPILED_WORK = 2e10
# Rows scored at a time. More would need memory for their states, and not be faster.
SCORED_ROWS = 1 << 16


@construction_explained
@dataclass(frozen=True, eq=False)
class Labelled(Summarized):
    """Sequences with a class, or target values, for each.

    Attributes:
        sequences: one level; data (N, ..), real, no sequence empty. For a classifier with an
            embedding, data (N,) ids.
        labels: (S,) whole numbers from 0, the classes; or finite floating-point numbers, (S,) or
            (S, C), the targets: values that a model predicts.

    Raises:
        ShapeMismatchError, InvalidDataError, EmptySequenceError: sequences or labels break one of
            these rules.
    """

    sequences: LoDTensor
    labels: Array

    def __post_init__(self) -> None:
        count = len(self.sequences)
        if self.sequences.lod.n_levels != 1:
            raise InvalidDataError(
                f"sequences: expected one level, found {self.sequences.lod.n_levels}"
            )
        wanted = (count, *self.labels.shape[1:2]) if self.of_values else (count,)
        if self.labels.shape != wanted:
            raise ShapeMismatchError(
                f"labels: expected {count}, one per sequence, found shape {self.labels.shape}"
            )
        if not self.of_values:
            check_labels(self.labels)
        elif not np.isfinite(self.labels).all():
            raise InvalidDataError("labels: expected finite values, found inf or nan")
        require_rows(self.sequences.lod.levels[0])

    @property
    def classes(self) -> int:
        """Number of classes, the highest label plus one; of targets, the number of values, C."""
        if self.of_values:
            return int(self.targets().shape[1])
        return int(self.labels.max()) + 1 if self.labels.size else 0

    @property
    def of_values(self) -> bool:
        """Whether the labels are targets."""
        return is_float(self.labels.dtype)

    def targets(self) -> Array:
        """Return the targets, (S, C)."""
        return self.labels if self.labels.ndim == 2 else self.labels[:, np.newaxis]

    def rows(self) -> tuple[Array, Offsets]:
        """Return data (N, D), float32 or float64, and offsets; ids are in `sequences.data`."""
        return rows_as_vectors(self.sequences.data), self.sequences.lod.levels[0]

    def part(self, items: Offsets) -> Labelled:
        """Return some of the sequences, in this order."""
        made = object.__new__(Labelled)  # without checks, which these have passed
        vars(made).update(sequences=take_items(self.sequences, items), labels=self.labels[items])
        return made


@construction_explained
@dataclass(frozen=True)
class Recipe:
    """Settings of a training run.

    Attributes:
        epochs: number of passes over all sequences.
        batch: number of sequences in a step.
        rate: the learning rate at the start; it falls to zero along half a cosine.
        dropout: the share of pooled states set to zero while training.
        clip: maximum L2 norm of the gradient of a step.
        seed: seed of the order of the sequences and of dropout.
        threads: see rnn_forward.
        device: the device to compute on: "cpu", "cuda" or "cuda:N". The examples are copied there
            once, as a whole; the loss is computed in main memory, from the scores.

    Raises:
        InvalidDataError: a number is out of range.
    """

    epochs: int = 50
    batch: int = 16
    rate: float = 0.005
    dropout: float = 0.0
    clip: float = 5.0
    seed: int = 0
    threads: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("batch", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int):
                raise TypeError("not a whole number")
            if value < least:
                raise InvalidDataError(f"{name}: expected at least {least}, found {value}")
        for name, number in (("rate", self.rate), ("clip", self.clip)):
            if not (math.isfinite(number) and number > 0):
                raise InvalidDataError(f"{name}: expected a finite number above 0, found {number}")
        if not 0 <= self.dropout < 1:
            raise InvalidDataError(
                f"dropout: expected 0 or more and less than 1, found {self.dropout}"
            )


@dataclass(frozen=True, eq=False)
class Epoch(Summarized):
    """Result of one epoch, a pass over all sequences.

    Attributes:
        number: from 1.
        model: the classifier after the epoch, in main memory.
        loss: the mean over the sequences, each computed before its training step.
        accuracy: the share of sequences classified correctly, before their training steps; nan
            for targets.
        adam: the state of the optimizer after the epoch, in main memory.
    """

    number: int
    model: Classifier
    loss: float
    accuracy: float
    adam: AdamState


@types_explained
def train(
    model: Classifier | Epoch,
    examples: Labelled,
    recipe: Recipe,
    *,
    between: Callable[[], None] = lambda: None,
) -> Iterator[Epoch]:
    """Return an iterator over the results of all epochs; the same for the same seed.

    Args:
        model: the initial weights, with `targets` for examples of targets; or an epoch of an
            earlier run with the same examples and recipe, which continues after it and computes the
            same bits as without the interruption.
        examples: the training data; computed in the dtype of the model.
        recipe: the settings.
        between: callback after each step: it may show progress, or stop training by raising.

    Raises:
        InvalidDataError: there are no examples, the model has no class for a label, the model
            predicts values but the labels are not targets, its embedding lacks an id, or the loss
            or a weight is not finite.
        UnsupportedError: there is no such device.
    """
    after = model if isinstance(model, Epoch) else None
    whole = model.model if isinstance(model, Epoch) else model
    model = whole.of_standardized().moved(recipe.device)
    labels, sequences = _labels(whole, examples), examples.sequences
    if model.embedding is None:
        sequences = sequences.with_data(moved(whole.rows(sequences.data), recipe.device))
    else:
        _check_ids(model, examples)
    if not len(labels):
        raise InvalidDataError("there are no sequences to train on")
    examples = Labelled(sequences, labels)
    backend: Backend = "auto"
    if recipe.device == "cpu":
        backend = _backend(model, examples.sequences.rows * recipe.epochs)
    epochs = _epochs(model, after, examples, recipe, between, backend)
    return (
        replace(
            epoch,
            model=replace(
                epoch.model, standardization=whole.standardization, targets=whole.targets
            ),
        )
        for epoch in epochs
    )


def _epochs(
    model: Classifier,
    after: Epoch | None,
    examples: Labelled,
    recipe: Recipe,
    between: Callable[[], None],
    backend: Backend,
) -> Iterator[Epoch]:
    count = len(examples.labels)
    arrays: Mapping[str, Array] = model.arrays()
    adam = Adam(state=_moved(after.adam, recipe.device) if after else None)
    first = after.number + 1 if after else 1
    steps = recipe.epochs * math.ceil(count / recipe.batch)
    done = (first - 1) * math.ceil(count / recipe.batch)
    for number in range(first, recipe.epochs + 1):
        # Depends on nothing else, so that training can continue after any epoch.
        rng = np.random.default_rng([recipe.seed, number])
        order = rng.permutation(count)
        total, right = 0.0, 0
        for start in range(0, count, recipe.batch):
            part = examples.part(order[start : start + recipe.batch])
            rate = recipe.rate * (1 + math.cos(math.pi * done / steps)) / 2
            with np.errstate(all="ignore"):  # values are checked below
                scored = classify(
                    model,
                    *_inputs(model, part),
                    keep=True,
                    dropout=recipe.dropout,
                    rng=rng,
                    backend=backend,
                    threads=recipe.threads,
                )
                loss = _loss(moved(scored.scores, "cpu"), part)
                if not math.isfinite(loss.value):
                    raise _diverged(number, f"the loss is {loss.value}")
                grad = moved(loss.grad, recipe.device)
                gradients = classifier_gradients(model, scored, grad, threads=recipe.threads)
                arrays = adam.moved(arrays, clipped(gradients, recipe.clip), rate=rate)
                model = model.with_arrays(arrays)
            total += loss.value * len(part.labels)
            right += loss.right
            done += 1
            between()
        here = model.moved("cpu")
        for name, array in here.arrays().items():
            if not np.isfinite(array).all():
                raise _diverged(number, f"{name} has values that are not finite")
        share = math.nan if examples.of_values else right / count
        yield Epoch(number, here, total / count, share, _moved(adam.state(), "cpu"))


def _moved(state: AdamState, device: str) -> AdamState:
    first, second = (
        {name: moved(array, device) for name, array in part.items()}
        for part in (state.first, state.second)
    )
    return AdamState(state.steps, first, second)


def _diverged(number: int, what: str) -> InvalidDataError:
    return InvalidDataError(
        f"epoch {number}: {what}; check the data for values that are not numbers or are too large, "
        "or lower the learning rate"
    )


def _inputs(model: Classifier, examples: Labelled) -> tuple[Array, Offsets]:
    """Return the arguments of `classify`: rows or ids, and offsets."""
    if model.embedding is None:
        return examples.rows()
    return examples.sequences.data, examples.sequences.lod.levels[0]


def _labels(model: Classifier, examples: Labelled) -> Array:
    """Return the labels, checked; targets standardized, (S, C)."""
    if model.targets is None:
        check_labels(examples.labels, model.classes)
        return examples.labels
    if not examples.of_values:
        raise InvalidDataError(
            f"labels: expected floating-point targets for a model with {TARGETS}.mean, found "
            f"{examples.labels.dtype}"
        )
    if examples.classes != model.classes:
        raise ShapeMismatchError(
            f"labels: expected {model.classes} for each sequence, as {TARGETS}.mean has, found "
            f"{examples.classes}"
        )
    return model.targets.applied(examples.targets(), np.float64)


def _loss(scores: Array, examples: Labelled) -> Loss:
    if examples.of_values:
        return squared_error(scores, examples.targets())
    return softmax_cross_entropy(scores, examples.labels)


def _check_ids(model: Classifier, examples: Labelled) -> None:
    """Raise InvalidDataError unless the data are ids of the model's embedding."""
    assert model.embedding is not None
    data, offsets = _inputs(model, examples)
    check_ids(data, len(model.embedding), offsets)


def _backend(model: Classifier, rows: int) -> Backend:
    """Return the backend for `rows` in total; "auto" looks at a batch alone, which is small."""
    plain = all(one.is_plain for layer in model.rnn.layers for one in layer)
    # Forward and backward passes take three times the operations of a forward pass.
    enough = 3 * rows * operations_per_row(model.rnn) >= COMPILED_WORK
    return "numba" if plain and enough else "auto"


class Evaluation(NamedTuple):
    """Scores of a classifier on labelled sequences; nan for none.

    Attributes:
        loss: the mean cross-entropy over the sequences, without dropout; of targets the mean
            squared error of standardized values.
        accuracy: the share of sequences whose class has the highest score; nan for targets.
    """

    loss: float
    accuracy: float


class Errors(NamedTuple):
    """Errors of predicted values; nan for no sequences.

    Attributes:
        rmse: (C,), the root mean squared error of each value of the targets.
        baseline: (C,), that of always predicting the mean of the training targets.
    """

    rmse: Array
    baseline: Array


@types_explained
def evaluate(
    model: Classifier, examples: Labelled, *, threads: int | None = None, device: str = "cpu"
) -> Evaluation:
    """Return loss and accuracy of a model on labelled sequences.

    Args:
        model, examples: in main memory.
        threads: see rnn_forward.
        device: where to compute.

    Raises:
        InvalidDataError: the model has no class for a label, or predicts values but the labels are
            not targets; see `train`.
    """
    return _evaluated(model, examples, threads, device)[0]


@types_explained
def prediction_errors(
    model: Classifier, examples: Labelled, *, threads: int | None = None, device: str = "cpu"
) -> Errors:
    """Return the errors of a model that predicts values, in their units; see `evaluate`.

    Raises:
        InvalidDataError: the model predicts classes, or the labels are not targets.

    >>> from lodcli.rnn import Standardization, seeded_classifier
    >>> examples = Labelled(LoDTensor(np.ones((3, 1)), [[2, 1]]), np.array([4.0, 6.0]))
    >>> made = seeded_classifier("gru", 1, 2, 1, rng=np.random.default_rng(0))
    >>> made = replace(made, targets=Standardization.of(examples.labels))
    >>> prediction_errors(made, examples).baseline.tolist()  # of 5.0 for both
    [1.0]
    """
    if model.targets is None:
        raise InvalidDataError(
            f"model: expected {TARGETS}.mean, as of a model that predicts values"
        )
    mean_squares = _evaluated(model, examples, threads, device)[1]
    return Errors(*(np.sqrt(mean_squares) * model.targets.std))


@np.errstate(all="ignore")
def _evaluated(
    model: Classifier, examples: Labelled, threads: int | None, device: str
) -> tuple[Evaluation, Array]:
    """Return the evaluation, and mean squares of standardized errors, and targets: (2, C)."""
    examples = Labelled(examples.sequences, _labels(model, examples))
    if model.embedding is not None:
        _check_ids(model, examples)
    there, right, total = model.of_standardized().moved(device), 0, 0.0
    squares = np.zeros((2, model.classes))
    for part in _batches(examples):
        data, offsets = part.sequences.data, part.sequences.lod.levels[0]
        if model.embedding is None:
            data = moved(model.rows(data), device)
        scores = moved(classify(there, data, offsets, threads=threads).scores, "cpu")
        loss = _loss(scores, part)
        right += loss.right
        total += loss.value * len(part.labels)
        if examples.of_values:
            errors = np.stack([scores - part.targets(), part.targets()])
            squares += np.square(errors, dtype=np.float64).sum(axis=1)
    count = len(examples.labels) or math.nan
    share = math.nan if examples.of_values else right / count
    return Evaluation(total / count, share), squares / count


@types_explained
def accuracy(
    model: Classifier, examples: Labelled, *, threads: int | None = None, device: str = "cpu"
) -> float:
    """Return the share of sequences whose class has the highest score; see `evaluate`."""
    return evaluate(model, examples, threads=threads, device=device).accuracy


def _batches(examples: Labelled) -> Iterator[Labelled]:
    """Yield the sequences in order, in batches of about SCORED_ROWS rows."""
    offsets, start = examples.sequences.lod.levels[0], 0
    while start < len(examples.labels):
        full = int(np.searchsorted(offsets, offsets[start] + SCORED_ROWS, side="right")) - 1
        stop = max(start + 1, full)
        yield Labelled(examples.sequences[start:stop], examples.labels[start:stop])
        start = stop
