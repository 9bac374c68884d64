"""Drawings and previews, some from PaddlePaddle's design documents of LoD tensors."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lodcli.commands.inspect.drawing import draw, preview
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.strategies import lods


def drawn(
    lengths: list[list[int]],
    row_shape: tuple[int, ...] = (),
    *,
    names: list[str | None] | None = None,
    width: int = 80,
    unicode: bool = True,
) -> str:
    lod = LoD.from_lengths(lengths, names)
    return "\n".join(draw(lod, lod.rows or 0, row_shape, width=width, unicode=unicode)) + "\n"


def by_hand(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def text_tensor(*sequences: bytes) -> LoDTensor:
    data = np.frombuffer(b"".join(sequences), np.uint8)
    return LoDTensor(data, [[len(sequence) for sequence in sequences]])


def test_sentences_are_drawn_as_in_the_seed() -> None:
    assert drawn([[3, 1, 2]], (128,)) == by_hand("""
        3   1 2
        ||| | ||
    """)


def test_articles_are_drawn_as_in_the_seed() -> None:
    assert drawn([[3, 1, 2], [3, 2, 4, 1, 2, 3]]) == by_hand("""
        3           1  2
        3   2  4    1  2  3
        ||| || |||| |  || |||
    """)


def test_videos_are_drawn_as_in_the_seed() -> None:
    # The seed has one space less above: there 口 counts as one column more than it takes.
    assert drawn([[3, 1, 2]], (480, 640)) == by_hand("""
        3      1  2
        口口口 口 口口
    """)
    assert drawn([[3, 1, 2]], (480, 640), unicode=False) == by_hand("""
        3   1 2
        ### # ##
    """)


def test_the_slice_of_the_seed() -> None:
    # The <1,2>-slice "2 3 / || |||" with its article above.
    assert drawn([[2], [2, 3]]) == by_hand("""
        2
        2  3
        || |||
    """)


def test_no_levels_are_rows_only() -> None:
    assert draw(LoD(), 4, (3,)) == ["||||"]
    assert draw(LoD(), 100, width=20) == ["|" * 18 + ".."]
    assert draw(LoD(), 100, (2, 2), width=20) == ["口" * 9 + ".."]
    assert draw(LoD(), 0) == []


def test_three_levels_line_up() -> None:
    assert drawn([[2, 1], [3, 1, 2], [3, 2, 4, 1, 2, 3]]) == by_hand("""
        2              1
        3           1  2
        3   2  4    1  2  3
        ||| || |||| |  || |||
    """)


def test_names_stand_at_the_left() -> None:
    assert drawn([[2, 1], [1, 2, 1]], names=["article", None]) == by_hand("""
        article  2    1
                 1 2  1
                 | || |
    """)
    assert drawn([[1, 2]], names=["größe"]) == by_hand("""
        größe  1 2
               | ||
    """)


def test_empty_sequences_are_a_zero_above_a_blank() -> None:
    assert drawn([[2, 0, 1], [0, 1, 3]]) == by_hand("""
        2   0  1
        0 1    3
          |    |||
    """)
    assert drawn([[0, 0]]) == "0 0\n"
    assert draw(LoD.from_lengths([[], []]), 0) == []


def test_counts_wider_than_their_rows_keep_apart() -> None:
    assert drawn([[12, 3], [0] * 12 + [1, 1, 1]], width=60) == by_hand("""
        12                      3
        0 0 0 0 0 0 0 0 0 0 0 0 1 1 1
                                | | |
    """)


def test_items_that_do_not_fit_are_cut_and_marked() -> None:
    assert drawn([[1] * 100], width=20) == by_hand("""
        1 1 1 1 1 1 1 1 1 ..
        | | | | | | | | |
    """)
    assert drawn([[100, 3, 500, 2]], width=32) == by_hand("""
        100        3   500        2
        ||||||||.. ||| ||||||||.. ||
    """)
    assert drawn([[30, 3], [5] * 33], width=30) == by_hand("""
        30           3
        5    5    .. 5    5    ..
        ||.. ||..    ||.. ||..
    """)


def test_a_count_too_wide_for_any_room_is_cut() -> None:
    assert draw(LoD([[0, 10**18]]), 10**18, width=10) == ["10000000..", "|.."]


@given(lods(), st.integers(12, 90), st.booleans())
def test_drawings_keep_their_width_and_show_small_tensors_whole(
    lod: LoD, width: int, wide: bool
) -> None:
    rows = 5 if lod.rows is None else lod.rows
    lines = draw(lod, rows, (2, 2) if wide else (), width=width + 12)
    columns = [len(line) + line.count("口") for line in lines]
    assert max(columns, default=0) <= width + 12
    everything = draw(lod, rows, width=10_000)
    assert sum(line.count("|") for line in everything) == rows


def test_a_huge_index_is_drawn_at_once() -> None:
    offsets = np.arange(10**6 + 1)
    lines = draw(LoD([offsets, offsets, offsets]), 10**6)
    assert max(map(len, lines)) == 80


# -- text --------------------------------------------------------------------------


def test_text_is_quoted() -> None:
    assert preview(text_tensor(b"A", b"hungry", b"", "Füchsin".encode())) == (
        '"A" "hungry" "" "Füchsin"'
    )


def test_control_characters_and_quotes_come_escaped() -> None:
    assert preview(text_tensor(b'say "hi" \\ now\n')) == r'"say \"hi\" \\ now\n"'
    # Fewer than one in ten, or it would not be taken for text.
    assert preview(text_tensor(b"an escape \x1b[2J")) == r'"an escape \x1b[2J"'
    assert preview(text_tensor("right to left \u202e".encode())) == r'"right to left \u202e"'
    found = preview(text_tensor("a c1 control \x9b31m".encode()))
    assert found is not None
    assert found.isprintable()


def test_long_text_is_cut() -> None:
    words = [b"word"] * 100
    found = preview(text_tensor(*words), width=30)
    assert found == '"word" "word" "word" "word" ..'
    assert preview(text_tensor(b"x" * 100, b"y"), width=20) == '"xxxxxxxxxxxxx".. ..'
    assert preview(text_tensor("口".encode() * 1000), width=20) == '"口口口口口口"..'


def test_a_long_first_sequence_may_be_cut_inside_a_character() -> None:
    found = preview(text_tensor("口".encode() * 100), width=1000)
    assert found == '"' + "口" * 85 + '"..'


@pytest.mark.parametrize(
    "tensor",
    [
        text_tensor(b"fine", b"\xff\xfe"),
        text_tensor(b"\0\1\2\3"),
        text_tensor(),
        LoDTensor(np.zeros((3, 1), np.uint8), [[3]]),
        LoDTensor(np.frombuffer(b"abc", np.int8), [[3]]),
        LoDTensor(np.frombuffer(b"abc", np.uint8)),
    ],
)
def test_other_content_than_text_has_no_preview(tensor: LoDTensor) -> None:
    assert preview(tensor) is None


@given(st.lists(st.text(max_size=12), max_size=6), st.integers(20, 60))
@example(["00", "0000", "0000", ""], 20)
def test_previews_are_printable_and_narrow(texts: list[str], width: int) -> None:
    texts = [text.encode(errors="ignore").decode() for text in texts]
    found = preview(text_tensor(*(text.encode() for text in texts)), width=width)
    if found is not None:
        assert found.isprintable()
        assert len(found) <= width
