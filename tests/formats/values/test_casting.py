"""`dtype` for every format: numbers are cast, inexact numbers are an error with the position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.kernels.errors import InvalidDataError, LodError, OptionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import KINDS, require, sparse, written

FLOATS = LoDTensor(np.array([1.5, -2.0, 0.1]), LoD.from_lengths([[2, 1]]))
WHOLE = LoDTensor(np.array([3, 250, 7], np.int64), LoD.from_lengths([[2, 1]]))
# In these formats each value has a position in the file, and --dtype does not set the dtype.
OTHERS = [
    name
    for name in KINDS
    if "dtype" not in table.get(name).options
    and {"float64", "int64"} <= table.get(name).dtypes
    and name not in ("h5ad", "text", "npy")
]


def _one(path: Path, name: str, **options: Any) -> LoDTensor:
    return lodcli.read(path, format_name=name, **options)


@pytest.mark.parametrize("name", OTHERS)
def test_numbers_of_every_format_get_the_dtype(name: str, tmp_path: Path) -> None:
    require(name)
    path = written(str(tmp_path), name, {"data": WHOLE})
    found = _one(path, name, dtype="float32")
    assert found.dtype == np.float32
    assert found.values.reshape(-1).tolist() == [3, 250, 7]
    with lodcli.open(path, format_name=name, dtype="float32") as source:
        assert [spec.dtype for spec in source.schema] == [np.dtype(np.float32)]
        (only,) = source.schema
        assert source.slice(only.name, (slice(1, 2),)).values.reshape(-1).tolist() == [7]
        assert source.slice(only.name, (slice(1, 2),)).dtype == np.float32
        assert source.read_index(only.name).rows == 3
    with pytest.raises(InvalidDataError, match=r"250 does not fit int8"):
        _one(path, name, dtype="int8")
    with pytest.raises(InvalidDataError, match=r"250 does not fit int8"):
        _one(path, name, dtype="int8", dtype_unsafe=True)


@pytest.mark.parametrize("name", OTHERS)
def test_inexact_values_are_refused_or_rounded(name: str, tmp_path: Path) -> None:
    require(name)
    path = written(str(tmp_path), name, {"data": FLOATS})
    with pytest.raises(InvalidDataError, match=r"0\.1 is not exact in float32; dtype_unsafe=True"):
        _one(path, name, dtype="float32")
    found = _one(path, name, dtype="float32", dtype_unsafe=True)
    assert found.values.reshape(-1).tolist() == [1.5, -2, float(np.float32(0.1))]
    assert _one(path, name, dtype="int16", dtype_unsafe=True).values.reshape(-1).tolist() == [
        2,
        -2,
        0,
    ]


def test_the_place_of_a_value_is_reported_behind_other_batches(tmp_path: Path) -> None:
    rows = np.zeros(3_000_000, np.int64)
    rows[2_500_001] = 70_000
    tensor = LoDTensor(rows, LoD.from_lengths([[2] * 1_500_000])).as_numbers()
    io.write(tmp_path / "t.lod.h5", tensor)
    with pytest.raises(InvalidDataError) as caught:
        lodcli.write(tmp_path / "u.npz", lodcli.read(tmp_path / "t.lod.h5", dtype="int16"))
    assert str(caught.value) == (
        f"{tmp_path / 't.lod.h5'}: data: level 0 item 1250000, row 1: 70000 does not fit int16"
    )


def test_text_and_nulls_and_words_stay(tmp_path: Path) -> None:
    columns = {
        "text": pa.array(["Grüß", None, "x"]),
        "ids": pa.array([[1, 2], None, [300]]),
        "label": pa.array(["a", "b", "a"]).dictionary_encode(),
        "day": pa.array([1, None, 3], pa.date32()),
        "w": pa.array([1, None, 2]),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    plain = lodcli.read_all(tmp_path / "t.parquet")
    found = lodcli.read_all(tmp_path / "t.parquet", dtype="float32")
    for name, dtype in {"ids": np.float32, "w": np.float32}.items():
        one, other = found[name], plain[name]
        assert one.dtype == dtype
        assert one.to_list() == other.to_list()
        assert one.nulls == other.nulls
    for name in ("text", "label", "day"):
        assert found[name].identical(plain[name])


@pytest.mark.parametrize(
    ("options", "rows"), [({"dtype": "float16"}, [1.5, 2]), ({"dtype_unsafe": True}, [2, 2])]
)
def test_text_beside_numbers_in_json_stays(
    options: dict[str, Any], rows: list[float], tmp_path: Path
) -> None:
    (tmp_path / "t.jsonl").write_text('{"text":"a","w":1.5}\n{"text":"b","w":2}\n')
    found = lodcli.read_all(tmp_path / "t.jsonl", **{"dtype": "int8", **options})
    text, numbers = found["text"], found["w"]
    assert text.to_list() == ["a", "b"]
    assert numbers.dtype == options.get("dtype", "int8")
    assert numbers.to_list() == rows


def test_text_cannot_be_cast_and_dtype_unsafe_needs_a_dtype(tmp_path: Path) -> None:
    io.write(tmp_path / "t.lod.h5", LoDTensor.from_lists(["a", "b"]))
    with pytest.raises(UnsupportedError, match=r"cannot cast numbers to int8; there are: "):
        lodcli.read(tmp_path / "t.lod.h5", dtype="int8")
    with pytest.raises(OptionError, match="give dtype= as well"):
        lodcli.read(tmp_path / "t.lod.h5", dtype_unsafe=True)


def test_which_records_are_null_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"r":{"a":1}}\n{"r":null}\n')
    found = lodcli.read_all(tmp_path / "r.jsonl", nulls="keep", dtype="float32")
    assert {name: (one.dtype.name, one.to_list()) for name, one in found.items()} == {
        "r.a": ("float32", [1.0, None]),
        "r.present": ("bool", [True, False]),
    }


def test_one_tensor_is_asked_for(tmp_path: Path) -> None:
    io.write(tmp_path / "t.lod.h5", {"a": WHOLE, "b": FLOATS})
    found = lodcli.read(f"{tmp_path / 't.lod.h5'}::a", dtype="uint8")
    assert found.dtype == np.uint8
    with pytest.raises(LodError, match=r"b: level 0 item 0, row 0: 1\.5 is not exact"):
        lodcli.read_all(tmp_path / "t.lod.h5", dtype="uint8")


def test_values_of_h5ad_are_cast(tmp_path: Path) -> None:
    path = written(str(tmp_path), "h5ad", sparse({"data": LoDTensor(WHOLE.data, WHOLE.lod)}))
    found = lodcli.read_all(path, dtype="float64")
    assert {one.dtype for one in found.values() if not one.marks} == {np.dtype(np.float64)}


@pytest.mark.parametrize(
    ("dtype", "name", "other"),
    [
        ("bfloat16", "npz", "float32"),
        ("bfloat16", "parquet", "float32"),
        ("uint64", "paddle", "int64, if all values fit"),
        ("uint16", "paddle", "int32"),
        ("complex128", "parquet", None),
        ("bool", "mds", "int8"),
    ],
)
def test_a_refusal_names_the_cast_that_loses_nothing_or_fits(
    dtype: str, name: str, other: str | None, tmp_path: Path
) -> None:
    tensor = LoDTensor(np.ones(3).astype(dtype), LoD.from_lengths([[3]]))
    with pytest.raises(UnsupportedError, match=f"holds no {dtype}") as caught:
        io.write(tmp_path / "t", tensor, format_name=name)
    assert str(caught.value).endswith(f"; lod cast makes it {other}" if other else "that dtype")
