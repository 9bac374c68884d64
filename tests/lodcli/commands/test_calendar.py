"""Dates, times of day, and times rounded down, against Polars."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from pathlib import Path

import numpy as np
import pytest

from lodcli.expressions.calendar import floor_to, part_of
from lodcli.formats.core import io
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks, Times
from tests.lodcli.conftest import Lod, applied, filtered, tensor

MOMENTS = [
    *(datetime(2024, 2, 29, 23, 59, 59, 999_999), datetime(1969, 12, 31, 0, 0, 1)),
    *(datetime(1970, 1, 1), datetime(2000, 1, 2, 13, 7), datetime(1900, 3, 1, 12)),
    *(datetime(2024, 12, 30, 6, 30), datetime(2023, 1, 1)),
]
# By step, that of Polars.
STEPS = {
    **{"PT1H": "1h", "PT15M": "15m", "P1D": "1d", "P1W": "1w", "P1M": "1mo", "P3M": "3mo"},
    **{"P1Y": "1y", "PT6H": "6h", "PT1S": "1s"},
}


@pytest.fixture
def times(folder: Path) -> None:
    t = LoDTensor.from_lists(MOMENTS)
    content = {
        "t": t,
        "day": LoDTensor.from_lists([one.date() for one in MOMENTS]),
        "clock": LoDTensor.from_lists([one.time() for one in MOMENTS]),
        "wait": LoDTensor.from_lists([one - MOMENTS[0] for one in MOMENTS]),
        "l": LoDTensor.from_lists([[one, None] for one in MOMENTS]),
        "n": LoDTensor(np.arange(len(MOMENTS))),
        "name": LoDTensor.from_lists(["a"] * len(MOMENTS)),
    }
    io.write("t.lod.h5", content)


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("step", STEPS)
def test_times_are_rounded_down_as_in_polars(lod: Lod, step: str) -> None:
    polars = pytest.importorskip("polars")
    wanted = polars.Series(MOMENTS).dt.truncate(STEPS[step]).to_list()
    assert applied(lod, f"floor(t, '{step}')") == wanted
    assert applied(lod, f"floor(l, '{step}')") == [[one, None] for one in wanted]
    if "T" not in step:
        wanted = polars.Series([one.date() for one in MOMENTS]).dt.truncate(STEPS[step]).to_list()
        assert applied(lod, f"floor(day, '{step}')") == wanted
    assert lod("filter", "t.lod.h5", f"floor(t, '{step}') == t", "-o", "kept.lods").clean
    kept = [one for one in MOMENTS if polars.Series([one]).dt.truncate(STEPS[step])[0] == one]
    assert tensor("kept.lods", "t").to_list() == kept


@pytest.mark.usefixtures("times")
def test_dates_and_times_of_day(lod: Lod) -> None:
    assert applied(lod, "date(t)") == [one.date() for one in MOMENTS]
    assert applied(lod, "date(day)") == [one.date() for one in MOMENTS]
    assert applied(lod, "time(t)") == applied(lod, "time(clock)")
    assert applied(lod, "time(t)") == [one.time() for one in MOMENTS]
    assert applied(lod, "t - date(t)") == [one - datetime(*one.timetuple()[:3]) for one in MOMENTS]
    assert applied(lod, "date(first(l))") == [one.date() for one in MOMENTS]
    assert applied(lod, "floor(clock, 'PT12H')") == [time(one.hour // 12 * 12) for one in MOMENTS]
    hours = [(one - MOMENTS[0]) // timedelta(hours=1) for one in MOMENTS]
    assert applied(lod, "floor(wait, 'PT1H') / 'PT1H'") == hours
    for text, kept in {
        "date(t) == '2024-02-29'": [0],
        "time(t) < '00:00:02'": [1, 2, 6],
        "floor(t, 'P1Y') == '2024-01-01'": [0, 5],
        "date(t) + 1 == '1970-01-02'": [2],
    }.items():
        assert filtered(lod, text, "t.lod.h5", "n") == kept


ERRORS = {
    "floor(t)": "column 1: floor of timestamp[us] takes a step, as in floor(t, 'PT1H')",
    "floor(n, 10)": "column 7: floor takes times, n is not a time; write n // 10 * 10 for",
    "floor(t, 60)": "column 10: expected a duration in quotes, such as 'PT1H', 'P1D' or 'P1M'",
    "floor(t, 'hour')": "column 10: expected a duration such as 'PT90S' or",
    "floor(t, 'PT0S')": "column 10: expected a duration such as 'P1D', 'P1W' or 'P1M', found 'PT0S",
    "floor(t, 'P0M')": "column 10: expected a duration such as 'P1D', 'P1W' or 'P1M', found 'P0M'",
    "floor(day, 'PT1H')": "column 12: 'PT1H' is not a whole number of the unit D",
    "floor(wait, 'P1M')": "column 13: expected a duration such as 'PT90S' or",
    "floor(t, 'PT1H', 2)": "column 1: floor takes 1 argument, as in floor(data)",
    "date(clock)": "column 6: date takes a timestamp or date, clock is time[us]",
    "time(day)": "column 6: time takes a timestamp, day is date[D]",
    "date(n) == '2024-01-01'": "column 6: date takes a timestamp or date, n is not a time",
    "hour(name) == 1": "is not a time; lod cast 'name=timestamp[s]' makes times of texts",
    "hour(strip(name)) == 1": "lod apply 'strip(name)' .. --into NAME writes it, then lod cast",
    "date(t, 1)": "column 1: date takes 1 argument, as in date(time)",
    "truncate(t, 1) > 0": "no function 'truncate'; write floor(time, 'PT1H')",
}


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("text", ERRORS)
def test_an_error_shows_the_place(lod: Lod, text: str) -> None:
    done = lod("filter", "t.lod.h5", text, "-o", "out.lods")
    assert done.code == 2
    assert ERRORS[text] in done.stderr


def test_every_day_of_eight_hundred_years_is_in_the_month_of_numpy() -> None:
    days = np.arange(-150_000, 150_000)
    for months, unit in {1: "M", 12: "Y"}.items():
        wanted = days.view("M8[D]").astype(f"M8[{unit}]").astype("M8[D]").view(np.int64)
        found = floor_to(f"P{months}M", Times("date", "D"))(days)
        np.testing.assert_array_equal(found, wanted)
    quarters = days.view("M8[D]").astype("M8[M]").view(np.int64) // 3 * 3
    found = floor_to("P3M", Times("date", "D"))(days)
    np.testing.assert_array_equal(found, quarters.view("M8[M]").astype("M8[D]").view(np.int64))


def test_a_time_before_the_first_of_64_bits_is_an_error() -> None:
    times = Times("timestamp", "ns")
    for step in ("P1D", "P1M", "P1W"):
        with pytest.raises(InvalidDataError, match="a time does not fit 64 bits"):
            floor_to(step, times)(np.array([-(2**63) + 1]))
    assert floor_to("PT0.000000001S", times)(np.array([-(2**63)]))[0] == -(2**63)


def test_a_date_in_milliseconds_stays_one(lod: Lod, folder: Path) -> None:
    day = 86_400_000
    days = LoDTensor(np.array([0, 40 * day]), marks=Marks(unit=Times("date", "ms")))
    io.write("t.lod.h5", {"d": days})
    assert applied(lod, "floor(d, 'P1M')") == [date(1970, 1, 1), date(1970, 2, 1)]
    done = lod("apply", "floor(d, 'PT1H')", "t.lod.h5", "-fo", "out.lods")
    assert "column 10: expected a duration such as 'P1D'" in done.stderr


@pytest.mark.usefixtures("times")
def test_parts_of_times_are_those_of_python(lod: Lod) -> None:
    parts = ("year", "month", "day", "hour", "minute", "second")
    for part in parts:
        wanted = [getattr(one, part) for one in MOMENTS]
        assert applied(lod, f"{part}(t)") == wanted
        assert applied(lod, f"{part}(l)") == [[one, None] for one in wanted]
        if part in ("year", "month", "day"):
            assert applied(lod, f"{part}(day)") == wanted
        else:
            assert applied(lod, f"{part}(clock)") == wanted
    weekdays = [one.weekday() for one in MOMENTS]
    assert applied(lod, "weekday(t)") == applied(lod, "weekday(day)") == weekdays
    for text, kept in {
        "year(t) == 2024 and month(day) == 2": [0],
        "hour(first(l)) * 60 + minute(clock) > 700": [0, 3, 4],
        "weekday(t) in (5, 6)": [3, 6],
    }.items():
        assert filtered(lod, text, "t.lod.h5", "n") == kept


def test_parts_of_every_day_of_eight_hundred_years_are_those_of_polars() -> None:
    polars = pytest.importorskip("polars")
    days = np.arange(-150_000, 150_000)
    dates = polars.Series(days.view("M8[D]")).cast(polars.Date).dt
    day = Times("date", "D")
    for part in ("year", "month", "day"):
        assert part_of(part, day)(days).tolist() == getattr(dates, part)().to_list()
    assert (part_of("weekday", day)(days) + 1).tolist() == dates.weekday().to_list()
    far = np.array([-(2**63), 2**63 - 1])
    assert part_of("year", day)(far).tolist() == [-25252734927764585, 25252734927768524]


def test_parts_of_a_mean_time_are_whole_numbers(lod: Lod, folder: Path) -> None:
    """NumPy's mean of times rounds to a unit; here it is a float, which is in a second."""
    seconds = LoDTensor([-1, 0, 86_400, 3], [[2, 0, 2]], Marks(unit=Times("timestamp", "s")))
    waits = LoDTensor([5, 6, 7], marks=Marks(unit=Times("duration", "s")))
    io.write("t.lod.h5", {"t": seconds, "w": waits, "n": LoDTensor([0, 1, 0])})
    for text, wanted in {
        "weekday(mean(t))": [2, None, 3],
        "hour(median(t))": [23, None, 12],
        "second(mean(t))": [59, None, 1],
        "year(first(t) + w / n)": [None, None, None],
    }.items():
        assert lod("apply", text, "t.lod.h5", "-fo", "o.lod.h5").code == 0, text
        assert tensor("o.lod.h5").dtype == np.int64, text
        assert tensor("o.lod.h5").to_list() == wanted, text
    assert applied(lod, "date(mean(t))") == [date(1969, 12, 31), None, date(1970, 1, 1)]
