"""The upstream gradient: the first argument of a gradient function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, same_levels
from lodcli.kernels.index.items import FoundItems
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.dtypes import common_dtype
from lodcli.kernels.runtime.arrays import as_array, in_native_order
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# A LoDTensor with the index of the op's result, or only the rows.
Upstream = LoDTensor | npt.ArrayLike
_Index = LoD | Sequence[Offsets] | Callable[[], Sequence[Offsets]]


def upstream_of(
    upstream: Upstream,
    shape: tuple[int, ...],
    op: str,
    lod: _Index | None = None,
    *,
    real: bool = False,
) -> Array:
    """Return the rows of the upstream gradient, checked to have the result's shape and index.

    Args:
        upstream: rows, or a LoDTensor if the result is one.
        shape: of the result.
        op: the gradient function, for messages.
        lod: the index of the result, its levels, or a function that returns the levels, called only
            if `upstream` is a LoDTensor. None: the result is an array.
        real: whether the gradients are real, so that imaginary parts would be lost.

    Raises:
        ShapeMismatchError: another shape or index.
        InvalidDataError: not numbers, or complex ones with `real`.
    """
    if lod is not None and isinstance(upstream, LoDTensor):
        given = upstream.lod
        if given is not lod:  # usually the same object
            found = _difference(lod, given)
            if found is not None:
                raise ShapeMismatchError(
                    f"{op}: the upstream gradient is not segmented as the result: {found}"
                )
        array = upstream.data
    else:
        array = in_native_order(as_array(upstream))
    if array.shape != shape:
        raise ShapeMismatchError(
            f"{op}: the upstream gradient must have the result's shape {shape}, found {array.shape}"
        )
    kind = array.dtype.kind
    if kind != "f" and (
        (kind not in "biuc" and not is_float(array.dtype)) or (real and kind == "c")
    ):
        expected = "real numbers" if real else "numbers"
        raise InvalidDataError(
            f"{op}: the upstream gradient must hold {expected}, found {array.dtype}"
        )
    return array


def _difference(wanted: _Index, found: LoD) -> str | None:
    """Return a description of the difference between two indexes; None if they are equal."""
    if isinstance(wanted, LoD):
        return wanted.difference(found)
    levels = wanted() if callable(wanted) else wanted
    # A LoD is made of the levels only for the message.
    return None if same_levels(levels, found.levels) else LoD._trusted(levels).difference(found)


def upstreams_of(
    upstream: Sequence[Upstream], row_shape: tuple[int, ...], op: str, found: Sequence[FoundItems]
) -> list[Array]:
    """Return the upstream gradients of several results in one dtype, checked as `upstream_of` does.

    Args:
        upstream: of each result.
        row_shape: of all.
        op: the gradient function, for messages.
        found: the items that each result took from the tensor, and its index.

    Raises:
        ShapeMismatchError: one has another shape or index, or there are more or fewer.
    """
    if len(upstream) != len(found):
        raise ShapeMismatchError(
            f"{op}: expected {len(found)} upstream gradients, found {len(upstream)}"
        )
    flows = [
        upstream_of(one, (part.bounds.item(-1), *row_shape), op, part.levels)
        for one, part in zip(upstream, found, strict=True)
    ]
    dtype = common_dtype(*[flow.dtype for flow in flows])
    return [flow if flow.dtype == dtype else flow.astype(dtype) for flow in flows]


def rows_of(values: LoDTensor | npt.ArrayLike) -> Array:
    """Return the rows of a tensor, or an array in native byte order."""
    return values.data if isinstance(values, LoDTensor) else in_native_order(as_array(values))


def without_values(tensor: LoDTensor) -> LoDTensor:
    """Return a tensor of the same index with rows of width 0, to compute an op's result index."""
    return tensor.with_data(np.empty((tensor.rows, 0), np.uint8))
