"""Reading to a GPU, with a cupy whose copies happen as late as its streams allow."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoD, LoDTensor
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.options import WriteOptions
from lodcli.kernels.errors import OptionError, UnsupportedError
from tests.device_arrays import DeviceArray

BLOCK_BYTES = 1 << 12


class _Event:
    def __init__(self, stream: _Stream) -> None:
        self.stream, self.place = stream, len(stream.queue)

    def synchronize(self) -> None:
        self.stream.run(self.place)


class _Stream:
    """A queue of copies, each made when somebody waits for it and not before."""

    def __init__(self, non_blocking: bool = False) -> None:
        self.queue: list[Any] = []
        self.done = 0
        self.awaited: list[_Event] = []

    def run(self, stop: int) -> None:
        for copy in self.queue[self.done : stop]:
            copy()
        self.done = max(self.done, stop)

    def record(self) -> _Event:
        return _Event(self)

    def wait_event(self, event: _Event) -> None:
        self.awaited.append(event)

    def synchronize(self) -> None:
        self.run(len(self.queue))


class _Array(DeviceArray):
    def __getitem__(self, key: Any) -> Any:
        return _Array(self.host[key])

    def set(self, rows: Any, stream: _Stream) -> None:
        assert rows.shape == self.host.shape
        assert rows.dtype == self.host.dtype
        assert rows.flags.c_contiguous
        assert stream.awaited, "copied into memory that others may still use"
        stream.queue.append(lambda: np.copyto(self.host, rows))


class _Fake:
    """A fake of cupy that counts its allocations."""

    def __init__(self) -> None:
        self.pinned: list[int] = []
        self.streams: list[_Stream] = []
        self.current = _Stream()
        self.__spec__ = ModuleSpec("cupy", None)
        runtime = SimpleNamespace(getDevice=lambda: 0, getDeviceCount=lambda: 1)
        self.cuda = SimpleNamespace(
            Device=lambda number: self,
            Stream=self.stream,
            alloc_pinned_memory=self.allocate,
            get_current_stream=lambda: self.current,
            runtime=runtime,
        )

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def empty(self, shape: Any, dtype: Any) -> _Array:
        garbage = np.empty(shape, dtype)
        garbage.view("u1").fill(0xA5) if garbage.nbytes else None
        return _Array(garbage)

    def stream(self, non_blocking: bool = False) -> _Stream:
        self.streams.append(_Stream(non_blocking))
        return self.streams[-1]

    def allocate(self, size_bytes: int) -> bytearray:
        self.pinned.append(size_bytes)
        return bytearray(size_bytes)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> _Fake:
    fake = _Fake()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    for name in ("lodcli.formats.gpu.staging", "lodcli.kernels.cuda.transfer"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    staging = importlib.import_module("lodcli.formats.gpu.staging")
    monkeypatch.setattr(staging, "_BLOCK_BYTES", BLOCK_BYTES)
    return fake


def _tensor(dtype: str, row_shape: tuple[int, ...], lengths: list[int]) -> LoDTensor:
    generator = np.random.default_rng(3)
    rows = generator.integers(0, 2 if dtype == "bool" else 100, (sum(lengths), *row_shape))
    return LoDTensor(rows.astype(dtype), [[len(lengths)], lengths])


CASES = [
    ("float32", (5,), [700, 0, 1, 1300, 0]),
    ("bool", (), [4096, 1]),
    ("complex128", (2, 3), [100]),
    ("int64", (0,), [3, 4]),
    ("uint8", (), []),
    ("float64", (5000,), [2, 1]),
]


@pytest.mark.parametrize(("dtype", "row_shape", "lengths"), CASES)
@pytest.mark.parametrize("name", ["x.lod.h5", "x.npz", "x.lods"])
def test_rows_are_those_of_the_file(
    name: str,
    dtype: str,
    row_shape: tuple[int, ...],
    lengths: list[int],
    gpu: _Fake,
    tmp_path: Path,
) -> None:
    tensor = _tensor(dtype, row_shape, lengths)
    lodcli.write(tmp_path / name, tensor)
    found: Any = lodcli.read(tmp_path / name, device="cuda")
    assert found.lod == tensor.lod
    assert isinstance(found.data, DeviceArray)
    assert found.data.dtype == tensor.dtype
    np.testing.assert_array_equal(found.data.host, tensor.data)
    # Two buffers, each of a block or of one row where that is more; none of the whole.
    most = max(BLOCK_BYTES, tensor.data[:1].nbytes)
    assert len(gpu.pinned) <= 2
    if name != "x.lod.h5":  # a block has one checksum
        assert all(size <= most for size in gpu.pinned)


def test_a_compressed_container_goes_there_too(gpu: _Fake, tmp_path: Path) -> None:
    tensor = _tensor("float32", (64,), [1000, 0, 3000])
    path = tmp_path / "x.lod.h5"
    lodcli.write(path, tensor, options=WriteOptions(compression="deflate"))
    found: Any = lodcli.read(path, device="cuda")
    np.testing.assert_array_equal(found.data.host, tensor.data)
    assert len(gpu.streams[0].queue) > 2
    assert len(gpu.pinned) == 2


def test_damage_is_found_and_nothing_returned(gpu: _Fake, tmp_path: Path) -> None:
    path = tmp_path / "x.lod.h5"
    tensor = _tensor("int64", (64,), [3000])
    lodcli.write(path, tensor)
    content = bytearray(path.read_bytes())
    content[content.index(tensor.data[2000].tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="checksum does not match"):
        lodcli.read(path, device="cuda:0")
    assert gpu.streams[0].done == len(gpu.streams[0].queue), "copies go on from freed buffers"


def test_a_time_step_array_stays_in_main_memory(gpu: _Fake, tmp_path: Path) -> None:
    array, index_map = lodcli.TensorArray.unpack(_tensor("int64", (), [2, 3]), 1)
    path = tmp_path / "x.lod.h5"
    lodcli.write(path, lodcli.StoredArray(array, index_map))
    with pytest.raises(UnsupportedError, match="TensorArray"):
        lodcli.read(path, device="cuda")


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "x.lod.h5"
    lodcli.write(path, LoDTensor(np.zeros(2), LoD()))
    with pytest.raises(OptionError, match="expected cpu, cuda or cuda:N, found 'gpu'"):
        lodcli.read(path, device="gpu")
