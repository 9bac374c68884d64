"""One layer on rows of float16 or bfloat16, computed in float32.

States between steps and sums are float32; rows, weights and results have two bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.rnn.engine.layer import LayerGradients, LayerRun
from lodcli.kernels.rnn.engine.plan import StepPlan

Parts = tuple[Array | None, ...]
_SINGLE = np.dtype(np.float32)


def layer_forward(
    data: Array,
    plan: StepPlan,
    weights: LayerWeights,
    begin: tuple[Array, ...],
    *,
    run: Callable[..., LayerRun],
    **how: Any,
) -> LayerRun:
    """See layer.py.

    Args:
        run: a twin of layer.layer_forward.
        how: its keyword arguments.
    """
    made = run(_wide(data), plan, weights.astype(_SINGLE), _wide_parts(begin), **how)
    return LayerRun(_as(made.through, data), _as(made.last, data), made.kept)


def layer_backward(
    data: Array,
    plan: StepPlan,
    weights: LayerWeights,
    kept: Any,
    by_row: Parts,
    by_sequence: Parts,
    *,
    run: Callable[..., LayerGradients],
    **how: Any,
) -> LayerGradients:
    """See layer.py.

    Args:
        run: a twin of layer.layer_backward.
        how: its keyword arguments.
    """
    given = _wide_parts(by_row), _wide_parts(by_sequence)
    found = run(_wide(data), plan, weights.astype(_SINGLE), kept, *given, **how)
    gradient = None if found.input is None else as_dtype(found.input, data.dtype)
    return LayerGradients(gradient, found.weights.astype(data.dtype), _as(found.first, data))


def _wide(array: Array) -> Array:
    return as_dtype(array, _SINGLE)


def _wide_parts(parts: Parts) -> Any:
    return tuple(None if part is None else _wide(part) for part in parts)


def _as(parts: tuple[Array, ...], data: Array) -> tuple[Array, ...]:
    return tuple(as_dtype(part, data.dtype) for part in parts)
