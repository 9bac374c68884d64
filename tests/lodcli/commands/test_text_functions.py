"""Functions of texts in expressions, against Polars and Python."""

from __future__ import annotations

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
from tests.lodcli.conftest import Lod, applied, filtered, tensor

WORDS = ["", "Ab", "ab", " aB\t", "a.b", "É", "é a", "\n", "a\0b", "😀", "Za" * 40, "\u00a0x "]


@pytest.fixture
def table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Write texts a, with nulls b, as categories c and in lists l, in many batches; return them."""
    rng = np.random.default_rng(5)
    drawn = [str(one) for one in rng.choice(WORDS, 200)]
    codes = LoDTensor(np.array([WORDS.index(word) for word in drawn], np.uint8))
    nulls = [None if word == "Ab" else word for word in drawn]
    lists = [drawn[n : n + n % 4] for n in range(200)]
    found: dict[str, list[Any]] = {"a": drawn, "b": nulls, "c": drawn, "l": lists}
    tensors = {name: LoDTensor.from_lists(found[name]) for name in "abl"}
    io.write("t.lod.h5", {**tensors, "c": codes.as_categories(WORDS)})
    monkeypatch.setattr(base, "BATCH_BYTES", 300)
    monkeypatch.setattr(opened, "BATCH_BYTES", 300)
    return found


# By expression of x, a function of one text.
FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "contains(x, 'a')": lambda text: "a" in text,
    "contains(x, '.')": lambda text: "." in text,
    "contains(x, '')": lambda text: True,
    "startswith(x, 'é')": lambda text: text.startswith("é"),
    "endswith(x, 'b')": lambda text: text.endswith("b"),
    "matches(x, '^.b')": lambda text: re.search("^.b", text) is not None,
    "matches(x, '(?i)A[b.]')": lambda text: re.search("(?i)A[b.]", text) is not None,
    "chars(x)": len,
    "lower(x)": str.lower,
    "upper(x)": str.upper,
    "split(x, 'a')": lambda text: text.split("a"),
    "split(upper(x), 'ZA')": lambda text: text.upper().split("ZA"),
    "strip(x)": str.strip,
    "replace(x, 'a', 'éé')": lambda text: text.replace("a", "éé"),
    "replace(x, 'Za', '')": lambda text: text.replace("Za", ""),
    "chars(strip(replace(lower(x), 'b', '')))": lambda t: len(t.lower().replace("b", "").strip()),
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_of_each_text(lod: Lod, table: dict[str, list[Any]], text: str) -> None:
    function = FUNCTIONS[text]

    def each(value: Any) -> Any:
        if isinstance(value, list):
            return list(map(each, value))
        return None if value is None else function(value)

    for name, values in table.items():
        assert applied(lod, text.replace("x", name)) == each(values)


def test_functions_are_those_of_polars(lod: Lod, table: dict[str, list[Any]]) -> None:
    polars = pytest.importorskip("polars")
    texts = polars.Series(table["b"]).str
    for text, wanted in {
        "contains(b, 'a.b')": texts.contains("a.b", literal=True),
        "matches(b, 'a.b')": texts.contains("(?-u)a.b".replace("(?-u)", "")),
        "matches(b, '[[:upper:]]$')": texts.contains("[[:upper:]]$"),
        "startswith(b, 'a')": texts.starts_with("a"),
        "endswith(b, 'b')": texts.ends_with("b"),
        "lower(b)": texts.to_lowercase(),
        "upper(b)": texts.to_uppercase(),
        "strip(b)": texts.strip_chars(),
        "replace(b, 'a', '-')": texts.replace_all("a", "-", literal=True),
        "chars(b)": texts.len_chars(),
    }.items():
        assert applied(lod, text) == wanted.to_list()


def test_texts_are_split_as_polars_splits_them(lod: Lod, table: dict[str, list[Any]]) -> None:
    polars = pytest.importorskip("polars")
    parts = polars.Series(table["b"]).str.split("a").list
    for text, wanted in {
        "split(b, 'a')": parts.eval(polars.element()),
        "length(split(b, 'a'))": parts.len().fill_null(0),
        "first(split(b, 'a'))": parts.first(),
        "last(upper(split(b, 'a')))": parts.last().str.to_uppercase(),
        "max(chars(split(b, 'a')))": parts.eval(polars.element().str.len_chars()).list.max(),
    }.items():
        assert applied(lod, text) == wanted.to_list(), text
    lists = [[[*one.split("a")] for one in some] for some in table["l"]]
    assert applied(lod, "split(l, 'a')") == lists
    assert applied(lod, "split(split(b, 'a'), 'b')") == [
        None if one is None else [each.split("b") for each in one.split("a")] for one in table["b"]
    ]
    pairs = zip(table["a"], table["b"], strict=True)
    assert applied(lod, "a + split(b, 'a')") == [
        None if other is None else [one + each for each in other.split("a")] for one, other in pairs
    ]


# The list of a null text is null, and neither coalesce nor `is None` looks into a null list.
OF_NULL_LISTS: dict[str, list[Any]] = {
    "coalesce(split(t, ','), 'x')": [["a", "b"], None, ["c"]],
    "split(t, ',') is None": [[False, False], None, [False]],
    "coalesce(chars(split(t, ',')), 0)": [[1, 1], None, [1]],
    "1 if split(t, ',') is None else 0": [[0, 0], None, [0]],
    "coalesce(split(t if n > 1 else None, ','), 'x')": [None, None, ["c"]],
    "any(coalesce(split(t, ','), 'x') == 'a')": [True, None, False],
    "coalesce(split(coalesce(t, 'd'), ','), 'x')": [["a", "b"], ["d"], ["c"]],
}


@pytest.mark.parametrize("text", OF_NULL_LISTS)
def test_lists_split_from_null_texts_are_announced_as_null(
    lod: Lod, folder: Path, text: str
) -> None:
    texts = {"t": LoDTensor.from_lists(["a,b", None, "c"]), "n": LoDTensor(np.array([1, 2, 3]))}
    io.write("t.parquet", texts)
    for target in ("out.parquet", "out.lod.h5", "out.arrow", "out.jsonl", "out.lods"):
        assert applied(lod, text, "t.parquet") == OF_NULL_LISTS[text], target


def test_a_column_of_csv_becomes_lists_of_numbers(lod: Lod, folder: Path) -> None:
    Path("t.csv").write_text("name,ids\na,3 1 2\nb,7\n")
    assert lod("apply", 'split(ids, " ")', "t.csv", "--into", "ids", "-qo", "t.lod.h5").code == 0
    assert lod("cast", "t.lod.h5", "ids=int64", "-qo", "ids.lod.h5").stderr == ""
    assert tensor("ids.lod.h5", "ids").to_list() == [[3, 1, 2], [7]]


def test_joined_texts_are_those_of_polars(lod: Lod, table: dict[str, list[Any]]) -> None:
    polars = pytest.importorskip("polars")
    a, b = polars.Series(table["a"]), polars.Series(table["b"])
    for text, wanted in {
        "a + b": a + b,
        "'<' + c + '>'": "<" + a + ">",
        "lower(a + '-') + b + upper(b)": (a + "-").str.to_lowercase() + b + b.str.to_uppercase(),
        "coalesce(b + '', 'none')": b.fill_null("none"),
        "a + '!' if chars(a) > 1 else 'x'": polars.Series(
            [one + "!" if len(one) > 1 else "x" for one in table["a"]]
        ),
    }.items():
        assert applied(lod, text) == wanted.to_list()
    pairs = zip(table["a"], table["l"], strict=True)
    assert applied(lod, "a + l") == [[one + each for each in some] for one, some in pairs]
    assert applied(lod, "length(a + 'é')") == [len(one.encode()) + 2 for one in table["a"]]


def test_conditions_keep_items(lod: Lod, table: dict[str, list[Any]]) -> None:
    for text, kept in {
        "contains(b, 'a')": [b is not None and "a" in b for b in table["b"]],
        "not contains(b, 'a')": [b is not None and "a" not in b for b in table["b"]],
        "lower(c) == 'ab'": [c.lower() == "ab" for c in table["c"]],
        "lower(c) != 'ab' and chars(c) > 2": [c.lower() != "ab" and len(c) > 2 for c in table["c"]],
        "lower(a) == lower('AB')": [a.lower() == "ab" for a in table["a"]],
        "lower(a) < upper(replace('xb', 'x', ''))": [a.lower().encode() < b"B" for a in table["a"]],
        "contains('abc', 'b') and chars(a) == 1": [len(a) == 1 for a in table["a"]],
        "'a' + c == 'aab'": [c == "ab" for c in table["c"]],
        "a + b == 'ÉÉ' or b + 'x' is None": [b in (None, "É") for b in table["b"]],
        "'Ab-x' in l + '-x'": ["Ab" in some for some in table["l"]],
        "'B\t' in split(upper(b), 'A')": [b == " aB\t" for b in table["b"]],
        "length(split(a, 'a')) == 2 and any(split(l, 'x') == 'ab')": [
            a.count("a") == 1 and "ab" in some
            for a, some in zip(table["a"], table["l"], strict=True)
        ],
        "split(b, 'a') is None": [b is None for b in table["b"]],
        "any(startswith(l, 'a'))": [
            any(one.startswith("a") for one in some) for some in table["l"]
        ],
        "'ab' in lower(l)": ["ab" in [one.lower() for one in some] for some in table["l"]],
        "first(lower(l)) == lower(a)": [
            bool(some) and some[0].lower() == a.lower()
            for some, a in zip(table["l"], table["a"], strict=True)
        ],
        "max(chars(l)) > 2": [max(map(len, some), default=0) > 2 for some in table["l"]],
        "upper(coalesce(b, 'None')) in ('NONE', 'É')": [b in (None, "É") for b in table["b"]],
    }.items():
        assert lod("filter", "t.lod.h5", text, "-fo", "kept.lods").clean
        wanted = [a for a, keep in zip(table["a"], kept, strict=True) if keep]
        assert tensor("kept.lods", "a").to_list() == wanted
        assert 0 < len(wanted) < 200


def test_items_are_sorted_by_texts_that_are_made(lod: Lod, table: dict[str, list[Any]]) -> None:
    order = sorted(range(200), key=lambda n: table["a"][n].lower().encode())
    texts = [lists[0].encode() if lists else None for lists in table["l"]]
    firsts = sorted(range(200), key=lambda n: (texts[n] is None, texts[n] or b""))
    for key, wanted in {
        "lower(a)": order,
        "lower(c)": order,
        "first(l)": firsts,
        "last(split(a, 'a'))": sorted(
            range(200), key=lambda n: table["a"][n].split("a")[-1].encode()
        ),
        "lower(a) + a": sorted(
            order, key=lambda n: (table["a"][n].lower() + table["a"][n]).encode()
        ),
        "-chars(a),upper(lower(a))": sorted(order, key=lambda n: -len(table["a"][n])),
    }.items():
        assert lod("sort", "t.lod.h5", "--by", key, "-fo", "sorted.lods").clean
        assert tensor("sorted.lods", "a").to_list() == [table["a"][n] for n in wanted]


def test_texts_that_are_made_are_written(lod: Lod, folder: Path) -> None:
    Path("t.jsonl").write_text('{"s":" A b"}\n{"s":null}\n{"s":""}\n')
    assert lod("apply", "upper(strip(s))", "t.jsonl", "--into", "t", "-qo", "o.jsonl").clean
    wanted = '{"s":" A b","t":"A B"}\n{"s":null,"t":null}\n{"s":"","t":""}\n'
    assert Path("o.jsonl").read_text() == wanted


def test_texts_of_words_only_are_words(lod: Lod, table: dict[str, list[Any]]) -> None:
    b, chars = table["b"], [len(one) for one in table["a"]]
    for text, wanted in {
        "b == lower('A') + 'b'": [None if one is None else one == "ab" for one in b],
        "'a' + 'b' != b": [None if one is None else one != "ab" for one in b],
        "b + ('x' + lower('A'))": [None if one is None else one + "xa" for one in b],
        "'a' + 'b' + b": [None if one is None else "ab" + one for one in b],
        "coalesce(b, 'x' + upper(strip(' a ')))": ["xA" if one is None else one for one in b],
        "coalesce(b, 'a' + 'b')": ["ab" if one is None else one for one in b],
        "b in (lower('AB'), replace('éb', 'b', ''))": [
            None if one is None else one in ("ab", "é") for one in b
        ],
        "c == 'a' + 'b'": [one == "ab" for one in table["c"]],
        "c + lower('A' if True else 'B')": [one + "a" for one in table["c"]],
        "lower('A' if chars(a) > 1 else 'B')": ["a" if count > 1 else "b" for count in chars],
        "replace(a, lower('A'), 'a' + 'b')": [one.replace("a", "ab") for one in table["a"]],
    }.items():
        assert applied(lod, text) == wanted, text
    for text in (
        "chars(lower('AB')) == 2",
        "contains(lower('AB'), 'a')",
        "lower('A' if True else 'B') == 'a'",
        "chars(upper('a' if index() >= 0 else 'bc')) == 1",
    ):
        assert filtered(lod, text, "t.lod.h5", "a") == table["a"]


def test_a_long_sum_of_words_is_a_word(lod: Lod, table: dict[str, list[Any]]) -> None:
    text = "b + (" + " + ".join(["upper('x')"] * 700) + ")"
    assert applied(lod, text) == [None if one is None else one + "X" * 700 for one in table["b"]]


def test_items_are_sorted_by_texts_of_no_tensor(lod: Lod, table: dict[str, list[Any]]) -> None:
    for key, wanted in {
        "lower('A' if True else 'B')": table["a"],
        "'a' + ('y' if index() < 9 else 'x')": table["a"][9:] + table["a"][:9],
    }.items():
        assert lod("sort", "t.lod.h5", "--by", key, "-fo", "sorted.lods").clean
        assert tensor("sorted.lods", "a").to_list() == wanted
    done = lod("sort", "t.lod.h5", "--by", "lower('A')", "-fo", "sorted.lods")
    assert done.code == 2
    assert "--by, column 1: expected a number, found 'a'" in done.stderr


ERRORS = {
    "contains(n, 'a')": "column 10: contains takes texts, and n is none",
    "lower(n) == 'a'": "column 7: lower takes texts, and n is none",
    "contains(s)": 'column 1: write contains(text, "a")',
    "chars(s, 1) > 0": "column 1: write chars(text)",
    "replace(s, 'a') == ''": 'column 1: write replace(text, "a", "b")',
    "replace(s, '', 'b') == ''": "column 12: replace: expected a text of one character at least",
    "contains(s, s)": "column 13: contains: expected a text in quotes",
    "matches(s, 'a(')": "column 12: matches: missing ): a(",
    "split(s, '') == 'a'": "column 10: split: expected a text of one character at least",
    "split('a', ',') == 'a'": "column 7: split takes texts, and 'a' is none",
    "lower(nope) == 'a'": "column 7: no tensor 'nope'; there are: s, n, l",
    "contains(S, 'a')": "column 10: no tensor 'S'; did you mean s?",
    "'a' + nope == 'b'": "column 7: no tensor 'nope'; there are: s, n, l",
    "s + 'a' + nope == 'b'": "column 11: no tensor 'nope'; there are: s, n, l",
    "length(split('a' if True else 'b', ',')) == 1": "column 14: split takes a tensor of texts",
    "lower('AB') == 'ab'": "column 1: expected a number, found 'ab'; both sides are words; a name",
    "s == lower('a', 'b')": "column 6: write lower(text)",
    "s == replace('x', '', 'b')": "column 19: replace: expected a text of one character at least",
    "split(s) == 'a'": 'column 1: write split(text, ",")',
    "split(s, 'a') == 'a'": "has several values for an item",
    "'a' in s": "s is one value for each item; compare it with ==; contains(s, 'a') searches in it",
    "s + n == 'a1'": "column 10: expected a number, found 'a1'; this is not text",
    "s + 'a'": "column 1: texts are only compared, as in (s + 'a') == \"word\"",
    "s * 2 == 'aa'": "column 10: expected a number, found 'aa'",
    "lower(s)": 'column 1: texts are only compared, as in lower(s) == "word"',
    "contains(l, 'a')": "has several values for an item",
    "s like 'a%'": "write contains(x, 'ab') or matches(x, '^a.*b$')",
    "trim(s) == 'a'": "no function 'trim'; write strip(x)",
    "s.lower() == 'a'": "only functions can be called: write lower(x), not x.lower()",
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_shows_the_place(lod: Lod, folder: Path, text: str) -> None:
    Path("t.jsonl").write_text('{"s":"a","n":1,"l":["a"]}\n')
    done = lod("filter", "t.jsonl", text, "-o", "out.lods")
    assert done.code == 2
    assert ERRORS[text] in done.stderr


def test_rows_of_several_conditions_split_no_texts(lod: Lod, folder: Path) -> None:
    pairs = LoDTensor(np.array([[1, 2], [0, 3]]))
    io.write("t.lod.h5", {"t": LoDTensor.from_lists(["a,b", "c"]), "x": pairs})
    said = "expected one condition for each text, found rows of shape (2,); name a column, as in"
    done = lod("apply", "split('p,q' if x > 1 else t, ',')", "t.lod.h5", "-o", "out.lods")
    assert (done.code, f"column 7: {said}" in done.stderr) == (2, True)
    text = "length(split('p,q' if x > 1 else t, ',')) == 2"
    done = lod("filter", "t.lod.h5", text, "-o", "out.lods")
    assert (done.code, f"column 14: {said}" in done.stderr) == (2, True)
    assert applied(lod, "split('p,q' if x[0] > 0 else t, ',')") == [["p", "q"], ["c"]]
