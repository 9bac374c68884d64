"""Functions of a list without values, which are null in every command, as in SQL and Polars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, applied, filtered, tensor, write_jsonl

LISTS: list[Any] = [[3, 1], [], None, [None], [5, None, 2]]
# By expression, the same in Polars.
FUNCTIONS = {
    "mean(l)": "mean",
    "max(l)": "max",
    "min(l)": "min",
    "first(l)": "first",
    "last(l)": "last",
}


@pytest.fixture
def lists(folder: Path) -> None:
    rows = [{"l": one, "i": n} for n, one in enumerate(LISTS)]
    write_jsonl("l.jsonl", rows)


@pytest.mark.usefixtures("lists")
@pytest.mark.parametrize("text", FUNCTIONS)
def test_they_are_those_of_polars(lod: Lod, text: str) -> None:
    polars = pytest.importorskip("polars")
    column = polars.Series(LISTS, dtype=polars.List(polars.Int64)).list
    wanted = getattr(column, FUNCTIONS[text])().to_list()
    done = lod("apply", text, "l.jsonl", "-q", "-o", "out.lods")
    assert (done.code, done.stderr) == (0, "")
    assert tensor("out.lods").to_list() == wanted
    for condition, kept in {
        f"{text} is None": [n for n, one in enumerate(wanted) if one is None],
        f"{text} != 3": [n for n, one in enumerate(wanted) if one not in (None, 3)],
        f"coalesce({text}, -1) == -1": [n for n, one in enumerate(wanted) if one is None],
    }.items():
        assert filtered(lod, condition, "l.jsonl", "i") == kept
        assert lod("apply", condition, "l.jsonl", "-q", "-fo", "out.lods").clean
        assert [n for n, one in enumerate(tensor("out.lods").to_list()) if one] == kept


@pytest.mark.usefixtures("lists")
def test_nulls_are_sorted_last(lod: Lod) -> None:
    for key, order in {"max(l)": [0, 4, 1, 2, 3], "-max(l)": [4, 0, 1, 2, 3]}.items():
        assert lod("sort", "l.jsonl", "--by", key, "-q", "-fo", "out.lods").code == 0
        assert tensor("out.lods", "i").to_list() == order


@pytest.mark.usefixtures("folder")
def test_pad_value_and_ops_by_name_have_their_value(lod: Lod) -> None:
    io.write("x.lod.h5", {"x": LoDTensor.from_lists([[1.0, 3.0], [], [4.0]])})
    for text, wanted in {
        "mean(x)": [2.0, None, 4.0],
        "mean(x, pad_value=9)": [2.0, 9.0, 4.0],
        "max(x, pad_value=-1)": [3.0, -1.0, 4.0],
        "sum(x)": [4.0, 0.0, 4.0],
        "any(x > 1)": [True, False, True],
        "all(x > 1)": [False, True, True],
        "sum(x) / length(x)": [2.0, float("nan"), 4.0],
    }.items():
        assert lod("apply", text, "x.lod.h5", "-q", "-fo", "out.lods").code == 0
        assert str(tensor("out.lods").to_list()) == str(wanted)
    for op, wanted in {"mean": [2.0, 0.0, 4.0], "max": [3.0, 0.0, 4.0]}.items():
        assert applied(lod, op, "x.lod.h5") == wanted


# Of an expression, whether it may have nulls: a value that is broadcast to rows is never that of
# a sequence without rows.
NULLABLE = {
    "x - mean(x)": False,
    "softmax(x - max(x))": False,
    "x * 2": False,
    "mean(x)": True,
    "mean(x) * n": True,
    "d - mean(d)": False,
    "mean(d) - mean(mean(d))": True,
    "x - mean(windows(x, 1))": True,
    "mean(x, pad_value=0)": False,
    "coalesce(mean(x), 0)": False,
    "coalesce(mean(x), n)": False,
    "mean(x) is None": False,
    "x if x > mean(x) else n": False,
    "x if x > 0 else None": True,
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", NULLABLE)
def test_a_stream_says_whether_there_may_be_nulls(lod: Lod, text: str) -> None:
    content = {
        "x": LoDTensor.from_lists([[1.0, 3.0], [], [4.0]]),
        "d": LoDTensor.from_lists([[[1.0, 3.0], []], [], [[4.0]]]),
        "n": LoDTensor(np.arange(3)),
    }
    io.write("x.lod.h5", content)
    assert lod("apply", text, "x.lod.h5", "-o", "out.lods").clean
    shown = lod("inspect", "out.lods").stdout
    assert ("or null" in shown) == NULLABLE[text]


# Of an expression over lists of different lengths, which have no nulls, whether it may have nulls.
OF_OTHER_LISTS = {
    "x - mean(y)": True,
    "x - mean(x)": False,
    "x * 2 - mean(x + z)": False,
    "z - mean(z + x)": False,
    "y - mean(y) + 0 * sum(x)": False,
    "x - sum(y)": False,
    "(x if x > 0 else max(y)) * 2": True,
    "coalesce(mean(y), x)": False,
    "stack(x, max(y))": True,
    "d - mean(n)": True,
    "d - mean(mean(d))": True,
    "reverse(d) - mean(d)": False,
    "reverse(d, level=0) - mean(d)": True,
    "0 if 3 in x else max(x)": True,
    "0 if any(x == 3) else max(x)": True,
    "3 not in x and max(x) > 1": True,
    "x - max(x) if 3 in x else x": False,
    "x + (3 in y) - max(x)": False,
    "x + (max(y) in x)": True,
    "1 in x": False,
    "x + any(x > 1) - max(x)": False,
    "1 < max(y) in y": True,
    "'-' if s in l else last(l)": True,
    "'-' if s in l else s": False,
    "first(l) if x > 0 else s": True,
    "'-' if l == s else first(l)": False,
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", OF_OTHER_LISTS)
def test_files_take_nulls_of_one_list_beside_rows_of_another(lod: Lod, text: str) -> None:
    rows: list[dict[str, Any]] = [
        {"x": [1, 3], "y": [], "z": [4, 5], "n": [1], "d": [[1, 3], []], "s": "a", "l": []},
        {"x": [], "y": [2], "z": [], "n": [], "d": [[5]], "s": "b", "l": ["b", "c"]},
        {"x": [4], "y": [2], "z": [0], "n": [2, 3], "d": [], "s": "c", "l": ["a"]},
    ]
    write_jsonl("a.jsonl", rows)
    done = lod("apply", text, "a.jsonl", "-q", "-o", "o.jsonl")
    assert (done.code, done.stderr) == (0, "")
    shown = Path("o.jsonl").read_text()
    wanted = [json.loads(line) for line in shown.splitlines()]
    assert OF_OTHER_LISTS[text] or "null" not in shown
    for name in ("o.lod.h5", "o.parquet", "o.lods"):
        assert lod("apply", text, "a.jsonl", "-q", "-o", name).clean
        assert tensor(name).to_list() == wanted
    assert ("or null" in lod("inspect", "o.lods").stdout) == OF_OTHER_LISTS[text]


@pytest.mark.usefixtures("folder")
def test_length_of_a_list_of_texts_is_the_number_of_texts(lod: Lod) -> None:
    content = {
        "tags": LoDTensor.from_lists([["abc", "d"], [], None, ["ef", None, ""]]),
        "name": LoDTensor.from_lists(["abc", "", None, "ü"]),
        "i": LoDTensor(np.arange(4)),
    }
    io.write("t.lod.h5", content)
    for text, wanted in {
        "length(tags)": [2, 0, 0, 3],
        "length(name)": [3, 0, 0, 2],
        "length(coalesce(name, 'xy'))": [3, 0, 2, 2],
        "length(coalesce(tags, 'xy'))": [2, 0, 0, 3],
        "length(tags) + length(name)": [5, 0, 0, 5],
    }.items():
        done = lod("apply", text, "t.lod.h5", "-fo", "out.lods")
        assert (done.code, done.stderr) == (0, "")
        assert tensor("out.lods").to_list() == wanted
        for number in set(wanted):
            assert lod("filter", "t.lod.h5", f"{text} == {number}", "-fo", "kept.lods").clean
            kept = [n for n, one in enumerate(wanted) if one == number]
            assert tensor("kept.lods", "i").to_list() == kept
    done = lod("filter", "t.lod.h5", "length(i + 1) > 0", "-fo", "kept.lods")
    assert "column 8: length takes lists, this is one value for each item" in done.stderr


@pytest.mark.usefixtures("folder")
def test_a_row_of_values_with_nan_is_no_condition(lod: Lod) -> None:
    x = np.array([[1.0, 0.0], [1.0, np.nan], [np.nan, np.nan]])
    io.write("x.lod.h5", {"x": LoDTensor(x), "n": LoDTensor(np.array([1, 1, 1]))})
    for text, wanted in {
        "not x": [[False, True], None, None],
        "x and n": [[True, False], None, None],
        "x or n": [[True, True], [True, True], [True, True]],
    }.items():
        done = lod("apply", text, "x.lod.h5", "-fo", "out.lods")
        assert (done.code, done.stderr) == (0, "")
        assert tensor("out.lods").to_list() == wanted
    for text, kept in {"any(x and n)": 1, "any(not x)": 1, "all(x or n)": 3}.items():
        assert lod("filter", "x.lod.h5", text, "-fo", "out.lods").clean
        assert len(tensor("out.lods", "n").to_list()) == kept


@pytest.mark.usefixtures("folder")
def test_the_text_picked_from_a_list_is_that_of_polars(lod: Lod) -> None:
    polars = pytest.importorskip("polars")
    tags = [["a", "bc"], [], None, [None, "ü", "uu"], ["x", None], [""], ["b\0", "b", "", "a"]]
    rows = [
        {"tags": one, "name": name, "i": n}
        for n, (one, name) in enumerate(zip(tags, "abcdefg", strict=True))
    ]
    write_jsonl("t.jsonl", rows)
    lists = polars.Series(tags, dtype=polars.List(polars.String)).list
    for function in ("first", "last", "max", "min"):
        wanted = getattr(lists, function)().to_list()
        for text, values in {
            f"{function}(tags)": wanted,
            f"coalesce({function}(tags), name)": [
                a or b if a != "" else a for a, b in zip(wanted, "abcdefg", strict=True)
            ],
            f"{function}(tags if name != 'a' else 'y')": ["y", *wanted[1:]],
            f"length({function}(tags))": [len((one or "").encode()) for one in wanted],
            f"{function}(tags) == 'x'": [None if one is None else one == "x" for one in wanted],
            f"{function}(tags) >= name": [
                None if a is None else a >= b for a, b in zip(wanted, "abcdefg", strict=True)
            ],
        }.items():
            assert applied(lod, text, "t.jsonl") == values, text
            if "==" in text or ">=" in text:
                assert lod("filter", "t.jsonl", text, "-qfo", "kept.lods").code == 0
                kept = [n for n, one in enumerate(values) if one]
                assert tensor("kept.lods", "i").to_list() == kept


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "first(tags, pad_value=0)",
            """has no option 'pad_value'; write coalesce(first(tags), "w""",
        ),
        ("first(tags) + 1", "tags is text; an expression computes with numbers"),
        ("first(name)", "name is text; an expression computes with numbers"),
        ("first(tags, 2)", "column 1: first takes one tensor"),
        ("mean(tags)", "tags is text; an expression computes with numbers"),
    ],
)
def test_other_functions_of_texts_are_errors(lod: Lod, text: str, said: str) -> None:
    Path("t.jsonl").write_text('{"tags":["a"],"name":"b"}\n')
    done = lod("apply", text, "t.jsonl", "-o", "out.lods")
    assert done.code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("first(l) == 'c' or i == 1", [1]),
        ("last(l) < w or i == 0", [0]),
        ("any(l == w) or i == 0", [0]),
        ("first(l) == 'a'", []),
        ("length(first(l)) == 1", []),
        ("coalesce(first(l), w) == 'b'", [1]),
    ],
)
def test_first_of_lists_that_have_no_text_at_all_is_null(
    text: str, kept: list[int], folder: Path, lod: Lod
) -> None:
    pa = pytest.importorskip("pyarrow")
    columns = {"l": pa.array([[], None], pa.list_(pa.string())), "w": ["a", "b"], "i": [0, 1]}
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), "x.parquet")
    assert filtered(lod, text, "x.parquet", "i") == kept
