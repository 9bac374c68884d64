"""`lod train --state`: a file from which an interrupted training continues exactly.

It is not the model's file: torch's load_state_dict refuses arrays that the module lacks.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from lodcli.commands.train.keeping import Best
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.weights import read_weights
from lodcli.formats.weights.model_file import about_of, write_model
from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.stack.state_dict import StateDict, unusual_options
from lodcli.kernels.rnn.training.adam import AdamState
from lodcli.kernels.rnn.training.classifier import Classifier
from lodcli.kernels.rnn.training.train import Epoch, Labelled, Recipe

if TYPE_CHECKING:
    from lodcli.kernels.runtime.precision import Precision

# Prefixes of the names of arrays: of the last epoch, of Adam after it (torch's names), of the best.
_LAST, _FIRST, _SECOND, _BEST = "last.", "exp_avg.", "exp_avg_sq.", "best."
_KEY = "state"
_DEFAULTS = {"--precision": "float32", "--standardize": False}


def run_of(
    model: Classifier,
    examples: Labelled,
    validation: Labelled | None,
    names: dict[str, list[str]],
    recipe: Recipe,
    precision: Precision,
) -> dict[str, Any]:
    """Return what must be the same to continue a training, by the names of options.

    Args:
        names: of the classes and the ids.
    """
    parts: list[Array] = []
    for one in (examples, validation):
        if one is not None:
            parts += (one.sequences.data, *one.sequences.lod.levels, one.labels)
    sums = [
        zlib.crc32(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data) for part in parts
    ]
    sums.append(zlib.crc32(json.dumps(names, sort_keys=True).encode()))
    options = unusual_options(model.rnn).items()
    return {
        "--cell": ", ".join([model.rnn.cell, *(f"{name}={value}" for name, value in options)]),
        "--pool": model.pool,
        "--batch": recipe.batch,
        "--lr": recipe.rate,
        "--dropout": recipe.dropout,
        "--clip": recipe.clip,
        "--seed": recipe.seed,
        "--precision": precision,
        "--standardize": model.standardization is not None,
        "examples": sums,
    }


def write_state(path: str, last: Epoch, best: Best, run: dict[str, Any]) -> None:
    """Write the state of a training after an epoch, atomically."""
    arrays: dict[str, Array] = {}
    for prefix, part in (
        (_LAST, last.model.arrays()),
        (_FIRST, last.adam.first),
        (_SECOND, last.adam.second),
        (_BEST, best.epoch.model.arrays()),
    ):
        arrays |= {prefix + name: array for name, array in part.items()}
    epochs = [
        # JSON has no nan, the accuracy of a model that predicts numbers.
        [epoch.number, epoch.loss, None if math.isnan(epoch.accuracy) else epoch.accuracy]
        for epoch in (last, best.epoch)
    ]
    about = {"run": run, "epochs": epochs, "steps": last.adam.steps}
    if best.loss != best.epoch.loss:
        about["validation_loss"] = best.loss
    write_model(path, StateDict(arrays), {_KEY: about}, overwrite=True)


def read_state(
    path: str, start: Classifier, run: dict[str, Any], epochs: int
) -> tuple[Epoch, Best] | None:
    """Return the last and the best epoch of a training; None if there is no such file.

    Args:
        start: a model of the same shape.
        run: of the training that is to continue.
        epochs: of that training.

    Raises:
        LodError: not a state, or that of another training.
    """
    if not os.path.exists(path):
        return None
    with naming(path):
        arrays = read_weights(path)
        about: Any = about_of(arrays).get(_KEY)
        try:
            numbers = [
                (int(number), float(loss), math.nan if share is None else float(share))
                for number, loss, share in about["epochs"]
            ]
            (last, best), steps = numbers, int(about["steps"])
            lowest = float(about.get("validation_loss", numbers[1][1]))
            # Earlier versions did not write these.
            before = [(_DEFAULTS | about["run"])[name] for name in run]
            if min(last[0], best[0], steps) < 1:
                raise ValueError
        except (KeyError, OverflowError, TypeError, ValueError):
            raise DamagedFileError(
                "expected a file that lod train --state has written; give such a file or a new name"
            ) from None
        for (name, now), then in zip(run.items(), before, strict=True):
            if now != then:
                what = f"{name} {then}, not {now}" if name.startswith("--") else "other examples"
                raise OptionError(
                    f"is the state of a training with {what}; use the same, or another file"
                )
        if last[0] > epochs:
            raise OptionError(f"is the state after {last[0]} epochs, --epochs is {epochs}")
        expected = {_LAST + name for name in start.arrays()}
        for name in arrays:
            if name.startswith(_LAST) and name not in expected:
                raise OptionError(f"is the state of another model: {name}: expected none")

        def part(prefix: str, like: Classifier) -> dict[str, Array]:
            return {
                name: _fitting(arrays, prefix + name, array)
                for name, array in like.arrays().items()
            }

        model = start.with_arrays(part(_LAST, start))
        trained = start.of_standardized()
        adam = AdamState(steps, part(_FIRST, trained), part(_SECOND, trained))
        chosen = Epoch(best[0], start.with_arrays(part(_BEST, start)), *best[1:], adam)
        return Epoch(last[0], model, *last[1:], adam), Best(chosen, lowest)


def _fitting(arrays: StateDict, name: str, like: Array) -> Array:
    found = arrays.get(name)
    if found is None or found.shape != like.shape or found.dtype.kind != "f":
        what = "none" if found is None else f"{found.dtype} of shape {found.shape}"
        raise OptionError(
            f"is the state of another model: {name}: expected shape {like.shape}, found {what}"
        )
    return found
