"""Reference results of ops on ids, windows and contexts, in plain loops. Shares no code with them.

A batch is a list of sequences, a sequence a list of rows.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def sequences(data: Array, offsets: Any) -> list[Array]:
    """Return the rows of every sequence."""
    return [data[offsets[i] : offsets[i + 1]] for i in range(len(offsets) - 1)]


def conv(x: Array, weight: Array, start: int, length: int, padding: Array | None) -> Array:
    """Return the convolution of one sequence, padded on both sides beforehand."""
    width = x.shape[1]
    many = len(x) + abs(start) + length
    ahead = np.zeros((many, width))
    behind = np.zeros((many, width))
    if padding is not None:
        up = max(0, -start)
        for row in range(up):
            ahead[many - up + row] = padding[row]
        for row in range(len(padding) - up):
            behind[row] = padding[up + row]
    wide = np.concatenate([ahead, x, behind])
    out = np.zeros((len(x), weight.shape[1]))
    for t in range(len(x)):
        begin = many + t + start
        out[t] = np.concatenate(list(wide[begin : begin + length])) @ weight
    return out


def row_conv(x: Array, weight: Array) -> Array:
    """Return the row convolution of one sequence."""
    out = np.zeros(x.shape)
    for t in range(len(x)):
        for k in range(len(weight)):
            if t + k < len(x):
                out[t] += weight[k] * x[t + k]
    return out


def im2sequence(image: Array, kernels: Any, strides: Any, paddings: Any) -> list[list[float]]:
    """Return the windows of one (c, h, w) image."""
    c, h, w = image.shape
    rows = []
    top = -paddings[0]
    while top + kernels[0] <= h + paddings[2]:
        left = -paddings[1]
        while left + kernels[1] <= w + paddings[3]:
            row = []
            for channel in range(c):
                for y in range(top, top + kernels[0]):
                    for x in range(left, left + kernels[1]):
                        inside = 0 <= y < h and 0 <= x < w
                        row.append(float(image[channel, y, x]) if inside else 0.0)
            rows.append(row)
            left += strides[1]
        top += strides[0]
    return rows


def enumerated(ids: list[int], size: int, pad: int) -> list[list[int]]:
    """Return every id with the ids that follow it."""
    return [(ids[t : t + size] + [pad] * size)[:size] for t in range(len(ids))]


def edit_distance(a: list[int], b: list[int]) -> int:
    """Return the Levenshtein distance by its recursive definition."""

    @functools.cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        if a[i - 1] == b[j - 1]:
            return distance(i - 1, j - 1)
        return 1 + min(distance(i - 1, j), distance(i, j - 1), distance(i - 1, j - 1))

    return distance(len(a), len(b))


def ctc(ids: list[int], blank: int, merge: bool) -> list[int]:
    """Return the labels of one path."""
    out: list[int] = []
    before: int | None = None
    for token in ids:
        if token != blank and not (merge and token == before):
            out.append(token)
        before = token
    return out


def topk_average(x: Array, rows: int, columns: int, channels: int, topks: list[int]) -> Array:
    """Return (rows, channels * K) averages of one sequence's channels x rows x columns values."""
    out = np.zeros((rows, channels * len(topks)))
    for c in range(channels):
        for r in range(rows):
            begin = (c * rows + r) * columns
            values = sorted((float(v) for v in x[begin : begin + columns]), reverse=True)
            for place, k in enumerate(topks):
                out[r, c * len(topks) + place] = math.fsum(values[:k]) / k
    return out


def windows(
    items: list[Any], length: int, stride: int, keep_tail: bool, keep_head: bool
) -> list[list[Any]]:
    """Return the windows of one sequence."""
    found = []
    start = 0
    while keep_head and start + length > stride:
        start -= stride
    while start < len(items) > 0:
        window = items[max(0, start) : start + length]
        if start + length <= len(items) or keep_tail:
            found.append(window)
        if start + length >= len(items):
            break
        start += stride
    return found


def attention(q: Array, k: Array, v: Array, scale: float, causal: bool) -> Array:
    """Return softmax(scale q k') v of one sequence, (Lq, heads, dim), one value at a time."""
    out = np.zeros((len(q), v.shape[1], v.shape[2]))
    for head in range(q.shape[1]):
        for i in range(len(q)):
            seen = [j for j in range(len(k)) if not causal or j - len(k) <= i - len(q)]
            scores = [scale * math.fsum(q[i, head] * k[j, head]) for j in seen]
            if scores:
                top = max(scores)
                parts = [math.exp(score - top) for score in scores]
                total = math.fsum(parts)
                for part, j in zip(parts, seen, strict=True):
                    out[i, head] += part / total * v[j, head]
    return out
