"""Tensors that become records: their items are read, held and written part by part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import batching, io
from lodcli.formats.core.batching import aligned
from lodcli.formats.core.schema import Batch, schema_of
from lodcli.formats.csv import writing
from lodcli.formats.json import jsonl
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls
from tests.formats.cases.writing import uncounted
from tests.growth import peak_bytes_of


@pytest.mark.parametrize("name", ["t.lod.h5", "t.safetensors"])
def test_tensors_with_their_own_items_are_read_in_turns(tmp_path: Path, name: str) -> None:
    pairs = LoDTensor.from_lengths(np.arange(12.0), [[2] * 6])
    lodcli.write(
        tmp_path / name,
        {"a": LoDTensor(np.arange(6.0)), "b": pairs, "c": LoDTensor(np.arange(2.0))},
    )
    with lodcli.open(tmp_path / name) as source:
        found = [(n, len(item)) for batch in source.batches(16) for n, item in batch.items()]
    # Two rows, or one item, a batch.
    assert found == [
        *[("a", 2), ("b", 1), ("c", 2), ("b", 1), ("a", 2), ("b", 1), ("b", 1)],
        *[("a", 2), ("b", 1), ("b", 1)],
    ]


def _cut(tensor: LoDTensor, sizes: list[int]) -> Iterator[LoDTensor]:
    start = 0
    for size in [*sizes, len(tensor)]:
        yield tensor[start : start + size]
        start += size


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_in_any_order_are_aligned(tmp_path: Path, data: st.DataObject) -> None:
    a, b = (data.draw(st.integers(0, 12)) for _ in range(2))
    lengths = np.arange(b) % 3
    whole = {
        "a": LoDTensor(np.arange(float(a))),
        "b": LoDTensor.from_lengths(np.arange(int(lengths.sum())), [lengths]),
    }
    parts = []
    for name, tensor in whole.items():
        sizes = data.draw(st.lists(st.integers(0, 5), max_size=4))
        parts += [(name, part) for part in _cut(tensor, sizes)]
    turns = data.draw(st.permutations(parts)) if data.draw(st.booleans()) else parts
    expected: dict[str, list[object]] = {"a": [], "b": []}
    for name, part in turns:
        expected[name] += part.to_list()
    batches: list[Batch] = [{name: part} for name, part in turns]
    found: dict[str, list[object]] = {"a": [], "b": []}
    counts = []
    limit_bytes = data.draw(st.sampled_from([32, None]))
    waiting_bytes = data.draw(st.sampled_from([-1, 0, 9, 20, 64 << 20]))  # -1: all are in a file
    with (
        mock.patch.object(batching, "WAITING_BYTES", waiting_bytes),
        Output(tmp_path / "target", overwrite=True) as output,
    ):
        for batch in aligned(schema_of(whole), batches, limit_bytes, output):
            counts.append({name: len(tensor) for name, tensor in batch.items()})
            for name, tensor in batch.items():
                found[name] += tensor.to_list()
    assert found == expected
    together = [count for count in counts if len(count) == 2]
    assert sum(count["a"] for count in together) == min(a, b)
    assert all(count["a"] == count["b"] for count in together)
    assert counts[: len(together)] == together


@pytest.mark.parametrize("name", ["csv", "jsonl", "json"])
def test_memory_for_writing_text_is_that_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(writing, "WRITTEN_FIELDS", 1 << 10)
    monkeypatch.setattr(jsonl, "WRITTEN_BYTES", 1 << 10, raising=False)

    def write(count: int) -> None:
        rows = LoDTensor(np.arange(count, dtype=np.int32))
        lodcli.write(tmp_path / f"{count}.{name}", {"a": rows, "b": rows}, overwrite=True)

    write(1)
    few, many = (peak_bytes_of(partial(write, count)) for count in (1_000, 2_000))
    # Two rows, and copies of them; as text, each takes 60 more.
    assert many - few < 1_000 * 40


def test_memory_for_writing_nulls_as_json_is_that_of_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "WRITTEN_BYTES", 1 << 10)

    def write(count: int) -> None:
        mask = np.arange(count) % 2 == 0
        tensor = LoDTensor(np.arange(count) * mask, LoD.from_lengths([[2] * (count // 2)]))
        nulls = Nulls.of([None, mask])
        nullable = LoDTensor(tensor.data, tensor.lod, nulls=nulls)
        lodcli.write(tmp_path / f"{count}.jsonl", nullable, overwrite=True)

    write(2)
    few, many = (peak_bytes_of(partial(write, count)) for count in (1_000, 2_000))
    # Rows, offsets, the mask, and copies of them; as text, each takes 60 more.
    assert many - few < 1_000 * 60


def _write_after_another(path: Path, rows: int, count: int) -> None:
    """Write all batches of one tensor before those of another."""

    def batches() -> Iterator[Batch]:
        for column in ("a", "b"):
            for number in range(count):
                yield {column: LoDTensor(np.full(rows, float(number)))}

    schema = uncounted(schema_of({"a": LoDTensor([0.5]), "b": LoDTensor([0.5])}))
    io.write_batches(path, schema, batches(), overwrite=True)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.tar"])
def test_rows_that_wait_for_those_of_other_tensors_are_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(batching, "WAITING_BYTES", 1 << 10, raising=False)
    rows = 250

    def write(count: int) -> None:
        _write_after_another(tmp_path / name, rows, count)

    write(1)
    few, many = (peak_bytes_of(partial(write, count)) for count in (10, 20))
    assert many - few < 10 * rows * 4  # half the size of the rows of the first tensor
    with lodcli.open(tmp_path / name) as file:
        for tensor in file.read().values():
            expected = np.repeat(np.arange(20.0), rows)
            np.testing.assert_array_equal(tensor.data, expected)


def test_more_batches_wait_in_a_file_than_files_may_be_open(
    tmp_path: Path, few_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "WAITING_BYTES", 1 << 10)
    _write_after_another(tmp_path / "t.csv", 200, 300)
    found = lodcli.read_all(tmp_path / "t.csv")
    for tensor in found.values():
        np.testing.assert_array_equal(tensor.data, np.repeat(np.arange(300.0), 200))


def test_the_file_of_waiting_rows_is_removed_when_none_are_left_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "WAITING_BYTES", 1 << 10)
    rows, rounds = 1_000, 8
    batches: list[Batch] = [
        {name: LoDTensor(np.full(rows, float(number)))} for number in range(rounds) for name in "ab"
    ]
    files: list[IO[bytes]] = []
    sizes = []
    kept = []
    with Output(tmp_path / "target") as output:
        spool = output.spool

        def recorded(*, buffering: int = -1) -> IO[bytes]:
            files.append(spool(buffering=buffering))
            return files[-1]

        monkeypatch.setattr(output, "spool", recorded)
        schema = schema_of({"a": LoDTensor([0.5]), "b": LoDTensor([0.5])})
        for batch in aligned(schema, batches, None, output):
            kept.append(batch)
            sizes.append(sum(os.fstat(file.fileno()).st_size for file in files if not file.closed))
    assert sizes == [rows * 8] * rounds
    # Rows of removed files stay valid.
    assert [batch["a"].data[-1] for batch in kept] == list(range(rounds))
