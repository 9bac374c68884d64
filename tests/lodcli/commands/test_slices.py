"""Elements and slices of lists and texts, and patterns replaced: against polars and re."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell import opened
from tests.lodcli.conftest import Lod

WORDS = ["", "a", "ab 12", "é😀z", "x9y10", None]
SLICES = ["[:2]", "[1:]", "[-2:]", "[:-1]", "[1:3]", "[-3:-1]", "[2:1]", "[:]", "[:-9]", "[7:]"]
PLACES = [0, 1, -1, -2, 7, -9]


def sliced(text: str) -> slice:
    start, _, stop = text[1:-1].partition(":")
    return slice(int(start) if start else None, int(stop) if stop else None)


def at(values: Any, place: int) -> Any:
    """Return an element of a list, None of a null or shorter one."""
    return values[place] if values is not None and -len(values) <= place < len(values) else None


@pytest.fixture
def table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Write lists of numbers and texts, and texts, of 200 items in many batches; return them."""
    rng = np.random.default_rng(2)

    def some(choices: list[Any]) -> list[Any] | None:
        if rng.random() < 0.1:
            return None
        return [choices[int(n)] for n in rng.integers(0, len(choices), rng.integers(0, 6))]

    lines = [
        {
            "n": number,
            "ids": some([0, 1, 2, -(2**60), None]),
            "tags": some(WORDS),
            "title": WORDS[int(rng.integers(0, len(WORDS)))],
        }
        for number in range(200)
    ]
    Path("t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    io.write("t.lod.h5", io.read_all("t.jsonl"))
    monkeypatch.setattr(base, "BATCH_BYTES", 500)
    monkeypatch.setattr(opened, "BATCH_BYTES", 500)
    return lines


def lines(lod: Lod, *words: str) -> list[Any]:
    """Return the JSON lines that a command writes."""
    assert lod(words[0], "-q", *words[1:], "-fo", "out.jsonl").clean, words
    return [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]


def applied(lod: Lod, expression: str) -> list[Any]:
    found = lines(lod, "apply", expression, "t.lod.h5", "--into", "found")
    return [line["found"] for line in found]


def kept(lod: Lod, expression: str) -> list[int]:
    return [line["n"] for line in lines(lod, "filter", "t.lod.h5", expression)]


@pytest.mark.parametrize("text", SLICES)
def test_slices_are_those_of_python(lod: Lod, table: list[dict[str, Any]], text: str) -> None:
    part = sliced(text)
    for name in ("ids", "tags", "title"):
        wanted = [line[name] if line[name] is None else line[name][part] for line in table]
        assert applied(lod, name + text) == wanted, name
    lists = [line["ids"] if line["ids"] is None else line["ids"][part] for line in table]
    counts = [len(one or []) for one in lists]
    assert kept(lod, f"length(ids{text}) == 1") == [n for n, one in enumerate(counts) if one == 1]
    found = [any(value == 1 for value in one or []) for one in lists]
    assert kept(lod, f"1 in ids{text}") == [n for n, one in enumerate(found) if one]
    words = [line["tags"] if line["tags"] is None else line["tags"][part] for line in table]
    found = ["a" in (one or []) for one in words]
    assert kept(lod, f'"a" in tags{text}') == [n for n, one in enumerate(found) if one]
    cut = [line["title"] is not None and line["title"][part] == "a" for line in table]
    assert kept(lod, f'title{text} == "a"') == [n for n, one in enumerate(cut) if one]


@pytest.mark.parametrize("place", PLACES)
def test_elements_are_those_of_polars(lod: Lod, table: list[dict[str, Any]], place: int) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(table, infer_schema_length=None)
    for name in ("ids", "tags"):
        got = frame[name].list.get(place, null_on_oob=True).to_list()
        assert got == [at(line[name], place) for line in table]
        assert applied(lod, f"{name}[{place}]") == got
        assert lines(lod, "apply", f"{name}[{place}]", "t.lod.h5") == got
    ids = [at(line["ids"], place) for line in table]
    assert kept(lod, f"ids[{place}] == 1") == [n for n, one in enumerate(ids) if one == 1]
    assert kept(lod, f"ids[{place}] is None") == [n for n, one in enumerate(ids) if one is None]
    tags = [at(line["tags"], place) for line in table]
    assert kept(lod, f'tags[{place}] == "a"') == [n for n, one in enumerate(tags) if one == "a"]
    order = [line["n"] for line in lines(lod, "sort", "t.lod.h5", "--by", f"tags[{place}]")]
    known = sorted(
        (n for n in range(200) if tags[n] is not None), key=lambda n: str(tags[n]).encode()
    )
    assert order == known + [n for n in range(200) if tags[n] is None]


def test_a_slice_works_with_what_is_around_it(lod: Lod, table: list[dict[str, Any]]) -> None:
    found = applied(lod, "sum(coalesce(ids, 0)[:2])")
    assert found == [
        None if line["ids"] is None else sum(v or 0 for v in line["ids"][:2]) for line in table
    ]
    found = applied(lod, 'split("a b " + title, " ")[1]')
    assert found == [None if line["title"] is None else "b" for line in table]
    assert applied(lod, "lower(tags[0])[:1]") == [
        None if (one := at(line["tags"], 0)) is None else one.lower()[:1] for line in table
    ]
    assert applied(lod, "ids[:2][-1]") == [
        None if line["ids"] is None else at(line["ids"][:2], -1) for line in table
    ]
    assert kept(lod, "length(ids[1:]) + 1 == length(ids)") == [
        n for n, one in enumerate(table) if one["ids"]
    ]


def test_columns_stay_columns(lod: Lod, folder: Path) -> None:
    rows = LoDTensor(np.arange(8.0).reshape(4, 2), [[3, 1]])
    io.write("x.lod.h5", {"x": rows, "y": LoDTensor(np.arange(4), [[3, 1]])})
    assert lines(lod, "apply", "x[1]", "x.lod.h5") == [[1.0, 3.0, 5.0], [7.0]]
    assert lines(lod, "apply", "stack(y, 0)[0]", "x.lod.h5") == [[0, 1, 2], [3]]
    assert lines(lod, "apply", "x[:2]", "x.lod.h5") == [[[0.0, 1.0], [2.0, 3.0]], [[6.0, 7.0]]]
    assert lines(lod, "apply", "x[:1][1]", "x.lod.h5") == [[1.0], [7.0]]


def test_times_decimals_and_categories_keep_their_kind(lod: Lod, folder: Path) -> None:
    Path("k.jsonl").write_text(
        '{"t":["2024-05-01T09:00","2024-05-02T10:00"],"p":[0.10,2.50],"c":["red","blue"]}\n'
        '{"t":[],"p":[],"c":[]}\n'
    )
    casts = ("t=timestamp[s]", "p=decimal(10, 2)", "c=category")
    assert lod("cast", "-q", "k.jsonl", *casts, "-o", "k.lod.h5").code == 0
    for expression, wanted in {
        "t[-1]": '"2024-05-02T10:00:00"\nnull\n',
        "t[1:]": '["2024-05-02T10:00:00"]\n[]\n',
        "p[-1] * 2": "5.00\nnull\n",
        "p[:1]": "[0.10]\n[]\n",
        "c[0]": '"red"\nnull\n',
        "c[1:]": '["blue"]\n[]\n',
        "c[0][:2]": '"re"\nnull\n',
    }.items():
        assert lod("apply", "-q", expression, "k.lod.h5", "-fo", "out.jsonl").stderr == ""
        assert Path("out.jsonl").read_text() == wanted, expression
    for expression in (
        't[-1] > "2024-05-02"',
        "p[-1] == 2.50",
        'c[0] == "red"',
        'c[0][:2] == "re"',
    ):
        assert len(lines(lod, "filter", "k.lod.h5", expression)) == 1, expression


@pytest.mark.parametrize(
    ("expression", "column", "said"),
    [
        ("ids[::2] == 1", 5, "expected whole numbers and no step, as in x[:128] or x[-3:]"),
        ("ids[n:] == 1", 5, "expected whole numbers and no step"),
        ("n[:2] == 1", 1, "expected lists, this is one value for each item"),
        ("n[0] == 1", 3, "no column 0; rows have shape ()"),
        ("ids[:2]", 1, "has several values for an item"),
        ("title[:2]", 1, "texts are only compared"),
        ("regexp_replace(title, 'a', 'b') == 'c'", 1, "write replace_matches(x, '[0-9]+', '#')"),
        ("substr(title, 1, 2) == 'c'", 1, "write x[:3], x[-3:] or x[2:5]"),
        ("list_get(ids) == 1", 1, "no function 'list_get'"),
    ],
)
def test_an_invalid_slice_is_an_error(
    lod: Lod, table: Any, expression: str, column: int, said: str
) -> None:
    done = lod("filter", "t.lod.h5", expression, "-o", "f.lod.h5")
    assert done.code == 2
    assert f"expression, column {column}: " in done.stderr
    assert said in done.stderr
    assert not Path("f.lod.h5").exists()


@pytest.mark.parametrize(
    ("pattern", "by"),
    [("[0-9]+", "#"), ("([a-z])([0-9]+)", r"\2-\1"), ("^", ">"), ("(?i)A", ""), (r"\s", "_")],
)
def test_patterns_are_replaced_as_by_re(
    lod: Lod, table: list[dict[str, Any]], pattern: str, by: str
) -> None:
    wanted = [
        None if line["title"] is None else re.sub(pattern, by, line["title"]) for line in table
    ]
    text = f"replace_matches(title, r'{pattern}', r'{by}')"
    assert applied(lod, text) == wanted
    if "\\" not in by:
        polars = pytest.importorskip("polars")
        titles = polars.Series([line["title"] for line in table])
        assert titles.str.replace_all(pattern, by).to_list() == wanted
    equal = [n for n, one in enumerate(wanted) if one == "a"]
    assert kept(lod, f'{text} == "a"') == equal
    found = applied(lod, text.replace("title", "tags"))
    assert found == [
        line["tags"] and [one if one is None else re.sub(pattern, by, one) for one in line["tags"]]
        for line in table
    ]


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ('replace_matches(title, "(", "")', 24, "missing )"),
        ('replace_matches(title, "", "x")', 24, "expected a text of one character at least"),
        (r'replace_matches(title, "a", r"\3")', 29, "3"),
        (r'replace_matches(title, "\bx", "")', 24, r"found the character \x08; write r before"),
        (r'replace_matches(title, "(x)", "\1")', 31, r"found the character \x01; write r before"),
        (r'replace_matches(title, "a", r"\a")', 29, "must be followed by a digit"),
        (r'replace_matches(title, "(", r"\a")', 24, "missing )"),
        ('replace_matches(title, "a")', 1, 'write replace_matches(text, "[0-9]+", "#")'),
        ('replace_matches("ab", "(", "") == title', 23, "missing )"),
    ],
)
def test_a_wrong_pattern_is_an_error(
    lod: Lod, table: Any, text: str, column: int, said: str
) -> None:
    done = lod("apply", text, "t.lod.h5", "-o", "f.lod.h5")
    assert done.code == 2
    assert f"expression, column {column}: " in done.stderr
    assert said in done.stderr
    assert not Path("f.lod.h5").exists()


def test_a_word_boundary_that_is_a_backspace_is_an_error(lod: Lod, table: Any) -> None:
    done = lod("filter", "t.lod.h5", r'matches(title, "\ba")', "-o", "f.lod.h5")
    assert done.code == 2
    assert r"matches: found the character \x08; write r before the quotes" in done.stderr


def test_row_groups_are_left_out_only_if_no_slice_in_them_fits(lod: Lod, folder: Path) -> None:
    """Statistics are of whole texts and of all elements of the lists."""
    pa = pytest.importorskip("pyarrow")
    words = sorted(f"{one:04}" for one in range(300))
    lists = [[*range(n // 10, n // 10 + n % 4)] for n in range(300)]
    table = pa.table({"n": range(300), "title": words, "ids": lists})
    pytest.importorskip("pyarrow.parquet").write_table(table, "t.parquet", row_group_size=10)
    tests: dict[str, Callable[[int], bool]] = {
        'title[-1:] == "3"': lambda n: n % 10 == 3,
        'title[1:3] >= "20"': lambda n: n >= 200,
        "ids[1] == 7": lambda n: lists[n][1:2] == [7],
        "not ids[0] < 20": lambda n: lists[n] != [] and lists[n][0] >= 20,
        "ids[-1] is None or 5 in ids[1:]": lambda n: not lists[n] or 5 in lists[n][1:],
        'replace_matches(title, "^0+", "") == "12"': lambda n: n == 12,
    }
    for expression, holds in tests.items():
        found = [line["n"] for line in lines(lod, "filter", "t.parquet", expression)]
        assert found == [n for n in range(300) if holds(n)], expression


def test_a_place_and_a_bound_may_have_a_sign(lod: Lod, table: list[dict[str, Any]]) -> None:
    for text in ("ids[+1] == 2", "sum(ids[+1:2]) == 2", "ids[2-1] == 2"):
        assert lod("filter", "t.lod.h5", text, "-fo", "f.lod.h5").code == 0
        kept = io.read("f.lod.h5", "n").data.tolist()
        assert kept == [one["n"] for one in table if at(one["ids"], 1) == 2] != []


@pytest.mark.parametrize(("count", "code"), [(60, 0), (1500, 2)])
def test_slices_of_slices_take_linear_time(
    lod: Lod, table: list[dict[str, Any]], count: int, code: int
) -> None:
    slices = "[0:9]" * count  # without memory of the parts, 2 ** 60 steps
    done = lod("filter", "t.lod.h5", f"ids{slices}[0] == 1", "-o", "f.lod.h5")
    assert (done.code, "is nested too deeply" in done.stderr) == (code, code == 2)
    done = lod("apply", f"ids{slices}", "t.lod.h5", "-o", "g.lod.h5")
    assert (done.code, "is nested too deeply" in done.stderr) == (code, code == 2)


def test_a_slice_of_rows_names_their_shape(lod: Lod, folder: Path) -> None:
    io.write("r.lod.h5", {"r": LoDTensor(np.ones((2, 3)))})
    said = "this is one row of shape (3,) for each item; take its columns one by one, as in x[0]"
    for args in (["filter", "r.lod.h5", "r[:2] == 1"], ["apply", "r[:2]", "r.lod.h5"]):
        done = lod(*args, "-o", "o.lod.h5")
        assert (done.code, said in done.stderr) == (2, True)
