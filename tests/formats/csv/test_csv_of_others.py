"""CSV files as other programs write them, and what lod says of those that it does not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.kernels.errors import InvalidDataError, UnsupportedError

THEIRS = Path(__file__).parents[1] / "theirs"


@pytest.mark.parametrize(
    ("name", "line", "remedy"),
    [
        ("spark.csv", 2, "in Spark, the option escape"),
        ("r_table.tsv", 3, "in R, qmethod='double'"),
        ("php.csv", 2, "in PHP, escape: ''"),
    ],
)
def test_quotes_after_backslashes_are_an_error_with_a_remedy(
    name: str, line: int, remedy: str
) -> None:
    message = f"line {line}: .*without backslashes before quotes.*{remedy}"
    with pytest.raises(InvalidDataError, match=message):
        lodcli.read_all(THEIRS / name)


def test_null_of_databases_is_a_null_on_request(tmp_path: Path) -> None:
    # COPY of Postgres, SELECT INTO OUTFILE of MySQL, CSV and TSV of ClickHouse.
    path = tmp_path / "t.tsv"
    path.write_text("n\tt\n\\N\t\\N\n2\tb\n")
    with pytest.raises(InvalidDataError, match="nulls='keep' reads it as a null"):
        lodcli.read_all(path)
    found = lodcli.read_all(path, nulls="keep")
    assert found["n"].to_list() == [None, 2]
    assert found["t"].to_list() == [r"\N", "b"]


def test_whole_numbers_beside_an_infinity_of_postgres_are_floats() -> None:
    found = lodcli.read_all(THEIRS / "postgres.csv", nulls="keep")
    assert found["price"].to_list() == [4.0, None, float("inf")]
    assert found["note"].to_list() == ['a "b"\n,c', None, ""]
    assert found["id"].dtype == np.int64


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        # iris.data of UCI has no header; neither has adult.data.
        ("5.1,3.5,1.4,Iris-setosa\n4.9,3,1.4,Iris-setosa\n", "numbers: '5.1', '3.5', '1.4'; if"),
        ("39, State-gov, 77516, 13\n50, Private, 83311, 9\n", "numbers: '39', ' 77516', ' 13'; if"),
        ("country,2019,2020,2021\nNO,5.3,5.4,5.4\n", None),
        ("id,2019,2020\n1,5.3,5.4\n", None),
        ("a,7\nx,1\n", None),
    ],
)
def test_a_record_in_place_of_a_header_is_reported(
    lines: str, said: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(lines)
    with lodcli.open(path) as file:
        assert [said in note for note in file.notes if said] == [True] * bool(said)
        assert bool(file.notes) == bool(said)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('a, b\n1, "x, y"\n', "stands in quotes, without a blank before the quote"),
        ("5.1,5.1,x\n4.9,3,y\n", "named '5.1'; if it is a record, put a line of names above it"),
        ("\ufeff", "line 1: expected the names of the columns, found nothing"),
        ('a,"b\rc"\n1,2\n', r"line 1: a line ends with \\n, not with \\r alone; convert it"),
    ],
)
def test_an_error_says_what_to_do(lines: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(lines, encoding="utf-8", newline="")
    with pytest.raises(InvalidDataError, match=said):
        lodcli.read_all(path)


def test_columns_are_real_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    with pytest.raises(UnsupportedError, match="floats or bool for columns, found complex64"):
        lodcli.read_all(path, dtype="complex64")
