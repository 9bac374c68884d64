"""Conversion between ragged rows and padded batches."""

from __future__ import annotations

import operator

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import dtype_of_rows, is_float
from lodcli.kernels.errors import InvalidDataError, OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.items import capped_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import MOST_ITEMS, chosen_level, fill_value, per_segment
from lodcli.kernels.ops.rows import result_array
from lodcli.kernels.ops.slicing.slice import segment_place
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import as_array, beside, in_native_order
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_pad(
    tensor: LoDTensor,
    *,
    pad_value: npt.ArrayLike = 0,
    maxlen: int = -1,
    pad_to_multiple: int = 1,
    truncate: bool = False,
    level: int | str | None = None,
    out: Array | None = None,
    backend: Backend = "auto",
) -> tuple[Array, Offsets]:
    """Return the sequences of a level as one padded array, and their lengths in rows.

    Args:
        tensor: data (N, ...), any dtype, S sequences in `level`.
        pad_value: the value, or the row, after the end of a sequence.
        maxlen: T, the padded length; -1: the longest sequence.
        pad_to_multiple: round T up to a multiple of this.
        truncate: cut sequences longer than T; otherwise they are an error.
        level: the level whose sequences are padded; the levels above and below it are lost.
            By default the only level.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the rows that are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (S, T, ...) of the same dtype, and (S,) int64 lengths, at most T.

    Raises:
        SelectionError: there is no such level, or there are several and none is chosen.
        ShapeMismatchError: a sequence is longer than T, or a row of `pad_value` has another shape.
        InvalidDataError: `maxlen` or `pad_to_multiple` is out of range; or `out` is invalid.

    >>> padded, lengths = sequence_pad(LoDTensor(np.array([1, 2, 3]), [[2, 1]]))
    >>> padded.tolist(), lengths.tolist()
    ([[1, 2], [3, 0]], [2, 1])
    """
    op = "sequence_pad"
    offsets = tensor.lod.absolute(chosen_level(tensor.lod, level, op))
    if maxlen < -1 or pad_to_multiple < 1:
        raise OptionError(
            f"{op}: maxlen must be -1 or more and pad_to_multiple 1 or more, "
            f"found {maxlen} and {pad_to_multiple}"
        )
    lengths = offsets_to_lengths(offsets)
    longest = int(lengths.max(initial=0))
    steps = longest if maxlen == -1 else maxlen
    steps = -(-steps // pad_to_multiple) * pad_to_multiple
    if longest > steps and not truncate:
        raise ShapeMismatchError(
            f"{op}: sequence {int(lengths.argmax())} has {longest} rows, more than maxlen {steps}; "
            "use truncate to cut it"
        )
    fill = fill_value(pad_value, tensor.row_shape, tensor.dtype, op)
    padded = on(backend, segment_pad, size_bytes=tensor.nbytes)(
        tensor.data, offsets, steps, pad_value=fill, out=out
    )
    return padded, np.minimum(lengths, steps)


@types_explained
def sequence_pad_grad(
    upstream: npt.ArrayLike,
    tensor: LoDTensor,
    *,
    level: int | str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_pad` for `tensor`: zeros for the rows cut off.

    Args:
        upstream: (S, T, ...), the gradient of the padded array.
        tensor, level: as passed to the op; of the tensor only its index and shape are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError: as `sequence_pad`.
        ShapeMismatchError: `upstream` does not have S sequences, or has rows of another shape.
    """
    op, flow = "sequence_pad_grad", as_array(upstream)
    offsets = tensor.lod.absolute(chosen_level(tensor.lod, level, op))
    steps = flow.shape[1] if flow.ndim > 1 else 0
    flow = upstream_of(flow, (offsets.size - 1, steps, *tensor.row_shape), op)
    kernel = on(backend, segment_pad_grad, size_bytes=flow.nbytes)
    return tensor._with_rows(kernel(flow, offsets))


@types_explained
def sequence_unpad(
    padded: npt.ArrayLike,
    lengths: npt.ArrayLike,
    *,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the rows of a padded batch without the padding: the inverse of `sequence_pad`.

    Args:
        padded: (S, T, ...), any dtype.
        lengths: (S,) integers, 0 to T.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the rows that are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (sum of lengths, ...) with one level.

    Raises:
        InvalidDataError: the lengths are not integers; or `out` is invalid.
        ShapeMismatchError: a length is below 0 or above T, or there are not S of them.

    >>> sequence_unpad([[1, 2], [3, 0]], [2, 1]).data.tolist()
    [1, 2, 3]
    """
    box = in_native_order(as_array(padded))
    offsets = _box_offsets(box.shape, lengths, "sequence_unpad")
    rows = on(backend, segment_unpad, size_bytes=box.nbytes)(box, offsets, out=out)
    return LoDTensor._made(rows, LoD._trusted([offsets]))


@types_explained
def sequence_unpad_grad(
    upstream: Upstream, padded: npt.ArrayLike, lengths: npt.ArrayLike, *, backend: Backend = "auto"
) -> Array:
    """Return the gradient of `sequence_unpad` for the padded array: zeros where padding was.

    Args:
        upstream: (sum of lengths, ...), the gradient of the result.
        padded, lengths: as passed to the op; of the padded array only its shape is read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (S, T, ...), the dtype of `upstream`.

    Raises:
        InvalidDataError, ShapeMismatchError: as `sequence_unpad`; or `upstream` has another
            shape or index than the result.

    >>> sequence_unpad_grad([5.0, 6.0, 7.0], np.zeros((2, 2)), [2, 1]).tolist()
    [[5.0, 6.0], [7.0, 0.0]]
    """
    op, shape = "sequence_unpad_grad", as_array(padded).shape
    offsets = _box_offsets(shape, lengths, op)
    flow = upstream_of(upstream, (int(offsets[-1]), *shape[2:]), op, [offsets])
    return on(backend, segment_pad, size_bytes=flow.nbytes)(flow, offsets, shape[1])


def _box_offsets(shape: tuple[int, ...], lengths: npt.ArrayLike, op: str) -> Offsets:
    """Return the row offsets for the lengths of a padded batch of this shape, (S+1,)."""
    if len(shape) < 2:
        raise ShapeMismatchError(f"{op}: expected (S, T, ...), found shape {shape}")
    counts = per_segment(lengths, shape[0], "lengths", op)
    # As unsigned numbers, negative lengths are greater than all others.
    outside = counts.view(np.uint64) > shape[1]
    if np.count_nonzero(outside):
        place = int(outside.argmax())
        raise ShapeMismatchError(
            f"{op}: the length of sequence {place} must be 0 to {shape[1]}, found {counts[place]}"
        )
    return lengths_to_offsets(counts, level=0)


@types_explained
def sequence_mask(
    lengths: npt.ArrayLike, *, maxlen: int = -1, dtype: npt.DTypeLike = np.bool_
) -> Array:
    """Return the mask of valid steps in a padded batch: 1 at step t if t < length, else 0.

    Args:
        lengths: integers of any shape (...), or floats with integer values; negative ones count
            as 0.
        maxlen: T, the number of columns; -1: the greatest length. Greater lengths count as T.
        dtype: dtype of the result.

    Returns:
        (..., T).

    Raises:
        InvalidDataError: the lengths are not integers.
        OptionError: `maxlen` or `dtype` is invalid.

    >>> sequence_mask([2, 0, 1]).astype(int).tolist()
    [[1, 1], [0, 0], [1, 0]]
    """
    counts = as_array(lengths)
    if not counts.size:
        counts = np.zeros_like(counts, np.int64)
    if is_float(counts.dtype):
        # Integers given as floats, which PaddlePaddle accepts.
        fractions = counts != np.floor(counts)
        if fractions.any() or not np.isfinite(counts).all():
            found = counts[fractions | ~np.isfinite(counts)][0]
            raise InvalidDataError(
                f"sequence_mask: lengths must be integers, found {counts.dtype} {found}"
            )
        counts = counts.astype(np.float64)
    elif counts.dtype.kind not in "iu":
        raise InvalidDataError(f"sequence_mask: lengths must be integers, found {counts.dtype}")
    if operator.index(maxlen) == 0 or maxlen < -1:
        raise OptionError(f"sequence_mask: maxlen must be -1 or at least 1, found {maxlen}")
    # Not max(initial=0): arrays of cupy do not support it.
    steps = max(0, int(counts.max()) if counts.size else 0) if maxlen == -1 else maxlen
    if steps > MOST_ITEMS:  # NumPy returns no steps for 2**63
        raise OptionError(f"sequence_mask: no array holds {steps} steps")
    valid = beside(np.arange(steps), counts) < counts[..., None]
    result: Array = valid.astype(dtype_of_rows(dtype))
    return result


def _places(offsets: Offsets, steps: int) -> tuple[Offsets, tuple[Offsets, Offsets]]:
    """Return the rows that fit a padded batch of this many steps, and their (s, t) positions."""
    bounds = shortened(offsets, steps)
    lengths = offsets_to_lengths(bounds)
    at = ranges(np.zeros_like(lengths), bounds)
    return ranges(offsets[:-1], bounds), (np.repeat(np.arange(lengths.size), lengths), at)


def segment_pad(
    data: Array,
    offsets: Offsets,
    maxlen: int,
    *,
    pad_value: npt.ArrayLike = 0,
    out: Array | None = None,
) -> Array:
    """Return the first `maxlen` rows of every segment, padded: (N, ...) to (S, maxlen, ...)."""
    shape = (offsets.size - 1, maxlen, *data.shape[1:])
    result = result_array(out, shape, data.dtype, data)
    result[...] = pad_value
    rows, steps = _places(offsets, maxlen)
    result[steps] = data[rows]
    return result


def segment_unpad(padded: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """Return the first offsets[s+1] - offsets[s] rows of padded[s]: (S, T, ...) to (N, ...)."""
    _, steps = _places(offsets, padded.shape[1])
    shape = (int(offsets[-1]), *padded.shape[2:])
    result = result_array(out, shape, padded.dtype, padded)
    result[...] = padded[steps]
    return result


def segment_pad_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return the gradient of `segment_pad` for its data, (S, T, ...) to (N, ...)."""
    bounds = shortened(offsets, upstream.shape[1])
    return segment_place(segment_unpad(upstream, bounds), offsets[:-1], bounds, int(offsets[-1]))


def shortened(offsets: Offsets, steps: int) -> Offsets:
    """Return the offsets of the first `steps` rows of each segment."""
    found = capped_offsets(offsets, steps)
    assert found is not None
    return found
