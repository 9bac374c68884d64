"""See norms.py. A row is read twice while in the cache; no intermediate results are stored."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.dtypes import common_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.halves_native import widened
from lodcli.kernels.runtime.buffers import empty

PIECE_BYTES = 1 << 18

_MODULE = "kernels.ops.norms.norms_numba"
_forward, _backward = (load.kernel(_MODULE, name) for name in ("forward", "backward"))


def rows_layer_norm(data: Array, weight: Array | None, bias: Array | None, epsilon: float) -> Array:
    """See norms.py."""
    return _normalised(data, weight, bias, epsilon, centred=True)


def rows_rms_norm(data: Array, weight: Array | None, epsilon: float) -> Array:
    """See norms.py."""
    return _normalised(data, weight, None, epsilon, centred=False)


def rows_layer_norm_grad(
    upstream: Array, data: Array, weight: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    """See norms.py."""
    return _gradients(upstream, data, weight, epsilon, centred=True)


def rows_rms_norm_grad(
    upstream: Array, data: Array, weight: Array | None, epsilon: float
) -> tuple[Array, Array]:
    """See norms.py."""
    return _gradients(upstream, data, weight, epsilon, centred=False)[:2]


def _normalised(
    data: Array, weight: Array | None, bias: Array | None, epsilon: float, *, centred: bool
) -> Array:
    data = widened(data)
    rows, width = data.shape
    piece_rows = _piece_rows(data)
    x, out = np.ascontiguousarray(data), empty(data.shape, data.dtype)
    w, b = _feature(weight, 1, data), _feature(bias, 0, data)
    run(
        _forward[data.dtype.char], -(-rows // piece_rows), 2 * data.nbytes,
        x, w, b, out, epsilon, centred, rows, width, piece_rows,
    )  # fmt: skip
    return out


def _gradients(
    upstream: Array, data: Array, weight: Array | None, epsilon: float, *, centred: bool
) -> tuple[Array, Array, Array]:
    data, flow = widened(data), widened(upstream)
    # Neither of two dtypes is rounded to the other before use.
    dtype = common_dtype(data.dtype, flow.dtype)
    x, flow = np.ascontiguousarray(data, dtype), np.ascontiguousarray(flow, dtype)
    rows, width = x.shape
    piece_rows = _piece_rows(x)
    pieces = -(-rows // piece_rows)
    out = empty(x.shape, dtype)
    # Pieces are fixed and joined in order: the sums do not depend on the number of threads.
    sums = np.zeros((2, pieces, width))
    w = _feature(weight, 1, x)
    run(
        _backward[dtype.char], pieces, 3 * x.nbytes, flow, x, w, out, sums[0], sums[1],
        epsilon, centred, rows, width, piece_rows,
    )  # fmt: skip
    scale, shift = as_dtype(np.add.reduce(sums, 1), data.dtype)
    return as_dtype(out, data.dtype), scale, shift


def _feature(given: Array | None, default: float, data: Array) -> Array:
    if given is None:
        return np.full(data.shape[1], default, data.dtype)
    return np.ascontiguousarray(given, data.dtype)


def _piece_rows(rows: Array) -> int:
    return max(1, PIECE_BYTES // max(1, int(rows.shape[1]) * rows.itemsize))
