"""`lod apply` with shift and diff: of times and numbers, in expressions, over batches."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks, Times
from tests.lodcli.conftest import Lod, tensors

START, MINUTE = datetime(2024, 5, 1, 12), timedelta(minutes=1)
LISTS: dict[str, Any] = {
    "at": pa.array(
        [[START, START + MINUTE, START + 5 * MINUTE], [], [START]],
        pa.list_(pa.timestamp("us", "UTC")),
    ),
    "day": pa.array([[date(2024, 5, 1), date(2024, 5, 3)], [], []], pa.list_(pa.date32())),
    "clock": pa.array([[time(12), time(11)], [], []], pa.list_(pa.time64("us"))),
    "wait": pa.array([[MINUTE, 3 * MINUTE], [], []], pa.list_(pa.duration("s"))),
    "n": [[1, 4, 9], [], [5]],
    "price": pa.array([[Decimal("1.50"), Decimal("2.25")], [], []], pa.list_(pa.decimal128(5, 2))),
    "gone": [[1, None, 9], None, [5]],
    "word": pa.array([["no", "yes"], [], []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
}
ZERO = timedelta()
COMPUTED: dict[str, list[Any]] = {
    "diff(at)": [[MINUTE, 4 * MINUTE], [], []],
    "diff(at, pad_value='PT0S')": [[ZERO, MINUTE, 4 * MINUTE], [], [ZERO]],
    "diff(at, -1, pad_value='-PT1M')": [[-MINUTE, -4 * MINUTE, -MINUTE], [], [-MINUTE]],
    "diff(at, lag=2)": [[5 * MINUTE], [], []],
    "at - shift(at)": [[None, MINUTE, 4 * MINUTE], [], [None]],
    "diff(day)": [[timedelta(2)], [], []],
    "diff(day, pad_value='P1D')": [[timedelta(1), timedelta(2)], [], []],
    "diff(day - '2024-05-01')": [[timedelta(2)], [], []],
    "shift(day, pad_value='2024-04-30')": [[date(2024, 4, 30), date(2024, 5, 1)], [], []],
    "diff(clock)": [[timedelta(hours=-1)], [], []],
    "diff(wait)": [[2 * MINUTE], [], []],
    "diff(wait / 2)": [[MINUTE], [], []],
    "mean(diff(at))": [2.5 * MINUTE, None, None],
    "max(diff(at)) > 'PT3M'": [True, None, None],
    "diff(at) / 'PT1M'": [[1.0, 4.0], [], []],
    "diff(n) / (diff(at) / 'PT1M')": [[3.0, 1.25], [], []],
    "shift(n)": [[0, 1, 4], [], [0]],
    "shift(n, -1, pad_value=7)": [[4, 9, 7], [], [7]],
    "n - shift(n, 1, pad_value=1)": [[0, 3, 5], [], [4]],
    "diff(price)": [[0.75], [], []],
    "shift(price)": [[0.0, 1.5], [], []],
    "diff(gone)": [[None, None], None, []],
    "shift(gone)": [[0, 1, None], None, [0]],
    "shift(word) == 'no'": [[None, True], [], []],
    "shift(word)": [[None, "no"], [], []],
}


@pytest.fixture
def events(folder: Path) -> None:
    pq.write_table(pa.table(LISTS), "in.parquet")


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("text", COMPUTED)
def test_expressions_shift_and_subtract(text: str, lod: Lod) -> None:
    assert lod("apply", "-q", text, "in.parquet", "-o", "out.parquet").code == 0
    (column,) = pq.read_table("out.parquet")
    assert column.to_pylist() == COMPUTED[text]


# The op, its options and the lists that it writes, as the expression does.
@pytest.mark.usefixtures("events")
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("diff in.parquet::at", "diff(at)"),
        ("diff in.parquet::at --pad-value PT0S", "diff(at, pad_value='PT0S')"),
        ("diff in.parquet::at --pad-value -PT1M --lag -1", "diff(at, -1, pad_value='-PT1M')"),
        ("diff in.parquet::at --lag 2 --level 0", "diff(at, lag=2)"),
        ("diff in.parquet::day --pad-value P1D --backend numpy", "diff(day, pad_value='P1D')"),
        ("diff in.parquet::price", "diff(price)"),
        ("diff in.parquet::gone", "diff(gone)"),
        ("shift in.parquet::n --lag -1 --pad-value 7", "shift(n, -1, pad_value=7)"),
        ("shift in.parquet::word", "shift(word)"),
        ("shift in.parquet::day --pad-value 2024-04-30", "shift(day, pad_value='2024-04-30')"),
    ],
)
def test_ops_write_what_expressions_do(line: str, text: str, lod: Lod) -> None:
    assert lod("apply", *line.split(), "-q", "-o", "out.parquet").code == 0
    (column,) = pq.read_table("out.parquet")
    assert column.to_pylist() == COMPUTED[text]


@pytest.mark.usefixtures("events")
def test_shifted_decimals_stay_decimals(lod: Lod) -> None:
    done = lod(
        "apply", "shift", "in.parquet::price", "-q", "--pad-value", "9.99", "-o", "o.parquet"
    )
    assert done.code == 0, done.stderr
    (column,) = pq.read_table("o.parquet")
    assert column.to_pylist() == [[Decimal("9.99"), Decimal("1.50")], [], []]


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["diff(n, 1, 2)", "in.parquet"],
            2,
            "diff takes one tensor, lag by position, and options by name, as level=0",
        ),
        (
            ["reverse(n, 0)", "in.parquet"],
            2,
            "reverse takes one tensor, and options by name, as level=0",
        ),
        (["diff(n, 1, lag=2)", "in.parquet"], 2, "diff has the option lag twice"),
        (["shift(n, at)", "in.parquet"], 2, "column 10: expected a number, a text in quotes"),
        (["lag(n)", "in.parquet"], 2, "no function 'lag'; lod apply has shift(x), the row before"),
        (["diff(at, pad_value=nan)", "in.parquet"], 2, "no tensor 'nan'"),
        (["diff", "in.parquet::at", "--pad-value", "nan"], 2, "expected a duration such as"),
        (
            ["diff", "in.parquet::at", "--pad-value", "soon"],
            2,
            "expected a duration such as 'PT90S'",
        ),
        (
            ["shift", "in.parquet::word", "--then", "reverse", "--then", "last"],
            4,
            "row <0,1> is null after shift, and last takes no nulls; give shift --pad-value\n",
        ),
        (
            ["reverse", "in.parquet::gone", "--then", "last"],
            4,
            "is null, and last takes no nulls; use --nulls",
        ),
        (["diff", "in.parquet::n", "--pad-value", "PT0S"], 2, "expected a number, found 'PT0S'"),
    ],
)
def test_invalid_arguments_are_errors(arguments: list[str], code: int, said: str, lod: Lod) -> None:
    done = lod("apply", *arguments, "-o", "out.parquet")
    assert (done.code, Path("out.parquet").exists()) == (code, False)
    assert said in done.stderr


@pytest.mark.parametrize("op", [["diff(data)"], ["diff"]])
def test_a_difference_beyond_64_bits_is_an_error(op: list[str], lod: Lod, folder: Path) -> None:
    times = LoDTensor([-(2**62) - 9, 2**62 + 9], [[2]], Marks(unit=Times("timestamp", "ns")))
    lodcli.write(folder / "in.lod.h5", times)
    done = lod("apply", *op, "in.lod.h5", "-o", "out.lod.h5")
    assert done.code in (1, 2)
    assert "a time does not fit 64 bits" in done.stderr


@pytest.mark.parametrize("option", [[], ["--into", "gap"]])
def test_many_batches_are_those_of_polars(
    option: list[str], lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl = pytest.importorskip("polars")
    monkeypatch.setattr("lodcli.commands.apply.results.COMPUTED_BYTES", 1 << 10)
    draws = np.random.default_rng(2)
    lengths = draws.integers(0, 30, 400)
    seconds = np.sort(draws.integers(0, 10**6, int(lengths.sum())))
    lodcli.write(
        folder / "in.lod.h5",
        {"time": LoDTensor(seconds, [lengths], Marks(unit=Times("timestamp", "s")))},
    )
    done = lod(
        "apply", "diff(time, pad_value='PT0S')", "in.lod.h5", *option, "-q", "-o", "o.parquet"
    )
    assert done.code == 0, done.stderr
    table = pl.DataFrame({"key": np.repeat(np.arange(400), lengths), "x": seconds})
    gaps = table.select(pl.col("x").diff().over("key").fill_null(0))["x"].to_numpy()
    found = pl.read_parquet("o.parquet")
    assert found.columns == (["time", "gap"] if option else ["time"])
    column = found["gap" if option else "time"]
    flat = column.explode().drop_nulls().dt.total_seconds().to_numpy()
    np.testing.assert_array_equal(flat, gaps)


def test_padded_differences_keep_the_index_of_the_file(lod: Lod, folder: Path) -> None:
    lodcli.write(folder / "in.lod.h5", {"x": LoDTensor([1.0, 4.0, 9.0], [[2, 1]])})
    done = lod("apply", "diff(x, pad_value=0)", "in.lod.h5", "-q", "--into", "d", "-o", "o.lod.h5")
    assert done.code == 0, done.stderr
    found = tensors("o.lod.h5")
    one, other = (found[name] for name in ("x", "d"))
    assert other.to_list() == [[0.0, 3.0], [0.0]]
    assert other.lod.levels[0] is one.lod.levels[0]
