"""See pool_grad.py. Pieces are equal parts of the output rows."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.ops.pooling.pool_grad import divided_rows
from lodcli.kernels.simd.broadcast import broadcast_rows


def segment_sum_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(upstream, offsets)


def segment_mean_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(
        divided_rows(upstream, offsets_to_lengths(offsets).astype(np.float64)), offsets
    )


def segment_sqrt_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(divided_rows(upstream, np.sqrt(offsets_to_lengths(offsets))), offsets)


def segment_first_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(upstream, offsets, only="first")


def segment_last_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return broadcast_rows(upstream, offsets, only="last")
