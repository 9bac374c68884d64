"""`lod run-rnn --emit class`, `scores` and `value`: a model of `lod train`, batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.commands.run_rnn.runners import PlainRunner, Settings
from lodcli.formats.core.names import listing
from lodcli.formats.weights.model_file import about_of
from lodcli.kernels.errors import InvalidDataError, OptionError
from lodcli.kernels.ops.pooling.pool import segment_mean
from lodcli.kernels.rnn.stack.embedding import EMBEDDING
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.standardization import MEAN, STD, TARGETS, standardization_in
from lodcli.kernels.rnn.stack.state_dict import StateDict, beside_rnns, is_weight_name
from lodcli.kernels.rnn.training.classifier import Classifier, require_finite, require_rows
from lodcli.kernels.runtime.devices import moved
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Categories, Marks
from lodcli.shell.output import note


class ClassRunner(PlainRunner):
    """Scores, the most probable class, or the predicted values of every sequence.

    Args:
        settings: one of CLASSES is its only kind.
        model: without its embedding and standardization, which `lookup` and `standardization` hold.
        classes: marks of the numbers of classes, which name them.
        more: see `PlainRunner`.
    """

    def __init__(self, settings: Settings, model: Classifier, classes: Marks, **more: Any) -> None:
        super().__init__(settings, model.rnn, **more)
        dtype = model.rnn.layers[0][0].dtype
        self._weight, self._bias = (
            self.there(array.astype(dtype, copy=False)) for array in (model.weight, model.bias)
        )
        self._pool, self._targets = model.pool, model.targets
        self._marks = classes
        self._sequences = 0

    def one(self, tensor: LoDTensor) -> dict[str, LoDTensor]:
        result = self.forward(tensor)
        offsets = tensor.lod.absolute(self.level)
        require_rows(offsets, before=self._sequences)
        pooled = result.last.data
        if self._pool == "mean":
            pooled = on("auto", segment_mean)(result.all.data, offsets)
        scores = pooled @ self._weight.T + self._bias
        found = moved(scores, "cpu")
        finite = np.isfinite(found).all(axis=1)
        if not finite.all():
            raise InvalidDataError(
                f"sequence {self._sequences + int(np.argmin(finite))}: its scores are not finite; "
                "replace nan and infinite values in its rows, or leave it out"
            )
        self._sequences += len(found)
        if self.settings.kinds == ("scores",):
            return self.named({"scores": result.last.with_data(found)})
        if self._targets is not None:
            values = self._targets.original(found)
            rows = values[:, 0] if values.shape[1] == 1 else values
            return {"predicted": result.last.with_data(rows)}
        best = found.max(axis=1, keepdims=True)
        probability = 1 / np.exp(found - best).sum(axis=1)
        return {
            # Not "class", which no expression of lod filter can name.
            "predicted": LoDTensor(found.argmax(axis=1), result.last.lod, marks=self._marks),
            "probability": result.last.with_data(probability),
        }


def classifier_in(
    entries: StateDict, rnn: RNNWeights, kind: str, path: str
) -> tuple[Classifier, Marks]:
    """Return the classifier in a file of weights, without embedding, and the marks of its classes.

    Args:
        rnn: the RNN among them.
        kind: one of CLASSES.
        path: of the file, for a note on arrays that do not belong to the classifier.

    Raises:
        OptionError: the file holds no classifier, or one of the other kind.
        ShapeMismatchError, InvalidDataError: its parts do not fit each other.
    """
    names = [beside_rnns(entries, name) for name in ("out.weight", "out.bias")]
    if None in names:
        raise OptionError(
            f"--emit {kind} needs out.weight and out.bias beside the RNN, as lod train makes them; "
            f"found {listing(entries)}{renamed_to('out', entries, rnn.output_size, biased=True)}"
        )
    beside = (EMBEDDING, MEAN, STD, f"{TARGETS}.mean", f"{TARGETS}.std")
    known = [*names, *(beside_rnns(entries, name) for name in beside)]
    others = [name for name in entries if not is_weight_name(name) and name not in known]
    if others:
        note(f"{path}: not part of the classifier, and left out: {listing(others)}")
    weight, bias = (np.asarray(entries[str(name)]) for name in names)
    about = about_of(entries)
    targets = standardization_in(entries, TARGETS)
    if (targets is not None) != (kind == "value"):
        what, use = ("values", "value") if targets else ("classes", "class or scores")
        raise OptionError(f"--emit {kind}: the model predicts {what}; use --emit {use}")
    model = Classifier(rnn, weight, bias, about.get("pool", "last"), targets=targets)
    require_finite(model)
    if kind == "class" and model.classes < 2:
        raise InvalidDataError(
            f"out.weight: expected at least 2 classes, found {model.classes}; train with labels of "
            "several classes, or use --emit scores: the sign of a score that is a logit tells the "
            "class"
        )
    words = tuple(about.get("classes", ()))
    if len(words) not in (0, model.classes):
        raise InvalidDataError(f"has {model.classes} classes, and names of {len(words)}")
    return model, Marks(unit=Categories(words)) if words else NO_MARKS


def renamed_to(name: str, entries: StateDict, width: int, *, biased: bool) -> str:
    """Return how the only layer that may be the missing one gets its name, as "; .."; or "".

    Args:
        name: of the missing layer.
        width: the second size of its weight.
        biased: whether it has a bias.
    """
    found = [
        layer
        for layer, dot, part in (one.rpartition(".") for one in entries)
        if part == "weight"
        and dot
        and np.shape(entries[f"{layer}.weight"])[1:] == (width,)
        and (f"{layer}.bias" in entries) == biased
    ]
    if len(found) != 1:
        return ""
    parent, dot, _ = found[0].rpartition(".")
    parts = ("weight", "bias") if biased else ("weight",)
    pairs = " ".join(f"{found[0]}.{part}={parent}{dot}{name}.{part}" for part in parts)
    return f"; if {found[0]} is that layer, lod rename FILE {pairs} -o NEW.safetensors"
