"""Attributes of a file as a whole pass through formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.table import TABLE
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.platform import processes
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import KINDS, require

# Among them names that mean something in one format or another.
GIVEN: dict[str, Any] = {
    **{"license": "MIT", "description": "two vowels", "Größe": [1.5, None], "of": {"a": [1]}},
    **{"lod": "x", "lod.json": "{}", "lod.attributes": "y", "huggingface": "{}", "pandas": "z"},
    **{"ARROW:schema": "none", "PARQUET:field_id": "7", "format": "pt", "version": 3},
}
ROWS = LoDTensor([1, 2, 3], [[2, 1]])
SPARK = Path(__file__).parents[1] / "theirs" / "spark.parquet"
NETCDF = SPARK.with_name("stations.nc")
KEEPING = [name for name in TABLE if table.get(name).file_attributes]


def attributes(path: Path, **more: Any) -> Mapping[str, Any]:
    with lodcli.open(path, **more) as file:
        return file.attributes


def test_the_formats_that_keep_attributes_of_tensors_keep_those_of_files() -> None:
    assert {name for name in TABLE if table.get(name).attributes} == set(KEEPING)
    assert len(KEEPING) >= 11


@pytest.mark.parametrize("name", KEEPING)
def test_attributes_of_a_file_come_back(name: str, tmp_path: Path) -> None:
    require(name)
    path = tmp_path / KINDS[name].path
    options = dict(KINDS[name].write({"data": ROWS}))
    io.write(path, ROWS, format_name=name, attributes=GIVEN, **options)
    assert attributes(path, format_name=name) == GIVEN
    if processes.CAN_ISOLATE:
        assert attributes(path, format_name=name, limits=Limits(isolate=True)) == GIVEN
    # What the file keeps for itself is not among what is written again.
    again = tmp_path / "again"
    again.mkdir()
    with lodcli.open(path, format_name=name) as file:
        found = file.attributes
    io.write(again / KINDS[name].path, ROWS, format_name=name, attributes=found, **options)
    assert attributes(again / KINDS[name].path, format_name=name) == GIVEN


@pytest.mark.parametrize("name", ["lod.h5", "lod.stream", "npz", "safetensors", "parquet", "zarr"])
def test_a_file_without_attributes_is_what_it_was_before_there_were_any(
    name: str, tmp_path: Path
) -> None:
    require(name)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, given in ((first, None), (second, {})):
        folder.mkdir()
        io.write(folder / "x", ROWS, format_name=name, attributes=given)
    if name in ("lod.h5", "lod.stream"):
        content = (first / "x").read_bytes()
        assert content == (second / "x").read_bytes()
        assert b'"version":1' in content
        assert b"attributes" not in content
    assert attributes(first / "x", format_name=name) == {}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({1: 2}, "keys are text"),
        ([1], "keys are text"),
        ({"x": {1, 2}}, "are not JSON"),
        ({"x": float("nan")}, "are not JSON"),
        ({"x": "\ud800"}, "are not JSON"),
        ({"x": "y" * 300_000}, "300008 bytes of JSON, at most 262144"),
        (json.loads("[" * 900 + "]" * 900), "keys are text"),
        ({"x": json.loads("[" * 256 + "]" * 256)}, "nest deeper than 256"),
    ],
)
def test_attributes_are_json_of_a_bounded_size(wrong: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match=message):
        io.write(tmp_path / "x.lod.h5", ROWS, attributes=wrong)
    assert not list(tmp_path.iterdir())


def test_a_format_without_attributes_says_which_it_loses(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="does not keep these file attributes: license, of"):
        io.write(tmp_path / "x.csv", ROWS, attributes={"license": "MIT", "of": 1}, strict=True)


# -- files of others -----------------------------------------------------------------


def test_schema_metadata_of_parquet_come_and_go_as_text(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    given = {"license": "MIT", "raw": b"\xff", "pandas": "{}"}
    pq.write_table(pa.table({"a": [1, 2]}).replace_schema_metadata(given), tmp_path / "x.parquet")
    assert attributes(tmp_path / "x.parquet") == {"license": "MIT"}
    io.write(tmp_path / "y.parquet", ROWS, attributes={"license": "MIT", "n": 1})
    found = pq.read_schema(tmp_path / "y.parquet").metadata
    assert found == {b"license": b"MIT", b"lod.attributes": b'{"n": 1}'}


def test_the_columns_that_spark_names_are_no_attribute(tmp_path: Path) -> None:
    # Spark would read these columns, not those of the file, and return nulls for renamed ones.
    pq = pytest.importorskip("pyarrow.parquet")
    assert b"org.apache.spark.sql.parquet.row.metadata" in pq.read_schema(SPARK).metadata
    assert attributes(SPARK) == {"org.apache.spark.version": "4.3.0"}
    with lodcli.open(SPARK, rename={"word": "text"}) as file:
        io.write(tmp_path / "x.parquet", file.read(), attributes=file.attributes)
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.schema.metadata == {b"org.apache.spark.version": b"4.3.0"}
    assert table["text"].to_pylist() == ["a", None, "é"]
    assert table["ids"].to_pylist() == [[1, 2], None, []]
    assert table["counts"].to_pylist() == [[{"key": "k", "value": 1}], None, []]


def test_the_library_that_wrote_netcdf_is_no_attribute() -> None:
    assert attributes(NETCDF, data="/height") == {"title": "three stations"}


def test_invalid_attributes_in_arrow_metadata_are_left_out(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number, text in enumerate(('{"x":' * 300 + "1" + "}" * 300, "[1]", "{", '{"x":NaN}')):
        said = pa.table({"a": [1]}).replace_schema_metadata({"lod.attributes": text})
        pq.write_table(said, tmp_path / f"{number}.parquet")
        with lodcli.open(tmp_path / f"{number}.parquet") as file:
            assert file.attributes == {}
            noted = any("attributes of the file are not kept" in one for one in file.notes)
            assert noted == (number in (0, 3))


def test_information_of_datasets_becomes_file_attributes(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    info = datasets.DatasetInfo(
        description="two", license="MIT", citation="@x", homepage="https://example.org"
    )
    said = datasets.Dataset.from_dict({"a": [1, 2]}, info=info)
    said.save_to_disk(str(tmp_path / "theirs"))
    expected = {
        **{"citation": "@x", "description": "two", "homepage": "https://example.org"},
        "license": "MIT",
    }
    assert attributes(tmp_path / "theirs") == expected
    given = {**expected, "n": 1}
    io.write(tmp_path / "ours", ROWS, format_name="datasets", attributes=given)
    found = datasets.load_from_disk(str(tmp_path / "ours"))
    assert (found.info.license, found.info.citation) == ("MIT", "@x")
    assert attributes(tmp_path / "ours") == given


def test_root_attributes_of_zarr_are_seen_by_zarr(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    io.write(tmp_path / "x.zarr", ROWS, attributes={"title": "t", "n": [1]})
    root = zarr.open_group(tmp_path / "x.zarr", mode="r")
    assert {name: root.attrs[name] for name in ("title", "n")} == {"title": "t", "n": [1]}
    for version in (2, 3):
        store = zarr.open_group(tmp_path / f"{version}.zarr", mode="w", zarr_format=version)
        store.attrs["title"] = "theirs"
        store.create_array("a", data=np.arange(3))
        assert attributes(tmp_path / f"{version}.zarr", format_name="zarr") == {"title": "theirs"}


def test_a_hostile_root_of_zarr_is_named(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    io.write(tmp_path / "x.zarr", ROWS, attributes={"lod": 1})
    root = tmp_path / "x.zarr" / "zarr.json"
    content = json.loads(root.read_text())
    content["attributes"]["lod"]["attributes"] = [1]
    root.write_text(json.dumps(content))
    with pytest.raises(DamagedFileError, match="attribute lod: attributes: expected an object"):
        attributes(tmp_path / "x.zarr")


def test_metadata_of_safetensors_come_and_go(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    numpy = pytest.importorskip("safetensors.numpy")
    given = {"format": "pt", "license": "MIT"}
    numpy.save_file({"a": np.arange(3)}, tmp_path / "theirs.safetensors", metadata=given)
    assert attributes(tmp_path / "theirs.safetensors") == given
    io.write(tmp_path / "ours.safetensors", ROWS, attributes={"license": "MIT", "n": 1})
    with safetensors.safe_open(tmp_path / "ours.safetensors", "np") as file:
        assert file.metadata()["license"] == "MIT"
        assert json.loads(file.metadata()["lod.json"])["attributes"] == {"n": 1}


def test_root_attributes_of_hdf5_that_are_text_or_numbers(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["rows"] = np.arange(3)
        file.attrs["title"] = "Größe"
        file.attrs["fixed"] = np.bytes_(b"abc")
        file.attrs["names"] = ["a", "b"]
        file.attrs["empty"] = h5py.Empty("S1")  # an empty text of PyTables and netCDF
        file.attrs["count"], file.attrs["scale"] = np.int16(3), np.array([0.5, 2.0], ">f4")
        file.attrs["none"] = np.zeros(0, np.int32)
        file.attrs["nan"], file.attrs["raw"] = np.nan, b"\xff"
        file.attrs["reference"] = file["rows"].ref
        file.attrs["table"] = np.zeros((2, 2))
        file["rows"].attrs["unit"] = "m"
    with lodcli.open(tmp_path / "x.h5", data="/rows") as opened:
        assert opened.attributes == {
            **{"title": "Größe", "fixed": "abc", "names": ["a", "b"], "empty": "", "count": 3},
            **{"scale": [0.5, 2.0], "none": []},
        }
        opened.read()
        (note,) = opened.notes
        assert note == (
            "attributes that are neither text nor numbers are not kept: 'nan', 'raw', 'reference', "
            "'table'"
        )
