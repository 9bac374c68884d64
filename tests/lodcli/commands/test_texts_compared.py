"""Expressions that compare texts with texts and categories: against polars, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell import opened
from tests.lodcli.conftest import Lod, read_jsonl, write_jsonl

WORDS = ["", "a", "aa", "b", "é", "\n", "a\0", "😀", "z" * 40]
OPS = ("==", "!=", "<", "<=", ">", ">=")


@pytest.fixture
def table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Write texts a and b, and categories c, of 300 items in many batches; return them."""
    rng = np.random.default_rng(4)
    found = {name: [str(one) for one in rng.choice(WORDS, 300)] for name in "abc"}
    words = sorted(WORDS)[::-1]
    codes = LoDTensor(np.array([words.index(word) for word in found["c"]], np.uint8))
    texts = {name: LoDTensor.from_lists(found[name]) for name in "ab"}
    few = LoDTensor(np.arange(300) % 2)
    ordered = {
        "o": few.as_categories(["a", "b"], ordered=True),
        "q": few.as_categories(["b", "a"], ordered=True),
    }
    io.write("t.lod.h5", {**texts, "c": codes.as_categories(words), **ordered})
    monkeypatch.setattr(base, "BATCH_BYTES", 300)
    monkeypatch.setattr(opened, "BATCH_BYTES", 300)
    return found


@pytest.mark.parametrize("op", OPS)
def test_texts_are_compared_as_polars_compares_them(
    op: str, lod: Lod, table: dict[str, list[str]]
) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(table)
    names = [("a", "b"), ("a", "c"), ("c", "b")] if op in ("==", "!=") else [("a", "b"), ("b", "a")]
    for left, right in names:
        wanted = frame.select(polars.sql_expr(f"{left} {op.replace('==', '=')} {right}"))
        wanted = wanted.to_series().to_list()
        assert lod("apply", f"{left} {op} {right}", "t.lod.h5", "-o", "r.lod.h5", "-f").clean
        assert io.read("r.lod.h5").data.tolist() == wanted
        assert lod("filter", "t.lod.h5", f"{left} {op} {right}", "-o", "f.lod.h5", "-f").code == 0
        kept = frame.filter(polars.Series(wanted))
        assert io.read("f.lod.h5", "a").to_list() == kept["a"].to_list()
        assert io.read("f.lod.h5", "b").to_list() == kept["b"].to_list()


LINES: list[dict[str, Any]] = [
    {"a": "x", "b": "x", "tags": ["x", "y"], "n": [1]},
    {"a": "y", "b": None, "tags": [], "n": []},
    {"a": None, "b": "z", "tags": ["y"], "n": [2, 3]},
    {"a": "é", "b": "z", "tags": ["é", None], "n": [2]},
]


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("a == b", "x"),
        ("a != b", "é"),  # a comparison with a null is neither true nor false
        ("not a == b", "é"),
        ("a in tags", "xé"),
        ("any(tags != a)", "x"),
        ("any(tags == tags)", "xNé"),
        ('a == b == "x"', "x"),
        ('tensor("a") == b or length(n) == 0', "xy"),
        ("b is None or a > b", "yé"),
    ],
)
def test_nulls_and_lists_of_texts(expression: str, kept: str, lod: Lod, folder: Path) -> None:
    write_jsonl("l.jsonl", LINES)
    assert lod("filter", "l.jsonl", expression, "-o", "o.jsonl", "-q").code == 0
    found = read_jsonl("o.jsonl")
    assert found == [line for line in LINES if (line["a"] or "N") in kept]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("max(c) == a", "column 1: the categories of c have no order; use first, last, any or all"),
        ("a != min(c)", "column 6: the categories of c have no order"),
        ("max(c) == c", "column 1: the categories of c have no order"),
        ("minimum(o, q) == a", "column 1: ordered categories with other words have no common"),
        ("coalesce(o, q) == a", "column 1: ordered categories with other words have no common"),
        ("a < c", "column 5: a text and a category are compared with == or !="),
        (
            "a == [b]",
            "column 6: a list cannot be used here; write texts in quotes, as in a in ['a']",
        ),
        ("a == ['a', 1]", "column 12: expected a text in quotes, found 1"),
        ("a not in ('a', -1)", "column 16: expected a text in quotes, found -1"),
        ("a in b", "column 6: b is one value for each item; compare it with =="),
        ("a in (b, 'x')", "column 7: expected a number or a word; compare tensors with =="),
        ("first(a) == b", "compare a text with a word or a text"),
        ("a == 1", "compare a text with a word or a text"),
        ("a * b == a", "one for each byte or text"),
    ],
)
def test_invalid_comparisons_of_texts_are_an_error(
    expression: str, said: str, lod: Lod, table: dict[str, list[str]]
) -> None:
    done = lod("filter", "t.lod.h5", expression, "-o", "o.lod.h5")
    assert done.code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("first(c) == a", "b"),
        ("a != first(c)", "c"),
        ("last(c) == a", "b"),
        ("d == first(c)", "b"),  # other words
        ("first(c) != d", "c"),
    ],
)
def test_the_first_category_of_an_empty_list_is_null(
    expression: str, kept: str, lod: Lod, folder: Path
) -> None:
    lists = LoDTensor(np.array([1, 1, 0]), [[1, 0, 2]]).as_categories(["a", "b"])
    single = LoDTensor(np.array([2, 1, 0])).as_categories(["c", "a", "b"])
    io.write("t.lod.h5", {"a": LoDTensor.from_lists(["b", "a", "c"]), "c": lists, "d": single})
    assert lod("filter", "t.lod.h5", expression, "-o", "o.lod.h5", "-q").code == 0
    assert "".join(io.read("o.lod.h5", "a").to_list()) == kept
