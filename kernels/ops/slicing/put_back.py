"""The gradient of taking items of a tensor: rows back where they were taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.items import FoundItems
from lodcli.kernels.ops.slicing.slice import segment_place
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def items_put_back(
    upstream: Sequence[Upstream], found: Sequence[FoundItems], tensor: LoDTensor, op: str
) -> LoDTensor:
    """Return the gradient of taking items of a tensor, no item twice; zeros for the others.

    Args:
        upstream: the gradients of the parts that were taken.
        found: where the items of each part lie in the tensor, and the part's index.
        tensor: only its index and shape are read.
        op: for messages.

    Raises:
        ShapeMismatchError: a gradient has another shape or index than its part, or there are
            more or fewer.
    """
    if len(upstream) != len(found):
        raise ShapeMismatchError(
            f"{op}: expected {len(found)} upstream gradients, found {len(upstream)}"
        )
    flows = [
        upstream_of(one, (int(part.bounds[-1]), *tensor.row_shape), op, part.lod)
        for one, part in zip(upstream, found, strict=True)
    ]
    flow, starts, bounds = flows[0], found[0].starts, found[0].bounds
    if len(found) > 1:
        flow = np.concatenate(flows)
        starts = np.concatenate([part.starts for part in found])
        lengths = np.concatenate([offsets_to_lengths(part.bounds) for part in found])
        bounds = lengths_to_offsets(lengths, level=0)
    kernel = on("auto", segment_place, size_bytes=flow.nbytes)
    return tensor._with_rows(kernel(flow, starts, bounds, tensor.rows))
