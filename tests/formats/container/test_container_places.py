"""lod.h5: datasets whose size is known only at the end are written where they are going to be."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from lodcli.formats.container.writing import sinks, written_file
from lodcli.formats.container.writing.written_file import WrittenFile
from lodcli.formats.core import io
from lodcli.formats.core.schema import Batch, schema_of
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import files
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import tensor_in
from tests.formats.cases.writing import uncounted
from tests.growth import calls_of

SPOOLED = 2 << 20


def batch(number: int) -> dict[str, LoDTensor]:
    rng = np.random.default_rng(number)
    lod = LoD.from_lengths([rng.integers(0, 9, 5_000).tolist()])
    rows = lod.rows or 0
    return {
        "small": LoDTensor(rng.random(10)),
        "first": LoDTensor(rng.integers(0, 99, (rows, 3)), lod),
        "second": LoDTensor(rng.random(rows), lod),
        "third": LoDTensor(rng.random((40_000, 2)).astype(np.float32)),
    }


def batches(count: int) -> Iterator[Batch]:
    return (batch(number) for number in range(count))


@pytest.mark.parametrize("count", [1, 2, 8])
def test_batches_of_unknown_number_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(sinks, "SPOOLED_BYTES", SPOOLED)
    path = tmp_path / "x.lod.h5"
    io.write_batches(path, uncounted(schema_of(batch(0))), batches(count))
    found = io.read_all(path)
    for name in batch(0):
        expected = LoDTensor.concatenate([batch(number)[name] for number in range(count)])
        tensor = found[name]
        assert tensor.lod == expected.lod
        np.testing.assert_array_equal(tensor.data, expected.data)
    with h5py.File(path) as file:  # HDF5 itself finds no fault with it
        offsets = {
            name: file[f"{name}/data"].id.get_offset() if f"{name}/data" in file else None
            for name in found
        }
        names: list[str] = []
        file.visit(names.append)
    assert len(names) > 4
    assert len(set(offsets.values())) in (1, 4)
    stored = sum(t.nbytes for t in found.values() if isinstance(t, LoDTensor))
    assert path.stat().st_size < 1.2 * stored + (128 << 10)


def test_large_rows_are_not_written_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "SPOOLED_BYTES", SPOOLED)
    copied = calls_of(monkeypatch, WrittenFile, "copy_from")
    data = np.arange(2_000_000)
    tensor = LoDTensor(data, LoD([np.array([0, 9, 2_000_000])]))
    parts: list[Batch] = [{"data": tensor[n : n + 1]} for n in range(2)]
    parts += [{"data": tensor[1:2]}] * 2
    io.write_batches(tmp_path / "x.lod.h5", uncounted(schema_of({"data": tensor})), parts)
    assert sum(size for _, _, _, size, _ in copied) < 1 << 20  # of 48 MB
    found = tensor_in(tmp_path / "x.lod.h5")
    assert found.rows == 2_000_000 + 2 * 1_999_991
    np.testing.assert_array_equal(found.data[-1_999_991:], data[9:])


@pytest.mark.parametrize("at_once", [0, 7, 1000])  # 0: the system copies nothing
def test_a_part_of_another_file_is_copied(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copying(source: int, target: int, size: int, *places: int) -> int:
        return copy_range(source, target, min(size, at_once), *places) if at_once else 0

    copy_range = files.copy_range
    monkeypatch.setattr(files, "copy_range", copying)
    monkeypatch.setattr(written_file, "COPY_BYTES", 9)
    (tmp_path / "source").write_bytes(bytes(range(100)))
    with open(tmp_path / "source", "rb") as source, Output(tmp_path / "target") as target:
        file = WrittenFile(target)
        target.write_at(b"abc", 0)
        for start, size, place in ((20, 50, 5), (0, 3, 10)):
            file.copy_from(source.fileno(), start, size, place)
    expected = b"abc\0\0" + bytes(range(20, 25)) + b"\0\1\2" + bytes(range(28, 70))
    assert (tmp_path / "target").read_bytes() == expected


@pytest.mark.parametrize("known", [True, False])
def test_more_than_a_header_has_checksums_for_is_refused(
    known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "LIMIT_BYTES", 16)  # two blocks
    rows = {"data": LoDTensor(np.zeros(600_000, np.uint8))}
    schema = schema_of(rows) if known else uncounted(schema_of(rows))
    said = "/data: a container holds checksums for less than 524,288 bytes of it, but there are "
    with pytest.raises(UnsupportedError, match=f"{said}.*600,000; divide the data"):
        io.write_batches(tmp_path / "x.lod.h5", schema, [rows])
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "SPOOLED_BYTES", SPOOLED)
    write = os.pwrite

    def full(fd: int, data: bytes, offset: int) -> int:
        if offset > 4 << 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        io.write_batches(tmp_path / "x.lod.h5", uncounted(schema_of(batch(0))), batches(8))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("counted", [True, False])
def test_rows_are_aligned(counted: bool, tmp_path: Path) -> None:
    content = {f"t{n}": LoDTensor(np.arange(n, dtype=np.int8), [[2, n - 2]]) for n in range(2, 40)}
    schema = schema_of(content) if counted else uncounted(schema_of(content))
    io.write_batches(tmp_path / "t.lod.h5", schema, [content])
    found = io.read_all(tmp_path / "t.lod.h5")
    assert all(item.identical(found[name]) for name, item in content.items())
    with h5py.File(tmp_path / "t.lod.h5") as file:
        places = [file[f"{name}/data"].id.get_offset() for name in content]
    assert all(place % written_file.ALIGNMENT == 0 for place in places)


def test_words_that_come_after_rows_of_unknown_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "SPOOLED_BYTES", SPOOLED)
    words = [f"a word of some length {number}" for number in range(9_000)]
    codes = np.arange(700_000) % 9_000
    tensor = LoDTensor(codes).as_categories(words)
    schema = uncounted(schema_of({"data": tensor}))
    io.write_batches(tmp_path / "t.lod.h5", schema, [{"data": tensor}] * 3)
    found = io.read(tmp_path / "t.lod.h5")
    assert found.identical(LoDTensor.concatenate([tensor] * 3))
