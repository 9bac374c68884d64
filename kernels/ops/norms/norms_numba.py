"""Kernels of row norms. A row is read twice or three times while in the cache."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import address
from lodcli.kernels.ops.norms import norms_vectors_numba as vectors

_layer_norm, _layer_norms = vectors.layer_norm, vectors.layer_norms
_rms_norm, _rms_norms = vectors.rms_norm, vectors.rms_norms
_layer_norm_back, _layer_norms_back = vectors.layer_norm_back, vectors.layer_norms_back
_rms_norm_back, _rms_norms_back = vectors.rms_norm_back, vectors.rms_norms_back


@kernel(types=FLOATS)
def forward(
    x: Pointer[T], weight: Pointer[T], bias: Pointer[T], out: Pointer[T], epsilon: float,
    centred: bool, rows: int, width: int, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Normalise rows (N, width)."""
    w, b = address(weight), address(bias)
    begin, end = first * piece_rows, min(last * piece_rows, rows)
    row, to = address(x + begin * width), address(out + begin * width)
    if centred:
        begin += _layer_norms(to, row, w, b, end - begin, width, epsilon, x)
    else:
        begin += _rms_norms(to, row, w, b, end - begin, width, epsilon, x)
    for r in range(begin, end):
        row, to = address(x + r * width), address(out + r * width)
        if centred:
            _layer_norm(to, row, w, b, width, epsilon, x)
        else:
            _rms_norm(to, row, w, b, width, epsilon, x)
    return 0


@kernel(types=FLOATS)
def backward(
    upstream: Pointer[T], x: Pointer[T], weight: Pointer[T], out: Pointer[T],
    scale: Pointer[np.float64], shift: Pointer[np.float64], epsilon: float, centred: bool,
    rows: int, width: int, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient of rows (N, width), and add the gradients of weight and bias of each
    piece.

    Args:
        scale, shift: (pieces, width), zeros.
    """
    w = address(weight)
    for piece in range(first, last):
        scales, shifts = address(scale + piece * width), address(shift + piece * width)
        begin, end = piece * piece_rows, min((piece + 1) * piece_rows, rows)
        up, row = address(upstream + begin * width), address(x + begin * width)
        to = address(out + begin * width)
        if centred:
            begin += _layer_norms_back(
                to, up, row, w, scales, shifts, end - begin, width, epsilon, x
            )
        else:
            begin += _rms_norms_back(to, up, row, w, scales, shifts, end - begin, width, epsilon, x)
        for r in range(begin, end):
            up, row = address(upstream + r * width), address(x + r * width)
            to = address(out + r * width)
            if centred:
                _layer_norm_back(to, up, row, w, scales, shifts, width, epsilon, x)
            else:
                _rms_norm_back(to, up, row, w, scales, shifts, width, epsilon, x)
    return 0
