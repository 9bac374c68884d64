"""Kernels of sequences of ids."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, T, kernel

# Other dtypes are cast to one of these: ids.py.
_IDS = ("uint8", "int32", "int64")


@kernel(types=_IDS)
def erase(
    ids: Pointer[T], offsets: Pointer[np.int64], tokens: Pointer[T], count: int, out: Pointer[T],
    bounds: Pointer[np.int64], segments: int,
) -> int:  # fmt: skip
    """Copy the ids that are not among `count` sorted tokens, and write their offsets."""
    left = 0
    bounds[0] = 0
    for segment in range(segments):
        for row in range(offsets[segment], offsets[segment + 1]):
            token = ids[row]
            low, high = 0, count
            while low < high:
                middle = (low + high) // 2
                if tokens[middle] < token:
                    low = middle + 1
                else:
                    high = middle
            if low == count or tokens[low] != token:
                out[left] = token
                left += 1
        bounds[segment + 1] = left
    return 0


@kernel(types=_IDS)
def enumerate_ids(
    ids: Pointer[T], offsets: Pointer[np.int64], out: Pointer[T], segments: int, width: int
) -> int:
    """Write for each id the ids from it on, up to `width` of them, into rows of padding."""
    for segment in range(segments):
        end = offsets[segment + 1]
        for row in range(offsets[segment], end):
            to, source = out + row * width, ids + row
            for k in range(min(width, end - row)):
                to[k] = source[k]
    return 0


@kernel(types=_IDS)
def ctc_align(
    ids: Pointer[T], offsets: Pointer[np.int64], blanks: Pointer[T], count: int, merge: bool,
    out: Pointer[T], bounds: Pointer[np.int64], segments: int,
) -> int:  # fmt: skip
    """Copy the non-blank ids, merging repeats if `merge`; write their offsets.

    Args:
        blanks, count: the blank, or none.
    """
    left = 0
    bounds[0] = 0
    for segment in range(segments):
        for row in range(offsets[segment], offsets[segment + 1]):
            token = ids[row]
            again = merge and row > offsets[segment] and ids[row - 1] == token
            if not again and not (count > 0 and blanks[0] == token):
                out[left] = token
                left += 1
        bounds[segment + 1] = left
    return 0


@kernel(types=_IDS)
def edit_distance(
    hyps: Pointer[T], hyp_offsets: Pointer[np.int64], refs: Pointer[T],
    ref_offsets: Pointer[np.int64], row: Pointer[np.int64], out: Pointer[np.int64], segments: int,
) -> int:  # fmt: skip
    """Write the edit distance of each pair of segments.

    Args:
        row: scratch, one more than the longest reference.
    """
    for s in range(segments):
        begin, end = hyp_offsets[s], hyp_offsets[s + 1]
        ref_begin, ref_end = ref_offsets[s], ref_offsets[s + 1]
        # A common prefix and suffix cost nothing.
        while begin < end and ref_begin < ref_end and hyps[begin] == refs[ref_begin]:
            begin += 1
            ref_begin += 1
        while begin < end and ref_begin < ref_end and hyps[end - 1] == refs[ref_end - 1]:
            end -= 1
            ref_end -= 1
        size = ref_end - ref_begin
        for j in range(size + 1):
            row[j] = j
        for i in range(begin, end):
            token = hyps[i]
            diagonal = row[0]
            row[0] += 1
            for j in range(size):
                above = row[j + 1]
                best = diagonal + (1 if refs[ref_begin + j] != token else 0)
                row[j + 1] = min(best, above + 1, row[j] + 1)
                diagonal = above
        out[s] = row[size]
    return 0
