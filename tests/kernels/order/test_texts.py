"""Texts in order of their bytes; Python's bytes are the oracle."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.order import texts as module
from lodcli.kernels.order.texts import Texts, text_order

# Few letters, so that texts begin alike; around eight bytes, which are compared at a time.
ALIKE = st.lists(st.sampled_from([0, 97, 255]), max_size=20).map(bytes)
EDGES = [b"", b"\0", b"a" * 7, b"a" * 8, b"a" * 8 + b"\0", b"a" * 9, b"a" * 7 + b"\xff", b"a" * 600]


def texts_of(contents: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Return texts as bytes and offsets, which do not begin at 0."""
    offsets = np.cumsum([2, *map(len, contents)])
    return np.frombuffer(b"--" + b"".join(contents), np.uint8), offsets


def check(contents: list[bytes], others: list[bytes]) -> None:
    texts, words = Texts.of(*texts_of(contents)), Texts.of(*texts_of(others))
    pairs = np.array(list(product(range(len(contents)), range(len(others)))), np.int64)
    one, other = pairs.reshape(-1, 2).T
    wanted = [(contents[a] > others[b]) - (contents[a] < others[b]) for a, b in pairs]
    assert text_order(texts.taken(one), words.taken(other)).tolist() == wanted
    equal = text_order(texts.taken(one), words.taken(other), equality=True) == 0
    assert equal.tolist() == [each == 0 for each in wanted]
    for number, word in enumerate(others):
        order = text_order(texts, words.taken(np.array([number])))
        assert order.tolist() == [(text > word) - (text < word) for text in contents]


@pytest.mark.parametrize("few", [0, 500])
def test_edges_are_in_the_order_of_bytes(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    check(EDGES, EDGES)
    check([], EDGES)


@pytest.mark.parametrize("few", [0, 3])
@given(st.lists(ALIKE, max_size=12), st.lists(ALIKE, max_size=12))
def test_texts_are_in_the_order_of_bytes(
    few: int, contents: list[bytes], others: list[bytes]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", few)
        patch.setattr(module, "_BLOCK", 7)
        check(contents, others)
