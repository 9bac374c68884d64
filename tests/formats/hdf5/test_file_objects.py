"""The file objects through which HDF5 reads and writes."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from lodcli.formats.hdf5.file_objects import ReadFile
from lodcli.formats.hdf5.strict import StrictFile


def test_a_file_for_hdf5_is_zero_beyond_its_end(tmp_path: Path) -> None:
    with (tmp_path / "t").open("w+b", buffering=0) as raw:
        raw.write(b"abc")
        file = ReadFile(raw.fileno())
        for place, expected in ((1, b"bc\0\0"), (9, bytes(4)), (2**63, bytes(4)), (-1, bytes(4))):
            file.seek(place)
            room = bytearray(b"????")
            assert file.readinto(room) == 4
            assert (bytes(room), file.tell()) == (expected, place + 4)
        assert file.error is None


def test_without_memory_hdf5_is_not_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as made:
        made["x"] = [1, 2]
    monkeypatch.setattr("lodcli.formats.hdf5.file_objects._NEEDED_BYTES", 1 << 60)
    with (tmp_path / "t.h5").open("rb") as file, pytest.raises(MemoryError):
        StrictFile(file.fileno())
