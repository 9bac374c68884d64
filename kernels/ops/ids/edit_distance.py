"""Edit distances of label sequences, and alignment of CTC paths."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lodcli.kernels.errors import EmptySequenceError, InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.ops.arguments import (
    exact_ids,
    id_column,
    moved,
    recut,
    segment_numbers,
    segments,
)
from lodcli.kernels.ops.ids.ids import segment_compress, sequence_erase
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import beside
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_edit_distance(
    hyps: LoDTensor,
    refs: LoDTensor,
    *,
    normalized: bool = True,
    ignored_tokens: Iterable[int] = (),
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the edit distance between sequence s of `hyps` and sequence s of `refs`, for all s.

    It is the least number of insertions, deletions and substitutions.

    Args:
        hyps: whole numbers, (N,) or (N, 1).
        refs: whole numbers, (M,) or (M, 1), with the same number of sequences.
        normalized: divide by the length of the reference.
        ignored_tokens: ids that are first removed from both.
        level: the level whose sequences are compared, each with all its rows; by default the
            finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        float32 (S, 1), one distance for each sequence, under the levels above `level`.

    Raises:
        SelectionError: there is no such level.
        EmptySequenceError: `normalized`, and a reference is empty; names it.
        InvalidDataError, ShapeMismatchError: the rows are not single integers, or the numbers of
            sequences differ.

    References:
        Wagner and Fischer (1974), "The String-to-String Correction Problem".

    >>> hyps = LoDTensor(np.array([1, 2, 3, 7]), [[3, 1]])
    >>> refs = LoDTensor(np.array([1, 3]), [[2, 0]])
    >>> sequence_edit_distance(hyps, refs, normalized=False).data.tolist()
    [[1.0], [1.0]]
    """
    ignored = list(ignored_tokens)
    if ignored:
        hyps, refs = sequence_erase(hyps, ignored), sequence_erase(refs, ignored)
    hyp_offsets = segments(hyps, level, "edit_distance")
    ref_offsets = segments(refs, level, "edit_distance")
    above = hyps.lod.above(level)
    if hyp_offsets.size != ref_offsets.size:
        raise ShapeMismatchError(
            f"edit_distance: {hyp_offsets.size - 1} hypotheses, {ref_offsets.size - 1} references"
        )
    found = above.difference(refs.lod.above(level))
    if found is not None:
        raise ShapeMismatchError(f"edit_distance: hyps and refs differ above their level: {found}")
    ours, theirs = id_column(hyps, "edit_distance"), id_column(refs, "edit_distance")
    if ours.dtype != theirs.dtype:
        common = np.result_type(ours.dtype, theirs.dtype)
        if common.kind not in "iu":
            raise InvalidDataError(f"edit_distance: cannot compare {ours.dtype} and {theirs.dtype}")
        ours, theirs = ours.astype(common), theirs.astype(common)
    lengths = offsets_to_lengths(ref_offsets)
    if normalized and not lengths.all():
        raise EmptySequenceError(
            f"edit_distance: reference {int(np.argmin(lengths))} is empty; a normalized distance "
            "divides by its length"
        )
    # The size of the computed table, not of the input, decides whether a compiled kernel pays.
    size_bytes = 8 * int(offsets_to_lengths(hyp_offsets) @ lengths)
    run = on(backend, segment_edit_distance, size_bytes=size_bytes)
    distances: Array = run(ours, hyp_offsets, theirs, ref_offsets)
    if normalized:
        distances = distances / beside(lengths, distances)
    return LoDTensor._made(distances.astype(np.float32)[:, None], above)


@types_explained
def sequence_ctc_align(
    tensor: LoDTensor,
    *,
    blank: float | str = 0,
    merge_repeated: bool = True,
    level: int | str = 0,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the labels of CTC paths: repetitions merged, blanks dropped.

    Args:
        tensor: whole numbers, (N,) or (N, 1).
        blank: the id of the blank label; also its word, if the rows are categories.
        merge_repeated: drop an id that equals the one just before it in its sequence; a blank
            between two equal ids keeps both.
        level: the level whose sequences are paths; by default the outermost, as in PaddlePaddle.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        The remaining rows, under levels 0 to `level`.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are not single integers.

    References:
        Graves et al. (2006), "Connectionist Temporal Classification", the map B.

    >>> path = LoDTensor(np.array([0, 1, 1, 0, 1, 1]), [[5, 1]])
    >>> labels = sequence_ctc_align(path)
    >>> labels.data.tolist(), labels.recursive_sequence_lengths()
    ([1, 1, 1], [[2, 1]])
    """
    offsets = segments(tensor, level, "ctc_align")
    ids = id_column(tensor, "ctc_align")
    blanks = exact_ids([in_unit(blank, tensor.marks.unit)], tensor.dtype, "ctc_align")
    run = on(backend, segment_ctc_align, size_bytes=ids.nbytes)
    kept, bounds = run(ids, offsets, blanks, merge_repeated)
    return moved(tensor, kept.reshape(-1, *tensor.row_shape), recut(tensor.lod, level, bounds))


# -- arrays ----------------------------------------------------------------------------


def segment_edit_distance(
    hyps: Array, hyp_offsets: Offsets, refs: Array, ref_offsets: Offsets
) -> Offsets:
    """Return the distance of each pair of segments, (S,) int64."""
    distances = np.zeros(hyp_offsets.size - 1, np.int64)
    for s in range(distances.size):
        reference = refs[ref_offsets[s] : ref_offsets[s + 1]]
        places = np.arange(reference.size + 1)
        row = places
        for number, token in enumerate(hyps[hyp_offsets[s] : hyp_offsets[s + 1]], start=1):
            best = np.concatenate(
                ([number], np.minimum(row[:-1] + (reference != token), row[1:] + 1))
            )
            # min over i <= j of best[i] + (j - i): insertion of the ids from i to j.
            row = np.minimum.accumulate(best - places) + places
        distances[s] = row[-1]
    return distances


def segment_ctc_align(
    ids: Array, offsets: Offsets, blanks: Array, merge_repeated: bool
) -> tuple[Array, Offsets]:
    """Return the labels of each segment and their offsets.

    Args:
        ids: (N,) integers.
        blanks: (1,), the blank in the dtype of `ids`; (0,) if it is out of range.
    """
    kept = np.isin(ids, blanks, invert=True)
    if merge_repeated:
        of = segment_numbers(offsets)
        kept[1:] &= (ids[1:] != ids[:-1]) | (of[1:] != of[:-1])
    return segment_compress(ids, offsets, kept)
