"""Inputs: files and pipes, whose first bytes can be looked at before they are read."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lodcli.formats.inputs import HEAD_BYTES, Input

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


@pytest.mark.parametrize(("name", "kind"), [("", IsADirectoryError), ("none", FileNotFoundError)])
def test_what_cannot_be_opened_is_named(name: str, kind: type[OSError], tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(kind) as caught:
        Input(path)
    assert os.fspath(caught.value.filename) == str(path)


def test_a_closed_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match="is closed: 'standard input'"):
        Input("-")


def test_no_room_for_what_a_pipe_brings_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
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
