"""paddle: PaddlePaddle's own files, byte for byte both ways, and damaged ones."""

from __future__ import annotations

import json
import struct
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.schema import LevelSpec, TensorSpec
from lodcli.kernels.errors import InvalidLoDError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import changed, cut, read_each
from tests.formats.cases.opening import batches_of, content, content_of, pipe
from tests.golden_data import golden_dir
from tests.strategies import BFLOAT16, tensors

STREAMS = golden_dir() / "streams"
FILES: list[dict[str, Any]] = json.loads((STREAMS / "manifest.json").read_text())["files"]
NAMES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128"
HELD = (*(np.dtype(name) for name in NAMES.split()), BFLOAT16)


def stream(
    rows: np.ndarray[Any, Any] | None = None,
    lod: Any = ((0, 3, 4, 6),),
    *,
    code: int = 5,
    dims: bytes = b"\x10\x06\x10\x02",
    data: bytes | None = None,
    **parts: bytes,
) -> bytes:
    """Return a stream of 6 x 2 float32, written from the description of the format alone."""
    levels = b"".join(
        struct.pack("<Q", 8 * len(offsets)) + struct.pack(f"<{len(offsets)}Q", *offsets)
        for offsets in lod
    )
    descriptor = parts.get("descriptor", b"\x08" + bytes([code]) + dims)
    rows = np.arange(12, dtype="<f4") if rows is None else rows
    return b"".join(
        [
            parts.get("version", struct.pack("<I", 0)),
            parts.get("count", struct.pack("<Q", len(lod))),
            parts.get("levels", levels),
            parts.get("tensor_version", struct.pack("<I", 0)),
            parts.get("size", struct.pack("<i", len(descriptor))),
            descriptor,
            rows.tobytes() if data is None else data,
        ]
    )


# -- Paddle's own files --------------------------------------------------------------


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: str(entry["file"]))
def test_files_of_paddle_are_read(entry: dict[str, Any]) -> None:
    found = content(STREAMS / entry["file"])
    for tensor, expected in zip(found.values(), entry["tensors"], strict=True):
        assert tensor.dtype.name == expected["dtype"]
        assert list(tensor.data.shape) == (expected["dims"] or [1])
        assert [level.tolist() for level in tensor.lod.levels] == expected["lod"]
        assert tensor.data.tobytes().hex() == expected["raw_hex"]


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: str(entry["file"]))
def test_files_of_paddle_are_written_again_byte_for_byte(
    entry: dict[str, Any], tmp_path: Path
) -> None:
    if [] in [tensor["dims"] for tensor in entry["tensors"]]:
        pytest.skip("a tensor of rank 0 comes back as one row")
    path = STREAMS / entry["file"]
    io.write(tmp_path / "again.lodt", content(path))
    assert (tmp_path / "again.lodt").read_bytes() == path.read_bytes()


def test_names_are_given_when_reading(tmp_path: Path) -> None:
    names = tuple("abc")
    path = STREAMS / "three.combined"
    assert list(content(path)) == ["0", "1", "2"]
    assert list(content(path, names=names)) == list(names)
    with pytest.raises(SelectionError, match="expected 3 different names, one per tensor, found 2"):
        content(path, names=("a", "b"))
    with pytest.raises(SelectionError, match="expected 3 different names"):
        content(path, names=("a", "b", "b"))


def test_tensors_of_equal_levels_share_them(tmp_path: Path) -> None:
    found = content_of(tmp_path, ".lodt", stream() + stream(np.zeros(12, "<f4")))
    assert found["0"].lod is found["1"].lod
    (batch,) = batches_of(tmp_path / "given.lodt", 1 << 20)
    assert list(batch) == ["0", "1"]


@pytest.mark.parametrize("path", sorted((STREAMS / "bad").iterdir()), ids=lambda path: path.stem)
def test_damaged_files_are_refused(path: Path) -> None:
    if path.stem == "packed_dims":  # unusual, and sound
        assert content(path)["data"].data.shape == (6, 2)
        return
    for name in (None, "paddle"):
        with pytest.raises(LodError) as caught:
            io.read_all(path, format_name=name)
        assert str(caught.value).startswith(f"{path}: ")


# -- what we write ---------------------------------------------------------------------


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensor=tensors(HELD, any_bits=True), batched=st.booleans())
def test_there_and_back_changes_no_bit(tmp_path: Path, tensor: LoDTensor, batched: bool) -> None:
    path = tmp_path / "x.lodt"
    bare = LoDTensor(tensor.data, LoD(tensor.lod.levels))
    levels = tuple(LevelSpec(str(n)) for n in range(bare.lod.n_levels))
    spec = TensorSpec("data", bare.dtype, bare.row_shape, levels)  # of unknown size
    parts = [{"data": part} for part in bare] if bare.lod.n_levels else [{"data": bare}]
    if bare.lod.n_levels and any(level.size == 1 for level in bare.lod.levels):
        with pytest.raises(UnsupportedError, match="paddle holds no level without items"):
            io.write(path, bare, overwrite=True)
        with pytest.raises(UnsupportedError, match="paddle holds no level without items"):
            io.write_batches(path, (spec,), [{"data": bare}], overwrite=True)
        return
    if batched and bare.lod.n_levels:
        parts = [{"data": bare[n : n + 1]} for n in range(len(bare))]
        io.write_batches(path, (spec,), parts, overwrite=True)
    else:
        io.write(path, bare, overwrite=True)
    (found,) = content(path).values()
    assert found.identical(bare)


def test_a_stream_is_written_as_described(tmp_path: Path) -> None:
    tensor = LoDTensor(np.arange(12, dtype=np.float32).reshape(6, 2), [[3, 1, 2]])
    io.write(tmp_path / "x.lodt", tensor)
    assert (tmp_path / "x.lodt").read_bytes() == stream()


def test_extents_of_more_than_a_byte_and_pipes(tmp_path: Path) -> None:
    tensor = LoDTensor(np.arange(300 * 200, dtype=np.int32).reshape(300, 200), [[100, 0, 200]])
    io.write(tmp_path / "x.lodt", tensor)
    with pipe(tmp_path, ".bin", (tmp_path / "x.lodt").read_bytes()) as path:
        assert content(path)["data"].identical(tensor)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (LoDTensor(np.zeros(3, np.uint16)), "paddle holds no uint16"),
        (LoDTensor(np.zeros((1,) * 10)), "rows of at most 8 dimensions"),
        (LoDTensor(np.zeros(0), LoD([[0]])), "no level without items, level 0 of data has none"),
    ],
)
def test_content_that_paddle_cannot_hold_is_an_error(
    tmp_path: Path, tensor: LoDTensor, message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        io.write(tmp_path / "x.lodt", tensor)
    assert not list(tmp_path.iterdir())


# -- reading a part ----------------------------------------------------------------------


def test_a_slice_reads_only_its_rows(tmp_path: Path) -> None:
    rows = np.zeros((1 << 16, 100), np.float32)
    rows[5:7] = 7
    lod = LoD.from_lengths([[2, 1, 1], [5, 2, (1 << 16) - 8, 1]])
    io.write(tmp_path / "x.lodt", LoDTensor(rows, lod))
    with lodcli.open(tmp_path / "x.lodt") as source:
        tracemalloc.start()
        try:
            part = source.slice("data", (0, 1))
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
        assert part.data.tolist() == [[7] * 100] * 2
        assert source.slice("data", (3, 0), level=1).data.shape == (100,)


# -- damage ------------------------------------------------------------------------------


DAMAGED: list[tuple[bytes, type[LodError], str]] = [
    (stream(version=struct.pack("<I", 1)), DamagedFileError, "byte 0: expected version 0 of a"),
    (stream(count=struct.pack("<Q", 2)), DamagedFileError, "cut off in level 1 at byte 60"),
    (stream(count=struct.pack("<Q", 2**60)), DamagedFileError, "claims 1152921504606846976 level"),
    (stream(count=struct.pack("<Q", 0)), DamagedFileError, "expected version 0 of the tensor"),
    (stream(levels=struct.pack("<Q", 2**62)), DamagedFileError, "cut off in level 0"),
    (stream(levels=struct.pack("<QQ", 8, 0)), DamagedFileError, "at least two offsets of 8 bytes"),
    (stream(levels=struct.pack("<Q4s", 12, b"")), DamagedFileError, "found 12 bytes"),
    (stream(lod=((1, 3, 4, 6),)), InvalidLoDError, "position 0: first offset: expected 0"),
    (stream(lod=((0, 4, 3, 6),)), InvalidLoDError, "position 2: offsets decrease"),
    (stream(lod=((0, 3, 4, 5),)), InvalidLoDError, "must be the number of rows"),
    (stream(lod=((0, 3), (0, 2, 6))), InvalidLoDError, "the number of items of level 1"),
    (stream(lod=((0, 3, 4, 2**63),)), InvalidLoDError, "expected at most 2\\*\\*63 - 1"),
    (stream(tensor_version=struct.pack("<I", 7)), DamagedFileError, "of the tensor, found 7"),
    (stream(size=struct.pack("<i", -1)), DamagedFileError, "expected 0 to 10000 bytes, found -1"),
    (stream(size=struct.pack("<i", 2**30)), DamagedFileError, "0 to 10000 bytes, found 107374"),
    (stream(size=struct.pack("<i", 0)), DamagedFileError, "names no data type"),
    (stream(size=struct.pack("<i", 5)), DamagedFileError, "ends inside of a number|names no|expe"),
    (stream(code=7), UnsupportedError, "data type 7; expected one of 0, 1, 2"),
    (stream(descriptor=b"\x10\x06\x10\x02"), DamagedFileError, "names no data type"),
    (stream(descriptor=b"\x08\x05\x08\x05\x10\x06"), DamagedFileError, "found tag 8"),
    (stream(descriptor=b"\x08\x05\x1a\x00"), DamagedFileError, "found tag 26"),
    (stream(descriptor=b"\x08" + b"\xff" * 11), DamagedFileError, "of more than 10 bytes"),
    (stream(descriptor=b"\x08\x05\x10\x86"), DamagedFileError, "ends inside of a number"),
    (stream(descriptor=b"\x08\x05\x12\x03\x06\x02"), DamagedFileError, "the packed extents"),
    (stream(dims=b"\x10" + b"\xff" * 9 + b"\x01"), DamagedFileError, "axis 0: .* found -1"),
    (stream(dims=b"\x10\x06\x10" + b"\xff" * 8 + b"\x7f"), DamagedFileError, "beyond what an"),
    (stream(dims=b"\x10\x00\x10" + b"\xff" * 8 + b"\x7f"), DamagedFileError, "beyond what an"),
    (stream(dims=b"\x10\x01" * 40), UnsupportedError, "40 dimensions; at most 32"),
    (stream(dims=b"\x10\x06\x10\x03"), DamagedFileError, "cut off in the rows .* expected 72"),
    (stream() + b"\0", DamagedFileError, "tensor 1: cut off in the version"),
    (stream() + stream()[:-1], DamagedFileError, "tensor 1: cut off in the rows"),
    (stream(code=0, data=b"\1\2" * 6), DamagedFileError, "booleans that are neither 0 nor 1"),
]


@pytest.mark.parametrize(("data", "error", "message"), DAMAGED)
def test_damage_is_named(tmp_path: Path, data: bytes, error: type[LodError], message: str) -> None:
    path = tmp_path / "given.lodt"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(error, match=message):
            io.read_all(path, format_name="paddle")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["articles.lodt", "three.combined"])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    whole = (STREAMS / name).read_bytes()
    sizes = [t["raw_hex"] for entry in FILES if entry["file"] == name for t in entry["tensors"]]
    read = partial(io.read_all, format_name="paddle")
    found = read_each(cut(whole), tmp_path / "cut.lodt", read)
    ends = {len(one) for one in found if one is not None}
    assert ends == set(range(1, len(sizes)))  # between two tensors a combined file may end


def test_flipped_bytes_never_crash(tmp_path: Path) -> None:
    whole = (STREAMS / "three.combined").read_bytes()
    read = partial(io.read_all, format_name="paddle")
    found = list(read_each(changed(whole, 500, 3), tmp_path / "x.lodt", read))
    assert found.count(None) > 100


@pytest.mark.parametrize("head", [b"", b"\0" * 12, b"\0" * 4096, b"\0\0\0\0\1" + b"\0" * 5000])
def test_zeros_are_no_paddle_file(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "x").write_bytes(head)
    with pytest.raises(LodError, match=r"is empty|not recognised"):
        content(tmp_path / "x")


def test_a_long_level_is_recognised(tmp_path: Path) -> None:
    tensor = LoDTensor(np.zeros(5000), [[1] * 5000])
    io.write(tmp_path / "x", tensor, format_name="paddle")
    assert content(tmp_path / "x")["data"].identical(tensor)


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.lodt"
    path.write_bytes(stream())
    with lodcli.open(path) as source:
        path.write_bytes(stream()[:-48])
        with pytest.raises(DamagedFileError, match="ended 48 bytes early"):
            list(source.batches())
