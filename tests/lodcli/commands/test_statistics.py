"""Figures about lengths and padding."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.commands.inspect.statistics import Lengths, Statistics, bars
from lodcli.kernels.index.lod import LoD
from lodcli.reports.inspection import Bucket, Padding
from tests.oracles import rows_of, sequences_of, tree_of
from tests.strategies import lods


def statistics(lod: LoD, rows: int, row_bytes: int) -> Statistics:
    lengths = Lengths(lod.names)
    lengths.add(lod)
    return lengths.statistics(rows, row_bytes)


def test_the_articles_by_hand() -> None:
    found = statistics(LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", None]), 15, 4)
    article, sentence = found.levels
    assert (article.level, article.name, article.items, article.total) == (0, "article", 3, 6)
    assert (article.min, article.median, article.mean, article.max) == (1, 2.0, 2.0, 3)
    assert (article.p90, article.p99, article.empty) == (3, 3, 0)
    # Articles of 9, 1 and 5 words: three of 9.
    assert article.padding == Padding(15, 27, 12 / 27, 48)
    assert (sentence.items, sentence.total, sentence.median, sentence.mean) == (6, 15, 2.5, 2.5)
    assert (sentence.p90, sentence.max) == (4, 4)
    assert sentence.padding == Padding(15, 24, 9 / 24, 36)
    assert sentence.histogram == tuple(map(Bucket, (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 2, 1)))
    # 3 articles of 3 sentences of 4 words.
    assert found.padding == Padding(15, 36, 21 / 36, 84)


def test_percentiles_are_lengths_that_occur() -> None:
    found = statistics(LoD.from_lengths([list(range(1, 101))]), 5050, 1).levels[0]
    assert (found.median, found.p90, found.p99, found.max) == (50.5, 90, 99, 100)
    one = statistics(LoD.from_lengths([[7]]), 7, 1).levels[0]
    assert (one.min, one.median, one.p90, one.p99, one.max) == (7, 7.0, 7, 7, 7)


def test_no_sequences_have_no_lengths() -> None:
    found = statistics(LoD.from_lengths([[], []]), 0, 4)
    for level in found.levels:
        assert (level.items, level.total, level.empty, level.histogram) == (0, 0, 0, ())
        lengths = (level.min, level.median, level.mean, level.p90, level.p99, level.max)
        assert lengths == (None,) * 6
    assert found.padding == Padding(0, 0, 0.0, 0)


def test_empty_sequences_are_counted() -> None:
    found = statistics(LoD.from_lengths([[0, 2, 0, 0]]), 2, 1).levels[0]
    assert (found.empty, found.min, found.median, found.max) == (3, 0, 0.0, 2)
    assert found.histogram == (Bucket(0, 0, 3), Bucket(1, 1, 0), Bucket(2, 2, 1))
    nothing = statistics(LoD.from_lengths([[0, 0]]), 0, 1)
    assert nothing.padding == Padding(0, 0, 0.0, 0)


def test_no_levels_need_no_padding() -> None:
    found = statistics(LoD(), 5, 4)
    assert found.levels == ()
    assert found.padding == Padding(5, 5, 0.0, 0)


def test_long_tails_get_buckets_of_doubling_width() -> None:
    lengths = [1] * 10 + [2] * 5 + [1000]
    found = statistics(LoD.from_lengths([lengths]), sum(lengths), 1).levels[0].histogram
    assert found[:3] == (Bucket(1, 1, 10), Bucket(2, 3, 5), Bucket(4, 7, 0))
    assert found[-1] == Bucket(512, 1023, 1)


def test_a_list_of_tensors_needs_their_counts_alone() -> None:
    lengths = Lengths(("article", None))
    assert lengths.items == [0, 0]
    for part in ([[3, 1], [3, 2, 4, 1]], [[2], [2, 3]]):
        lengths.add(LoD.from_lengths(part))
    assert lengths.items == [3, 6]


@given(st.lists(st.integers(0, 300), min_size=1))
def test_buckets_hold_the_lengths_between_their_bounds(lengths: list[int]) -> None:
    found = statistics(LoD.from_lengths([lengths]), sum(lengths), 1).levels[0].histogram
    for bucket in found:
        assert bucket.count == sum(bucket.low <= one <= bucket.high for one in lengths)
    assert sum(bucket.count for bucket in found) == len(lengths)


def test_lengths_too_long_to_count_are_sorted() -> None:
    lengths = [3, 2**40, 2**40 + 5, 3]
    found = statistics(LoD.from_lengths([lengths]), sum(lengths), 2).levels[0]
    assert (found.min, found.median, found.max) == (3, (3 + 2**40) / 2, 2**40 + 5)
    assert sum(bucket.count for bucket in found.histogram) == 4
    assert found.padding.padded_rows == 4 * (2**40 + 5)


def test_padding_beyond_64_bits_is_exact() -> None:
    offsets = [0, 2**62]
    levels = [[0, 1, 1, 1, 1, 1, 1, 1, 1], offsets]
    assert statistics(LoD(levels), 2**62, 8).padding.padded_rows == 8 * 2**62


@given(lods())
def test_figures_agree_with_plain_loops(lod: LoD) -> None:
    rows = 5 if lod.rows is None else lod.rows
    found = statistics(lod, rows, 2)
    tree = tree_of(lod.recursive_sequence_lengths(), rows)
    longest = []
    for level, figures in enumerate(found.levels):
        sequences = sequences_of(tree, level)
        lengths = sorted(len(sequence) for sequence in sequences)
        longest.append(max(lengths, default=0))
        assert figures.items == len(lengths)
        assert figures.total == sum(lengths)
        assert figures.empty == lengths.count(0)
        assert sum(bucket.count for bucket in figures.histogram) == len(lengths)
        for bucket in figures.histogram:
            assert bucket.count == sum(bucket.low <= n <= bucket.high for n in lengths)
        most = max((len(rows_of(sequence)) for sequence in sequences), default=0)
        assert figures.padding.padded_rows == len(lengths) * most
        if lengths:
            assert figures.mean == pytest.approx(np.mean(lengths))
            assert figures.median == np.median(lengths)
            assert figures.p90 == lengths[math.ceil(len(lengths) * 0.9) - 1]
    expected = math.prod([len(tree), *longest])
    assert found.padding.padded_rows == (expected if lod.n_levels else rows)


def test_figures_go_to_json() -> None:
    found = asdict(statistics(LoD.from_lengths([[1, 2], [1, 1, 2]]), 4, 4))
    assert json.loads(json.dumps(found))["levels"][0]["p90"] == 2
    assert found["levels"][1]["histogram"][0] == {"low": 1, "high": 1, "count": 2}
    assert found["padding"]["padded_rows"] == 8


def test_bars_show_every_bucket_that_is_not_empty() -> None:
    histogram = [Bucket(n, n, count) for n, count in enumerate((8000, 1, 0, 4000))]
    assert bars(histogram) == "█▁ ▄"
    assert bars(histogram, unicode=False) == "#_ -"
    assert bars([]) == ""


def lines_of(function: Callable[[], object]) -> int:
    """Return how many lines of Python are run, once all is loaded and cached."""
    count = 0

    def on_event(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return on_event

    function()
    before = sys.gettrace()
    sys.settrace(on_event)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("longest", [100, 1 << 24], ids=["counted", "sorted"])
def test_no_loop_in_python_runs_over_sequences(longest: int) -> None:
    lengths = np.random.default_rng(0).integers(0, longest, 100_000)
    lengths[[0, 1]] = 0, longest

    def count(sequences: int) -> int:
        lod = LoD.from_lengths([lengths[:sequences]])
        return lines_of(lambda: statistics(lod, int(lengths[:sequences].sum()), 4))

    assert count(100_000) - count(100) < 1000
