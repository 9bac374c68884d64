"""Nulls in npz, safetensors and Zarr: masks as arrays of booleans that the marks name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lodcli
from lodcli.formats.core import io
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

LISTS = LoDTensor.from_lists([[1, None], None, [3]])
ROWS = LoDTensor([5.0, 0, 7], nulls=Nulls.of([[True, False, True]]))
TEXTS = LoDTensor.from_lists(["a", None, "Grüß"])
CONTENT = {"data": LISTS, "rows": ROWS, "texts": TEXTS, "whole": LoDTensor([1, 2, 3])}
# The same as arrays, as somebody else would make them.
ARRAYS: dict[str, Any] = {
    "data": np.array([1, 0, 3]),
    "lod.0": np.array([0, 2, 2, 3]),
    "valid.0": np.array([True, False, True]),
    "valid.rows": np.array([True, False, True]),
    "rows/data": np.array([5.0, 0, 7]),
    "rows/valid.rows": np.array([True, False, True]),
}
MARKS: dict[str, Any] = {
    "data": {"nulls": ["valid.0", "valid.rows"]},
    "rows": {"nulls": ["valid.rows"]},
}


def all_arrays(arrays: dict[str, Any], marks: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps({"format": "lod-marks", "version": 1, "tensors": marks})
    return {**arrays, "lod.json": np.frombuffer(text.encode(), np.uint8)}


def write_npz(path: Path, arrays: dict[str, Any], marks: dict[str, Any]) -> None:
    np.savez(path, **all_arrays(arrays, marks))


def write_compressed(path: Path, arrays: dict[str, Any], marks: dict[str, Any]) -> None:
    np.savez_compressed(path, **all_arrays(arrays, marks))


def write_safetensors(path: Path, arrays: dict[str, Any], marks: dict[str, Any]) -> None:
    text = json.dumps({"format": "lod-marks", "version": 1, "tensors": marks})
    save_file(arrays, path, {"lod.json": text})


def write_zarr(path: Path, arrays: dict[str, Any], marks: dict[str, Any]) -> None:
    zarr = pytest.importorskip("zarr")
    levels = {"data": [None], "rows": []}
    tensors = {name: {"levels": levels[name], "marks": said} for name, said in marks.items()}
    group = zarr.open_group(path, mode="w")
    for name, array in arrays.items():
        group.create_array(name if "/" in name else f"data/{name}", data=array)
    group.attrs["lod"] = {"version": 1, "tensors": tensors}


WRITERS: dict[str, Callable[[Path, dict[str, Any], dict[str, Any]], None]] = {
    "t.npz": write_npz,
    "compressed.npz": write_compressed,
    "t.safetensors": write_safetensors,
    "t.zarr": write_zarr,
}


@pytest.mark.parametrize("name", ["t.npz", "t.safetensors", "t.zarr", "t.zarr.zip"])
def test_masks_come_back_and_other_programs_read_them(name: str, tmp_path: Path) -> None:
    if "zarr" in name:
        zarr = pytest.importorskip("zarr")
    path = tmp_path / name
    io.write(path, CONTENT, strict=True)
    found = io.read_all(path)
    for one, item in CONTENT.items():
        assert item.identical(found[one])
    if name == "t.npz":
        arrays = dict(np.load(path))
    elif name == "t.safetensors":
        arrays = load_file(path)
    elif name == "t.zarr":
        group = zarr.open_group(path, mode="r")
        arrays = {one: group[f"data/{one}"][:] for one in ("valid.0", "valid.rows")}
        arrays |= {one: group[one][:] for one in ("rows/valid.rows", "texts/valid.0")}
    else:
        return
    assert "whole/valid.rows" not in arrays
    masks = {one: mask.tolist() for one, mask in arrays.items() if "valid" in one}
    assert masks == {
        "valid.0": [True, False, True],
        "valid.rows": [True, False, True],
        "rows/valid.rows": [True, False, True],
        "texts/valid.0": [True, False, True],
    }


@pytest.mark.parametrize("name", WRITERS)
def test_masks_of_other_programs_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path, ARRAYS, MARKS)
    with lodcli.open(path) as source:
        assert [spec.name for spec in source.schema] == ["data", "rows"]
        assert all(spec.nullable for spec in source.schema)
        assert source.slice("rows", (slice(1, 3),)).to_list() == [None, 7]
        assert source.slice("data", (slice(1, 3),)).to_list() == [None, [3]]
        with pytest.raises(LodError, match="is null"):
            source.slice("data", (1,))
    found = io.read_all(path)
    assert LISTS.identical(found["data"])
    assert ROWS.identical(found["rows"])
    # In batches of one item, so that masks are read in parts.
    with lodcli.open(path) as source:
        batches = list(source.batches(1))
        for one in ("data", "rows"):
            parts = [batch[one] for batch in batches if one in batch]
            assert len(parts) > 1
            assert LoDTensor.concatenate(parts).identical(found[one])


def without(name: str) -> dict[str, Any]:
    return {one: array for one, array in ARRAYS.items() if one != name}


DAMAGE: dict[str, tuple[dict[str, Any], Any, str]] = {
    "a mask that is missing": (without("valid.0"), ["valid.0"], "mask valid.0 is missing"),
    "a level that is not there": (ARRAYS, ["valid.1"], "no mask 'valid.1' of 1 levels"),
    "another name": (ARRAYS, ["lod.0"], "no mask 'lod.0'"),
    "no list": (ARRAYS, "valid.0", "expected names of masks"),
    "no names": (ARRAYS, [0], "expected names of masks"),
    "none": (ARRAYS, [], "expected names of masks"),
    "one twice": (ARRAYS, ["valid.0", "valid.0"], "expected names of masks"),
    "too short": (
        {**ARRAYS, "valid.0": np.array([True, False])},
        ["valid.0", "valid.rows"],
        "a mask of 3 items is bool",
    ),
    "numbers": (
        {**ARRAYS, "valid.0": np.array([1, 0, 1], np.uint8)},
        ["valid.0", "valid.rows"],
        "a mask of 3 items is bool",
    ),
    "a null item that is not empty": (
        {**ARRAYS, "valid.0": np.array([False, True, True])},
        ["valid.0", "valid.rows"],
        "item 0 of level 0 is null and is not empty",
    ),
    "a null row that is not zero": (
        {**ARRAYS, "valid.rows": np.array([False, True, True])},
        ["valid.0", "valid.rows"],
        "a row is null and not zero",
    ),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("what", DAMAGE)
def test_masks_that_do_not_fit_are_refused(what: str, name: str, tmp_path: Path) -> None:
    arrays, said, message = DAMAGE[what]
    path = tmp_path / name
    WRITERS[name](path, arrays, {**MARKS, "data": {"nulls": said}})
    with pytest.raises(LodError, match=message):
        io.read_all(path)


@pytest.mark.parametrize("name", [*WRITERS, "t.lod.h5", "t.lods", "t.parquet"])
def test_null_rows_that_were_changed_are_not_written(name: str, tmp_path: Path) -> None:
    rows = np.array([1, 0])
    tensor = LoDTensor(rows, nulls=Nulls.of([[True, False]]))
    rows[1] = 7
    with pytest.raises(InvalidDataError, match="data: a row is null and not zero"):
        io.write(tmp_path / name, tensor)


def test_arrays_that_only_look_like_masks_are_tensors(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"valid.0": [True, False], "x/valid.rows": [False]}
    np.savez(tmp_path / "x.npz", **arrays)
    assert list(io.read_all(tmp_path / "x.npz")) == ["valid.0", "x%2Fvalid.rows"]


@pytest.mark.parametrize("name", ["t.npz", "t.safetensors"])
def test_an_index_of_given_names_takes_no_nulls(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(UnsupportedError, match=r"is null; .* with cu_seqlens= has no nulls"):
        io.write(path, {"data": LISTS}, cu_seqlens="ends")
    assert not path.exists()
    io.write(path, {"data": LISTS.fill_nulls(0)}, cu_seqlens="ends")
