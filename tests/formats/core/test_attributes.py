"""Attributes of tensors pass through files and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks

GIVEN = {"unit": "m", "of": {"names": ["no", "yes"], "count": 2}, "Größe": [1.5, None]}


def tensor(values: Any = ((1, 2), (3,))) -> LoDTensor:
    return LoDTensor.from_lists([list(one) for one in values]).with_attributes(GIVEN)


@pytest.mark.parametrize(
    "name",
    [
        *("x.lod.h5", "x.lods", "x.npz", "x.safetensors", "x.parquet", "x.arrow", "x.arrows"),
        *("x.zarr", "x.zarr.zip", "folder"),
    ],
)
def test_attributes_come_back(name: str, tmp_path: Path) -> None:
    if name.endswith((".parquet", ".arrow", ".arrows")) or name == "folder":
        pytest.importorskip("pyarrow")
    if "zarr" in name:
        pytest.importorskip("zarr")
    kind = "datasets" if name == "folder" else None
    records = LoDTensor.from_lists(["a", "b"]).with_attributes({"language": "en"})
    given = {"data": tensor(), "text": records, "plain": LoDTensor([1, 2])}
    io.write(tmp_path / name, given, format_name=kind, strict=True)
    found = io.read_all(tmp_path / name)
    assert {one: item.attributes for one, item in found.items() if isinstance(item, LoDTensor)} == {
        "data": GIVEN,
        "text": {"language": "en"},
        "plain": {},
    }


def test_choosing_items_keeps_attributes_and_computing_does_not() -> None:
    assert tensor()[1:].attributes == GIVEN
    assert tensor()[0].attributes == GIVEN
    assert tensor().astype("float32").attributes == {}
    assert (tensor() + 1).attributes == {}
    assert tensor().with_attributes({}).marks == LoDTensor([1]).marks


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({1: 2}, "keys are text"),
        ([1], "keys are text"),
        ({"x": {1, 2}}, "are not JSON"),
        ({"x": float("nan")}, "are not JSON"),
        ({"x": "y" * 300_000}, "300008 bytes of JSON, at most 262144"),
    ],
)
def test_attributes_are_json_of_a_bounded_size(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        LoDTensor([1]).with_attributes(wrong)


def test_marks_check_the_text_of_attributes() -> None:
    assert Marks(attributes='{"a": 1}') == LoDTensor([1]).with_attributes({"a": 1}).marks
    assert Marks(attributes="{}") == Marks()
    for wrong, message in [("[1]", "keys are text"), ('{"x":NaN}', "not JSON"), ("{", "not JSON")]:
        with pytest.raises(InvalidDataError, match=message):
            Marks(attributes=wrong)


def test_a_format_without_attributes_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="does not keep these attributes: those of data"):
        io.write(tmp_path / "x.jsonl", tensor(), strict=True)


def test_metadata_of_fields_come_back(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    inner = pa.field("x", pa.int64(), metadata={"unit": "m"})
    fields = [
        pa.field("a", pa.list_(pa.int64()), metadata={"of": "a", "raw": b"\xff"}),
        pa.field("s", pa.struct([inner])),
    ]
    table = pa.table({"a": [[1]], "s": [{"x": 1}]}, schema=pa.schema(fields))
    pq.write_table(table, tmp_path / "x.parquet")
    for name in ("y.lod.h5", "z.parquet"):
        with lodcli.open(tmp_path / ("x.parquet" if name[0] == "y" else "y.lod.h5")) as file:
            io.write_batches(tmp_path / name, file.schema, file.batches())
    found = pq.read_schema(tmp_path / "z.parquet")
    assert found.field("a").metadata[b"of"] == b"a"
    assert found.field("s").type.field("x").metadata[b"unit"] == b"m"
