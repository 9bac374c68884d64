"""Rows that kvikio reads: the same rows and errors as without it.

Runs where cupy, kvikio and a GPU are, or with the stand-ins that tests/cuda/run.sh puts in place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import h5py
import ml_dtypes
import numpy as np
import pytest

import lodcli
from lodcli import LoD, LoDTensor
from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.formats.core.format import StoredRows
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import WriteOptions
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from tests.formats.broken.crafted import edit

cupy: Any = pytest.importorskip("cupy")
kvikio: Any = pytest.importorskip("kvikio")
pytestmark = pytest.mark.gpu

PIECE_BYTES = 1 << 12


class Watch:
    """Records the calls of kvikio, and changes their results.

    Attributes:
        reads: bytes of each read.
        pages: address minus file offset of each read, modulo a page.
        files: all opened files.
        waiting: reads whose `get` was not called.
        opening: called before a file is opened.
        given: function of the number of bytes read, which returns the number to report.
    """

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.pages: list[int] = []
        self.files: list[Any] = []
        self.waiting: set[_Future] = set()
        self.opening: Callable[[], None] = lambda: None
        self.given: Callable[[int], int] = lambda done: done


class _Future:
    def __init__(self, future: Any, watch: Watch) -> None:
        self._future, self._watch = future, watch

    def get(self) -> int:
        self._watch.waiting.discard(self)
        return self._watch.given(self._future.get())


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    seen = Watch()

    class Watched(kvikio.CuFile):  # type: ignore[misc]
        def __init__(self, file: str, flags: str = "r") -> None:
            seen.opening()
            super().__init__(file, flags)
            seen.files.append(self)

        def pread(self, buf: Any, *, file_offset: int) -> Any:
            seen.reads.append(buf.nbytes)
            seen.pages.append((buf.data.ptr - file_offset) % 4096)
            future = _Future(super().pread(buf, file_offset=file_offset), seen)
            seen.waiting.add(future)
            return future

    from lodcli.formats.gpu import kvikio as ours

    monkeypatch.setattr(ours, "PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(kvikio, "CuFile", Watched)
    return seen


def written(path: Path, rows: Any, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> LoDTensor:
    """Write rows with a checksum for each block of this many bytes."""
    from lodcli.formats.container import checksums

    monkeypatch.setattr(checksums, "BLOCK_BYTES", block_bytes)
    lengths = [len(rows) // 3, 0, len(rows) - len(rows) // 3]
    tensor = LoDTensor(rows, [[2, 1], lengths])
    lodcli.write(path, tensor)
    return tensor


def random(dtype: Any, *shape: int) -> Any:
    drawn = np.random.default_rng(5).integers(0, 2 if dtype is np.bool_ else 100, shape)
    return drawn.astype(dtype)


CASES = [
    (np.float32, (2000, 5), 512),
    (np.bool_, (9001,), 1000),
    (np.complex128, (100, 2, 3), 1 << 18),
    (ml_dtypes.bfloat16, (61,), 3),
    (np.uint8, (3 * PIECE_BYTES, 3), 4096),
    (np.float64, (3, 5000), 100),
    (np.int64, (1,), 1 << 18),
]


@pytest.mark.parametrize(("dtype", "shape", "block_bytes"), CASES)
def test_rows_are_those_of_the_file(
    dtype: Any,
    shape: tuple[int, ...],
    block_bytes: int,
    watch: Watch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "x.lod.h5"
    tensor = written(path, random(dtype, *shape), block_bytes, monkeypatch)
    found: Any = lodcli.read(path, device="cuda")
    assert isinstance(found.data, cupy.ndarray)
    assert found.data.dtype == tensor.dtype
    assert found.lod == tensor.lod
    assert found.data.get().tobytes() == tensor.data.tobytes()
    assert sum(watch.reads) == tensor.data.nbytes
    assert set(watch.pages) == {0}
    assert found.data.data.ptr % 16 == 0
    assert not watch.waiting
    assert all(file.closed for file in watch.files)


def test_rows_at_an_odd_position_in_the_file_are_aligned_on_the_device(
    watch: Watch, tmp_path: Path
) -> None:
    from lodcli.formats.gpu.kvikio import read_stored

    rows, seen = random(np.float64, 3000, 2), []
    (tmp_path / "x").write_bytes(b"0123456789012" + rows.tobytes())
    with (tmp_path / "x").open("rb") as file:
        stored = StoredRows(
            lod=LoD(),
            rows=3000,
            fd=file.fileno(),
            offset=13,
            block_bytes=16 * 1000,
            check=lambda sums, highest: seen.append((sums.tolist(), highest)),
        )
        found: Any = read_stored(stored, (2,), rows.dtype)
    assert found.data.data.ptr % 16 == 0
    np.testing.assert_array_equal(found.data.get(), rows)
    blocks = [rows[first : first + 1000].tobytes() for first in (0, 1000, 2000)]
    assert seen == [([google_crc32c.value(block) for block in blocks], 0)]


def errors(path: Path) -> tuple[LodError, LodError]:
    """Return the errors of reading to main memory, and of reading to a GPU."""
    raised = []
    for device in ("cpu", "cuda"):
        with pytest.raises(LodError) as error:
            lodcli.read(path, device=device)
        raised.append(error.value)
    return raised[0], raised[1]


def test_a_damaged_block_is_refused_in_the_same_words(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lod.h5"
    tensor = written(path, random(np.int64, 3000, 2), 1000, monkeypatch)
    right = path.read_bytes()
    begin = right.index(tensor.data.tobytes())
    for row in (0, 61, 62, 2999):
        wrong = bytearray(right)
        wrong[begin + 16 * row + 5] ^= 1
        path.write_bytes(wrong)
        here, there = errors(path)
        assert type(there) is type(here) is DamagedFileError
        block = row // 62 * 62
        assert str(there) == str(here)
        assert str(there).startswith(
            f"{path}: /data: rows {block} to {min(block + 61, 2999)} were altered"
        )
    assert len(watch.files) == 4
    assert not watch.waiting


def test_a_boolean_that_is_none_is_refused_in_the_same_words(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lod.h5"
    written(path, random(np.bool_, 5000), 1 << 18, monkeypatch)

    def two(file: h5py.File, header: dict[str, Any]) -> None:
        values = file["/data"][()].view(np.int8)
        values[3] = 2
        dataset = file["/data"].id
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values, dataset.get_type())

    edit(path, two, ["/data"])
    here, there = errors(path)
    assert type(there) is type(here) is InvalidDataError
    assert str(there) == str(here)
    assert "0 or 1" in str(there)
    assert watch.reads


def test_a_file_that_is_cut_while_it_is_read_is_refused(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lod.h5"
    tensor = written(path, random(np.int32, 8000), 4000, monkeypatch)
    end = path.read_bytes().index(tensor.data.tobytes()) + tensor.data.nbytes
    watch.opening = lambda: os.truncate(path, end - 10)
    with pytest.raises(DamagedFileError, match=r"x\.lod\.h5: /data: the file ended 10 bytes early"):
        lodcli.read(path, device="cuda")
    assert not watch.waiting
    assert all(file.closed for file in watch.files)


def test_a_file_that_is_replaced_while_it_is_read_is_still_the_one_opened(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "x.lod.h5", tmp_path / "y.lod.h5"
    tensor = written(path, random(np.int32, 8000), 4000, monkeypatch)
    written(other, random(np.int32, 8000) + 1, 4000, monkeypatch)
    watch.opening = lambda: os.replace(other, path)
    found: Any = lodcli.read(path, device="cuda")
    np.testing.assert_array_equal(found.data.get(), tensor.data)
    assert sum(watch.reads) == tensor.data.nbytes


@pytest.mark.parametrize("failing", ["short", "error"])
def test_bytes_that_kvikio_cannot_read_are_read_without_it(
    failing: str, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lod.h5"
    tensor = written(path, random(np.int32, 20000), 4000, monkeypatch)

    def given(done: int) -> int:
        if len(watch.reads) < 6:
            return done
        if failing == "short":
            return done - 1
        raise RuntimeError("cuFile error: 5030")

    watch.given = given
    found: Any = lodcli.read(path, device="cuda")
    assert isinstance(found.data, cupy.ndarray)
    np.testing.assert_array_equal(found.data.get(), tensor.data)
    assert sum(watch.reads) < tensor.data.nbytes
    assert not watch.waiting
    assert all(file.closed for file in watch.files)


def test_an_interruption_leaves_no_read_under_way(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lod.h5"
    written(path, random(np.int32, 20000), 4000, monkeypatch)
    from lodcli.formats.gpu import kvikio as ours

    def interrupted(piece: Any, block_bytes: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ours, "block_crc32c", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lodcli.read(path, device="cuda")
    assert len(watch.reads) > 1
    assert not watch.waiting
    assert all(file.closed for file in watch.files)


def test_other_files_are_read_by_the_cpu(watch: Watch, tmp_path: Path) -> None:
    tensor = LoDTensor(random(np.float32, 3000, 8), [[1000, 2000]])
    packed = tmp_path / "packed.lod.h5"
    lodcli.write(packed, tensor, options=WriteOptions(compression="deflate"))
    empty, flat = tmp_path / "empty.lod.h5", tmp_path / "x.npz"
    lodcli.write(empty, LoDTensor(np.zeros((0, 3)), [[0, 0]]))
    lodcli.write(flat, tensor)
    for path in (packed, empty, flat):
        found: Any = lodcli.read(path, device="cuda")
        assert isinstance(found.data, cupy.ndarray)
        np.testing.assert_array_equal(found.data.get(), lodcli.read(path).data)
    array, index_map = lodcli.TensorArray.unpack(tensor, 0)
    lodcli.write(tmp_path / "array.lod.h5", lodcli.StoredArray(array, index_map))
    with pytest.raises(UnsupportedError, match="TensorArray"):
        lodcli.read(tmp_path / "array.lod.h5", device="cuda")
    assert not watch.files


def test_without_kvikio_the_rows_are_the_same(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.formats.gpu import staging

    monkeypatch.setattr(staging, "find_spec", lambda name: None)
    tensor = LoDTensor(random(np.float32, 3000, 8), [[1000, 2000]])
    lodcli.write(tmp_path / "x.lod.h5", tensor)
    found: Any = lodcli.read(tmp_path / "x.lod.h5", device="cuda")
    np.testing.assert_array_equal(found.data.get(), tensor.data)
    assert not watch.files


def test_no_more_is_read_than_is_allowed(watch: Watch, tmp_path: Path) -> None:
    from lodcli.formats.gpu.staging import read_to_gpu

    path = tmp_path / "x.lod.h5"
    lodcli.write(path, LoDTensor(np.zeros(1000), [[1000]]))
    with (
        pytest.raises(TooLargeError, match="at most 100 are allowed"),
        lodcli.open(path, limits=Limits(max_bytes=100)) as source,
    ):
        read_to_gpu(source, "data", -1)
    assert not watch.files
