"""Commands that choose rows keep the units of times and decimals, and inspect shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli.commands.apply import in_step, results
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, applied, tensor


def test_commands_keep_and_show_them(lod: Lod, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {
        "at": pa.array([0, None, 16, -5], pa.timestamp("us", "Europe/Zurich")),
        "sum": pa.array([Decimal("1.5"), None, Decimal(2), Decimal(0)], pa.decimal128(20, 2)),
        "n": pa.array([3, 1, 2, 0]),
    }
    pq.write_table(pa.table(columns), "t.parquet")
    assert lod("sort", "t.parquet", "--by", "n", "-o", "o.lod.h5").code == 0
    order = [3, 1, 2, 0]
    for name in ("at", "sum"):
        assert tensor("o.lod.h5", name).to_arrow().equals(columns[name].take(order))
    shown = lod("inspect", "o.lod.h5").stdout
    assert "timestamp[us, Europe/Zurich] (int64) or null" in shown
    assert "decimal(20, 2) (int64) or null" in shown
    assert lod("slice", "t.parquet::at", "2:", "-o", "s.parquet").code == 0
    assert pq.read_table("s.parquet")["at"].combine_chunks().equals(columns["at"][2:])


START = datetime(2024, 5, 1, 12)
MOMENTS = [START - timedelta(seconds=1), START, None, START + timedelta(seconds=1)]
DAY = timedelta(1)
DAYTIME = datetime(2024, 5, 1)
DAYS = [date(2024, 5, 1), date(2024, 4, 30)]
WORDS = pa.list_(pa.dictionary(pa.int32(), pa.string()))
# The items that are kept, and where an error is.
TIMES: dict[str, list[int]] = {
    "t > '2024-05-01T12:00'": [3],
    "t == '2024-05-01 12:00:00.000000000'": [1],
    "'2024-05-01T12:00Z' <= t": [1, 3],
    "ms >= '2024-05-01T14:00+02:00'": [1, 3],
    "ms == '2024-05-01T10:30-0130'": [1],
    "ms == '2024-05-01 10:00-02'": [1],
    "ms in ('2024-05-01T12:00', '2024-05-01T12:00:01')": [1, 3],
    "t < '2024-05-02' and ms > '0001-01-01'": [0, 1, 3],
    "day == '2024-05-01'": [0, 1, 3],
    "day > '2024-04-30' and day < '9999-12-31'": [0, 1, 3],
    "clock < '12:00'": [0],
    "clock >= '12:00:00.5'": [3],
    "t >= 1714564800000000": [1, 3],
    "any(l > '2024-05-01T12:00')": [1],
    "max(l) > '2024-05-01T12:00'": [1],
    "first(l) in ('2024-05-01T11:59:59', '2024-05-02')": [1],
    "maximum(t, t) == '2024-05-01T12:00'": [1],
    "max(l) - min(l) == 'PT2S'": [1],
    "mean(l) - first(l) > 'PT0S'": [1],
    "t - wait < '2024-05-01T11:58:30'": [0, 3],
    "wait > 'PT1H' and '-P1DT1M0.5S' < wait": [3],
    "sum(waits) == 'P1W' and abs(wait) <= 'PT1M30S'": [0, 1],
    "first(word) == 'no'": [0, 3],
    "maximum(5, wait) > 'PT1H' or minimum(wait, '-PT1M') == '-PT90S'": [1, 3],
    "-wait > 'PT1M' or wait / 2 > 'PT50M'": [1, 3],
    "wait * 2 == 'PT3M' or 2 * wait < '-PT2M'": [0, 1],
    "maximum(t, '2024-05-01T12:00') == '2024-05-01T12:00'": [0, 1],
    "t + 'PT1H' > '2024-05-01T13:00' or 'PT1S' + t == '2024-05-01T12:00'": [0, 3],
    "'2024-05-01T12:00:01' - t <= 'PT1S'": [1, 3],
    "day - 'P1D' == '2024-04-30' and clock + 'PT1H' < '13:00' and wait - 'PT1M' > 0": [0],
    "t - '2024-04-30' > 'P1DT12H' or max(l) + '-PT1S' == '2024-05-01T12:00'": [1, 3],
    "t >= day and day + 'P1D' > t and not t == day": [0, 1, 3],
    "t - ms == 'PT0S' and maximum(t, ms) - day >= 'PT12H'": [1, 3],
    "any(l + 'PT1S' == ms) or any(waits / wait == 6720)": [0, 1, 3],
    "wait / 'PT1H' == 2 or 'PT2H' // wait == 80 or wait % 'PT1M' == 'PT0S'": [0, 3],
    "clock + 'PT12H' == '00:00' or clock - 'P2D' > '12:00'": [1, 3],
}
WRONG_TIMES = {
    "t > 'now'": "column 5: t is timestamp[us]: expected a timestamp such as '2024-05-01' or",
    "t > '2024-02-30'": "found '2024-02-30'",
    "clock > '25:00'": "clock is time[us]: expected a time such as '12:30' or '12:30:05.25'",
    "day == '2024-05-01T12:00'": "day is date[D]: '2024-05-01T12:00' is not a whole number of",
    "t == wait": "column 6: t is timestamp[us] and wait is duration[us]: the kinds differ",
    "clock - t > 0": "column 1: clock is time[us] and t is timestamp[us]: the kinds differ",
    "max(l) > 'now'": "l is timestamp[ns]: expected a timestamp such as",
    "sum(l) > '2024-05-01'": "column 1: sum is not defined for timestamp[ns]; write (l - '1970-",
    "max(l) > first(waits)": "l is timestamp[ns] and waits is duration[s]: the kinds differ",
    "maximum(t, clock) > 0": "column 1: t is timestamp[us] and clock is time[us]: the kinds differ",
    "maximum(first(word), 'no') == 'no'": "the categories of word have no order",
    "maximum(t, n) > 0": "column 12: t is timestamp[us]; expected times, or one number, beside it",
    "coalesce(n, day) > 0": "column 10: day is date[D]; expected times, or one number, beside it",
    "-t > '2024-05-01'": "column 1: - is not defined for timestamp[us]; write (t - '1970-01-01')",
    "t + 'soon' > 0": "column 5: expected a duration such as 'PT90S'",
    "t - 'soon' > 0": "column 5: expected a timestamp such as '2024-05-01'",
    "t + (t > 5) > 0": "column 6: + is not defined for booleans and timestamp[us]",
    "wait - True > 0": "column 8: - is not defined for booleans and duration[us]",
    "(day is None) + wait > 0": "column 2: + is not defined for booleans and duration[us]",
    "t * 'PT1S' > 0": "column 1: * is not defined for timestamp[us] and a text; write (t",
    "wait * wait > 'PT1S'": "* is not defined for duration[us] and duration[us]; write wait",
    "wait > '90s'": "wait is duration[us]: expected a duration such as 'PT90S' or 'P1DT12H30M'",
    "wait > 'PT'": "found 'PT'",
    "wait > 'PT0.0000001S'": "'PT0.0000001S' is not a whole number of the unit us",
    "first(word) == t": "word is category[2] and t is timestamp[us]: the kinds differ",
    "t / 'PT1S' > 0": "column 1: / is not defined for timestamp[us] and a text; write (t - ",
    "n > '2024'": "expected a number, found '2024'; n is not text",
}


@pytest.fixture
def times(folder: Path) -> None:
    moments = pa.array(MOMENTS, pa.timestamp("us"))
    columns = {
        "t": moments,
        "ms": moments.cast(pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC")),
        "day": moments.cast(pa.date32()),
        "days": pa.array(
            [[DAYS[0], DAYS[0] + 4 * DAY], [], None, [DAYS[1]]], pa.list_(pa.date32())
        ),
        "clock": moments.cast(pa.time64("us")),
        "l": pa.array([[], [MOMENTS[0], MOMENTS[3]], None, [START]], pa.list_(pa.timestamp("ns"))),
        "n": [0, 1, 2, 3],
        "half": pa.array([Decimal("0.5")] * 4),
        "wait": pa.array([90_000_000, -90_000_000, None, 7_200_000_000], pa.duration("us")),
        "waits": pa.array([[7 * DAY], [3 * DAY, 4 * DAY], None, []], pa.list_(pa.duration("s"))),
        "word": pa.array([["no"], ["yes", "no"], [], ["no", "yes"]], WORDS),
    }
    pq.write_table(pa.table(columns), "t.parquet")


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("text", TIMES)
def test_times_are_compared_with_dates(text: str, lod: Lod) -> None:
    assert lod("filter", "-q", "t.parquet", text, "-o", "out.parquet").code == 0
    assert pq.read_table("out.parquet")["n"].to_pylist() == TIMES[text]


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("text", WRONG_TIMES)
def test_invalid_times_are_errors(text: str, lod: Lod) -> None:
    done = lod("filter", "t.parquet", text, "-o", "out.parquet")
    assert done.code == 2
    assert WRONG_TIMES[text] in done.stderr
    assert not Path("out.parquet").exists()


SECOND = timedelta(seconds=1)
# By hand, as Polars computes them.
COMPUTED: dict[str, list[Any]] = {
    "t > '2024-05-01T12:00'": [False, False, True],
    "t - '2024-05-01T11:59:59'": [0 * DAY, SECOND, 2 * SECOND],
    "t + wait / 2": [START + 44 * SECOND, START - 45 * SECOND, START + 3601 * SECOND],
    "day - first(days)": [0 * DAY, None, DAY],
    "(day - '2024-04-30') / 2": [DAY / 2] * 3,
    "day + 'P1D'": [date(2024, 5, 2)] * 3,
    "days - first(days)": [[0 * DAY, 4 * DAY], [], [0 * DAY]],
    "max(days - '2024-05-01')": [4 * DAY, None, -DAY],
    "max(days - '2024-05-01', pad_value='P1D')": [4 * DAY, DAY, -DAY],
    "sum(waits)": [7 * DAY, 7 * DAY, 0 * DAY],
    "mean(waits)": [7 * DAY, 3.5 * DAY, None],
    "cumsum(waits)": [[7 * DAY], [3 * DAY, 7 * DAY], []],
    "waits % first(waits)": [[0 * DAY], [0 * DAY, DAY], []],
    "max(waits) - first(waits)": [0 * DAY, DAY, None],
    "max(waits) + t": [START - SECOND + 7 * DAY, START + 4 * DAY, None],
    "t - day": [DAY / 2 - SECOND, DAY / 2, DAY / 2 + SECOND],
    "day + wait": [DAYTIME + 90 * SECOND, DAYTIME - 90 * SECOND, DAYTIME + 7200 * SECOND],
    "maximum(days, first(days) + 'P1D')": [[DAYS[0] + DAY, DAYS[0] + 4 * DAY], [], [DAYS[0]]],
    "max(waits) > 'P5D' or n < 2": [True, True, None],
    "max(waits) > 'P5D' and n < 2": [True, False, False],
    "abs(wait)": [90 * SECOND, 90 * SECOND, 7200 * SECOND],
    "wait * half": [45 * SECOND, -45 * SECOND, 3600 * SECOND],
    "wait / 'PT1M'": [1.5, -1.5, 120.0],
    "clock + (l - first(l))": [[], [time(12), time(12, 0, 2)], [time(12, 0, 1)]],
    "clock - 'PT13H'": [time(22, 59, 59), time(23), time(23, 0, 1)],
    "wait / n": [None, -90 * SECOND, 2400 * SECOND],
    "reverse(word)": [["no"], ["no", "yes"], [], ["yes", "no"]],
    "first(word) == 'yes'": [False, True, None, False],
    "(t)": [START - SECOND, START, START + SECOND],
}


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("text", COMPUTED)
def test_apply_computes_with_times(text: str, lod: Lod) -> None:
    assert lod("apply", "-q", text, "t.parquet", "--nulls", "drop", "-o", "out.parquet").code == 0
    (column,) = pq.read_table("out.parquet")
    assert column.to_pylist() == COMPUTED[text]


@pytest.mark.usefixtures("folder")
def test_hints_for_hours_and_weekdays_are_those_of_python(lod: Lod) -> None:
    moments = [START, START - 20000 * DAY, datetime(1969, 12, 31, 23, 59), datetime(2024, 5, 5)]
    days = [one.date() for one in moments]
    io.write("t.lod.h5", {"t": LoDTensor.from_lists(moments), "day": LoDTensor.from_lists(days)})
    for text, wanted in {
        "(t - '1970-01-01') // 'PT1H' % 24": [one.hour for one in moments],
        "(day - '1970-01-05') // 'P1D' % 7": [one.weekday() for one in days],
        "(t - '1970-01-05') // 'P1D' % 7": [one.weekday() for one in days],
    }.items():
        assert applied(lod, text, "t.lod.h5") == wanted


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("text", ["l + 'P100000D'", "l - (t - 'P200000D')", "wait * 10 ** 15"])
def test_a_time_beyond_64_bits_is_an_error(text: str, lod: Lod) -> None:
    done = lod("apply", text, "t.parquet", "--nulls", "drop", "-o", "out.parquet")
    assert done.code == 2
    assert done.stderr.endswith(": a time does not fit 64 bits\n")


@pytest.mark.usefixtures("times")
def test_a_dtype_does_not_round_times(lod: Lod) -> None:
    line = ["apply", "-q", "t - '2024-05-01'", "t.parquet", "--nulls", "drop", "--dtype", "float32"]
    assert lod(*line, "-o", "out.npz").code == 0
    assert tensor("out.npz").to_list()[0] == timedelta(hours=12) - SECOND


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["parquet", "lod.h5"])
def test_a_dtype_is_that_of_plain_numbers_and_decimals(kind: str, lod: Lod) -> None:
    """Batches of tensors without a common level, as in lod.h5, have no marks."""
    columns = {
        "price": pa.array([Decimal("1.25"), Decimal("-3.50")]),
        "word": pa.array(["one", "two"]),
        "t": pa.array([START, START + SECOND], pa.timestamp("us")),
        "u": pa.array([START - SECOND, START], pa.timestamp("us")),
    }
    pq.write_table(pa.table(columns), "t.parquet")
    assert lod("convert", "t.parquet", f"in.{kind}").code == 0
    for text, wanted in {
        "price * 2": [2.5, -7.0],
        "price + length(word)": [4.25, -0.5],
        "word == 'two'": [False, True],
        "word < 'two'": [True, False],
        "t - u": [SECOND, SECOND],
    }.items():
        assert lod("apply", text, f"in.{kind}", "--dtype", "float32", "-q", "-fo", "o.lod.h5").clean
        assert tensor("o.lod.h5").to_list() == wanted, text
    assert (
        lod("apply", "price * 2", f"in.{kind}", "--dtype", "float32", "-fo", "o.lod.h5").code == 0
    )
    assert tensor("o.lod.h5").dtype == "float32"


def test_statistics_of_times_are_those_of_pandas(lod: Lod, folder: Path) -> None:
    pd = pytest.importorskip("pandas")
    moments = pd.Series([START, START + timedelta(1), START + timedelta(3)])
    spans = pd.Series([timedelta(seconds=1), timedelta(seconds=-2), timedelta(minutes=1)])
    table = pa.table({"t": moments, "w": spans, "day": moments.dt.date})
    pq.write_table(table, folder / "t.parquet")
    lines = lod("inspect", str(folder / "t.parquet"), "--stats").stdout.splitlines()
    found = {line.split()[0]: line.split()[2:6] for line in lines[-3:]}
    for name, column in (("t", moments), ("w", spans)):
        wanted = [column.min(), column.mean(), column.max(), column.std(ddof=0)]
        for text, value in zip(found[name], wanted, strict=True):
            assert abs(type(value)(text) - value) < pd.Timedelta("1us")
    assert found["day"] == ["2024-05-01", "2024-05-02", "2024-05-04", "PT107760S"]


PRICES = ["12.50", "0.10", None, "-3.00", "150.00", "100.01"]


DECIMALS: dict[str, Callable[[Decimal], bool]] = {
    "p > 100": lambda p: p > 100,
    "p == 12.5": lambda p: p == Decimal("12.5"),
    "p in (0.1, 150)": lambda p: p in (Decimal("0.1"), 150),
    "p * 2 < 25.5": lambda p: p * 2 < Decimal("25.5"),
    "abs(-p) >= 3": lambda p: abs(p) >= 3,
    "sum(l) > 12": lambda p: p > 12,
}


@pytest.mark.parametrize("scale", [2, 0])
def test_expressions_compute_with_the_values_of_decimals(
    scale: int, lod: Lod, folder: Path
) -> None:
    """And not with their digits, 1250 for 12.50."""
    unit = Decimal(1).scaleb(-scale)
    prices = [None if one is None else Decimal(one).quantize(unit) for one in PRICES]
    column = pa.array(prices, pa.decimal128(12, scale))
    pq.write_table(
        pa.table({"p": column, "n": range(6), "l": [[one] for one in prices]}), "p.parquet"
    )
    for text, holds in DECIMALS.items():
        assert lod("filter", "-q", "p.parquet", text, "-fo", "out.parquet").code == 0
        wanted = [n for n, p in enumerate(prices) if p is not None and holds(p)]
        assert pq.read_table("out.parquet")["n"].to_pylist() == wanted, text
    assert lod("sort", "-q", "p.parquet", "--by", "-p", "-fo", "out.parquet").code == 0
    ordered = sorted((p for p in prices if p is not None), reverse=True)
    assert pq.read_table("out.parquet")["p"].to_pylist() == [*ordered, None]
    args = ("p.parquet", "--nulls", "drop", "-fo", "out.npz")
    assert lod("apply", "-q", "p / 2 + 1", *args).code == 0
    assert tensor("out.npz").to_list() == [float(p) / 2 + 1 for p in prices if p is not None]


WIDE = ["9999999999999999.99", "9999999999999999.98", "0.10", "1e16", "9999999999999999.99", "0.3"]


@pytest.mark.usefixtures("folder")
def test_decimals_of_many_digits_are_compared_exactly(lod: Lod) -> None:
    """As floats of 64 bits, the first four numbers but 0.10 are equal."""
    prices = [Decimal(one).quantize(Decimal("0.01")) for one in WIDE]
    small = pa.array([Decimal("0.1")] * 6, pa.decimal128(4, 1))
    table = {"p": pa.array(prices, pa.decimal128(20, 2)), "q": small, "f": [0.1] * 6, "n": range(6)}
    pq.write_table(pa.table(table), "p.parquet")
    for text, wanted in {
        "p == 9999999999999999.99": [0, 4],
        "9_999_999_999_999_999.985 <= p < 1e16": [0, 4],
        "p in (9999999999999999.98, 0.1)": [1, 2],
        "p * 2 in (0.2, 0.6)": [2, 5],
        "p > 1e999 or p > 1e16 or p == 1e16": [3],
        "max(p) < 9999999999999999.99": [1, 2, 5],
        "p == q": [2],
        "p == f and q == f": [2],
        "p - f == 0 or p * 3 == q * 9": [2, 5],
    }.items():
        assert lod("filter", "-q", "p.parquet", text, "-fo", "out.parquet").code == 0
        assert pq.read_table("out.parquet")["n"].to_pylist() == wanted, text
    for key, wanted in {"p": [2, 5, 1, 0, 4, 3], "-p": [3, 0, 4, 1, 5, 2]}.items():
        assert lod("sort", "-q", "p.parquet", "--by", key, "-fo", "out.parquet").code == 0
        assert pq.read_table("out.parquet")["n"].to_pylist() == wanted
    done = lod("apply", "p / 2", "p.parquet", "-o", "out.npz")
    assert done.code == 1
    assert "p: decimal(20, 2) with a number of more than 15 digits, which float64 rounds" in (
        done.stderr
    )
    assert lod("filter", "-q", "p.parquet", "p < 1", "-fo", "out.parquet").code == 0
    assert applied(lod, "p / 2", "out.parquet") == [0.05, 0.15]


@pytest.mark.usefixtures("folder")
def test_ops_compute_with_the_values_of_decimals(lod: Lod) -> None:
    prices = [[Decimal("1.50"), Decimal("2.25")], [Decimal("3.00")]]
    io.write("p.lod.h5", LoDTensor.from_lists(prices))
    for line, wanted in {
        "sum p.lod.h5": [3.75, 3.0],
        "mul p.lod.h5 2": [[3.0, 4.5], [6.0]],
        "reverse p.lod.h5 --dtype float32": [[2.25, 1.5], [3.0]],
        "reverse p.lod.h5": [prices[0][::-1], prices[1]],
        "reverse p.lod.h5 --then sum": [3.75, 3.0],
        "sort p.lod.h5 --descending --then truncate --length 1": [prices[0][1:], prices[1]],
        "sort_by_length p.lod.h5": prices,
        "sort_by_length p.lod.h5 --then last": [2.25, 3.0],
    }.items():
        assert lod("apply", *line.split(), "-fo", "out.lod.h5").clean
        assert tensor("out.lod.h5").to_list() == wanted


@pytest.mark.usefixtures("folder")
def test_a_time_picked_from_an_empty_sequence_is_null_in_any_batch(
    lod: Lod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch determines the schema of the output, and has no empty sequence."""
    for module in (results, in_step):
        monkeypatch.setattr(module, "COMPUTED_BYTES", 8)
    days = [[date(2024, 5, 1)], [date(2024, 5, 2), date(2024, 5, 3)], []]
    io.write("t.lod.h5", LoDTensor.from_lists(days))
    for line, wanted in {
        "first t.lod.h5": [days[0][0], days[1][0], None],
        "max_index t.lod.h5": [days[0][0], days[1][1], None],
        "sort_by_length t.lod.h5 --then last": [days[1][1], days[0][0], None],
        "max t.lod.h5 --pad-value 0": [days[0][0], days[1][1], date(1970, 1, 1)],
    }.items():
        assert lod("apply", "-q", *line.split(), "-fo", "out.lods").clean
        assert next(iter(lodcli.read_all("out.lods").values())).to_list() == wanted
    done = lod("apply", "first", "t.lod.h5", "-o", "out.npy")
    assert done.code == 4
    assert "is null; npy has no nulls" in done.stderr
    assert done.stderr.endswith("; --pad-value replaces those of missing rows\n")
    io.write("p.lod.h5", LoDTensor.from_lists([[Decimal("1.5")], []]))
    assert lod("apply", "max", "p.lod.h5", "-fo", "out.lods").code == 0
    with lodcli.open("out.lods") as file:
        assert not file.schema[0].nullable  # 0, as of other numbers


@pytest.mark.parametrize(
    ("values", "text", "wanted"),
    [
        ([START], "2024-05-02", START + timedelta(hours=12)),
        ([timedelta(1)], "PT1M", timedelta(minutes=1)),
        ([Decimal("1.5")], "0.2", Decimal("0.2")),
        ([1], "9007199254740993", 9007199254740993),
        ([2.5], "inf", float("inf")),
        ([START], "soon", "expected a timestamp such as '2024-05-01' or"),
        ([Decimal("1.5")], "soon", r"expected a decimal\(2, 1\), found 'soon'"),
        ([1], "2024-05-02", "expected a number, found '2024-05-02'"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_pad_value_is_written_as_the_values(
    values: list[Any], text: str, wanted: Any, lod: Lod
) -> None:
    io.write("in.lod.h5", LoDTensor.from_lists([values, []]))
    done = lod("apply", "max", "in.lod.h5", "--pad-value", text, "-o", "out.lod.h5")
    if isinstance(wanted, str):
        assert done.code == 2
        assert re.search(f"in.lod.h5: pad_value: {wanted}", done.stderr)
    else:
        assert (done.code, done.stderr) == (0, "")
        assert tensor("out.lod.h5").to_list() == [*values, wanted]


@pytest.mark.usefixtures("folder")
def test_the_pad_value_of_categories_is_a_word(lod: Lod) -> None:
    io.write("in.lod.h5", LoDTensor([0, 1], [[2, 0]]).as_categories(["3", "1"]))
    assert lod("apply", "first", "in.lod.h5", "--pad-value", "1", "-o", "out.lod.h5").clean
    assert tensor("out.lod.h5").to_list() == ["3", "1"]
    done = lod("apply", "first", "in.lod.h5", "--pad-value", "0", "-fo", "out.lod.h5")
    assert "pad_value: no category '0'; there are: '3', '1'" in done.stderr


@pytest.mark.usefixtures("folder")
def test_nulls_are_filled_with_times_and_decimals(lod: Lod) -> None:
    """`fill=5` of a decimal(6, 2) is 5.00, not the digits 5."""
    io.write("t.parquet", LoDTensor.from_lists([datetime(2024, 5, 1), None]))
    io.write("p.parquet", LoDTensor.from_lists([Decimal("12.50"), None]))
    for name, fill, wanted in (
        ("t", "2000-01-01", datetime(2000, 1, 1)),
        ("t", "2000-01-01T12:30", datetime(2000, 1, 1, 12, 30)),
        ("p", "5", Decimal(5)),
        ("p", "0.25", Decimal("0.25")),
    ):
        assert lod(
            "convert", f"{name}.parquet", "--nulls", f"fill={fill}", "-fo", "out.parquet"
        ).clean
        assert tensor("out.parquet").to_list()[1] == wanted
    done = lod("convert", "p.parquet", "--nulls", "fill=2000-01-01", "-fo", "out.parquet")
    assert done.code == 1
    assert "no decimal(4, 2) is '2000-01-01', which nulls are to be filled with" in done.stderr


@pytest.mark.usefixtures("folder")
def test_moved_fields_of_records_leave_the_records_whole(lod: Lod) -> None:
    turns = [[{"at": START, "who": "a"}, {"at": START, "who": "b"}], []]
    pq.write_table(pa.table({"turns": turns}), "t.parquet")
    for op in ("reverse", "sort_by_length"):
        assert lod(
            "apply", "-q", op, "t.parquet::turns.at", "--into", "x", "-fo", "o.parquet"
        ).clean
        found = pq.read_table("o.parquet").to_pydict()
        assert found == {"turns": turns, "x": [[START, START], []]}


HALF_A_DAY = timedelta(hours=12)
SPANS = [[timedelta(hours=1), timedelta(0)], [timedelta(2)]]
# By hand: an op, its second operand, and the result for the times below.
OF_TIMES: dict[tuple[str, str], list[Any]] = {
    ("sub", "u.lod.h5"): [[timedelta(0), timedelta(1)], [timedelta(0)]],
    ("sub", "day.lod.h5"): [[HALF_A_DAY, 3 * HALF_A_DAY], [-HALF_A_DAY]],
    ("sub", "w.lod.h5"): [
        [START - timedelta(hours=1), START + timedelta(1)],
        [START - timedelta(2)],
    ],
    ("add", "w.lod.h5"): [
        [START + timedelta(hours=1), START + timedelta(1)],
        [START + timedelta(2)],
    ],
    ("sub", "5000000"): [[START - 5 * SECOND, START + timedelta(1, -5)], [START - 5 * SECOND]],
}


@pytest.mark.parametrize(("op", "other"), OF_TIMES)
def test_arithmetic_of_times_is_that_of_an_expression(
    op: str, other: str, lod: Lod, folder: Path
) -> None:
    """`lod apply sub a b` wrote numbers, and `lod apply 'a - b'` durations."""
    starts = [START, START + timedelta(1)]
    times = LoDTensor.from_lists([starts, [START]])
    content = {
        "t": times,
        "u": LoDTensor.from_lists([START, START]),
        "w": LoDTensor.from_lists(SPANS),
    }
    content["day"] = LoDTensor.from_lists([START.date(), START.date() + timedelta(1)])
    for name, item in content.items():
        io.write(f"{name}.lod.h5", item)
    assert lod("apply", op, "t.lod.h5", other, "-o", "out.lods").clean
    (found,) = lodcli.read_all("out.lods").values()
    assert found.to_list() == OF_TIMES[op, other]


@pytest.mark.parametrize("level", [0, 1])
def test_a_time_for_each_sequence_is_subtracted_from_its_rows(
    level: int, lod: Lod, folder: Path
) -> None:
    index = [[3, 0, 1], [2, 1, 0, 1]]
    times = [START + n * SECOND for n in range(4)]
    io.write("t.lod.h5", LoDTensor.from_lists([[times[:2], times[2:3], []], [], [times[3:]]]))
    counts = [3, 0, 1] if level == 0 else index[1]
    firsts = [START - n * DAY if n else None for n in range(len(counts))]
    # Without levels, and under those above.
    for other in (firsts, [firsts[:3], [], firsts[3:]])[: level + 1]:
        io.write("u.lod.h5", LoDTensor.from_lists(other), overwrite=True)
        spread = [one for one, count in zip(firsts, counts, strict=True) for _ in range(count)]
        wanted = [b and a - b for a, b in zip(times, spread, strict=True)]
        given = ("--level", "0") if level == 0 else ()
        assert lod("apply", "sub", "t.lod.h5", "u.lod.h5", *given, "-fo", "out.lods").clean
        (found,) = lodcli.read_all("out.lods").values()
        assert found.recursive_sequence_lengths() == index
        assert [time for item in found.to_list() for part in item for time in part] == wanted
    done = lod("apply", "sub", "t.lod.h5", "u.lod.h5", "--level", str(1 - level), "-fo", "o.lods")
    assert "expected one row of the second tensor for each sequence of the first" in done.stderr


@pytest.mark.usefixtures("folder")
def test_arithmetic_of_durations_is_that_of_an_expression(lod: Lod) -> None:
    io.write("w.lod.h5", LoDTensor.from_lists(SPANS))
    for line, wanted in {
        "mul w.lod.h5 2": [[2 * one for one in spans] for spans in SPANS],
        "div w.lod.h5 2": [[one / 2 for one in spans] for spans in SPANS],
        "div w.lod.h5 0": [[None, None], [None]],
        "sub w.lod.h5 w.lod.h5 --then add 5": [
            [timedelta(microseconds=5)] * 2,
            [timedelta(microseconds=5)],
        ],
    }.items():
        assert lod("apply", *line.split(), "-fo", "out.lods").clean
        (found,) = lodcli.read_all("out.lods").values()
        assert found.to_list() == wanted
    io.write("d.lod.h5", LoDTensor.from_lists([[date(2024, 5, 1)] * 2, [date(2024, 5, 1)]]))
    done = lod("apply", "sub", "w.lod.h5", "d.lod.h5", "-fo", "out.lods")
    assert done.code == 2
    assert "sub: data is duration[us] and the second is date[D]: the kinds" in done.stderr
