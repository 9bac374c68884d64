"""Add the values of every sequence to chosen columns of its row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import id_column, segment_numbers
from lodcli.kernels.ops.common import is_half, segments
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


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
        level: the level of `ids` whose sequences are meant.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (S, M) under the index of `x`.

    Raises:
        SelectionError: no such level, or an id that is no column; names its row.
        InvalidDataError, ShapeMismatchError: dtypes, shapes or indexes that do not fit.

    >>> ids = LoDTensor(np.array([2, 0, 2]), [[1, 2]])
    >>> sequence_scatter(LoDTensor(np.zeros((2, 3))), ids, ids.with_data([1.0, 2.0, 3.0])).data
    array([[0., 0., 1.],
           [2., 0., 3.]])
    """
    offsets, columns = segments(ids, level, "sequence_scatter"), id_column(ids, "sequence_scatter")
    found = ids.lod.difference(updates.lod)
    if found is not None:
        raise ShapeMismatchError(
            f"sequence_scatter: ids and updates are segmented differently: {found}"
        )
    if updates.row_shape not in ((), (1,)):
        raise ShapeMismatchError(
            f"sequence_scatter needs one update a row, found rows of {updates.row_shape}"
        )
    if x.dtype != updates.dtype:
        raise InvalidDataError(f"sequence_scatter: x is {x.dtype}, updates are {updates.dtype}")
    if x.data.ndim != 2 or x.rows != offsets.size - 1:
        raise ShapeMismatchError(
            f"sequence_scatter needs x of shape ({offsets.size - 1}, M), one row a sequence, "
            f"found {x.data.shape}"
        )
    _require_columns(columns, x.data.shape[1])
    # float16 is summed in float32.
    working = np.dtype(np.float32) if is_half(x.dtype) else x.dtype
    data = x.data.astype(working, copy=False)
    added = updates.data.reshape(updates.rows).astype(working, copy=False)
    run = on(backend, segment_scatter, size_bytes=columns.nbytes + x.nbytes)
    out = run(data, columns.astype(np.int64), added, offsets)
    return x.with_data(out.astype(x.dtype, copy=False))


def sequence_scatter_grad(
    upstream: npt.ArrayLike, ids: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> tuple[Array, Array]:
    """Return the gradients of `sequence_scatter` for the rows of `x` and of `updates`.

    Args:
        upstream: (S, M), the gradient of the result.
        ids, level: as they went in.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (S, M) and (N,) or (N, 1), as `ids` has it, of the dtype of `upstream`.

    Raises:
        SelectionError: no such level, or an id that is no column.
        ShapeMismatchError: `upstream` has not a row for each sequence.

    >>> ids = LoDTensor(np.array([2, 0, 2]), [[1, 2]])
    >>> sequence_scatter_grad([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], ids)[1].tolist()
    [3.0, 4.0, 6.0]
    """
    op, flow = "sequence_scatter_grad", as_array(upstream)
    offsets, columns = segments(ids, level, op), id_column(ids, op)
    if flow.ndim != 2 or len(flow) != offsets.size - 1:
        raise ShapeMismatchError(
            f"{op}: upstream is ({offsets.size - 1}, M), one row a sequence, found {flow.shape}"
        )
    _require_columns(columns, flow.shape[1])
    run = on(backend, segment_scatter_grad, size_bytes=columns.nbytes + flow.nbytes)
    rows, updates = run(flow, columns.astype(np.int64), offsets)
    return rows, updates.reshape(ids.data.shape)


def _require_columns(columns: Array, width: int) -> None:
    outside = np.flatnonzero((columns < 0) | (columns >= width))
    if outside.size:
        row = int(outside[0])
        raise SelectionError(f"ids, row {row}: no column {columns[row]}, x has {width}")


def segment_scatter(data: Array, ids: Offsets, updates: Array, offsets: Offsets) -> Array:
    """Return data (S, M) with updates (N,) added to row s, column ids (N,), of segment s."""
    out = np.array(data, order="C")
    # add.at adds repeated ids one after another, in order: the same sums every time.
    np.add.at(out, (segment_numbers(offsets), ids), updates)
    return out


def segment_scatter_grad(grad: Array, ids: Offsets, offsets: Offsets) -> tuple[Array, Array]:
    """Return the gradients of `segment_scatter` for data, (S, M), and updates, (N,).

    Args:
        grad: of the result, (S, M).
    """
    return np.array(grad, order="C"), grad[segment_numbers(offsets), ids]
