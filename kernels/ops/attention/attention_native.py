"""See attention.py. Short segments in one compiled loop; long ones as matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.native import load
from lodcli.kernels.ops.attention import attention as reference
from lodcli.kernels.ops.attention.attention import Align

# From about this many scores on, the matrix products of the reference win (D = 64, float32).
_LONG = 16 * 16

_MODULE = "kernels.ops.attention.attention_numba"
_forward, _backward = (load.kernel(_MODULE, name) for name in ("forward", "backward"))


def segment_attention(
    q: Array,
    k: Array,
    v: Array,
    q_offsets: Offsets,
    k_offsets: Offsets,
    *,
    causal: bool,
    align: Align = "last",
    scale: float,
) -> Array:
    """See attention.py."""
    out = np.zeros((q.shape[0], v.shape[1], v.shape[2]), q.dtype)
    q, k, v = map(np.ascontiguousarray, (q, k, v))
    given = _queries(q, k, v, q_offsets, k_offsets, causal=causal, align=align, scale=scale)
    _forward[q.dtype.char].call(0, 1, *given, np.empty(v.shape[2]), out)
    for queries, keys in _long_segments(q_offsets, k_offsets):
        out[queries] = reference.segment_attention(
            q[queries],
            k[keys],
            v[keys],
            *_alone(queries, keys),
            causal=causal,
            align=align,
            scale=scale,
        )
    return out


def segment_attention_grad(
    q: Array,
    k: Array,
    v: Array,
    q_offsets: Offsets,
    k_offsets: Offsets,
    grad: Array,
    *,
    causal: bool,
    align: Align = "last",
    scale: float,
) -> tuple[Array, Array, Array]:
    """See attention.py."""
    q, k, v, grad = (np.ascontiguousarray(one) for one in (q, k, v, grad))
    grads = tuple(np.zeros(one.shape, one.dtype) for one in (q, k, v))
    given = _queries(q, k, v, q_offsets, k_offsets, causal=causal, align=align, scale=scale)
    shares = np.empty_like(given[-1])
    _backward[q.dtype.char].call(0, 1, *given, grad.astype(q.dtype, copy=False), shares, *grads)
    for queries, keys in _long_segments(q_offsets, k_offsets):
        of_q, of_k, of_v = reference.segment_attention_grad(
            q[queries],
            k[keys],
            v[keys],
            *_alone(queries, keys),
            grad=grad[queries],
            causal=causal,
            align=align,
            scale=scale,
        )
        grads[0][queries], grads[1][keys], grads[2][keys] = of_q, of_k, of_v
    return grads[0], grads[1], grads[2]


def _queries(
    q: Array,
    k: Array,
    v: Array,
    q_offsets: Offsets,
    k_offsets: Offsets,
    *,
    causal: bool,
    align: Align,
    scale: float,
) -> tuple[Any, ...]:
    """Return the fields of Queries: see attention_numba.py."""
    (_, heads, width), segments = q.shape, q_offsets.size - 1
    index = np.ascontiguousarray(q_offsets), np.ascontiguousarray(k_offsets)
    # A query of a short segment has fewer keys.
    weights = np.empty(_LONG)
    return (
        q, k, v, heads, width, v.shape[2], index[0], index[1], segments,
        causal, align == "last", scale, _LONG, weights,
    )  # fmt: skip


def _long_segments(q_offsets: Offsets, k_offsets: Offsets) -> Iterator[tuple[slice, slice]]:
    if int(q_offsets[-1]) * int(k_offsets[-1]) < _LONG:
        return
    scores = offsets_to_lengths(q_offsets) * offsets_to_lengths(k_offsets)
    for s in (scores >= _LONG).nonzero()[0]:
        yield (
            slice(int(q_offsets[s]), int(q_offsets[s + 1])),
            slice(int(k_offsets[s]), int(k_offsets[s + 1])),
        )


def _alone(queries: slice, keys: slice) -> tuple[Offsets, Offsets]:
    """Return the offsets of a batch of this one segment."""
    return np.array([0, queries.stop - queries.start]), np.array([0, keys.stop - keys.start])
