"""Unpacking and packing in parts gives the same result as in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.schema import StoredArray, schema_of
from lodcli.formats.items.indexed_copy import in_place
from lodcli.formats.steps import buckets, packing, unpacking
from lodcli.formats.steps.chunks import Steps
from lodcli.formats.steps.packing import packed, packed_in_memory
from lodcli.formats.steps.unpacking import unpacked, unpacked_in_memory
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor import time_steps
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.opening import source_of
from tests.slow import one_in

# Of chunks: everything at once, some steps, a part of a step.
LIMITS = [1 << 20, 2000, 150]


def example(
    levels: int, seed: int, dtype: str = "float32", width: tuple[int, ...] = (2,)
) -> LoDTensor:
    random = np.random.default_rng(seed)
    counts = [random.integers(0, 5, 6)]
    for _ in range(levels - 1):
        counts.append(random.integers(0, 6, int(counts[-1].sum())))
    rows = random.integers(0, 2, (int(counts[-1].sum()), *width)).astype(dtype)
    return LoDTensor(rows, LoD.from_lengths(counts, ["a", "b", "c"][:levels]))


CASES = [
    *((example(levels, levels), level) for levels in (1, 2, 3) for level in range(levels)),
    (example(1, 3, "bool", ()), 0),
    (example(2, 4, "int16", (2, 3)), -1),
    (example(2, 5, "float64", (0,)), -1),
    (LoDTensor(np.zeros((0, 2)), [[]]), 0),
    (LoDTensor(np.zeros((0, 2)), [[0, 0, 0]]), 0),
    (LoDTensor(np.arange(2000.0), [[1, 1500, 0, 499]]), 0),
    (LoDTensor(np.arange(3000.0), [[3] * 1000]), 0),
]


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("number", one_in(2, range(len(CASES))))
def test_parts_give_what_memory_gives(
    number: int, limit: int, in_order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "_LIMIT_BYTES", limit)
    tensor, level = CASES[number]
    io.write(tmp_path / "t.lod.h5", tensor)
    array, index_map = TensorArray.unpack(tensor, level, not in_order)
    io.write(tmp_path / "whole.lod.h5", StoredArray(array, index_map))
    with source_of(tmp_path / "t.lod.h5") as file:
        source = in_place(file, ["data"])
        assert source is not None
        found = unpacked(source, "data", level, "t", in_order=in_order)
        io.write(tmp_path / "parts.lod.h5", found)
        io.write(tmp_path / "parts.lods", found)
        assert found.array.identical(array)
    assert (tmp_path / "parts.lod.h5").read_bytes() == (tmp_path / "whole.lod.h5").read_bytes()
    streamed = io.read(tmp_path / "parts.lods")  # in other frames
    assert isinstance(streamed, StoredArray)
    assert streamed.array.identical(array)
    assert streamed.index_map == index_map
    with source_of(tmp_path / "parts.lod.h5") as file:
        steps = in_place(file, ["data"])
        assert isinstance(steps, ContainerSource)
        spec, batches = packed(steps, "data")
        io.write_batches(tmp_path / "back.lod.h5", (spec,), batches)
    assert (tmp_path / "back.lod.h5").read_bytes() == (tmp_path / "t.lod.h5").read_bytes()


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_blocks_gathered_from_memory_give_what_one_gather_gives(
    number: int, in_order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor, level = CASES[number]
    array, index_map = TensorArray.unpack(tensor, level, not in_order)
    for module in (unpacking, packing):
        monkeypatch.setattr(module, "BATCH_BYTES", 300)
    found = unpacked_in_memory(schema_of({"data": tensor})[0], tensor, level, in_order=in_order)
    assert found.array.identical(array)
    assert found.index_map == index_map
    spec, batches = packed_in_memory(StoredArray(array, index_map), "data")
    io.write_batches(tmp_path / "back.lod.h5", (spec,), batches)
    io.write(tmp_path / "t.lod.h5", tensor)
    assert (tmp_path / "back.lod.h5").read_bytes() == (tmp_path / "t.lod.h5").read_bytes()


def test_blocks_gathered_from_memory_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (unpacking, packing):
        monkeypatch.setattr(module, "BATCH_BYTES", 160)
    tensor = LoDTensor(np.arange(36.0), [[1, 2, 3, 30]])
    found = unpacked_in_memory(schema_of({"data": tensor})[0], tensor, 0, in_order=False)
    # Of 8 bytes a row, and 8 for its place in an index.
    assert [len(block) for block in found.blocks()] == [10, 10, 10, 6]
    _, batches = packed_in_memory(StoredArray(found.array, found.index_map), "data")
    assert [batch["data"].lod.lengths(0).tolist() for batch in batches] == [[1, 2, 3], [30]]


def test_reading_steps_gathers_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = StoredArray(*TensorArray.unpack(example(2, 1), 0))
    io.write(tmp_path / "s.lod.h5", stored)
    monkeypatch.delattr(time_steps, "taken")
    found = io.read(tmp_path / "s.lod.h5")
    assert isinstance(found, StoredArray)
    assert found.array.identical(stored.array)


def test_chunks_are_as_large_as_allowed_and_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_LIMIT_BYTES", 10 * (8 + buckets.ITEM_BYTES))
    tensor = LoDTensor(np.arange(36.0), [[1, 2, 3, 30]])
    _, index_map = TensorArray.unpack(tensor, -1)
    steps = Steps(index_map, index_map.step_sizes, 8)
    found = [(one.start, one.stop) for one in steps.chunks()]
    # Steps of 4, 3, 2 and then 1 item.
    assert found == [(0, 4), (4, 14), (14, 24), (24, 30)]
    wide = LoDTensor(np.arange(50.0), [[2] * 25])
    _, index_map = TensorArray.unpack(wide, -1)
    steps = Steps(index_map, index_map.step_sizes, 8)
    parts = [(one.start, one.ranks.size) for one in steps.chunks()]
    assert parts == [(0, 9), (0, 9), (0, 7), (1, 9), (1, 9), (1, 7)]


def test_steps_of_another_map_are_refused(tmp_path: Path) -> None:
    one = LoDTensor(np.arange(9.0), [[4, 2, 3]])
    array, index_map = TensorArray.unpack(one)
    io.write(tmp_path / "s.lod.h5", StoredArray(array, index_map))
    with source_of(tmp_path / "s.lod.h5") as file:
        source = in_place(file, ["data"])
        assert isinstance(source, ContainerSource)
        steps = source.lods["data"]
        other = LoD([[0, 2, 5, 7, 9]], steps.names)
        source.lods = {"data": other}
        with pytest.raises(LodError, match="step 0 does not have the items its index map"):
            packed(source, "data")
