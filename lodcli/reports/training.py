"""What `lod train` reports."""

from __future__ import annotations

from lodcli.reports.common import Report


class Training(Report):
    """A trained or scored model.

    Attributes:
        epochs: how many were run; 0 scores only.
        best_epoch: the one that was saved, null without epochs.
        loss: the least training loss, null without epochs.
        classes: how many there are.
        training_accuracy, test_accuracy: share of correct answers; null without a test set.
        training_sequences, test_sequences: how many were scored.
    """

    epochs: int
    best_epoch: int | None
    loss: float | None
    classes: int
    training_accuracy: float | None
    training_sequences: int | None
    test_accuracy: float | None
    test_sequences: int | None
