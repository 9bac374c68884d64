"""Ranks of texts; Python's bytes, sorted and in dictionaries, are the oracle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as product_of

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.order import ranks, ranks_native
from lodcli.kernels.order.ranks import numbered, sorted_texts, text_ranks
from lodcli.kernels.order.texts import Texts

# Few parts, so that texts are equal and begin alike; lengths around words of seven and eight.
PARTS = st.sampled_from([b"a" * 7, b"\0" * 7, b"\xff" * 7, b"a", b"\0", b"\xff"])
TEXT = st.lists(PARTS, max_size=4).map(b"".join)
EDGES = [b"", b"\0", b"a" * 7, b"a" * 7 + b"\0", b"a" * 8, b"a" * 8 + b"\0", b"a" * 9, b"a" * 600]
# Texts of which only one byte differs, at each place in a word.
ONE_BYTE = [b"x" * at + bytes([byte]) + b"x" * (15 - at) for at in range(16) for byte in range(256)]

Numbering = Callable[[Texts], tuple[np.ndarray, np.ndarray]]


def texts_of(contents: list[bytes]) -> Texts:
    """Return texts in an array that begins and ends with other bytes."""
    offsets = np.cumsum([2, *map(len, contents)])
    return Texts.of(np.frombuffer(b"--" + b"".join(contents) + b"-", np.uint8), offsets)


def compiled() -> Numbering:
    pytest.importorskip("numba", reason="kernels are compiled by numba")
    return ranks_native.numbered


def check_numbers(numbering: Numbering, contents: list[bytes]) -> None:
    known: dict[bytes, int] = {}
    first = dict(zip(reversed(contents), reversed(range(len(contents))), strict=True))
    wanted = [known.setdefault(text, len(known)) for text in contents]
    numbers, firsts = numbering(texts_of(contents))
    assert numbers.tolist() == wanted
    assert firsts.tolist() == [first[text] for text in known]
    assert {numbers.dtype, firsts.dtype} == {np.dtype(np.int64)}


@given(st.lists(TEXT, max_size=40))
def test_equal_texts_have_the_number_of_the_first(contents: list[bytes]) -> None:
    check_numbers(numbered, contents)
    check_numbers(numbered, EDGES * 2)


@pytest.mark.parametrize("bits", [1, 12])
@given(st.lists(TEXT, max_size=40))
def test_a_table_of_any_size_numbers_texts(bits: int, contents: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks_native, "_BITS", bits)
        check_numbers(compiled(), contents)
        check_numbers(compiled(), EDGES * 2)


def test_texts_that_collide_are_numbered_without_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(texts: Texts) -> tuple[np.ndarray, np.ndarray]:
        calls.append(texts.lengths.size)
        return numbered(texts)

    monkeypatch.setattr(ranks, "numbered", counted)
    contents = [str(number).encode() for number in range(3000)] * 2
    check_numbers(compiled(), contents)
    assert not calls
    monkeypatch.setattr(ranks_native, "_PROBES", 0)
    monkeypatch.setattr(ranks_native, "_ALL_PROBES", 9)
    check_numbers(compiled(), contents)
    assert calls == [6000]


def test_texts_that_differ_in_one_byte_seldom_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hash that ignores some bytes, all these texts would collide."""
    monkeypatch.setattr(ranks_native, "_PROBES", 2)
    monkeypatch.setattr(ranks_native, "_ALL_PROBES", 0)
    monkeypatch.setattr(ranks, "numbered", None)
    check_numbers(compiled(), ONE_BYTE)
    check_numbers(compiled(), [f"user{number}".encode() for number in range(50_000)])
    check_numbers(compiled(), [number.to_bytes(8, "little") for number in range(50_000)])
    check_numbers(compiled(), [number.to_bytes(8, "big") for number in range(50_000)])


def test_texts_do_not_collide_because_numbers_have_a_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two words at each of ten places after which the hash would be the same."""
    monkeypatch.setattr(ranks_native, "_PROBES", 2)
    monkeypatch.setattr(ranks_native, "_ALL_PROBES", 0)
    monkeypatch.setattr(ranks, "numbered", None)
    mask, factor, words = 2**64 - 1, 0x9E3779B97F4A7C15, 10
    hashed, pairs = 8 * words, []
    for _ in range(words):
        product = hashed * factor & mask
        other = hashed ^ ((product ^ mask) * pow(factor, -1, 2**64) & mask)
        pairs.append([word.to_bytes(8, "little") for word in (0, other)])
        sign = mask ^ 0xFFFFFFFF if product >> 63 else 0
        hashed = product ^ (product >> 32 | sign)
    check_numbers(compiled(), [b"".join(text) for text in product_of(*pairs)])


@pytest.mark.parametrize("few", [0, 3, 500])
@given(st.lists(TEXT, max_size=40))
def test_texts_are_sorted_and_ranked_by_their_bytes(few: int, contents: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "_FEW", few)
        for each in (contents, EDGES[::-1] * 2):
            texts = texts_of(each)
            assert [each[number] for number in sorted_texts(texts).tolist()] == sorted(each)
            wanted = sorted(set(each))
            assert text_ranks(texts).tolist() == [wanted.index(text) for text in each]


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
    assert [contents[n] for n in sorted_texts(texts_of(contents))] == sorted(contents)
    assert rounds < 20


def test_many_texts_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one word of most texts decides, in compiled code."""
    pytest.importorskip("numba", reason="kernels are compiled by numba")
    draws = np.random.default_rng(0).integers(0, 40_000, 60_000)
    contents = [b"common-%d" % number for number in draws.tolist()]
    places = {text: place for place, text in enumerate(sorted(set(contents)))}
    monkeypatch.setattr(ranks, "numbered", None)
    monkeypatch.setattr(ranks, "on", lambda *_, **__: ranks_native.numbered)
    assert text_ranks(texts_of(contents)).tolist() == [places[text] for text in contents]


def test_parts_are_joined() -> None:
    parts = [[b"a", b"bc"], [], [b"", b"0123456789"]]
    whole = Texts.joined([texts_of(part) for part in parts])
    assert [whole.bytes_of(n) for n in range(4)] == [text for part in parts for text in part]
