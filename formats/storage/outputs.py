"""Output: writes a file atomically, or standard output.

The bytes go to a partial file beside the target through a descriptor of this class, so that no
library can hide a write error; then check, fsync, rename, fsync the folder. Several files that
belong together, and whole folders (`FolderOutput`), are written in the same way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from lodcli.formats.remote.urls import is_url, shown
from lodcli.formats.storage.compression import Packer
from lodcli.formats.storage.durable import fsync_folder, rename_new
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.journal import Journal, opened, remove_stale, stem
from lodcli.formats.storage.partials import SUFFIX, partial_prefix, remove
from lodcli.formats.storage.set_commit import commit
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.options import option
from lodcli.kernels.platform import files
from lodcli.kernels.platform.files import PathLike

COPY_BYTES = 8 << 20
# Whenever this many bytes have been written to a file, the system is requested to store them.
UNSYNCED_BYTES = 32 << 20
_KINDS = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


class TargetExistsError(LodError, OSError):
    """The target exists already and overwriting was not requested."""


class MissingFolderError(LodError, FileNotFoundError):
    """The folder that a target is to be in does not exist."""


def refuse_missing_folder(path: Path, label: str) -> None:
    """Raise MissingFolderError if there is no folder to put this path into."""
    if not path.parent.exists():
        raise MissingFolderError(
            f"{label}: cannot be written: its folder does not exist; create {path.parent} first"
        ) from None


def refuse_url(target: PathLike) -> None:
    """Raise UnsupportedError if this is a URL; the message shows no password in it."""
    if is_url(target):
        label = shown(os.fspath(target))
        raise UnsupportedError(f"{label}: lod writes no URLs; write a file, and copy it there")


class Output:
    """A file being written.

    Used as a context manager: leaving it normally commits, leaving it by an exception removes
    the partial file. Until the commit the old file, if any, stays as it is.

    Args:
        target: a path, or "-" for standard output.
        overwrite: whether an existing file may be replaced.
        seekable: whether the writer needs `write_at`; standard output is then written from an
            anonymous temporary file at the commit.
        partials: the result of `partials_in` for its folder, shared by many outputs; or None.

    Attributes:
        path: the file, links followed; None for standard output.
        label: the target as it was given.
        fd: the descriptor to write to.
        size_bytes: number of bytes written.

    Raises:
        TargetExistsError: the target exists and may not be replaced; raised at the commit if it
            appeared meanwhile.
        UnsupportedError: the system cannot rename open files.
        MissingFolderError: there is no such folder.
        OSError: the folder cannot be written to.
    """

    path: Path | None
    # Permissions of a new file, without the umask.
    _new_mode = 0o666
    # Defaults for `abort` after an error in the constructor.
    fd = -1
    _partial: Path | None = None
    _parts: Sequence[Output] = ()

    def __init__(
        self,
        target: PathLike,
        *,
        overwrite: bool = False,
        seekable: bool = False,
        partials: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._begin("standard output", None, overwrite=overwrite)
        if os.fspath(target) == "-":
            with self.naming():
                self._open_stdout(seekable)
            return
        self.label = os.fspath(target)
        refuse_url(target)
        if not files.OPEN_FILES_MOVE:
            raise UnsupportedError(
                f"{self.label}: lod cannot rename an open file here, so it writes none; "
                f"redirect its output: -o - > {self.label}"
            )
        try:
            with self.naming():
                # A link is followed: its target is replaced, the link stays.
                self.path = Path(os.path.realpath(target))
                self._refuse_existing()
                self._refuse_nameless()
                remove_stale(self.path, partials)
                self._open_partial(self.path)
        except BaseException:
            self.abort()
            raise

    def _begin(self, label: str, path: Path | None, *, overwrite: bool) -> None:
        self.label = label
        self.path = path
        self.overwrite = overwrite
        self.size_bytes = 0
        self._unsynced_bytes = 0
        self._packer: Packer | None = None
        self._spooled = False

    def part(self, name: str) -> Output:
        """Return another file of the same output, beside this file.

        All files are committed together. The target itself must be the file that the others need,
        such as an index. The names may differ only in their last extension, since readers find
        the journal of a commit by the stem. Call this before reading anything: it raises an error
        if a part exists already.

        Raises:
            UnsupportedError: standard output; or links lead to several folders or stems.
        """
        if self.path is None:
            raise UnsupportedError(f"{self.label}: several files cannot go through a pipe")
        assert stem(name) == stem(Path(self.label).name), name
        # Beside the given path: beside a link, not beside its target.
        part = Beside(Path(self.label).with_name(name), overwrite=self.overwrite)
        self._parts = (*self._parts, part)
        assert part.path is not None
        if part.path.parent != self.path.parent or stem(part.path.name) != stem(self.path.name):
            raise UnsupportedError(
                f"{self.label}: links lead to {self.path} and {part.path}; the files of one output "
                "are replaced only if they have the same folder and name; give that path instead"
            )
        return part

    def _make_partial(self, path: Path) -> tuple[int, str]:
        """Return a descriptor and the name of a new partial file beside `path`."""
        # Not tempfile.mkstemp, which takes long to import.
        folder, prefix = os.path.abspath(path.parent), partial_prefix(path)
        while True:
            name = os.path.join(folder, f"{prefix}{os.urandom(4).hex()}{SUFFIX}")
            with contextlib.suppress(FileExistsError):
                return os.open(name, files.CREATE, 0o600), name

    def _open_partial(self, path: Path) -> None:
        while self._partial is None:
            with shielded():  # no interrupt between creating the file and storing its name
                self.fd, partial = self._make_partial(path)
                self._partial = Path(partial)
            # Locked until the process ends: an unlocked partial file was left by a killed process.
            # Before the lock, another writer may take this file for one of those and remove it.
            if self._lock() is False or not os.fstat(self.fd).st_nlink:
                self.abort()

    def _lock(self) -> bool | None:
        return files.lock(self.fd)

    def _open_stdout(self, seekable: bool) -> None:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "is closed")
        if seekable:
            self._spooled = True
            import tempfile

            with tempfile.TemporaryFile(prefix="lod-") as spooled:
                self.fd = os.dup(spooled.fileno())
        else:
            sys.stdout.flush()
            self.fd = os.dup(sys.stdout.fileno())

    def _permit(self, fd: int) -> None:
        """Set the permissions of a descriptor: those of the replaced file, or of a new one."""
        assert self.path is not None
        try:
            files.set_mode_like(fd, self.path)
        except FileNotFoundError:
            files.set_mode(fd, files.new_mode(self._new_mode, self.path.parent))

    def _refuse_existing(self) -> None:
        refuse_existing(self.label, overwrite=self.overwrite)

    def _refuse_nameless(self) -> None:
        """Raise TargetExistsError for the descriptor of an open file that was deleted."""
        assert self.path is not None
        # Linux's name of a deleted file. Any other missing file may be being renamed by a commit.
        gone = self.path.name.endswith(" (deleted)") and not os.path.lexists(self.path)
        if gone and os.path.exists(self.label):
            raise TargetExistsError(f"{self.label}: is an open file that was deleted; name another")

    @contextlib.contextmanager
    def naming(self, *, spooling: bool = False) -> Iterator[None]:
        """Add the name of the target to OSErrors raised in the block.

        Args:
            spooling: whether the block works on a file of `spool`.
        """
        try:
            yield
        except LodError:
            raise
        except OSError as error:
            if error.errno == errno.ENOENT and self.path is not None:
                refuse_missing_folder(self.path, self.label)
            if error.filename is None:
                error.filename = os.fspath(self._partial or self.path or self.label)
                if self.path is None and (spooling or self._spooled):
                    import tempfile

                    error.filename += f", collected in {tempfile.gettempdir()}"
            path = None if self.path is None else os.fspath(self.path)
            if path and error.filename2 in (None, path) and error.filename != self.label:
                error.filename2 = self.label
            raise

    def spool(self, *, buffering: int = -1) -> IO[bytes]:
        """Return an anonymous temporary file on the file system of the target."""
        import tempfile

        # No interrupt between opening the descriptor and making the file of it.
        if self.path is None:
            with shielded():
                return tempfile.TemporaryFile(prefix="lod-", buffering=buffering)
        with self.naming(), shielded():
            try:
                return tempfile.TemporaryFile(
                    prefix="lod-", dir=self.path.parent, buffering=buffering
                )
            except OSError as error:
                error.filename = None  # the target is named, not a file that its user did not name
                raise

    def pack(self, codec: str) -> None:
        """Compress all bytes of later calls of `write`, by "gzip" or "zstd"."""
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
            files.write_all(self.fd, view)
        self.size_bytes += len(view)
        self.wrote(len(view))

    def write_at(self, data: bytes | memoryview, position: int) -> None:
        """Write all of `data` at a position; the output must have been opened as seekable."""
        view = memoryview(data)
        if not view.nbytes:
            return
        with self.naming():
            end = files.write_all_at(self.fd, view.cast("B"), position)
        self.size_bytes = max(self.size_bytes, end)
        self.wrote(view.nbytes)

    def wrote(self, size_bytes: int) -> None:
        """Count bytes written to `fd`, and start writing them to the disk before `commit`.

        Without this, `commit` took a third of the time, waiting for the disk.
        """
        self._unsynced_bytes += size_bytes
        if self._unsynced_bytes >= UNSYNCED_BYTES and self._partial is not None:
            self._unsynced_bytes = 0
            files.start_sync(self.fd)

    def commit(self) -> None:
        """Sync the file and rename it to its target; or send the spooled data."""
        with self.naming():
            if self._packer is not None:
                self._packer.finish()
            if self._spooled:
                self._spooled = False
                self._send()
            elif self.path is not None and self._partial is not None:
                for one in (*self._parts, self):
                    one._settle()
                self._appear()
            self._close()

    def _settle(self) -> None:
        """Sync the written data, under its partial name."""
        with self.naming():
            # Only now: other users must not be able to read an unfinished file.
            self._permit(self.fd)
            files.fsync(self.fd)

    def _appear(self) -> None:
        """Rename everything that was written to its target, durably."""
        assert self.path is not None
        assert self._partial is not None
        try:
            if self._parts:
                self._commit_set()
                return
            with shielded():
                (os.replace if self.overwrite else rename_new)(self._partial, self.path)
                self._partial = None
            fsync_folder(self.path.parent)
        except FileExistsError as error:
            appeared = (error.filename, error.filename2)
            label = next((one.label for one in self._parts if one.path in appeared), self.label)
            raise TargetExistsError(
                f"{label}: was created while it was being written; use {option('force', True)} to "
                "replace it"
            ) from None

    def _commit_set(self) -> None:
        """Commit all files of this output as one."""
        assert self.path is not None
        written = (*self._parts, self)
        names = {one.path.name: one._partial.name for one in written if one.path and one._partial}
        journal = Journal(self.path.parent, names, self.overwrite)
        commit(journal, self.label, self._refuse_appeared, self._release)

    def _refuse_appeared(self) -> None:
        """Raise FileExistsError if a file appeared that may not be replaced."""
        for one in () if self.overwrite else (*self._parts, self):
            assert one.path is not None
            if os.path.lexists(one.path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), one.path)

    def _release(self) -> None:
        """Forget the partial files, which belong to the journal now."""
        for one in (*self._parts, self):
            one._partial = None

    def _send(self) -> None:
        position = 0
        stdout = sys.stdout.fileno()
        while part := files.pread(self.fd, COPY_BYTES, position):
            files.write_all(stdout, part)
            position += len(part)

    def abort(self) -> None:
        """Remove the partial file. Does nothing after a commit."""
        with shielded():
            for part in self._parts:
                part.abort()
            if self._partial is not None:
                with contextlib.suppress(OSError):  # the next writer removes it otherwise
                    try:
                        remove(self._partial)
                    except OSError as error:
                        if error.errno != errno.EMFILE:
                            raise
                        self._close()  # removing a folder needs a file descriptor
                        remove(self._partial)
                self._partial = None
            self._close()

    def __del__(self) -> None:
        # For an interrupt between the constructor and `with`. Usually there is nothing to do; an
        # interrupt that comes in a destructor is swallowed by Python.
        if self.fd >= 0 or self._partial is not None:
            self.abort()

    def _close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.abort()


class Beside(Output):
    """A file of a set: the set commits it, leaving its own `with` block only syncs it."""

    def commit(self) -> None:
        if self._packer is not None:
            self._packer.finish()
        self._settle()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.commit()


def refuse_existing(target: PathLike, *, overwrite: bool) -> None:
    """Raise for an invalid path of a file, following links.

    Raises:
        TargetExistsError: something is there that may not be replaced.
        IsADirectoryError: the place is named like a folder.
    """
    label = os.fspath(target)
    try:
        mode = opened(Path(label), os.stat).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if label.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, "has the name of a folder", label) from None
        return  # a missing folder is detected when the file is made
    if stat.S_ISDIR(mode):
        raise TargetExistsError(f"{label}: is a folder, not a file; name a file in it")
    if not stat.S_ISREG(mode):
        redirected = stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
        raise TargetExistsError(
            f"{label}: is {_KINDS.get(stat.S_IFMT(mode), 'no regular file')} and is left unchanged"
            + (f"; to write the result there, redirect it: -o - > {label}" if redirected else "")
        )
    if not overwrite:
        raise TargetExistsError(
            f"{label}: exists already; use {option('force', True)} to replace it"
        )
