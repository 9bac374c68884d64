"""Inputs: files and pipes, whose first bytes can be looked at before they are read."""

from __future__ import annotations

import errno
import gzip
import os
import random
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.inputs import HEAD_BYTES, Input
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.platform import processes

CONTENT = bytes(range(256)) * 400


@contextmanager
def _pipe(*portions: bytes) -> Iterator[str]:
    """Give the path of a pipe that brings these portions one by one."""
    reader, writer = os.pipe()

    def send() -> None:
        for portion in portions:
            time.sleep(0.05)  # until the one before was read
            os.write(writer, portion)
        os.close(writer)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)
        thread.join()


@pytest.mark.parametrize("first", [1, 5, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 9000])
@pytest.mark.parametrize("size", [-1, 1, 7, 1 << 20])
def test_the_head_of_a_pipe_is_whole_and_read_again(first: int, size: int) -> None:
    content = CONTENT[:10_000]
    with _pipe(content[:first], content[first:]) as path, Input(path) as source:
        assert not source.seekable
        assert source.size_bytes is None
        assert source.head() == source.head() == content[:HEAD_BYTES]
        parts = []
        while part := source.file.read(size):
            parts.append(part)
        assert b"".join(parts) == content


def test_the_head_of_a_short_pipe_is_all_of_it() -> None:
    with _pipe(b"a", b"b", b"c") as path, Input(path) as source:
        assert source.head() == b"abc"
        assert source.file.readline() == b"abc"
        assert source.file.read() == b""


def test_a_pipe_that_was_looked_at_becomes_seekable() -> None:
    with _pipe(CONTENT[:3], CONTENT[3:]) as path, Input(path) as source:
        source.head()
        file = source.make_seekable()
        assert source.seekable
        assert source.size_bytes == len(CONTENT)
        assert os.pread(file.fileno(), len(CONTENT), 0) == CONTENT
        assert source.head() == CONTENT[:HEAD_BYTES]
        assert source.make_seekable() is file


def test_the_head_of_a_file_leaves_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(CONTENT)
    with Input(path) as source:
        assert source.file.read(10) == CONTENT[:10]
        assert source.head() == CONTENT[:HEAD_BYTES]
        assert source.file.read() == CONTENT[10:]
        assert source.size_bytes == len(CONTENT)
        assert source.label == str(path)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none"
    with pytest.raises(FileNotFoundError) as caught:
        Input(path)
    assert os.fspath(caught.value.filename) == str(path)


def test_a_folder_is_no_file_to_read(tmp_path: Path) -> None:
    with Input(tmp_path) as source:
        assert source.is_folder
        for reading in (source.head, source.make_seekable, lambda: source.size_bytes):
            with pytest.raises(IsADirectoryError) as caught:
                reading()
            assert caught.value.filename == str(tmp_path)


# -- several files that belong together ----------------------------------------------


def test_a_file_in_a_folder_and_one_beside_a_file_are_opened(tmp_path: Path) -> None:
    (tmp_path / "a.idx").write_bytes(b"index")
    (tmp_path / "a.bin").write_bytes(b"content")
    for source in (Input(tmp_path), Input(tmp_path / "a.idx")):
        with source:
            assert source.has_beside("a.bin")
            assert not source.has_beside("b.bin")
            beside = source.beside("a.bin")
            assert beside.file.read() == b"content"
            assert beside.label == str(tmp_path / "a.bin")
            with pytest.raises(FileNotFoundError) as caught:
                source.beside("b.bin")
            assert os.fspath(caught.value.filename) == str(tmp_path / "b.bin")
        assert beside.file.closed


@pytest.mark.parametrize("name", ["", ".", "..", "/etc/passwd", "../a", "deep/a", "a\0"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a").write_bytes(b"a")
    (tmp_path / "a").write_bytes(b"a")
    for source in (Input(tmp_path / "deep"), Input(tmp_path / "deep" / "a"), Input(tmp_path)):
        with source, pytest.raises(DamagedFileError, match="which is not a plain name of a file"):
            source.beside(name)


def test_only_regular_files_are_opened_beside(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    (tmp_path / "deep").mkdir()
    with Input(tmp_path) as source:
        for name in ("pipe", "deep"):
            with pytest.raises(DamagedFileError, match=f"{name}: is not a regular file"):
                source.beside(name)


def test_a_link_to_a_regular_file_is_followed_as_in_caches_of_hugging_face(tmp_path: Path) -> None:
    for folder in ("blobs", "snapshot"):
        (tmp_path / folder).mkdir()
    (tmp_path / "blobs" / "1f").write_bytes(b"content")
    (tmp_path / "snapshot" / "a.bin").symlink_to("../blobs/1f")
    (tmp_path / "snapshot" / "zero").symlink_to("/dev/zero")
    with Input(tmp_path / "snapshot") as source:
        assert source.listed.entries()[0] == ["a.bin"]
        assert source.beside("a.bin").file.read() == b"content"
        with pytest.raises(DamagedFileError, match="zero: is not a regular file"):
            source.beside("zero")


def test_nothing_is_beside_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    with (tmp_path / "a").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with Input("-") as source:
            assert not source.has_beside("a")
            with pytest.raises(UnsupportedError, match="give the path of a file"):
                source.beside("a")


def test_a_closed_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match="is closed: 'standard input'"):
        Input("-")


def test_a_full_disk_while_a_pipe_is_copied_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        """A file that takes nothing."""

        def write(self, data: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self) -> None:
            """Nothing to close."""

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full())
    with (
        _pipe(b"abc") as path,
        Input(path) as source,
        pytest.raises(OSError, match=r"No space left on device: '/dev/fd/.*, copied to "),
    ):
        source.make_seekable()


def _rest(source: Input, change: Callable[[Path], object], path: Path) -> bytes:
    """Read a part of a file, change it, and return the rest."""
    part = source.file.read(1000)
    change(path)
    return part + source.file.read()


@pytest.mark.parametrize("left", [0, 50_000])
def test_a_file_that_becomes_shorter_while_it_is_read_is_refused(left: int, tmp_path: Path) -> None:
    (path := tmp_path / "lines.jsonl").write_bytes(b"[1]\n" * 1_000_000)
    with Input(path) as source:
        said = f"was truncated while it was read: expected 4000000 bytes, found {left};"
        with pytest.raises(DamagedFileError, match=said):
            _rest(source, lambda path: os.truncate(path, left), path)


def test_a_file_that_is_overwritten_while_it_is_read_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "lines.jsonl").write_bytes(b"[1]\n" * 1_000_000)
    os.utime(path, (1, 1))  # the clock of a file system may tick slowly

    def overwrite(path: Path) -> None:
        with open(path, "r+b") as file:
            file.seek(3_000_000)
            file.write(b"[2]\n" * 10)

    with Input(path) as source, pytest.raises(DamagedFileError, match="was overwritten while"):
        _rest(source, overwrite, path)
    # In portions as well, as text formats read.
    os.utime(path, (1, 1))
    with Input(path) as source:
        assert source.file.read(10)
        overwrite(path)
        with pytest.raises(DamagedFileError, match="was overwritten while"):
            deque(iter(lambda: source.file.read(65_536), b""), 0)


def test_a_file_that_grows_or_is_replaced_while_it_is_read_is_read_on(tmp_path: Path) -> None:
    (path := tmp_path / "lines.jsonl").write_bytes(b"[1]\n" * 1_000_000)

    def append(path: Path) -> None:
        with open(path, "ab") as file:
            file.write(b"[2]\n")

    with Input(path) as source:
        assert _rest(source, append, path) == b"[1]\n" * 1_000_000 + b"[2]\n"
    (tmp_path / "new").write_bytes(b"")
    with Input(path) as source:
        read = _rest(source, lambda path: os.replace(tmp_path / "new", path), path)
        assert len(read) == 4_000_004


@pytest.mark.skipif(processes.address_space_bytes() is None, reason="needs /proc")
@pytest.mark.parametrize("name", ["t.bin", "t.bin.gz"])
def test_a_forked_process_reads_on_at_the_same_position(tmp_path: Path, name: str) -> None:
    content = random.Random(0).randbytes(5 << 20)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content, 0) if name.endswith(".gz") else content)
    with Input(path) as source:
        file = source.make_seekable()
        file.read(10)
        pid = os.fork()
        if pid == 0:
            os._exit(file.read() != content[10:])
        assert os.waitpid(pid, 0)[1] == 0
        assert file.read() == content[10:]
