"""npz: archives that are damaged, crafted, or of another kind."""

from __future__ import annotations

import io as bytes_io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import LodError, UnsupportedError
from tests.formats.broken.broken_npz import BROKEN_MEMBERS, DEFLATED, STORED, archive, npy
from tests.formats.cases.opening import content


@pytest.mark.parametrize(
    ("member", "error", "message"),
    BROKEN_MEMBERS,
)
def test_a_member_that_contradicts_itself_is_named(
    tmp_path: Path, member: bytes, error: type[LodError], message: str
) -> None:
    with pytest.raises(error, match=message):
        content(archive(tmp_path, ("x.npy", member)))


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_later_versions_of_npy_are_read(tmp_path: Path, version: tuple[int, int]) -> None:
    stream = bytes_io.BytesIO()
    np.lib.format.write_array(stream, np.arange(3), version=version)
    found = content(archive(tmp_path, ("x.npy", stream.getvalue())))
    assert found["x"].data.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["readme.txt", "../../x", "/x", "x.npy/", "\x1b[2J"])
def test_unknown_members_are_named_and_touch_nothing(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inner" / "most"
    folder.mkdir(parents=True)
    with pytest.raises(UnsupportedError, match="unknown member ") as caught:
        content(archive(folder, ("x.npy", npy()), (name, npy())))
    assert str(caught.value).isprintable()
    assert [path.name for path in tmp_path.rglob("*")] == ["inner", "most", "given.npz"]


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("../x.npy", "..%2Fx"),
        ("/x.npy", "%2Fx"),
        ("..npy", "."),
        ("a/b/c.npy", "a%2Fb%2Fc"),
        ("\x1b[2J.npy", "%1B[2J"),
    ],
)
def test_a_member_is_never_a_path(tmp_path: Path, name: str, called: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    found = content(archive(folder, ("x.npy", npy()), (name, npy())))
    assert sorted(found) == sorted(["x", called])
    assert [path.name for path in tmp_path.rglob("*")] == ["inner", "given.npz"]


def test_a_member_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = archive(tmp_path, ("x.npy", npy()), ("x.npy", npy()))
    with pytest.raises(DamagedFileError, match=r"two members for x\.npy"):
        content(path)


def test_a_zip_bomb_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    size = 1 << 30
    path = archive(tmp_path, ("x.npy", npy(bytes(1000), shape=(125,))), method=DEFLATED)
    data = bytearray(path.read_bytes())
    packed = struct.pack("<I", len(npy(bytes(1000), shape=(125,))))
    assert data.count(packed) == 2
    path.write_bytes(data.replace(packed, struct.pack("<I", size)))
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFileError, match=f"bytes cannot hold the {size} announced"):
            content(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, ("x.npy", npy(bytes(80_000), shape=(10_000,))), ("y.npy", npy()))
    data = path.read_bytes()
    at = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)  # the directory's entry of y
    first = data[data.index(b"PK\1\2") : at]
    path.write_bytes(data[:at] + first.replace(b"x.npy", b"y.npy") + data[at + len(first) :])
    with pytest.raises(DamagedFileError, match=r"x\.npy: overlaps the next"):
        content(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_zip_methods_are_refused(tmp_path: Path, method: int) -> None:
    with pytest.raises(UnsupportedError, match=rf"zip method {method}; .*; pack it again"):
        content(archive(tmp_path, ("x.npy", npy()), method=method))


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, ("x.npy", npy()))
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(UnsupportedError, match=r"x\.npy: is encrypted; pack it without"):
        content(path)


@pytest.mark.parametrize("place", [6, 8], ids=["flags", "method"])
def test_the_two_headers_of_a_member_must_agree(tmp_path: Path, place: int) -> None:
    path = archive(tmp_path, ("x.npy", npy()))
    data = bytearray(path.read_bytes())
    data[place] ^= 8
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match="directory differ in method or flags"):
        content(path)


@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_a_flipped_bit_in_the_rows_is_found(tmp_path: Path, method: int) -> None:
    rows = np.random.default_rng(0).integers(0, 4, 10_000)
    stream = bytes_io.BytesIO()
    np.save(stream, rows)
    path = archive(tmp_path, ("x.npy", stream.getvalue()), method=method)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"x\.npy: is damaged.*; fetch or copy it again$"):
        content(path)


@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_a_wrong_checksum_is_found(tmp_path: Path, method: int) -> None:
    path = archive(tmp_path, ("x.npy", npy(bytes(8000), shape=(1000,))), method=method)
    data = path.read_bytes()
    checksum = data[14:18]
    assert data.count(checksum) == 2
    path.write_bytes(data.replace(checksum, b"\1\2\3\4"))
    with pytest.raises(
        DamagedFileError, match=r"x\.npy: is damaged \(Bad CRC-32.*; fetch or copy it"
    ):
        content(path)


@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_no_damage_gives_wrong_rows_or_a_crash(tmp_path: Path, method: int) -> None:
    rows = np.arange(20)
    stream = bytes_io.BytesIO()
    np.save(stream, rows)
    offsets = bytes_io.BytesIO()
    np.save(offsets, np.array([0, 7, 20]))
    path = archive(
        tmp_path, ("data.npy", stream.getvalue()), ("lod.0.npy", offsets.getvalue()), method=method
    )
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for trial in range(600):
        data = bytearray(whole)
        if trial < 100:
            del data[int(rng.integers(len(data))) :]
        for _ in range(int(rng.integers(1, 4))):
            if data:
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        path.write_bytes(data)
        try:
            found = content(path)
        except LodError:
            refused += 1
            continue
        # Dates and the like may change; a name may, to one that is a tensor's as well.
        for tensor in found.values():
            assert tensor.data.tolist() in (rows.tolist(), [0, 7, 20])
    assert refused > 200


def test_something_else_named_npz_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"hello")
    with pytest.raises(LodError, match="has the extension of npz but does not begin like it"):
        content(tmp_path / "x.npz")
