"""See edit_distance.py."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import THREADS as KEPT_THREADS
from lodcli.kernels.cuda.launch import WORDS, on_device, run
from lodcli.kernels.cuda.row_copies import word_numbers
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.ids.ids_cupy import compressed, room_for_marks

THREADS = 128


def segment_edit_distance(
    hyps: Array, hyp_offsets: Offsets, refs: Array, ref_offsets: Offsets
) -> Array:
    """See edit_distance.py."""
    pairs = hyp_offsets.size - 1
    out: Array = cupy.empty(pairs, np.int64)
    scratch = cupy.empty(3 * (int(ref_offsets[-1]) + pairs), np.int32)
    # Ids are only compared, so unsigned words of their size suffice.
    run(
        *("edit_distance", f"edit_distance<{WORDS[hyps.itemsize]}>", (pairs,), (THREADS,)),
        *(cupy.ascontiguousarray(hyps), on_device(hyp_offsets), cupy.ascontiguousarray(refs)),
        *(on_device(ref_offsets), scratch, out),
    )
    return out


def segment_ctc_align(
    ids: Array, offsets: Offsets, blanks: Array, merge_repeated: bool
) -> tuple[Array, Offsets]:
    """See edit_distance.py."""
    marks, blank = room_for_marks(ids.size), word_numbers(blanks[:1]) if blanks.size else (0, 0)
    given = (cupy.ascontiguousarray(ids), on_device(offsets), offsets.size - 1, ids.size)
    rest = (marks.height, *blank, blanks.size, int(merge_repeated), marks.kept, marks.tiles)
    kernel = f"ctc_kept<{WORDS[ids.itemsize]}>"
    run("edit_distance", kernel, marks.grid, (KEPT_THREADS,), *given, *rest)
    return compressed(ids, offsets, marks)
