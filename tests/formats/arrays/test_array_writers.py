"""Formats that write the arrays of tensors as batches come: container, stream and flat files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, Schema, StoredArray, schema_of
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.writing import uncounted

INDEX = LoD.from_lengths([[1, 2]])
A = LoDTensor(np.arange(3.0), INDEX)
B = LoDTensor(np.arange(3), INDEX)
OTHER = LoDTensor(np.arange(3), LoD.from_lengths([[2, 1]]))
SCHEMA = schema_of({"a": A, "b": B})
# Writers, by the name of the file.
WRITERS: dict[str, dict[str, Any]] = {
    "x.lod.h5": {},
    "packed.lod.h5": {"compression": "deflate"},
    "x.lods": {},
    "x.npz": {},
    "cu.npz": {"cu_seqlens": ("cu",)},
    "x.safetensors": {},
    "cu.safetensors": {"cu_seqlens": ("cu",)},
    "x.lodt": {},
    "awkward.npz": {},
}
SHARING = ("x.lod.h5", "packed.lod.h5", "x.lods", "cu.npz", "cu.safetensors", "awkward.npz")
every_writer = pytest.mark.parametrize("file", WRITERS)


def write(path: Path, schema: Schema, batches: list[Batch]) -> None:
    name = "awkward" if path.name == "awkward.npz" else None
    options = WriteOptions(**WRITERS[path.name])
    io.write_batches(path, schema, batches, format_name=name, options=options)


def read(path: Path) -> dict[str, LoDTensor]:
    names = ["a", "b"] if path.name == "x.lodt" else None
    offsets = ["cu"] if path.name.startswith("cu.") else None
    found = io.read_all(path, names=names, offsets=offsets)
    return {name: item for name, item in found.items() if isinstance(item, LoDTensor)}


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([{"a": A, "b": B}, {"a": A, "b": B}], "a: expected 2 items of level 0, found 4"),
        ([], "a: expected 3 rows, found 0"),
        ([{"a": A[:1], "b": B[:1]}], "a: expected 3 rows, found 1"),
        ([{"c": A}], "tensor 'c' is not in the schema"),
        ([{"a": A, "b": A}], "b: expected dtype int64 as in the schema, found float64"),
        (
            [{"a": A, "b": LoDTensor(np.zeros((3, 1), int), INDEX)}],
            r"b: expected row shape \(\) as in the schema, found \(1,\)",
        ),
        (
            [{"a": A, "b": LoDTensor(np.arange(3))}],
            "b: expected levels 1 as in the schema",
        ),
    ],
)
@every_writer
def test_batches_that_are_not_as_announced_are_refused(
    file: str, batches: list[Batch], message: str, tmp_path: Path
) -> None:
    # Where counts were not announced, any number may come.
    for schema in (SCHEMA,) if "expected" in message else (SCHEMA, uncounted(SCHEMA)):
        with pytest.raises(InvalidDataError, match=message):
            write(tmp_path / file, schema, batches)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", SHARING)
def test_a_shared_level_that_differs_is_refused(file: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="b: level 0 is shared with tensor a, which is"):
        write(tmp_path / file, uncounted(SCHEMA), [{"a": A, "b": OTHER}])
    assert not list(tmp_path.iterdir())


@every_writer
def test_tensors_that_share_a_level_and_come_apart_are_written_together(
    file: str, tmp_path: Path
) -> None:
    batches: list[Batch] = [{"a": A[:1]}, {"b": B[:1]}, {"b": B[1:]}, {"a": A[1:]}]
    write(tmp_path / file, uncounted(SCHEMA), batches)
    found = read(tmp_path / file)
    assert found["a"].identical(A)
    assert found["b"].identical(B)


@pytest.mark.parametrize("file", SHARING)
def test_tensors_that_share_a_level_and_never_come_together_are_refused(
    file: str, tmp_path: Path
) -> None:
    for batches, message in (
        ([{"a": A}], "tensor b has fewer items than a"),
        ([{"a": A}, {"a": A}], "a and b share a level and must come together"),
    ):
        with pytest.raises(InvalidDataError, match=message):
            write(tmp_path / file, uncounted(SCHEMA), list[Batch](batches))
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["x.lod.h5", "x.lods"])
def test_a_tensor_array_comes_once_and_fits_its_index_map(file: str, tmp_path: Path) -> None:
    stored = StoredArray(*TensorArray.unpack(LoDTensor(np.arange(6), [[3, 1, 2]]), 0))
    fewer = StoredArray(TensorArray.from_steps(stored.array.steps[:2]), stored.index_map)
    for array, count, message in (
        (stored, 2, "must be in one batch; found it in two"),
        (stored, 0, "in the schema, but in no batch"),
        (fewer, 1, "describes 3 steps, the array has 2"),
    ):
        with pytest.raises(InvalidDataError, match=f"t: .*{message}"):
            write(tmp_path / file, uncounted(schema_of({"t": array})), [{"t": array}] * count)
        assert not list(tmp_path.iterdir())


@every_writer
def test_any_byte_but_0_of_foreign_memory_is_true(file: str, tmp_path: Path) -> None:
    odd = np.array([0, 2, 255], np.uint8).view(np.bool_)
    items: Batch = {"a": A, "b": LoDTensor(odd, INDEX)}
    for schema in (schema_of(items), uncounted(schema_of(items))):
        write(tmp_path / file, schema, [items])
        assert read(tmp_path / file)["b"].data.view(np.uint8).tolist() == [0, 1, 1]
        (tmp_path / file).unlink()


@pytest.mark.parametrize("file", [name for name in WRITERS if not name.startswith("cu.")])
def test_more_tensors_than_files_may_be_open_are_written(
    file: str, few_files: None, tmp_path: Path
) -> None:
    items = {f"t{n}": LoDTensor(np.arange(n, n + 3), INDEX) for n in range(150)}
    write(tmp_path / file, uncounted(schema_of(items)), [items])
    found = io.read_all(tmp_path / file).values()
    assert sorted(item.data[0] for item in found if isinstance(item, LoDTensor)) == list(range(150))
