"""Libraries of compiled kernels: invalid files are refused before they are opened."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from lodcli.kernels.native import settings
from lodcli.kernels.native.linking.library import FORMAT, Library, LibraryError
from tests.kernels.native.building import built

MODULE = "kernels.native.pool_numba"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A library for this processor, of build "one"."""
    return built(MODULE, build="one")


def opened(path: Path, *, level: str = "", build: str = "one", checked: bool = False) -> Library:
    return Library(path, level=level or settings.level().name, build=build, checked=checked)


def test_a_library_finds_what_it_holds_and_nothing_else(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "whole.so"
    path.write_bytes(whole)
    library = opened(path)
    entry = library.find(MODULE, "finish", ())
    assert entry is not None
    assert entry.arguments == ("q", "q")
    assert library.find(MODULE, "finish", ("float32",)) is None
    assert library.find(MODULE, "no such kernel", ()) is None
    assert library.find("no such module", "finish", ()) is None


def test_every_cut_of_a_library_is_refused(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.so"
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(LibraryError, match="cut"):
            opened(path)


def test_every_changed_byte_of_a_library_is_found(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "damaged.so"
    for place in [*range(0, len(whole), 61), *range(len(whole) - 60, len(whole))]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        with pytest.raises(LibraryError, match=r"damaged|not a library|version"):
            opened(path)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"level": "x86-64-v9"}, "level: expected 'x86-64-v9', found"),
        ({"build": "two"}, "build: expected 'two', found 'one'"),
        ({"checked": True}, "checked: expected True, found False"),
    ],
)
def test_a_library_of_something_else_is_refused(
    whole: bytes, tmp_path: Path, more: dict[str, str], message: str
) -> None:
    path = tmp_path / "foreign.so"
    path.write_bytes(whole)
    with pytest.raises(LibraryError, match=message):
        opened(path, **more)  # type: ignore[arg-type]


def test_another_version_of_the_file_is_named(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "newer.so"
    path.write_bytes(whole[:-1] + b"\x09")
    with pytest.raises(LibraryError, match="expected version 1 of such files, found 9"):
        opened(path)


def test_a_library_that_the_system_cannot_open_is_an_error_of_lod(
    whole: bytes, tmp_path: Path
) -> None:
    # As another linker's mistake would look: the checksum fits.
    body = b"no shared object" + whole[: -32 - len(FORMAT)][16:]
    path = tmp_path / "odd.so"
    path.write_bytes(body + hashlib.sha256(body).digest() + FORMAT)
    with pytest.raises(LibraryError, match="odd"):
        opened(path)


def test_a_missing_file_and_a_folder_are_errors_of_ours(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="no such file"):
        opened(tmp_path / "none.so")
    with pytest.raises(LibraryError, match="directory"):
        opened(tmp_path)


def test_a_library_needs_no_other_and_marks_no_stack_executable(
    whole: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "whole.so"
    path.write_bytes(whole)
    script = f"import ctypes; ctypes.CDLL({str(path)!r})"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    assert b"libc.so" not in whole.split(b'{"level"')[0]
