"""`lod apply` with expressions over nulls: against DuckDB, and by hand for lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli.commands.apply import results
from lodcli.formats.arrow import files
from lodcli.formats.arrow.source import RecordSource
from lodcli.formats.core import io
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, filtered, tensor, write_jsonl

DAY = datetime(2024, 5, 1)
ROWS: list[dict[str, Any]] = [
    {"x": 1.5, "n": 3, "b": True, "t": DAY, "s": "a", "u": "a"},
    {"x": None, "n": None, "b": None, "t": None, "s": None, "u": "b"},
    {"x": -4.0, "n": 1, "b": False, "t": DAY, "s": "", "u": ""},
    {"x": 0.5, "n": None, "b": True, "t": None, "s": "b", "u": None},
    {"x": None, "n": 2, "b": False, "t": DAY, "s": "b", "u": "b"},
]
# By expression, the same in SQL.
FLAT = {
    "x * 2 + n": "x * 2 + n",
    "-abs(x)": "-abs(x)",
    "x > 0 and n > 1": "x > 0 and n > 1",
    "x > 0 or n > 1": "x > 0 or n > 1",
    "not b": "not b",
    "n in (1, 3)": "n in (1, 3)",
    "n not in (1, 3)": "n not in (1, 3)",
    "maximum(x, n)": "case when x is null or n is null then null else greatest(x, n) end",
    "x is None": "x is null",
    "s is not None and x is None": "s is not null and x is null",
    's == "b"': "s = 'b'",
    "s != u": "s <> u",
    "coalesce(x, 7)": "coalesce(x, 7)",
    "coalesce(n, 0.5)": "coalesce(n::double, 0.5)",
    "coalesce(x, n)": "coalesce(x, n)",
    "coalesce(x, n, -1) * 2": "coalesce(x, n, -1) * 2",
    "coalesce(b, False)": "coalesce(b, false)",
    "coalesce(b, x > 0)": "coalesce(b, x > 0)",
    "coalesce(t, '2024-05-02')": "coalesce(t, timestamp '2024-05-02')",
    "t - '2024-04-30T12:00'": "t - timestamp '2024-04-30T12:00'",
    "coalesce(x + n, 0) == 0": "coalesce(x + n, 0) = 0",
}


@pytest.fixture
def flat(folder: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), "t.parquet")


@pytest.mark.usefixtures("flat")
@pytest.mark.parametrize("text", FLAT)
def test_expressions_of_nulls_have_the_values_of_sql(text: str, lod: Lod) -> None:
    duckdb = pytest.importorskip("duckdb")
    wanted = duckdb.sql(f"select {FLAT[text]} from 't.parquet'").fetchall()
    done = lod("apply", text, "t.parquet", "-q", "--into", "r", "-o", "out.lod.h5")
    assert (done.code, done.stderr) == (0, "")
    assert tensor("out.lod.h5", "r").to_list() == [value for (value,) in wanted]
    assert tensor("out.lod.h5", "x").to_list() == [row["x"] for row in ROWS]
    # Without --into, in batches of few items; whether there may be nulls is announced.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "COMPUTED_BYTES", 8)
        done = lod("apply", text, "t.parquet", "-q", "-o", "out.lods")
    assert (done.code, done.stderr) == (0, "")
    (found,) = lodcli.read_all("out.lods").values()
    assert found.to_list() == [value for (value,) in wanted]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (["apply", "x * n", "t.parquet"], {"x", "n"}),
        (["apply", "coalesce(s, u)", "t.parquet"], {"s", "u"}),
        (["apply", "add", "t.parquet::x", "1"], {"x"}),
        (["apply", "x * n", "t.parquet", "--into", "r"], set()),  # started tasks continue
        (["select", "t.parquet", "b"], {"b"}),
    ],
)
@pytest.mark.parametrize("large", [True, False])
def test_only_columns_that_are_needed_are_read(
    line: list[str], columns: set[str], large: bool, lod: Lod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides the first records, which tell the schema: all of a small file."""
    groups = 5 if large else 1
    pq.write_table(pa.Table.from_pylist(ROWS * 800 * groups), "t.parquet", row_group_size=4000)
    found: list[tuple[str, int]] = []
    whole = RecordSource._read

    def read(self: RecordSource, column: str, batch: Any, first: int) -> Any:
        found.append((column, first))
        return whole(self, column, batch, first)

    monkeypatch.setattr(RecordSource, "_read", read)
    monkeypatch.setattr(files, "_JOINED_BYTES", 0)
    assert lod(*line, "-q", "-o", "out.lods").clean
    again = found[len(ROWS[0]) :]
    if large and columns:
        assert {column for column, _ in again} == columns
    else:
        assert not any(first == 0 for _, first in again)


@pytest.mark.parametrize("names", [["s.a"], ["s.a", "s.b"]])
def test_a_struct_that_is_the_only_column_is_not_read_again(
    names: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"s": {"a": n, "b": n, "c": n}} for n in range(5000)]
    pq.write_table(pa.Table.from_pylist(records), folder / "s.parquet", row_group_size=1000)
    found: list[int] = []
    whole = RecordSource._read

    def read(self: RecordSource, column: str, batch: Any, first: int) -> Any:
        found.append(first)
        return whole(self, column, batch, first)

    monkeypatch.setattr(RecordSource, "_read", read)
    monkeypatch.setattr(files, "_JOINED_BYTES", 0)
    with lodcli.open(folder / "s.parquet") as file:
        list(file.batches_of(names))
    assert found == [0, 1000, 2000, 3000, 4000]


LISTS: dict[str, list[Any]] = {
    "l": [[1, None, 3], None, [], [None], [5]],
    "m": [[1.5, 2.5, None], None, [], [0.5], [1.5]],
    "n": [1, 2, 3, None, 4],
    "d": [[[1], None, [2, None]], None, [], [[None]], [[], [7, 8]]],
}
# By hand, by the rules of docs/decisions/0103-nulls-in-expressions.md.
OF_LISTS: dict[str, list[Any]] = {
    "l * 2": [[2, None, 6], None, [], [None], [10]],
    "l + n": [[2, None, 4], None, [], [None], [9]],
    "l + m": [[2.5, None, None], None, [], [None], [6.5]],
    "coalesce(l, 0)": [[1, 0, 3], None, [], [0], [5]],
    "coalesce(l, n)": [[1, 1, 3], None, [], [None], [5]],
    "coalesce(n, l)": [[1, 1, 1], None, [], [None], [4]],
    "coalesce(n, 0)": [1, 2, 3, 0, 4],
    "coalesce(m, l)": [[1.5, 2.5, 3.0], None, [], [0.5], [1.5]],
    "l is None": [[False, True, False], None, [], [True], [False]],
    "sum(l)": [4, None, 0, None, 5],
    "mean(l)": [2.0, None, None, None, 5.0],
    "max(m) - min(l)": [1.5, None, None, None, -3.5],
    "first(l)": [1, None, None, None, 5],
    "last(m)": [None, None, None, 0.5, 1.5],
    "any(l > 3)": [False, None, False, None, True],
    "all(l > 3)": [False, None, True, None, True],
    "length(l)": [3, 0, 0, 1, 1],
    "coalesce(sum(l), -1)": [4, -1, 0, -1, 5],
    "l - mean(l)": [[-1.0, None, 1.0], None, [], [None], [0.0]],
    "reverse(l) * 2": [[6, None, 2], None, [], [None], [10]],
    "mean(windows(l, 2, head='keep'))": [[1.0, 1.0, 3.0], None, [], [None], [5.0]],
    "cumsum(coalesce(l, 0))": [[1, 1, 4], None, [], [0], [5]],
    "sum(d)": [[1, None, 2], None, [], [None], [0, 15]],
    "sum(d, level=0)": [3, None, 0, None, 15],
    "last(d, level=0)": [None, None, None, None, 8],
    "sum(l, pad_value=9)": [4, None, 9, None, 5],
}


@pytest.mark.parametrize("text", OF_LISTS)
def test_functions_skip_nulls_in_lists(text: str, lod: Lod, folder: Path) -> None:
    io.write("in.lod.h5", {name: LoDTensor.from_lists(LISTS[name]) for name in LISTS})
    assert lod("apply", "-q", text, "in.lod.h5", "-o", "out.lod.h5").clean
    (found,) = lodcli.read_all("out.lod.h5").values()
    assert found.to_list() == OF_LISTS[text]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("seed", "texts"),
    [
        (
            7,
            (
                "sum(coalesce(l, n)) > 1",
                "any(l >= n)",
                "coalesce(max(l), n) == 1",
                "not all(l)",
            ),
        ),
        (
            4,
            (
                "sum(l if n > 0 else 1) > 1",
                "any((n if l > 1 else l) == 1)",
                "(max(l) if n else n) == 0",
                "mean(l if l else None) > 1 if n > 0 else n is None",
            ),
        ),
    ],
)
def test_random_nulls_are_those_of_filter(lod: Lod, seed: int, texts: Sequence[str]) -> None:
    """`lod filter` has masks and choices of its own."""
    rng = np.random.default_rng(seed)
    lists = [
        None if rng.random() < 0.2 else [None if rng.random() < 0.4 else v for v in range(size)]
        for size in rng.integers(0, 4, 80).tolist()
    ]
    flat = [None if rng.random() < 0.3 else int(rng.integers(0, 3)) for _ in lists]
    number = list(range(len(lists)))
    content: dict[str, list[Any]] = {"l": lists, "n": flat, "i": number}
    io.write("in.lod.h5", {name: LoDTensor.from_lists(content[name]) for name in content})
    for text in texts:
        assert lod("apply", "-q", text, "in.lod.h5", "-fo", "out.lod.h5").code == 0
        (found,) = lodcli.read_all("out.lod.h5").values()
        assert lod("filter", "-q", "in.lod.h5", text, "-fo", "out.lod.h5").code == 0
        kept = tensor("out.lod.h5", "i").to_list()
        assert kept == [n for n in number if found.to_list()[n]]
        assert len(kept) > 5


def test_categories_in_place_of_nulls(lod: Lod, folder: Path) -> None:
    one = LoDTensor.from_lists([1, None, 0]).as_categories(["no", "yes"])
    other = LoDTensor(np.array([0, 1, 1])).as_categories(["yes", "maybe"])
    io.write("in.lod.h5", {"a": one, "b": other})
    for text, wanted in {
        "coalesce(a, 'no')": ["yes", "no", "no"],
        "coalesce(a, b)": ["yes", "maybe", "no"],
    }.items():
        assert lod("apply", "-q", text, "in.lod.h5", "-fo", "out.lod.h5").clean
        (found,) = lodcli.read_all("out.lod.h5").values()
        assert found.to_list() == wanted
    io.write("l.lod.h5", LoDTensor.from_lists([[1, None]]).as_categories(["no", "yes"]))
    done = lod("apply", "sort(data)", "l.lod.h5")
    assert "sort takes no nulls; write sort(coalesce(data, '..')), or use --nulls" in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["apply", "sum", "l.jsonl::l"], "item of level 0 <1> is null, and sum takes no nulls; "),
        (
            ["apply", "sum", "l.jsonl::l"],
            "; lod apply 'sum(l)' computes with them, or use --nulls ",
        ),
        (["apply", "softmax", "l.jsonl::l"], "softmax takes no nulls; use --nulls zero, fill=X or"),
        (
            ["apply", "reverse", "l.jsonl::l", "--then", "softmax"],
            "and softmax takes no nulls; use",
        ),
        (["apply", "add", "l.jsonl::o", "l.jsonl::l"], "l.jsonl: l: item of level 0 <1> is null, "),
        (["apply", "dot", "l.jsonl::l", "l.jsonl::o"], "l.jsonl: l: item of level 0 <1> is null, "),
        (
            ["apply", "cumsum", "l.jsonl::o", "--then", "add", "l.jsonl::l"],
            "l.jsonl: l: item of level 0 <1> is null, and add takes no nulls; use --nulls ",
        ),
        (["apply", "softmax(l * 2)", "l.jsonl"], "; write softmax(coalesce(l * 2, 0)), or use --"),
        (["filter", "l.jsonl", "coalesce(n) > 1"], "takes a tensor and what replaces its nulls"),
        (["filter", "l.jsonl", "coalesce(1, n) > 1"], "column 10: coalesce takes a tensor first"),
        (["filter", "l.jsonl", "coalesce(n, 'a') > 1"], "column 13: expected a number, found 'a'"),
        (
            ["filter", "l.jsonl", "sum(coalesce(l, m)) > 1"],
            "column 5: the two sides have different numbers of rows in item 0: 2 and 1",
        ),
        (["filter", "l.jsonl", "fill_null(n, 0) > 1"], "no function 'fill_null'; write coalesce"),
        (["convert", "l.jsonl::n", "out.npy"], "npy has no nulls: --nulls zero, fill=X or drop\n"),
    ],
)
def test_the_error_of_a_null_says_what_replaces_it(
    line: list[str], said: str, lod: Lod, folder: Path
) -> None:
    rows = [
        {"l": [1, None], "o": [5, 6], "m": [1], "n": 1, "s": "a"},
        {"l": None, "o": [], "m": [1, 2], "n": None, "s": None},
    ]
    write_jsonl("l.jsonl", rows)
    done = lod(*line, *([] if line[0] == "convert" else ["-o", "out.lod.h5"]))
    assert done.code != 0
    assert said in done.stderr
    assert not list(Path().glob("out.*"))


@pytest.mark.usefixtures("flat")
def test_a_number_added_to_a_null_is_null_in_a_stream(lod: Lod) -> None:
    """The header of a stream says whether there may be nulls."""
    assert lod("apply", "add", "t.parquet::x", "1", "-o", "out.lods").clean
    assert tensor("out.lods").to_list() == [2.5, None, -3.0, 1.5, None]


# Of f = [nan, 0, 1, nan], n = [1, 1, 0, 0] : None is null.
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "complex64"])
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("True if f else False", [False, False, True, False]),
        ("f and n", [None, False, False, False]),
        ("f or n", [True, True, True, None]),
        ("not f", [None, True, False, None]),
        ("n > 0 and not f", [None, True, False, False]),
        ("f and f == f", [False, False, True, False]),
        ("coalesce(f or n, False)", [True, True, True, False]),
        ("isnan(f) or n == 0", [True, False, True, True]),
    ],
)
def test_nan_as_a_condition_is_null_in_filter_too(
    lod: Lod,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    values: list[bool | None],
    dtype: str,
) -> None:
    monkeypatch.setattr(results, "COMPUTED_BYTES", 8)
    f = LoDTensor(np.array([np.nan, 0, 1, np.nan]).astype(dtype_of_rows(dtype)))
    content = {"f": f, "n": LoDTensor([1, 1, 0, 0]), "i": LoDTensor([0, 1, 2, 3])}
    io.write("a.lod.h5", content)
    assert lod("apply", text, "a.lod.h5", "--into", "made", "-o", "b.lod.h5").clean
    made = tensor("b.lod.h5", "made")
    assert made.to_list() == values
    assert filtered(lod, text, "a.lod.h5", "i") == [n for n, value in enumerate(values) if value]


def test_lengths_of_a_null_list_of_lists_are_null(lod: Lod, folder: Path) -> None:
    content: list[Any] = [[[1, 2], None], None, [], [[], [3]]]
    texts: list[Any] = [[["a"], None], None, [], [[], ["b"]]]
    io.write("l.lod.h5", {"x": LoDTensor.from_lists(content), "s": LoDTensor.from_lists(texts)})
    for text, wanted in {
        "length(x)": [[2, 0], None, [], [0, 1]],
        "length(s)": [[1, 0], None, [], [0, 1]],
        "length(x) * 2": [[4, 0], None, [], [0, 2]],
        "sum(length(x))": [2, None, 0, 1],
        "coalesce(sum(length(x)), -1)": [2, -1, 0, 1],
    }.items():
        assert lod("apply", text, "l.lod.h5", "-fo", "o.parquet").code == 0, text
        assert lod("convert", "o.parquet", "-qfo", "o.lod.h5").code == 0
        assert tensor("o.lod.h5").to_list() == wanted, text


@pytest.mark.parametrize("text", ["sum(x)", "first(x)", "any(x > 1)", "median(x)", "length(x)"])
def test_a_function_of_lists_names_lod_group(lod: Lod, folder: Path, text: str) -> None:
    write_jsonl("t.jsonl", [{"k": "a", "x": 1}, {"k": "a", "x": 2}])
    done = lod("apply", text, "t.jsonl", "-o", "o.lod.h5")
    assert done.code == 2
    assert "this has none; lod group --by KEY makes a list of the items of each key" in done.stderr
    assert lod("group", "-q", "t.jsonl", "--by", "k", "-o", "g.lod.h5").code == 0
    assert lod("apply", text, "g.lod.h5", "-o", "o.lod.h5").code == 0
