"""See edit_distance.py."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import WORDS, on_device, run
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.ids.ids_cupy import segment_compress

THREADS = 128


def segment_edit_distance(
    hyps: Array, hyp_offsets: Offsets, refs: Array, ref_offsets: Offsets
) -> Array:
    """See edit_distance.py."""
    pairs = hyp_offsets.size - 1
    out: Array = cupy.empty(pairs, np.int64)
    scratch = cupy.empty(3 * (int(ref_offsets[-1]) + pairs), np.int32)
    # Ids are compared, never added: words of their size do.
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
    kept = cupy.ones(ids.shape, np.bool_) if not blanks.size else ids != blanks[0]
    if merge_repeated and ids.size:
        new = cupy.ones(ids.shape, np.bool_)
        new[1:] = ids[1:] != ids[:-1]
        # The first of a sequence repeats nothing.
        new[on_device(offsets[:-1][offsets[:-1] < offsets[1:]])] = True
        kept = kept & new
    return segment_compress(ids, offsets, kept)
