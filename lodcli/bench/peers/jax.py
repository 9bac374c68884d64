"""JAX: segment_sum, segment_max and segment_min of sorted ids, compiled."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import jax
import numpy as np


def version() -> str:
    """Return the measured version."""
    return str(jax.__version__)


def threads(count: int) -> None:
    """Set XLA to one thread, or to all processors, before its first use."""
    if count == 1:
        one = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {one}".strip()


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementation of an op with JAX."""
    functions = {
        "sum": jax.ops.segment_sum,
        "max": jax.ops.segment_max,
        "min": jax.ops.segment_min,
    }
    if op not in functions:
        return {}
    full = inputs["full"]
    x = jax.numpy.asarray(inputs["data"])
    ids = jax.numpy.asarray(np.repeat(np.arange(full.size), np.diff(inputs["offsets"])))
    call = jax.jit(partial(functions[op], num_segments=int(full.size), indices_are_sorted=True))
    return {
        f"segment_{op}": (
            lambda: call(x, ids).block_until_ready(),
            lambda rows: [np.asarray(rows)[full]],
        )
    }
