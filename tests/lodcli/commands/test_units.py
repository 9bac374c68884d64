"""Commands that choose rows keep the units of times and decimals, and inspect shows them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lodcli.conftest import Lod, tensor


def test_commands_keep_and_show_them(lod: Lod, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {
        "at": pa.array([0, None, 16, -5], pa.timestamp("us", "Europe/Zurich")),
        "sum": pa.array([Decimal("1.5"), None, Decimal(2), Decimal(0)], pa.decimal128(20, 2)),
        "n": pa.array([3, 1, 2, 0]),
    }
    pq.write_table(pa.table(columns), "t.parquet")
    done = lod("sort", "t.parquet", "--by", "n", "-o", "o.lod.h5")
    assert done.code == 0, done.stderr
    order = [3, 1, 2, 0]
    for name in ("at", "sum"):
        assert tensor("o.lod.h5", name).to_arrow().equals(columns[name].take(order))
    shown = lod("inspect", "o.lod.h5").stdout
    assert "timestamp[us, Europe/Zurich] (int64) or null" in shown
    assert "decimal(20, 2) (int64) or null" in shown
    done = lod("slice", "t.parquet::at", "2:", "-o", "s.parquet")
    assert done.code == 0, done.stderr
    assert pq.read_table("s.parquet")["at"].combine_chunks().equals(columns["at"][2:])


def test_a_time_beside_a_date_is_told_as_a_number(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    noon = 1_714_564_800  # date -u -d 2024-05-01T12:00 +%s
    times = pa.array([noon - 1, noon, noon + 1], pa.timestamp("s"))
    table = pa.table(
        {
            "t": times.cast(pa.timestamp("us")),
            "ms": times.cast(pa.timestamp("ms", "UTC")),
            "n": [0, 1, 2],
        }
    )
    pq.write_table(table, "t.parquet")
    for expression, said in {
        "t > '2024-05-01T12:00'": "t is timestamp[us]; compare it with a number of us since 1970: "
        "date -u -d 2024-05-01T12:00 +%s%6N",
        "'2024-05-01 12:00' == ms": "ms is timestamp[ms, UTC]; compare it with a number of ms "
        "since 1970: date -u -d '2024-05-01 12:00' +%s%3N",
        "n > '2024'": "a word is compared with ==, != or in",
    }.items():
        done = lod("filter", "t.parquet", expression, "-o", "out.npz")
        assert done.code == 2
        assert said in done.stderr
    for name, factor in (("t", 10**6), ("ms", 1000)):
        done = lod("filter", "-q", "t.parquet", f"{name} >= {noon * factor}", "-fo", "out.parquet")
        assert done.code == 0, done.stderr
        assert pq.read_table("out.parquet")["n"].to_pylist() == [1, 2]
