"""Flat files with an array for each sequence, such as those of `numpy.savez(file, *arrays)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.kernels.errors import LodError, SelectionError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

LENGTHS = (3, 0, 2, 1, 4, 1, 1, 2, 3, 1, 2, 5)
ARRAYS = [np.full((length, 2), number, "i4") for number, length in enumerate(LENGTHS)]


def _in_fortran_order(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asfortranarray(array) for name, array in arrays.items()}


def _zarr(path: Path, arrays: dict[str, Any]) -> None:
    group = pytest.importorskip("zarr").open_group(path, mode="w")
    for name, array in arrays.items():
        group.create_array(name, data=array)


def _torch(path: Path, arrays: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, path)


def _safetensors(path: Path, arrays: dict[str, Any]) -> None:
    pytest.importorskip("safetensors.numpy").save_file(arrays, path)


WRITERS: dict[str, Callable[[Path, dict[str, Any]], object]] = {
    "a.npz": lambda path, arrays: np.savez(path, **arrays),
    "deflated.npz": lambda path, arrays: np.savez_compressed(path, **arrays),
    "fortran.npz": lambda path, arrays: np.savez(path, **_in_fortran_order(arrays)),
    "a.safetensors": _safetensors,
    "a.zarr": _zarr,
    "a.pt": _torch,
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_array_is_a_sequence_in_natural_order(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path, {f"arr_{number}": array for number, array in enumerate(ARRAYS)})
    with lodcli.open(path, data="arr_*", levels="walk") as source:
        assert [spec.name for spec in source.schema] == ["arr"]
        whole: Any = source.read()["arr"]
        parts: list[Any] = [batch["arr"] for batch in source.batches(limit_bytes=40)]
        assert source.slice("arr", (slice(4, 8),)).identical(whole[4:8])
        assert source.slice("arr", (11, 3)).data.tolist() == [11, 11]
    assert LoDTensor.concatenate(parts).identical(whole)
    assert whole.lod.names == ("walk",)
    assert whole.lod.lengths(0).tolist() == [*LENGTHS]
    np.testing.assert_array_equal(whole.data, np.concatenate(ARRAYS))


def test_several_patterns_share_the_level(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    acts = {f"demo_{number}/act": array for number, array in enumerate(ARRAYS)}
    dates = {
        f"demo_{number}/day": array[:, 0].astype("M8[D]") for number, array in enumerate(ARRAYS)
    }
    arrays: dict[str, Any] = {**acts, **dates, "x": np.ones(2)}
    np.savez(path, **arrays)
    found: Any = lodcli.read_all(path, data="demo_*/act, demo_*/day, x")
    assert {*found} == {"act", "day", "x"}
    assert found["act"].lod is found["day"].lod
    assert str(found["day"].to_list()[2][0]) == "1970-01-03"


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            "act*_",
            SelectionError,
            "data='act*_': no array matches; there are: act_1, act_2, kind_1",
        ),
        ("act_*,obs_*", SelectionError, "obs_3 has no counterpart that matches act_*"),
        ("act_*,kind_*,act_?", SelectionError, "two patterns whose tensors would be called act"),
        ("act_*,act", SelectionError, "no array named 'act'"),
        ("one_*,one", SelectionError, "two tensors called one, one and one_*"),
        ("one_*", LodError, "one_1.npy: is a single value"),
        ("text_*", UnsupportedError, "text_1: holds text"),
        (
            "wide_*",
            ShapeMismatchError,
            "wide_2: expected rows of int64 and shape (2,), as in wide_1, found int64 and (3,)",
        ),
        (
            "kind_*",
            ShapeMismatchError,
            "kind_2: expected rows of float64 and shape (), as in kind_1, found int8 and ()",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, data: str, error: type[LodError], message: str) -> None:
    ones = {name: np.ones(2) for name in ("act_1", "act_2", "kind_1", "obs_1", "obs_2", "obs_3")}
    other = {"kind_2": np.ones(2, "i1"), "one": np.ones(1), "one_1": np.ones(())}
    wide = {"wide_1": np.ones((1, 2), "i8"), "wide_2": np.ones((1, 3), "i8")}
    arrays: dict[str, Any] = {**ones, **other, **wide, "text_1": np.array(["a"])}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(error, match=re.escape(message)):
        lodcli.read(tmp_path / "a.npz", data=data)


@pytest.mark.parametrize("given", ["offsets", "lengths"])
def test_a_pattern_and_an_index_are_refused(tmp_path: Path, given: str) -> None:
    np.savez(tmp_path / "a.npz", *ARRAYS, n=np.array([1]))
    options: Any = {given: "n"}
    with pytest.raises(SelectionError, match="is a pattern of arrays that are a sequence each"):
        lodcli.read(tmp_path / "a.npz", data="arr_*", **options)


def test_a_name_with_an_asterisk_is_not_a_pattern(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"x*": np.array([1, 2]), "xy": np.array([3])}
    np.savez(tmp_path / "a.npz", **arrays)
    assert lodcli.read(tmp_path / "a.npz", data="x*").to_list() == [1, 2]
