"""The row_splits of a tf.RaggedTensor, saved with its values as npz: both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.options import WriteOptions
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content, nested

NESTED = [[[1, 2], []], [], [[3, 4, 5]]]
VALUES = np.arange(1, 6, dtype=np.int32)
SPLITS = (np.array([0, 2, 2, 3]), np.array([0, 2, 2, 5]))
NAMES = ("outer_splits", "inner_splits")


def saved(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "x.npz", **arrays)
    return folder / "x.npz"


def test_values_and_nested_row_splits_are_read(tmp_path: Path) -> None:
    path = saved(tmp_path, values=VALUES, outer_splits=SPLITS[0], inner_splits=SPLITS[1])
    found = content(path, data="values", offsets=NAMES)
    assert nested(found["values"]) == NESTED
    assert found["values"].dtype == np.int32


def test_values_and_row_splits_are_written(tmp_path: Path) -> None:
    tensor = LoDTensor(VALUES, LoD(SPLITS))
    options = WriteOptions(cu_seqlens=NAMES, index_dtype="int64")
    io.write(tmp_path / "x.npz", {"values": tensor}, options=options)
    with np.load(tmp_path / "x.npz") as file:
        assert sorted(file) == ["inner_splits", "outer_splits", "values"]
        for name, splits in zip(NAMES, SPLITS, strict=True):
            assert file[name].dtype == np.int64
            assert file[name].tolist() == splits.tolist()
    assert content(tmp_path / "x.npz", data="values", offsets=NAMES)["values"].identical(tensor)


@pytest.mark.parametrize(
    "splits", [[0, 2, 4], [1, 5], [0, 3, 2, 5], [0, -1, 5], [], [0, 2.5, 5], [[0, 5]]]
)
def test_splits_that_do_not_fit_are_refused(splits: Any, tmp_path: Path) -> None:
    path = saved(tmp_path, values=VALUES, row_splits=np.array(splits))
    with pytest.raises(LodError, match=r"row_splits|values"):
        content(path, data="values", offsets=("row_splits",))


def test_an_array_with_one_value_for_each_sequence_says_how_to_add_it(tmp_path: Path) -> None:
    path = saved(tmp_path, values=VALUES, row_splits=[0, 2, 5], label=[0, 1])
    said = r"label: expected 5 rows, found 2, one for each .* with data="
    with pytest.raises(LodError, match=said):
        content(path, offsets=("row_splits",))
    assert nested(content(path, data="values", offsets=("row_splits",))["values"])


def test_tensorflow_agrees(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    ragged = tf.ragged.constant(NESTED, dtype=tf.int32)
    outer, inner = (splits.numpy() for splits in ragged.nested_row_splits)
    path = saved(tmp_path, values=ragged.flat_values.numpy(), outer=outer, inner=inner)
    assert nested(content(path, data="values", offsets=("outer", "inner"))["values"]) == NESTED
    options = WriteOptions(cu_seqlens=NAMES, index_dtype="int64")
    io.write(tmp_path / "y.npz", LoDTensor(VALUES, LoD(SPLITS)), options=options)
    with np.load(tmp_path / "y.npz") as file:
        ours = tf.RaggedTensor.from_nested_row_splits(file["data"], [file[name] for name in NAMES])
    assert ours.to_list() == NESTED
