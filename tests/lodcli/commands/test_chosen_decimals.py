"""Decimals that expressions choose or pick, against DuckDB and loops of Python."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lodcli.conftest import Lod

Row = dict[str, Any]
COUNT = 300


@pytest.fixture
def table(folder: None) -> pa.Table:
    rng = np.random.default_rng(5)

    def decimals(precision: int, scale: int) -> pa.Array:
        digits = rng.integers(-(10**precision) + 1, 10**precision, COUNT).tolist()
        nulls = rng.random(COUNT) < 0.3
        values = [
            None if null else Decimal(one).scaleb(-scale)
            for one, null in zip(digits, nulls, strict=True)
        ]
        return pa.array(values, pa.decimal128(precision, scale))

    found = pa.table(
        {
            "p": decimals(5, 2),
            "q": decimals(8, 4),
            "n": pa.array(rng.integers(-100, 100, COUNT), pa.int8()),
            "i": pa.array(rng.integers(-(2**40), 2**40, COUNT)),
            "ps": pa.array(
                [decimals(5, 2)[:length] for length in rng.integers(0, 4, COUNT)],
                pa.list_(pa.decimal128(5, 2)),
            ),
        }
    )
    pq.write_table(found, "d.parquet")
    return found


def applied(lod: Lod, text: str) -> pa.ChunkedArray:
    assert lod("apply", text, "d.parquet", "-qfo", "o.parquet").clean
    return pq.read_table("o.parquet").column(0)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("coalesce(p, 0)", "coalesce(p, 0)"),
        ("coalesce(p, -12.5)", "coalesce(p, -12.5)"),
        ("coalesce(p, 0.125)", "coalesce(p, 0.125)"),
        ("coalesce(p, 123456)", "coalesce(p, 123456)"),
        ("coalesce(p, q, 0)", "coalesce(p, q, 0)"),
        ("coalesce(q, p)", "coalesce(q, p)"),
        ("coalesce(p, n)", "coalesce(p, n)"),
        ("coalesce(p, coalesce(n, 0))", "coalesce(p, coalesce(n, 0))"),
        ("coalesce(p, coalesce(n, 0.25))", "coalesce(p, coalesce(n, 0.25))"),
        ("p if n > 2 else coalesce(i, 1)", "case when n > 2 then p else coalesce(i, 1) end"),
        ("p if n > 2 else 0", "case when n > 2 then p else 0 end"),
        ("i if n > 2 else q", "case when n > 2 then i else q end"),
        ("p if n > 2 else None", "case when n > 2 then p end"),
        ("1 if n < 0 else 2 if n < 9 else p", "case when n<0 then 1 when n<9 then 2 else p end"),
        ("p if n > 9 else coalesce(q, 0.25)", "case when n > 9 then p else coalesce(q, 0.25) end"),
    ],
)
def test_chosen_decimals_are_those_of_duckdb(
    lod: Lod, table: pa.Table, text: str, sql: str
) -> None:
    duckdb = pytest.importorskip("duckdb")
    wanted = duckdb.sql(f"select {sql} as x from 'd.parquet'").to_arrow_table().column(0)
    found = applied(lod, text)
    assert found.to_pylist() == wanted.to_pylist()
    assert found.type.scale == wanted.type.scale
    assert pa.types.is_decimal(found.type)


PICKS: dict[str, Callable[[Row], Any]] = {
    "maximum(p, 1)": lambda row: None if row["p"] is None else max(row["p"], Decimal(1)),
    "minimum(p, 2.5, n, 1)": lambda row: (
        None if None in (row["p"], row["n"]) else min(row["p"], Decimal("2.5"), row["n"], 1)
    ),
    "maximum(p, n + 1)": lambda row: (
        None if row["p"] is None else max(row["p"], Decimal(row["n"] + 1))
    ),
    "p * 2 if n else p": lambda row: row["p"] and row["p"] * (2 if row["n"] else 1),
    "minimum(n, p)": lambda row: None if row["p"] is None else min(row["p"], Decimal(row["n"])),
    "first(ps)": lambda row: row["ps"][0] if row["ps"] else None,
    "coalesce(last(ps), 7)": lambda row: (row["ps"] or [None])[-1] or Decimal(7),
    "max(ps)": lambda row: max((one for one in row["ps"] if one is not None), default=None),
    "min(ps, pad_value=0.5)": lambda row: (
        None
        if row["ps"] and all(one is None for one in row["ps"])
        else min((one for one in row["ps"] if one is not None), default=Decimal("0.5"))
    ),
}


@pytest.mark.parametrize("text", PICKS)
def test_picked_decimals_stay_decimals(lod: Lod, table: pa.Table, text: str) -> None:
    found = applied(lod, text)
    assert pa.types.is_decimal(found.type)
    assert found.to_pylist() == [PICKS[text](row) for row in table.to_pylist()]


@pytest.mark.parametrize(
    "text",
    ["coalesce(p, 125e-3)", "p if n > 2 else 1e300", "maximum(p, n * 0.5)", "p / 2 if n else p"],
)
def test_other_numbers_make_floats(lod: Lod, table: pa.Table, text: str) -> None:
    assert applied(lod, text).type == pa.float64()


def test_chosen_decimals_are_numbers_in_what_surrounds_them(lod: Lod, table: pa.Table) -> None:
    wanted = [
        None if one is None else max(float(one), 1.0) * 2 > 3 for one in table["p"].to_pylist()
    ]
    assert applied(lod, "maximum(p, 1) * 2 > 3").to_pylist() == wanted
    kept = [n for n, one in enumerate(wanted) if one]
    assert lod("filter", "d.parquet", "maximum(p, 1) * 2 > 3", "-qo", "f.parquet").code == 0
    assert pq.read_table("f.parquet")["i"].to_pylist() == [table["i"][n].as_py() for n in kept]
    assert lod("apply", "coalesce(p, 0)", "d.parquet", "--dtype", "float32", "-qo", "o.npy").clean
    found = np.load("o.npy")
    assert found.dtype == np.float32
    assert found.tolist() == [np.float32(one or 0) for one in table["p"].to_pylist()]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("maximum(v, 0)[1]", ["0.00", "2.50"]),
        ("coalesce(v, 7)[0]", ["1.25", "3.00"]),
        ("(v if n > 0 else w)[1]", ["-0.50", "2.500"]),
        ("(v if n > 0 else w)[0] * 2", [2.5, 8.0]),
    ],
)
def test_a_column_of_chosen_decimals_has_their_scale(
    lod: Lod, folder: None, text: str, wanted: list[Any]
) -> None:
    def pairs(values: list[list[str]], scale: int) -> pa.Array:
        numbers = [[Decimal(one) for one in pair] for pair in values]
        return pa.array(numbers, pa.list_(pa.decimal128(6, scale), 2))

    v = pairs([["1.25", "-0.50"], ["3.00", "2.50"]], 2)
    w = pairs([["1.125", "0.500"], ["4.000", "2.500"]], 3)
    pq.write_table(pa.table({"v": v, "w": w, "n": [1, 0]}), "d.parquet")
    found = applied(lod, text).to_pylist()
    assert found == [Decimal(one) if isinstance(one, str) else one for one in wanted]


def test_digits_beyond_64_bits_are_an_error(lod: Lod, table: pa.Table) -> None:
    pq.write_table(table.set_column(3, "i", pa.array([2**62] * COUNT)), "d.parquet")
    done = lod("apply", "coalesce(p, i)", "d.parquet", "-qo", "o.parquet")
    assert done.code == 2
    assert done.stderr.endswith(
        "column 13: i: a number does not fit decimal(21, 2), whose digits have 64 bits; "
        "lod cast p=float64 makes floats\n"
    )


@pytest.mark.parametrize("suffix", ["parquet", "orc"])
def test_floats_of_decimals_are_compared_by_value(lod: Lod, folder: None, suffix: str) -> None:
    """Statistics of Parquet are of the digits, 18 of which follow the point."""
    table = pa.table({"x": pa.array([Decimal(n) / 4 for n in range(200)], pa.decimal128(38, 18))})
    if suffix == "parquet":
        pq.write_table(table, "d.parquet", row_group_size=10)
    else:
        orc = pytest.importorskip("pyarrow.orc")
        orc.write_table(table, "d.orc")
    chosen = {"x < 5": [n / 4 for n in range(20)], "x >= 40.25": [n / 4 for n in range(161, 200)]}
    for text, wanted in chosen.items():
        done = lod("filter", f"d.{suffix}", text, "--float-decimals", "-qfo", "o.parquet")
        assert done.clean
        found = pq.read_table("o.parquet").column("x")
        assert found.type == pa.float64()
        assert found.to_pylist() == wanted
