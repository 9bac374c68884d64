"""Arrays filled from a place in a file, where a system reads a part at a time."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.pread import read_into

ROWS = np.arange(24, dtype=np.float32).reshape(4, 3, 2)


@pytest.fixture
def file(tmp_path: Path) -> int:
    path = tmp_path / "rows"
    path.write_bytes(b"before" + ROWS.tobytes())
    return os.open(path, os.O_RDONLY)


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_rows_are_read_whole_in_any_portions(
    file: int, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    read = os.preadv

    def portion(fd: int, buffers: list[memoryview], position: int) -> int:
        return read(fd, [memoryview(buffers[0]).cast("B")[:most]], position)

    monkeypatch.setattr(os, "preadv", portion)
    out = np.empty_like(ROWS)
    read_into(file, out, 6)
    os.close(file)
    np.testing.assert_array_equal(out, ROWS)


@pytest.mark.parametrize("dtype", ["bool", "f2", "c16", "M8[s]", "S3", [("a", "i4"), ("b", "u1")]])
def test_rows_of_any_dtype_are_filled(file: int, dtype: object) -> None:
    out = np.empty((2, 2), np.dtype(dtype))  # type: ignore[call-overload]
    read_into(file, out, 6)
    os.close(file)
    assert out.tobytes() == ROWS.tobytes()[: out.nbytes]


@pytest.mark.parametrize(("beyond", "early"), [(4, 4), (200, 96)])
def test_a_file_that_ends_early_is_damaged(file: int, beyond: int, early: int) -> None:
    with pytest.raises(DamagedFileError, match=f"ended {early} bytes early"):
        read_into(file, np.empty_like(ROWS), 6 + beyond)
    os.close(file)
