"""Zip archives: all kinds are read, and no bit of a directory changes unnoticed."""

from __future__ import annotations

import io as bytes_io
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content
from tests.formats.cases.writing import npy
from tests.sampling import every

ROWS = np.arange(5, dtype=np.int32)
OFFSETS = np.array([0, 2, 2, 5])
ARRAYS: dict[str, Any] = {"x/data": ROWS, "x/lod.0": OFFSETS, "y": ROWS[:2]}


MEMBERS = {f"{name}.npy": npy(array) for name, array in ARRAYS.items()}


class Forward:
    """A file that can only be written forward, such as a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def read(self) -> bytes:
        raise OSError("is written forward only")


def savez(path: Path) -> None:
    np.savez(path, **ARRAYS)


def savez_compressed(path: Path) -> None:
    np.savez_compressed(path, **ARRAYS)


def savez_to_a_pipe(path: Path) -> None:
    with open(path, "wb") as file:
        np.savez(cast(Any, Forward(file)), **ARRAYS)


def ours(path: Path) -> None:
    tensor = LoDTensor(ROWS, LoD([OFFSETS]))
    io.write(path, {"x": tensor, "y": LoDTensor(ROWS[:2])})


def reordered(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name in reversed(MEMBERS):
            file.writestr(name, MEMBERS[name])
        file.comment = b"a remark that is longer than the record it stands behind"


def directory_in_another_order(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in MEMBERS.items():
            file.writestr(name, data)
        file.filelist.reverse()


def appended(path: Path) -> None:
    for name, data in MEMBERS.items():
        with zipfile.ZipFile(path, "a") as file:
            file.writestr(name, data)


def zip64(path: Path) -> None:
    """Write as for files beyond 4 GB: 64 bits wherever the format has a place for them."""
    with zipfile.ZipFile(path, "w") as file:
        for name, data in MEMBERS.items():
            with file.open(name, "w", force_zip64=True) as member:
                member.write(data)
    data = path.read_bytes()
    end = len(data) - 22
    count, size, start = struct.unpack_from("<H2L", data, end + 10)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    saturated = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *(0xFFFF,) * 2, *(0xFFFFFFFF,) * 2, 0)
    path.write_bytes(data[:end] + record + locator + saturated)


def zip64_sizes_in_the_directory(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, zipfile.ZipFile(path, "w") as file:
        patch.setattr(zipfile, "ZIP64_LIMIT", 100)
        for name, data in MEMBERS.items():
            with file.open(name, "w", force_zip64=True) as member:
                member.write(data)
        file.close()


def _zip(path: Path, *arguments: str) -> None:
    if shutil.which("zip") is None:
        pytest.skip("zip is not installed")
    folder = path.parent / "to be packed"
    for name, data in MEMBERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    with open(path, "wb") as out:
        subprocess.run(["zip", "-q", *arguments], cwd=folder, stdout=out, check=True)
    shutil.rmtree(folder)


def zip_tool(path: Path) -> None:
    _zip(path, "-r", "-", ".")


def zip_tool_to_a_file(path: Path) -> None:
    made = path.with_suffix(".made.zip")
    _zip(path, "-r", str(made), ".")
    made.rename(path)


def zip_tool_without_folders(path: Path) -> None:
    made = path.with_suffix(".made.zip")
    _zip(path, "-D", "-X", "-0", "-r", str(made), ".")
    made.rename(path)


WRITERS: list[Callable[[Path], None]] = [
    savez,
    savez_compressed,
    savez_to_a_pipe,
    ours,
    reordered,
    directory_in_another_order,
    appended,
    zip64,
    zip64_sizes_in_the_directory,
    zip_tool,
    zip_tool_to_a_file,
    zip_tool_without_folders,
]
THEIRS = sorted((Path(__file__).parents[1] / "theirs" / "zips").glob("*.npz"))
EXPECTED = {"x": (ROWS.tolist(), [[2, 0, 3]]), "y": (ROWS[:2].tolist(), [])}


def found_in(path: Path) -> dict[str, tuple[list[int], list[list[int]]]]:
    return {
        name: (tensor.data.tolist(), tensor.recursive_sequence_lengths())
        for name, tensor in content(path).items()
    }


def flip(path: Path, start: int, stop: int, *, step: int = 1) -> None:
    """Flip every `step`th bit; each is an error, or changes nothing that is read."""
    whole, refused = path.read_bytes(), 0
    for bit in range(8 * start, 8 * stop, step):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            found = found_in(path)
        except LodError:
            refused += 1
        else:
            assert found == EXPECTED, divmod(bit, 8)
    assert refused * step > (stop - start) * 2


@pytest.mark.parametrize("writer", WRITERS)
def test_archives_of_other_writers_are_read(writer: Callable[[Path], None], tmp_path: Path) -> None:
    writer(tmp_path / "x.npz")
    assert found_in(tmp_path / "x.npz") == EXPECTED


@pytest.mark.parametrize("path", THEIRS, ids=lambda path: path.stem)
def test_archives_that_others_made_are_read(path: Path) -> None:
    assert found_in(path) == EXPECTED


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda data: b"more" + data, "the zip directory: expected it to end at .*; fetch or"),
        (
            lambda data: data + b"more",
            "expected a comment of 0 bytes behind it, found 4; fetch or copy",
        ),
        (lambda data: data[:-1], "the zip directory: its end record is missing; the file may be"),
        # An end record without members, 4 bytes behind what begins like its zip64 locator.
        (lambda _: b"PK\6\7PK\5\6" + bytes(12) + b"\4" + bytes(5), "4 bytes before the first"),
        (lambda data: data[: data.rindex(b"PK\1\2")] + data[data.rindex(b"PK\5\6") :], "zip"),
    ],
)
def test_bytes_that_belong_to_no_member_are_refused(
    made: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    savez(tmp_path / "whole.npz")
    path = tmp_path / "x.npz"
    path.write_bytes(made((tmp_path / "whole.npz").read_bytes()))
    with pytest.raises(DamagedFileError, match=message):
        io.read_all(path, format_name="npz")


def test_members_are_named_where_they_do_not_fit(tmp_path: Path) -> None:
    """Two members out of three are in the directory, and it says so consistently."""
    savez(tmp_path / "x.npz")
    data = (tmp_path / "x.npz").read_bytes()
    first, second = data.index(b"PK\1\2"), data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    third, end = data.rindex(b"PK\1\2"), data.rindex(b"PK\5\6")
    for left_out, message in ((first, "bytes before the first"), (second, "leaves a gap before")):
        kept = data[:left_out] + data[second if left_out == first else third : end]
        size = len(kept) - first
        record = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, size, first, 0)
        (tmp_path / "x.npz").write_bytes(kept + record)
        with pytest.raises(DamagedFileError, match=message):
            content(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("writer", "mark", "place", "new", "message"),
    [
        (savez, b"PK\5\6", 4, b"\1", "all members on one disk, found 3 of 3 on disk 1"),
        (savez, b"PK\5\6", 8, b"\2", "all members on one disk, found 2 of 3 on disk 0"),
        (savez, b"PK\5\6", 8, b"\4\0\4", r"expected 4 members in \d+ bytes, found 3 in"),
        (savez, b"PK\3\4", 3, b"\5", r"expected its header at byte \d+"),
        (savez, b"PK\3\4", 14, b"\1\2", r"checksum: \d+ in its header, \d+ in the zip directory"),
        (zip64, b"PK\6\7", 4, b"\1", "expected its zip64 record right before byte"),
        (zip64, b"PK\6\7", 8, b"\0", "expected its zip64 record right before byte"),
        (zip64, b"PK\6\7", 16, b"\2", "expected its zip64 record right before byte"),
        (zip64, b"PK\6\6", 3, b"\5", "expected its zip64 record right before byte"),
        (zip64, b"PK\6\6", 4, b"\x2d", "expected a zip64 record of 44 bytes, found 45"),
        (zip64, b"PK\5\6", 10, b"\4\0", "its two end records differ: 4, and 3 in zip64"),
    ],
)
def test_a_number_of_a_record_that_does_not_fit_is_named(
    writer: Callable[[Path], None],
    mark: bytes,
    place: int,
    new: bytes,
    message: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.npz"
    writer(path)
    data = path.read_bytes()
    place += data.rindex(mark)
    path.write_bytes(data[:place] + new + data[place + len(new) :])
    with pytest.raises(LodError, match=message):
        io.read_all(path, format_name="npz")


def test_no_bit_of_a_directory_changes_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    savez(path)
    flip(path, path.read_bytes().index(b"PK\1\2"), path.stat().st_size, step=13)


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_no_bit_of_any_archive_changes_unnoticed(
    writer: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "x.npz"
    writer(path)
    flip(path, 0, path.stat().st_size, step=every(9))


@pytest.mark.slow
@pytest.mark.parametrize("theirs", THEIRS, ids=lambda path: path.stem)
def test_no_bit_of_a_directory_of_theirs_changes_unnoticed(theirs: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(theirs.read_bytes())
    flip(path, path.read_bytes().index(b"PK\1\2"), path.stat().st_size, step=every(9))


@pytest.mark.slow
def test_no_bit_of_a_directory_of_torch_changes_unnoticed(tmp_path: Path) -> None:
    """torch reads the archive once more, by its own rules."""
    pytest.importorskip("torch")
    path = tmp_path / "x.pt"
    tensors = {"x": LoDTensor(ROWS, LoD([OFFSETS])), "y": LoDTensor(ROWS[:2])}
    io.write(path, tensors, form="flat")
    flip(path, path.read_bytes().index(b"PK\1\2"), path.stat().st_size, step=every(9))


def test_a_member_marked_as_a_folder_is_refused(tmp_path: Path) -> None:
    """torch would give whatever is in memory for its rows."""
    savez(tmp_path / "x.npz")
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.index(b"PK\1\2") + 38] |= 0x10
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"x/data\.npy: is marked as a folder"):
        content(tmp_path / "x.npz")


def test_a_long_name_is_shown_in_part(tmp_path: Path) -> None:
    whole, path = npz_bytes(), tmp_path / "x.npz"
    header = whole.index(b"PK\3\4")
    path.write_bytes(whole[: header + 26] + b"\xff\x01" + whole[header + 28 :])
    with pytest.raises(DamagedFileError, match="is called") as caught:
        io.read_all(path, format_name="npz")
    assert len(str(caught.value)) < 400 + len(str(path))
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("n" * 60_000, b"")
    with pytest.raises(LodError, match=r"nnn\.\.\.") as caught_too:
        io.read_all(path, format_name="npz")
    assert len(str(caught_too.value)) < 400 + len(str(path))


def npz_bytes() -> bytes:
    stream = bytes_io.BytesIO()
    np.savez(stream, **ARRAYS)
    return stream.getvalue()
