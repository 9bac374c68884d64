"""Input: a path or standard input, opened once, with its first bytes to look at."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

HEAD_BYTES = 4096


class _Ahead(io.FileIO):
    """A file whose first bytes can be looked at before they are read: also of a pipe.

    BufferedReader.peek gives what one read gave, which of a pipe may be a single byte.
    """

    _ahead = b""

    def look(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end; they will be read again."""
        while len(self._ahead) < size and (more := self.read(size - len(self._ahead))):
            self._ahead += more
        return self._ahead[:size]

    def readinto(self, buffer: Any) -> int | None:
        if not self._ahead:
            return super().readinto(buffer)
        view = memoryview(buffer).cast("B")
        part, self._ahead = self._ahead[: len(view)], self._ahead[len(view) :]
        view[: len(part)] = part
        return len(part)

    def readall(self) -> bytes:
        ahead, self._ahead = self._ahead, b""
        return ahead + (super().readall() or b"")


class Input:
    """A readable file or pipe.

    Args:
        source: a path, or "-" for standard input.

    Attributes:
        label: what messages call it.
        path: None for standard input.

    Raises:
        OSError: it cannot be opened; directories are refused here too.
    """

    def __init__(self, source: str | os.PathLike[str]) -> None:
        if os.fspath(source) == "-":
            self.path: Path | None = None
            self.label = "standard input"
            # A copy of the descriptor: closing this input must not close the process's.
            if sys.stdin is None:
                raise OSError(errno.EBADF, "is closed", self.label)
            self._raw = _Ahead(os.dup(sys.stdin.fileno()), "rb")
        else:
            self.path = Path(source)
            self.label = os.fspath(source)
            self._raw = _Ahead(self.path, "rb")
        self.file: BinaryIO = io.BufferedReader(self._raw, 1 << 20)

    def head(self) -> bytes:
        """Return the first bytes, up to HEAD_BYTES, without consuming them.

        Of a pipe, this waits for them, and must come before anything else is read.
        """
        if self.seekable:
            return os.pread(self.file.fileno(), HEAD_BYTES, 0)
        return self._raw.look(HEAD_BYTES)

    @property
    def seekable(self) -> bool:
        """Whether any part can be read at any time: a file, not a pipe."""
        return self.file.seekable()

    @property
    def size_bytes(self) -> int | None:
        """Size of the file; None for a pipe."""
        return os.fstat(self.file.fileno()).st_size if self.seekable else None

    def make_seekable(self) -> BinaryIO:
        """Return the whole input as a seekable file, copying a pipe to a nameless one first."""
        if not self.seekable:
            spooled = tempfile.TemporaryFile(prefix="lod-")  # noqa: SIM115
            try:
                shutil.copyfileobj(self.file, spooled, 1 << 20)
                spooled.flush()
            except BaseException as error:
                with contextlib.suppress(OSError):
                    spooled.close()
                if isinstance(error, OSError) and error.filename is None:
                    error.filename = f"{self.label}, copied to {tempfile.gettempdir()}"
                raise
            self.file.close()
            self.file = spooled
        self.file.seek(0)
        return self.file

    def close(self) -> None:
        """Close the input; its process's standard input stays open."""
        self.file.close()

    def __enter__(self) -> Input:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
