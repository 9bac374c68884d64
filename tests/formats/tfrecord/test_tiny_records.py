"""Many records of few bytes: the memory for them is that of a part of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from tests.growth import peak_bytes_of

pytest.importorskip("pyarrow")
arrow_records = pytest.importorskip("lodcli.formats.tfrecord.arrow_records")
writer = pytest.importorskip("lodcli.formats.tfrecord.writer")


@pytest.mark.slow
def test_memory_for_writing_short_records_hardly_grows_with_their_number(tmp_path: Path) -> None:
    def write(count: int) -> None:
        tensor = LoDTensor.from_lengths(np.arange(count), [np.ones(count, np.int64)])
        lodcli.write(tmp_path / f"{count}.tfrecord", tensor, overwrite=True)

    write(1)
    few, many = (peak_bytes_of(partial(write, count)) for count in (40_000, 80_000))
    # Rows, offsets and copies of both; as Python objects, a record takes 400 bytes or more.
    assert many - few < 40_000 * 150
    assert lodcli.read(tmp_path / "40000.tfrecord").data.tolist() == list(range(40_000))


def test_memory_for_reading_short_numbers_is_that_of_a_part_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_records, "PARSED_BYTES", 1 << 14, raising=False)

    count = 200_000
    rows = np.arange(count) % 2 * 128  # every second number takes two bytes
    file = tmp_path / "numbers.tfrecord"
    lodcli.write(file, LoDTensor.from_lengths(rows, [np.full(count // 1000, 1000)]))

    def read() -> None:
        with lodcli.open(file) as opened:
            assert sum(batch["data"].data.sum() for batch in opened.batches()) == count * 64

    read()
    # A number takes 8 bytes, its positions several times that: 10 MB if all are parsed at once.
    assert peak_bytes_of(read) < 5_000_000


@pytest.mark.parametrize("items", [1, 100])
def test_memory_for_writing_short_numbers_is_that_of_a_part_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, items: int
) -> None:
    monkeypatch.setattr(writer, "ENCODED_BYTES", 1 << 14, raising=False)

    def write(count: int) -> None:
        rows = np.zeros(count, np.uint8)
        tensor = LoDTensor.from_lengths(rows, [np.full(items, count // items)])
        lodcli.write(tmp_path / f"{count}.tfrecord", tensor, overwrite=True)

    write(1000)
    few, many = (peak_bytes_of(partial(write, count)) for count in (100_000, 200_000))
    # Copies of one byte; encoded as int64, with their places, they take 45.
    assert many - few < 100_000 * 12
