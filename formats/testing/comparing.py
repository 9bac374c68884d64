"""Compares tensors that were read with those written, except for declared losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from lodcli.formats.core.losses import Loss
from lodcli.formats.core.schema import Item
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def difference(
    content: Mapping[str, LoDTensor], found: Mapping[str, Item], losses: Iterable[Loss] = ()
) -> str | None:
    """Return the first difference, for a message; None if there is none.

    Args:
        content: the tensors that were written.
        found: the tensors that were read. A single one may have another name; others may be added.
        losses: properties that may differ, from `losses` of a format.
    """
    lost = {loss.what: loss.lost for loss in losses}
    if "tensor names" in lost or (len(content) == 1 and not content.keys() & found.keys()):
        if len(found) < len(content):
            return f"expected {len(content)} tensors, found {', '.join(found) or 'none'}"
        found = dict(zip(content, found.values(), strict=False))
    for name, tensor in content.items():
        if name not in found:
            return f"no tensor {name!r}; there are: {', '.join(found)}"
        other = found[name]
        if not isinstance(other, LoDTensor):
            return f"{name}: expected a tensor, found {type(other).__name__}"
        wrong = _difference(name, tensor, other, lost)
        if wrong is not None:
            return f"{name}: {wrong}"
    return None


def _difference(
    name: str, tensor: LoDTensor, other: LoDTensor, lost: Mapping[str, tuple[str, ...]]
) -> str | None:
    def kept(what: str, told: object) -> bool:
        return f"{told} of {name}" not in lost.get(what, ())

    if not kept("marks", tensor.marks) and tensor.categories is not None and other.marks.is_text:
        tensor = tensor.as_text()  # formats with text store categories as text
    lengths, others = tensor.recursive_sequence_lengths(), other.recursive_sequence_lengths()
    if lost.get("levels"):
        others = others[: len(lengths)]
        lengths = lengths[: len(others)]
    if lengths != others:
        return f"lengths: expected {lengths}, found {others}"
    if kept("row shapes", tensor.row_shape) and tensor.row_shape != other.row_shape:
        return f"rows: expected shape {tensor.row_shape}, found {other.row_shape}"
    if kept("dtypes", tensor.dtype.name) and tensor.dtype != other.dtype:
        return f"expected {tensor.dtype}, found {other.dtype}"
    if kept("marks", tensor.marks) and tensor.marks != other.marks:
        return f"marks: expected {tensor.marks}, found {other.marks}"
    if tensor.nulls != other.nulls:
        return "other nulls"
    if not _same(tensor.values, other.values, bits=tensor.dtype == other.dtype):
        return f"values: expected {_some(tensor.values)}, found {_some(other.values)}"
    for level, (one, two) in enumerate(zip(tensor.lod.names, other.lod.names, strict=False)):
        if one is not None and one != two and one not in lost.get("level names", ()):
            return f"level {level}: expected the name {one!r}, found {two!r}"
    return None


def _same(one: Array, two: Array, *, bits: bool) -> bool:
    """Return whether the values are equal; with `bits`, -0.0 differs from 0.0, and NaN is NaN."""
    if one.size != two.size:
        return False
    two = two.reshape(one.shape)
    if not bits:
        return bool(np.array_equal(one.astype(np.complex128), two.astype(np.complex128)))
    same: Array = one == two
    if one.dtype.kind not in "biu":
        same = (same & (np.signbit(one.real) == np.signbit(two.real))) | (one != one) & (two != two)
    return bool(same.all())


def _some(values: Array) -> str:
    return f"{values.ravel()[:8].tolist()}"
