"""See ops/attention.py. Short segments in one compiled loop; long ones by matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.attention import attention as reference
from lodcli.kernels.ops.attention.attention import Align
from lodcli.kernels.runtime.jit_numba import njit

# From about this many scores on, the matrix products of the reference win (D = 64, float32).
_LONG = 16 * 16


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
    """See ops/attention.py."""
    out = np.zeros((q.shape[0], v.shape[1], v.shape[2]), q.dtype)
    q, k, v = (np.ascontiguousarray(one) for one in (q, k, v))
    weights = np.zeros(_longest_short(q_offsets, k_offsets))
    row = np.zeros(v.shape[2])
    _forward(
        q, k, v, q_offsets, k_offsets, causal, align == "last", scale, _LONG, weights, row, out
    )
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
    """See ops/attention.py."""
    q, k, v, grad = (np.ascontiguousarray(one) for one in (q, k, v, grad))
    grads = tuple(np.zeros(one.shape, one.dtype) for one in (q, k, v))
    weights = np.zeros(_longest_short(q_offsets, k_offsets))
    shares = np.zeros(weights.size)
    _backward(
        q, k, v, q_offsets, k_offsets, grad, causal, align == "last", scale, _LONG, weights, shares,
        grads[0], grads[1], grads[2],
    )  # fmt: skip
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


def _longest_short(q_offsets: Offsets, k_offsets: Offsets) -> int:
    """Return the most keys of a segment that the compiled loop takes."""
    sizes = np.diff(k_offsets)
    return int(sizes[np.diff(q_offsets) * sizes < _LONG].max(initial=0))


def _long_segments(q_offsets: Offsets, k_offsets: Offsets) -> Iterator[tuple[slice, slice]]:
    for s in np.flatnonzero(np.diff(q_offsets) * np.diff(k_offsets) >= _LONG):
        yield (
            slice(int(q_offsets[s]), int(q_offsets[s + 1])),
            slice(int(k_offsets[s]), int(k_offsets[s + 1])),
        )


def _alone(queries: slice, keys: slice) -> tuple[Offsets, Offsets]:
    """Return the offsets of a batch of this one segment."""
    return np.array([0, queries.stop - queries.start]), np.array([0, keys.stop - keys.start])


@njit(cache=True, nogil=True)
def _seen(i, first, end, size, last):  # type: ignore[no-untyped-def]
    """Return how many of `size` keys the causal query i of first..end sees."""
    return max(0, i - end + 1 + size) if last else min(size, i - first + 1)


@njit(cache=True, nogil=True)
def _softmax(q, k, i, first, seen, head, scale, weights):  # type: ignore[no-untyped-def]
    """Fill weights[:seen] for query i over the keys from `first` on."""
    top = -math.inf
    for j in range(seen):
        score = 0.0
        for d in range(q.shape[2]):
            score += q[i, head, d] * k[first + j, head, d]
        weights[j] = scale * score
        top = max(top, weights[j])
    total = 0.0
    for j in range(seen):
        weights[j] = math.exp(weights[j] - top)
        total += weights[j]
    for j in range(seen):
        weights[j] /= total


@njit(cache=True, nogil=True)
def _forward(  # type: ignore[no-untyped-def]
    q, k, v, q_offsets, k_offsets, causal, last, scale, long, weights, row, out
):
    for s in range(q_offsets.size - 1):
        first, size = k_offsets[s], k_offsets[s + 1] - k_offsets[s]
        if (q_offsets[s + 1] - q_offsets[s]) * size >= long:
            continue
        for i in range(q_offsets[s], q_offsets[s + 1]):
            seen = _seen(i, q_offsets[s], q_offsets[s + 1], size, last) if causal else size
            for head in range(q.shape[1]):
                _softmax(q, k, i, first, seen, head, scale, weights)
                row[:] = 0.0
                for j in range(seen):
                    for e in range(v.shape[2]):
                        row[e] += weights[j] * v[first + j, head, e]
                for e in range(v.shape[2]):
                    out[i, head, e] = row[e]


@njit(cache=True, nogil=True)
def _backward(  # type: ignore[no-untyped-def]
    q, k, v, q_offsets, k_offsets, grad, causal, last, scale, long, weights, shares,
    grad_q, grad_k, grad_v,
):  # fmt: skip
    for s in range(q_offsets.size - 1):
        first, size = k_offsets[s], k_offsets[s + 1] - k_offsets[s]
        if (q_offsets[s + 1] - q_offsets[s]) * size >= long:
            continue
        for i in range(q_offsets[s], q_offsets[s + 1]):
            seen = _seen(i, q_offsets[s], q_offsets[s + 1], size, last) if causal else size
            for head in range(q.shape[1]):
                _softmax(q, k, i, first, seen, head, scale, weights)
                mean = 0.0
                for j in range(seen):
                    share = 0.0
                    for e in range(v.shape[2]):
                        share += grad[i, head, e] * v[first + j, head, e]
                        grad_v[first + j, head, e] += weights[j] * grad[i, head, e]
                    shares[j] = share
                    mean += weights[j] * share
                for j in range(seen):
                    score = scale * weights[j] * (shares[j] - mean)
                    for d in range(q.shape[2]):
                        grad_q[i, head, d] += score * k[first + j, head, d]
                        grad_k[first + j, head, d] += score * q[i, head, d]
