"""See split_by_mask.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.ops.ranking import split_by_mask as reference
from lodcli.kernels.tensor.nulls import Mask

_MODULE = "kernels.ops.ranking.split_by_mask_numba"
_INT64, _UINT8 = np.dtype(np.int64), np.dtype(np.uint8)
_merged, _split = (load.kernel(_MODULE, name) for name in ("merged", "split"))


def segment_merged(
    mask: Mask, true: Offsets, false: Offsets
) -> tuple[Offsets, tuple[Offsets, Offsets]] | None:
    """See split_by_mask.py."""
    count, given = mask.size, np.ascontiguousarray(mask).view(_UINT8)
    offsets, bounds = unwritten(count + 1), np.empty((2, count + 1), _INT64)
    wrong = _merged[""].call(
        0, 1, given, np.ascontiguousarray(true), np.ascontiguousarray(false), offsets, bounds,
        count, true.size - 1,
    )  # fmt: skip
    if wrong:
        return reference.segment_merged(mask, true, false)
    return offsets, (bounds[0], bounds[1])


def segment_split(
    mask: Mask, offsets: Offsets
) -> tuple[tuple[Offsets, Offsets], tuple[Offsets, Offsets]]:
    """See split_by_mask.py."""
    count, given = mask.size, np.ascontiguousarray(mask).view(_UINT8)
    begins, bounds = np.empty(count, _INT64), unwritten(count + 2)
    trues = _split[""].call(0, 1, given, np.ascontiguousarray(offsets), begins, bounds, count)
    return (begins[:trues], bounds[: trues + 1]), (begins[trues:], bounds[trues + 1 :])
