"""Linear recurrence along the rows of each sequence.

    h[lo+t] = a[lo+t] * h[lo+t-1] + b[lo+t],    h[lo-1] = initial[s], or 0

by column; `reverse` runs from the sequence's end: h[lo+t] = a[lo+t] * h[lo+t+1] + b[lo+t].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import (
    InvalidDataError,
    NotDefinedError,
    NotFloatingError,
    ShapeMismatchError,
)
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.ops.arguments import by_cast, require_shape, segments
from lodcli.kernels.ops.dtypes import common_dtype, working_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.upstream import Upstream, rows_of, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_linear_scan(
    a: LoDTensor,
    b: LoDTensor,
    *,
    initial: npt.ArrayLike | None = None,
    reverse: bool = False,
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return h[t] = a[t] * h[t-1] + b[t] along the rows of every sequence, by column.

    Args:
        a: data (N, ...), floating point or complex: what the state is multiplied by.
        b: the same shape and index: what is added to it.
        initial: (S, ...), the state before the first row of each of the S sequences (after the
            last row with `reverse`), real if `a` and `b` are. By default it is 0, and the first
            row of `a` is not used.
        reverse: run from the end of the sequence: h[t] = a[t] * h[t+1] + b[t].
        level: the level of the sequences; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (N, ...) under the index of `b`, in NumPy's dtype for the two; float16 and bfloat16
        are computed in float32.

        A sequence is computed row by row. Compiled kernels divide one that is much longer than
        256 KiB into blocks, to use all cores, and multiply the state by the product of all `a` of
        a block, which rounds differently and is 0 where the product underflows. Where it overflows
        or is NaN, the block is computed after the one before. The result does not depend on the
        number of threads.

    Raises:
        SelectionError: there is no such level.
        NotFloatingError: `a` or `b` are integers or booleans.
        InvalidDataError: `initial` is complex, but `a` and `b` are real.
        ShapeMismatchError: shapes or indexes do not match.

    References:
        Blelloch (1990), "Prefix sums and their applications", section 1.4; Merrill and Garland
        (2016), "Single-pass parallel prefix scan with decoupled look-back".

    >>> a = LoDTensor(np.array([9.0, 0.5, 0.5]), [[2, 1]])
    >>> sequence_linear_scan(a, a.with_data([4.0, 1.0, 8.0])).data.tolist()
    [4.0, 3.0, 8.0]
    >>> sequence_linear_scan(a, a, initial=[1.0, 2.0]).data.tolist()
    [18.0, 9.5, 1.5]
    """
    op = "sequence_linear_scan"
    x, y, start, offsets = _checked(a, b, initial, level, op)
    dtype = common_dtype(a.dtype, b.dtype)
    run = on(backend, segment_linear_scan, size_bytes=y.nbytes)
    out = run(x, y, offsets, initial=start, reverse=reverse)
    return b._with_rows(as_dtype(out, dtype))


@types_explained
def sequence_linear_scan_grad(
    upstream: Upstream,
    a: LoDTensor,
    b: LoDTensor,
    *,
    initial: npt.ArrayLike | None = None,
    reverse: bool = False,
    level: int | str = -1,
    result: LoDTensor | Array | None = None,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor, Array | None]:
    """Return the gradients of `sequence_linear_scan` for `a`, `b` and `initial`.

    With g[t] = upstream[t] + conj(a[t+1]) g[t+1]: g for `b`, g[t] conj(h[t-1]) for `a`, and
    conj(a) g of the first row for `initial`; gradients of complex numbers are defined as in torch.

    Args:
        upstream: (N, ...), the gradient of the result.
        a, b, initial, reverse, level: as passed to the op.
        result: (N, ...), what `sequence_linear_scan` returned. None: it is computed again.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `a`, the same of `b`, and (S, ...), each in the dtype of its
        argument; None in place of an `initial` that is None. For real arguments, the real part.

    Raises:
        SelectionError, NotFloatingError, ShapeMismatchError: as `sequence_linear_scan`; or
            `upstream` or `result` has another shape or index than the result.

    >>> a = LoDTensor(np.array([9.0, 0.5, 0.5]), [[2, 1]])
    >>> b = a.with_data([4.0, 1.0, 8.0])
    >>> of_a, of_b, _ = sequence_linear_scan_grad([1.0, 1.0, 1.0], a, b)
    >>> of_a.data.tolist(), of_b.data.tolist()
    ([0.0, 4.0, 0.0], [1.5, 1.0, 1.0])
    """
    op = "sequence_linear_scan_grad"
    x, y, start, offsets = _checked(a, b, initial, level, op)
    real = y.dtype.kind != "c"
    flow = as_dtype(upstream_of(upstream, y.shape, op, b.lod, real=real), y.dtype)
    if result is None:
        forward = on(backend, segment_linear_scan, size_bytes=y.nbytes)
        h = forward(x, y, offsets, initial=start, reverse=reverse)
    else:
        h = rows_of(result)
        if h.dtype.kind == "c" and real:
            raise NotDefinedError(f"{op}: result: expected real numbers, found {h.dtype}")
        h = as_dtype(h, y.dtype)
        require_shape(h.shape, y.shape, f"{op}: result")
    run = on(backend, segment_linear_scan_grad, size_bytes=y.nbytes)
    of_a, of_b, of_initial = run(flow, x, h, offsets, initial=start, reverse=reverse)
    if initial is not None and of_initial is not None:
        of_initial = _as(of_initial, as_array(initial).dtype)
    return a._with_rows(_as(of_a, a.dtype)), b._with_rows(_as(of_b, b.dtype)), of_initial


def _checked(
    a: LoDTensor, b: LoDTensor, initial: npt.ArrayLike | None, level: int | str, op: str
) -> tuple[Array, Array, Array | None, Offsets]:
    """Return a, b and initial in the dtype of the computation, and the row offsets."""
    offsets = segments(b, level, op)
    x, y = a.data, b.data
    start = None if initial is None else as_array(initial)
    dtypes = [x.dtype, y.dtype] if start is None else [x.dtype, y.dtype, start.dtype]
    for name, each in zip(("a", "b", "initial"), dtypes, strict=False):
        if each.kind not in "fc" and not is_float(each):
            raise NotFloatingError(
                f"{op}: expected floating or complex numbers for {name}, found {each}"
                f"{by_cast('float32')}"
            )
    found = b.lod.difference(a.lod)
    if found is None and x.shape != y.shape:
        found = f"shape {x.shape} against {y.shape}"
    if found is not None:
        raise ShapeMismatchError(f"{op}: a and b differ: {found}")
    dtype = common_dtype(*dtypes)
    if dtype.kind == "c" and "c" not in x.dtype.kind + y.dtype.kind:
        raise InvalidDataError(f"{op}: a and b are real, initial is {dtypes[-1]}")
    wide = working_dtype(dtype)
    if start is not None:
        require_shape(start.shape, (offsets.size - 1, *b.row_shape), f"{op}: initial")
        start = as_dtype(start, wide)
    return as_dtype(x, wide), as_dtype(y, wide), start, offsets


def _as(gradient: Array, dtype: np.dtype[np.generic]) -> Array:
    if gradient.dtype is dtype:  # fast path
        return gradient
    if gradient.dtype.kind == "c" and dtype.kind != "c":
        gradient = gradient.real
    return as_dtype(gradient, dtype)


# -- arrays ----------------------------------------------------------------------------


@np.errstate(all="ignore")
def segment_linear_scan(
    a: Array, b: Array, offsets: Offsets, *, initial: Array | None, reverse: bool
) -> Array:
    """Return h[t] = a[t] h[t-1] + b[t] of every segment and column: (N, ...) to (N, ...).

    Args:
        a: (N, ...), of the dtype of `b`; or (1, ...), one row used for all.
        b: (N, ...).
        initial: (S, ...) or None.
    """
    if reverse:
        start = None if initial is None else initial[::-1]
        turned = offsets[-1] - offsets[::-1]
        return segment_linear_scan(a[::-1], b[::-1], turned, initial=start, reverse=False)[::-1]
    a = np.broadcast_to(a, b.shape)
    out = np.empty_like(b)
    lengths = offsets_to_lengths(offsets)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = offsets[order], lengths[order]
    state = None if initial is None else initial[order]
    for t in range(int(lengths[0]) if lengths.size else 0):
        # Segments are sorted by descending length: those longer than t come first.
        rows = starts[: np.searchsorted(-lengths, -t)] + t
        state = b[rows] if state is None else a[rows] * state[: len(rows)] + b[rows]
        out[rows] = state
    return out


@np.errstate(all="ignore")
def segment_linear_scan_grad(
    upstream: Array, a: Array, h: Array, offsets: Offsets, *, initial: Array | None, reverse: bool
) -> tuple[Array, Array, Array | None]:
    """Return the gradients for a and b, (N, ...), and for initial, (S, ...) or None.

    Args:
        upstream: (N, ...), the gradient of h.
        a: (N, ...) or (1, ...), as passed to the op; its gradient has N rows either way.
        h: (N, ...), the result.
    """
    full = offsets[:-1] < offsets[1:]
    first = (offsets[1:] - 1 if reverse else offsets[:-1])[full]
    a = np.broadcast_to(a, h.shape)
    step = -1 if reverse else 1
    # The state before each row, and the factor of the row after it. At the ends of a segment
    # they belong to another one, but are not used there.
    before = np.roll(h, step, axis=0)
    before[first] = 0 if initial is None else initial[full]
    factors = np.conj(np.roll(a, -step, axis=0))
    flow = segment_linear_scan(factors, upstream, offsets, initial=None, reverse=not reverse)
    of_initial = None
    if initial is not None:
        of_initial = np.zeros_like(initial)
        of_initial[full] = np.conj(a[first]) * flow[first]
    return flow * np.conj(before), flow, of_initial
