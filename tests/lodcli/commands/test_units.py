"""Commands that choose rows keep the units of times and decimals, and inspect shows them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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
