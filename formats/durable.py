"""What differs between systems and file systems when files are written: locks, syncs, names.

Each has a fallback where the system lacks the call; its docstring says what is weaker then.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import tempfile
from pathlib import Path

# What a file system without such locks or folder syncs answers.
_NOT_HERE = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS, errno.EBADF)
_AT_FDCWD = -100
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2


def umask() -> int:
    """Return the permissions that new files of this process must not have.

    `os.umask` can only tell them by changing them, for every thread of the process.
    """
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    return _umask_of_a_probe()


def _umask_of_a_probe() -> int:
    """Return what a new file was not given, of the permissions that were asked for."""
    # Not tempfile.mkstemp, which asks for 0o600.
    probe = os.path.join(tempfile.gettempdir(), f"lod-{secrets.token_hex(8)}")
    fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777)
    try:
        os.unlink(probe)
        return 0o777 & ~os.fstat(fd).st_mode
    finally:
        os.close(fd)


def is_ours(path: Path) -> bool:
    """Return whether a file belongs to the user we are; yes where files have no owners."""
    found = os.lstat(path)
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


def try_lock(fd: int, *, shared: bool = False) -> bool | None:
    """Return whether the file or folder is locked for us now, and not by another process.

    None where the file system has no locks: then a file that a killed process left cannot be
    told from one that is being written.
    """
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        return None
    return True


def unlock(fd: int) -> None:
    """Give up the lock of `try_lock` before the file is closed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise


def fsync(fd: int) -> None:
    """Make the content of a file durable."""
    full: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(fd)
        return
    try:
        fcntl.fcntl(fd, full)  # there fsync stops at the cache of the drive
    except OSError:
        os.fsync(fd)


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable.

    Where folders cannot be synced, or this one not be read, they become so when the system
    pleases: a power cut may bring an old file back.
    """
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


def exchange(one: Path, other: Path) -> bool:
    """Let two files or folders of one file system change names at once.

    Returns:
        Whether it was done; False where the system or the file system cannot.
    """
    return _renameat2(one, other, _RENAME_EXCHANGE)


def rename_new(old: Path, new: Path) -> None:
    """Rename a file, but never to where another is.

    Where the system cannot do that at once, a power cut may leave both names; where it has no
    hard links either, a file that appears at the last moment is replaced.

    Raises:
        FileExistsError: there is another of the new name.
    """
    try:
        if _renameat2(old, new, _RENAME_NOREPLACE):
            return
        os.link(old, new)
    except FileExistsError:
        if not os.path.samefile(old, new):  # as after a kill between the link and the unlink
            raise
    except OSError:
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
        os.replace(old, new)
        return
    fsync_folder(new.parent)  # before the old name goes: the file must have one
    os.unlink(old)


def _renameat2(old: Path, new: Path, flags: int) -> bool:
    """Call Linux's renameat2; return False where it cannot do this."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) == 0:
        return True
    number = ctypes.get_errno()
    # A sandbox may answer EPERM to what it does not know; if it is meant, so does the fallback.
    if number in (*_NOT_HERE, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), os.fspath(old), None, os.fspath(new))


class OpenFolder:
    """A folder that stays the same one though another takes its name.

    Nor is it removed by a writer that replaces it, as long as it is open. Where the system
    finds no files by an open folder, they are found by its name: a reader of a folder that is
    being replaced may then meet an error.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        if {os.open, os.stat} <= os.supports_dir_fd and os.scandir in os.supports_fd:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with contextlib.suppress(OSError):
                try_lock(self._fd, shared=True)

    def open(self, name: str) -> int:
        """Return a descriptor to read one of its files."""
        return os.open(self._place(name), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._fd)

    def stat(self, name: str) -> os.stat_result:
        """Return what `os.stat` says of one of its files, links followed."""
        return os.stat(self._place(name), dir_fd=self._fd)

    def _place(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What is open of it."""
        return () if self._fd is None else (self._fd,)

    def size_bytes(self) -> int:
        """Return the size of all its files."""
        with os.scandir(self._path if self._fd is None else self._fd) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.is_file())

    def close(self) -> None:
        """Let go of it. It may be closed again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
