"""Lists of dates, times and decimals become tensors with marks, as pyarrow reads them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Times

UTC, WEST = dt.UTC, dt.timezone(dt.timedelta(hours=-5))


@pytest.mark.parametrize(
    "values",
    [
        [[dt.date(1, 1, 1), None], None, [dt.date(9999, 12, 31)]],
        [[dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], [], [dt.datetime(2020, 2, 29)]],
        [[dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(2020, 1, 1, 1, tzinfo=UTC)]],
        [[dt.time(23, 59, 59, 999999)], [dt.time()]],
        [[dt.timedelta(-1, 3, 4), dt.timedelta(days=10**6)], [None]],
        [[Decimal("1.50"), Decimal("-0.001"), Decimal("1E3")], [None]],
        [Decimal("0.01"), None],
        [[[dt.date(2020, 1, 1)]], [[], [dt.date(2020, 1, 2)]]],
    ],
)
def test_times_and_decimals_are_those_of_arrow_and_come_back(values: Any) -> None:
    found = LoDTensor.from_lists(values)
    assert found.identical(LoDTensor.from_arrow(pa.array(values)))
    assert found.to_list() == values


def test_times_of_several_zones_are_in_utc() -> None:
    found = LoDTensor.from_lists([dt.datetime(2020, 1, 1, 1, tzinfo=zone) for zone in (UTC, WEST)])
    assert found.marks.unit == Times("timestamp", "us", "UTC")
    assert [one.hour for one in found.to_list()] == [1, 6]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "25s", "ms", "us", "ns"])
def test_times_of_numpy_keep_their_value(unit: str) -> None:
    times = np.array([-3, 40], f"M8[{unit}]")
    found = LoDTensor.from_arrays([times, times[:1]])
    assert isinstance(found.marks.unit, Times)
    back = found.as_numbers().data.view(f"M8[{found.marks.unit.unit}]")
    np.testing.assert_array_equal(back, np.concatenate([times, times[:1]]))
    assert (found.marks.unit.kind == "date") == (unit in "YMWD")
    if unit not in "YM":
        spans = list(times.astype("i8").view(f"m8[{unit}]"))
        assert LoDTensor.from_lists([spans, [None]]).to_list() == [spans, [None]]


def test_times_of_pandas_are_those_of_its_series() -> None:
    pandas = pytest.importorskip("pandas")
    for values in (
        [pandas.Timestamp("2024-01-01 00:00:00.123456789"), pandas.Timestamp("1900-01-01")],
        [pandas.Timedelta("-1ns"), pandas.Timedelta("2 days")],
    ):
        found = LoDTensor.from_lists([values, [None]])
        series = pa.array(pandas.Series(values).astype(f"{values[0].asm8.dtype.kind}8[ns]"))
        assert found.drop_nulls()[0].identical(LoDTensor.from_arrow(series))
    zoned = LoDTensor.from_lists([pandas.Timestamp("2024-01-01", tz="Europe/Zurich"), None])
    assert zoned.to_list() == [dt.datetime(2023, 12, 31, 23, tzinfo=UTC), None]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["Timestamp", "Timedelta"], "expected times of one type"),
        (["Timestamp", "NaT"], "found NaT; give None for a missing time"),
        ([1, "NA"], "found NAType at position 1 .*; give None for a missing value"),
        (["text", "NA"], "expected str .* found NAType; give None for a missing value"),
    ],
)
def test_other_values_of_pandas_are_refused(values: list[Any], message: str) -> None:
    pandas = pytest.importorskip("pandas")
    made = {
        "Timestamp": pandas.Timestamp("2024-01-01"),
        "Timedelta": pandas.Timedelta("1s"),
        "NaT": pandas.NaT,
        "NA": pandas.NA,
    }
    with pytest.raises(InvalidDataError, match=message):
        LoDTensor.from_lists([made.get(one, one) for one in values])


def test_rows_of_times_have_axes() -> None:
    days = [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]
    found = LoDTensor.from_lists([[days, None], []], levels=1)
    assert found.row_shape == (2,)
    assert found.to_list() == [[days, None], []]


@pytest.mark.parametrize(
    ("values", "dtype", "said"),
    [
        (
            [[dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)]],
            None,
            "expected date, .* found datetime",
        ),
        ([[1, Decimal(1)]], None, "expected int, as before, found Decimal"),
        ([[dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=UTC)]], None, "without a zone"),
        ([[dt.time(1, tzinfo=UTC)]], None, "expected a time without a zone"),
        ([[Decimal("nan")]], None, "expected a finite decimal, found NaN"),
        ([[Decimal(10) ** 30]], None, r"decimal\(31, 0\) is beyond the 64 bits"),
        ([[dt.timedelta.max]], None, r"duration\[us\] is beyond the 64 bits"),
        ([[np.datetime64("NaT", "s")]], None, "found NaT; give None for a missing time"),
        ([np.array([1], "m8[M]")], None, r"in s, ms, us or ns, found timedelta64\[M\]"),
        ([np.array([1], "M8[s]"), np.ones(1)], None, r"no dtype holds all of datetime64\[s\], fl"),
        ([np.array([1], "M8[s]")], "int64", r"cannot be rows of int64: found datetime64\[s\]"),
        ([np.array(["a"], object)], "float32", "cannot be rows of float32: could not convert"),
        ([[dt.date(2020, 1, 1)]], "int64", "cannot be rows of int64"),
    ],
)
def test_an_invalid_column_of_times_is_an_error(values: Any, dtype: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        LoDTensor.from_lists(values, dtype=dtype)


@pytest.mark.parametrize(
    "values",
    [
        [[dt.date(1, 1, 1), None], None, [dt.date(9999, 12, 31)]],
        [[dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], [], [dt.datetime(2020, 2, 29)]],
        [[[dt.timedelta(-1, 3, 4)], []], [[dt.timedelta(days=10**6), None]]],
    ],
)
def test_awkward_has_the_same_times_and_gives_them_back(values: Any) -> None:
    ak = pytest.importorskip("awkward")
    tensor = LoDTensor.from_lists(values)
    found = tensor.to_awkward()
    wanted = ak.from_arrow(pa.array(values))
    assert ak.to_list(ak.values_astype(found, int)) == ak.to_list(ak.values_astype(wanted, int))
    assert str(ak.type(found)).rpartition("*")[2].strip(" ?") in str(ak.type(wanted)).replace(
        "datetime64[s]", "datetime64[D]"
    )
    assert LoDTensor.from_awkward(found).identical(tensor)


def test_awkward_has_no_zones_and_no_times_of_a_day() -> None:
    pytest.importorskip("awkward")
    zoned = LoDTensor.from_lists([[dt.datetime(2020, 1, 1, tzinfo=WEST)]])
    assert zoned.to_awkward().to_list() == [[np.datetime64("2020-01-01T05:00:00.000000")]]
    assert LoDTensor.from_lists([[dt.time(0, 0, 1)]]).to_awkward().to_list() == [[1_000_000]]


def test_awkward_without_a_time_is_an_error() -> None:
    ak = pytest.importorskip("awkward")
    with pytest.raises(InvalidDataError, match="found NaT"):
        LoDTensor.from_awkward(ak.Array(np.array(["NaT", "2020-01-01"], "M8[s]")))
