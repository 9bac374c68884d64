"""RNNs to write and read again, and how to run one."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights, stack_forward

OFFSETS = np.array([0, 5, 8, 9])
LENGTHS = np.diff(OFFSETS)
SHAPES: dict[str, dict[str, Any]] = {
    "one": {},
    "layers": {"layers": 2},
    "both": {"layers": 2, "bidirectional": True},
}
CELLS = ("lstm", "gru", "gru_paddle", "elman")
PUBLISHED_CELLS = ("lru", "mingru", "minlstm", "rglru", "s5", "slstm")


def rows(width: int = 3, dtype: str = "float64") -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).normal(size=(9, width)).astype(dtype)


def rnn(cell: str, dtype: str = "float64", **options: Any) -> RNNWeights:
    """Return an RNN with 3 inputs, of unlike weights."""
    return seeded_weights(cell, 3, 4, rng=np.random.default_rng(1), dtype=dtype, **options)


def outputs(weights: RNNWeights, data: np.ndarray[Any, Any] | None = None) -> Any:
    """Return what the RNN makes of three sequences of 5, 3 and 1 rows."""
    dtype = weights.layers[0][0].dtype.name
    given = rows(dtype=dtype) if data is None else data
    return stack_forward(given, OFFSETS, weights).outputs
