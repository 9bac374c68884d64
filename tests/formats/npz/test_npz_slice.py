"""npz: a slice reads the rows it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.items.indexed_copy import indexed
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import source_of

ROWS = np.arange(14.0).reshape(7, 2)
LENGTHS = [[2, 0, 1], [3, 1, 3]]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<f8", ">i2", "?"])
@pytest.mark.parametrize("branch", [(0,), (0, 1), (0, 1, 0), (1,), (slice(1, 3),), (2, 0, 2)])
def test_a_slice_is_that_of_the_whole(
    tmp_path: Path, save: Any, order: Any, dtype: str, branch: tuple[Key, ...]
) -> None:
    rows: Any = np.array(ROWS % 2 if dtype == "?" else ROWS, dtype, order=order)
    lod = LoD.from_lengths(LENGTHS)
    arrays = {f"lod.{level}": offsets for level, offsets in enumerate(lod.levels)}
    save(tmp_path / "x.npz", data=rows, **arrays)
    wanted = LoDTensor(rows.astype(rows.dtype.newbyteorder("=")), lod).select(*branch)
    with lodcli.open(tmp_path / "x.npz") as source:
        assert source.slice("data", branch).identical(wanted)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", "CF")
def test_rows_are_read_in_any_order(tmp_path: Path, save: Any, order: Any) -> None:
    rows: Any = np.array(ROWS, order=order)
    save(tmp_path / "x.npz", data=rows, other=np.arange(1000))  # the bytes behind the rows
    with source_of(tmp_path / "x.npz") as source, indexed(source, ["data"]) as found:
        assert np.array_equal(found.read_rows("data", 3, 6), rows[3:6])
        assert np.array_equal(found.read_rows("data", 0, 2), rows[:2])


def test_a_slice_does_not_touch_the_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    rows = np.arange(20_000.0)  # what is small is read with its header
    offsets: dict[str, Any] = {"lod.0": np.array([0, 3, 20_000])}
    np.savez(path, data=rows, **offsets)
    content = path.read_bytes()
    assert content.count(rows[-3:].tobytes()) == 1
    path.write_bytes(content.replace(rows[-3:].tobytes(), bytes(24)))
    with lodcli.open(path) as source:
        assert np.array_equal(source.slice("data", (0,)).data, rows[:3])
    with pytest.raises(DamagedFileError, match=r"data\.npy: .*CRC"):
        io.read_all(path)
