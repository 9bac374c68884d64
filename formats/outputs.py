"""Output: a file that appears whole or not at all, or standard output.

The bytes go to a neighbour of the target through a descriptor that we own, so that no
library can swallow a write error; then check, fsync, rename, fsync the folder. Several files
that belong together, and whole folders (`FolderOutput`), appear in the same way.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from lodcli.formats.compressed import Packer
from lodcli.formats.durable import fsync_folder, locked, umask
from lodcli.formats.interrupts import shielded
from lodcli.kernels.errors import LodError, UnsupportedError

COPY_BYTES = 8 << 20
SUFFIX = ".lod-partial"
_KINDS = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


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

    Attributes:
        path: the file, links followed; None for standard output.
        label: what was typed.
        fd: the descriptor to write to.
        size_bytes: of what `write` has written.

    Raises:
        TargetExistsError: at once if the target exists and may not be replaced, and at the
            commit if it appeared meanwhile.
        OSError: the folder cannot be written to.
    """

    path: Path | None

    def __init__(
        self, target: str | os.PathLike[str], *, overwrite: bool = False, seekable: bool = False
    ) -> None:
        self._begin("standard output", None, overwrite=overwrite)
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

    def _begin(self, label: str, path: Path | None, *, overwrite: bool) -> None:
        self.label = label
        self.path = path
        self.overwrite = overwrite
        self.size_bytes = 0
        self._packer: Packer | None = None
        self.fd = -1
        self._partial: Path | None = None
        self._spooled = False
        self._parts: list[Output] = []

    def part(self, name: str) -> Output:
        """Return another file of the same target to be written: one beside this file.

        It is committed with this output, before it: the file of the target's own name comes
        last, so it must be the one without which the others are worth nothing, such as an
        index. Ask for the parts before reading anything, for each may turn out to exist.
        """
        if self.path is None:
            raise UnsupportedError(f"{self.label}: several files cannot go through a pipe")
        # Beside the name that was typed: that of a link, not of what it leads to.
        part = _Beside(Path(self.label).with_name(name), overwrite=self.overwrite)
        self._parts.append(part)
        return part

    def _make_partial(self, path: Path) -> tuple[int, str]:
        """Return a descriptor and the name of a new neighbour of `path`."""
        return tempfile.mkstemp(prefix=partial_prefix(path), suffix=SUFFIX, dir=path.parent)

    def _open_partial(self, path: Path) -> None:
        while self._partial is None:
            with shielded():  # made and known, or neither
                self.fd, partial = self._make_partial(path)
                self._partial = Path(partial)
            # Held while we live: a partial file nobody locks was left by a killed process.
            # Until we hold it, another writer can take this one for such, and remove it.
            if not locked(self.fd) or not os.fstat(self.fd).st_nlink:
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
            return 0o666 & ~umask()

    def _refuse_existing(self) -> None:
        refuse_existing(self.label, overwrite=self.overwrite)

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

    def spool(self, *, buffering: int = -1) -> IO[bytes]:
        """Return a nameless file where there is room for what will be the target."""
        folder = None if self.path is None else self.path.parent
        return tempfile.TemporaryFile(prefix="lod-", dir=folder, buffering=buffering)

    def pack(self, codec: str) -> None:
        """Make all that `write` takes from now on be packed: "gzip" or "zstd"."""
        self._packer = Packer(self._put, codec)

    def write(self, data: bytes | memoryview) -> None:
        """Write all of `data` at the end."""
        (self._put if self._packer is None else self._packer.write)(data)

    def _put(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        if not view.nbytes:  # a shape with a zero in it cannot be cast
            return
        view = view.cast("B")
        with self.naming():
            while len(view):
                done = os.write(self.fd, view)
                self.size_bytes += done
                view = view[done:]

    def write_at(self, data: bytes | memoryview, position: int) -> None:
        """Write all of `data` at a place; the output must have been opened as seekable."""
        view = memoryview(data)
        if not view.nbytes:
            return
        view = view.cast("B")
        with self.naming():
            while len(view):
                done = os.pwrite(self.fd, view, position)
                position += done
                view = view[done:]
        self.size_bytes = max(self.size_bytes, position)

    def commit(self) -> None:
        """Make the file durable and give it its name; or send what was spooled."""
        with self.naming():
            if self._packer is not None:
                self._packer.finish()
            if self._spooled:
                self._send()
            elif self.path is not None and self._partial is not None:
                for one in (*self._parts, self):
                    one._settle()
                with shielded():
                    self._appear()
                fsync_folder(self.path.parent)
            self._close()

    def _settle(self) -> None:
        """Make what was written durable, under its partial name."""
        with self.naming():
            # Only now: until here nobody else needs to read it, and we must.
            with contextlib.suppress(PermissionError):  # a file system without modes
                os.fchmod(self.fd, self._mode())
            os.fsync(self.fd)

    def _appear(self) -> None:
        """Give everything that was written its name."""
        _rename_all((*self._parts, self))

    def _rename(self) -> None:
        """Give what was written its name."""
        assert self.path is not None
        assert self._partial is not None
        with self.naming():
            if self.overwrite:
                os.replace(self._partial, self.path)
            else:
                self._link(self._partial, self.path)
            self._partial = None

    def _link(self, partial: Path, path: Path) -> None:
        """Rename without replacing a file that appeared meanwhile."""
        try:
            os.link(partial, path)
        except FileExistsError:
            raise TargetExistsError(
                f"{self.label}: appeared while it was being written; use --force to replace it"
            ) from None
        except OSError:  # a file system without hard links
            self._refuse_existing()
            os.replace(partial, path)
        else:
            os.unlink(partial)

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
            for part in self._parts:
                part.abort()
            if self._partial is not None:
                with contextlib.suppress(OSError):  # what stays is removed by the next writer
                    _remove(self._partial)
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


class _Beside(Output):
    """A part of another output, which commits it; leaving its `with` block does not."""

    def commit(self) -> None:
        self._settle()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.commit()


def _rename_all(outputs: Sequence[Output]) -> None:
    """Give all their names, in this order; on an error all old files are there again."""
    if len(outputs) == 1:
        outputs[0]._rename()
        return
    aside: dict[Path, str] = {}
    renamed: list[Path] = []
    try:
        # The old files go first, the last one's first of all: at no time, and not after a
        # crash, does an old file stand beside a new one.
        for output in reversed(outputs):
            assert output.path is not None
            if output.overwrite and output.path.is_file():
                fd, aside[output.path] = output._make_partial(output.path)
                os.close(fd)
                os.replace(output.path, aside[output.path])
                fsync_folder(output.path.parent)
        for output in outputs:
            assert output.path is not None
            output._rename()
            renamed.append(output.path)
            if output is not outputs[-1]:
                fsync_folder(output.path.parent)
    except BaseException:
        for path in reversed(renamed):
            os.unlink(path)
        for path, old in reversed(aside.items()):
            if path.exists():  # it had not been put aside yet
                os.unlink(old)
            else:
                os.replace(old, path)
        raise
    for old in aside.values():
        with contextlib.suppress(OSError):  # what stays is removed by the next writer
            os.unlink(old)


def refuse_existing(target: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise what is wrong with a place for a file, links followed.

    Raises:
        TargetExistsError: something is there that may not be replaced.
        IsADirectoryError: the place is a folder, or named like one.
    """
    label = os.fspath(target)
    try:
        mode = os.stat(label).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if label.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, "is named like a folder", label) from None
        return  # a folder that is missing is told by making the file
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder", label)
    if not stat.S_ISREG(mode):
        redirected = stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
        raise TargetExistsError(
            f"{label}: is {_KINDS.get(stat.S_IFMT(mode), 'no regular file')} and stays as it is"
            + (f"; to send the result there, redirect it: -o - > {label}" if redirected else "")
        )
    if not overwrite:
        raise TargetExistsError(f"{label}: exists already; use --force to replace it")


def partial_prefix(target: Path) -> str:
    """Return how the names of partial files of `target` begin; they fit in 255 bytes."""
    return f".{os.fsdecode(os.fsencode(target.name)[:200])}."


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _remove_stale(target: Path) -> None:
    """Remove partial files of `target` that a killed process left behind."""
    pending = re.compile(re.escape(partial_prefix(target)) + r"[0-9a-z_]{8}" + re.escape(SUFFIX))
    for path in target.parent.iterdir():
        if not pending.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):  # locked: another writer is at work
            access = os.O_RDONLY if path.is_dir() else os.O_RDWR
            fd = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            finally:
                os.close(fd)
