"""edit_distance and ctc_align: PaddlePaddle 2.6.2, by hand, loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import EmptySequenceError, InvalidDataError, LodError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.ids.edit_distance import (
    segment_edit_distance,
    sequence_ctc_align,
    sequence_edit_distance,
)
from lodcli.kernels.ops.padding.pad import sequence_pad
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests import oracles_ids
from tests.cases_ops import compiled, golden, near, on_every_backend, same
from tests.golden_data import GoldenCase, rejected_cases, tensor_of
from tests.strategies import LAYOUTS, laid_out, lods


@on_every_backend
@golden("edit_distance", 15)
def test_golden_edit_distance(case: GoldenCase, backend: Backend) -> None:
    hyps, refs = case.inputs["Hyps"], case.inputs["Refs"]
    options: Any = {"normalized": case.attrs["normalized"], "backend": backend}
    if "HypsLength" in case.inputs:
        sides = [
            LoDTensor.from_padded(one.data, lengths=case.inputs[lengths].data)
            for one, lengths in ((hyps, "HypsLength"), (refs, "RefsLength"))
        ]
    else:
        sides = [tensor_of(hyps), tensor_of(refs)]
    out = sequence_edit_distance(*sides, **options)
    same(out, case.outputs["Out"])
    assert case.outputs["SequenceNum"].data.tolist() == [out.rows]


@on_every_backend
@golden("ctc_align", 16)
def test_golden_ctc_align(case: GoldenCase, backend: Backend) -> None:
    x = case.inputs["Input"]
    options: Any = {name: case.attrs[name] for name in ("blank", "merge_repeated")}
    if "InputLength" in case.inputs:
        lengths = case.inputs["InputLength"].data
        paths = LoDTensor.from_padded(x.data, lengths=lengths)
        found = sequence_ctc_align(paths, backend=backend, **options)
        filler, steps = case.attrs["padding_value"], x.data.shape[1]
        out, counts = sequence_pad(found, pad_value=filler, maxlen=steps, backend=backend)
        same(LoDTensor(out), case.outputs["Output"])
        same(LoDTensor(counts.astype(lengths.dtype)[:, None]), case.outputs["OutputLength"])
    else:
        same(sequence_ctc_align(tensor_of(x), backend=backend, **options), case.outputs["Output"])


# -- by hand ---------------------------------------------------------------------------


def letters(*words: str) -> LoDTensor:
    text = "".join(words).encode()
    return LoDTensor(np.frombuffer(text, np.uint8), [[len(word) for word in words]])


@on_every_backend
def test_kitten_is_three_from_sitting(backend: Backend) -> None:
    hyps, refs = letters("kitten", "", "same"), letters("sitting", "ab", "same")
    found = sequence_edit_distance(hyps, refs, normalized=False, backend=backend)
    assert found.data.tolist() == [[3], [2], [0]]
    normalized = sequence_edit_distance(hyps, refs, backend=backend)
    near(normalized.data, [[3 / 7], [1], [0]], 1e-7)
    # Without their t and i: ken and sng.
    ignoring = sequence_edit_distance(
        hyps, refs, normalized=False, ignored_tokens=b"ti", backend=backend
    )
    assert ignoring.data.tolist() == [[3], [2], [0]]
    assert sequence_edit_distance(
        letters("xaxb"), letters("abx"), normalized=False, ignored_tokens=b"x", backend=backend
    ).data.tolist() == [[0]]


@on_every_backend
def test_sentences_keep_their_articles_and_articles_are_compared_whole(backend: Backend) -> None:
    hyps = LoDTensor(np.array([1, 2, 3, 4]), LoD.from_lengths([[2, 1], [1, 1, 2]]))
    refs = LoDTensor(np.array([1, 2, 3, 5], np.int32), LoD.from_lengths([[2, 1], [0, 2, 2]]))
    found = sequence_edit_distance(hyps, refs, normalized=False, backend=backend)
    assert found.data.tolist() == [[1], [1], [1]]
    assert found.recursive_sequence_lengths() == [[2, 1]]
    whole = sequence_edit_distance(hyps, refs, normalized=False, level=0, backend=backend)
    assert whole.data.tolist() == [[0], [1]]
    assert whole.lod.n_levels == 0


@on_every_backend
def test_paths_of_an_inner_level_keep_the_levels_above(backend: Backend) -> None:
    path = LoDTensor(np.array([3, 3, 3, 0, 3, 3]), LoD.from_lengths([[2, 1], [2, 1, 3]]))
    out = sequence_ctc_align(path, level=-1, backend=backend)
    assert out.data.tolist() == [3, 3, 3]
    assert out.recursive_sequence_lengths() == [[2, 1], [1, 1, 1]]
    top = sequence_ctc_align(path, backend=backend)
    assert top.recursive_sequence_lengths() == [[1, 1]]
    assert sequence_ctc_align(
        path, blank=9, merge_repeated=False, backend=backend
    ).data.tolist() == [*(3, 3, 3, 0, 3, 3)]


# -- against loops ---------------------------------------------------------------------

words = st.lists(st.integers(0, 3), max_size=7)


@on_every_backend
@compiled
@given(
    pairs=st.lists(st.tuples(words, words), max_size=4),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(["int64", "int32"]),
)
def test_distances_are_those_of_the_recursion(
    backend: Backend, pairs: list[tuple[list[int], list[int]]], layout: str, dtype: str
) -> None:
    sides = []
    for side in range(2):
        ids = np.array([token for pair in pairs for token in pair[side]], dtype)
        sides.append(LoDTensor(laid_out(ids, layout), [[len(pair[side]) for pair in pairs]]))
    found = sequence_edit_distance(*sides, normalized=False, backend=backend)
    wanted = [[oracles_ids.edit_distance(a, b)] for a, b in pairs]
    assert found.data.tolist() == wanted
    assert found.data.shape == (len(pairs), 1)
    assert found.dtype == np.float32


def test_long_sequences_agree_on_both_backends() -> None:
    generator = np.random.default_rng(8)
    hyps, refs = generator.integers(0, 5, 700), generator.integers(0, 5, 650)
    offsets = np.array([0, 0, 400, 700]), np.array([0, 5, 5, 650])
    one = segment_edit_distance(hyps, offsets[0], refs, offsets[1])
    two = on("numba", segment_edit_distance)(hyps, offsets[0], refs, offsets[1])
    assert one.tolist() == two.tolist()
    assert one[:2].tolist() == [5, 400]
    assert 645 - 300 < one[2] < 645


@on_every_backend
@compiled
@given(
    lod=lods(min_levels=1),
    blank=st.integers(-1, 3),
    merge=st.booleans(),
    column=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(["int64", "uint8"]),
    seed=st.integers(0, 1000),
)
def test_labels_are_those_of_the_loops(
    backend: Backend,
    lod: LoD,
    blank: int,
    merge: bool,
    column: bool,
    layout: str,
    dtype: str,
    seed: int,
) -> None:
    level = seed % lod.n_levels
    rows = lod.rows or 0
    data = np.random.default_rng(seed).integers(0, 3, rows).astype(dtype)
    tensor = LoDTensor(laid_out(data[:, None] if column else data, layout), lod)
    out = sequence_ctc_align(
        tensor, blank=blank, merge_repeated=merge, level=level, backend=backend
    )
    parts = oracles_ids.sequences(data, lod.absolute(level))
    wanted = [oracles_ids.ctc(part.tolist(), blank, merge) for part in parts]
    assert out.data.ravel().tolist() == [token for labels in wanted for token in labels]
    assert out.row_shape == tensor.row_shape
    assert out.dtype == dtype
    assert out.recursive_sequence_lengths() == [
        *lod.recursive_sequence_lengths()[:level],
        [len(labels) for labels in wanted],
    ]


# -- refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("identity", ["reject066", "reject067", "reject068"])
def test_refused_distances_are_refused(identity: str) -> None:
    case = rejected_cases("edit_distance")[identity]
    assert case.note == "reject"
    with pytest.raises(LodError):
        sequence_edit_distance(case.tensor("Hyps"), case.tensor("Refs"), **case.attrs)


@on_every_backend
def test_two_levels_are_compared_on_the_last(backend: Backend) -> None:
    cases = rejected_cases("edit_distance")
    assert list(cases)[3:] == ["reject069"]
    hyps, refs = cases["reject069"].tensor("Hyps"), cases["reject069"].tensor("Refs")
    found = sequence_edit_distance(hyps, refs, normalized=False, backend=backend)
    sides = [oracles_ids.sequences(x.data.ravel(), x.lod.levels[-1]) for x in (hyps, refs)]
    assert found.data.tolist() == [
        [oracles_ids.edit_distance(a.tolist(), b.tolist())] for a, b in zip(*sides, strict=True)
    ]
    assert found.recursive_sequence_lengths() == [[2, 1]]


@on_every_backend
def test_paths_of_blanks_leave_no_rows(backend: Backend) -> None:
    cases = rejected_cases("ctc_align")
    assert list(cases) == ["reject070", "reject071"]
    out = sequence_ctc_align(cases["reject070"].tensor("Input"), backend=backend)
    assert out.data.shape == (0, 1)
    assert out.recursive_sequence_lengths() == [[0, 0]]
    with pytest.raises(LodError, match="no levels"):
        sequence_ctc_align(cases["reject071"].tensor("Input"))


def test_invalid_arguments_are_errors() -> None:
    one, two = letters("ab", "c"), letters("a", "")
    with pytest.raises(EmptySequenceError, match="reference 1 is empty"):
        sequence_edit_distance(one, two)
    with pytest.raises(EmptySequenceError, match="reference 0 is empty"):
        sequence_edit_distance(one, one, ignored_tokens=b"ab")
    with pytest.raises(ShapeMismatchError, match="2 hypotheses, 1 references"):
        sequence_edit_distance(one, letters("a"))
    nested = [
        LoDTensor(np.zeros(2, int), LoD.from_lengths([counts, [1, 1]])) for counts in ([2], [1, 1])
    ]
    with pytest.raises(ShapeMismatchError, match="differ above their level"):
        sequence_edit_distance(*nested)
    with pytest.raises(InvalidDataError, match="cannot compare uint64 and int64"):
        sequence_edit_distance(
            LoDTensor(np.zeros(1, np.uint64), [[1]]), LoDTensor(np.zeros(1, int), [[1]])
        )
