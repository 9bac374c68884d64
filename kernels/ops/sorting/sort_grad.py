"""Gradients of sort.py: scattered back to the source rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import flat_rows, row_width
from lodcli.kernels.ops.sorting.sort import best_rows, sorted_rows
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import beside
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_sort_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    descending: bool = False,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_sort` for `tensor`.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, level, descending: as they went in.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError, InvalidDataError: as `sequence_sort`.
        ShapeMismatchError: `upstream` has another shape or index than the rows.

    >>> tensor = LoDTensor(np.array([3.0, 1.0, 2.0, 0.0]), [[3, 1]])
    >>> sequence_sort_grad([10.0, 20.0, 30.0, 40.0], tensor).data.tolist()
    [30.0, 10.0, 20.0, 40.0]
    """
    op = "sequence_sort_grad"
    flow = upstream_of(upstream, tensor.data.shape, op, tensor.lod)
    return _back(flow, sorted_rows(tensor, level, descending, op, backend), tensor)


@types_explained
def sequence_topk_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    k: npt.ArrayLike,
    *,
    level: int | str = -1,
    largest: bool = True,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of the values of `sequence_topk` for `tensor`: zero for the others.

    Args:
        upstream: the shape of the values, their gradient.
        tensor, k, level, largest: as they went in.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError, InvalidDataError: as `sequence_topk`.
        ShapeMismatchError: `upstream` has another shape or index than the values.

    >>> tensor = LoDTensor(np.array([3.0, 1.0, 2.0, 0.0]), [[3, 1]])
    >>> sequence_topk_grad([10.0, 20.0, 40.0], tensor, 2).data.tolist()
    [10.0, 0.0, 20.0, 40.0]
    """
    op = "sequence_topk_grad"
    rows, _, lod = best_rows(tensor, k, level, largest, op, backend)
    return _back(upstream_of(upstream, rows.shape, op, lod), rows, tensor)


def _back(flow: Array, rows: Offsets, tensor: LoDTensor) -> LoDTensor:
    """Return every value of `flow` in its column, in the row that it was taken from."""
    result = np.zeros_like(flow, shape=tensor.data.shape)
    columns = beside(np.arange(row_width(flow.shape)), flow)
    # A view of new rows. No value is taken twice, so nothing is written twice.
    flat_rows(result)[flat_rows(rows), columns] = flat_rows(flow)
    return tensor._with_rows(result)
