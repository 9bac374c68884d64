"""RNNs of rows of float16 and bfloat16 in main memory: computed in float32, rounded at the end."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.rnn.engine.engine import States, rnn_backward, rnn_forward
from tests.cells_rnn import cell_weights, initial_states
from tests.oracles_rnn import offsets_of

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
LENGTHS = [2, 0, 4, 1]


def _solved(variant: str, rounded: Any, computed: Any, backend: Any) -> dict[str, Any]:
    """Return results and gradients of `rounded` values in arrays of the dtype `computed`."""
    rng = np.random.default_rng(0)
    weights = cell_weights(variant, rng, dtype=rounded, hidden=4).astype(computed)
    offsets = offsets_of(LENGTHS)

    def draw(rows: int, width: int) -> Any:
        return rng.normal(size=(rows, width)).astype(rounded).astype(computed)

    data = draw(int(offsets[-1]), 5)
    first = [one.astype(computed) for one in initial_states(weights, len(LENGTHS), rng, rounded)]
    states = States(**dict(zip(("hidden", "cell"), first, strict=False)))
    run = rnn_forward(data, offsets, weights, initial=states, keep=True, backend=backend)
    assert run.tape is not None
    by_outputs, by_last = draw(*run.outputs.shape), draw(*run.last_hidden.shape)
    found = rnn_backward(run.tape, grad_outputs=by_outputs, grad_last_hidden=by_last)
    results = {
        **{"outputs": run.outputs, "cells": run.cells, "last_hidden": run.last_hidden},
        **{"last_cell": run.last_cell, "input": found.input},
        **{"initial_hidden": found.initial_hidden, "initial_cell": found.initial_cell},
        **found.weights.arrays(),
    }
    return {name: array for name, array in results.items() if array is not None}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("variant", "backend"),
    [
        *(("lstm", "numpy"), ("lstm", "numba"), ("gru", "auto"), ("elman-tanh", "numba")),
        *(("lstm-projection", "numpy"), ("paddle-gru", "auto"), ("slstm", "numba")),
        ("mingru", "numpy"),
    ],
)
def test_they_are_computed_in_float32_and_rounded_at_the_end(
    variant: str, backend: str, dtype: np.dtype[Any]
) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    found = _solved(variant, dtype, dtype, backend)
    wide = _solved(variant, dtype, np.dtype(np.float32), backend)
    assert found.keys() == wide.keys()
    for name, array in found.items():
        assert array.dtype == dtype, name
        np.testing.assert_array_equal(array, wide[name].astype(dtype), name)


def test_a_foreign_byte_order_is_refused() -> None:
    weights = cell_weights("gru", np.random.default_rng(0))
    with pytest.raises(InvalidDataError, match="expected float16, bfloat16, float32 or float64"):
        rnn_forward(np.ones((3, 5), ">f2"), offsets_of([3]), weights)
