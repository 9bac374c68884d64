"""HDF5 files with a dataset for each sequence, as robomimic lays out its demonstrations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import lodcli
from lodcli.kernels.errors import LodError, SelectionError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import refused

LENGTHS = (3, 0, 2, 1, 4, 1, 1, 2, 3, 1, 2, 5)  # of demo_0 to demo_11


@pytest.fixture
def robomimic(tmp_path: Path) -> Iterator[h5py.File]:
    """Give a new file of demonstrations, open for writing."""
    with h5py.File(tmp_path / "low_dim.hdf5", "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"], data.attrs["total"] = "{}", sum(LENGTHS)
        for number, length in enumerate(LENGTHS):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = length
            demo["actions"] = _rows(number, 7)
            demo.create_dataset("obs/eef_pos", data=_rows(number, 3, ">f4"), maxshape=(None, 3))
            demo["next_obs/eef_pos"] = _rows(number, 3, "f4") + 1
            demo["dones"] = np.zeros(length, np.int64)
        file["mask/train"] = np.array([b"demo_0", b"demo_2"])
        yield file


def _rows(number: int, width: int, kind: str = "f8") -> Any:
    return np.full((LENGTHS[number], width), number, kind)


def _read(file: h5py.File, data: str, **options: Any) -> Any:
    """Return what the file holds, read whole, in small batches and in slices."""
    path = Path(file.filename)
    file.close()
    with lodcli.open(path, data=data, **options) as source:
        whole = source.read()
        names = list(whole)
        for name in names:
            parts = [batch[name] for batch in source.batches(limit_bytes=200)]
            assert len(parts) > 1
            assert LoDTensor.concatenate(parts).identical(whole[name])
            assert source.slice(name, (slice(4, 8),)).identical(whole[name][4:8])
            assert source.slice(name, (11, 3)).data.tolist() == whole[name].data[-2].tolist()
    return whole


def test_each_dataset_is_a_sequence_in_natural_order(robomimic: h5py.File) -> None:
    found = _read(robomimic, "data/demo_*/actions", levels="demo")["actions"]
    assert found.lod.names == ("demo",)
    assert found.lod.lengths(0).tolist() == [*LENGTHS]
    np.testing.assert_array_equal(found.data, np.concatenate([_rows(n, 7) for n in range(12)]))


def test_several_patterns_share_the_level(robomimic: h5py.File) -> None:
    names = "actions", "obs.eef_pos", "next_obs.eef_pos"
    data = ",".join(f"/data/demo_*/{name.replace('.', '/')}" for name in names)
    found = _read(robomimic, data)
    assert tuple(found) == names
    assert found["actions"].lod is found["obs.eef_pos"].lod is found["next_obs.eef_pos"].lod
    assert found["obs.eef_pos"].dtype == np.dtype("f4")
    np.testing.assert_array_equal(found["obs.eef_pos"].data + 1, found["next_obs.eef_pos"].data)


def test_a_pattern_of_single_characters_and_of_fields(robomimic: h5py.File) -> None:
    for number in range(12):
        kind = [("t", "i4"), ("x", "f4")]
        robomimic[f"log_{number}"] = np.ones(number + 4, kind)
    path = Path(robomimic.filename)
    robomimic.close()
    assert len(lodcli.read(path, data="data/demo_?/dones")) == 10
    found = lodcli.read(path, data="log_*/t")
    assert found.dtype == np.int32
    assert found.lod.lengths(0).tolist() == [*range(4, 16)]


def test_rows_are_those_of_h5py_however_they_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "block.h5"
    expected: dict[str, list[Any]] = {}
    stored: list[dict[str, Any]] = [{}, {"chunks": (2, 3)}, {"compression": "gzip"}]
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, kind in {"f": "f4", "big": ">i2", "c": "c8", "odd": "<u8", "logic": "?"}.items():
            expected[name] = []
            for number, length in enumerate(LENGTHS):
                rows = (np.arange(length * 3).reshape(length, 3) + number).astype(kind)
                how = stored[number % 3] if length else {}
                file.create_dataset(f"run_{number}/{name}", data=rows, **how)
                expected[name].append(rows.astype(rows.dtype.newbyteorder("=")))
        for number, length in enumerate(LENGTHS):
            array = file.create_dataset(f"run_{number}/array", (length,), "(2,)i4")
            array[:] = np.full((length, 2), number)
            compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            compact.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((length,))
            made = h5py.h5d.create(
                file[f"run_{number}"].id, b"compact", h5py.h5t.STD_I32LE, space, compact
            )
            made.write(space, space, np.full(length, number, "i4"))
        expected["array"] = [np.full((length, 2), n, "i4") for n, length in enumerate(LENGTHS)]
        expected["compact"] = [np.full(length, n, "i4") for n, length in enumerate(LENGTHS)]
    with lodcli.open(path, data=",".join(f"run_*/{name}" for name in expected)) as source:
        for name, parts in expected.items():
            found: Any = source.read([name])[name]
            assert found.dtype == parts[0].dtype
            np.testing.assert_array_equal(found.data, np.concatenate(parts))
            assert source.slice(name, (slice(4, 5),)).data.tolist() == parts[4].tolist()


def test_a_name_with_an_asterisk_is_not_a_pattern(robomimic: h5py.File) -> None:
    robomimic["data/demo_*/actions"] = [1, 2]
    path = Path(robomimic.filename)
    robomimic.close()
    assert lodcli.read(path, data="data/demo_*/actions").to_list() == [1, 2]


def test_groups_without_the_dataset_are_left_out_with_a_note(robomimic: h5py.File) -> None:
    del robomimic["data/demo_3/actions"], robomimic["data/demo_10/actions"]
    path = Path(robomimic.filename)
    robomimic.close()
    with lodcli.open(path, data="data/demo_*/actions") as source:
        assert source.schema[0].levels[0].items == 10
        source.read()
        (note,) = source.notes
    assert note.endswith("that matches are left out: '/data/demo_3', '/data/demo_10'")


@pytest.mark.parametrize(
    ("data", "left_out"),
    [
        ("data/demo_*/act*", "'/data/demo_3'"),
        ("data/demo_*/obs/eef*", "'/data/demo_5', '/data/demo_7', '/data/demo_11'"),
    ],
)
def test_groups_without_what_the_last_wildcard_matches_have_a_note(
    robomimic: h5py.File, data: str, left_out: str
) -> None:
    del robomimic["data/demo_3/actions"], robomimic["data/demo_5/obs/eef_pos"]
    del robomimic["data/demo_7/obs"], robomimic["data/demo_11/obs"]
    robomimic["data/demo_11/obs"] = [1]
    path = Path(robomimic.filename)
    robomimic.close()
    with lodcli.open(path, data=data) as source:
        source.read()
        (note,) = source.notes
    assert note == f"groups without an array that matches are left out: {left_out}"


def test_several_names_with_wildcards_are_not_patterns(robomimic: h5py.File) -> None:
    robomimic["x*"], robomimic["z?"] = [1], [2]
    path = Path(robomimic.filename)
    robomimic.close()
    refused(path, SelectionError, "data='x*,z?': names several datasets", data="x*,z?")
    refused(path, SelectionError, "data='x*': is no pattern", data="x*,data/demo_*/dones")


def test_rows_that_were_never_written_have_few_notes(robomimic: h5py.File) -> None:
    for number in range(12):
        robomimic.create_dataset(f"run_{number}/x", (number + 1,), "i4")
    path = Path(robomimic.filename)
    robomimic.close()
    with lodcli.open(path, data="run_*/x") as source:
        source.read()
        assert len(source.notes) == 4
        assert source.notes[3] == "9 more such notes on other datasets"


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("data/demo_*/action", SelectionError, "no array matches; did you mean /data/demo_"),
        ("data/demo_*", SelectionError, "/data/demo_0: expected a dataset, found a group with act"),
        ("mask/tr*", UnsupportedError, "/mask/train: holds text, not numbers"),
        ("one_*", UnsupportedError, "/one_b: is a single value"),
        (
            "wide_*",
            ShapeMismatchError,
            "/wide_2: expected rows of int32 and shape (2,), as in /wide_1, found int32 and (3,)",
        ),
        ("kind_*", ShapeMismatchError, "/kind_2: expected rows of int32 and shape ()"),
        ("soft_*", UnsupportedError, "/soft_1: 'soft_1' is a soft link"),
        ("soft_*/actions", UnsupportedError, "/soft_1: 'soft_1' is a soft link"),
        ("data/demo_*/dones,data/demo_*/extra", SelectionError, "/data/demo_1/dones has no count"),
        ("data/demo_*/dones,da*/demo_*/dones", SelectionError, "has no counterpart that matches"),
        ("wide_*/x,*", SelectionError, "no array matches"),
        (
            "data/demo_*/dones,data/demo_*/dones",
            SelectionError,
            "two patterns whose tensors would be called dones",
        ),
        ("data/demo_*/dones,mask/train", SelectionError, "data='mask/train': is no pattern"),
    ],
)
def test_a_pattern_of_datasets_that_do_not_fit_is_refused(
    robomimic: h5py.File, data: str, error: type[LodError], message: str
) -> None:
    robomimic["one_a"], robomimic["one_b"] = [1], 1
    robomimic["data/demo_0/extra"] = [1]
    robomimic["wide_1"], robomimic["wide_2"] = np.ones((2, 2), "i4"), np.ones((1, 3), "i4")
    robomimic["kind_1"], robomimic["kind_2"] = np.ones(2, "i4"), np.ones(1)
    robomimic["soft_1"] = h5py.SoftLink("/data/demo_0")
    path = Path(robomimic.filename)
    robomimic.close()
    refused(path, error, message, data=data)


@pytest.mark.parametrize("given", ["offsets", "lengths", "encoding"])
def test_options_of_one_dataset_are_refused(robomimic: h5py.File, given: str) -> None:
    path = Path(robomimic.filename)
    robomimic.close()
    message = f"is a pattern of datasets .*; name one dataset for {given}="
    options: Any = {given: "utf-8"}
    with pytest.raises(SelectionError, match=message):
        lodcli.read(path, data="data/demo_*/dones", **options)
