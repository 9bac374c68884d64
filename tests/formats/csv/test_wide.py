"""csv with --wide: rows of H numbers as H columns; pandas is the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from tests.formats.cases.opening import tensor_in

LOD = LoD.from_lengths([[2, 1, 3]], ["user"])
ROWS = np.random.default_rng(1).normal(size=(6, 4))
NAMES = LoDTensor(
    np.frombuffer(b"abbcccddddeeeeef", np.uint8),
    LoD([LOD.levels[0], np.array([0, 1, 3, 6, 10, 15, 16])], ["user", None]),
    TEXT,
)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_pandas_reads_what_was_written(tmp_path: Path, suffix: str) -> None:
    pd = pytest.importorskip("pandas")
    path = tmp_path / f"x.{suffix}"
    tensors = {"x": LoDTensor(ROWS, LOD), "n": LoDTensor(np.arange(6), LOD), "text": NAMES}
    io.write(path, dict(tensors), wide=True)
    separator = {"csv": ",", "tsv": "\t"}[suffix]
    frame = pd.read_csv(path, sep=separator, float_precision="round_trip")
    assert [*frame] == ["user", "x_0", "x_1", "x_2", "x_3", "n", "text"]
    np.testing.assert_array_equal(frame[[f"x_{n}" for n in range(4)]], ROWS)
    assert frame["text"].tolist() == ["a", "bb", "ccc", "dddd", "eeeee", "f"]
    found = io.read_all(path, wide=True, levels="user", field=[f"x_{n}" for n in range(4)])
    assert [*found] == ["x"]
    assert isinstance(found["x"], LoDTensor)
    assert found["x"].lod == LOD
    np.testing.assert_array_equal(found["x"].data, ROWS)


def test_files_of_pandas_are_read(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    path = tmp_path / "x.csv"
    frame = pd.DataFrame({"a": [1, 2], "label": ["u", "v"], "b": [0.5, 1.5], "c": [3, 4]})
    frame.to_csv(path, index=False)
    found = io.read_all(path, wide=True)
    assert [*found] == ["data", "label"]
    data = found["data"]
    assert isinstance(data, LoDTensor)
    assert data.data.tolist() == [[1, 0.5, 3], [2, 1.5, 4]]
    assert data.dtype == np.float64
    frame[["a", "c"]].to_csv(path, index=False)
    whole = tensor_in(path, wide=True)
    assert (whole.dtype.name, whole.data.tolist()) == ("int64", [[1, 3], [2, 4]])


def test_whole_numbers_are_not_rounded_beside_fractions(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,0.5\n9007199254740993,1.5\n")
    with pytest.raises(InvalidDataError, match=r"a: .*1: 9007199254740993 is not exact in float64"):
        io.read_all(path, wide=True)
    found = tensor_in(path, wide=True, dtype="float64", dtype_unsafe=True)
    assert found.data.tolist() == [[1, 0.5], [9007199254740992, 1.5]]


@pytest.mark.parametrize("other", ["2.5", "inf", "nan"])
def test_the_largest_whole_number_is_not_rounded_beside_floats(other: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"a,b\n{2**64 - 1},0.5\n{other},1.5\n")
    with pytest.raises(
        InvalidDataError, match=r"'a'.* is not exact there: dtype='uint64' may hold"
    ):
        io.read_all(path)
    path.write_text(f"a,b\n{2**64 + 1},0.5\n{other},1.5\n")
    assert tensor_in(path, "a").data[0] == 2.0**64  # no dtype holds it


def test_nulls_are_filled_or_dropped_as_pandas_does(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    path = tmp_path / "x.csv"
    path.write_text("a,label,b\n1,u,2\n,v,3\n4.5,w,\n6,x,7\n")
    frame = pd.read_csv(path)
    for nulls, kept in (
        ("nan", frame),
        ("zero", frame.fillna(0)),
        ("fill=-1", frame.fillna(-1)),
        ("drop", frame.dropna()),
    ):
        found = io.read_all(path, wide=True, nulls=nulls)
        assert isinstance(found["data"], LoDTensor)
        np.testing.assert_array_equal(found["data"].data, kept[["a", "b"]].to_numpy())
        assert found["label"].to_list() == kept["label"].tolist()
    with pytest.raises(
        LodError, match="a: row <1> is null; a row of wide=True has no nulls: nulls="
    ):
        io.read_all(path, wide=True)


def test_tensors_without_wide_columns_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with pytest.raises(UnsupportedError, match=r"rows of data have shape \(4,\); wide=True writes"):
        io.write(path, LoDTensor(ROWS))
    with pytest.raises(UnsupportedError, match=r"rows of at most 0 dimensions"):
        io.write(path, LoDTensor(ROWS.reshape(6, 2, 2)), wide=True)
    with pytest.raises(UnsupportedError, match="two are called x_0"):
        io.write(path, {"x": LoDTensor(ROWS), "x_0": LoDTensor(np.arange(6))}, wide=True)
    assert not path.exists()
    path.write_text("a,b\nx,y\n")
    with pytest.raises(InvalidDataError, match="expected columns of numbers for wide=True"):
        io.read_all(path, wide=True)


def test_batches_come_whole_and_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = np.arange(90_000.0).reshape(-1, 3)
    io.write(path, LoDTensor(rows), wide=True)
    with lodcli.open(path, wide=True) as source:
        parts = [batch["data"].data for batch in source.batches(1 << 10)]
    assert len(parts) > 100
    np.testing.assert_array_equal(np.concatenate(parts), rows)
    io.write(path, LoDTensor(rows[:0]), wide=True, overwrite=True)
    none = tensor_in(path, wide=True)
    assert none.data.shape == (0, 3)
