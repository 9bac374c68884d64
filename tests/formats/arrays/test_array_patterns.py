"""Flat files with an array for each sequence, such as those of `numpy.savez(file, *arrays)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.choosing.array_patterns import fits
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
        parts = [batch["arr"] for batch in source.batches(limit_bytes=40)]
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
    found = lodcli.read_all(path, data="demo_*/act, demo_*/day, x")
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
def test_a_pattern_of_arrays_that_do_not_fit_is_refused(
    tmp_path: Path, data: str, error: type[LodError], message: str
) -> None:
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


def test_empty_lists_written_as_float64_fit_all_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", *[np.array(one) for one in ([], [1, 2], [], [3])])
    found = lodcli.read(tmp_path / "a.npz", data="arr_*")
    assert found.dtype == np.int64
    assert found.to_list() == [[], [1, 2], [], [3]]
    arrays: dict[str, Any] = {"a_1": np.empty(0), "a_2": np.empty((0, 2), "i4")}
    np.savez(tmp_path / "b.npz", **arrays)
    empty = lodcli.read(tmp_path / "b.npz", data="a_*")
    assert (empty.dtype, empty.data.shape, len(empty)) == (np.int32, (0, 2), 2)
    np.savez(tmp_path / "c.npz", np.empty((0, 2), "f8"), np.ones((1, 2), "i8"))
    with pytest.raises(ShapeMismatchError, match=r"arr_0: expected rows of int64 .* as in arr_1"):
        lodcli.read(tmp_path / "c.npz", data="arr_*")


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("data", "left_out"),
    [("demo_*/x", "'demo_2', 'demo_12'"), ("demo_*/o/x_*", "'demo_2', 'demo_3', 'demo_10'")],
)
def test_groups_without_the_array_have_a_note(
    tmp_path: Path, name: str, data: str, left_out: str
) -> None:
    names = ["demo_12/o/x_1", "demo_3/x", "demo_10/x", "demo_2/y", "demo_2/o/y", "e/o/y"]
    WRITERS[name](tmp_path / name, {one: np.ones((2, 1)) for one in names})
    with lodcli.open(tmp_path / name, data=data) as source:
        source.read()
        assert [*source.notes] == [f"groups without an array that matches are left out: {left_out}"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [([2], "list"), ("text", "str"), (None, "NoneType"), ("sparse", "sparse")],
)
def test_matches_that_are_no_plain_tensors_are_refused(
    tmp_path: Path, value: object, kind: str
) -> None:
    torch = pytest.importorskip("torch")
    if value == "sparse":
        value = torch.ones(2).to_sparse()
    ones = {f"d{number}_a": torch.ones(number + 1) for number in range(3)}
    torch.save({**ones, "d1_a": value, "lengths": [1]}, tmp_path / "a.pt")
    with pytest.raises(UnsupportedError, match=f"tensor d_a: d1_a: .*{kind}"):
        lodcli.read(tmp_path / "a.pt", data="d*_a")
    assert lodcli.read(tmp_path / "a.pt", data="d0_a").to_list() == [1]
    with pytest.raises(UnsupportedError, match="tensor d0_a: lengths: expected a tensor"):
        lodcli.read(tmp_path / "a.pt", data="d0_a", lengths="lengths")


def test_a_tensor_that_was_named_and_is_not_plain_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"a_0": torch.ones(2), "a_1": torch.ones(2).to_sparse()}, tmp_path / "a.pt")
    with pytest.raises(UnsupportedError, match=r"tensor a_1: .*sparse"):
        lodcli.read(tmp_path / "a.pt", data="a_1")


def test_attributes_of_any_array_have_a_note(tmp_path: Path) -> None:
    group = pytest.importorskip("zarr").open_group(tmp_path / "a.zarr", mode="w")
    for name, scale in {"a_0": np.nan, "a_1": 2.0}.items():
        group.create_array(name, data=np.ones(2)).attrs["scale_factor"] = scale
    with lodcli.open(tmp_path / "a.zarr", data="a_*") as source:
        source.read()
        assert [*source.notes] == ["a: values are as stored: scale_factor not applied"]


def test_numbers_of_thousands_of_digits_are_in_order(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {f"a_{'9' * count}": np.array([count]) for count in (1, 4401, 4400)}
    np.savez(tmp_path / "a.npz", **arrays)
    assert lodcli.read(tmp_path / "a.npz", data="a_*").to_list() == [[1], [4400], [4401]]


@pytest.mark.parametrize(
    ("pattern", "name", "groups"),
    [
        ("a*b", "a1b2b", ("1b2",)),
        ("*_*", "x_y_z", ("x", "y_z")),
        ("*a?c*/?", "abxaycz/1", ("abx", "y", "z", "1")),
        ("**", "ab", ("", "ab")),
        ("*", "a/b", None),
        ("a*a", "a", None),
        ("*" + "a*" * 20 + "b", "a" * 60_000, None),
        ("*/" + "*a" * 20 + "/b", f"a/{'a' * 60_000}/c", None),
    ],
)
def test_wildcards_match_parts_of_a_name(
    pattern: str, name: str, groups: tuple[str | None, ...] | None
) -> None:
    found = fits(pattern).fullmatch(name)
    assert (found and found.groups()) == groups
