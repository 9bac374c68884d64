"""The container: round trips, and reading with any HDF5 tool."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.container import chunks
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, Item, StoredArray, schema_of
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.writing import uncounted
from tests.growth import calls_of, lines_of
from tests.sampling import many
from tests.strategies import BFLOAT16, DTYPES, random_values, tensors

ROOT = Path(__file__).parents[3]
CODECS = (None, "deflate", "lz4", "zstd")
ARTICLES = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "größe"])
# One folder serves all examples: each replaces the file of the one before.
EXAMPLES = settings(
    max_examples=many(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(params=CODECS, ids=str)
def codec(request: pytest.FixtureRequest) -> str | None:
    """Give every codec there is, and none."""
    if request.param in ("lz4", "zstd"):
        pytest.importorskip("hdf5plugin")
    found: str | None = request.param
    return found


def write(path: Path, content: Item | Mapping[str, Item], codec: str | None = None) -> Path:
    io.write(path, content, overwrite=True, compression=codec)
    return path


def read(path: Path, name: str | None = None) -> LoDTensor:
    return io.read(path, name)


@EXAMPLES
@given(tensor=tensors(any_bits=True))
def test_a_tensor_comes_back_bit_by_bit(
    tensor: LoDTensor, tmp_path: Path, codec: str | None
) -> None:
    assert read(write(tmp_path / "t.lod.h5", tensor, codec)).identical(tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_several_blocks_come_back(dtype: np.dtype[Any], tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    rows = random_values(generator, (350_001, 3), dtype, any_bits=True)
    # Runs compress, random bits do not: HDF5 then skips the filter for a chunk.
    rows[:200_000] = rows[0]
    tensor = LoDTensor(rows, LoD.from_lengths([[0, 350_000, 1]]))
    for compression in (None, "deflate"):
        path = write(tmp_path / f"{compression}.lod.h5", tensor, compression)
        assert read(path).identical(tensor)
    assert path.stat().st_size < rows.nbytes


@EXAMPLES
@given(parts=st.lists(tensors(max_levels=2), min_size=1, max_size=4))
def test_several_tensors_come_back(
    parts: list[LoDTensor], tmp_path: Path, codec: str | None
) -> None:
    content = dict(zip(("data", "a.b", "Größe", "x+y_z-1"), parts, strict=False))
    found = io.read_all(write(tmp_path / "t.lod.h5", content, codec))
    assert list(found) == list(content)
    for name, tensor in content.items():
        assert found[name].identical(tensor)


@EXAMPLES
@given(tensor=tensors(min_levels=1), level=st.integers(0, 2), by_length=st.booleans())
def test_a_tensor_array_comes_back(
    tensor: LoDTensor, level: int, by_length: bool, tmp_path: Path, codec: str | None
) -> None:
    level = min(level, tensor.lod.n_levels - 1)
    stored = StoredArray(*TensorArray.unpack(tensor, level, by_length))
    found = io.read(write(tmp_path / "t.lod.h5", {"data": tensor, "steps": stored}, codec), "steps")
    assert isinstance(found, StoredArray)
    assert found.array.identical(stored.array)
    assert found.index_map == stored.index_map
    assert found.array.pack(found.index_map.level, found.index_map).identical(tensor)


def test_shared_levels_are_stored_once_and_shared_again(tmp_path: Path) -> None:
    upper = LoD(ARTICLES.levels[:1], ["article"])
    content: dict[str, Item] = {
        "data": LoDTensor(np.arange(15), ARTICLES),
        "tags": LoDTensor(np.arange(15, dtype=np.uint8), ARTICLES),
        "titles": LoDTensor(np.arange(6.0), upper),
        "others": LoDTensor(np.arange(15), LoD([level.copy() for level in ARTICLES.levels])),
    }
    path = write(tmp_path / "t.lod.h5", content)
    with h5py.File(path) as file:
        assert sorted(file) == ["data", "header", "index", "others", "tags", "titles"]
        assert list(file["tags"]) == list(file["titles"]) == ["data"]
        assert sorted(file["others/index"]) == ["0", "1"]
    found: dict[str, Any] = io.read_all(path)
    assert found["tags"].lod is found["data"].lod
    assert found["titles"].lod.levels[0] is found["data"].lod.levels[0]
    assert found["others"].lod.levels[0] is not found["data"].lod.levels[0]
    assert all(found[name].identical(tensor) for name, tensor in content.items())
    # What was read shares as much when it is written again.
    assert write(tmp_path / "again.lod.h5", found).read_bytes() == path.read_bytes()


def test_shared_levels_may_have_other_names(tmp_path: Path) -> None:
    renamed = ARTICLES.with_names(["page", None])
    content = {
        "data": LoDTensor(np.arange(15), ARTICLES),
        "more": LoDTensor(np.arange(15), renamed),
    }
    found = io.read_all(write(tmp_path / "t.lod.h5", content))
    assert found["data"].lod.names == ("article", "größe")
    assert found["more"].lod.names == ("page", None)
    assert found["more"].lod.levels[0] is found["data"].lod.levels[0]


def test_the_same_tensors_give_the_same_bytes(tmp_path: Path, codec: str | None) -> None:
    tensor = LoDTensor(np.arange(30, dtype=np.float32).reshape(15, 2), ARTICLES)
    content: dict[str, Item] = {
        "data": tensor,
        "steps": StoredArray(*TensorArray.unpack(tensor)),
        "flags": LoDTensor(np.arange(15) % 3 == 0, ARTICLES),
    }
    first = write(tmp_path / "a.lod.h5", content, codec).read_bytes()
    time.sleep(1.1)  # HDF5 would keep times to the second
    assert write(tmp_path / "b.lod.h5", content, codec).read_bytes() == first


def test_memory_does_not_leak_into_the_last_chunk(tmp_path: Path) -> None:
    np.full(1 << 18, 0x5A, np.uint8)  # what lies about in freed memory
    rows = np.zeros((1 << 18) + 5, np.uint8)
    rows[-5:] = [0, 1, 2, 3, 4]
    path = write(tmp_path / "t.lod.h5", LoDTensor(rows), "deflate")
    with h5py.File(path) as file:
        _, packed = file["data"].id.read_direct_chunk((1 << 18,))
    assert zlib.decompress(packed) == bytes([0, 1, 2, 3, 4]).ljust(1 << 18, b"\0")


@pytest.mark.parametrize("counted", [True, False])
def test_few_compressed_rows_are_one_chunk_of_their_size(counted: bool, tmp_path: Path) -> None:
    content = {
        "few": LoDTensor(np.arange(5.0), [[2, 3]]),
        "none": LoDTensor(np.zeros((0, 2))),
        "many": LoDTensor(np.arange(40_000.0)),
        "whole": LoDTensor(np.arange(1 << 15)),
    }
    schema = schema_of(content) if counted else uncounted(schema_of(content))
    path = tmp_path / "t.lod.h5"
    io.write_batches(path, schema, [content], options=WriteOptions(compression="deflate"))
    with h5py.File(path) as file:
        found = {name: file[name]["data"].chunks for name in content}
        assert file["few/index/0"].chunks == (3,)
        np.testing.assert_array_equal(file["many/data"], np.arange(40_000.0))
    assert found == {"few": (5,), "none": (1, 2), "many": (1 << 15,), "whole": (1 << 15,)}
    for name, item in io.read_all(path).items():
        assert item.identical(content[name])


@pytest.mark.parametrize(
    "shape", [(5, 0), (1 << 18, 0, 4096), (3, 0, 70_000, 70_000), (2, 0, 5 << 30)]
)
def test_rows_without_bytes_are_not_compressed(
    shape: tuple[int, ...], tmp_path: Path, codec: str | None
) -> None:
    tensor = LoDTensor(np.empty(shape), [[shape[0]]])
    path = write(tmp_path / "t.lod.h5", tensor, codec)
    assert read(path).identical(tensor)
    with h5py.File(path) as file:
        assert (file["data"].shape, file["data"].chunks) == (shape, None)


@pytest.mark.parametrize("rows", [np.zeros(3_000_000, np.uint8), np.ones((2, 8 << 20), np.int8)])
def test_equal_numbers_are_compressed(rows: Array, tmp_path: Path, codec: str | None) -> None:
    path = write(tmp_path / "t.lod.h5", LoDTensor(rows), codec)
    assert read(path).identical(LoDTensor(rows))


@pytest.mark.parametrize("count", [64, 65, 64 * 64 + 1])
def test_hdf5_finds_each_of_many_chunks(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.formats.container.checksums.BLOCK_BYTES", 32)
    rows = np.arange(4 * count - 1)
    path = write(tmp_path / "t.lod.h5", LoDTensor(rows), "deflate")
    assert read(path).identical(LoDTensor(rows))
    with h5py.File(path) as file:
        assert file["data"].id.get_num_chunks() == count
        np.testing.assert_array_equal(file["data"], rows)


@pytest.mark.parametrize("count", [7, 8, 300, 9_000])
def test_hdf5_finds_each_of_many_names(count: int, tmp_path: Path) -> None:
    """In leaves, one node and trees of two or three levels."""
    content = {f"größe {n}": LoDTensor(np.array([n])) for n in range(count)}
    path = write(tmp_path / "t.lod.h5", content)
    with h5py.File(path) as file:
        assert len(file) == count + 1
        for number in range(0, count, max(1, count // 200)):
            assert file[f"größe {number}/data"][0] == number
        assert sorted(file) == sorted(["header", *content])


@pytest.mark.parametrize("form", ["lod.h5", "lod.dataset"])
def test_the_longest_name_has_255_bytes(form: str, tmp_path: Path) -> None:
    tensor, longest = LoDTensor(np.arange(3), [[1, 2]]), "é" * 127 + "z"
    io.write(tmp_path / "t", {longest: tensor, "b": tensor}, format_name=form)
    assert io.read_all(tmp_path / "t")[longest].identical(tensor)
    said = f"{longest}z: this name has 256 bytes in UTF-8, {form} holds names of at most 255"

    def unread() -> Iterator[Batch]:
        pytest.fail("the name is refused first")
        yield {}

    schema = schema_of({f"{longest}z": tensor, "b": tensor})
    with pytest.raises(UnsupportedError, match=said):
        io.write_batches(tmp_path / "none", schema, unread(), format_name=form)
    assert os.listdir(tmp_path) == ["t"]


def test_hdf5_can_change_a_copy(tmp_path: Path, codec: str | None) -> None:
    """Nodes of its trees are full, and are divided."""
    content = {f"t{n}": LoDTensor(np.arange(n), [[n]]) for n in range(300)}
    path = write(tmp_path / "t.lod.h5", content, codec)
    with h5py.File(path, "r+") as file:
        file["a/data"] = np.arange(3)
        file["t7/more"] = np.arange(4)
        del file["t8"]
        file["t9/data"][2] = 5
    with h5py.File(path) as file:
        assert len(file) == 301
        assert file["t9/data"][()].tolist() == [0, 1, 5, 3, 4, 5, 6, 7, 8]
        np.testing.assert_array_equal(file["t299/data"], np.arange(299))
    assert "t299" in _said("h5ls", str(path))


# -- other tools -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("compression", [None, "deflate"])
def test_h5py_reads_the_same_arrays(
    dtype: np.dtype[Any], compression: str | None, tmp_path: Path
) -> None:
    rows = random_values(np.random.default_rng(1), (15, 2), dtype)
    path = write(tmp_path / "t.lod.h5", LoDTensor(rows, ARTICLES), compression)
    with h5py.File(path) as file:
        found = file["data"][()]
        offsets = [file["index/0"][()], file["index/1"][()]]
        assert not file.attrs
    if dtype != BFLOAT16:  # which h5py gives as the next larger float
        assert found.dtype == dtype
    assert found.astype(dtype).tobytes() == rows.tobytes()
    for level, expected in zip(offsets, ARTICLES.levels, strict=True):
        assert level.dtype == np.int64
        np.testing.assert_array_equal(level, expected)


def _said(*command: str) -> str:
    if not shutil.which(command[0]):
        pytest.skip(f"needs {command[0]}")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_h5ls_shows_the_layout(tmp_path: Path) -> None:
    tensor = LoDTensor(np.zeros((15, 2), np.float32), ARTICLES)
    path = write(
        tmp_path / "t.lod.h5", {"data": tensor, "tags": LoDTensor(np.arange(15), ARTICLES)}
    )
    lines = [line.split(maxsplit=1) for line in _said("h5ls", "-r", str(path)).splitlines()]
    assert lines == [
        ["/", "Group"],
        ["/data", "Dataset {15, 2}"],
        ["/header", "Dataset {SCALAR}"],
        ["/index", "Group"],
        ["/index/0", "Dataset {4}"],
        ["/index/1", "Dataset {7}"],
        ["/tags", "Group"],
        ["/tags/data", "Dataset {15}"],
    ]


def test_h5dump_shows_types_and_header(tmp_path: Path) -> None:
    flags = LoDTensor(np.zeros(15, np.bool_), ARTICLES)
    waves = LoDTensor(np.zeros(15, np.complex64), ARTICLES)
    path = write(tmp_path / "t.lod.h5", {"flags": flags, "waves": waves})
    structure = _said("h5dump", "-H", str(path))
    assert "ATTRIBUTE" not in structure
    for kind in ("H5T_STD_I64LE", "H5T_STD_I8LE", '"TRUE"', 'H5T_IEEE_F32LE "r"'):
        assert kind in structure
    text = _said("h5dump", "-d", "/header", str(path)).replace("\\", "")
    assert '{"format":"lod","version":1,"tensors":{"flags":{"kind":"tensor"' in text


def test_filters_have_names() -> None:
    """As in files of hdf5plugin: without one, h5repack 1.10 crashes."""
    for codec, code in (("lz4", b"\x04\x7d"), ("zstd", b"\x0f\x7d")):
        message = chunks.filter_message(codec, 8)
        shuffle = b"\2\0\x08\0\1\0\1\0shuffle\0\x08\0\0\0\0\0\0\0"
        assert message[:32] == b"\1\2".ljust(8, b"\0") + shuffle
        assert message[32:] == code + b"\x08\0\0\0\0\0" + codec.encode().ljust(8, b"\0")


@pytest.mark.parametrize("block_bytes", [1000, 4096, 1 << 30])
def test_lz4_divides_a_chunk_into_blocks(
    block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of more than 2 GiB is a chunk that LZ4 cannot compress at once."""
    pytest.importorskip("hdf5plugin")
    monkeypatch.setattr(chunks, "LZ4_BLOCK_BYTES", block_bytes)
    rows = np.random.default_rng(0).integers(0, 256, (3, 9000)).astype(np.uint8)
    rows[1, 1000:] = 0  # compressible, beside blocks that are not
    path = write(tmp_path / "t.lod.h5", LoDTensor(rows), "lz4")
    with h5py.File(path) as file:
        _, raw = file["data"].id.read_direct_chunk((0, 0))
        total, found = int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:12], "big")
        assert found == min(block_bytes, total)
        np.testing.assert_array_equal(file["data"], rows)
    np.testing.assert_array_equal(read(path).data, rows)


@pytest.mark.parametrize("codec", ["deflate", "lz4", "zstd"])
def test_h5repack_keeps_and_removes_filters(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    monkeypatch.setenv("HDF5_PLUGIN_PATH", hdf5plugin.PLUGIN_PATH)
    rows = np.arange(100_000) // 7
    path = write(tmp_path / "t.lod.h5", {"t": LoDTensor(rows), "data": LoDTensor(rows[:9])}, codec)
    for name, options in (("same", ()), ("plain", ("-f", "NONE"))):
        copy = tmp_path / f"{name}.h5"
        _said("h5repack", *options, str(path), str(copy))
        with h5py.File(copy) as file:
            np.testing.assert_array_equal(file["t/data"], rows)
            np.testing.assert_array_equal(file["data"], rows[:9])
            assert (file["t/data"].id.get_create_plist().get_nfilters() > 0) == (name == "same")


def test_a_file_that_h5py_has_open_is_read(tmp_path: Path) -> None:
    tensor = LoDTensor(np.arange(15), ARTICLES)
    path = write(tmp_path / "t.lod.h5", tensor, "deflate")
    with h5py.File(path), lodcli.open(path) as first:
        with lodcli.open(path) as second:
            assert second.slice("data", (0,)).rows == 9
        assert first.slice("data", (slice(0, 3),)).identical(tensor)


# -- pipes and codecs --------------------------------------------------------------

COPY = """
from lodcli.formats.core import io
from lodcli.formats.core.format import WriteOptions
io.write("-", io.read_all("-"), format_name="lod.h5", compression="deflate")
"""


@pytest.mark.parametrize("first", [1, 7, 5000])
def test_a_container_passes_through_pipes_in_any_portions(first: int, tmp_path: Path) -> None:
    tensor = LoDTensor(np.arange(30, dtype=np.float32).reshape(15, 2), ARTICLES)
    content = write(tmp_path / "t.lod.h5", tensor).read_bytes()
    command = [sys.executable, "-c", COPY]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(content[:first])
        process.stdin.flush()
        time.sleep(0.3)
        process.stdin.write(content[first:])
        process.stdin.close()
        copied = process.stdout.read()
    assert process.returncode == 0
    (tmp_path / "copy.lod.h5").write_bytes(copied)
    assert read(tmp_path / "copy.lod.h5").identical(tensor)


def test_a_codec_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no codec 'rar'; there are: deflate, lz4, zstd"):
        write(tmp_path / "t.lod.h5", LoDTensor(np.arange(3)), "rar")


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("keep", [0, 3, 30, -5])
def test_a_damaged_chunk_of_an_extra_codec_is_refused(
    codec: str, keep: int, tmp_path: Path
) -> None:
    pytest.importorskip("hdf5plugin")
    rows = (256 << 10) // 8  # a full chunk: what lies behind the last row is not checked
    path = write(tmp_path / "t.lod.h5", LoDTensor(np.arange(rows) // 3), codec)
    with h5py.File(path, "r+") as file:
        chunks = file["data"].id
        _, packed = chunks.read_direct_chunk((0,))
        chunks.write_direct_chunk((0,), packed[:keep] + bytes(range(40)))
    with pytest.raises(DamagedFileError, match="/data: "):
        io.read_all(path)


@pytest.mark.parametrize(
    ("rest", "size"),
    [
        # Flags, then a window, a dictionary and the size, as far as the flags say (RFC 8878).
        ("20 05", 5),
        ("60 01 02", 0x0201 + 256),
        ("40 58 01 02", 0x0201 + 256),
        ("81 58 07 04 03 02 01", 0x01020304),
        ("a2 07 07 04 03 02 01", 0x01020304),
        ("e3 07 07 07 07 08 00 00 00 00 00 00 00", 8),
        ("00 58 01 02 03 04", -1),
        ("", -1),
    ],
)
def test_the_size_in_the_header_of_a_zstd_frame(rest: str, size: int) -> None:
    assert chunks._announced_by_zstd(b"\x28\xb5\x2f\xfd" + bytes.fromhex(rest)) == size
    assert chunks._announced_by_zstd(b"\x28\xb5\x2f\xfe" + bytes.fromhex(rest)) == -1


# -- what is written stays readable ------------------------------------------------


@pytest.mark.parametrize("name", ["version1", "version1_deflate"])
def test_a_container_written_by_the_first_version_is_read(name: str) -> None:
    found: dict[str, Any] = io.read_all(ROOT / "tests" / "formats" / "kept" / f"{name}.lod.h5")
    assert list(found) == ["data", "flags", "waves", "brief", "steps"]
    assert found["data"].identical(LoDTensor(np.arange(15, dtype=np.float32) / 2, ARTICLES))
    assert found["flags"].data.tolist() == [True, False] * 7 + [True]
    assert found["waves"].data.tolist() == [complex(0, n) for n in range(15)]
    assert found["brief"].dtype == BFLOAT16
    assert found["brief"].data.astype(int).tolist() == [[2 * n, 2 * n + 1] for n in range(15)]
    # Six sentences of 3, 2, 4, 1, 2 and 3 words: the longest first, then as they came.
    assert found["steps"].index_map.order.tolist() == [2, 0, 5, 1, 4, 3]
    assert found["steps"].array.read(3).data.tolist() == [4]


def test_samples_stay_readable() -> None:
    for path in sorted((ROOT / "samples").glob("*.lod.h5")):
        assert io.read_all(path)


def test_opening_reads_structures_that_lie_together_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.lod.h5"
    io.write(path, LoDTensor(np.arange(200_000), LoD.from_lengths([[150_000, 50_000]])))
    calls = calls_of(monkeypatch, os, "pread")
    fd = os.open(path, os.O_RDONLY)
    ContainerSource(fd, "large").close()
    os.close(fd)
    assert len(calls) <= 4  # before and behind the rows, and the header


def test_a_small_tensor_among_many_takes_little_work_to_write(tmp_path: Path) -> None:
    def written(count: int) -> int:
        items = {f"t{number}": LoDTensor(np.arange(3), [[1, 2]]) for number in range(count)}
        return lines_of(lambda: io.write(tmp_path / f"{count}.lod.h5", items))

    written(10)
    assert written(300) - written(100) < 200 * 2400
