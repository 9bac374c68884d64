"""Splitting and merging by a mask, against PaddlePaddle 2.6.2 and where it loses rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import (
    InvalidDataError,
    InvalidLoDError,
    SelectionError,
    ShapeMismatchError,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.ranking.split_by_mask import (
    sequence_merge_by_mask,
    sequence_merge_by_mask_grad,
    sequence_split_by_mask,
    sequence_split_by_mask_grad,
)
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import golden
from tests.golden_data import GoldenCase, GoldenSlot
from tests.oracles import gathered, lengths_of, rows_of, sequences_of, tree_of
from tests.strategies import tensors


def part_of(slot: GoldenSlot, levels: int) -> LoDTensor:
    """Return a part; one of no rows without a LoD in Paddle is a batch of none here."""
    return LoDTensor(slot.data, LoD(slot.lod if slot.lod else [[0]] * levels))


@golden("split_lod_tensor")
def test_golden_split_and_its_gradient(case: GoldenCase) -> None:
    x, level, mask = case.inputs["X"], case.attrs["level"], case.inputs["Mask"].data
    lod = LoD(x.lod)
    parts = sequence_split_by_mask(LoDTensor(x.data, lod), mask, level)
    levels = max(lod.n_levels - level, 0)
    for found, name in zip(parts, ("OutTrue", "OutFalse"), strict=True):
        assert found.identical(part_of(case.outputs[name], levels))
    if case.grads:
        upstream = [part_of(case.upstream[name], levels) for name in ("OutTrue", "OutFalse")]
        gradient = sequence_split_by_mask_grad(
            (upstream[0], upstream[1]), LoDTensor(x.data, lod), mask, level
        )
        assert gradient.identical(part_of(case.grads["X"], 0))


@golden("merge_lod_tensor")
def test_golden_merge_and_its_gradient(case: GoldenCase) -> None:
    lod, level, mask = LoD(case.inputs["X"].lod), case.attrs["level"], case.inputs["Mask"].data
    above = lod.above(level) if lod.n_levels else None
    levels = max(lod.n_levels - level, 0)
    true, false = (part_of(case.inputs[name], levels) for name in ("InTrue", "InFalse"))
    merged = sequence_merge_by_mask(true, false, mask, above)
    # The index of X. Paddle writes the levels above the masked one innermost first.
    assert merged.lod == lod
    out = case.outputs["Out"]
    assert out.lod == [list(one) for one in (*lod.levels[:level][::-1], *lod.levels[level:])]
    assert merged.identical(LoDTensor(out.data, lod))
    if case.grads:
        upstream = LoDTensor(case.upstream["Out"].data, lod)
        gradients = sequence_merge_by_mask_grad(upstream, true, false, mask, above)
        for found, name in zip(gradients, ("InTrue", "InFalse"), strict=True):
            assert found.identical(part_of(case.grads[name], levels))


@pytest.mark.parametrize("sentence", range(6))
def test_a_mask_true_at_one_place_is_the_slice_of_that_place(sentence: int) -> None:
    words = LoDTensor(np.arange(15), [[3, 1, 2], [3, 2, 4, 1, 2, 3]])
    kept, _ = sequence_split_by_mask(words, np.arange(6) == sentence, level=1)
    assert kept.identical(words.select(slice(sentence, sentence + 1), level=1))


def test_no_row_is_lost_beside_an_empty_sequence() -> None:
    # By hand; Paddle's merge_lod_tensor drops rows here.
    words = LoDTensor(np.arange(6), [[3, 0, 1, 0, 2]])
    mask = [True, True, False, False, True]
    true, false = sequence_split_by_mask(words, mask)
    assert (true.data.tolist(), true.recursive_sequence_lengths()) == ([0, 1, 2, 4, 5], [[3, 0, 2]])
    assert (false.data.tolist(), false.recursive_sequence_lengths()) == ([3], [[1, 0]])
    assert sequence_merge_by_mask(true, false, mask).identical(words)


@given(tensors(any_bits=True), st.data())
def test_the_parts_are_those_of_the_list_and_merge_again(
    tensor: LoDTensor, data: st.DataObject
) -> None:
    levels = tensor.lod.n_levels
    level = data.draw(st.integers(0, max(levels - 1, 0)))
    sequences = sequences_of(tree_of(tensor.recursive_sequence_lengths(), tensor.rows), level)
    size = len(sequences)
    mask = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    true, false = sequence_split_by_mask(tensor, np.array(mask, np.bool_).reshape(-1, 1), level)
    for found, wanted in ((true, True), (false, False)):
        part = [items for items, is_true in zip(sequences, mask, strict=True) if is_true == wanted]
        assert found.recursive_sequence_lengths() == lengths_of(part, levels - level)
        assert found.data.tobytes() == gathered(tensor.data, rows_of(part)).tobytes()
    above = tensor.lod.above(level) if levels else None
    assert sequence_merge_by_mask(true, false, mask, above).identical(tensor)
    # Splitting moves rows, so its gradient moves them back, and the other way round.
    back = sequence_split_by_mask_grad((true, false), tensor, mask, level)
    assert back.identical(tensor)
    assert back.lod is tensor.lod
    again = sequence_merge_by_mask_grad(tensor, true, false, mask, above)
    assert again[0].identical(true)
    assert again[1].identical(false)


def test_parts_of_other_lengths_are_merged_as_they_are() -> None:
    # As after an if-else whose branches drop words.
    true = LoDTensor(np.array([1, 2]), LoD.from_lengths([[2]], ["sentence"]))
    false = LoDTensor(np.array([7]), LoD.from_lengths([[0, 1]], ["sentence"]))
    merged = sequence_merge_by_mask(
        true, false, [False, True, False], LoD([[0, 1, 3]], ["article"])
    )
    assert merged.recursive_sequence_lengths() == [[1, 2], [0, 2, 1]]
    assert merged.lod.names == ("article", "sentence")
    assert merged.data.tolist() == [1, 2, 7]


WORDS = LoDTensor(np.arange(6), [[3, 1, 2]])


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True, False], ShapeMismatchError, "mask: expected 3 booleans, found 2"),
        ([1, 0, 1], InvalidDataError, "a mask holds booleans, found int64"),
        ([[True, False, True]], InvalidDataError, r"\(S,\) or \(S, 1\), found \(1, 3\)"),
        (True, InvalidDataError, r"found \(\)"),
    ],
)
def test_an_invalid_mask_of_sequences_is_an_error(
    mask: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sequence_split_by_mask(WORDS, mask)


def test_parts_that_do_not_fit_are_refused() -> None:
    mask = [True, False, True]
    true, false = sequence_split_by_mask(WORDS, mask)
    with pytest.raises(ShapeMismatchError, match="true for 2 sequences, the true part has 1"):
        sequence_merge_by_mask(false, true, mask)
    with pytest.raises(ShapeMismatchError, match="dtype of part 0"):
        sequence_merge_by_mask(true, LoDTensor(np.zeros(1), [[1]]), mask)
    with pytest.raises(InvalidLoDError, match="level 0, position 1"):
        sequence_merge_by_mask(true, false, mask, LoD([[0, 4]]))
    with pytest.raises(SelectionError, match="no level 1"):
        sequence_split_by_mask(WORDS, mask, 1)
