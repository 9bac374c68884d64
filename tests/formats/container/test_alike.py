"""Many objects of a container checked at once: as if they were parsed one by one."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest

from lodcli.formats.container import alike, header, stored
from lodcli.formats.container.stored import ContainerFile, StoredDataset
from lodcli.formats.core import io
from lodcli.formats.core.schema import Item, StoredArray
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray

ONE = LoD.from_lengths([[2, 0, 1]])


def content(count: int) -> dict[str, Item]:
    """Return tensors of a few kinds: without levels, with own and shared ones, without rows."""
    found: dict[str, Item] = {}
    for number in range(count):
        found[f"t{number}"] = LoDTensor(np.arange(number + 1.0), [[1, number]])
        found[f"größe{number}"] = LoDTensor(np.zeros((3, number, 2), np.int8), ONE)
        found[f"flag{number}"] = LoDTensor(np.arange(number) % 2 == 0)
        found[f"deep{number}"] = LoDTensor(np.arange(3 * number), [[1, 1], [number, 2 * number]])
    found["data"] = LoDTensor(np.arange(3), ONE)
    found["steps"] = StoredArray(*TensorArray.unpack(LoDTensor(np.arange(3), ONE)))
    return found


def parsed(path: Path) -> dict[str, StoredDataset] | str:
    """Return the datasets of a file, or the error."""
    fd = os.open(path, os.O_RDONLY)
    try:
        file = ContainerFile(fd, os.fstat(fd).st_size)
        return file.datasets(header.decode(file.header()).datasets)
    except LodError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        os.close(fd)


def one_by_one(path: Path) -> dict[str, StoredDataset] | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "MANY", 1 << 60)
        return parsed(path)


@pytest.mark.parametrize("count", [1, 2, 60])
def test_many_are_found_where_they_are(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MANY", 1)
    monkeypatch.setattr(alike, "_AT_ONCE", 7)
    used: list[int] = []
    original = alike.positions

    def counted(*args: object) -> dict[str, int | None]:
        places = original(*args)  # type: ignore[arg-type]
        used.append(len(places))
        return places

    monkeypatch.setattr(alike, "positions", counted)
    path = tmp_path / "t.lod.h5"
    io.write(path, content(count))
    found = parsed(path)
    assert used[-1] == len(found) > 6 * count
    assert list(found) == list(one_by_one(path))
    assert found == one_by_one(path)
    whole = io.read_all(path)
    for name, item in content(count).items():
        if isinstance(item, LoDTensor):
            assert whole[name].identical(item)


def test_datasets_that_differ_are_parsed_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MANY", 1)
    path = tmp_path / "t.lod.h5"
    io.write(path, content(3), compression="deflate")
    assert len(parsed(path)) > 18
    assert str(parsed(path)) == str(one_by_one(path))


def test_damage_is_reported_as_if_all_were_parsed_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lod.h5"
    io.write(path, content(4))
    monkeypatch.setattr(stored, "MANY", 1)
    before = path.read_bytes()
    rng = np.random.default_rng(5)
    # Bytes that are not 0, most of which mean something.
    places = np.flatnonzero(np.frombuffer(before, np.uint8))
    errors = set()
    for place in rng.choice(places, 400, replace=False).tolist():
        changed = bytearray(before)
        changed[place] ^= int(rng.choice([1, 2, 16, 128]))
        path.write_bytes(changed)
        expected = one_by_one(path)
        assert parsed(path) == expected, place
        errors.add(expected if isinstance(expected, str) else "")
    assert len(errors) > 50


def test_a_wrong_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MANY", 1)
    path = tmp_path / "t.lod.h5"
    io.write(path, {f"t{number}": LoDTensor(np.arange(4)) for number in range(9)})
    found = one_by_one(path)
    assert isinstance(found, dict)
    content = path.read_bytes()
    first, second = (found[f"/t{n}/data"].offset or 0 for n in (3, 4))
    for place, size, error in (
        (first, 32, "is used twice"),
        (first + 8, 32, "overlaps"),
        (second, 40, "has 40 bytes, its rows need 32"),
        (1 << 40, 32, "it is truncated; fetch or copy it again"),
    ):
        layout = struct.pack("<QQ", place, size)
        path.write_bytes(content.replace(struct.pack("<QQ", second, 32), layout))
        assert error in str(parsed(path))
        assert parsed(path) == one_by_one(path)


def test_numbers_of_64_bits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.lod.h5"
    io.write(path, content(2))
    monkeypatch.setattr(stored, "MANY", 1)
    before = path.read_bytes()
    rng = np.random.default_rng(6)
    words = np.frombuffer(before[: len(before) // 8 * 8], np.uint64)
    # Addresses and sizes are words like others, neither 0 nor larger than the file.
    places = 8 * np.flatnonzero((words > 0) & (words < len(before)))
    for place in rng.choice(places, 150, replace=False).tolist():
        for number in (1 << 62, (1 << 63) - 8, (1 << 63) + 8, (1 << 64) - 8):
            changed = bytearray(before)
            struct.pack_into("<Q", changed, place, number)
            path.write_bytes(changed)
            assert parsed(path) == one_by_one(path), (place, number)


def test_a_missing_tensor_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MANY", 1)
    path = tmp_path / "t.lod.h5"
    io.write(path, content(3))
    with h5py.File(path, "r+") as file:
        del file["t1"]
    assert parsed(path) == one_by_one(path) == "DamagedFileError: /t1: is missing"


def test_structures_in_one_place_take_no_memory(tmp_path: Path) -> None:
    """Names of 200 groups in the same mebibyte."""
    path = tmp_path / "t.lod.h5"
    io.write(path, {f"{number:x}": LoDTensor(np.zeros(2, np.int8)) for number in range(200)})
    raw, big = bytearray(path.read_bytes()), 1 << 20
    of_root, end = struct.unpack_from("<Q", raw, 88)[0], len(raw)
    heap, names = raw.find(b"HEAP"), b""
    while heap >= 0:
        if heap != of_root:
            size, _, place = struct.unpack_from("<QQQ", raw, heap + 8)
            names = bytes(raw[place : place + size])
            struct.pack_into("<QQQ", raw, heap + 8, big, 1, end)
        heap = raw.find(b"HEAP", heap + 4)
    raw += names.ljust(big, b"\0")
    struct.pack_into("<Q", raw, 40, len(raw))
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        found = parsed(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "is used twice" in str(found)
    assert found == one_by_one(path)
    assert peak < 20 * big  # of 200
