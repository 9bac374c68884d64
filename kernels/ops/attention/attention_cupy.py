"""See attention.py. Scores are computed in tiles and never stored: attention.cu."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import blocks, c_type, on_device, run
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.ops.attention.attention import Align

LANES, OWN = 32, 8  # as in attention.cu
MOST_PARTS = 4


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
    return _forward(q, k, v, q_offsets, k_offsets, _align(causal, align), scale)[0]


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
    way = _align(causal, align)
    q, k, v, flow = (cupy.ascontiguousarray(one) for one in (q, k, v, grad))
    result, logs = _forward(q, k, v, q_offsets, k_offsets, way, scale)
    deltas = (result * flow).sum(axis=2)
    found = []
    for of, own, others, own_flow, other_flow, gathered in (
        ("QUERY", q, k, flow, v, k),
        ("KEY", k, q, v, flow, q),
        ("VALUE", k, q, v, flow, flow),
    ):
        ours, theirs = (q_offsets, k_offsets) if of == "QUERY" else (k_offsets, q_offsets)
        width, tiles = gathered.shape[2], _tiles(ours)
        out = cupy.empty((own.shape[0], *gathered.shape[1:]), q.dtype)
        parts = _parts(width)
        kernel = f"attention_grad<{c_type(q.dtype, 'attention')}, {parts}, {of}>"
        run(
            *("attention", kernel, _grid(tiles, out, parts), (LANES, OWN)),
            *(own, others, own_flow, other_flow, gathered, on_device(ours), on_device(theirs)),
            *(on_device(tiles), ours.size - 1, q.shape[1], q.shape[2], v.shape[2], width),
            *(float(scale), way, logs, deltas, out),
        )
        found.append(out)
    return found[0], found[1], found[2]


def _forward(
    q: Array, k: Array, v: Array, q_offsets: Offsets, k_offsets: Offsets, way: int, scale: float
) -> tuple[Array, Array]:
    """Return the result, and (N, heads) the logarithm of every query's sum of powers."""
    q, k, v = (cupy.ascontiguousarray(one) for one in (q, k, v))
    out = cupy.empty((*q.shape[:2], v.shape[2]), q.dtype)
    logs, tiles, parts = cupy.zeros(q.shape[:2], q.dtype), _tiles(q_offsets), _parts(v.shape[2])
    kernel = f"attention<{c_type(q.dtype, 'attention')}, {parts}>"
    run(
        *("attention", kernel, _grid(tiles, out, parts), (LANES, OWN)),
        *(q, k, v, on_device(q_offsets)),
        *(on_device(k_offsets), on_device(tiles), q_offsets.size - 1, q.shape[1], q.shape[2]),
        *(v.shape[2], float(scale), way, out, logs),
    )
    return out, logs


def _align(causal: bool, align: Align) -> int:
    return 0 if not causal else 2 if align == "last" else 1


def _tiles(offsets: Offsets) -> Offsets:
    """Return the offsets of the tiles of eight rows that each segment is cut into."""
    return lengths_to_offsets(-(-np.diff(offsets) // OWN), level=0)


def _parts(width: int) -> int:
    return next((parts for parts in (1, 2) if width <= parts * LANES), MOST_PARTS)


def _grid(tiles: Offsets, out: Array, parts: int) -> tuple[int, int, int]:
    return int(tiles[-1]), out.shape[1], blocks(out.shape[2], parts * LANES)
