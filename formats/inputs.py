"""Input: a path or standard input, opened once, with its first bytes to look at."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

HEAD_BYTES = 4096


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
            self._raw: BinaryIO = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        else:
            self.path = Path(source)
            self.label = os.fspath(source)
            self._raw = open(self.path, "rb", buffering=0)  # noqa: SIM115
        self.file: BinaryIO = io.BufferedReader(self._raw, 1 << 20)

    def head(self) -> bytes:
        """Return the first bytes, up to HEAD_BYTES, without consuming them."""
        if self.seekable:
            return os.pread(self.file.fileno(), HEAD_BYTES, 0)
        return self.file.peek(HEAD_BYTES)[:HEAD_BYTES]  # type: ignore[attr-defined,no-any-return]

    @property
    def seekable(self) -> bool:
        """Whether any part can be read at any time: a file, not a pipe."""
        return self._raw.seekable()

    @property
    def size_bytes(self) -> int | None:
        """Size of the file; None for a pipe."""
        return os.fstat(self.file.fileno()).st_size if self.seekable else None

    def make_seekable(self) -> BinaryIO:
        """Return the whole input as a seekable file, copying a pipe to a nameless one first."""
        if not self.seekable:
            spooled = tempfile.TemporaryFile(prefix="lod-")  # noqa: SIM115
            shutil.copyfileobj(self.file, spooled, 1 << 20)
            spooled.flush()
            self.file.close()
            self._raw = self.file = spooled
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
