"""Adds the values of every sequence to given columns of its row."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import id_column, segment_numbers, segments
from lodcli.kernels.ops.dtypes import working_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_scatter(
    x: LoDTensor,
    ids: LoDTensor,
    updates: LoDTensor,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return `x` with the updates of sequence i added to the columns `ids` of its row i.

        out[i, ids[t]] = x[i, ids[t]] + sum of the updates[t] with this id, t in sequence i

    Args:
        x: data (S, M), one row for each of the S sequences.
        ids: whole numbers 0 to M - 1, (N,) or (N, 1).
        updates: (N,) or (N, 1), the dtype of `x`, segmented like `ids`.
        level: the level of the sequences in `ids` and `updates`; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (S, M) under the index of `x`.

    Raises:
        SelectionError: there is no such level, or no column with the number of an id; the message
            names its row.
        InvalidDataError, ShapeMismatchError: dtypes, shapes or indexes do not match.

    >>> ids = LoDTensor(np.array([2, 0, 2]), [[1, 2]])
    >>> sequence_scatter(LoDTensor(np.zeros((2, 3))), ids, ids.with_data([1.0, 2.0, 3.0])).data
    array([[0., 0., 1.],
           [2., 0., 3.]])
    """
    offsets, columns = _checked(x, ids, updates, level, "sequence_scatter")
    # float16 is summed in float32.
    working = working_dtype(x.dtype)
    data, added = as_dtype(x.data, working), as_dtype(updates.data, working)
    run = on(backend, segment_scatter, size_bytes=columns.nbytes + x.nbytes)
    out = run(data, columns, added.reshape(columns.size), offsets)
    return x._with_rows(as_dtype(out, x.dtype))


@types_explained
def sequence_scatter_grad(
    upstream: Upstream,
    x: LoDTensor,
    ids: LoDTensor,
    updates: LoDTensor,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_scatter` for `x` and for `updates`.

    Args:
        upstream: (S, M), the gradient of the result.
        x, ids, updates, level: as passed to the op; of `x` and `updates` only index, shape and
            dtype are read. `ids` has no gradient.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (S, M) under the index of `x`, and (N,) or (N, 1) under that of `updates`, of the dtype
        of `upstream`.

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as `sequence_scatter`; or
            `upstream` has another shape or index than the result.

    >>> ids = LoDTensor(np.array([2, 0, 2]), [[1, 2]])
    >>> x, updates = LoDTensor(np.zeros((2, 3))), ids.with_data(np.zeros(3))
    >>> grads = sequence_scatter_grad([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], x, ids, updates)
    >>> grads[1].data.tolist()
    [3.0, 4.0, 6.0]
    """
    op = "sequence_scatter_grad"
    offsets, columns = _checked(x, ids, updates, level, op)
    flow = upstream_of(upstream, x.data.shape, op, x.lod)
    run = on(backend, segment_scatter_grad, size_bytes=columns.nbytes + flow.nbytes)
    rows, added = run(flow, columns, offsets)
    return x._with_rows(rows), updates._with_rows(added.reshape(updates.data.shape))


def _checked(
    x: LoDTensor, ids: LoDTensor, updates: LoDTensor, level: int | str, op: str
) -> tuple[Offsets, Offsets]:
    """Return the offsets of the sequences and the columns of the updates, (N,)."""
    offsets, columns, data = segments(ids, level, op), id_column(ids, op), x.data
    found = ids.lod.difference(updates.lod)
    if found is not None:
        raise ShapeMismatchError(f"{op}: ids and updates are segmented differently: {found}")
    if updates.row_shape not in ((), (1,)):
        raise ShapeMismatchError(
            f"{op} needs one update per row, found rows of {updates.row_shape}"
        )
    if x.dtype != updates.dtype:
        raise InvalidDataError(f"{op}: x is {x.dtype}, updates are {updates.dtype}")
    if data.ndim != 2 or len(data) != offsets.size - 1:
        raise ShapeMismatchError(
            f"{op} needs x of shape ({offsets.size - 1}, M), one row per sequence, "
            f"found {data.shape}"
        )
    return offsets, _known_columns(columns, data.shape[1])


def _known_columns(columns: Array, width: int) -> Offsets:
    numbers: Offsets = columns.astype(np.int64, copy=False)
    row = on("auto", segment_first_outside)(numbers, width)
    if row >= 0:
        raise SelectionError(f"ids, row {row}: no column {columns[row]}, x has {width}")
    return numbers


def segment_first_outside(numbers: Array, width: int) -> int:
    """Return the index of the first of (N,) int64 outside 0 to width - 1; -1 if there is none."""
    # As unsigned numbers, negative ids are greater than all others.
    outside = numbers.view(np.uint64) >= width
    return int(outside.argmax()) if outside.any() else -1


@np.errstate(all="ignore")
def segment_scatter(data: Array, ids: Offsets, updates: Array, offsets: Offsets) -> Array:
    """Return data (S, M) with updates (N,) added to row s, column ids (N,), of segment s."""
    out = np.array(data, order="C")
    # add.at adds repeated ids one after another, in order: sums are reproducible.
    np.add.at(out, (segment_numbers(offsets), ids), updates)
    return out


def segment_scatter_grad(grad: Array, ids: Offsets, offsets: Offsets) -> tuple[Array, Array]:
    """Return the gradients of `segment_scatter` for data, (S, M), and updates, (N,).

    Args:
        grad: of the result, (S, M).
    """
    return np.array(grad, order="C"), grad[segment_numbers(offsets), ids]
