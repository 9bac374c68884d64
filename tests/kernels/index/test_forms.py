"""Every way the design documents write an index, and every example they work out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from lodcli.kernels.errors import InvalidLoDError
from lodcli.kernels.index.forms import (
    absolute_lengths,
    absolute_offsets,
    lod_from_absolute_lengths,
    lod_from_absolute_offsets,
    nested_offsets,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.oracles import rows_of, sequences_of, tree_of
from tests.strategies import lengths_trees

ARTICLES = [[3, 1, 2], [3, 2, 4, 1, 2, 3]]
NESTED = [[0, 3, 4, 6], [0, 3, 5, 9, 10, 12, 15]]
ABSOLUTE = [[0, 9, 10, 15], [0, 3, 5, 9, 10, 12, 15]]


def test_articles_in_every_form() -> None:
    lod = LoD.from_lengths(ARTICLES)
    assert nested_offsets(lod) == NESTED
    assert absolute_offsets(lod) == ABSOLUTE
    # Seed 001: "the final format", which leaves the totals to the batch size.
    assert absolute_offsets(lod, closed=False) == [[0, 9, 10], [0, 3, 5, 9, 10, 12]]
    assert absolute_lengths(lod) == [[9, 1, 5], [3, 2, 4, 1, 2, 3]]


@pytest.mark.parametrize(
    "lod",
    [
        LoD(NESTED),
        lod_from_absolute_offsets(ABSOLUTE),
        lod_from_absolute_offsets(ABSOLUTE, rows=15),
        lod_from_absolute_offsets([[0, 9, 10], [0, 3, 5, 9, 10, 12]], rows=15),
        lod_from_absolute_offsets([[0, 9, 10], [0, 3, 5, 9, 10, 12, 15]], rows=15),
        # Seed 002, the review: finest level first.
        lod_from_absolute_offsets(ABSOLUTE[::-1], order="fine-to-coarse"),
        # Seed 002, the review: "9 1 5" over "3 2 4 1 2 3".
        lod_from_absolute_lengths([[9, 1, 5], [3, 2, 4, 1, 2, 3]]),
        lod_from_absolute_lengths([[3, 2, 4, 1, 2, 3], [9, 1, 5]], order="fine-to-coarse"),
    ],
    ids=[
        "nested",
        "absolute",
        "absolute, rows given",
        "absolute without totals",
        "absolute, one total missing",
        "fine to coarse",
        "lengths in rows",
        "lengths in rows, fine to coarse",
    ],
)
def test_every_form_reads_as_the_same_articles(lod: LoD) -> None:
    assert lod.recursive_sequence_lengths() == ARTICLES


# -- seed 000, "Design Doc: LoD (Level-of-Detail) Tensor" ------------------------------


def test_three_sentences_of_3_1_2_words() -> None:
    words = LoDTensor(np.zeros((3 + 1 + 2, 8)), [[3, 1, 2]])
    assert nested_offsets(words.lod) == [[0, 3, 4, 6]]


def test_three_videos_of_3_1_2_frames() -> None:
    videos = LoDTensor(np.zeros((3 + 1 + 2, 640, 480), np.uint8), [[3, 1, 2]])
    assert videos.row_shape == (640, 480)
    assert [video.data.shape for video in videos] == [(3, 640, 480), (1, 640, 480), (2, 640, 480)]


def test_a_batch_of_images_says_the_same_with_ones_and_without() -> None:
    images = LoDTensor(np.arange(5 * 4).reshape(5, 2, 2), [[1] * 5])
    usual = LoDTensor(images.data)
    assert usual.lod.n_levels == 0
    assert len(images) == len(usual) == 5
    np.testing.assert_array_equal(images[3].data, usual[3:4].data)


def test_a_model_parameter_has_no_levels() -> None:
    assert LoDTensor(np.zeros((4, 3))).recursive_sequence_lengths() == []


def test_branch_0_2_is_the_third_sentence_of_length_4() -> None:
    words = LoDTensor(np.arange(15), ARTICLES)
    assert words[0, 2].data.tolist() == [5, 6, 7, 8]


def test_the_first_and_second_sentence_lie_where_the_offsets_say() -> None:
    sentences = LoD.from_lengths([[3, 2, 4, 1, 2, 3]]).levels[0]
    assert sentences.tolist() == [0, 3, 5, 9, 10, 12, 15]
    words = LoDTensor(np.arange(15), ARTICLES)
    assert words.select(0, level=1).data.tolist() == list(range(0, 3))
    assert words.select(1, level=1).data.tolist() == list(range(3, 5))


def test_the_2_slice_and_the_2_0_slice_of_seed_000() -> None:
    words = LoDTensor(np.arange(15), ARTICLES)
    article = words[2]
    # Drawn as "10 15 / 10 12 15": our slice counts from its own first row.
    assert absolute_offsets(words[2:3].lod) == [[0, 5], [0, 2, 5]]
    assert article.recursive_sequence_lengths() == [[2, 3]]
    assert article.data.tolist() == [10, 11, 12, 13, 14]
    # "the <2,0>-slice of above slice": its sentence 0.
    assert article[0].data.tolist() == words[2, 0].data.tolist() == [10, 11]


def test_lengths_are_set_and_got_as_in_seed_000() -> None:
    tensor = LoDTensor(np.zeros(11), [[3, 1, 2], [2, 2, 1, 3, 1, 2]])
    assert tensor.recursive_sequence_lengths() == [[3, 1, 2], [2, 2, 1, 3, 1, 2]]
    # As written there the new index covers 6 of the 11 rows; that is refused here.
    with pytest.raises(InvalidLoDError, match=r"expected 11, found 6"):
        tensor.set_recursive_sequence_lengths([[3, 1, 2]])
    assert tensor.recursive_sequence_lengths() == [[3, 1, 2], [2, 2, 1, 3, 1, 2]]
    per_sentence = LoDTensor(np.zeros(6), [[6]])
    per_sentence.set_recursive_sequence_lengths([[3, 1, 2]])
    assert per_sentence.recursive_sequence_lengths() == [[3, 1, 2]]


# -- seed 001, the same document before: the batch size drawn as a level of its own ----

DRAWN = [[3], [3, 1, 2], [3, 2, 4, 1, 2, 3]]


def test_the_count_on_top_is_one_more_level() -> None:
    assert LoD.from_lengths([[3], [3, 1, 2]]).rows == 6
    lod = LoD.from_lengths(DRAWN)
    assert absolute_offsets(lod, closed=False) == [[0], [0, 9, 10], [0, 3, 5, 9, 10, 12]]
    again = lod_from_absolute_offsets([[0], [0, 9, 10], [0, 3, 5, 9, 10, 12]], rows=15)
    assert again == lod


def test_the_slices_of_the_four_level_drawing() -> None:
    words = LoDTensor(np.arange(15), DRAWN)
    # <2,1>, drawn "2 / ||": the second of all sentences.
    sentence = words.select(slice(1, 2), level=2)
    assert sentence.recursive_sequence_lengths() == [[2]]
    assert sentence.data.tolist() == [3, 4]
    # <1,2>, drawn "2 / 2 3 / || |||": the third of all articles.
    article = words.select(slice(2, 3), level=1)
    assert article.recursive_sequence_lengths() == [[2], [2, 3]]
    assert article.data.tolist() == [10, 11, 12, 13, 14]
    # <1,1> of that slice, drawn "3 / |||".
    last = article.select(slice(1, 2), level=1)
    assert last.recursive_sequence_lengths() == [[3]]
    assert last.data.tolist() == [12, 13, 14]


def test_the_third_element_of_level_2_lies_at_10_to_15() -> None:
    # Seed 001, "Performance Improvement with Offset": 3 + 1 articles before it, 10 words.
    lod = LoD.from_lengths(DRAWN)
    assert lod.lengths(1)[2] == 2
    assert lod.levels[1][2:4].tolist() == [3 + 1, 3 + 1 + 2]
    assert lod.absolute(1)[2:4].tolist() == [10, 15]


# -- seed 002, the review --------------------------------------------------------------


def test_one_level_of_2_1_3_words() -> None:
    assert nested_offsets(LoD.from_lengths([[2, 1, 3]])) == [[0, 2, 3, 6]]
    assert lod_from_absolute_offsets([[0, 2, 3, 6]]).count(0) == 3


def test_one_level_and_a_single_sequence_of_it_differ_by_their_levels() -> None:
    nested = lod_from_absolute_offsets([[0, 2, 3, 6], [0, 6]], order="fine-to-coarse")
    assert nested.recursive_sequence_lengths() == [[3], [2, 1, 3]]


@pytest.mark.parametrize(
    ("levels", "coarse_first"),
    [
        ([[0, 5, 7, 13], [0, 2, 5, 7, 10, 12, 13]], True),
        ([[0, 2, 5, 7, 10, 12, 13], [0, 5, 7, 13]], False),
    ],
)
def test_two_levels_of_the_review_in_both_orders(
    levels: list[list[int]], coarse_first: bool
) -> None:
    order = "coarse-to-fine" if coarse_first else "fine-to-coarse"
    lod = lod_from_absolute_offsets(levels, order=order)  # type: ignore[arg-type]
    assert lod.recursive_sequence_lengths() == [[2, 1, 3], [2, 3, 2, 3, 2, 1]]


def test_the_wrong_order_is_noticed() -> None:
    with pytest.raises(InvalidLoDError, match="row 2 is no boundary of level 1"):
        lod_from_absolute_offsets([[0, 2, 5, 7, 10, 12, 13], [0, 5, 7, 13]])


# -- what counting in rows cannot say --------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "rows", "level", "position", "message"),
    [
        # Does the empty sentence belong to the first article or to the second?
        ([[0, 3, 5], [0, 3, 3, 5]], None, 0, 1, "row 3 is several boundaries of level 1; give"),
        ([[0, 4, 5], [0, 3, 5]], None, 0, 1, "row 4 is no boundary of level 1"),
        ([[0, 3], [0, 5]], None, 0, 1, "must end with the same total"),
        ([[0, 9], [0, 3]], 5, 0, 1, "offset beyond the rows"),
        ([[0, 3, 2], [0, 3]], None, 0, 2, "decrease"),
        ([[0, 3], [1, 3]], None, 1, 0, "first offset"),
        ([[0, 3], []], None, 1, None, "no offsets"),
    ],
)
def test_ambiguous_or_wrong_input_is_an_error_and_not_a_guess(
    levels: list[list[int]], rows: int | None, level: int, position: int | None, message: str
) -> None:
    with pytest.raises(InvalidLoDError, match=message) as caught:
        lod_from_absolute_offsets(levels, rows=rows)
    assert (caught.value.level, caught.value.position) == (level, position)


def test_empty_sequences_at_either_end_are_not_ambiguous() -> None:
    lod = lod_from_absolute_offsets([[0, 3, 5], [0, 0, 3, 5, 5]])
    assert lod.recursive_sequence_lengths() == [[2, 2], [0, 3, 2, 0]]


def is_ambiguous(lengths: list[list[int]]) -> bool:
    """Say whether a sequence between two others starts where a lower level has no rows."""
    for level in range(len(lengths) - 1):
        tree = tree_of(lengths, sum(lengths[-1]))
        ends = [0]
        for item in sequences_of(tree, level + 1):
            ends.append(ends[-1] + len(rows_of(item)))
        start = 0
        for item in sequences_of(tree, level)[:-1]:
            start += len(rows_of(item))
            if ends.count(start) > 1:
                return True
    return False


@given(lengths_trees(min_levels=1))
def test_rows_are_read_back_or_refused_as_ambiguous(lengths: list[list[int]]) -> None:
    lod = LoD.from_lengths(lengths)
    offsets, sizes = absolute_offsets(lod), absolute_lengths(lod)
    tree = tree_of(lengths, sum(lengths[-1]))
    assert sizes == [
        [len(rows_of(item)) for item in sequences_of(tree, level)] for level in range(len(lengths))
    ]
    if is_ambiguous(lengths):
        with pytest.raises(InvalidLoDError, match="several boundaries"):
            lod_from_absolute_offsets(offsets)
        return
    assert lod_from_absolute_offsets(offsets) == lod
    assert lod_from_absolute_lengths(sizes) == lod
    # Of no rows, a level [0] given with rows=0 could be an open level of one sequence.
    rows = lod.rows or None
    flipped = lod_from_absolute_offsets(offsets[::-1], order="fine-to-coarse", rows=rows)
    assert flipped == lod
    if all(level[-1] > 0 for level in sizes if level) and rows:
        assert lod_from_absolute_offsets(absolute_offsets(lod, closed=False), rows=rows) == lod
