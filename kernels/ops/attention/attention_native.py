"""See attention.py. Compiled, by blocks of queries: see attention_numba.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.native import load
from lodcli.kernels.native.calls import Kernel
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.attention.attention import Align, grouped
from lodcli.kernels.runtime import buffers
from lodcli.kernels.runtime.threads import thread_count

# Number of multiplications that take as long as reading and writing a byte.
_PRODUCTS_A_BYTE = 2
# Below this many scores the longest segment is not looked up.
_FEW = 1 << 12
# A block has two vectors of queries, of up to this many bytes.
_BLOCK_BYTES = 128
# Workers per thread, for load balancing.
_WORKERS = 4
# An interrupt is checked after this much work, about 0.2 s of a core.
_TURN_BYTES = 4 << 30
# Memory limit for the scores of all workers together, or the size of keys and values if larger.
_SCRATCH_BYTES = 1 << 26

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
    out = buffers.empty((*q.shape[:2], v.shape[2]), q.dtype)
    if out.size:
        rows = q, k, v, q_offsets, k_offsets
        queries = _queries(*rows, causal=causal, align=align, scale=scale)
        _run(_forward[q.dtype.char], *queries, out)
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
    grads = np.zeros(q.shape, q.dtype), np.zeros(k.shape, k.dtype), np.zeros(v.shape, v.dtype)
    if not q.shape[0]:
        return grads
    upstream = np.ascontiguousarray(grad, q.dtype)
    rows = q, k, v, q_offsets, k_offsets
    queries = _queries(*rows, causal=causal, align=align, scale=scale, backward=True)
    _run(_backward[q.dtype.char], *queries, upstream, *grads)
    return grads


def _run(kernel: Kernel, words: tuple[Any, ...], workers: int, work: int, *arrays: Array) -> None:
    """Run all workers, in turns."""
    turns = 1 + work // _TURN_BYTES
    for turn in range(turns):
        run(kernel, workers, work, *words, workers, turn, turns, *arrays)


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
    backward: bool = False,
) -> tuple[tuple[Any, ...], int, int]:
    """Return the fields of Queries, the number of workers, and their scratch size in bytes."""
    (count, heads, depth), width, segments = q.shape, v.shape[2], q_offsets.size - 1
    most, scores, workers = k.shape[0], count * k.shape[0], 1
    few = scores <= _FEW
    if not few:
        lengths = offsets_to_lengths(k_offsets)
        most, scores = int(lengths.max()), int(lengths @ offsets_to_lengths(q_offsets))
    block, columns = _BLOCK_BYTES // q.itemsize, depth + width
    # See _Block.
    elements = block * (columns + most + 2 + max(depth, width))
    if backward:
        elements += block * (width + most + max(depth, width) + block)
    if not few:
        limit = max(_SCRATCH_BYTES, k.nbytes + v.nbytes) // (elements * q.itemsize)
        workers = max(1, min(_WORKERS * thread_count(), count * heads, limit))
    work = scores * heads * columns // _PRODUCTS_A_BYTE * (3 if backward else 1)
    return (
        (
            np.ascontiguousarray(q), np.ascontiguousarray(k), np.ascontiguousarray(v),
            heads, grouped(q, k), depth, width,
            np.ascontiguousarray(q_offsets), np.ascontiguousarray(k_offsets), segments,
            causal, align == "last", scale, most,
            buffers.empty((workers, elements), q.dtype), elements,
        ),
        workers,
        work,
    )  # fmt: skip
