"""Ranks of texts; Python's bytes, sorted and in dictionaries, are the oracle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.order import ranks, ranks_native
from lodcli.kernels.order.ranks import changes, in_order, text_ranks
from lodcli.kernels.order.texts import Texts

# Few parts, so that texts are equal and begin alike; lengths around words of seven and eight.
PARTS = st.sampled_from([b"a" * 7, b"\0" * 7, b"\xff" * 7, b"a", b"\0", b"\xff"])
TEXT = st.lists(PARTS, max_size=4).map(b"".join)
EDGES = [b"", b"\0", b"a" * 7, b"a" * 7 + b"\0", b"a" * 8, b"a" * 8 + b"\0", b"a" * 9, b"a" * 600]


def texts_of(contents: list[bytes]) -> Texts:
    """Return texts in an array that begins and ends with other bytes."""
    offsets = np.cumsum([2, *map(len, contents)])
    return Texts.of(np.frombuffer(b"--" + b"".join(contents) + b"-", np.uint8), offsets)


Sorting = Callable[[Texts], tuple[np.ndarray, np.ndarray]]


def compiled() -> None:
    pytest.importorskip("numba", reason="kernels are compiled by numba")


def one_byte() -> list[bytes]:
    """Return texts of which only one byte differs, at each place in a word."""
    places = range(16)
    return [b"x" * at + bytes([byte]) + b"x" * (15 - at) for at in places for byte in range(256)]


def beginnings() -> list[bytes]:
    """Return texts that begin others, also with zeros, and the bytes of others behind them."""
    lengths = range(40, 0, -1)
    zeros = [b"a" * n + b"\0" * more for n in (0, 1, 7, 8, 9) for more in lengths]
    return [b"a" * n for n in lengths] + zeros + [text + b"b" for text in zeros]


def many_numbers() -> list[bytes]:
    draws = np.random.default_rng(0).integers(0, 40_000, 60_000)
    return [b"common-%d" % number for number in draws.tolist()]


def many_short() -> list[bytes]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 12, 50_000).tolist()
    return [(rng.integers(0, 2, size) * 255).astype(np.uint8).tobytes() for size in lengths]


def check_order(sorting: Sorting, contents: list[bytes]) -> None:
    wanted = sorted(range(len(contents)), key=contents.__getitem__)
    order, again = sorting(texts_of(contents))
    assert order.tolist() == wanted
    in_order = [contents[number] for number in wanted]
    assert again.tolist() == [n > 0 and in_order[n - 1] == text for n, text in enumerate(in_order)]
    assert [order.dtype, again.dtype] == [np.dtype(np.int64), np.dtype(np.bool_)]


def check_changes(changed: Callable[[Texts], np.ndarray], contents: list[bytes]) -> None:
    wanted = [one != other for one, other in pairwise(contents)]
    assert changed(texts_of(contents)).tolist() == wanted


@pytest.mark.parametrize("few", [0, 3, 500])
@given(st.lists(TEXT, max_size=40))
def test_texts_are_sorted_and_ranked_by_their_bytes(few: int, contents: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "_FEW", few)
        for each in (contents, EDGES[::-1] * 2):
            texts = texts_of(each)
            check_order(in_order, each)
            check_changes(changes, each)
            wanted = sorted(set(each))
            assert text_ranks(texts).tolist() == [wanted.index(text) for text in each]


@pytest.mark.parametrize("repeated", [1, 9])
@given(st.lists(TEXT | st.binary(max_size=9), max_size=40))
def test_compiled_code_sorts_texts(repeated: int, contents: list[bytes]) -> None:
    """Nine times as many texts are too many to be sorted by insertion."""
    compiled()
    for each in (contents * repeated, EDGES[::-1] * 2 * repeated):
        check_order(ranks_native.in_order, each)
        check_changes(ranks_native.changes, each)


@pytest.mark.parametrize("make", [one_byte, beginnings, many_numbers, many_short])
def test_compiled_code_sorts_many_texts(make: Callable[[], list[bytes]]) -> None:
    """In buckets; by one byte, by more than one word, or with the end of texts in a word."""
    compiled()
    check_order(ranks_native.in_order, make())
    contents = make() * (1 + 40_000 // len(make()))
    check_order(ranks_native.in_order, contents)
    check_changes(ranks_native.changes, contents)
    check_changes(ranks_native.changes, sorted(contents))


@pytest.mark.parametrize("count", [600, 5000])
def test_texts_that_begin_alike_are_sorted_in_few_rounds(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0
    words = Texts.words

    def counted(texts: Texts, position: int) -> np.ndarray:
        nonlocal rounds
        rounds += 1
        return words(texts, position)

    monkeypatch.setattr(Texts, "words", counted)
    contents = [b"x" * 3000 + b"%d" % number for number in range(count)]
    check_order(in_order, contents)
    assert rounds < 20


def test_parts_are_joined() -> None:
    parts = [[b"a", b"bc"], [], [b"", b"0123456789"]]
    whole = Texts.joined([texts_of(part) for part in parts])
    assert [whole.bytes_of(n) for n in range(4)] == [text for part in parts for text in part]
