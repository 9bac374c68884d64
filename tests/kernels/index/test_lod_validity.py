"""Which indexes are valid: the golden list, and every small index there is."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from lodcli.kernels.errors import InvalidLoDError
from lodcli.kernels.index.checks import check_rows
from lodcli.kernels.index.lod import LoD
from tests.golden_data import golden_dir

CASES: list[dict[str, Any]] = json.loads((golden_dir() / "lod_validity.json").read_text())["cases"]


def rules_hold(levels: list[list[int]], rows: int) -> bool:
    """Say whether an index is valid by our rules: Paddle's, but `[0]` is a level of no items."""
    for number, offsets in enumerate(levels):
        if len(offsets) == 0 or offsets[0] != 0:
            return False
        for before, after in itertools.pairwise(offsets):
            if after < before:
                return False
        below = len(levels[number + 1]) - 1 if number + 1 < len(levels) else rows
        if offsets[-1] != below:
            return False
    return True


def accepted(lod: LoD | None, rows: int) -> bool:
    if lod is None:
        return False
    try:
        check_rows(lod.levels, rows)
    except InvalidLoDError:
        return False
    return True


def index_or_none(case: dict[str, Any]) -> LoD | None:
    try:
        if "offsets" in case:
            return LoD(case["offsets"])
        return LoD.from_lengths(case["lengths"])
    except InvalidLoDError:
        return None


def holds_no_items(case: dict[str, Any]) -> bool:
    """Say whether a level has no items: legal here (a filter leaves it), refused by Paddle."""
    return [0] in case.get("offsets", []) or [] in case.get("lengths", [])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_verdicts_hold_but_for_levels_of_no_items(case: dict[str, Any]) -> None:
    found = accepted(index_or_none(case), case["rows"])
    if holds_no_items(case) and "offsets" in case:
        assert found == rules_hold(case["offsets"], case["rows"])
    else:
        assert found == case["valid"]


def test_a_batch_of_none_is_the_one_difference_to_paddle() -> None:
    different = [
        (case["rows"], case["offsets"])
        for case in CASES
        if "offsets" in case and case["valid"] != rules_hold(case["offsets"], case["rows"])
    ]
    assert different
    assert all([0] in offsets for _, offsets in different)
    assert (0, [[0]]) in different


@pytest.mark.parametrize("case", [case for case in CASES if case["valid"]], ids=str)
def test_golden_lengths_and_offsets_are_one_index(case: dict[str, Any]) -> None:
    lod = index_or_none(case)
    assert lod is not None
    as_offsets = case["offsets"] if "offsets" in case else case["as_offsets"]
    as_lengths = case["lengths"] if "lengths" in case else case["as_lengths"]
    assert [offsets.tolist() for offsets in lod.levels] == as_offsets
    assert lod.recursive_sequence_lengths() == as_lengths


def small_levels() -> list[list[int]]:
    values = (-1, 0, 1, 2)
    return [list(level) for size in range(4) for level in itertools.product(values, repeat=size)]


def test_exactly_the_small_indexes_that_keep_the_rules_are_accepted() -> None:
    verdicts = set()
    some = small_levels()
    for levels in itertools.chain(([a] for a in some), ([a, b] for a in some for b in some)):
        expected = rules_hold(levels, 2)
        assert accepted(index_or_none({"offsets": levels}), 2) == expected, levels
        verdicts.add(expected)
    assert verdicts == {True, False}
