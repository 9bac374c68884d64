"""JSON lines and CSV: exchange of files with Polars, in both directions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content

pl = pytest.importorskip("polars")


def numbers(count: int, dtype: str) -> np.ndarray[Any, Any]:
    """Return numbers of all sizes."""
    rng = np.random.default_rng(5)
    if dtype.startswith("int"):
        return rng.integers(-(2**62), 2**62, count) >> rng.integers(0, 62, count)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-30, 30, count)
    return values.astype(dtype)


def tensor(dtype: str) -> LoDTensor:
    rng = np.random.default_rng(6)
    inner = rng.integers(0, 6, 900)
    outer = np.full(300, 3)
    data = numbers(int(inner.sum()), dtype)
    return LoDTensor(data, LoD.from_lengths([outer.tolist(), inner.tolist()]))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
def test_polars_reads_lines_that_we_write(
    dtype: str, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.formats.text.records_native.REPAID_VALUES", 0 if fast else 1 << 60)
    given = {"deep": tensor(dtype), "flat": LoDTensor(numbers(300, dtype))}
    io.write_batches(tmp_path / "x.jsonl", schema_of(given), [given])
    frame = pl.read_ndjson(tmp_path / "x.jsonl")
    assert frame["flat"].to_numpy().astype(dtype).tobytes() == given["flat"].data.tobytes()
    assert frame["deep"].list.len().to_list() == [3] * 300
    lists = frame["deep"].explode(empty_as_null=False)
    assert lists.list.len().to_list() == np.diff(given["deep"].lod.levels[1]).tolist()
    values = lists.explode(empty_as_null=False).to_numpy().astype(dtype)
    assert values.tobytes() == given["deep"].data.tobytes()


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_we_read_lines_that_polars_writes(
    dtype: str, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.formats.json.jsonl.repaid_bytes", lambda: 0 if fast else 1 << 60)
    given = tensor(dtype)
    lists = [given.data[low:high].tolist() for low, high in pairwise(given.lod.levels[1])]
    nested = [lists[low:high] for low, high in pairwise(given.lod.levels[0])]
    pl.DataFrame({"deep": nested, "no": range(300)}).write_ndjson(tmp_path / "x.jsonl")
    found = content(tmp_path / "x.jsonl")
    assert found["deep"].lod == given.lod
    assert found["deep"].data.tobytes() == given.data.tobytes()
    assert found["no"].data.tolist() == list(range(300))


def test_the_column_of_too_wide_integers_is_named(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": [1], "big": [2]}, schema={"id": pl.Int64, "big": pl.Int128})
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(UnsupportedError, match=r"column big: holds integers of 128 bits.* cast it"):
        content(tmp_path / "x.parquet")


def test_too_wide_integers_of_an_ipc_file_are_no_damage(tmp_path: Path) -> None:
    pl.DataFrame({"big": [2]}, schema={"big": pl.Int128}).write_ipc(tmp_path / "x.arrow")
    with pytest.raises(UnsupportedError, match=r"a column of integers of 128 bits.* cast it"):
        content(tmp_path / "x.arrow")


def test_columns_group_records_as_polars_groups_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    frame = pl.DataFrame(
        {
            "user": [f"user {number}" for number in rng.integers(0, 40, 2_000)],
            "visit": rng.integers(0, 5, 2_000),
            "value": numbers(2_000, "float64"),
        }
    ).sort("user", "visit", maintain_order=True)
    frame.write_csv(tmp_path / "x.csv")
    options = ReadOptions(levels=("user", "visit"))
    with lodcli.open(tmp_path / "x.csv", options=options) as source:
        found = source.read(["value"])["value"]
    grouped = frame.group_by("user", "visit", maintain_order=True).agg("value")
    users = grouped.group_by("user", maintain_order=True).len()
    assert found.lod.lengths(0).tolist() == users["len"].to_list()
    assert found.lod.lengths(1).tolist() == grouped["value"].list.len().to_list()
    assert found.data.tobytes() == frame["value"].to_numpy().tobytes()


def test_polars_reads_columns_that_we_write(tmp_path: Path) -> None:
    lengths = [3, 1, 4, 1, 5]
    given = LoDTensor(numbers(14, "float64"), LoD.from_lengths([lengths], ["item"]))
    io.write(tmp_path / "x.csv", given)
    frame = pl.read_csv(tmp_path / "x.csv")
    assert frame.columns == ["item", "data"]
    assert frame["item"].to_list() == np.repeat(np.arange(5), lengths).tolist()
    assert frame["data"].to_numpy().tobytes() == given.data.tobytes()
