"""Many records of few bytes: the memory for writing them is that of a part of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from tests.growth import peak_bytes_of

pytest.importorskip("pyarrow")


def test_memory_for_writing_short_records_hardly_grows_with_their_number(tmp_path: Path) -> None:
    def write(count: int) -> None:
        lengths = np.ones(count, np.int64)
        lodcli.write(
            tmp_path / f"{count}.tfrecord",
            LoDTensor.from_lengths(np.arange(count), [lengths]),
        )

    write(1)
    few, many = (peak_bytes_of(partial(write, count)) for count in (40_000, 80_000))
    # Rows, offsets and copies of both; as Python objects, a record takes 400 bytes or more.
    assert many - few < 40_000 * 150
    assert lodcli.read(tmp_path / "40000.tfrecord").data.tolist() == list(range(40_000))
