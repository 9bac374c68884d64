"""What a file system is asked around the writing of a file: locks, folder syncs, permissions."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import tempfile
from pathlib import Path

# What a file system without such locks or folder syncs answers.
_NOT_HERE = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS, errno.EBADF)


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


def locked(fd: int) -> bool:
    """Return whether nobody else holds the file; it is then ours, where files have locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    return True


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
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
