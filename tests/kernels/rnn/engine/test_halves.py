"""RNNs of rows of float16 and bfloat16 in main memory: computed in float32, rounded at the end."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.rnn.engine.engine import States, rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.chunked import Chunking
from lodcli.kernels.rnn.stack.stack import seeded_weights, stack_backward, stack_forward
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


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("chunking", [None, Chunking(checkpoint=1)], ids=["whole", "chunks"])
@pytest.mark.parametrize(
    ("dtype", "scale", "bias", "hidden", "upstream"),
    [
        ("float16", 1e6, 0.0, 0.0, 1.0),  # the weights are
        ("float16", 1.0, 0.0, 1e300, 1.0),  # the initial states
        ("float16", 4.0, 0.0, 0.0, 6e4),  # the gradients
        ("float32", 1.0, 0.0, 0.0, 1e300),  # sums of gradients are not even a number
        ("float32", 1.0, np.inf, 0.0, 1.0),
    ],
)
def test_values_out_of_range_are_infinite_without_a_warning(
    dtype: str,
    scale: float,
    bias: float,
    hidden: float,
    upstream: float,
    chunking: Any,
    backend: Any,
) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    weights = seeded_weights("elman", 5, 4, bidirectional=True, rng=rng, dtype=np.float64)
    arrays = {"bias_ih": np.full(4, bias), "bias_hh": np.full(4, -bias)}
    weights = weights.map(lambda one: one.moved(lambda array: np.abs(array) * scale))
    weights = weights.map(lambda one: one.with_arrays(arrays))
    offsets = offsets_of(LENGTHS)
    rows = np.where(np.arange(sum(LENGTHS)) % 2, -0.1, 0.1)[:, np.newaxis].repeat(5, axis=1)
    run = stack_forward(
        rows.astype(dtype),
        offsets,
        weights,
        initial_hidden=np.full((2, len(LENGTHS), 4), hidden),
        keep=True,
        chunking=chunking,
        backend=backend,
    )
    grad = np.where(np.arange(8) < 4, upstream, -upstream) * np.ones((len(rows), 1))
    found = stack_backward(run.tape, grad_outputs=grad)
    assert not (np.isfinite(run.last_hidden).all() and np.isfinite(found.input).all())
