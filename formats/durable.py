"""What a file system is asked around the writing of a file: locks, folder syncs, permissions."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

# What a file system without such locks or folder syncs answers.
_NOT_HERE = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS, errno.EBADF)


def umask() -> int:
    """Return the permissions that new files of this process must not have."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
