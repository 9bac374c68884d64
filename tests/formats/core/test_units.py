"""Times and decimals: int64 with a mark, and the types of Arrow both ways."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.marks import from_json, to_json
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Decimals, Marks, Times
from tests.formats.cases.opening import tensor_in

UNITS = ("s", "ms", "us", "ns")
COUNTS = [0, None, 1_600_000_000, -5]
DAYS = [0, None, 20_000, -5]
AMOUNTS = [Decimal("1.50"), None, Decimal("-12345678901234.56"), Decimal("0.00")]
COLUMNS: dict[str, Any] = {
    **{f"timestamp {unit}": pa.array(COUNTS, pa.timestamp(unit)) for unit in UNITS},
    **{f"zone {unit}": pa.array(COUNTS, pa.timestamp(unit, "Europe/Zurich")) for unit in UNITS},
    **{f"duration {unit}": pa.array(COUNTS, pa.duration(unit)) for unit in UNITS},
    **{f"time {unit}": pa.array([0, None, 3600, 86399], pa.time32(unit)) for unit in UNITS[:2]},
    **{f"time {unit}": pa.array([0, None, 3600, 86399], pa.time64(unit)) for unit in UNITS[2:]},
    "date32": pa.array(DAYS, pa.date32()),
    "date64": pa.array([day and day * 86_400_000 for day in DAYS], pa.date64()),
    "decimal32": pa.array([Decimal("1.5"), None, Decimal("-3")], pa.decimal32(5, 1)),
    "decimal64": pa.array([Decimal("1.5"), None, Decimal("-3")], pa.decimal64(12, 1)),
    "decimal128": pa.array(AMOUNTS, pa.decimal128(20, 2)),
    "decimal256": pa.array(AMOUNTS, pa.decimal256(40, 2)),
    "negative scale": pa.array([Decimal("12e3"), None], pa.decimal128(5, -3)),
}
# What Parquet itself stores in another unit.
COARSER = {"timestamp s", "zone s", "time s", "date64", "decimal32", "decimal64", "negative scale"}
LISTS = pa.array([[0, None], None, [], [5]], pa.large_list(pa.timestamp("us", "UTC")))
every_column = pytest.mark.parametrize("name", COLUMNS)


@every_column
def test_arrow_types_come_back(name: str, tmp_path: Path) -> None:
    column = COLUMNS[name]
    pf.write_feather(pa.table({"x": column}), tmp_path / "t.arrow", compression="uncompressed")
    tensor = tensor_in(tmp_path / "t.arrow")
    assert tensor.dtype == np.int64
    back = tensor.to_arrow()
    back.validate(full=True)
    assert back.equals(column)
    assert LoDTensor.from_arrow(column).identical(tensor)
    if not name.endswith("ns"):
        assert tensor.to_list() == column.to_pylist()


@every_column
@pytest.mark.parametrize("path", ["o.arrow", "o.arrows", "o.parquet", "o.lod.h5", "o.lods"])
def test_times_and_decimals_are_kept(path: str, name: str, tmp_path: Path) -> None:
    tensor = LoDTensor.from_arrow(COLUMNS[name])
    if path == "o.parquet" and name in COARSER:
        if isinstance(tensor.marks.unit, Times):
            with pytest.raises(UnsupportedError, match="does not keep these marks: "):
                io.write(tmp_path / path, tensor, strict=True)
        return
    io.write(tmp_path / path, tensor)
    assert tensor_in(tmp_path / path).identical(tensor)
    if path == "o.parquet":
        assert pq.read_table(tmp_path / path)["data"].combine_chunks().equals(COLUMNS[name])


@every_column
@pytest.mark.parametrize("path", ["o.npz", "o.safetensors"])
def test_flat_files_keep_them(path: str, name: str, tmp_path: Path) -> None:
    tensor = LoDTensor.from_arrow(COLUMNS[name]).fill_nulls(0)
    io.write(tmp_path / path, tensor)
    assert tensor_in(tmp_path / path).identical(tensor)


def test_lists_and_rows_of_several_times(tmp_path: Path) -> None:
    days = pa.array([[0, 1], None, [2, 3]], pa.list_(pa.date32(), 2))
    for column in (LISTS, days):
        pq.write_table(pa.table({"x": column}), tmp_path / "t.parquet")
        tensor = tensor_in(tmp_path / "t.parquet")
        assert tensor.to_list() == column.to_pylist()
        assert tensor[1:].to_arrow().to_pylist() == column[1:].to_pylist()
        io.write(tmp_path / "t.lod.h5", tensor, overwrite=True)
        assert tensor_in(tmp_path / "t.lod.h5").identical(tensor)


TEXTS = {
    "timestamp s": "2020-09-13T12:26:40",
    "zone ms": "1970-01-19T12:26:40.000Z",
    "duration us": "PT1600.000000S",
    "time ms": "00:00:03.600",
    "time ns": "00:00:00.000003600",
    "date32": "2024-10-04",
    "date64": "2024-10-04",
}


@pytest.mark.parametrize("name", TEXTS)
def test_json_has_times_as_iso_8601(name: str, tmp_path: Path) -> None:
    io.write(tmp_path / "t.jsonl", LoDTensor.from_arrow(COLUMNS[name]))
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert lines[1:3] == [None, TEXTS[name]]


@every_column
def test_csv_has_the_same_text(name: str, tmp_path: Path) -> None:
    tensor = LoDTensor.from_arrow(COLUMNS[name])
    io.write(tmp_path / "t.jsonl", tensor)
    io.write(tmp_path / "t.csv", tensor)
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    fields = ['""' if one is None else one for one in lines]
    if not isinstance(tensor.marks.unit, Decimals):
        assert (tmp_path / "t.csv").read_text().splitlines()[1:] == fields


def test_csv_has_all_digits_of_decimals_and_quotes_times(tmp_path: Path) -> None:
    prices = LoDTensor([110, -5], marks=Marks(unit=Decimals(4, 2)))
    times = LoDTensor([1, 3600], marks=Marks(unit=Times("time", "s")))
    io.write(tmp_path / "t.csv", {"price": prices, "at": times}, separator=":")
    assert (tmp_path / "t.csv").read_text() == 'price:at\n1.10:"00:00:01"\n-0.05:"01:00:00"\n'


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (Times("timestamp", "ns"), "1677-09-21T00:12:43.145224192"),
        (Times("timestamp", "ns", "UTC"), "1677-09-21T00:12:43.145224192Z"),
        (Times("timestamp", "us"), "-290308-12-21T19:59:05.224192"),
        (Times("timestamp", "s"), "-292277022657-01-27T08:29:52"),
        (Times("duration", "ms"), "-PT9223372036854775.808S"),
    ],
)
def test_the_least_time_is_no_null(unit: Times, text: str, tmp_path: Path) -> None:
    """NumPy takes -2^63 for NaT; its text of the next time is one unit later."""
    least = LoDTensor(np.array([-(2**63), 0]), marks=Marks(unit=unit))
    assert least.to_list()[0] == -(2**63)
    io.write(tmp_path / "x.jsonl", least)
    assert json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0]) == text


def test_json_has_decimals_as_numbers_of_all_digits(tmp_path: Path) -> None:
    io.write(tmp_path / "t.jsonl", LoDTensor.from_arrow(COLUMNS["decimal128"]))
    text = (tmp_path / "t.jsonl").read_text()
    assert text == "1.50\nnull\n-12345678901234.56\n0.00\n"


def test_a_decimal_beyond_64_bits_is_refused_with_its_place(tmp_path: Path) -> None:
    wide = pa.array([Decimal(1), Decimal(10) ** 30], pa.decimal128(38, 0))
    pq.write_table(pa.table({"x": wide}), tmp_path / "t.parquet")
    with pytest.raises(UnsupportedError, match=r"column 'x', .*position 1: 10{30} of decimal128"):
        io.read(tmp_path / "t.parquet")
    most = pa.array([Decimal(2**63 - 1), Decimal(-(2**63))], pa.decimal128(38, 0))
    assert LoDTensor.from_arrow(most).values.tolist() == [2**63 - 1, -(2**63)]


def test_a_date_beyond_32_bits_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"2147483648 is not a value of date32"):
        LoDTensor([2**31], marks=Marks(unit=Times("date", "D"))).to_arrow()


@pytest.mark.parametrize(
    ("unit", "valid", "wrong"),
    [
        (Decimals(3, 1), [999, -999], 1000),
        (Decimals(18, 1), [10**18 - 1, 1 - 10**18], -(2**63)),
        (Decimals(5, 2, 32), [99999], 100000),
        (Decimals(19, 2), [2**63 - 1, -(2**63)], None),
        (Times("time", "s"), [0, 86399], 86400),
        (Times("time", "ns"), [0, 86400 * 10**9 - 1], -1),
        (Times("date", "ms"), [-86400000, 0], 1),
        (Times("duration", "s"), [2**63 - 1, -(2**63)], None),
    ],
)
def test_values_that_arrow_does_not_allow_are_refused(
    unit: Any, valid: list[int], wrong: int | None, tmp_path: Path
) -> None:
    """pyarrow writes them, and refuses them when it reads."""
    LoDTensor(valid, marks=Marks(unit=unit)).to_arrow().validate(full=True)
    if wrong is not None:
        tensor = LoDTensor([*valid, wrong], marks=Marks(unit=unit))
        with pytest.raises(UnsupportedError, match=f"x: {wrong} is not a value of"):
            io.write(tmp_path / "t.parquet", {"x": tensor})


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (Times("timestamp", "D"), "timestamp: expected unit s, ms, us, ns, found 'D'"),
        (Times("date", "us"), "date: expected unit D, ms"),
        (Times("date", "D", "UTC"), "a date has no zone"),
        (Times("timestamp", "s", ""), "expected a zone of 1 to 64"),
        (Times("timestamp", "s", "a\n"), "expected a zone of 1 to 64"),
        (Decimals(19, 0, 64), "decimal of 64 bits: expected a precision of 1 to 18, found 19"),
        (Decimals(5, 0, 12), "decimal: expected 32, 64, 128, 256 bits"),
        (Decimals(5, 99), "expected a scale of at most 38"),
    ],
)
def test_impossible_units(unit: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        LoDTensor([1], marks=Marks(unit=unit))


def test_marks_of_units_are_json() -> None:
    for unit in (Times("timestamp", "us", "UTC"), Times("date", "D"), Decimals(10, 2, 64)):
        marks = Marks(unit=unit)
        assert from_json(json.loads(json.dumps(to_json(marks))), "x") == marks
    assert to_json(Marks(unit=Times("time", "ms"))) == {"values": "time", "unit": "ms"}


def test_computing_with_times_returns_numbers() -> None:
    times = LoDTensor.from_arrow(pa.array([1, 2, 3], pa.timestamp("s")))
    assert (times - 1).marks == NO_MARKS
    assert times[0:2].marks == times[[2, 0]].marks == times.marks
    with pytest.raises(InvalidDataError, match=r"timestamp\[s\] is int64, found float64"):
        LoDTensor([1.0], marks=times.marks)
