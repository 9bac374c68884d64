"""Whole numbers that only uint64 holds, in text files without --dtype, against Polars."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

HASHES = np.random.default_rng(3).integers(0, 2**64, 120_000, np.uint64)


@pytest.mark.parametrize("count", [3, 120_000])  # the latter beyond the first records
def test_hashes_are_read_as_polars_reads_them(tmp_path: Path, count: int) -> None:
    polars = pytest.importorskip("polars")
    hashes = np.append(HASHES[: count - 1], np.uint64(2**64 - 1))
    polars.DataFrame({"h": hashes, "n": np.arange(count)}).write_csv(tmp_path / "t.csv")
    polars.DataFrame({"h": hashes, "n": np.arange(count)}).write_ndjson(tmp_path / "t.jsonl")
    for name in ("t.csv", "t.jsonl"):
        found = io.read(tmp_path / name, "h")
        assert found.dtype == np.uint64
        np.testing.assert_array_equal(found.data, hashes)
        assert io.read(tmp_path / name, "n").dtype == np.int64


def test_lists_and_nulls(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("[[1, 9223372036854775808], null]\n[[], [5]]\n")
    found = io.read(tmp_path / "t.jsonl")
    assert (found.dtype, found.to_list()) == (np.uint64, [[[1, 2**63], None], [[], [5]]])
    (tmp_path / "t.csv").write_text("a,b\n,1\n9223372036854775808,2\nNA,3\n")
    found = io.read(tmp_path / "t.csv", "a", nulls="keep")
    assert (found.dtype, found.to_list()) == (np.uint64, [None, 2**63, None])


@pytest.mark.parametrize("numbers", [[2**63, -1], [2**64, 1], [-(2**63) - 1, 0], [10**2000, 0]])
def test_numbers_that_no_dtype_holds_are_an_error(tmp_path: Path, numbers: list[int]) -> None:
    (tmp_path / "t.csv").write_text("".join(f"{one}\n" for one in ["a", *numbers]))
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(one) + "\n" for one in numbers))
    for name in ("t.csv", "t.jsonl"):
        with pytest.raises(InvalidDataError, match=r"line \d"):
            io.read(tmp_path / name)


def test_floats_and_numbers_within_int64_stay(tmp_path: Path) -> None:
    for text, dtype in {
        "9223372036854775807": "int64",
        "1.5\n9223372036854775808": "float64",
    }.items():
        (tmp_path / "t.csv").write_text(f"a\n{text}\n")
        (tmp_path / "t.jsonl").write_text(f"{text}\n")
        assert io.read(tmp_path / "t.csv").dtype == dtype
        assert io.read(tmp_path / "t.jsonl").dtype == dtype


@pytest.mark.parametrize(
    ("numbers", "hint"),
    [
        ([2**63, -1], "none is negative, else"),  # both are in the first records
        ([-1, *[0] * 40_000, 2**63], "none is negative, else"),
        ([2**63, *[0] * 40_000, -1], "(63 or more|negative), else"),
    ],
)
def test_the_remedy_for_numbers_that_no_whole_dtype_holds_works(
    tmp_path: Path, numbers: list[int], hint: str
) -> None:
    (tmp_path / "t.csv").write_text("a\n" + "".join(f"{one}\n" for one in numbers))
    (tmp_path / "t.jsonl").write_text("".join(f"{one}\n" for one in numbers))
    for name in ("t.csv", "t.jsonl"):
        said = f"{hint} dtype='float64', dtype_unsafe=True rounds it"
        with pytest.raises(InvalidDataError, match=said):
            io.read(tmp_path / name)
        found = io.read(tmp_path / name, dtype="float64", dtype_unsafe=True)
        assert found.data.tolist() == list(map(float, numbers))


@pytest.mark.parametrize("numbers", [(1, 2**64 - 1), (2**64 - 1, 1)])
def test_files_of_int64_and_uint64_are_read_as_uint64(
    tmp_path: Path, numbers: tuple[int, int]
) -> None:
    for end, header in (("csv", "a\n"), ("jsonl", "")):
        folder = tmp_path / end
        folder.mkdir()
        for place, number in enumerate(numbers):
            row = json.dumps({"a": number}) if end == "jsonl" else str(number)
            (folder / f"{place}.{end}").write_text(f"{header}{row}\n")
        said = "dtype='uint64' reads text files so, lod cast a=uint64 converts others"
        with pytest.raises(ShapeMismatchError, match=said):
            io.read_all(folder)
        found = io.read_all(folder, dtype="uint64")["a"]
        assert isinstance(found, LoDTensor)
        assert found.to_list() == list(numbers)
