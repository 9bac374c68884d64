"""Open files and their names: flags, positions, locks, syncs, renames."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from lodcli.kernels.platform.processes import libc, lines_of

if TYPE_CHECKING:
    import numpy.typing as npt

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]
# Errors of calls that the system or the file system does not support.
NOT_HERE = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EBADF)
_AT_FDCWD = -100
_ACCESS_LIST, _DEFAULT_LIST = "system.posix_acl_access", "system.posix_acl_default"
_OWNER, _GROUP, _MASK, _OTHER = 1, 4, 16, 32
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
_SYNC_FILE_RANGE_WRITE = 2


# -- opening ---------------------------------------------------------------------------

# Otherwise Windows converts line ends. Python itself makes descriptors non-inheritable.
_BINARY: int = getattr(os, "O_BINARY", 0)
READ: int = os.O_RDONLY | _BINARY
CREATE: int = os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY
# If the system lacks these flags, symbolic links are followed, and opening a pipe blocks.
UNTRUSTED: int = _BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
FOLDERS_OPEN = hasattr(os, "O_DIRECTORY")
OPEN_FILES_MOVE = sys.platform != "win32"


def open_folder(path: PathLike, *, within: int | None = None) -> int:
    """Return a descriptor of a folder.

    Args:
        path: path of the folder.
        within: descriptor of the folder that `path` is relative to.

    Raises:
        OSError: it cannot be opened, or `FOLDERS_OPEN` is false.
    """
    if not FOLDERS_OPEN:
        raise OSError(errno.EOPNOTSUPP, "folders cannot be opened here", os.fspath(path))
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=within)


def descriptor_path(fd: int) -> str:
    """Return a path of an open file that is valid even if it was renamed. Linux only."""
    return f"/proc/self/fd/{fd}"


def reopen(fd: int, path: PathLike | None) -> int | None:
    """Return another descriptor of an open file, with a separate position.

    Args:
        fd: descriptor of the file.
        path: the path at which it was opened, if known.

    Returns:
        The descriptor; None without /proc, if the file is no longer at `path`.
    """
    places: list[PathLike] = [descriptor_path(fd)]
    if path is not None:
        places.append(path)
    for place in places:
        with contextlib.suppress(OSError):
            made = os.open(place, READ)
            if os.path.samestat(os.fstat(made), os.fstat(fd)):
                return made
            os.close(made)
    return None


def umask() -> int:
    """Return the umask of this process.

    Does not call `os.umask`, which changes it for all threads of the process to return it.
    """
    for line in lines_of("/proc/self/status"):
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return _umask_of_a_probe()


def _umask_of_a_probe() -> int:
    """Return the requested permissions that a new file lacks."""
    import tempfile  # slow to import, and rarely used

    folder = tempfile.gettempdir()
    nameless = getattr(os, "O_TMPFILE", None)
    if nameless is not None:  # such a file is gone however the process ends
        with contextlib.suppress(OSError):  # a file system without them
            return _lacking(os.open(folder, nameless | os.O_RDWR | os.O_CLOEXEC, 0o777))
    # Not tempfile.mkstemp, which asks for 0o600.
    probe = os.path.join(folder, f"lod-{os.urandom(8).hex()}")
    fd = os.open(probe, CREATE, 0o777)
    if not OPEN_FILES_MOVE:
        found = _lacking(fd)
        os.unlink(probe)
        return found
    os.unlink(probe)
    return _lacking(fd)


def _lacking(fd: int) -> int:
    """Return which of the permissions 0o777 an open file lacks, and close it."""
    try:
        return 0o777 & ~os.fstat(fd).st_mode
    finally:
        os.close(fd)


def new_mode(mode: int, folder: PathLike) -> int:
    """Return the permissions of a new file in a folder that was requested with `mode`.

    Those are limited by the default access control list of the folder, if it has one, else by the
    umask.
    """
    try:
        packed = os.getxattr(folder, _DEFAULT_LIST)
    except (AttributeError, OSError):  # no such system, file system or list
        return mode & ~umask()
    # Linux's acl(5): after a version, triples of a kind, its permissions and a user or group.
    allowed: dict[int, int] = {
        kind: bits for kind, bits, _ in struct.iter_unpack("<HHI", packed[4:])
    }
    group = allowed.get(_MASK, allowed[_GROUP])
    return mode & (allowed[_OWNER] << 6 | group << 3 | allowed[_OTHER])


def owns(path: PathLike) -> bool:
    """Return whether a file belongs to the user of this process; True if files have no owners."""
    found = os.lstat(path)
    return user_id() in (None, found.st_uid)


def user_id() -> int | None:
    """Return the number of the effective user; None on a system without such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def set_mode(fd: int, mode: int) -> None:
    """Set the permissions of an open file or folder; does nothing if files have none.

    A folder keeps the set-group-id bit, which gives new files in it the group of the folder.
    """
    if hasattr(os, "fchmod"):
        before = os.fstat(fd).st_mode
        with contextlib.suppress(PermissionError):  # a file system without modes
            os.fchmod(fd, mode | (before & stat.S_ISGID if stat.S_ISDIR(before) else 0))


def set_mode_like(fd: int, old: PathLike) -> None:
    """Set the group, the permissions and the access control list to those of an old file.

    If this user may not give it the group, its own group gets the permissions of all others.

    Raises:
        FileNotFoundError: there is no old file.
    """
    found = os.stat(old)
    mode = found.st_mode & 0o777
    # With a list, the mode has its mask in place of the permissions of the group.
    if not take_group(fd, found) or not _take_access_list(fd, old):
        mode = mode & 0o707 | (mode & 0o007) << 3
    set_mode(fd, mode)


def _take_access_list(fd: int, old: PathLike) -> bool:
    """Give an open file the access control list of an old one, or none; return whether it did."""
    if not hasattr(os, "getxattr"):
        return True
    try:
        entries = os.getxattr(old, _ACCESS_LIST)
    except OSError:  # there is none; the new file may have inherited one
        with contextlib.suppress(OSError):
            os.removexattr(fd, _ACCESS_LIST)
        return True
    try:
        os.setxattr(fd, _ACCESS_LIST, entries)
    except OSError:
        return False
    return True


def take_group(fd: int, old: os.stat_result) -> bool:
    """Give an open file the group of an old one, and a folder its set-group-id bit.

    Returns:
        Whether it has the group: this user may not be a member.
    """
    new = os.fstat(fd)
    if hasattr(os, "fchown") and new.st_gid != old.st_gid:
        try:
            os.fchown(fd, -1, old.st_gid)
        except OSError:
            return False
    if stat.S_ISDIR(new.st_mode) and old.st_mode & stat.S_ISGID:
        set_mode(fd, new.st_mode & 0o777 | stat.S_ISGID)
    return True


# -- reading and writing at a position -------------------------------------------------

# For systems without pread and pwrite: the position is changed and restored. That is safe for all
# threads of one process, but not for a fork of it; such systems have no fork.
_positions = threading.Lock()


# By descriptor, a callback that fetches bytes of the file before they are read.
_FETCHES: dict[int, Callable[[int, int], None]] = {}


def fetch_before_reads(fd: int, fetch: Callable[[int, int], None]) -> None:
    """Have `pread` and `read_at` call `fetch(position, size_bytes)` before they read a file."""
    _FETCHES[fd] = fetch


def stop_fetching(fd: int) -> None:
    """Remove the callback of `fetch_before_reads`; required before the descriptor is closed."""
    _FETCHES.pop(fd, None)


def fetch(fd: int, position: int, size_bytes: int) -> None:
    """Fetch bytes of a file for other readers: C libraries, memory maps, other processes."""
    if fd in _FETCHES:
        _FETCHES[fd](position, size_bytes)


def pread(fd: int, size: int, position: int) -> bytes:
    """Read as `os.pread`."""
    fetch(fd, position, size)
    if hasattr(os, "pread"):
        return os.pread(fd, size, position)
    with _moved(fd, position):
        return os.read(fd, size)


def read_at(fd: int, out: memoryview | npt.NDArray[Any], position: int) -> int:
    """Read into `out` from a position on; return the number of bytes read, 0 at the end.

    Args:
        out: a memoryview of bytes, or a C-contiguous array of any dtype.
    """
    if fd in _FETCHES:
        fetch(fd, position, out.nbytes)
    if hasattr(os, "preadv"):
        return os.preadv(fd, [out], position)  # type: ignore[list-item]  # an array is a buffer
    part = pread(fd, out.nbytes, position)
    view = out if isinstance(out, memoryview) else out.reshape(-1).view("u1").data
    view[: len(part)] = part
    return len(part)


def pwrite(fd: int, data: bytes | memoryview, position: int) -> int:
    """Write as `os.pwrite`."""
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, position)
    with _moved(fd, position):
        return os.write(fd, data)


# For larger writes Linux allocates the file's pages in large blocks, which it has to find and to
# touch first: that took 1 to 7 times as long.
PIECE_BYTES = 128 << 10


def write_all_at(fd: int, data: bytes | memoryview, position: int) -> int:
    """Write all of `data`, bytes, from a position on; return the position after it."""
    view = memoryview(data)
    while len(view):
        done = pwrite(fd, view[:PIECE_BYTES], position)
        view, position = view[done:], position + done
    return position


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of `data`, bytes, to a file or a pipe."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(fd, view[:PIECE_BYTES]) :]


@contextlib.contextmanager
def _moved(fd: int, position: int) -> Iterator[None]:
    with _positions:
        before = os.lseek(fd, 0, os.SEEK_CUR)
        try:
            os.lseek(fd, position, os.SEEK_SET)
            yield
        finally:
            os.lseek(fd, before, os.SEEK_SET)


def copy_range(source: int, target: int, size: int, offset: int, target_offset: int) -> int:
    """Copy bytes from file to file within the file system, which may share its blocks.

    Returns:
        How many were copied; 0 if that is not supported: then read and write them.
    """
    call = getattr(os, "copy_file_range", None)
    if call is None:
        return 0
    try:
        return int(call(source, target, size, offset, target_offset))
    except OSError as error:
        if error.errno not in (*NOT_HERE, errno.EXDEV, errno.EPERM):
            raise
        return 0


def send(source: int, target: int, size: int, offset: int) -> int:
    """Write a part of one file at the position of another, without a copy in this process.

    Returns:
        How many bytes were written; 0 if that is not supported.
    """
    # Elsewhere only a socket can be the target.
    if not (sys.platform.startswith("linux") and hasattr(os, "sendfile")):
        return 0
    return os.sendfile(target, source, offset, size)


def widen_pipe(fd: int, size: int) -> None:
    """Set the size of a pipe's buffer. Linux only; elsewhere it is unchanged."""
    with contextlib.suppress(AttributeError, OSError):  # no pipe; not allowed
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)


# -- locks, syncs and names ------------------------------------------------------------


def lock(fd: int, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Lock a file or folder; return whether it succeeded, False if another process has a lock.

    None if the system or the file system has no locks.
    """
    if fcntl is None:
        return None
    flags = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(fd, flags)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NOT_HERE:
            raise
        return None
    return True


def unlock(fd: int) -> None:
    """Release the lock of `lock` before the file is closed."""
    if fcntl is None:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    except OSError as error:
        if error.errno not in NOT_HERE:
            raise


def fsync(fd: int) -> None:
    """Make the content of a file durable."""
    full: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(fd)
        return
    try:
        fcntl.fcntl(fd, full)  # on macOS, where fsync does not flush the drive's cache
    except OSError:
        os.fsync(fd)


def start_sync(fd: int) -> None:
    """Start writing the cached content of a file to the disk, if the system supports it.

    A later `fsync` then takes less time. It also reports errors of this write.
    """
    call = libc("sync_file_range")
    if call is not None:
        import ctypes

        call(fd, ctypes.c_longlong(0), ctypes.c_longlong(0), _SYNC_FILE_RANGE_WRITE)


def exchange(one: PathLike, other: PathLike) -> bool:
    """Exchange the names of two files or folders of one file system atomically.

    Returns:
        Whether it was done; False if the system or the file system does not support it.
    """
    return _renameat2(one, other, _RENAME_EXCHANGE)


def rename_unless_there(old: PathLike, new: PathLike) -> bool:
    """Rename a file atomically, without replacing another one.

    Returns:
        Whether it was done; False if the system or the file system does not support it.

    Raises:
        FileExistsError: a file with the new name exists.
    """
    return _renameat2(old, new, _RENAME_NOREPLACE)


def _renameat2(old: PathLike, new: PathLike, flags: int) -> bool:
    """Call Linux's renameat2; return False if it is not supported."""
    call = libc("renameat2")
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) == 0:
        return True
    import ctypes

    number = ctypes.get_errno()
    # A sandbox may return EPERM for unknown calls; a genuine EPERM occurs in the fallback too.
    if number in (*NOT_HERE, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), os.fspath(old), None, os.fspath(new))
