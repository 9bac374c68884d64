"""Many samples of few bytes: as Python objects, they would take many times their size."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core.io import write
from lodcli.formats.core.schema import schema_of
from lodcli.formats.records import samples
from lodcli.formats.records.samples import Collector
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.growth import peak_bytes_of


def test_memory_of_collected_values_is_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_VALUES", 64, raising=False)

    def collect(count: int) -> None:
        tensor = LoDTensor.from_lengths(np.zeros(1, np.int32), [[1]])
        collector = Collector(schema_of({"data": tensor}))
        for number in range(count):
            collector.add({"data": np.full(1, number, np.int32)})
        batch = collector.batch()["data"]
        assert isinstance(batch, LoDTensor)
        assert batch.data.tolist() == list(range(count))

    few, many = (peak_bytes_of(partial(collect, count)) for count in (1_000, 2_000))
    # Rows, offsets, copies of both, and the list compared with; an array takes 112 bytes more.
    assert many - few < 1_000 * 110


def test_memory_for_writing_mds_hardly_grows_with_the_number_of_samples(tmp_path: Path) -> None:
    def make(count: int) -> None:
        tensor = LoDTensor(np.arange(count))
        write(tmp_path / f"{count}", tensor, format_name="mds", overwrite=True)

    make(1)
    few, many = (peak_bytes_of(partial(make, count)) for count in (1_000, 2_000))
    # Rows, their sizes and positions, and copies of them; as an object, a sample takes 50 more.
    assert many - few < 1_000 * 60
