"""Limits of the number of folders in a zarr store."""

from __future__ import annotations

from pathlib import Path

import pytest

import lodcli
from lodcli import UnsupportedError

pytest.importorskip("zarr")
from lodcli.formats.zarr import stores


def test_the_largest_number_of_folders_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MOST_KEYS", 2)
    for name in "abc":
        (tmp_path / "a.zarr" / name).mkdir(parents=True)
    (tmp_path / "a.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    with pytest.raises(UnsupportedError, match=r"has more than 2 folders, .*; read a part of it"):
        lodcli.read_all(tmp_path / "a.zarr")
