"""Kernels of attention inside short segments."""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function


class Queries(NamedTuple, Generic[T]):
    """Queries, keys and values: (N, heads, D), (M, heads, D) and (M, heads, E).

    Attributes:
        q_offsets, k_offsets: (segments + 1,).
        last: whether the last query is aligned with the last key.
        long: segments of so many scores, queries times keys, are left out.
        weights: scratch, as long as the longest segment of keys that is not long.
    """

    q: Pointer[T]
    k: Pointer[T]
    v: Pointer[T]
    heads: int
    depth: int
    width: int
    q_offsets: Pointer[np.int64]
    k_offsets: Pointer[np.int64]
    segments: int
    causal: bool
    last: bool
    scale: float
    long: int
    weights: Pointer[np.float64]


@function()
def _seen(of: Any, i: int, s: int, size: int) -> Any:
    """Return how many of `size` keys query i of segment s sees."""
    if not of.causal:
        return size
    if of.last:
        return max(0, i - of.q_offsets[s + 1] + 1 + size)
    return min(size, i - of.q_offsets[s] + 1)


@function()
def _softmax(of: Any, q: Any, keys: Any, seen: int) -> None:
    """Fill weights[:seen] for a query over the keys of one head."""
    top = -math.inf
    for j in range(seen):
        score = 0.0
        key = keys + j * of.heads * of.depth
        for d in range(of.depth):
            score += q[d] * key[d]
        of.weights[j] = of.scale * score
        top = max(top, of.weights[j])
    total = 0.0
    for j in range(seen):
        of.weights[j] = math.exp(of.weights[j] - top)
        total += of.weights[j]
    for j in range(seen):
        of.weights[j] /= total


@kernel(types=FLOATS)
def forward(of: Queries[T], row: Pointer[np.float64], out: Pointer[T]) -> int:
    """Write the attention of each query: (N, heads, E).

    Args:
        row: (E,) scratch.
    """
    for s in range(of.segments):
        first, size = of.k_offsets[s], of.k_offsets[s + 1] - of.k_offsets[s]
        if (of.q_offsets[s + 1] - of.q_offsets[s]) * size >= of.long:
            continue
        for i in range(of.q_offsets[s], of.q_offsets[s + 1]):
            seen = _seen(of, i, s, size)
            for head in range(of.heads):
                query = of.q + (i * of.heads + head) * of.depth
                _softmax(of, query, of.k + (first * of.heads + head) * of.depth, seen)
                for e in range(of.width):
                    row[e] = 0
                for j in range(seen):
                    value = of.v + ((first + j) * of.heads + head) * of.width
                    for e in range(of.width):
                        row[e] += of.weights[j] * value[e]
                to = out + (i * of.heads + head) * of.width
                for e in range(of.width):
                    to[e] = row[e]
    return 0


@kernel(types=FLOATS)
def backward(
    of: Queries[T], grad: Pointer[T], shares: Pointer[np.float64], grad_q: Pointer[T],
    grad_k: Pointer[T], grad_v: Pointer[T],
) -> int:  # fmt: skip
    """Add the gradients of queries, keys and values to zeros.

    Args:
        grad: (N, heads, E).
        shares: scratch, as long as the weights.
    """
    for s in range(of.segments):
        first, size = of.k_offsets[s], of.k_offsets[s + 1] - of.k_offsets[s]
        if (of.q_offsets[s + 1] - of.q_offsets[s]) * size >= of.long:
            continue
        for i in range(of.q_offsets[s], of.q_offsets[s + 1]):
            seen = _seen(of, i, s, size)
            for head in range(of.heads):
                at = (i * of.heads + head) * of.depth
                query, to_q = of.q + at, grad_q + at
                up = grad + (i * of.heads + head) * of.width
                _softmax(of, query, of.k + (first * of.heads + head) * of.depth, seen)
                mean = 0.0
                for j in range(seen):
                    share = 0.0
                    place = ((first + j) * of.heads + head) * of.width
                    value, to_v = of.v + place, grad_v + place
                    for e in range(of.width):
                        share += up[e] * value[e]
                        to_v[e] += of.weights[j] * up[e]
                    shares[j] = share
                    mean += of.weights[j] * share
                for j in range(seen):
                    score = of.scale * of.weights[j] * (shares[j] - mean)
                    place = ((first + j) * of.heads + head) * of.depth
                    key, to_k = of.k + place, grad_k + place
                    for d in range(of.depth):
                        to_q[d] += score * key[d]
                        to_k[d] += score * query[d]
    return 0
