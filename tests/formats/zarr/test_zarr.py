"""Zarr: exchange of stores with the zarr package, as folders and zip files, and damage."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.formats.storage.outputs import TargetExistsError
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content, refused, tensor_in
from tests.formats.cases.processes import lod

zarr: Any = pytest.importorskip("zarr")

KINDS = ("t.zarr", "t.zarr.zip")
LOD = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"])
CONTENT = {
    "data": LoDTensor(np.arange(30, dtype=np.float16).reshape(15, 2), LOD),
    "c": LoDTensor.from_lists(["Grüß", "", "x"]),
    "lod.0": LoDTensor(np.array([True, False, True])),
    "hollow": LoDTensor(np.zeros((0, 3), np.complex64), [[0, 0]]),
    "much": LoDTensor(np.arange(2_500_000) % 1000, [[1_000_000, 0, 1_500_000]]),
}


def _theirs(path: Path) -> Any:
    where = path if path.suffix == ".zarr" else zarr.storage.ZipStore(path, mode="r")
    return zarr.open_group(where, mode="r")


@pytest.mark.parametrize("name", KINDS)
def test_zarr_reads_what_we_write(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    io.write(path, CONTENT)
    group = _theirs(path)
    for one, tensor in CONTENT.items():
        np.testing.assert_array_equal(group[f"{one}/data"][...], tensor.values)
        assert group[f"{one}/data"].dtype == tensor.dtype
        for level, offsets in enumerate(tensor.lod.levels):
            np.testing.assert_array_equal(group[f"{one}/lod.{level}"][:], offsets)
    much = group["much/data"]
    assert (much.chunks, much.shards) == ((1 << 16,), (1 << 20,))
    assert group.metadata.zarr_format == 3


@pytest.mark.parametrize("name", KINDS)
def test_everything_of_ours_comes_back(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    io.write(path, CONTENT)
    found = io.read_all(path)
    for one, tensor in CONTENT.items():
        assert found[one].identical(tensor), one
    with lodcli.open(path) as source:
        assert source.partial
        assert source.slice("data", (2, 0)).identical(CONTENT["data"].select(2, 0))
        assert source.slice("much", (2, slice(5, 7))).data.tolist() == [5, 6]
        batches = source.batches_of(["much"], limit_bytes=1 << 20)
        parts = [batch["much"] for batch in batches if "much" in batch]
        assert LoDTensor.concatenate(parts).identical(CONTENT["much"])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "int64", "complex128"])
@pytest.mark.parametrize(
    "shape", [(0,), (1,), (7,), (5, 3), (0, 3), (4, 0), (2, 3, 2), (9000, 8), (70_000,)]
)
def test_the_files_of_an_array_are_those_that_zarr_makes(
    dtype: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """Small arrays are encoded without zarr."""
    from zarr.codecs import ZstdCodec

    from lodcli.formats.zarr import writer

    rows = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    io.write(tmp_path / "t.zarr", {"x": LoDTensor(rows)})
    chunk = max(1, min(shape[0], writer.CHUNK_BYTES // max(1, rows[:1].nbytes)))
    shards = min(16, -(-shape[0] // chunk)) * chunk if rows.size else chunk
    inner = tuple(max(1, extent) for extent in shape[1:])
    made = zarr.create_array(
        tmp_path / "theirs",
        name="x/data",
        shape=shape,
        dtype=dtype,
        chunks=(chunk, *inner),
        shards=(shards, *inner) if shards > chunk else None,
        compressors=ZstdCodec(level=1, checksum=True),
        filters=None,
        fill_value=np.dtype(dtype).type(0),
        config={"write_empty_chunks": True},
    )
    if rows.size:
        made[...] = rows
    found, expected = (
        {one.relative_to(folder): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
        for folder in (tmp_path / "t.zarr" / "x" / "data", tmp_path / "theirs" / "x" / "data")
    )
    assert found == expected


def test_equal_tensors_make_equal_files(tmp_path: Path) -> None:
    for name in ("a.zarr.zip", "b.zarr.zip"):
        io.write(tmp_path / name, CONTENT)
    assert (tmp_path / "a.zarr.zip").read_bytes() == (tmp_path / "b.zarr.zip").read_bytes()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("zipped", [False, True])
def test_stores_of_zarr_are_read(version: int, zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "theirs.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=version)
    group.create_array("x/rows", shape=(70, 3), chunks=(16, 2), dtype=">f4")
    group["x/rows"][:] = np.arange(210).reshape(70, 3)
    group.create_array("x/ends", shape=(3,), dtype="u2")
    group["x/ends"][:] = [0, 20, 70]
    group.create_array("sparse", shape=(50,), chunks=(10,), dtype="i4", fill_value=-1)
    group["sparse"][20:30] = 5
    group.create_group("empty")
    if zipped:
        path = Path(shutil.make_archive(str(tmp_path / "t.zarr"), "zip", path))
    kind = "zarr-zip" if zipped else "zarr"
    found = io.read_all(path, format_name=kind, data="x/rows", offsets="x/ends")
    (tensor,) = found.values()
    assert tensor.recursive_sequence_lengths() == [[20, 50]]
    np.testing.assert_array_equal(tensor.data, np.arange(210).reshape(70, 3))
    assert tensor.dtype == np.float32
    plain = io.read_all(path)
    assert sorted(plain) == ["sparse", "x%2Fends", "x%2Frows"]
    assert plain["sparse"].data.tolist() == [-1] * 20 + [5] * 10 + [-1] * 20


def test_an_array_alone_is_a_tensor(tmp_path: Path) -> None:
    zarr.save_array(tmp_path / "x.zarr", np.arange(6))
    with lodcli.open(tmp_path / "x.zarr") as source:
        found = source.read()["data"]
        assert source.checksums == ""
    assert found.data.tolist() == list(range(6))


@pytest.mark.parametrize("codec", ["blosc", "gzip", "zstd"])
def test_codecs_and_shards_of_others(codec: str, tmp_path: Path) -> None:
    codecs = {
        "blosc": zarr.codecs.BloscCodec(),
        "gzip": zarr.codecs.GzipCodec(),
        "zstd": zarr.codecs.ZstdCodec(),
    }
    rows = np.arange(1000, dtype="i4").reshape(500, 2)
    zarr.create_array(
        tmp_path / "x.zarr", data=rows, chunks=(10, 1), shards=(100, 2), compressors=codecs[codec]
    )
    found = tensor_in(tmp_path / "x.zarr")
    np.testing.assert_array_equal(found.data, rows)


@pytest.mark.parametrize(
    ("fill", "missing"), [("NaN", 0x7FC0), ("0x7fc1", 0x7FC1), (1.5, 0x3FC0), ("-Infinity", 0xFF80)]
)
@pytest.mark.parametrize(
    ("version", "key", "dtype"), [(2, ".zarray:dtype", "<u2"), (3, "zarr.json:data_type", ">u2")]
)
def test_bfloat16_of_others_is_read(
    version: int, key: str, dtype: str, fill: str | float, missing: int, tmp_path: Path
) -> None:
    bits = np.array([0.5, -2, np.inf, 3e38]).astype(ml_dtypes.bfloat16).view(np.uint16)
    group = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=version)
    group.create_array("w", shape=(6,), chunks=(2,), dtype=dtype)[:4] = bits
    group.create_array("n", data=np.array([1], np.uint16))
    # As TensorStore writes it.
    file, member = key.split(":")
    path = tmp_path / "t.zarr" / "w" / file
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {member: "bfloat16", "fill_value": fill})
    )
    found = content(tmp_path / "t.zarr")
    assert found["w"].dtype == ml_dtypes.bfloat16
    assert found["w"].data.view(np.uint16).tolist() == [*bits.tolist(), missing, missing]
    assert found["n"].dtype == np.uint16


def test_an_array_of_an_unknown_type_can_be_left_out(tmp_path: Path) -> None:
    zarr.save_group(tmp_path / "t.zarr", a=np.arange(3), b=np.arange(3))
    _changed(tmp_path / "t.zarr", "b/zarr.json", data_type="float8_e4m3fn")
    with pytest.raises(UnsupportedError, match=r"b: zarr cannot read it \(.*float8_e4m3fn"):
        content(tmp_path / "t.zarr")
    assert content(tmp_path / "t.zarr", columns=("a",))["a"].data.tolist() == [0, 1, 2]


@pytest.mark.parametrize("version", [2, 3])
def test_attributes_of_netcdf_that_would_change_values_are_reported(
    version: int, tmp_path: Path
) -> None:
    group = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=version)
    for name in ("packed", "plain"):
        group.create_array(name, shape=(3,), dtype="i2")[:] = [1, 2, -9]
    # As xarray packs values.
    group["packed"].attrs.update({"add_offset": 10.0, "scale_factor": 0.1, "_FillValue": -9})
    group["plain"].attrs.update({"units": "m", "_Unsigned": "false"})
    time = {"units": "hours since 2024-01-01", "calendar": "proleptic_gregorian"}
    group.create_array("time", shape=(3,), dtype="i8").attrs.update(time)
    for name in ("x-y", "packed"):
        group.require_array(name, shape=(3,), dtype="i2").attrs["units"] = "hours since 2024-01-01"
    group.create_array("bytes", shape=(3,), dtype="i1").attrs["_Unsigned"] = "true"
    group.create_array("floats", shape=(3,), dtype="f4").attrs["_FillValue"] = "AAAAAAAA+H8="
    group.create_array("doubles", shape=(3,), dtype="f8").attrs["missing_value"] = float("nan")
    with lodcli.open(tmp_path / "t.zarr") as source:
        found = source.read()["packed"]
        told = "packed: values are as stored: scale_factor, add_offset, _FillValue not applied"
        unsigned = "bytes: values are as stored: _Unsigned not applied"
        units = "values are as stored: 'hours since 2024-01-01' not applied"
        counted = "time * 3600 + 1704067200 counts s since 1970, the least int64 for a missing time"
        assert sorted(source.notes) == [
            *(unsigned, f"packed: {units}", told, f"time: {units}; {counted}", f"x-y: {units}")
        ]
    assert found.to_list() == [1, 2, -9]


def test_fill_values_of_xarray_in_zarr_2_are_missing_values(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=2)
    for name, value in {"zero": 0, "none": None, "nan": np.nan, "plain": 0}.items():
        array = group.create_array(name, shape=(3,), dtype="f4", fill_value=value)
        array.attrs.update({} if name == "plain" else {"_ARRAY_DIMENSIONS": ["t"]})
    with lodcli.open(tmp_path / "t.zarr") as source:
        assert source.notes == ["zero: values are as stored: _FillValue not applied"]


def test_units_of_times_may_differ_in_the_arrays_of_a_pattern(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    for year in (2000, 2001):
        array = group.create_array(f"{year}/time", shape=(3,), dtype="i8")
        array.attrs["units"] = f"hours since {year}-01-01"
    with lodcli.open(tmp_path / "t.zarr", data="*/time") as source:
        source.read()
        (told,) = source.notes
    assert told.endswith(
        "'hours since 2000-01-01' not applied; 1 more such notes on its other arrays"
    )


@pytest.mark.parametrize("option", ["lengths", "offsets"])
def test_indexes_of_cf_are_not_taken_for_lengths(option: str, tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    for name in ("rows", "station"):
        group.create_array(name, shape=(3,), dtype="i2")[:] = [0, 1, 2]
    group["station"].attrs["instance_dimension"] = "station"
    index: Any = {option: ["station"]}
    with pytest.raises(UnsupportedError, match="station: has the sequence of each row"):
        io.read(tmp_path / "t.zarr", data="rows", **index)


def test_a_folder_is_replaced_only_if_it_is_one(tmp_path: Path) -> None:
    path = tmp_path / "t.zarr"
    io.write(path, CONTENT)
    with pytest.raises(TargetExistsError, match="use overwrite=True"):
        io.write(path, CONTENT)
    io.write(path, {"a": CONTENT["c"]}, overwrite=True)
    assert list(io.read_all(path)) == ["a"]
    (path / "a" / "notes.txt").write_text("mine")
    with pytest.raises(TargetExistsError, match=r"holds 'a/notes\.txt'"):
        io.write(path, CONTENT, overwrite=True)
    assert (path / "a" / "notes.txt").read_text() == "mine"


NAMES = [
    "a\\b",
    "\\",
    "a:\\:5C",
    "%5C",
    "5C",
    "__a",
    "__\\",
    "zarr.json",
    "..",
    "data",
    "lod.0",
    "c",
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_comes_back_and_zarr_finds_its_group(kind: str, tmp_path: Path) -> None:
    path = tmp_path / kind
    content = {name: LoDTensor([number, 2], [[1, 1]]) for number, name in enumerate(NAMES)}
    io.write(path, content)
    found = io.read_all(path)
    assert list(found) == NAMES
    groups = [group for _, group in _theirs(path).groups()]
    assert len(groups) == len(NAMES)
    assert not any(group.basename.startswith("__") for group in groups)
    for number, name in enumerate(NAMES):
        assert found[name].data.tolist() == [number, 2]


def test_a_name_too_long_for_a_folder_is_refused(tmp_path: Path) -> None:
    content = {"ü" * 200: CONTENT["c"]}
    with pytest.raises(
        UnsupportedError, match=r"takes more than 255 bytes, such as ü+; use zarr-z"
    ):
        io.write(tmp_path / "t.zarr", content)
    assert not list(tmp_path.iterdir())
    io.write(tmp_path / "t.zarr.zip", content)
    assert list(io.read_all(tmp_path / "t.zarr.zip")) == ["ü" * 200]


# -- damage ------------------------------------------------------------------------------


def _changed(path: Path, key: str, **members: Any) -> None:
    file = path / key
    file.write_text(json.dumps({**json.loads(file.read_text()), **members}))


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "t.zarr"
    io.write(path, {"data": CONTENT["data"], "c": CONTENT["c"]})
    return path


def test_a_chunk_that_is_missing_is_damage_in_a_store_of_ours(ours: Path) -> None:
    (ours / "data" / "data" / "c" / "0" / "0").unlink()
    refused(ours, DamagedFileError, "data/data/c/0/0: is missing; the store is incomplete")


@pytest.mark.parametrize("key", ["data/data/c/0/0", "data/lod.1/c/0", "data/data/zarr.json"])
@pytest.mark.parametrize("kind", ["folder", "zip", "of others"])
def test_an_empty_file_is_damage(ours: Path, key: str, kind: str) -> None:
    # Crashes of computers leave such files; zarr reads its fill value from an empty chunk.
    (ours / key).write_bytes(b"")
    if kind == "zip":
        ours = Path(shutil.make_archive(str(ours), "zip", ours))
    if kind == "of others":
        _changed(ours, "zarr.json", attributes={})
    with pytest.raises(DamagedFileError, match=rf"{key}: is empty; the store is incomplete"):
        io.read_all(ours)


def test_a_chunk_that_is_a_pipe_is_not_waited_for(ours: Path) -> None:
    (ours / "data/data/c/0/0").unlink()
    os.mkfifo(ours / "data/data/c/0/0")
    refused(ours, DamagedFileError, "data/data/c/0/0: is not a regular file")


def test_every_changed_byte_of_a_chunk_is_seen(ours: Path) -> None:
    file = ours / "data" / "lod.1" / "c" / "0"
    whole = file.read_bytes()
    for place in range(0, len(whole), 3):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        with pytest.raises(LodError):
            io.read_all(ours)


@pytest.mark.parametrize(
    ("key", "members", "error", "message"),
    [
        ("data/data/zarr.json", {"shape": [14, 2]}, LodError, "14"),
        ("data/data/zarr.json", {"shape": [15]}, LodError, "data/data: "),
        ("data/data/zarr.json", {"shape": [2**50, 2]}, LodError, "expected"),
        ("data/data/zarr.json", {"data_type": "string"}, LodError, "data/data: "),
        ("data/data/zarr.json", {"codecs": [{"name": "rot13"}]}, DamagedFileError, "data/data: "),
        ("data/lod.0/zarr.json", {"shape": [2**50]}, TooLargeError, "allow more with limits="),
        ("data/zarr.json", {"zarr_format": 9}, LodError, "."),
        (
            "zarr.json",
            {"attributes": {"lod": {"version": 2, "tensors": {}}}},
            UnsupportedError,
            "2",
        ),
        ("zarr.json", {"attributes": {"lod": 1}}, DamagedFileError, "attribute lod: expected an"),
        (
            "zarr.json",
            {"attributes": {"lod": {"version": 1, "tensors": {"c": {}, "data": {}}}}},
            DamagedFileError,
            "attribute lod: tensor c: expected the names of 1 levels",
        ),
        (
            "zarr.json",
            {"attributes": {"lod": {"version": 1, "tensors": {"c": {}}}}},
            DamagedFileError,
            "attribute lod: tensor data is not described",
        ),
    ],
)
def test_wrong_metadata_is_named(
    key: str, members: dict[str, Any], error: type[LodError], message: str, ours: Path
) -> None:
    _changed(ours, key, **members)
    if key == "data/zarr.json":
        assert io.read_all(ours)  # of a group nothing is needed
        return
    refused(ours, error, message)


def test_a_folder_that_is_no_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.zarr").mkdir()
    (tmp_path / "t.zarr" / "zarr.json").write_text("no JSON")
    refused(tmp_path / "t.zarr", DamagedFileError, "zarr.json: is not JSON")
    (tmp_path / "t.zarr" / "zarr.json").write_text("{}")
    refused(tmp_path / "t.zarr", LodError, "holds no array")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", [str, "<U4", ">U4", "S6"])
@pytest.mark.filterwarnings("ignore")  # of zarr, for types that are in no specification yet
def test_arrays_of_texts_are_read(version: int, dtype: Any, tmp_path: Path) -> None:
    words = np.array(["a", "Grüß", "", "日本"])
    given = np.array([word.encode() for word in words]) if dtype == "S6" else words
    group = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=version)
    group.create_array("word", shape=(4,), chunks=(3,), dtype=dtype)[:] = given.astype(dtype)
    group.create_array("ends", shape=(3,), dtype="i4")[:] = [0, 3, 4]
    group.create_array("square", shape=(2, 2), dtype=dtype)
    with pytest.raises(UnsupportedError, match=r"square: has texts of dtype .* in 2 dimensions"):
        io.read_all(tmp_path / "t.zarr")
    found = io.read(tmp_path / "t.zarr", data="word", offsets="ends")
    assert found.to_list() == [["a", "Grüß", ""], ["日本"]]
    with lodcli.open(tmp_path / "t.zarr", data="word") as source:
        assert source.slice("word", (slice(1, 3),)).to_list() == ["Grüß", ""]


def test_times_of_other_units_are_refused_with_what_to_do(tmp_path: Path) -> None:
    zarr.save_array(tmp_path / "t.zarr", np.zeros(2, "M8[h]"))
    said = "holds datetime64[h], which tensors cannot hold; save array.astype('M8[s]')"
    refused(tmp_path / "t.zarr", UnsupportedError, said)


def test_a_chunk_larger_than_may_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.zarr"
    zarr.create_array(path, shape=(10,), chunks=(1 << 40,), dtype="f8")
    refused(path, TooLargeError, "has chunks of")


def test_more_text_than_may_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.zarr"
    zarr.create_array(path, shape=(1 << 40,), chunks=(10,), dtype="U4", zarr_format=2)
    refused(path, TooLargeError, f"has {1 << 44} bytes")


def test_without_the_package_the_extra_is_named(tmp_path: Path, ours: Path) -> None:
    for args in (["inspect", ours], ["convert", ours, tmp_path / "b.zarr"]):
        done = lod(*args, without="zarr")
        assert done.returncode == 4
        assert "needs the package zarr; pip install 'lodcli[zarr]'" in done.stderr
        assert done.stderr.count("\n") == 1


class _Runs:
    def __reduce__(self) -> Any:
        return print, ("code of a pickle",)


@pytest.mark.parametrize("codec", ["filters", "compressor"])
def test_pickles_are_not_unpickled(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # numcodecs before 0.16.6 unpickles without being asked.
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    pickled = {"id": "pickle", "protocol": 4}
    described = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C"}
    described |= {"fill_value": 0, "filters": [{"id": "vlen-utf8"}], "compressor": None}
    described |= {codec: pickled if codec == "compressor" else [{"id": "vlen-utf8"}, pickled]}
    (tmp_path / "t.zarr").mkdir()
    (tmp_path / "t.zarr" / ".zarray").write_text(json.dumps(described))
    (tmp_path / "t.zarr" / "0").write_bytes(pickle.dumps(_Runs()))
    with pytest.raises(
        UnsupportedError, match=r"data: holds pickled .* never unpickled; save an array"
    ):
        lodcli.read(tmp_path / "t.zarr")
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        ({"id": "vlen-array", "dtype": "<i4"}, r"zarr 2 does: save numpy\.conc.* for data= and"),
        ({"id": "vlen-bytes"}, r"x: zarr cannot read it .*; save an array of numbers, or of texts"),
        ({"id": "json2"}, r"x: zarr cannot read it .*; save an array of numbers, or of texts"),
    ],
)
def test_arrays_of_objects_say_what_to_save(
    codec: dict[str, str], message: str, tmp_path: Path
) -> None:
    described = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "order": "C"}
    described |= {"filters": [codec], "compressor": None, "fill_value": 0}
    (tmp_path / "t.zarr" / "x").mkdir(parents=True)  # as zarr 2 writes it
    (tmp_path / "t.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "t.zarr" / "x" / ".zarray").write_text(json.dumps(described))
    with pytest.raises(UnsupportedError, match=message):
        lodcli.read(tmp_path / "t.zarr")


@pytest.mark.parametrize("dtype", ["<U3", "|V3", "|S3", [["a", "<i4"]]])
def test_a_fill_value_of_another_type_is_damage(dtype: Any, tmp_path: Path) -> None:
    described = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": dtype, "order": "C"}
    described |= {"filters": None, "compressor": None, "fill_value": 0}
    (tmp_path / "t.zarr").mkdir()
    (tmp_path / "t.zarr" / ".zarray").write_text(json.dumps(described))
    with pytest.raises(DamagedFileError, match=r"zarr cannot read it \(Invalid type: 0\. .*\)$"):
        lodcli.read(tmp_path / "t.zarr")
