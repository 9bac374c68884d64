"""Attention inside every sequence, without padding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from lodcli.kernels.errors import OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import segments, working
from lodcli.kernels.ops.dtypes import is_half, is_working_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Align = Literal["last", "first"]

# Size limit of one block of scores: some queries against all keys.
_SCORE_BYTES = 1 << 22


@types_explained
def sequence_attention(
    q: LoDTensor,
    k: LoDTensor,
    v: LoDTensor,
    *,
    causal: bool = False,
    align: Align = "last",
    scale: float | None = None,
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return scaled dot-product attention of each query over the keys of its sequence.

        out[i] = sum over j of softmax(scale * q[i] . k)[j] * v[j]

    Args:
        q: data (N, heads, D), or (N, D) for one head; floating point.
        k: (M, heads, D) or (M, D), as many sequences as `q`. It may have fewer heads than `q`
            (grouped queries): of 8 heads of `q`, the first 4 read the first of 2 heads of `k`.
        v: (M, heads, E) or (M, E), segmented like `k`, with as many heads.
        causal: a query does not see later keys.
        align: which keys query i sees if causal, for n queries and m keys in a sequence. "last":
            keys 0 to i + m - n, so that the last query sees all keys, as with a cache of earlier
            keys. "first": keys 0 to i, as torch's is_causal. For n = m both are the same.
        scale: factor of the products of queries and keys; by default 1 / sqrt(D).
        level: the level of the sequences; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (N, heads, E) or (N, E), with the heads, dtype and index of `q`; zeros for a query
        that sees no key. Memory in addition to the result: blocks of scores, of some queries
        against all keys of their sequence; of all threads together at most 64 MiB or as much as
        the keys and values take, unless one block takes more.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError, ShapeMismatchError: dtypes, shapes or indexes do not match.

    References:
        Vaswani et al. (2017), "Attention Is All You Need", equation 1. Ainslie et al. (2023),
        "GQA", also enable_gqa of torch's scaled_dot_product_attention. For `align`:
        flash-attention 2.1 and torch.nn.attention.bias, causal_lower_right and causal_upper_left.

    >>> rows = LoDTensor(np.array([[1.0], [1.0], [5.0]]), [[2, 1]])
    >>> sequence_attention(rows, rows, rows.with_data([[2.0], [4.0], [6.0]])).data.tolist()
    [[3.0], [3.0], [6.0]]
    """
    given = _checked(q, k, v, align, level, "sequence_attention")
    size = given[0].nbytes + given[1].nbytes + given[2].nbytes
    run = on(backend, segment_attention, size_bytes=size)
    out = run(*given, causal=causal, align=align, scale=default_scale(given[0].shape[2], scale))
    out = as_dtype(out, q.dtype)
    return q._with_rows(out if len(q.row_shape) == 2 else out[:, 0])


@types_explained
def sequence_attention_grad(
    upstream: Upstream,
    q: LoDTensor,
    k: LoDTensor,
    v: LoDTensor,
    *,
    causal: bool = False,
    align: Align = "last",
    scale: float | None = None,
    level: int | str = -1,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_attention` for q, k and v.

    Args:
        upstream: the gradient of the result, in its shape.
        q, k, v, causal, align, scale, level: as passed to the op.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Three tensors with the shapes, dtypes and indexes of q, k and v. Memory beside them: as
        forward.

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as `sequence_attention`; or
            `upstream` has another shape or index than the result.
    """
    op = "sequence_attention_grad"
    *rows, q_offsets, k_offsets = _checked(q, k, v, align, level, op)
    shape = (q.rows, *q.row_shape[:-1], v.row_shape[-1])
    flow = upstream_of(upstream, shape, op, q.lod)
    if flow.dtype != rows[0].dtype:
        rows = [working(one, op) for one in rows]
        flow = as_dtype(working(flow, op), rows[0].dtype)
    size = rows[0].nbytes + rows[1].nbytes + rows[2].nbytes
    run = on(backend, segment_attention_grad, size_bytes=size)
    scaled = default_scale(rows[0].shape[2], scale)
    grads = run(
        *(rows[0], rows[1], rows[2], q_offsets, k_offsets, _with_heads(flow)),
        causal=causal,
        align=align,
        scale=scaled,
    )
    if flow.ndim == 2:
        grads = grads[0][:, 0], grads[1][:, 0], grads[2][:, 0]
    return (
        q._with_rows(as_dtype(grads[0], q.dtype)),
        k._with_rows(as_dtype(grads[1], k.dtype)),
        v._with_rows(as_dtype(grads[2], v.dtype)),
    )


def _checked(
    q: LoDTensor, k: LoDTensor, v: LoDTensor, align: Align, level: int | str, op: str
) -> tuple[Array, Array, Array, Offsets, Offsets]:
    """Return q, k and v with an axis of heads and in one dtype, and their offsets.

    On a GPU, float16 and bfloat16 are not converted: tensor cores multiply them.
    """
    if align not in ("first", "last"):
        raise OptionError(f"{op}: align must be 'first' or 'last', found {align!r}")
    q_offsets, k_offsets = segments(q, level, op), segments(k, level, op)
    found = None
    if not q.lod is k.lod is v.lod:  # most are
        found = k.lod.difference(v.lod) or q.lod.above(level).difference(k.lod.above(level))
        if found is None and q_offsets.size != k_offsets.size:
            found = f"{q_offsets.size - 1} sequences of queries against {k_offsets.size - 1}"
    if found is not None:
        raise ShapeMismatchError(f"{op}: the tensors are segmented differently: {found}")
    rows = [q.data, k.data, v.data]
    alike = rows[0].dtype is rows[1].dtype is rows[2].dtype
    kept = is_working_dtype(rows[0].dtype) or (is_on_device(rows[0]) and is_half(q.dtype))
    if not (alike and kept):
        rows = [working(one, op) for one in rows]
    if not rows[0].ndim == rows[1].ndim == rows[2].ndim or rows[0].ndim not in (2, 3):
        raise ShapeMismatchError(
            f"{op}: q, k and v are (N, D) or (N, heads, D) alike, found {q.data.shape}, "
            f"{k.data.shape} and {v.data.shape}"
        )
    shapes = [one.shape[1:] for one in rows]
    heads = [shape[0] if len(shape) == 2 else 1 for shape in shapes]
    shared = heads[0] == heads[1] or (0 < heads[1] <= heads[0] and heads[0] % heads[1] == 0)
    if shapes[0][-1] != shapes[1][-1] or heads[1] != heads[2] or not shared:
        several = "" if shared else "; the heads of q are a multiple of those of k and v"
        raise ShapeMismatchError(
            f"{op}: rows of q {shapes[0]}, k {shapes[1]} and v {shapes[2]} do not fit{several}"
        )
    if not alike and not rows[0].dtype == rows[1].dtype == rows[2].dtype:
        dtype = np.result_type(*(one.dtype for one in rows))
        rows = [as_dtype(one, dtype) for one in rows]
    if rows[0].ndim == 2:
        rows = list(map(_with_heads, rows))
    return rows[0], rows[1], rows[2], q_offsets, k_offsets


def default_scale(width: int, scale: float | None = None) -> float:
    """Return the scale of the scores: 1 / sqrt(D) where none is given."""
    # The product, because float() reads text.
    return 1 / math.sqrt(max(width, 1)) if scale is None else float(1.0 * scale)


def _with_heads(data: Array) -> Array:
    return data if data.ndim == 3 else data[:, None]


# -- arrays ----------------------------------------------------------------------------


@np.errstate(all="ignore")
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
    """Return attention inside each segment, (N, heads, E).

    Args:
        q: (N, heads, D).
        k: (M, key heads, D); each is read by as many heads of `q`, one after another.
        v: (M, key heads, E).
        q_offsets: (S+1,), of the queries.
        k_offsets: (S+1,), of the keys.
    """
    # The rounding of BLAS depends on the strides.
    q, k, v = (np.ascontiguousarray(one) for one in (q, k, v))
    out = np.zeros((*q.shape[:2], v.shape[2]), q.dtype)
    groups = grouped(q, k)
    score_bytes = q.shape[1] * q.itemsize
    for queries, keys, hidden in _blocks(q_offsets, k_offsets, score_bytes, groups, causal, align):
        weights = _weights(_folded(q[queries], groups), k[keys], hidden, scale)
        rows = _product(weights, v[keys].transpose(1, 0, 2), hidden)
        out[queries] = _unfolded(rows, groups)
    return out


@np.errstate(all="ignore")
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
    """Return the gradients of `segment_attention` for q, k and v; the weights are recomputed.

    Args:
        grad: of the result, (N, heads, E).

    References:
        Dao et al. (2022), "FlashAttention", appendix B.
    """
    q, k, v, grad = (np.ascontiguousarray(one) for one in (q, k, v, grad))
    grad_q, grad_k, grad_v = (np.zeros(one.shape, one.dtype) for one in (q, k, v))
    groups = grouped(q, k)
    score_bytes = q.shape[1] * q.itemsize
    for queries, keys, hidden in _blocks(q_offsets, k_offsets, score_bytes, groups, causal, align):
        each_q, upstream = _folded(q[queries], groups), _folded(grad[queries], groups)
        weights = _weights(each_q, k[keys], hidden, scale)
        unseen = None if hidden is None else hidden.T
        upstream, by_key = upstream.transpose(1, 0, 2), weights.transpose(0, 2, 1)
        grad_v[keys] += _product(by_key, upstream, unseen).transpose(1, 0, 2)
        grad_weights = upstream @ v[keys].transpose(1, 2, 0)
        if hidden is not None:
            np.copyto(grad_weights, 0, where=hidden)
        mean = (weights * grad_weights).sum(axis=2, keepdims=True)
        grad_scores = weights * (grad_weights - mean) * q.dtype.type(scale)
        if hidden is not None:
            np.copyto(grad_scores, 0, where=hidden)
        of_q = _product(grad_scores, k[keys].transpose(1, 0, 2), hidden)
        grad_q[queries] = _unfolded(of_q, groups)
        by_key = grad_scores.transpose(0, 2, 1)
        grad_k[keys] += _product(by_key, each_q.transpose(1, 0, 2), unseen).transpose(1, 0, 2)
    return grad_q, grad_k, grad_v


def grouped(q: Array, k: Array) -> int:
    """Return how many heads of `q` read each head of `k`."""
    heads, read = int(q.shape[1]), int(k.shape[1])
    return max(1, heads // max(1, read))


def _folded(rows: Array, groups: int) -> Array:
    """Return the heads that read one head of keys as further queries of one head.

    So the keys are read in place: repeating them for every head would take a multiple of their
    memory.

    Args:
        rows: (queries, heads, D).
        groups: how many heads read each head of keys.

    Returns:
        (groups * queries, key heads, D), ordered by the place in the group, then the query.
    """
    if groups == 1:
        return rows
    queries, heads, width = rows.shape
    split = rows.reshape(queries, heads // groups, groups, width)
    return split.transpose(2, 0, 1, 3).reshape(groups * queries, heads // groups, width)


def _unfolded(rows: Array, groups: int) -> Array:
    """Return (queries, heads, E), the inverse of `_folded`, of (key heads, groups * queries, E)."""
    if groups == 1:
        return rows.transpose(1, 0, 2)
    heads, queries, width = rows.shape
    split = rows.reshape(heads, groups, queries // groups, width)
    return split.transpose(2, 0, 1, 3).reshape(queries // groups, heads * groups, width)


def _weights(q: Array, k: Array, hidden: Array | None, scale: float) -> Array:
    """Return the softmax of the scores, (heads, queries, keys); zeros if all keys are masked."""
    scores: Array = (q.transpose(1, 0, 2) @ k.transpose(1, 2, 0)) * q.dtype.type(scale)
    if hidden is not None:
        np.copyto(scores, -np.inf, where=hidden)
        scores[:, hidden.all(axis=1)] = 0
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    if hidden is not None:  # also if all other weights are NaN
        np.copyto(scores, 0, where=hidden)
    return scores


def _product(weights: Array, rows: Array, hidden: Array | None) -> Array:
    """Return weights @ rows, (heads, A, E), without the masked rows.

    Args:
        weights: (heads, A, B), 0 where masked.
        rows: (heads, B, E).
        hidden: (A, B) booleans, true where masked; or None.
    """
    out: Array = weights @ rows
    if hidden is not None:
        # 0 times NaN or infinity is NaN.
        for one in np.flatnonzero(~np.isfinite(out).all(axis=(0, 2))):
            seen = ~hidden[one]
            out[:, one] = (weights[:, one, None][:, :, seen] @ rows[:, seen])[:, 0]
    return out


def _blocks(
    q_offsets: Offsets,
    k_offsets: Offsets,
    score_bytes: int,
    groups: int,
    causal: bool,
    align: Align,
) -> Iterator[tuple[slice, slice, Array | None]]:
    """Yield blocks of queries, the keys of their segment, and the mask of hidden keys.

    The mask has (groups * queries, keys) booleans, for the rows of `_folded`; it is None if every
    query sees every key.
    """
    for s in range(q_offsets.size - 1):
        keys = slice(int(k_offsets[s]), int(k_offsets[s + 1]))
        size = keys.stop - keys.start
        if not size:
            continue
        first, last = int(q_offsets[s]), int(q_offsets[s + 1])
        step = max(1, _SCORE_BYTES // max(1, size * score_bytes))
        for start in range(first, last, step):
            stop = min(start + step, last)
            hidden = None
            if causal:
                # The last key that each query sees.
                own = np.arange(start, stop) - (last - size if align == "last" else first)
                hidden = np.arange(size) > np.tile(own, groups)[:, None]
            yield slice(start, stop), keys, hidden
