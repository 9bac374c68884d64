"""A run of an RNN with all its gradients, solved where its arrays lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
import pytest

from lodcli.kernels.rnn.engine.cupy import costs as model
from lodcli.kernels.rnn.engine.cupy import ways
from lodcli.kernels.rnn.engine.engine import States, rnn_backward, rnn_forward
from tests.cells_rnn import cell_weights, initial_states
from tests.oracles_rnn import Array, close, offsets_of

LENGTHS = [2, 0, 4, 1, 4, 0, 7, 3, 3, 3, 1, 1]  # ties, empty ones inside, more than a few rows
# float32: sums of eight products over seven steps, in another order.
TOLERANCES = {"float64": 1e-12, "float32": 2e-5}
# Relative tolerances: half of the last digit, times the sums of some steps.
ROUNDED = {"tf32": 4e-3, "bfloat16": 4e-2, "float16": 4e-3}


class Problem:
    """A run, and upstream gradients of all its results."""

    def __init__(
        self, variant: str, dtype: str, lengths: list[int], *, seed: int = 0, hidden: int = 3
    ) -> None:
        rng = np.random.default_rng(seed)
        self.weights = cell_weights(variant, rng, dtype=dtype, hidden=hidden)
        self.offsets = offsets_of(lengths)
        rows, sizes = int(self.offsets[-1]), self.weights.state_sizes

        def draw(count: int, width: int) -> Array:
            drawn: Array = rng.normal(size=(count, width)).astype(dtype)
            return drawn

        self.data = draw(rows, 5)
        self.states = initial_states(self.weights, len(lengths), rng, dtype)
        self.by_row = [draw(rows, size) for size in sizes]
        self.by_sequence = [draw(len(lengths), size) for size in sizes]

    def solve(self, move: Callable[[Any], Any], *, reverse: bool) -> dict[str, Any]:
        """Return all results and gradients; `move` copies the arguments to a device."""
        weights = self.weights.moved(move)
        given = dict(zip(("hidden", "cell"), map(move, self.states), strict=False))
        run = rnn_forward(
            *(move(self.data), self.offsets, weights),
            initial=States(**given),
            reverse=reverse,
            keep=True,
        )
        assert run.tape is not None
        upstream = dict(zip(("grad_outputs", "grad_cells"), map(move, self.by_row), strict=False))
        last = zip(
            ("grad_last_hidden", "grad_last_cell"), map(move, self.by_sequence), strict=False
        )
        found = rnn_backward(run.tape, **upstream, **dict(last))
        results = {
            **{"outputs": run.outputs, "cells": run.cells, "input": found.input},
            **{"last_hidden": run.last_hidden, "last_cell": run.last_cell},
            **{"initial_hidden": found.initial_hidden, "initial_cell": found.initial_cell},
            **found.weights.arrays(),
        }
        return {name: array for name, array in results.items() if array is not None}


def check(found: dict[str, Any], wanted: dict[str, Any], tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        assert isinstance(array, cupy.ndarray), name
        assert array.dtype == wanted[name].dtype
        close(array.get(), wanted[name], tolerance, name)


def choose(
    monkeypatch: pytest.MonkeyPatch, large: int, *, rest: bool = False, captured: bool = False
) -> None:
    """Make this many steps use cuBLAS, and the others one launch if `rest`."""

    def best_way(layer: model.Layer, sizes: Array, device: Any, costs: model.Costs) -> model.Way:
        first, fit = min(large, sizes.size), None
        if rest and first < sizes.size:
            lengths = np.searchsorted(-sizes, -np.arange(sizes[first]), side="left") - first
            fit = model.best_fit(layer, lengths, device, costs)
        return model.Way(first, fit, sizes.size, 0.0, captured)

    ways._decided.cache_clear()
    monkeypatch.setattr(ways, "best_way", best_way)
