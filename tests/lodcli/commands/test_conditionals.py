"""`a if c else b` in expressions, against DuckDB and Polars, and by hand for lists."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply import results
from lodcli.formats.core import io
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, applied, filtered, tensor, write_jsonl

ROWS: list[dict[str, Any]] = [
    {"x": 1.5, "n": 3, "a": "x", "b": None, "i": 0},
    {"x": None, "n": -1, "a": None, "b": "long text ü", "i": 1},
    {"x": -2.0, "n": None, "a": "", "b": "y", "i": 2},
    {"x": 0.0, "n": 0, "a": None, "b": None, "i": 3},
    {"x": 8.0, "n": 7, "a": "zz", "b": "a", "i": 4},
]
# By expression, the same in SQL.
CASES = {
    "x if x > 0 else 0": "case when x > 0 then x else 0 end",
    "n if n >= 0 else None": "case when n >= 0 then n end",
    "None if n == 7 else x": "case when n = 7 then null else x end",
    "1 if x > 0 else 0": "case when x > 0 then 1 else 0 end",
    "1 if x > 1 else 2 if n > 1 else 3": "case when x > 1 then 1 when n > 1 then 2 else 3 end",
    "n if n else x": "case when n <> 0 then n else x end",
    "x if not n > 0 else n": "case when not n > 0 then x else n end",
    "coalesce(n if x > 0 else None, -5)": "coalesce(case when x > 0 then n end, -5)",
    "(x if n > 0 else 1) * 2 + n": "(case when n > 0 then x else 1 end) * 2 + n",
    "(x if n > 0 else n) is None": "(case when n > 0 then x else n end) is null",
    "a if x > 0 else b": "case when x > 0 then a else b end",
    "a if x > 0 else None": "case when x > 0 then a end",
    "'low' if x < 1 else 'high'": "case when x < 1 then 'low' else 'high' end",
    "coalesce(a if n > 0 else None, b, 'é')": "coalesce(case when n > 0 then a end, b, 'é')",
    "'none' if a is None else a": "case when a is null then 'none' else a end",
    "(a if n > 0 else 'x') == 'x'": "(case when n > 0 then a else 'x' end) = 'x'",
    "'x' < (a if x > 0 else b)": "'x' < (case when x > 0 then a else b end)",
    "(a if x > 0 else b) in ('x', 'y')": "(case when x > 0 then a else b end) in ('x', 'y')",
    "(a if x > 0 else b) == coalesce(b, a)": "(case when x > 0 then a else b end) = coalesce(b, a)",
    "(a if x > 0 else b) is None": "(case when x > 0 then a else b end) is null",
    "length(a if x > 0 else 'abc')": "coalesce(strlen(case when x > 0 then a else 'abc' end), 0)",
    "length(coalesce(a, b))": "coalesce(strlen(coalesce(a, b)), 0)",
}


@pytest.fixture
def rows(folder: Path) -> None:
    write_jsonl("t.jsonl", ROWS)


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("text", CASES)
def test_it_is_case_of_sql(lod: Lod, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    wanted = [one for (one,) in duckdb.sql(f"select {CASES[text]} from 't.jsonl'").fetchall()]
    for size in (8, 1 << 20):
        monkeypatch.setattr(results, "COMPUTED_BYTES", size)
        done = lod("apply", text, "t.jsonl", "-q", "-fo", "out.lods")
        assert (done.code, done.stderr) == (0, "")
        assert tensor("out.lods").to_list() == wanted
    if isinstance(wanted[0], bool):
        done = lod("filter", "t.jsonl", text, "-q", "-o", "kept.lod.h5")
    elif isinstance(wanted[0], str) or isinstance(wanted[2], str):
        return
    else:
        done = lod("filter", "t.jsonl", f"({text}) != 0", "-q", "-o", "kept.lod.h5")
    assert (done.code, done.stderr) == (0, "")
    kept = tensor("kept.lod.h5", "i").to_list()
    assert kept == [n for n, one in enumerate(wanted) if one]


NAN = float("nan")
LISTS: dict[str, list[Any]] = {
    "l": [[1, 5, None], [], None, [4]],
    "m": [[1.5, -2.5, NAN], [], [], [0.5]],
    "n": [1, 2, 3, None],
    "tags": [["a", "b", None], [], None, ["c"]],
    "name": ["one", "two", None, "four"],
}
# By hand: null lists stay null, and a value of an item is broadcast to its rows.
OF_LISTS: dict[str, list[Any]] = {
    "l if l > 1 else 0": [[0, 5, 0], [], None, [4]],
    "l if m > 0 else n": [[1, 1, 1], [], None, [4]],
    "m if n > 1 else 0": [[0.0, 0.0, 0.0], [], [], [0.0]],
    "m if m else 9": [[1.5, -2.5, 9.0], [], [], [0.5]],
    "n if n > 1 else m": [[1.5, -2.5, None], [], [], [0.5]],
    "1 if m > 0 else None": [[1, None, None], [], [], [1]],
    "sum(l if l > 1 else None)": [5, 0, None, 4],
    "tags if l > 1 else '-'": [["-", "b", "-"], [], None, ["c"]],
    "name if l > 1 else tags": [["a", "one", None], [], None, ["four"]],
    "'big' if l > 1 else 'small'": [["small", "big", "small"], [], None, ["big"]],
    "'some' if length(l) > 0 else 'none'": ["some", "none", "none", "some"],
    "length(tags if l > 1 else '-')": [3, 0, 0, 1],
    "any((tags if l > 1 else 'b') == 'b')": [True, False, None, False],
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", OF_LISTS)
def test_values_are_chosen_in_lists(lod: Lod, text: str) -> None:
    lists = {name: [LISTS[name][place] for place in range(4)] for name in LISTS}
    content = {name: LoDTensor.from_lists(values) for name, values in lists.items()}
    io.write("in.lod.h5", content)
    done = lod("apply", text, "in.lod.h5", "-q", "-o", "out.lods")
    if text == "n if n > 1 else m":  # nan stays nan
        assert str(tensor("out.lods").to_list()) == str([[1.5, -2.5, NAN], [], [], [0.5]])
        return
    assert (done.code, done.stderr) == (0, "")
    assert tensor("out.lods").to_list() == OF_LISTS[text]


NOON = datetime(2024, 5, 1, 12)
HOUR = timedelta(hours=1)


@pytest.fixture
def kinds(folder: Path) -> None:
    sizes = LoDTensor.from_lists([0, None, 1]).as_categories(["s", "m"], ordered=True)
    io.write(
        "k.lod.h5",
        {
            "color": LoDTensor.from_lists([1, None, 0]).as_categories(["red", "blue"]),
            "other": LoDTensor(np.array([0, 0, 1])).as_categories(["green", "red"]),
            "size": sizes,
            "t": LoDTensor.from_lists([NOON, None, NOON + HOUR]),
            "day": LoDTensor.from_lists([date(2024, 5, 2)] * 3),
            "wait": LoDTensor.from_lists([HOUR, 2 * HOUR, None]),
            "n": LoDTensor(np.array([1, 2, 3])),
            "x": LoDTensor(np.array([[1.0, -1.0], [2.0, np.nan], [0.0, 3.0]])),
            "name": LoDTensor.from_lists(["a", "b", None]),
        },
    )


MIDNIGHT = datetime(2024, 5, 2)
OF_KINDS: dict[str, list[Any]] = {
    "color if n > 1 else other": ["green", None, "red"],
    "color if n < 3 else 'new'": ["blue", None, "new"],
    "coalesce(color, 'new')": ["blue", "new", "red"],
    "coalesce(color, 'new', 'newer') if n > 1 else 'old'": ["old", "new", "red"],
    "coalesce(size, 'm')": ["s", "m", "m"],
    "t if n > 1 else day": [MIDNIGHT, None, NOON + HOUR],
    "coalesce(t, '2024-05-02')": [NOON, MIDNIGHT, NOON + HOUR],
    "t if n < 3 else '2024-05-02'": [NOON, None, MIDNIGHT],
    "wait * 2 if n > 1 else wait": [HOUR, 4 * HOUR, None],
    "t + ('PT1H' if n > 1 else 'PT2H')": [NOON + 2 * HOUR, None, NOON + 2 * HOUR],
    "wait > ('PT1H' if n == 2 else 'PT0S')": [True, True, None],
    "color == ('blue' if n == 1 else 'red')": [True, None, True],
    "x if x > 0 else 0": [[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]],
    "x if n > 1 else 0": [[0.0, 0.0], [2.0, np.nan], [0.0, 3.0]],
    "x[0] if x[0] else None": [1.0, 2.0, None],
    "name if n > 1 else color": ["blue", "b", None],
}


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("text", OF_KINDS)
def test_times_categories_and_columns_are_chosen(lod: Lod, text: str) -> None:
    assert lod("apply", text, "k.lod.h5", "-q", "-o", "out.lods").clean
    assert str(tensor("out.lods").to_list()) == str(OF_KINDS[text])  # nan equals nan


@pytest.mark.usefixtures("kinds")
def test_a_new_word_is_a_category_in_every_batch(lod: Lod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "COMPUTED_BYTES", 8)
    assert lod(
        "apply", "coalesce(color, 'new')", "k.lod.h5", "--into", "color", "-o", "o.lod.h5"
    ).clean
    found = tensor("o.lod.h5", "color")
    assert found.to_list() == ["blue", "new", "red"]
    assert found.marks.require_categories().words == ("red", "blue", "new")


ERRORS = {
    "coalesce(size, 'xl')": (
        "column 16: ordered categories have no word 'xl', and no place for it; lod cast"
    ),
    "size if n > 1 else 'xl'": "column 20: ordered categories have no word 'xl', and no place for",
    "color if n > 1 else 3": "column 21: color is category[2]; expected a word in quotes such as",
    "t if n > 1 else n": "column 17: t is timestamp[us]; expected times, or one number, beside it",
    "t if n > 1 else wait": "column 1: t is timestamp[us] and wait is duration[us]: the kinds diff",
    "t if n > 1 else 'soon'": "column 17: t is timestamp[us]: expected a timestamp such as",
    "name if n > 1 else 5": "column 20: expected a text in quotes, or a tensor of texts",
    "n if n > 1 else 'a'": "column 17: expected a number, found 'a'; n is not text",
    "n if color else 3": "column 6: if is not defined for category[2]; lod convert",
    "n if name == 'a' else t": "column 1: t is timestamp[us]; expected times, or one number, besi",
    "None if n > 1 else None": "column 1: both sides are None",
    "('a' if n > 1 else 'b') + 1": "column 2: texts are only compared, as in ('a' if n > 1 else",
    "'a' if x > 0 else 'b'": "column 1: expected one condition for each text, found rows of shape",
    "x if n > 1 else length(name) if": "not understood (",
}


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("text", ERRORS)
def test_an_error_shows_the_place(lod: Lod, text: str) -> None:
    done = lod("apply", text, "k.lod.h5", "-o", "out.lods")
    assert done.code == 2
    assert ERRORS[text] in done.stderr
    assert not Path("out.lods").exists()


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n if name else 3", "column 6: expected a condition, found a text; compare it"),
        ("color if n > 1 else 'red'", "column 1: color is category[2]; compare it, as in x == y"),
        ("'a' if n > 1 else name", "column 1: texts are only compared, as in ('a' if n > 1 else n"),
        ("where(n > 1, 2, 3)", "no function 'where'; write a if x > 0 else b"),
        ("n > 1 ? 2 : 3", "; write a if x > 0 else b"),
        ("CASE WHEN n > 1 THEN 2 END", "; write a if x > 0 else b"),
        ("if(n > 1, 2, 3)", "; write a if x > 0 else b"),
        ("n > (1 if 1 > 2 else None)", "column 6: expected a tensor among the condition and the"),
        ("nullif(n, 1) > 0", "no function 'nullif'; write x if x != -1 else None"),
    ],
)
def test_filter_says_what_to_write(lod: Lod, text: str, said: str) -> None:
    done = lod("filter", "k.lod.h5", text, "-o", "out.lods")
    assert done.code == 2
    assert said in done.stderr


def test_the_index_is_kept(lod: Lod, folder: Path) -> None:
    lists = {"l": LoDTensor.from_lists([[1, 2], [3]]), "n": LoDTensor.from_lists([1, 0])}
    io.write("in.lod.h5", lists)
    text = "l if n > 0 else 'no'"
    assert lod(
        "apply", text.replace("'no'", "0"), "in.lod.h5", "--into", "m", "-o", "o.lod.h5"
    ).clean
    assert tensor("o.lod.h5", "m").lod == tensor("o.lod.h5", "l").lod
    assert lod(
        "apply", "'a' if n > 0 else 'b'", "in.lod.h5", "--into", "m", "-fo", "o.lod.h5"
    ).clean
    assert tensor("o.lod.h5", "m").to_list() == ["a", "b"]


def test_a_long_chain_of_choices(lod: Lod, folder: Path) -> None:
    io.write("n.lod.h5", {"n": LoDTensor(np.arange(120))})
    text = "".join(f"{99 - k} if n == {k} else " for k in range(100)) + "-1"
    assert applied(lod, text, "n.lod.h5") == [*range(99, -1, -1), *[-1] * 20]


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("text", ["x if x > 0 else None", "x if n > 0 else None"])
def test_a_choice_of_no_rows_has_none(
    lod: Lod, folder: Path, text: str, shape: tuple[int, ...]
) -> None:
    io.write(
        "e.lod.h5",
        {"x": LoDTensor(np.zeros((0, *shape)), [[0, 0]]), "n": LoDTensor(np.array([1, 2]))},
    )
    assert applied(lod, text, "e.lod.h5") == [[], []]


@pytest.mark.parametrize("how", [["-o", "out.lod.h5"], ["-o", "out", "--jobs", "2"]])
def test_a_shard_of_empty_lists_has_choices(lod: Lod, folder: Path, how: list[str]) -> None:
    lists = LoDTensor.from_lists([[], [], [1, -1], [2], [3], []])
    io.write("in", {"x": lists}, format_name="lod.dataset", shards=3)
    assert lod("apply", "x if x > 0 else None", "in", *how).clean
    assert tensor(how[1]).to_list() == [[], [], [1, None], [2], [3], []]


# A choice between constants is a constant: of `i`, the items that filter keeps.
OF_CONSTANTS = {
    "length(x) == (1 if 1 < 2 else 2)": [0, 2],
    "n > (1 if 1 > 2 else 2) + 1": [],
    "n > (1 if 1 < 2 else None)": [1, 2],
    "n == (n if 1 < 2 else 5)": [0, 1, 2],
    "(1 if 1 < 2 else 2) == n and x is not None": [0],
    "any(x == (7 if 1 > 2 else 3))": [2],
    "coalesce(n if n > 1 else None, 1 if 1 < 2 else 0) == 1": [0],
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", OF_CONSTANTS)
def test_filter_chooses_between_constants(lod: Lod, text: str) -> None:
    content = {"x": LoDTensor.from_lists([[1], [1, 2], [3]]), "n": LoDTensor(np.array([1, 2, 3]))}
    io.write("n.lod.h5", {**content, "i": LoDTensor(np.arange(3))})
    assert filtered(lod, text, "n.lod.h5", "i") == OF_CONSTANTS[text]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("dtype", "number", "wider"),
    [
        ("float16", "70000", "float32"),
        ("float16", "-7e4", "float32"),
        ("float32", "1e300", "float64"),
        ("bfloat16", "1e300", "float64"),
        ("complex64", "1e300", "complex128"),
    ],
)
@pytest.mark.parametrize("text", ["x if i > 0 else {}", "coalesce(x, {})", "stack(x, {})"])
def test_a_number_that_becomes_infinite_is_an_error(
    lod: Lod, text: str, dtype: str, number: str, wider: str
) -> None:
    x = LoDTensor(np.array([1, 2]).astype(dtype_of_rows(dtype)))
    io.write("x.lod.h5", {"x": x, "i": LoDTensor(np.array([0, 1]))})
    done = lod("apply", text.format(number), "x.lod.h5", "-o", "out.lod.h5")
    assert done.code == 2
    assert f"{float(number) if 'e' in number else number} does not fit " in done.stderr
    how = "--dtype" if "complex" not in dtype else "lod cast TENSOR=complex128"
    assert f"; {how}" in done.stderr
    assert wider in done.stderr
    if "complex" not in dtype:
        assert lod(
            "apply", text.format(number), "x.lod.h5", "--dtype", wider, "-o", "out.lod.h5"
        ).clean
    done = lod("apply", text.format("1e999"), "x.lod.h5", "-fo", "out.lod.h5")  # infinity
    assert (done.code, done.stderr) == (0, "")


WIDE = 2**53 + 1
# Of whole numbers that float64 rounds, in a choice that is float64: the one in the error, or the
# values.
OF_WIDE: dict[str, int | list[Any]] = {
    "p if i == 0 else q": 2**63 + 1,
    "q if i == 0 else p": [-1.0, 5.0, 6.0],
    "q if i > 0 else p": 2**63 + 1,
    "f if i == 1 else n": WIDE,
    "n if i == 1 else f": -WIDE,
    "f if i < 2 else n": [0.5, 1.5, 2.0**60],
    "n if i == 1 else 0.5": -WIDE,
    "n if i == 2 else c": [0j, 0j, complex(2.0**60)],
    "coalesce(m, f)": [0.5, 7.0, 8.0],
    "coalesce(f, n)": [0.5, 1.5, 2.5],
    "coalesce(m, p)": 2**63 + 1,
    "9223372036854775809 if i > 0 else -1": 2**63 + 1,
    "f if i > 0 else l": [[], [], [2.5]],
    "l if l else f": -WIDE,
    "f if i < 2 else 9007199254740993": WIDE,
    "f if i < 3 else 9007199254740993": [0.5, 1.5, 2.5],
    "f if i < 2 else 9007199254740993.0": [0.5, 1.5, 2.0**53],
    "coalesce(o, -9007199254740993)": -WIDE,
    "coalesce(f, 9007199254740993)": [0.5, 1.5, 2.5],
    "n if i > 0 else n": [WIDE, -WIDE, 2**60],
    "1 if n == 9007199254740993 else 0.5": [1.0, 0.5, 0.5],
    "stack(i, n, f)": WIDE,
    "stack(p, i)": 2**63 + 1,
    "stack(f, 9007199254740993)": WIDE,
    "stack(f, 9007199254740992)": [[0.5, 2.0**53], [1.5, 2.0**53], [2.5, 2.0**53]],
    "stack(q, m, f)": [None, [2.0, 7.0, 1.5], [3.0, 8.0, 2.5]],
    "stack(e, n)": [[], [], [[0.5, 2.0**60]]],
}


def write_wide() -> None:
    content = {
        "p": LoDTensor(np.array([2**63 + 1, 5, 6], np.uint64)),
        "q": LoDTensor(np.array([-1, 2, 3])),
        "n": LoDTensor(np.array([WIDE, -WIDE, 2**60])),
        "m": LoDTensor.from_lists([None, 7, 8]),
        "w": LoDTensor.from_lists([WIDE, None, None]),
        "o": LoDTensor.from_lists([None, 0.5, 1.5]),
        "f": LoDTensor(np.array([0.5, 1.5, 2.5])),
        "c": LoDTensor(np.zeros(3, np.complex64)),
        "l": LoDTensor.from_lists([[], [], [-WIDE]]),
        "e": LoDTensor.from_lists([[], [], [0.5]]),
        "i": LoDTensor(np.arange(3)),
    }
    io.write("w.lod.h5", content)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", OF_WIDE)
def test_a_choice_rounds_no_whole_numbers(lod: Lod, text: str) -> None:
    write_wide()
    done = lod("apply", text, "w.lod.h5", "-o", "out.lod.h5")
    wanted = OF_WIDE[text]
    if isinstance(wanted, int):
        assert done.code == 2
        assert f": {wanted} is not exact in float64, the common dtype of " in done.stderr
        assert not Path("out.lod.h5").exists()
    else:
        assert (done.code, done.stderr) == (0, "")
        assert tensor("out.lod.h5").to_list() == wanted


# The number in the error of `lod filter`, or the kept i. Long doubles hold uint64 beside int64.
FILTERED: dict[str, int | list[int]] = {
    "(n if i == 0 else f) == 9007199254740992": WIDE,
    "(n if i == 0 else 0.5) == 9007199254740993": WIDE,
    "(n if i == 2 else f) == 1152921504606846976": [2],
    "(f if i < 2 else 9007199254740993) > 1": WIDE,
    "(f if i < 2 else 9007199254740993.0) > 1": [1, 2],
    "coalesce(o, 9007199254740993) > 1": WIDE,
    "coalesce(f, 9007199254740993) > 1": [1, 2],
    "(p if i == 0 else q) == 9223372036854775809": [0],
    "(p if i == 0 else f) == 9223372036854775809": [0],
    "(p if i == 0 else f) == 9223372036854775808": [],
    "(p - 2 if i == 0 else f) == 9223372036854775807": [0],
    "(p + 1 if i == 0 else f) > 9223372036854775809": [0],
    "(p + 0.5 if i > 0 else f) > 2": [1, 2],
    "(n if i == 2 else c) != 0": [2],
    "(n if i == 1 else c) != 0": -WIDE,
    "(n if i == 1 else None) == -9007199254740993": [1],
    "coalesce(m, 0.5) > 7": [2],
    "coalesce(m, f) > 7": [2],
    "coalesce(m, n) == 9007199254740993": [0],
    "coalesce(w, 0.5) > 0": WIDE,
    "coalesce(w, f) > 0": WIDE,
    "coalesce(o, n) > 0": WIDE,
    "any(coalesce(e, n) == 0.5)": [2],
    "any((e if i == 2 else l) > 0)": [2],
    "any((l if i == 2 else e) > 0)": -WIDE,
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", FILTERED)
def test_a_choice_of_filter_rounds_no_whole_numbers(lod: Lod, text: str) -> None:
    write_wide()
    done = lod("filter", "w.lod.h5", text, "-qo", "out.lod.h5")
    wanted = FILTERED[text]
    if isinstance(wanted, int):
        assert done.code == 2
        kind = "complex128" if "else c" in text else "float64"
        assert f": {wanted} is not exact in {kind}, the common dtype of " in done.stderr
    else:
        assert (done.code, done.stderr) == (0, "")
        assert tensor("out.lod.h5", "i").to_list() == wanted


@pytest.mark.usefixtures("folder")
def test_a_sort_key_rounds_no_whole_numbers(lod: Lod) -> None:
    write_wide()
    done = lod("sort", "w.lod.h5", "--by", "coalesce(w, 0.5)", "-o", "out.lod.h5")
    assert done.code == 2
    assert f"--by, column 1: {WIDE} is not exact in float64" in done.stderr
