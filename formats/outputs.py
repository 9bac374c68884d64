"""Output: a file that appears whole or not at all, or standard output.

The bytes go to a neighbour of the target through a descriptor that we own, so that no
library can swallow a write error; then check, fsync, rename, fsync the folder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from lodcli.formats.interrupts import shielded
from lodcli.kernels.errors import LodError

COPY_BYTES = 8 << 20
_SUFFIX = ".lod-partial"
# What a file system without such locks or folder syncs answers.
_NOT_HERE = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)


class TargetExistsError(LodError, OSError):
    """The target is there already and overwriting was not asked for."""


class Output:
    """A file being written.

    Used as a context manager: leaving it normally commits, leaving it by any exception
    removes every trace. Until the commit the old file, if any, stays as it is.

    Args:
        target: a path, or "-" for standard output.
        overwrite: whether an existing file may be replaced.
        seekable: whether the writer needs `pwrite`; standard output is then written from a
            nameless temporary file at the commit.

    Raises:
        TargetExistsError: at once if the target exists and may not be replaced, and at the
            commit if it appeared meanwhile.
        OSError: the folder cannot be written to.
    """

    def __init__(
        self, target: str | os.PathLike[str], *, overwrite: bool = False, seekable: bool = False
    ) -> None:
        self.overwrite = overwrite
        self.size_bytes = 0
        self.fd = -1
        self._partial: Path | None = None
        self._spooled = False
        self.path: Path | None = None
        self.label = "standard output"
        if os.fspath(target) == "-":
            with self.naming():
                self._open_stdout(seekable)
            return
        self.label = os.fspath(target)
        # A link is followed: the file it names is replaced, the link stays.
        self.path = Path(os.path.realpath(target))
        try:
            with self.naming():
                self._refuse_existing()
                _remove_stale(self.path)
                self._open_partial(self.path)
        except BaseException:
            self.abort()
            raise

    def _open_partial(self, path: Path) -> None:
        while self._partial is None:
            with shielded():  # made and known, or neither
                self.fd, partial = tempfile.mkstemp(
                    prefix=_partial_prefix(path), suffix=_SUFFIX, dir=path.parent
                )
                self._partial = Path(partial)
            # Held while we live: a partial file nobody locks was left by a killed process.
            # Until we hold it, another writer can take this one for such, and remove it.
            if not _locked(self.fd) or not os.fstat(self.fd).st_nlink:
                self.abort()

    def _open_stdout(self, seekable: bool) -> None:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "is closed")
        if seekable:
            self._spooled = True
            with tempfile.TemporaryFile(prefix="lod-") as spooled:
                self.fd = os.dup(spooled.fileno())
        else:
            sys.stdout.flush()
            self.fd = os.dup(sys.stdout.fileno())

    def _mode(self) -> int:
        assert self.path is not None
        try:
            return os.stat(self.path).st_mode & 0o777
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            return 0o666 & ~mask

    def _refuse_existing(self) -> None:
        assert self.path is not None
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder", self.label)
        if self.path.exists():
            if not self.path.is_file():
                raise TargetExistsError(f"{self.label}: is no regular file and stays as it is")
            if not self.overwrite:
                raise TargetExistsError(f"{self.label}: exists already; use --force to replace it")

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Name the target in any error of the system from inside the block."""
        try:
            yield
        except LodError:
            raise
        except OSError as error:
            if error.filename is None:
                error.filename = os.fspath(self._partial or self.label)
            if error.filename2 is None and error.filename != self.label:
                error.filename2 = self.label
            raise

    def write(self, data: bytes | memoryview) -> None:
        """Write all of `data` at the end."""
        view = memoryview(data)
        if not view.nbytes:  # a shape with a zero in it cannot be cast
            return
        view = view.cast("B")
        with self.naming():
            while len(view):
                done = os.write(self.fd, view)
                self.size_bytes += done
                view = view[done:]

    def commit(self) -> None:
        """Make the file durable and give it its name; or send what was spooled."""
        with self.naming():
            if self._spooled:
                self._send()
            elif self.path is not None and self._partial is not None:
                # Only now: until here nobody else needs to read it, and we must.
                with contextlib.suppress(PermissionError):  # a file system without modes
                    os.fchmod(self.fd, self._mode())
                os.fsync(self.fd)
                with shielded():
                    if self.overwrite:
                        os.replace(self._partial, self.path)
                    else:
                        self._link()
                    self._partial = None
                _fsync_folder(self.path.parent)
            self._close()

    def _link(self) -> None:
        """Rename without replacing a file that appeared meanwhile."""
        assert self.path is not None
        assert self._partial is not None
        try:
            os.link(self._partial, self.path)
        except FileExistsError:
            raise TargetExistsError(
                f"{self.label}: appeared while it was being written; use --force to replace it"
            ) from None
        except OSError:  # a file system without hard links
            self._refuse_existing()
            os.replace(self._partial, self.path)
        else:
            os.unlink(self._partial)

    def _send(self) -> None:
        position = 0
        stdout = sys.stdout.fileno()
        while part := os.pread(self.fd, COPY_BYTES, position):
            view = memoryview(part)
            while len(view):
                view = view[os.write(stdout, view) :]
            position += len(part)

    def abort(self) -> None:
        """Remove what was written. Nothing happens after a commit."""
        with shielded():
            if self._partial is not None:
                with contextlib.suppress(OSError):  # what stays is removed by the next writer
                    os.unlink(self._partial)
                self._partial = None
            self._close()

    def __del__(self) -> None:
        # An interrupt between the constructor and `with` leaves nobody else to do it.
        self.abort()

    def _close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.abort()


def _partial_prefix(target: Path) -> str:
    """Return how the names of partial files of `target` begin; they fit in 255 bytes."""
    return f".{os.fsdecode(os.fsencode(target.name)[:200])}."


def _locked(fd: int) -> bool:
    """Return whether nobody else holds the file; it is then ours, where files have locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    return True


def _fsync_folder(folder: Path) -> None:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return  # a folder may be written to and yet not be read
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    finally:
        os.close(fd)


def _remove_stale(target: Path) -> None:
    """Remove partial files of `target` that a killed process left behind."""
    pending = re.compile(re.escape(_partial_prefix(target)) + r"[0-9a-z_]{8}" + re.escape(_SUFFIX))
    for path in target.parent.iterdir():
        if not pending.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):  # locked: another writer is at work
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(fd)
