"""`lod apply` with several expressions: as many new tensors in one pass."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, read_jsonl, tensor, tensors, write_jsonl

ROWS = [{"x": [1, 2, 6], "k": "a"}, {"x": [5], "k": "b"}, {"x": [], "k": "c"}]


@pytest.fixture
def rows(folder: Path) -> str:
    write_jsonl("rows.jsonl", ROWS)
    return "rows.jsonl"


COLUMNS = (
    ("length(x)", "--into", "n"),
    ("sum(x) / (n + 1)", "--into", "m"),
    ("x - m", "--into", "x"),
)


def test_each_expression_may_use_the_columns_before_it(lod: Lod, rows: str) -> None:
    (first, *into), second, third = COLUMNS
    done = lod("apply", first, rows, *into, "--then", *second, "--then", *third, "-qo", "o.jsonl")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert read_jsonl("o.jsonl") == [
        {"x": [-1.25, -0.25, 3.75], "k": "a", "n": 3, "m": 2.25},
        {"x": [2.5], "k": "b", "n": 1, "m": 2.5},
        {"x": [], "k": "c", "n": 0, "m": 0.0},
    ]


def test_without_a_name_only_the_last_value_is_written(lod: Lod, rows: str) -> None:
    done = lod("apply", "length(x)", rows, "--into", "n", "--then", "-n * 2", "-qo", "o.jsonl")
    assert (done.code, read_jsonl("o.jsonl")) == (0, [-6, -2, 0])


@pytest.mark.parametrize("source", ["rows.jsonl", "rows.lod.h5", "rows.lods", "rows.parquet"])
@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_one_pass_writes_what_separate_runs_do(
    lod: Lod, rows: str, source: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.commands.apply import results

    monkeypatch.setattr(results, "COMPUTED_BYTES", limit)
    if source.endswith("parquet"):
        pytest.importorskip("pyarrow")
    if source != rows:
        assert lod("convert", "-q", rows, source).code == 0
    before = rows
    for number, (text, *into) in enumerate(COLUMNS):
        assert lod("apply", text, before, *into, "-o", f"{number}.lod.h5").code == 0
        before = f"{number}.lod.h5"
    (first, *into), second, third = COLUMNS
    args = ("apply", first, source, *into, "--then", *second, "--then", *third)
    assert lod(*args, "-o", "all.lod.h5").code == 0
    done = lod("diff", before, "all.lod.h5", "--json")
    assert json.loads(done.stdout)["equal"]


def test_a_pipe_is_read_once(shell: Lod, rows: str) -> None:
    columns = "--into n --then 'n + 1' --into m --then 'length(x)' --into l"
    done = shell(f"cat rows.jsonl | lod apply -q 'length(x)' - --from jsonl {columns} --to jsonl")
    assert json.loads(done.stdout.splitlines()[-1]) == {"x": [], "k": "c", "n": 0, "m": 1, "l": 0}


def test_tensors_that_come_later_in_a_stream_have_their_dtypes(lod: Lod, folder: Path) -> None:
    data = {"first": LoDTensor.from_lists([[1] * 9] * 9), "x": LoDTensor.from_lists([[0.5], [2.5]])}
    io.write("two.lods", data)
    line = ("apply", "x * 2", "two.lods", "--into", "y", "--then", "sum(y)", "--into", "z")
    assert lod(*line, "-o", "out.lod.h5").code == 0
    found = tensors("out.lod.h5")
    assert [*found] == ["first", "x", "y", "z"]
    z = found["z"]
    assert z.to_list() == [1.0, 5.0]


def test_shards_have_all_columns(lod: Lod, rows: str) -> None:
    assert lod("shard", rows, "shards", "--shards", "2").code == 0
    (first, *into), second, _ = COLUMNS
    args = ("apply", first, "shards", *into, "--then", *second, "--jobs", "2", "-qo", "done")
    assert lod(*args).code == 0
    assert lod("convert", "-q", "done", "done.jsonl").code == 0
    assert [one["n"] for one in read_jsonl("done.jsonl")] == [3, 1, 0]
    done = lod(
        "apply", "x + 1", "shards", "--into", "y", "--then", "index()", "--jobs", "2", "-o", "no"
    )
    assert "index() counts the items of all" in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--then", "sum(x)"], "--then needs --into NAME before it, a name for 'length(x)'"),
        (["--into", "n", "--then"], "--then needs an expression"),
        (["--into", "n", "--then", "--into", "m"], "--then needs an expression"),
        (["--into", "n", "--then", "m + 1"], "no tensor 'm'; there are: x, k, n"),
        (["--into", "n", "--then", "sum"], "no tensor 'sum'; there are: x, k, n; the function is"),
        (["--into", "n", "--then", "x +"], "expression, column"),
        (["--into", "n", "--then", "k + 1"], "k is text"),
        (
            ["--into", "n", "--then", "sum(x)", "--into", "n"],
            "a tensor is called n already; give another name to 'sum(x)'",
        ),
        (["--into", "k"], "a tensor is called k already; give another name to 'length(x)'"),
    ],
)
def test_an_error_is_told_before_anything_is_written(
    lod: Lod, rows: str, line: list[str], said: str
) -> None:
    done = lod("apply", "length(x)", rows, *line, "-o", "out.lod.h5")
    assert done.code in (1, 2)
    assert said in done.stderr
    assert not Path("out.lod.h5").exists()


def test_an_expression_after_an_op_is_refused(lod: Lod, rows: str) -> None:
    done = lod("apply", "sum", f"{rows}::x", "--then", "x + 1", "-o", "out.lod.h5")
    assert done.code == 2
    assert "--then after an op takes an op, found 'x + 1'; in an expression" in done.stderr


@pytest.mark.parametrize("order", [1, -1])
def test_a_dtype_is_of_one_expression(lod: Lod, folder: Path, order: int) -> None:
    io.write("n.lod.h5", {"n": LoDTensor.from_lists([[1], [2, 3]])})
    first, second = [
        ("n * 2", ["--into", "p"]),
        ("sum(n) / 2", ["--dtype", "float32", "--into", "s"]),
    ][::order]
    line = ("apply", first[0], "n.lod.h5", *first[1], "--then", second[0], *second[1])
    assert lod(*line, "-o", "out.lod.h5").code == 0
    found = io.read_all("out.lod.h5")
    assert {name: str(found[name].dtype) for name in "nps"} == {
        "n": "int64",
        "p": "int64",
        "s": "float32",
    }


def test_a_dtype_is_that_of_floats_computed_from_times(lod: Lod, folder: Path) -> None:
    times = LoDTensor.from_lists([["2024-05-01T10:00", "2024-05-01T11:30"], []])
    io.write("t.lod.h5", {"text": times})
    assert lod("cast", "t.lod.h5", "text=timestamp[s]", "-o", "in.lod.h5").code == 0
    for text, dtype, wanted in (
        ("(last(text) - first(text)) / 'PT1H'", "float32", [1.5, None]),
        ("sum(diff(text)) / 'PT1H'", "float16", [1.5, 0.0]),
        ("index() * 0.5 + 0 * length(text)", "float32", [0.0, 0.5]),
        ("last(text) - first(text)", "float32", None),
        ("hour(text)", "float32", [[10, 11], []]),
    ):
        line = ("apply", text, "in.lod.h5", "--dtype", dtype, "--into", "x", "-fo", "out.lod.h5")
        assert lod(*line).clean
        found = tensor("out.lod.h5", "x")
        whole = wanted is None or "hour" in text
        assert str(found.dtype) == ("int64" if whole else dtype)
        assert wanted is None or found.to_list() == wanted


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["last(t) - first(t)", "--dtype", "float16"], None),
        (
            ["(last(t) - first(t)) / 'PT1S'", "--dtype", "float16", "--into", "r"],
            "r: row 1: 172800.0 does not fit float16; give --dtype float32 or float64",
        ),
        (["n * 2", "--dtype", "bfloat16"], None),
        (
            ["n * 2", "--dtype", "float16"],
            "n: row 1: 70000 does not fit float16; give --dtype float32 or float64",
        ),
        (
            ["sum", "in.lod.h5::w", "--dtype", "float32"],
            "w: level 0 item 0, row 0: 1e+39 does not fit float32; give --dtype float64",
        ),
        (
            ["sum", "in.lod.h5::w", "--dtype", "bfloat16"],
            "w: level 0 item 0, row 0: 1e+39 does not fit bfloat16; give --dtype float64",
        ),
        (
            ["w * 1", "--dtype", "float16"],
            "w: level 0 item 0, row 0: 1e+39 does not fit float16; give --dtype float64",
        ),
        (["v + 1", "--dtype", "float16"], None),  # is inf in the file
        (["m * 2", "--dtype", "float16"], None),  # is computed in float16, as NumPy does
    ],
)
def test_values_too_large_for_a_dtype_are_an_error(
    lod: Lod, folder: Path, line: list[str], said: str | None
) -> None:
    times = LoDTensor.from_lists([["2024-05-01", "2024-05-01"], ["2024-05-01", "2024-05-03"]])
    data = {
        "t": times,
        "n": LoDTensor(np.array([1, 70000])),
        "m": LoDTensor(np.array([1, 40000])),
        "v": LoDTensor(np.array([np.inf, np.nan])),
        "w": LoDTensor(np.array([1e39, 1]), [[1, 1]]),
    }
    io.write("text.lod.h5", data)
    assert lod("cast", "text.lod.h5", "t=timestamp[s]", "-o", "in.lod.h5").code == 0
    source = [] if "in.lod.h5::w" in line else ["in.lod.h5"]
    done = lod("apply", line[0], *source, *line[1:], "-o", "out.lod.h5")
    assert done.code == (0 if said is None else 1)
    assert (said in done.stderr) if said else not done.stderr


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (["x * 1", "s.lod.h5"], "s.lod.h5: x: row 65519: 65520"),
        (["cumsum", "l.lod.h5::x"], "l.lod.h5: x: level 0 item 65519, row 0: 65520"),
    ],
)
def test_a_value_too_large_in_a_later_batch_has_its_place_in_the_file(
    lod: Lod, folder: Path, line: list[str], row: str
) -> None:
    numbers = np.arange(1, 70001)
    io.write("s.lod.h5", {"x": LoDTensor(numbers)})
    io.write("l.lod.h5", {"x": LoDTensor(numbers, [np.ones(numbers.size, np.int64)])})
    done = lod("apply", *line, "--dtype", "float16", "--memory", "1M", "-o", "out.lod.h5")
    assert done.code == 1
    assert f"{row} does not fit float16" in done.stderr


@pytest.mark.parametrize("last", [[], ["--into", "ly"]])
def test_expressions_over_tensors_of_other_items_need_separate_runs(
    lod: Lod, folder: Path, last: list[str]
) -> None:
    data = {n: LoDTensor.from_lists([[1]] * count) for n, count in (("x", 2), ("y", 5))}
    io.write("two.lod.h5", data)
    line = ("apply", "length(x)", "two.lod.h5", "--into", "lx")
    done = lod(*line, "--then", "length(y)", *last, "-o", "out.lod.h5")
    assert done.code == 2
    assert done.stderr.endswith(
        "two.lod.h5: y does not share the items of x (level 0); expressions with --then take "
        "tensors of the same items: run lod apply once more for the others\n"
    )
    assert not Path("out.lod.h5").exists()
    assert lod(*line, "-qo", "lx.lod.h5").code == 0
    assert lod("apply", "length(y)", "lx.lod.h5", *last, "-qo", "out.lod.h5").code == 0
