"""The ranges of values that the statistics of Parquet files give."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lodcli.formats.choosing.choice import ValueRange
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.limits import Limited
from tests.formats.cases.opening import source_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
from lodcli.formats.arrow.sizes.parquet_statistics import (  # noqa: E402
    are_wrong,
    decoder,
    in_signed_order,
    null_count,
    value_range,
)

DAY = datetime.date(1970, 1, 3)
SECOND = datetime.datetime(1970, 1, 1, 0, 0, 1)
KNOWN = [
    (pa.int8(), [-5, 7], (-5, 7)),
    (pa.uint8(), [200, 7], (7, 200)),
    (pa.uint32(), [2**31, 2**32 - 1], (2**31, 2**32 - 1)),
    (pa.uint64(), [2**63, 2**64 - 1], (2**63, 2**64 - 1)),
    (pa.int64(), [-(2**63), 2**63 - 1], (-(2**63), 2**63 - 1)),
    (pa.float32(), [0.5, -0.25, float("nan")], (-0.25, 0.5)),
    (pa.float64(), [float("-inf"), 0.1], (float("-inf"), 0.1)),
    (pa.bool_(), [False], (False, False)),
    (pa.string(), ["b", "a\0é"], ("a\0é".encode(), b"b")),
    (pa.binary(), [b"\xff", b"\x00"], (b"\x00", b"\xff")),
    (pa.dictionary(pa.int32(), pa.string()), ["b", "a"], (b"a", b"b")),
    (pa.date32(), [DAY], (2, 2)),
    (pa.timestamp("ms"), [SECOND], (1000, 1000)),
    (pa.timestamp("ns"), [SECOND], (10**9, 10**9)),
    (pa.timestamp("us", "UTC"), [SECOND], (10**6, 10**6)),
    (pa.time32("ms"), [datetime.time(0, 0, 2)], (2000, 2000)),
    (pa.duration("s"), [datetime.timedelta(0, 3)], (3, 3)),
    (pa.decimal128(9, 2), [Decimal("-1.25"), Decimal("3.5")], (-125, 350)),
    (pa.decimal128(25, 3), [Decimal("-1.25"), Decimal("3.5")], (-1250, 3500)),
    (pa.list_(pa.int16()), [[3], [], [-1, 2]], (-1, 3)),
    (pa.struct([("x", pa.int16())]), [{"x": 4}], (4, 4)),
]


def ranges(path: Path, *names: str) -> Any:
    with source_of(path) as source:
        assert isinstance(source, Limited)
        return source.inner._records.ranges(names)  # type: ignore[attr-defined]


@pytest.mark.parametrize("as_integer", [False, True])
@pytest.mark.parametrize(("kind", "values", "known"), KNOWN, ids=lambda one: str(one)[:20])
def test_a_range_is_that_of_the_values_in_their_unit(
    kind: Any, values: list[Any], known: tuple[Any, Any], as_integer: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"x": pa.array(values, kind)})
    pq.write_table(table, path, store_decimal_as_integer=as_integer)
    names = ("x", "x") if pa.types.is_struct(kind) else ("x",)
    (found,) = ranges(path, *names)
    assert (found.low, found.high) == known
    assert type(found.low) is type(known[0])
    assert (found.nulls, found.values) == (pa.types.is_list(kind), True)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float16(), [1.0]),
        (pa.binary(2), [b"ab"]),
        (pa.float64(), [float("nan")]),
        (pa.float16(), [float("nan")]),
        (pa.bool8(), [2]),
    ],
)
def test_a_range_is_unknown_if_it_may_mean_something_else(
    kind: Any, values: list[Any], tmp_path: Path
) -> None:
    pq.write_table(pa.table({"x": pa.array(values, kind)}), tmp_path / "x.parquet")
    assert ranges(tmp_path / "x.parquet", "x") == [ValueRange(nulls=False)]


def test_times_of_96_bits_and_missing_statistics_have_no_range(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([SECOND], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    (found,) = ranges(tmp_path / "old.parquet", "x")
    assert found.low is None
    pq.write_table(table, tmp_path / "none.parquet", write_statistics=False)
    assert ranges(tmp_path / "none.parquet", "x") == [ValueRange()]
    assert ranges(tmp_path / "none.parquet", "y") is None


def test_nulls_are_known_for_each_row_group(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2, None, 3, None, None]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    assert ranges(tmp_path / "x.parquet", "x") == [
        ValueRange(1, 2, nulls=False),
        ValueRange(3, 3),
        ValueRange(values=False),
    ]


def column(stored: str, converted: str = "NONE", logical: str = "NONE") -> Any:
    kind = SimpleNamespace(type=logical, to_json=lambda: "{}")
    return SimpleNamespace(physical_type=stored, converted_type=converted, logical_type=kind)


@pytest.mark.parametrize(
    ("kind", "about", "low", "high", "expected"),
    [
        (pa.int64(), column("INT64"), b"\xff" * 8, b"\1" + b"\0" * 7, (-1, 1)),
        (pa.float32(), column("FLOAT"), b"\0\0\0\0", b"\0\0\x80\x3f", (0.0, 1.0)),
        # As signed numbers, and for bytes as signed ones: PARQUET-251 and older files.
        (pa.uint32(), column("INT32", "UINT_32", "INT"), b"\0" * 4, b"\1" * 4, None),
        (pa.string(), column("BYTE_ARRAY", "UTF8", "STRING"), b"a", b"b", None),
        (pa.int64(), column("INT64"), b"\1", b"\1" * 8, None),
        (pa.int64(), column("INT64"), b"\2" * 8, b"\1" * 8, None),
    ],
)
def test_statistics_of_old_files_are_those_of_signed_numbers(
    kind: Any, about: Any, low: bytes, high: bytes, expected: Any
) -> None:
    found = value_range(
        {1: high, 2: low, 3: 0},
        decoder(kind, about, b""),
        ordered=False,
        signed=in_signed_order(kind, about),
        values=2,
        nulls=0,
    )
    assert (found.low, found.high) == (expected or (None, None))


@pytest.mark.parametrize(
    ("writer", "known"),
    [
        (b"parquet-cpp version 1.3.2-SNAPSHOT", False),
        (b"parquet-cpp version 1.5.1-SNAPSHOT", True),
        (b"parquet-cpp-arrow version 1.0.0", True),
        (b"parquet-mr version 1.8.1", True),
        (b"", True),
    ],
)
def test_writers_that_compared_nan_have_no_ranges_of_floats(writer: bytes, known: bool) -> None:
    assert (decoder(pa.float64(), column("DOUBLE"), writer) is not None) == known
    assert decoder(pa.int64(), column("INT64"), writer) is not None


def leaf(definition: int, repetition: int = 0) -> Any:
    return SimpleNamespace(max_definition_level=definition, max_repetition_level=repetition)


@pytest.mark.parametrize(
    ("statistics", "kind", "about", "expected"),
    [
        ({3: 2}, pa.int64(), leaf(1), 2),
        ({}, pa.int64(), leaf(0), 0),
        ({}, pa.int64(), leaf(1), None),
        ({3: -1}, pa.int64(), leaf(1), None),
        ({3: 0}, pa.int64(), leaf(2, 1), None),  # null and empty lists are perhaps not counted
        ({3: 0}, pa.null(), leaf(1), None),
        ({3: 0}, pa.null(), leaf(0), None),
    ],
)
def test_nulls_are_counted_only_where_all_programs_count_them(
    statistics: dict[int, int], kind: Any, about: Any, expected: int | None
) -> None:
    assert null_count(statistics, kind, about) == expected


@pytest.mark.parametrize(
    ("writer", "wrong"),
    [
        (b"Polars", True),
        (b"Arrow2 - Native Rust implementation of Arrow", True),
        (b"Polars (python) version 2.1.0 (build 7f902bd3)", False),
        (b"parquet-rs version 59.3.0", False),
        (b"", False),
    ],
)
def test_statistics_of_writers_known_for_wrong_ones_are_not_used(
    writer: bytes, wrong: bool
) -> None:
    assert are_wrong(writer) == wrong


def test_texts_have_nulls_only_where_statistics_count_some(tmp_path: Path) -> None:
    columns = {
        "all": pa.array(["a", "", "b"]),
        "some": pa.array(["a", None, "b"]),
        "bytes": pa.array([b"a", b"", b"c"]),
        "lists": pa.array([["a"], [], ["b"]]),
    }
    pq.write_table(pa.table(columns), tmp_path / "counted.parquet")
    pq.write_table(pa.table(columns), tmp_path / "uncounted.parquet", write_statistics=False)
    for name, expected in (("counted", {"some", "lists"}), ("uncounted", {*columns})):
        with source_of(tmp_path / f"{name}.parquet") as source:
            assert {spec.name for spec in source.schema if spec.nullable} == expected
            io.write_batches(tmp_path / f"{name}.again.parquet", source.schema, source.batches())
        again = pq.read_table(tmp_path / f"{name}.again.parquet")
        assert {field.name for field in again.schema if field.nullable} == expected
        assert again.to_pydict() == {key: one.to_pylist() for key, one in columns.items()}


@pytest.mark.parametrize("nulls", [None, "drop"])
@pytest.mark.parametrize("value", [7, "a"])
def test_nulls_that_statistics_do_not_count_are_an_error_about_the_file(
    value: Any, nulls: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"k": range(100), "x": [value] * 60 + [None] * 21 + [value] * 19})
    pq.write_table(table, path, row_group_size=50, compression="none")
    # In pages and the footer: the number of nulls, 21 in the encoding of Thrift, then the maximum.
    lying, count = re.subn(rb"([\x16\x36])\*\(", rb"\1\0(", path.read_bytes())
    assert count
    path.write_bytes(lying)
    with source_of(path, nulls=nulls) as source:
        match = "^column 'x': the statistics count no nulls, but record 60 is null; write the file"
        with pytest.raises(DamagedFileError, match=match):
            io.write_batches(tmp_path / "x.arrow", source.schema, source.batches())
        with pytest.raises(DamagedFileError, match=match):
            source.slice("x", (slice(55, 70),))
        assert source.slice("x", (slice(0, 50),)).to_list() == [value] * 50
        assert source.slice("k", (slice(None),)).rows == 100
    assert not (tmp_path / "x.arrow").exists()


def test_nulls_that_old_polars_does_not_count_are_announced(tmp_path: Path) -> None:
    path = Path(__file__).parents[1] / "theirs" / "polars.parquet"
    with source_of(path) as source:
        assert {spec.name for spec in source.schema if spec.nullable} == {"id", "x", "c", "l"}
        io.write_batches(tmp_path / "x.lod.h5", source.schema, source.batches())
    found = io.read(tmp_path / "x.lod.h5", columns=("c",))
    assert found.to_list() == ["a", None, "b", "a", "b", "b"]
    assert ranges(path, "x") == [ValueRange(), ValueRange()]
