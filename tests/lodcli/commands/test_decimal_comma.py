"""`--decimal-comma` of csv."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.lodcli.conftest import Lod


def test_decimals_and_times_are_written_as_pandas_writes_them(lod: Lod, folder: Path) -> None:
    table = {
        "price": pa.array([Decimal("1.50"), None, Decimal("-20.05")], pa.decimal128(6, 2)),
        "at": pa.array([0, 1_500_000, 2_000_000], pa.timestamp("us")),
    }
    pq.write_table(pa.table(table), "x.parquet")
    assert lod("convert", "x.parquet", "x.csv", "--separator", ";", "--decimal-comma").code == 0
    assert [line.split(";")[0] for line in Path("x.csv").read_text().splitlines()] == [
        *("price", "1,50", "", "-20,05"),
    ]
    assert "01.500000" in Path("x.csv").read_text()


def test_a_note_names_the_option(lod: Lod, folder: Path) -> None:
    Path("x.csv").write_text("a;b\n1,5;x\n")
    done = lod("convert", "x.csv", "x.lod.h5", "--separator", ";")
    assert "write numbers as 1234.5, or give --decimal-comma" in done.stderr
    how = ("--separator", ";", "--decimal-comma", "-qo", "o.csv")
    assert lod("filter", "x.csv", "a == 1.5", *how).code == 0
    assert Path("o.csv").read_text() == "a,b\n1.5,x\n"
