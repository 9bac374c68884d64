"""See scatter.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.ops.dtypes import WORDS, WRAPPING
from lodcli.kernels.ops.rows import row_width, viewed
from lodcli.kernels.ops.scatter import scatter as reference

_MODULE = "kernels.ops.scatter.scatter_numba"
_scatter, _pick = (load.kernel(_MODULE, name) for name in ("scatter", "pick"))


def segment_scatter(data: Array, ids: Offsets, updates: Array, offsets: Offsets) -> Array:
    """See scatter.py."""
    compiled = WRAPPING.get(data.dtype.char)
    if compiled is None:
        return reference.segment_scatter(data, ids, updates, offsets)
    out = np.array(data, order="C")
    _scatter[compiled].call(
        0, 1, viewed(out, compiled), row_width(out.shape), np.ascontiguousarray(ids),
        viewed(np.ascontiguousarray(updates), compiled), np.ascontiguousarray(offsets),
        offsets.size - 1,
    )  # fmt: skip
    return out


def segment_scatter_grad(grad: Array, ids: Offsets, offsets: Offsets) -> tuple[Array, Array]:
    """See scatter.py."""
    rows, updates = np.array(grad, order="C"), np.empty(ids.size, grad.dtype)
    word = WORDS[grad.itemsize]
    _pick[word.char].call(
        0, 1, rows.view(word), row_width(rows.shape), np.ascontiguousarray(ids),
        np.ascontiguousarray(offsets), updates.view(word), offsets.size - 1,
    )  # fmt: skip
    return rows, updates
