"""The model that `lod train` starts from: that of a file, or random weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lodcli.commands.train.labels import cast_to_predict
from lodcli.commands.train.reading import Examples, remedy_for_kind
from lodcli.formats.arrays.budget import require_fits
from lodcli.formats.core.errors import naming
from lodcli.formats.weights import read_weights
from lodcli.formats.weights.model_file import about_of
from lodcli.kernels.errors import InvalidDataError, OptionError, ShapeMismatchError
from lodcli.kernels.rnn.stack.embedding import EMBEDDING
from lodcli.kernels.rnn.stack.standardization import MEAN, TARGETS
from lodcli.kernels.rnn.stack.state_dict import StateDict, require_shape
from lodcli.kernels.rnn.training.classifier import (
    Classifier,
    classifier_from_arrays,
    require_finite,
    seeded_classifier,
)
from lodcli.kernels.runtime.memory_budget import default_budget, memory_budget, within_budget

if TYPE_CHECKING:
    from lodcli.commands.train.given import TrainOptions

# Copies of weights in memory while they are trained (measured): the model, its gradient, Adam's
# moments, intermediate values, and the last and the best epoch.
TRAINED_COPIES = 12


@dataclass(frozen=True, eq=False)
class Saved:
    """A model in a file.

    Attributes:
        arrays: by torch's names.
        about: the facts about the model in its file.
    """

    path: str
    arrays: StateDict
    about: dict[str, Any]

    @property
    def standardizes(self) -> bool:
        """Whether it standardizes rows."""
        return MEAN in self.arrays

    @property
    def of_values(self) -> bool:
        """Whether it predicts values."""
        return f"{TARGETS}.mean" in self.arrays

    def words(self, of: str) -> tuple[str, ...]:
        """Return the names of its "classes" or "ids"; () if none are known."""
        return tuple(self.about.get(of, ()))


def read_saved(path: str | None, embedding: int | None, standardize: bool) -> Saved | None:
    """Return the model of a file; None for None.

    Raises:
        LodError: not a model, or one without an embedding or a standardization, although the
            options ask for one.
    """
    if path is None:
        return None
    with naming(path):
        arrays = read_weights(path)
        saved = Saved(path, arrays, about_of(arrays))
        if embedding is not None and EMBEDDING not in saved.arrays:
            raise OptionError(f"has no {EMBEDDING}; leave --embedding out")
        if standardize and not saved.standardizes:
            raise OptionError(f"has no {MEAN}; leave --standardize out")
    return saved


def taker_of_ids(saved: Saved | None, embedding: int | None) -> str | None:
    """Return what takes the data as ids, for messages; None if nothing does."""
    if saved is None:
        return None if embedding is None else "--embedding"
    return f"the embedding of {saved.path}" if EMBEDDING in saved.arrays else None


def starting_model(saved: Saved | None, examples: Examples, given: TrainOptions) -> Classifier:
    """Return the model of a file, or random weights of a shape.

    Raises:
        LodError: a model that does not fit the examples or the options.
    """
    cell, hidden, layers, pool = given["cell"], given["hidden"], given["layers"], given["pool"]
    embedding, vocabulary = given["embedding"], given["vocabulary"]
    if saved is None:
        if embedding is not None:
            vocabulary = vocabulary or examples.vocabulary
        made = _seeded_model(
            *(examples, cell or "lstm", hidden or 64, embedding, vocabulary),
            pool=pool or "last",
            rng=np.random.default_rng(given["seed"]),
            layers=layers or 1,
            heads=given["heads"] or 1,
            bidirectional=given["bidirectional"],
        )
        if given["standardize"]:
            return replace(made, standardization=examples.standardization())
        return made
    with naming(saved.path):
        said = saved.about.get("pool", pool or "last")
        if pool not in (None, said):
            raise OptionError(f"was trained with --pool {said}, not {pool}")
        made = classifier_from_arrays(saved.arrays, cell, said)
        require_finite(made)
        bidirectional = given["bidirectional"]
        require_shape(made.rnn, hidden=hidden, layers=layers, bidirectional=bidirectional)
        _check_rows(made, examples, embedding, vocabulary)
        _check_labels(saved, made, examples)
    return made


def _seeded_model(
    examples: Examples,
    cell: str,
    hidden: int,
    embedding: int | None,
    vocabulary: int | None,
    **more: Any,
) -> Classifier:
    """Return random weights for examples; `more` are other arguments of `seeded_classifier`."""
    if not examples.width:
        raise ShapeMismatchError(f"{examples.label}: expected rows of values, found none")
    _refuse_far_labels(examples, hidden)
    if embedding is not None:
        assert vocabulary is not None
        what = f"an embedding of {vocabulary} ids (numbered from 0) and {embedding} values"
        _require_trainable(f"{examples.label}: {examples.name}: {what}", vocabulary * embedding)
    width = embedding or examples.width
    made = seeded_classifier(cell, width, hidden, examples.classes, vocabulary=vocabulary, **more)
    return replace(made, targets=examples.targets()) if examples.labelled.of_values else made


def _check_rows(
    made: Classifier, examples: Examples, embedding: int | None, vocabulary: int | None
) -> None:
    """Raise an error if a saved model takes other rows or ids than the examples or options have."""
    if made.embedding is not None:
        shape = made.embedding.shape
        if vocabulary not in (None, shape[0]) or embedding not in (None, shape[1]):
            raise OptionError(
                f"has an embedding of {shape[0]} ids and {shape[1]} values; leave --embedding "
                "and --vocabulary out"
            )
    elif made.rnn.input_size != examples.width:
        remedy = "; ids need a model with an embedding" if examples.whole else ""
        raise ShapeMismatchError(
            f"takes rows of {made.rnn.input_size} values, {examples.label} has "
            f"{examples.width}{remedy}"
        )


def _check_labels(saved: Saved, made: Classifier, examples: Examples) -> None:
    """Raise an error if a saved model predicts other classes or values than the labels are."""
    if saved.of_values != examples.labelled.of_values:
        raise InvalidDataError(
            f"predicts {'values' if saved.of_values else 'classes'}, the labels of "
            f"{examples.label} are "
            f"{'floating-point numbers' if examples.labelled.of_values else 'classes'}"
            f"{remedy_for_kind(examples)}"
        )
    if saved.of_values and made.classes != examples.classes:
        raise ShapeMismatchError(
            f"predicts {made.classes} values for each sequence, the labels of "
            f"{examples.label} have {examples.classes}"
        )
    if made.classes < examples.labelled.classes:
        raise ShapeMismatchError(
            f"has {made.classes} classes, {examples.label} has label "
            f"{examples.labelled.classes - 1}"
        )
    _check_class_names(saved.about.get("classes", []), examples)


def _check_class_names(trained: list[str], examples: Examples) -> None:
    """Raise InvalidDataError if a label has different class names in the examples and the model."""
    for label, (before, now) in enumerate(zip(trained, examples.names, strict=False)):
        if before != now:
            raise InvalidDataError(
                f"calls class {label} {before}, {examples.label} calls it {now}; number the "
                "classes alike"
            )


def _refuse_far_labels(examples: Examples, hidden: int) -> None:
    """Raise TooLargeError if a label is so large that the weights exceed the memory budget."""
    if examples.labelled.of_values:
        what = f"{examples.label}: labels: {examples.classes} values for each sequence"
        _require_trainable(what, hidden * examples.classes)
        return
    numbers = examples.labelled.labels
    # With more units than classes, the RNN's own weights exceed it: that error names the units.
    if hidden < examples.classes:
        position = int(numbers.argmax())
        remedy = "" if examples.names else f"; {cast_to_predict(examples.label_name)}"
        _require_trainable(
            f"{examples.label}: labels, position {position}: {numbers[position]} makes "
            f"{examples.classes} classes (numbered from 0{remedy})",
            hidden * examples.classes,
        )


def _require_trainable(what: str, count: int) -> None:
    """Raise TooLargeError if training this many float32 weights exceeds the memory budget."""
    with within_budget(memory_budget() or default_budget()):
        require_fits(what, 4 * count, TRAINED_COPIES)
