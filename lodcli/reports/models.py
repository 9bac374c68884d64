"""Reports of `lod train` and `lod weights`."""

from __future__ import annotations

from typing import TypedDict

from lodcli.reports.common import Report


class Training(Report):
    """A trained or scored model.

    Attributes:
        epochs: how many were run; 0 only evaluates.
        best_epoch: the one that was saved, null without epochs.
        loss: the training loss of that epoch, null without epochs.
        validation_loss: its loss on the validation set, null without one.
        stopped_after: the epoch after which --patience ended the training; null if it did not.
        classes: how many the model has; null if it predicts values.
        values: how many it predicts for each sequence; null if it classifies.
        vocabulary: how many ids the embedding has, null without one.
        training_accuracy, validation_accuracy, test_accuracy: share of correct answers; null
            without such a set, or of values.
        training_rmse, validation_rmse, test_rmse: root mean squared error of each value; null
            without such a set, or of classes.
        training_baseline_rmse, validation_baseline_rmse, test_baseline_rmse: the same of the mean
            of the training labels.
        training_sequences, validation_sequences, test_sequences: how many were scored.
    """

    epochs: int
    best_epoch: int | None
    loss: float | None
    validation_loss: float | None
    stopped_after: int | None
    classes: int | None
    values: int | None
    vocabulary: int | None
    training_accuracy: float | None
    training_rmse: list[float] | None
    training_baseline_rmse: list[float] | None
    training_sequences: int | None
    validation_accuracy: float | None
    validation_rmse: list[float] | None
    validation_baseline_rmse: list[float] | None
    validation_sequences: int | None
    test_accuracy: float | None
    test_rmse: list[float] | None
    test_baseline_rmse: list[float] | None
    test_sequences: int | None


class Array(TypedDict):
    """An array of weights.

    Attributes:
        name: in the names of a torch state dict.
    """

    name: str
    dtype: str
    shape: list[int]


class RNN(TypedDict):
    """An RNN of the file.

    Attributes:
        prefix: of the names of its arrays.
        cell: its kind.
        options: those of the cell that are not the default.
        layers, directions: how many.
        input_size, hidden_size, output_size: values a row.
        arrays: its weights and biases.
    """

    prefix: str
    cell: str
    options: dict[str, str | bool]
    layers: int
    directions: int
    input_size: int
    hidden_size: int
    output_size: int
    arrays: list[Array]


class Weights(Report):
    """The RNNs of a weights file.

    Attributes:
        file: the one that was read, or written with -o.
        rnns: all of them.
        embedding: the table of the model's ids, null without one.
    """

    file: str
    rnns: list[RNN]
    embedding: Array | None
