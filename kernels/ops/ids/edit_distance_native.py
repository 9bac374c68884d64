"""See edit_distance.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.index.items_native import longest
from lodcli.kernels.native import load
from lodcli.kernels.ops.ids.ids_native import as_compiled, as_given

_MODULE = "kernels.ops.ids.ids_numba"
_ctc_align, _edit_distance = (load.kernel(_MODULE, name) for name in ("ctc_align", "edit_distance"))


def segment_edit_distance(
    hyps: Array, hyp_offsets: Offsets, refs: Array, ref_offsets: Offsets
) -> Offsets:
    """See edit_distance.py. Scratch memory: two rows of the longest reference."""
    out = np.empty(hyp_offsets.size - 1, np.int64)
    row = np.empty(longest(ref_offsets) + 1, np.int64)
    ours, theirs = as_compiled(hyps), as_compiled(refs)
    _edit_distance[ours.dtype.char].call(
        0, 1, ours, np.ascontiguousarray(hyp_offsets),
        theirs, np.ascontiguousarray(ref_offsets), row, out, out.size,
    )  # fmt: skip
    return out


def segment_ctc_align(
    ids: Array, offsets: Offsets, blanks: Array, merge_repeated: bool
) -> tuple[Array, Offsets]:
    """See edit_distance.py."""
    given, none = as_compiled(ids), as_compiled(blanks)
    out, bounds = np.empty(given.size, given.dtype), unwritten(offsets.size)
    _ctc_align[given.dtype.char].call(
        0, 1, given, np.ascontiguousarray(offsets), none, none.size, merge_repeated,
        out, bounds, offsets.size - 1,
    )  # fmt: skip
    return as_given(out[: bounds[-1]], ids), bounds
