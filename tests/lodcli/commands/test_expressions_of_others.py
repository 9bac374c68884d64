"""Expressions as SQL, pandas and Polars write them: the errors say what to write instead."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lodcli.conftest import Lod

TIMES = [datetime.datetime(2018, 1, 1, 5) + datetime.timedelta(days=n, hours=n) for n in range(900)]
TEXTS = ["a12b3", "x", "", "7"]
SAID = {
    "week(t)": "no function 'week'; write (t - floor(t, 'P1Y')) // 'P7D' + 1, where t is floor(",
    "iff(x > 0, 1, 0)": "no function 'iff'; write a if x > 0 else b",
    "cast(x as int)": "; lod cast x=int64 converts a tensor",
    "x::float": "; lod cast x=int64 converts a tensor",
    "s || 'x'": "; write and, or, not for conditions, x + y to join texts",
    "x > 0 || b": "; write and, or, not for conditions, x + y to join texts",
    "x > 0 && b": "; write and, or, not\n",
    "x[1::2] +* 3": "not understood (invalid syntax)\n",
    "concat(s, 'x')": "see lod apply concat --help; x + 'text' joins texts",
    "s + x": "makes numbers of texts; + joins texts, which lod cast x=text makes of numbers",
    "1 + s": "lod cast s=float64 makes numbers of texts; + joins texts, as in '1'",
    "s + None": "lod cast s=float64 makes numbers of texts\n",
    "concat_ws('-', s, s)": "no function 'concat_ws'; write x + '-' + y",
    "t.dt.year": "no tensor 't.dt.year'; write year(t)",
    "s.lower": "no tensor 's.lower'; write lower(s)",
    "df.x + 1": "no tensor 'df.x'; did you mean x?",
    "r.x + 1": "no tensor 'r.x'; did you mean r.y?",
    "rr.y + 1": "no tensor 'rr.y'; did you mean r.y?",
    "df.r.y + 1": "no tensor 'df.r.y'; did you mean r.y?",
    "df['x'] + 1": "no tensor 'df'; write the name of a column alone, as in x > 1",
    "cumsum(x)": "cumsum takes a tensor with a level; this has none; lod group --by KEY makes a li",
    "l + shift(x)": "shift takes a tensor with a level; this has none; lod group --by KEY makes a",
    "shift(l, 1, level=3)": "no level 3: there is 1 level",
    "extract(year from t)": "; write year(time), month(time), day(time), hour(time), ..",
    "date_part('year', t)": "; write year(time), month(time), day(time), hour(time), ..",
    "datediff(t, t)": "no function 'datediff'; write (date(y) - date(x)) // 'P1D'",
    "(t - t).total_seconds()": "no function 'total_seconds'; write x / 'PT1S', or 'P1D'",
    "zip(l, l)": "no function 'zip'; lod apply has stack(x, y)",
    "log(x, 3)": "log takes 1 argument, as in log(data); write log(x) / log(3), or log2(x), log10",
    "pi * x": "no tensor 'pi'; write 3.141592653589793",
    "regexp_extract(s, 'a')": r"; write replace_matches(x, '^[^0-9]*([0-9]+).*$', r'\1'); a text w",
    "to_date(s)": "no function 'to_date'; lod cast x=date makes dates of texts",
    "to_timestamp(s)": "no function 'to_timestamp'; lod cast x=timestamp[s] makes times of texts",
}


@pytest.fixture(autouse=True)
def file(folder: Path) -> None:
    lists = [[1, 2], [], [3], None]
    late = [one - datetime.timedelta(hours=9) for one in TIMES[:4]]  # on the day before
    columns = {"x": [1.5, None, 3.0, 4.0], "s": TEXTS, "l": lists, "t": TIMES[:4], "u": late}
    columns["r"] = [{"y": 1}, {"y": 2}, {"y": 3}, {"y": 4}]
    pq.write_table(pa.table(columns), "t.parquet")


@pytest.mark.parametrize("text", SAID)
def test_an_error_says_what_to_write(lod: Lod, text: str) -> None:
    done = lod("apply", text, "t.parquet", "-o", "out.parquet")
    assert done.code != 0
    assert SAID[text] in done.stderr


def computed(lod: Lod, text: str) -> list[object]:
    assert lod("apply", text, "t.parquet", "-q", "-o", "out.parquet").clean
    found: list[object] = pq.read_table("out.parquet").column(0).to_pylist()
    return found


def test_the_week_that_is_advised_is_that_of_iso_8601(lod: Lod) -> None:
    pq.write_table(pa.table({"t": TIMES}), "t.parquet")
    thursday = "(floor(date(t), 'P1W') + 'P3D')"
    weeks = computed(lod, f"({thursday} - floor({thursday}, 'P1Y')) // 'P7D' + 1")
    assert weeks == [one.isocalendar().week for one in TIMES]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"replace_matches(s, '^[^0-9]*([0-9]+).*$', r'\1')", ["12", "x", "", "7"]),
        ("s + 'text'", ["a12b3text", "xtext", "text", "7text"]),
        ("(date(t) - date(u)) // 'P1D'", [1, 1, 1, 1]),
        ("(t - '2018-01-01') / 'PT1S'", [18000.0, 108000.0, 198000.0, 288000.0]),
        ("stack(l, l)", [[[1, 1], [2, 2]], [], [[3, 3]], None]),
    ],
)
def test_what_is_advised_computes(lod: Lod, text: str, expected: list[object]) -> None:
    assert computed(lod, text) == expected
