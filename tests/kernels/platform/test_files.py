"""Calls on files and names, and their fallbacks."""

from __future__ import annotations

import builtins
import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.platform import files

WAYS = pytest.mark.parametrize("way", [files.umask, files._umask_of_a_probe])


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o077, 0o177])
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@WAYS
def test_the_umask_is_found_without_setting_it(
    way: Callable[[], int], mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_it(value: int) -> int:
        raise AssertionError("another thread would make files with these permissions")

    with monkeypatch.context() as patch:
        patch.setattr(os, "umask", set_it)
        assert way() == mask


def test_the_umask_is_found_where_there_is_no_proc(
    mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.open

    def without_proc(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path).startswith("/proc"):
            raise FileNotFoundError(path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", without_proc)
    assert files.umask() == mask


def test_a_probe_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files._umask_of_a_probe()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="needs files without names")
def test_a_probe_has_no_name_that_a_killed_process_would_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real, seen = os.fstat, []

    def listing(fd: int) -> os.stat_result:
        seen.append(os.listdir(tmp_path))
        return real(fd)

    monkeypatch.setattr(os, "fstat", listing)
    files._umask_of_a_probe()
    assert seen == [[]]


CONTENT = bytes(range(256)) * 40


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(CONTENT)
    fd = os.open(tmp_path / "file", os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture(params=[True, False], ids=["system", "fallback"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        for name in ("pread", "preadv", "pwrite", "copy_file_range"):
            monkeypatch.delattr(os, name, raising=False)


@pytest.mark.usefixtures("either_way")
def test_reading_and_writing_at_a_place_leave_the_position(file: int) -> None:
    os.lseek(file, 7, os.SEEK_SET)
    assert files.pread(file, 5, 300) == CONTENT[300:305]
    assert files.pread(file, 5, len(CONTENT)) == b""
    view = memoryview(bytearray(8))
    assert files.read_at(file, view, len(CONTENT) - 3) == 3
    assert bytes(view[:3]) == CONTENT[-3:]
    rows = np.zeros((2, 3), np.complex64)
    assert files.read_at(file, rows, 5) == rows.nbytes
    assert rows.tobytes() == CONTENT[5 : 5 + rows.nbytes]
    assert files.pwrite(file, b"new", 2) == 3
    assert os.lseek(file, 0, os.SEEK_CUR) == 7
    assert files.pread(file, 6, 0) == CONTENT[:2] + b"new" + CONTENT[5:6]


def test_all_is_written_where_a_system_takes_a_part_at_a_time(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: write(fd, data[:3], position))
    assert files.write_all_at(file, b"eleven char", 2) == 13
    assert files.pread(file, 14, 0) == CONTENT[:2] + b"eleven char" + CONTENT[13:14]


def test_more_than_one_piece_is_written_whole(file: int) -> None:
    pieces = np.random.default_rng(1).bytes(3 * files.PIECE_BYTES + 5)
    assert files.write_all_at(file, pieces, 2) == 2 + len(pieces)
    assert files.pread(file, len(pieces) + 2, 0) == CONTENT[:2] + pieces
    os.lseek(file, 1, os.SEEK_SET)
    files.write_all(file, memoryview(pieces))
    assert files.pread(file, len(pieces), 1) == pieces


@pytest.mark.usefixtures("either_way")
def test_threads_that_read_one_file_do_not_move_each_others_position(file: int) -> None:
    wrong = []

    def read(first: int) -> None:
        for number in range(300):
            at = (first + 37 * number) % len(CONTENT)
            if files.pread(file, 4, at) != CONTENT[at : at + 4]:
                wrong.append(at)

    threads = [threading.Thread(target=read, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("number", [None, errno.EXDEV, errno.ENOSYS, errno.EPERM])
def test_bytes_that_the_system_cannot_copy_are_left_to_the_caller(
    number: int | None, file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: int) -> int:
        assert number is not None
        raise OSError(number, os.strerror(number))

    if number is None:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    else:
        monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    assert files.copy_range(file, file, 1, 0, 10) == 0


def test_a_full_disk_is_no_reason_to_copy_otherwise(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    with pytest.raises(OSError, match="No space left"):
        files.copy_range(file, file, 1, 0, 10)


def test_without_locks_nothing_is_known_of_others(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    assert files.lock(file) is None
    assert files.lock(file, shared=True, wait=True) is None
    files.unlock(file)
    files.widen_pipe(file, 1 << 20)
    files.fsync(file)


@pytest.mark.parametrize("full", [True, False], ids=["drive", "no drive"])
def test_on_macos_a_sync_reaches_the_drive(
    full: bool, file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Darwin:
        F_FULLFSYNC = 51

        @staticmethod
        def fcntl(fd: int, call: int) -> None:
            asked.append(call)
            if not full:
                raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(files, "fcntl", Darwin)
    monkeypatch.setattr(os, "fsync", lambda fd: asked.append(-1))
    files.fsync(file)
    assert asked == ([51] if full else [51, -1])


@pytest.mark.parametrize("proc", [True, False])
def test_a_file_is_opened_again_with_a_position_of_its_own(
    proc: bool, file: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not proc:
        monkeypatch.setattr(files, "descriptor_path", lambda fd: "/nowhere/to/be/seen")
    again = files.reopen(file, tmp_path / "file")
    assert again is not None
    os.lseek(again, 100, os.SEEK_SET)
    assert os.lseek(file, 0, os.SEEK_CUR) == 0
    os.close(again)
    if not proc:
        os.replace(tmp_path / "file", tmp_path / "gone")
        (tmp_path / "file").write_bytes(CONTENT)
        assert files.reopen(file, tmp_path / "file") is None, "it is another file"
        assert files.reopen(file, None) is None


def test_without_fchmod_a_mode_stays(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.fstat(file).st_mode
    monkeypatch.delattr(os, "fchmod")
    files.set_mode(file, 0o400)
    assert os.fstat(file).st_mode == before
