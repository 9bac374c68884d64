"""Columns in the names of folders, against pyarrow, DuckDB and Polars."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.schema import tensor_of
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError
from lodcli.kernels.platform import processes
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks, Times

TABLE = {
    "n": [1, 2, 3, 4, 5],
    "year": [2023, 2024, 2024, 2023, 2023],
    "country": ["de", "São Tomé", None, "a/b=%", "de"],
    "day": ["2024-01-01", "2024-02-29", None, "2024-01-01", "2024-01-01"],
}


@pytest.fixture
def events(tmp_path: Path) -> Path:
    keys = ["year", "country", "day"]
    pq.write_to_dataset(pa.table(TABLE), tmp_path / "events", partition_cols=keys)
    (tmp_path / "events" / "_temporary").mkdir()
    (tmp_path / "events" / "_temporary" / "part-0.parquet").write_text("not complete")
    return tmp_path / "events"


def rows(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    """Return the records of a path, by their numbers."""
    found = {name: one.to_list() for name, one in io.read_all(path, **options).items()}
    records = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
    return sorted(records, key=lambda one: one.get("n", 0))


def test_keys_are_columns_as_in_pyarrow_duckdb_and_polars(events: Path) -> None:
    pattern = str(events / "**" / "*.parquet")
    found = rows(pattern)
    assert found == rows(events)
    ours = [{**one, "day": one["day"] and str(one["day"])} for one in found]
    assert ours == [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]
    theirs = pa.dataset.dataset(events, partitioning="hive").to_table()
    assert ours == theirs.sort_by("n").select(list(TABLE)).to_pylist()
    duckdb = pytest.importorskip("duckdb")
    read = f"read_parquet('{events}/*/*/*/*.parquet', hive_partitioning=true)"
    theirs = duckdb.sql(f"select n, year, country, day from {read} order by n").to_arrow_table()
    assert found == theirs.to_pylist()
    polars = pytest.importorskip("polars")
    scan = polars.scan_parquet(f"{events}/*/*/*/*.parquet", hive_partitioning=True)
    assert found == scan.sort("n").select(list(TABLE)).collect().to_dicts()


def test_a_key_is_of_whole_numbers_or_of_dates_if_all_its_values_are(tmp_path: Path) -> None:
    values = {
        "whole": ["01", "-7", "3"],
        "phone": ["+49", "1", "+1"],
        "large": ["9223372036854775807", "9223372036854775808", "1"],
        "day": ["0001-01-01", "__HIVE_DEFAULT_PARTITION__", "9999-12-31"],
        "days": ["2024-02-29", "2023-02-29", "2024-01-01"],
        "mixed": ["1", "1.5", ""],
        "none": ["__HIVE_DEFAULT_PARTITION__"] * 3,
    }
    for place in range(3):
        folder = tmp_path.joinpath(*(f"{name}={some[place]}" for name, some in values.items()))
        folder.mkdir(parents=True)
        io.write(folder / f"{place}.jsonl", LoDTensor([place, place]))
    with lodcli.open(tmp_path) as file:
        marks = {spec.name: spec.marks for spec in file.schema}
        assert [file.schema[place].name for place in range(8)] == ["data", *values]
    found = {name: one.to_list() for name, one in io.read_all(tmp_path).items()}
    order = [found["data"].index(place) for place in range(3)]
    at = {name: [some[place] for place in order] for name, some in found.items()}
    assert at["whole"] == [1, -7, 3]
    assert at["large"] == values["large"]
    assert at["phone"] == values["phone"]  # as in pyarrow, DuckDB and Polars
    assert at["day"] == [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]
    assert at["days"] == values["days"]
    assert at["mixed"] == values["mixed"]
    assert at["none"] == [None] * 3
    assert marks["day"] == Marks(unit=Times("date", "D"))
    assert not marks["whole"]
    assert all(marks[name].is_text for name in ("large", "phone", "days", "mixed", "none"))


@pytest.mark.parametrize(
    "ending", ["parquet", "arrow", "csv", "jsonl", "lod.h5", "npz", "tfrecord", "orc"]
)
def test_files_of_every_format_of_records_have_keys(ending: str, tmp_path: Path) -> None:
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        path = tmp_path / f"year={year}" / f"part.{ending}"
        if ending == "orc":
            orc = pytest.importorskip("pyarrow.orc")
            orc.write_table(pa.table({"data": [year, 7]}), path)
        else:
            io.write(path, {"data": LoDTensor([year, 7])})
    found = io.read_all(tmp_path)
    name = next(iter(found))
    assert found[name].to_list() == [2023, 7, 2024, 7]
    assert found["year"].to_list() == [2023, 2023, 2024, 2024]


def test_keys_go_with_lists_and_with_files_of_no_items(tmp_path: Path) -> None:
    for year, lists in ((1, [[1, 2], []]), (2, []), (3, [[3]])):
        (tmp_path / f"y={year}").mkdir()
        table = pa.table({"data": pa.array(lists, pa.list_(pa.int64()))})
        pq.write_table(table, tmp_path / f"y={year}" / "a.parquet")
    found = io.read_all(tmp_path)
    assert found["data"].to_list() == [[1, 2], [], [3]]
    assert found["y"].to_list() == [1, 1, 3]


def test_a_key_replaces_a_column_of_its_name(tmp_path: Path) -> None:
    """As in pyarrow, DuckDB and Polars."""
    (tmp_path / "k=5").mkdir()
    pq.write_table(
        pa.table({"k": pa.array([7, 8], pa.int32()), "v": [1, 2]}), tmp_path / "k=5/a.pq"
    )
    theirs = pa.dataset.dataset(tmp_path, partitioning="hive").to_table()
    assert rows(tmp_path) == theirs.to_pylist() == [{"k": 5, "v": 1}, {"k": 5, "v": 2}]
    assert rows(tmp_path, columns=["k"]) == [{"k": 5}, {"k": 5}]
    assert rows(tmp_path, skip_partitions=True) == [{"k": 7, "v": 1}, {"k": 8, "v": 2}]


def test_keys_are_chosen_and_renamed_like_other_columns(events: Path) -> None:
    assert io.read(events, "year").to_list() == [2023, 2023, 2023, 2024, 2024]
    found = rows(events, columns=["day", "n"], rename={"day": "d"})
    assert [list(one) for one in found] == [["d", "n"]] * 5
    assert list(rows(events, columns=["year"])[0]) == ["year"]
    assert list(rows(events, field=["n"])[0]) == ["n"]
    assert list(rows(events, skip_partitions=True)[0]) == ["n"]
    filled = rows(events, nulls="empty", columns=["country", "n"])
    assert [one["country"] for one in filled] == ["de", "São Tomé", "", "a/b=%", "de"]
    if processes.CAN_ISOLATE:
        assert rows(events, limits=Limits(isolate=True)) == rows(events)


@pytest.mark.skipif(not processes.CAN_ISOLATE, reason="this system cannot limit processes")
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "orc"])
def test_keys_are_columns_of_files_that_are_read_in_a_sandbox(suffix: str, tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2], "s": ["a", "bc"]})
    for key in ("x", "__HIVE_DEFAULT_PARTITION__"):
        path = tmp_path / f"k={key}" / f"a.{suffix}"
        path.parent.mkdir()
        if suffix == "orc":  # always read in a sandbox
            pytest.importorskip("pyarrow.orc").write_table(table, path)
        elif suffix == "parquet":
            pq.write_table(table, path)
        else:
            io.write(path, {"n": LoDTensor([1, 2]), "s": LoDTensor.from_lists(["a", "bc"])})
    expected = [{"n": n, "s": s, "k": k} for n, s in ((1, "a"), (2, "bc")) for k in (None, "x")]
    limits = Limits(isolate=True)
    found = rows(tmp_path, limits=limits)
    assert sorted(found, key=lambda one: (one["n"], one["k"] or "")) == expected
    assert io.read(tmp_path, "k", limits=limits).to_list() == [None, None, "x", "x"]
    for columns in (None, ["n"]):
        with lodcli.open(tmp_path, columns=columns, limits=limits) as file:
            assert not any("names of" in one or "folders name" in one for one in file.notes)


def test_only_folders_that_a_pattern_chooses_have_keys(events: Path) -> None:
    inner = events / "year=2023"
    assert list(rows(inner / "**" / "*.parquet")[0]) == ["n", "country", "day"]
    one = inner / "country=de" / "day=2024-01-01"
    assert list(rows(one)[0]) == ["n"]
    assert list(rows(next(one.iterdir()))[0]) == ["n"]


def test_files_with_other_keys_are_an_error(events: Path) -> None:
    one = next((events / "year=2023" / "country=de").glob("*/*"))
    (events / "other.parquet").write_bytes(one.read_bytes())
    pattern = events / "**" / "*.parquet"
    wanted = (
        rf"{events}/other.parquet: is in no folder year=.., country=.., day=.., and "
        rf"{events}/year=.*/.*.parquet is; name files with the same keys, or read none with "
        r"skip_partitions=True"
    )
    with pytest.raises(SelectionError, match=wanted):
        io.read_all(pattern)
    assert len(rows(pattern, skip_partitions=True)) == 7


@pytest.mark.parametrize(
    ("folder", "wanted"),
    [
        ("k=1/k=2", "two folders name 'k'"),
        ("k=%ff", "the folder 'k=%ff' is not UTF-8"),
        ("a%00b=1", "name"),
        ("a%2Fb=1", "it holds '/'; skip_partitions=True reads no names of folders"),
    ],
)
def test_names_that_no_column_has_are_an_error(folder: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    io.write(tmp_path / folder / "a.jsonl", LoDTensor([1]))
    with pytest.raises(LodError, match=wanted) as caught:
        io.read(tmp_path / "**" / "*.jsonl")
    assert isinstance(caught.value, InvalidDataError)
    assert f"{tmp_path}/{folder}/a.jsonl: " in str(caught.value)


def test_files_without_items_have_no_keys(tmp_path: Path) -> None:
    for year in (1, 2):
        (tmp_path / f"year={year}").mkdir()
        np.save(tmp_path / f"year={year}" / "a.npy", np.arange(year))
    with lodcli.open(tmp_path) as file:
        assert [spec.name for spec in file.schema] == ["data"]
        wanted = "the folders name values of 'year', which are read only with formats of records"
        assert any(one.startswith(wanted) for one in file.notes)


def test_a_key_of_files_without_items_is_an_error_that_says_why(tmp_path: Path) -> None:
    for year in (1, 2):
        (tmp_path / f"year={year}").mkdir()
        tensors = {"a": LoDTensor([year]), "b": LoDTensor([year, 7])}
        io.write(tmp_path / f"year={year}" / "a.lod.h5", tensors)
    wanted = "year=1/a.lod.h5: 'year' is in the names of folders, which are read only with formats"
    with pytest.raises(SelectionError, match=wanted):
        io.read(tmp_path, "year")
    with pytest.raises(SelectionError, match=wanted):
        io.read_all(tmp_path, columns=["a", "year"])
    assert io.read(tmp_path, "a").to_list() == [1, 2]


def test_an_unknown_column_is_an_error_that_lists_the_keys(tmp_path: Path) -> None:
    for year in (1, 2):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SelectionError, match="there are: a, b; in names of folders: year"):
        io.read_all(tmp_path, columns=["a", "yaer"])
    others: list[dict[str, Any]] = [{"levels": ["yaer"]}, {"text_columns": ["yaer"]}]
    for other in others:
        with pytest.raises(SelectionError, match=r"there are: a, b$"):
            io.read_all(tmp_path, columns=["a"], **other)


def test_a_key_replaces_a_struct_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "k=5").mkdir()
    struct = pa.array([{"x": 1, "y": {"z": 2}}, None])
    pq.write_table(pa.table({"n": [1, 2], "k": struct, "kk": [3, 4]}), tmp_path / "k=5/a.pq")
    assert rows(tmp_path) == [{"n": 1, "kk": 3, "k": 5}, {"n": 2, "kk": 4, "k": 5}]
    assert rows(tmp_path, columns=["k"]) == [{"k": 5}] * 2
    pq.write_table(pa.table({"k": struct}), tmp_path / "k=5/a.pq")
    assert rows(tmp_path) == [{"k": 5}] * 2


def test_the_bytes_of_keys_count_as_bytes_of_a_batch(tmp_path: Path) -> None:
    folder = tmp_path / ("k=" + "x" * 90)
    folder.mkdir()
    pq.write_table(pa.table({"n": np.zeros(10_000, np.bool_)}), folder / "a.parquet")
    with lodcli.open(tmp_path) as file:
        sizes = [
            sum(tensor_of(one).data.nbytes for one in x.values()) for x in file.batches(20_000)
        ]
    assert sum(sizes) == 10_000 * 91
    assert max(sizes) <= 20_000


def test_a_folder_of_files_and_of_folders_is_its_files(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    io.write(tmp_path / "k=1" / "a.jsonl", LoDTensor([1]))
    io.write(tmp_path / "b.jsonl", LoDTensor([2]))
    assert io.read(tmp_path).to_list() == [2]
    os.unlink(tmp_path / "b.jsonl")
    assert io.read(tmp_path, "data").to_list() == [1]
