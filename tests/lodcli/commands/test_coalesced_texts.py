"""Texts in place of nulls, against DuckDB and by hand for lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lodcli.commands.apply import results
from tests.lodcli.conftest import Lod, applied, filtered, tensor, write_jsonl

ROWS: list[dict[str, Any]] = [
    {"a": "x", "b": None, "c": "q", "n": 0},
    {"a": None, "b": "long text ü", "c": "x", "n": 1},
    {"a": "", "b": "y", "c": None, "n": 2},
    {"a": None, "b": None, "c": "x", "n": 3},
    {"a": None, "b": None, "c": None, "n": 4},
]


@pytest.fixture
def rows(folder: Path) -> None:
    write_jsonl("t.jsonl", ROWS)


# By expression, the same in SQL.
TEXTS = {
    "coalesce(a, 'none')": "coalesce(a, 'none')",
    "coalesce(a, b)": "coalesce(a, b)",
    "coalesce(a, b, c, 'é')": "coalesce(a, b, c, 'é')",
    "coalesce(coalesce(a, c), b)": "coalesce(a, c, b)",
    "coalesce(a, 'u', b)": "coalesce(a, 'u', b)",
}


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("text", TEXTS)
def test_texts_replace_nulls_as_in_sql(
    lod: Lod, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb")
    wanted = duckdb.sql(f"select {TEXTS[text]} from 't.jsonl'").fetchall()
    for size in (8, 1 << 20):
        monkeypatch.setattr(results, "COMPUTED_BYTES", size)
        assert lod("apply", text, "t.jsonl", "--into", "a", "-q", "-fo", "out.lods").clean
        assert tensor("out.lods", "a").to_list() == [one for (one,) in wanted]
        assert tensor("out.lods", "n").to_list() == [row["n"] for row in ROWS]


CONDITIONS = {
    "coalesce(a, 'none') == 'none'": "coalesce(a, 'none') = 'none'",
    "'x' != coalesce(a, b)": "'x' <> coalesce(a, b)",
    "coalesce(a, b, 'zz') > 'x'": "coalesce(a, b, 'zz') > 'x'",
    "'x' < coalesce(a, b, 'zz')": "'x' < coalesce(a, b, 'zz')",
    "coalesce(a, 'k') in ('k', 'x')": "coalesce(a, 'k') in ('k', 'x')",
    "coalesce(a, 'k') not in ('k', 'x')": "coalesce(a, 'k') not in ('k', 'x')",
    "coalesce(a, 'x') == c": "coalesce(a, 'x') = c",
    "c == coalesce(a, 'x')": "c = coalesce(a, 'x')",
    "coalesce(a, 'x') == coalesce(c, 'x')": "coalesce(a, 'x') = coalesce(c, 'x')",
    "coalesce(a, b) is None": "coalesce(a, b) is null",
    "coalesce(a, 'x') is not None": "coalesce(a, 'x') is not null",
    "not coalesce(a, b) == 'x' or n > 3": "not coalesce(a, b) = 'x' or n > 3",
}


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("text", CONDITIONS)
def test_they_are_compared_as_in_sql(lod: Lod, text: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    wanted = [one for (one,) in duckdb.sql(f"select {CONDITIONS[text]} from 't.jsonl'").fetchall()]
    assert applied(lod, text, "t.jsonl") == wanted
    assert filtered(lod, text, "t.jsonl", "n") == [n for n, one in enumerate(wanted) if one]


def test_texts_in_lists(lod: Lod, folder: Path) -> None:
    tags = [["a", None], [], None, [None, "b", None]]
    more = [["c", "d"], [], None, ["e", None, None]]
    rows = [{"tags": t, "more": m} for t, m in zip(tags, more, strict=True)]
    write_jsonl("t.jsonl", rows)
    for text, wanted in {
        "coalesce(tags, '?')": [["a", "?"], [], None, ["?", "b", "?"]],
        "coalesce(tags, more)": [["a", "d"], [], None, ["e", "b", None]],
    }.items():
        assert applied(lod, text, "t.jsonl") == wanted
    done = lod("filter", "t.jsonl", "any(coalesce(tags, more) == 'e')", "-q", "-o", "kept.lod.h5")
    assert (done.code, done.stderr) == (0, "")
    assert tensor("kept.lod.h5", "tags").to_list() == tags[3:]
    for text, wanted in {
        "'e' in coalesce(tags, more)": [False, False, None, True],
        "'?' not in coalesce(tags, '?')": [False, True, None, False],
    }.items():
        assert applied(lod, text, "t.jsonl") == wanted
        assert lod("filter", "t.jsonl", text, "-q", "-fo", "kept.lod.h5").clean
        kept = [one for one, keep in zip(tags, wanted, strict=True) if keep]
        assert tensor("kept.lod.h5", "tags").to_list() == kept


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["apply", "coalesce(a, n)"], "column 13: expected a text in quotes, or a tensor of texts"),
        (["apply", "coalesce(a, 5)"], "column 13: expected a text in quotes, or a tensor of texts"),
        (
            ["filter", "coalesce(a, 'x')"],
            "column 1: texts are only compared, as in coalesce(a, 'x') == \"word\"; lod apply",
        ),
        (["filter", "'x' in coalesce(a, b)"], "column 8: coalesce(a, b) is one value for"),
        (["filter", "coalesce(a) == 'x'"], "coalesce takes a tensor and what replaces its nulls"),
        (["apply", "coalesce(a, b) + n"], "column 10: a is text; an expression computes with"),
        (["filter", "coalesce('x', a) == 'x'"], "column 10: coalesce takes a tensor first"),
    ],
)
def test_other_uses_are_errors(lod: Lod, line: list[str], said: str) -> None:
    done = lod(
        line[0],
        *(["t.jsonl", line[1]] if line[0] == "filter" else [line[1], "t.jsonl"]),
        "-o",
        "o.lods",
    )
    assert done.code == 2
    assert said in done.stderr
    assert not Path("o.lods").exists()


def test_lists_of_texts_of_other_lengths_are_an_error(lod: Lod, folder: Path) -> None:
    Path("t.jsonl").write_text('{"a":["x",null],"b":["y"]}\n')
    done = lod("apply", "coalesce(a, b)", "t.jsonl", "-q", "-o", "o.lods")
    assert done.code != 0
    assert "column 1: the two sides have sequences of different lengths" in done.stderr


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    "text", ["coalesce(a, '%s')", "a == '%s'", "a in ('x', '%s')", "'%s' < a", "n == '%s'"]
)
@pytest.mark.parametrize("command", ["apply", "filter"])
def test_half_a_character_is_an_error(lod: Lod, command: str, text: str) -> None:
    text %= r"\ud83d"
    line = [text, "t.jsonl"] if command == "apply" else ["t.jsonl", text]
    done = lod(command, *line, "-o", "no.lod.h5")
    assert done.code == 2
    found = (
        rf"expression, column {text.index(chr(39) + chr(92)) + 1}: expected UTF-8, found '\ud83d'"
    )
    assert found in done.stderr
    assert not Path("no.lod.h5").exists()
