"""Parts of `lod train`: the initial model, saving the best one, progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lodcli.commands.train.labels import cast_to_predict
from lodcli.commands.train.reading import Examples, remedy_for_kind
from lodcli.formats.arrays.budget import require_fits
from lodcli.formats.core.errors import naming
from lodcli.formats.storage import interrupts
from lodcli.formats.weights import read_weights
from lodcli.formats.weights.model_file import about_of, write_model
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
from lodcli.kernels.rnn.training.train import Epoch, Evaluation, Recipe
from lodcli.kernels.runtime.memory_budget import default_budget, memory_budget, within_budget
from lodcli.shell.output import note

# Minimum interval between saves of a better model; the best one is also saved at the end.
SAVING_SECONDS = 2.0
BAR_CELLS = 20
# Predicted values whose errors are printed.
SHOWN_VALUES = 8
# Copies of weights in memory while they are trained (measured): the model, its gradient, Adam's
# moments, intermediate values, and the last and the best epoch.
TRAINED_COPIES = 12
# An RNN learns little from values beyond these: the states of its first steps are saturated, or
# differences between them vanish.
FAR_FROM_ZERO = 30
HARDLY_DIFFERENT = 0.01


@dataclass(frozen=True, eq=False)
class Saved:
    """A model in a file.

    Attributes:
        path: of the file.
        arrays: by torch's names.
        about: what the file says about the model.
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


def starting_model(
    saved: Saved | None,
    examples: Examples,
    *,
    seed: int,
    pool: str | None,
    cell: str | None,
    hidden: int | None,
    layers: int | None,
    heads: int | None,
    bidirectional: bool,
    embedding: int | None,
    vocabulary: int | None,
    standardize: bool,
) -> Classifier:
    """Return the model of a file, or random weights of a shape.

    Raises:
        LodError: a model that does not fit the examples or the options.
    """
    if saved is None:
        if not examples.width:
            raise ShapeMismatchError(f"{examples.label}: expected rows of values, found none")
        _refuse_far_labels(examples, hidden or 64)
        if embedding is not None:
            vocabulary = vocabulary or examples.vocabulary
            what = f"an embedding of {vocabulary} ids (numbered from 0) and {embedding} values"
            _require_trainable(f"{examples.label}: {examples.name}: {what}", vocabulary * embedding)
        made = seeded_classifier(
            cell or "lstm",
            embedding or examples.width,
            hidden or 64,
            examples.classes,
            pool=pool or "last",
            vocabulary=vocabulary,
            rng=np.random.default_rng(seed),
            layers=layers or 1,
            heads=heads or 1,
            bidirectional=bidirectional,
        )
        if examples.labelled.of_values:
            made = replace(made, targets=examples.targets())
        return replace(made, standardization=examples.standardization()) if standardize else made
    with naming(saved.path):
        said = saved.about.get("pool", pool or "last")
        if pool not in (None, said):
            raise OptionError(f"was trained with --pool {said}, not {pool}")
        made = classifier_from_arrays(saved.arrays, cell, said)
        require_finite(made)
        require_shape(made.rnn, hidden=hidden, layers=layers, bidirectional=bidirectional)
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
    return made


def note_on_scales(examples: Examples) -> None:
    """Print a note if values of the rows are far from 0, or hardly differ."""
    try:
        found = examples.standardization()
    except InvalidDataError:  # too large for their squares; the training ends with an error
        return
    far = np.hypot(found.mean, found.std) > FAR_FROM_ZERO
    far |= found.std < HARDLY_DIFFERENT
    if not far.any():
        return
    place = int(np.argmax(far))
    which = f"value {place} of a row has" if far.size > 1 else "its values have"
    note(
        f"{examples.label}: {examples.name}: {which} mean {found.mean[place]:.3g} and standard "
        f"deviation {found.std[place]:.3g}; --standardize makes them 0 and 1"
    )


def note_on_labels(examples: Examples, classes: int, *, new: bool) -> None:
    """Print a note if labels may be meant otherwise.

    Args:
        classes: of the model.
        new: whether the labels decide what the model predicts.
    """
    name, labelled = f"{examples.label}: {examples.label_name}", examples.labelled
    if labelled.of_values:
        # Rows of several numbers cannot be classes.
        if new and labelled.classes == 1 and not (labelled.labels % 1).any():
            note(
                f"{name}: floating-point numbers are predicted as values; lod cast "
                f"{examples.label_name}=int64 makes class numbers"
            )
    elif classes == 1:
        note(f"{examples.label}: all labels are 0: one class leaves nothing to learn")
    elif new and not examples.names and classes > len(labelled.labels):
        note(
            f"{name}: whole numbers are classes, {classes} for {len(labelled.labels)} sequences; "
            f"{cast_to_predict(examples.label_name)}"
        )


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
    """Raise TooLargeError if so many float32 weights exceed the memory budget while trained."""
    with within_budget(memory_budget() or default_budget()):
        require_fits(what, 4 * count, TRAINED_COPIES)


class Best(NamedTuple):
    """The best epoch so far, and its loss on the validation set, if there is one, else its own."""

    epoch: Epoch
    loss: float


class Keeper:
    """Keeps the best model so far, the one with the lowest loss, in memory and in a file.

    The files are complete at any time: they are replaced atomically.

    Args:
        path: of the model; None: none is written.
        about: the classes and the ids: their names, for the file.
        overwrite: whether an existing model may be replaced.
        save_state: writes the state after the last epoch, given that and the best one.
        last, best: of the epochs before, if the training continues.
    """

    def __init__(
        self,
        path: str | None,
        about: dict[str, list[str]],
        overwrite: bool,
        save_state: Callable[[Epoch, Best], None] | None = None,
        last: Epoch | None = None,
        best: Best | None = None,
    ) -> None:
        self.best = best
        self._last = last
        self._path = path
        self._about = about
        self._overwrite = overwrite
        self._save_state = save_state
        self._saved: tuple[Best | None, Epoch | None] = None, last
        self._at = time.monotonic()

    def offer(self, epoch: Epoch, validation: Evaluation | None) -> None:
        """Keep an epoch's model if its loss is the lowest: on the validation set, if there is one.

        Raises:
            InvalidDataError: the loss on the validation set is not finite.
        """
        loss = epoch.loss if validation is None else validation.loss
        if not math.isfinite(loss):
            raise InvalidDataError(
                f"epoch {epoch.number}: the loss on the validation set is {loss}; check its data "
                "for values that are too large"
            )
        self._last = epoch
        if self.best is None or loss < self.best.loss:
            self.best = Best(epoch, loss)
        # Standard output can be written once only: at the end.
        if self._path != "-" and time.monotonic() - self._at > SAVING_SECONDS:
            self.save()

    @property
    def last(self) -> int | None:
        """Number of the last epoch."""
        return None if self._last is None else self._last.number

    def stalled(self, patience: int | None) -> bool:
        """Return whether so many epochs have passed since the best one."""
        if patience is None or self._last is None or self.best is None:
            return False
        return self._last.number - self.best.epoch.number >= patience

    def save(self) -> None:
        """Write the best model and the state, unless the files have them already."""
        if self._path is None or self.best is None:
            return
        interrupts.handled()  # writing a large model may take longer than the watchdog's limit
        with interrupts.shielded():
            best, last = self._saved
            if self._save_state and self._last and self._last is not last:
                self._save_state(self._last, self.best)
            if self.best is not best:
                model = self.best.epoch.model
                about = {**self._about, "pool": model.pool}
                write_model(self._path, model.arrays(), about, overwrite=self._overwrite)
                self._overwrite = True
            self._saved, self._at = (self.best, self._last), time.monotonic()


@contextmanager
def saving(keeper: Keeper) -> Iterator[None]:
    """Save the best model at the end of the block, however it ends."""
    try:
        yield
    finally:
        keeper.save()


class Display:
    """The progress line of a training that continues after `before` epochs."""

    def __init__(
        self,
        show: Callable[[str], None],
        epochs: int,
        unicode: bool,
        before: int = 0,
        *,
        of_values: bool = False,
    ) -> None:
        self._show = show
        self._of_values = of_values
        self._epochs = epochs
        self._before = before
        self._cells = "█░" if unicode else "#."
        self._begun = time.monotonic()

    def epoch(self, epoch: Epoch, scores: dict[str, Evaluation]) -> None:
        """Show the result of an epoch, and the scores of other sets."""
        done = epoch.number / self._epochs
        full = round(done * BAR_CELLS)
        bar = self._cells[0] * full + self._cells[1] * (BAR_CELLS - full)
        each = (time.monotonic() - self._begun) / (epoch.number - self._before)
        left = each * (self._epochs - epoch.number)

        def share(accuracy: float, begin: str) -> str:
            return "" if self._of_values else f"{begin}{percent(accuracy)}"

        others = "".join(
            f", {name} loss {one.loss:.4f}{share(one.accuracy, ', ')}"
            for name, one in scores.items()
        )
        self._show(
            f"epoch {epoch.number} of {self._epochs} {bar} loss {epoch.loss:.4f}"
            f"{share(epoch.accuracy, ', training ')}{others}, {left:.0f} s left"
        )


def percent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{share * 100:.1f} %"


def report(best: Best | None, model: Classifier, recipe: Recipe) -> dict[str, Any]:
    """Return the report of a training, without the accuracies and errors."""
    of_values = model.targets is not None
    return {
        "epochs": recipe.epochs,
        "best_epoch": best and best.epoch.number,
        "loss": best and best.epoch.loss,
        "validation_loss": None,
        "classes": None if of_values else model.classes,
        "values": model.classes if of_values else None,
        "vocabulary": None if model.embedding is None else len(model.embedding),
    }


def summary(report: dict[str, Any]) -> str:
    """Return a report as a line of text."""
    parts = []
    if report["epochs"]:
        parts.append(f"best epoch {report['best_epoch']} of {report['epochs']}")
        if report["stopped_after"] is not None:
            parts.append(f"stopped after {report['stopped_after']}")
        parts.append(f"loss {report['loss']:.4f}")
        if report["validation_loss"] is not None:
            parts.append(f"validation loss {report['validation_loss']:.4f}")
    for name in ("training", "validation", "test"):
        found = report[f"{name}_accuracy"]
        if found is not None:
            count = report[f"{name}_sequences"]
            parts.append(f"{name} accuracy {percent(found)} ({round(found * count)} of {count})")
        elif report[f"{name}_rmse"] is not None:
            rmse, baseline = (
                _first_of(report[f"{name}_{key}"]) for key in ("rmse", "baseline_rmse")
            )
            parts.append(f"{name} RMSE {rmse} (predicting the mean: {baseline})")
    return ", ".join(parts)


def _first_of(values: list[float]) -> str:
    """Return values as text; only the first, and their number, if there are many."""
    many = len(values) > SHOWN_VALUES
    shown = ", ".join(f"{one:.4g}" for one in values[:SHOWN_VALUES])
    return f"{shown}, .. {len(values)} values" if many else shown
