"""The progress and the report of a training."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lodcli.commands.train.keeping import Best
from lodcli.kernels.rnn.training.classifier import Classifier
from lodcli.kernels.rnn.training.train import Epoch, Evaluation, Recipe

BAR_CELLS = 20
# Predicted values whose errors are printed.
SHOWN_VALUES = 8


class Display:
    """The progress line of a training that continues after `before` epochs."""

    def __init__(
        self,
        show: Callable[[str], None],
        epochs: int,
        unicode: bool,
        before: int,
        *,
        of_values: bool,
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


def report_of(best: Best | None, model: Classifier, recipe: Recipe) -> dict[str, Any]:
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
