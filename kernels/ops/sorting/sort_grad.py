"""Gradients of sort.py: scattered back to the source rows."""

from __future__ import annotations

import numpy.typing as npt

from lodcli.kernels.ops.sorting.sort import (
    best_bounds,
    ordered_offsets,
    segment_unsorted,
    sorted_rows,
)
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
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
        tensor, level, descending: as passed to the op.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError, InvalidDataError: as `sequence_sort`.
        ShapeMismatchError: `upstream` has another shape or index than the rows.

    >>> import numpy as np
    >>> tensor = LoDTensor(np.array([3.0, 1.0, 2.0, 0.0]), [[3, 1]])
    >>> sequence_sort_grad([10.0, 20.0, 30.0, 40.0], tensor).data.tolist()
    [30.0, 10.0, 20.0, 40.0]
    """
    op = "sequence_sort_grad"
    flow = upstream_of(upstream, tensor.data.shape, op, tensor.lod)
    offsets = ordered_offsets(tensor, level, op)
    rows = sorted_rows(tensor, offsets, descending, backend)
    run = on(backend, segment_unsorted, size_bytes=flow.nbytes)
    return tensor._with_rows(run(flow, rows, offsets, offsets))


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
        upstream: the gradient of the values, in their shape.
        tensor, k, level, largest: as passed to the op.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError, InvalidDataError: as `sequence_topk`.
        ShapeMismatchError: `upstream` has another shape or index than the values.

    >>> import numpy as np
    >>> tensor = LoDTensor(np.array([3.0, 1.0, 2.0, 0.0]), [[3, 1]])
    >>> sequence_topk_grad([10.0, 20.0, 40.0], tensor, 2).data.tolist()
    [10.0, 0.0, 20.0, 40.0]
    """
    op = "sequence_topk_grad"
    offsets = ordered_offsets(tensor, level, op)
    bounds = best_bounds(offsets, k, op)
    levels = (*tensor.lod.levels[: tensor.lod.level(level)], bounds)
    flow = upstream_of(upstream, (bounds.item(-1), *tensor.row_shape), op, levels)
    rows = sorted_rows(tensor, offsets, largest, backend, bounds)
    run = on(backend, segment_unsorted, size_bytes=flow.nbytes)
    return tensor._with_rows(run(flow, rows, offsets, bounds))
