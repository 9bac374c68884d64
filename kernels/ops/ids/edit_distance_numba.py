"""See ops/distance.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.runtime.jit_numba import njit


def segment_edit_distance(
    hyps: Array, hyp_offsets: Offsets, refs: Array, ref_offsets: Offsets
) -> Offsets:
    """See ops/distance.py. Two rows of the longest reference are all the memory."""
    out = np.zeros(hyp_offsets.size - 1, np.int64)
    row = np.zeros(int(np.diff(ref_offsets).max(initial=0)) + 1, np.int64)
    hyps, refs = np.ascontiguousarray(hyps), np.ascontiguousarray(refs)
    _edit_distance(hyps, hyp_offsets, refs, ref_offsets, row, out)
    return out


def segment_ctc_align(
    ids: Array, offsets: Offsets, blanks: Array, merge_repeated: bool
) -> tuple[Array, Offsets]:
    """See ops/distance.py."""
    out, bounds = np.empty(ids.size, ids.dtype), np.zeros(offsets.size, np.int64)
    left = _ctc_align(np.ascontiguousarray(ids), offsets, blanks, merge_repeated, out, bounds)
    return (out if left == out.size else out[:left].copy()), bounds


@njit(cache=True, nogil=True)
def _edit_distance(hyps, hyp_offsets, refs, ref_offsets, row, out):  # type: ignore[no-untyped-def]
    for s in range(out.size):
        first, last = hyp_offsets[s], hyp_offsets[s + 1]
        ref_first, ref_last = ref_offsets[s], ref_offsets[s + 1]
        # What both begin and end with costs nothing.
        while first < last and ref_first < ref_last and hyps[first] == refs[ref_first]:
            first += 1
            ref_first += 1
        while first < last and ref_first < ref_last and hyps[last - 1] == refs[ref_last - 1]:
            last -= 1
            ref_last -= 1
        size = ref_last - ref_first
        for j in range(size + 1):
            row[j] = j
        for i in range(first, last):
            token = hyps[i]
            diagonal = row[0]
            row[0] += 1
            for j in range(size):
                above = row[j + 1]
                best = diagonal + (refs[ref_first + j] != token)
                row[j + 1] = min(best, above + 1, row[j] + 1)
                diagonal = above
        out[s] = row[size]


@njit(cache=True, nogil=True)
def _ctc_align(ids, offsets, blanks, merge_repeated, out, bounds):  # type: ignore[no-untyped-def]
    left = 0
    for segment in range(offsets.size - 1):
        for row in range(offsets[segment], offsets[segment + 1]):
            token = ids[row]
            again = merge_repeated and row > offsets[segment] and ids[row - 1] == token
            if not again and not (blanks.size > 0 and blanks[0] == token):
                out[left] = token
                left += 1
        bounds[segment + 1] = left
    return left
