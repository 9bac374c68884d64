"""Limits on the decompressed size: checked from declared sizes, or counted while reading."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.bounds import DEFAULT_BYTES, default_bytes
from lodcli.formats.core.errors import TooLargeError
from lodcli.formats.core.limits import Limits
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.every_file import SAMPLES
from tests.formats.cases.opening import source_of, tensor_in

# 12 rows of 8 bytes, and 4 offsets of 8 bytes.
TENSOR = LoDTensor(np.arange(12), LoD.from_lengths([[3, 4, 5]]))
ROW_BYTES, INDEX_BYTES = 96, 32
TOTAL = ROW_BYTES + INDEX_BYTES
NAMES = ("t.lod.h5", "t.lods", "t.npz", "t.jsonl")


# The fewest bytes that must be allowed, and the call.
WAYS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "index": (INDEX_BYTES, lambda source: source.read_index("data")),
    "parts of the index": (INDEX_BYTES, lambda source: list(source.index_parts("data"))),
    "blocks": (TOTAL, lambda source: list(_blocks(source))),
    "stored rows": (TOTAL, lambda source: source.stored_rows("data") or list(_blocks(source))),
    "slice": (INDEX_BYTES, lambda source: source.slice("data", (1,))),
}


def _blocks(source: Any) -> Iterator[Any]:
    found = source.row_blocks("data", lambda size: np.empty(size, np.uint8), 1 << 20)
    return iter(found.blocks)


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a file of TENSOR, of several formats."""
    written: Path = tmp_path / request.param
    io.write(written, TENSOR)
    return written


def _read(path: Path, max_bytes: int) -> LoDTensor:
    return tensor_in(path, limits=Limits(max_bytes))


def test_a_tensor_as_large_as_the_limit_is_read(path: Path) -> None:
    assert _read(path, TOTAL).identical(TENSOR)


def test_one_byte_less_is_refused(path: Path) -> None:
    with pytest.raises(TooLargeError, match=rf"{path.name}: .* at most {TOTAL - 1} .*limits="):
        _read(path, TOTAL - 1)


def test_batches_are_refused_as_well(path: Path) -> None:
    with (
        pytest.raises(TooLargeError, match="at most"),
        lodcli.open(path, limits=Limits(TOTAL - 1)) as source,
    ):
        list(source.batches())


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_read_is_limited(way: str, path: Path) -> None:
    most, read = WAYS[way]
    with source_of(path, limits=Limits(most - 1)) as source, pytest.raises(TooLargeError):
        read(source)
    with source_of(path, limits=Limits(TOTAL)) as source:
        read(source)


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_a_slice_counts_only_what_it_takes(compression: str | None, tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    io.write(path, TENSOR, compression=compression)
    with lodcli.open(path, limits=Limits(INDEX_BYTES)) as source:
        assert source.read_index("data") == TENSOR.lod
        np.testing.assert_array_equal(source.slice("data", (1,)).data, [3, 4, 5, 6])
        with pytest.raises(TooLargeError, match="has in this slice 40 bytes"):
            source.slice("data", (2,))
    with (
        pytest.raises(TooLargeError, match="declares an index of 32 bytes"),
        lodcli.open(path, limits=Limits(INDEX_BYTES - 1)) as source,
    ):
        source.slice("data", (1,))


def test_one_tensor_of_several_counts_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    io.write(path, {"a": TENSOR, "b": TENSOR})
    with lodcli.open(path, limits=Limits(TOTAL)) as source:
        assert list(source.read(["b"])) == ["b"]
        with pytest.raises(TooLargeError, match=f"declares {2 * TOTAL} bytes"):
            source.read()


def test_the_default_grows_with_what_is_stored(tmp_path: Path) -> None:
    assert default_bytes(10 << 20) == 1100 * (10 << 20)
    assert default_bytes(3) == DEFAULT_BYTES


def test_the_stored_bytes_of_a_pipe_are_unknown(tmp_path: Path) -> None:
    kind = table.get("jsonl")
    (tmp_path / "f").write_bytes(b"12345")
    with Input(tmp_path / "f") as source:
        assert kind.stored_bytes(source) == 5
    reading, writing = os.pipe()
    os.close(writing)
    with Input.of_raw(open(reading, "rb", 0), "a pipe") as source:
        assert kind.stored_bytes(source) is None


@pytest.mark.parametrize("size", ["1M", -1, 1.5])
def test_a_limit_is_a_number_of_bytes(size: Any) -> None:
    with pytest.raises(OptionError, match="max_bytes: expected a number of bytes, found"):
        Limits(size)
    with pytest.raises(OptionError, match=r"limits: expected lodcli.formats.Limits, found"):
        io.read(SAMPLES / "events.jsonl", limits=size)


def test_rows_without_values_count_as_one_byte(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.zeros((10**13, 0)))  # a file of 128 bytes
    said = r"declares \(a row without values counts as one\) 10{13} bytes, at most 1073741824"
    with lodcli.open(tmp_path / "t.npy") as source, pytest.raises(TooLargeError, match=said):
        next(iter(source.batches()))
