"""Arithmetic and comparisons of decimals, against Python's Decimal and DuckDB."""

from __future__ import annotations

import decimal
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.commands.choose.expression import Expression
from lodcli.expressions.digits import order_of_digits, stepped
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks
from tests.lodcli.conftest import Lod, tensor

Row = dict[str, Any]
COUNT = 400
D = Decimal


@pytest.fixture
def table(folder: None) -> pa.Table:
    rng = np.random.default_rng(11)

    def decimals(precision: int, scale: int, count: int = COUNT, nulls: float = 0.2) -> pa.Array:
        digits = rng.integers(-(10**precision) + 1, 10**precision, count).tolist()
        missing = (rng.random(count) < nulls).tolist()
        values = [
            None if no else D(one).scaleb(-scale) for one, no in zip(digits, missing, strict=True)
        ]
        return pa.array(values, pa.decimal128(precision, scale))

    found = pa.table(
        {
            "p": decimals(3, 2),
            "q": decimals(5, 3),
            "w": decimals(17, 4),
            "h": decimals(4, -2),
            "n": pa.array(rng.integers(-9, 9, COUNT), pa.int16()),
            "u": pa.array(rng.integers(0, 9, COUNT), pa.uint64()),
            "b": pa.array(rng.random(COUNT) < 0.5),
            "f": rng.random(COUNT),
            "ps": pa.array(
                [decimals(4, 2, length).to_pylist() for length in rng.integers(0, 4, COUNT)],
                pa.list_(pa.decimal128(4, 2)),
            ),
        }
    )
    pa.feather.write_feather(found, "d.arrow")  # Parquet has no negative scales
    return found


def applied(lod: Lod, text: str) -> pa.ChunkedArray:
    assert lod("apply", text, "d.arrow", "-qfo", "o.arrow").clean
    return pa.feather.read_table("o.arrow").column(0)


def known(function: Callable[..., Any], *names: str) -> Callable[[Row], Any]:
    """Return a function of some columns of a row, which is None where one of them is None."""

    def of_row(row: Row) -> Any:
        values = [D(int(row[one])) if one in "nub" else row[one] for one in names]
        return None if None in values else function(*values)

    return of_row


ROUNDED = {"floor": decimal.ROUND_FLOOR, "ceil": decimal.ROUND_CEILING}
RESULTS: dict[str, tuple[int, Callable[[Row], Any]]] = {
    "p + q": (3, known(operator.add, "p", "q")),
    "p - n": (2, known(operator.sub, "p", "n")),
    "n - p + 0.125": (3, known(lambda p, n: n - p + D("0.125"), "p", "n")),
    "p * q": (5, known(operator.mul, "p", "q")),
    "p * (n + 1)": (2, known(lambda p, n: p * (n + 1), "p", "n")),
    "u * p": (2, known(operator.mul, "p", "u")),
    "p * b + p * (n > 2)": (2, known(lambda p, b, n: p * b + p * (n > 2), "p", "b", "n")),
    "(p + q) * (p - q)": (6, known(lambda p, q: (p + q) * (p - q), "p", "q")),
    "p * 1.19": (4, known(lambda p: p * D("1.19"), "p")),
    "p * (0.1 + 0.2)": (3, known(lambda p: p * D("0.3"), "p")),
    "w + 0.1": (4, known(lambda w: w + D("0.1"), "w")),
    "h + p": (2, known(operator.add, "h", "p")),
    "h * p": (0, known(operator.mul, "h", "p")),
    "h * 3": (-2, known(lambda h: h * 3, "h")),
    "(-p)": (2, known(operator.neg, "p")),
    "+p": (2, known(operator.pos, "p")),
    "abs(p)": (2, known(abs, "p")),
    "p % 0.3": (2, known(lambda p: D(int(p * 100) % 30).scaleb(-2), "p")),
    "p // 0.3": (0, known(lambda p: D(int(p * 100) // 30), "p")),
    "floor(p)": (0, known(lambda p: p.to_integral_value(decimal.ROUND_FLOOR), "p")),
    "ceil(q)": (0, known(lambda q: q.to_integral_value(decimal.ROUND_CEILING), "q")),
    "round(q)": (0, known(lambda q: q.to_integral_value(decimal.ROUND_HALF_EVEN), "q")),
    "coalesce(p * 2, 0)": (2, lambda row: D(0) if row["p"] is None else row["p"] * 2),
    "p * q if n > 2 else q": (
        5,
        lambda row: known(operator.mul, "p", "q")(row) if row["n"] > 2 else row["q"],
    ),
    "maximum(p, q * 2)": (3, known(lambda p, q: max(p, q * 2), "p", "q")),
    "sum(ps)": (
        2,
        lambda row: (
            None
            if row["ps"] and not any(one is not None for one in row["ps"])
            else sum((one for one in row["ps"] if one is not None), D(0))
        ),
    ),
}


@pytest.mark.parametrize("text", RESULTS)
def test_decimals_are_computed_exactly(lod: Lod, table: pa.Table, text: str) -> None:
    scale, function = RESULTS[text]
    found = applied(lod, text)
    assert pa.types.is_decimal(found.type)
    assert found.type.scale == scale
    assert found.to_pylist() == [function(row) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("p + q", "p + q"),
        ("p - n", "p - n"),
        ("p * q * 1.25", "p * q * 1.25"),
        ("w - p", "w - p"),
        ("floor(q)", "floor(q)"),
        ("abs(p)", "abs(p)"),
        ("p + n * b", "p + n * b::int"),
    ],
)
def test_decimals_have_the_scale_and_the_values_of_duckdb(
    lod: Lod, table: pa.Table, text: str, sql: str
) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = applied(lod, text)
    pq.write_table(table.drop_columns(["h", "ps"]), "d.parquet")
    wanted = duckdb.sql(f"select {sql} as x from 'd.parquet'").to_arrow_table().column(0)
    assert found.type.scale == wanted.type.scale
    assert found.to_pylist() == wanted.to_pylist()


COMPARED: dict[str, Callable[[Row], Any]] = {
    "p * 3 == 0.3": known(lambda p: p * 3 == D("0.3"), "p"),
    "p == q": known(operator.eq, "p", "q"),
    "p < q": known(operator.lt, "p", "q"),
    "q >= p": known(operator.ge, "q", "p"),
    "p != n": known(operator.ne, "p", "n"),
    "p > u": known(operator.gt, "p", "u"),
    "n <= p + 0.01": known(lambda p, n: n <= p + D("0.01"), "p", "n"),
    "h < p": known(operator.lt, "h", "p"),
    "-0.505 < p <= 5e-1": known(lambda p: D("-0.505") < p <= D("0.5"), "p"),
    "w > 123456789012.34565": known(lambda w: w > D("123456789012.34565"), "w"),
    "w != 1e300": known(lambda w: True, "w"),
    "p in (0.10, 0.2, -3, 0.333)": known(lambda p: p in (D("0.1"), D("0.2"), D(-3)), "p"),
    "p not in (0.10, 99999999999999999999)": known(lambda p: p != D("0.1"), "p"),
    "p + q == 0.1 + 0.2 + p": known(lambda p, q: q == D("0.3"), "p", "q"),
    "any(ps > 0.5)": lambda row: _any(row["ps"], lambda one: one > D("0.5")),
    "0.25 in ps": lambda row: _any(row["ps"], lambda one: one == D("0.25")),
}


def _any(values: list[Any], holds: Callable[[Any], bool]) -> bool | None:
    found = [holds(one) for one in values if one is not None]
    return any(found) if found or not values else None


@pytest.mark.parametrize("text", COMPARED)
def test_decimals_are_compared_exactly(lod: Lod, table: pa.Table, text: str) -> None:
    wanted = [COMPARED[text](row) for row in table.to_pylist()]
    assert applied(lod, text).to_pylist() == wanted
    assert lod("filter", "d.arrow", text, "-qfo", "f.arrow").code == 0
    kept = table.filter(pa.array(wanted, pa.bool_())).to_pylist()
    assert pa.feather.read_table("f.arrow").to_pylist() == kept


def test_sums_of_parts_of_a_list_are_exact(lod: Lod, table: pa.Table) -> None:
    found = applied(lod, "cumsum(coalesce(ps, 0))")
    wanted = [list(accumulate(one or D(0) for one in row)) for row in table["ps"].to_pylist()]
    assert found.to_pylist() == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("sum d.arrow", ["0.30", "0.00", "7.10"]),
        ("cumsum d.arrow", [["0.10", "0.30"], [], ["7.10"]]),
        ("diff d.arrow", [["0.10"], [], []]),
        ("mul d.arrow 1.19", [["0.1190", "0.2380"], [], ["8.4490"]]),
        ("add d.arrow d.arrow", [["0.20", "0.40"], [], ["14.20"]]),
        ("div d.arrow 2", [[0.05, 0.1], [], [3.55]]),
        ("mean d.arrow", [np.mean([0.1, 0.2]), 0.0, 7.1]),
    ],
)
def test_ops_by_name_are_as_exact(lod: Lod, folder: None, line: str, wanted: list[Any]) -> None:
    ps = pa.array([[D("0.10"), D("0.20")], [], [D("7.10")]], pa.list_(pa.decimal128(5, 2)))
    pa.feather.write_feather(pa.table({"ps": ps}), "d.arrow")
    assert lod("apply", *line.split(), "-qo", "o.parquet").clean
    found = pq.read_table("o.parquet").column(0).to_pylist()
    nested = [
        [D(x) if isinstance(x, str) else x for x in one]
        if isinstance(one, list)
        else D(one)
        if isinstance(one, str)
        else one
        for one in wanted
    ]
    assert found == nested


def test_the_price_of_a_tenth(lod: Lod, folder: None) -> None:
    """As floats, three times 0.10 is not 0.30, and 0.10 + 0.20 is not 0.30 either."""
    pq.write_table(pa.table({"p": [D("0.10"), D("0.20"), D("0.30")]}), "p.parquet")
    for text, kept in {"p * 3 == 0.30": 1, "p + 0.20 == 0.30": 1, "p % 0.1 == 0": 3}.items():
        assert lod("filter", "p.parquet", text, "-qfo", "o.parquet").code == 0
        assert pq.read_table("o.parquet").num_rows == kept, text


@pytest.mark.parametrize("text", ["p / 3", "p * f", "p * 1e0", "p ** 2", "mean(ps)", "p % n"])
def test_quotients_and_what_is_beside_floats_are_floats(
    lod: Lod, table: pa.Table, text: str
) -> None:
    assert applied(lod, text).type == pa.float64()


def test_decimals_are_sorted_by_what_is_computed_of_them(lod: Lod, table: pa.Table) -> None:
    assert lod("sort", "d.arrow", "--by", "p * q", "-qo", "s.arrow").code == 0
    found = pa.feather.read_table("s.arrow").to_pylist()
    key = known(operator.mul, "p", "q")
    rows = table.to_pylist()
    wanted = sorted(rows, key=lambda row: (key(row) is None, key(row) or D(0)))
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "where", "decimals"),
    [
        ("w * w", "column 1: w * w", "decimal(34, 8)"),
        ("1 + w * 100000000", "column 5: w * 100000000", "decimal(26, 4)"),
        ("sum(ws)", "column 1: sum(ws)", "decimal(38, 4)"),
        ("w + 9000000000000000000", "column 5: 9000000000000000000", "decimal(24, 4)"),
    ],
)
def test_an_overflow_is_an_error(
    lod: Lod, folder: None, text: str, where: str, decimals: str
) -> None:
    w = pa.array([D("1"), D("9" * 13)], pa.decimal128(17, 4))
    ws = pa.array([[D("9" * 13)] * 200] * 2, pa.list_(w.type))
    pq.write_table(pa.table({"w": w, "ws": ws}), "d.parquet")
    lines = [
        lod("apply", text, "d.parquet", "-qo", "o.parquet"),
        lod("filter", "d.parquet", f"{text} > 0", "-qo", "o.parquet"),
    ]
    for done in lines:
        assert done.code == 2
        assert f"{where}: a number does not fit {decimals}, whose digits have 64" in done.stderr
        assert "lod cast w" in done.stderr
    done = lod("apply", "w*w*w*w*w*w*w*w*w*w", "d.parquet", "-qo", "o.parquet")
    assert "column 1: the result has too many digits after the point" in done.stderr


def test_a_number_beyond_every_decimal_is_compared() -> None:
    assert Expression("x < 1e400").tensors == ("x",)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-25, 25),
)
def test_digits_of_any_scale_have_the_order_of_their_values(
    many: list[int], one: int, places: int
) -> None:
    first = np.array(many, np.int64)
    found = order_of_digits(places)(first, np.full_like(first, one))
    other = Fraction(one) / Fraction(10) ** places
    assert found.tolist() == [(a > other) - (a < other) for a in many]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(1, 25))
def test_digits_are_rounded_as_by_python(many: list[int], scale: int) -> None:
    digits = np.array(many, np.int64)
    for name, how in {**ROUNDED, "round": decimal.ROUND_HALF_EVEN}.items():
        wanted = [int(D(one).scaleb(-scale).to_integral_value(how)) for one in many]
        assert stepped(name, scale)(digits).tolist() == wanted


def test_powers_of_decimals_without_a_point_are_floats(lod: Lod, folder: Path) -> None:
    """Not whole numbers that wrap."""
    digits = [10**10, 3, -2]
    io.write("p.lod.h5", {"p": LoDTensor(digits, marks=Marks(unit=Decimals(18, 0)))})
    for text, wanted in {"p ** 2": [1e20, 9, 4], "(p - 1) ** 2": [(1e10 - 1) ** 2, 4, 9]}.items():
        assert lod("apply", text, "p.lod.h5", "-fo", "o.lod.h5").code == 0
        assert tensor("o.lod.h5").dtype == np.float64
        assert tensor("o.lod.h5").to_list() == wanted
    assert lod("filter", "p.lod.h5", "2 ** p > 1", "-qo", "f.lod.h5").code == 0
    assert tensor("f.lod.h5", "p").values.tolist() == digits[:2]
