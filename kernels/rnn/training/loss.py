"""Losses: cross-entropy of classes, and the mean squared error of values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.arguments import require_float
from lodcli.kernels.runtime.argument_types import types_explained


class Loss(NamedTuple):
    """Result of a loss function.

    Attributes:
        value: the mean over the batch of -log softmax(scores)[label], or of the squared errors; 0
            for an empty batch.
        grad: (S, C), the gradient of `value` with respect to the scores.
        right: the number of sequences whose label has the highest score; 0 for values.
    """

    value: float
    grad: Array
    right: int


@types_explained
def softmax_cross_entropy(scores: Array, labels: Array) -> Loss:
    """Return the mean cross-entropy of scores and labels, torch's CrossEntropyLoss.

    Args:
        scores: (S, C), floating point, of any magnitude: the maximum is subtracted before exp.
        labels: (S,) integers, 0 to C-1.

    Raises:
        ShapeMismatchError: the scores have another shape, or the number of labels differs from S.
        InvalidDataError: the scores are not floating-point, or a label is not a class; names its
            position.

    >>> loss = softmax_cross_entropy(np.array([[0.0, 0.0], [1000.0, 0.0]]), np.array([0, 0]))
    >>> round(loss.value, 6), loss.grad.tolist(), loss.right
    (0.346574, [[-0.25, 0.25], [0.0, 0.0]], 2)
    """
    if scores.ndim != 2:
        raise ShapeMismatchError(f"scores: expected shape (S, C), found {scores.shape}")
    require_float(scores, "scores")
    count = len(scores)
    if labels.shape != (count,):
        raise ShapeMismatchError(f"labels: expected shape {(count,)}, found {labels.shape}")
    check_labels(labels, scores.shape[1])
    rows = np.arange(count)
    shifted = scores - scores.max(axis=1, keepdims=True, initial=-np.inf)
    weight = np.exp(shifted)
    total = weight.sum(axis=1, keepdims=True)
    # Summed in float64: a float32 sum of thousands of small losses loses digits.
    losses = (np.log(total[:, 0]) - shifted[rows, labels]).astype(np.float64)
    grad = weight / total
    grad[rows, labels] -= 1
    grad /= max(count, 1)
    right = int((scores.argmax(axis=1) == labels).sum()) if count else 0
    return Loss(float(losses.sum()) / max(count, 1), grad, right)


@types_explained
def squared_error(scores: Array, targets: Array) -> Loss:
    """Return the mean squared error of scores and targets, torch's MSELoss.

    Args:
        scores, targets: (S, C), floating point.

    Raises:
        ShapeMismatchError: the shapes differ, or are not (S, C).
        InvalidDataError: `scores` or `targets` are not floating-point.

    >>> loss = squared_error(np.array([[1.0], [3.0]]), np.array([[0.0], [3.0]]))
    >>> loss.value, loss.grad.tolist()
    (0.5, [[1.0], [0.0]])
    """
    if scores.ndim != 2:
        raise ShapeMismatchError(f"scores: expected shape (S, C), found {scores.shape}")
    if targets.shape != scores.shape:
        raise ShapeMismatchError(f"targets: expected shape {scores.shape}, found {targets.shape}")
    for name, array in (("scores", scores), ("targets", targets)):
        require_float(array, name)
    errors, count = scores - targets.astype(scores.dtype, copy=False), max(scores.size, 1)
    value = float(np.square(errors, dtype=np.float64).sum()) / count
    return Loss(value, errors * (2 / count), 0)


def check_labels(labels: Array, classes: int | None = None) -> None:
    """Raise InvalidDataError unless `labels` are whole numbers from 0 to classes - 1.

    Args:
        classes: the number of classes; None: the highest label plus one.
    """
    if labels.dtype.kind not in "iu":
        raise InvalidDataError(
            f"labels: expected whole numbers, found {labels.dtype}{_remedy(labels)}"
        )
    if classes is None:
        classes = int(labels.max(initial=0)) + 1
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if outside.size:
        position = int(outside[0])
        raise InvalidDataError(
            f"labels, position {position}: expected 0 to {classes - 1}, found {labels[position]}"
        )


def _remedy(labels: Array) -> str:
    """Return advice on labels that are not whole numbers, as "; .."; "" if there is none."""
    kind = labels.dtype.kind
    if kind in "US":
        return "; number the words, as np.unique(labels, return_inverse=True) does"
    if kind in "mM":
        return "; subtract times, and divide by np.timedelta64(1, 's'), to predict numbers"
    if not (kind == "b" or is_float(labels.dtype)):
        return ""
    finite = labels[np.isfinite(labels)]
    if (finite == np.trunc(finite)).all():
        return "; cast them to int64, as with lod cast"
    return (
        "; they number the classes; a model that predicts other numbers has targets.mean, as lod "
        "train makes from floating-point labels"
    )
