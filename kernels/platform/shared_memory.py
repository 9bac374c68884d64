"""Memory shared by the processes at both ends of a pipe, sent over a socket. Linux only."""

from __future__ import annotations

import mmap
import os
import select
import socket
import stat
import struct
import sys

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# F_SEAL_FUTURE_WRITE of Linux 5.1, which not every `fcntl` module has: only mappings made before
# may write, and written pages cannot be removed.
_FUTURE_WRITE = 0x10
_SEALS = getattr(fcntl, "F_SEAL_SHRINK", 0) | getattr(fcntl, "F_SEAL_GROW", 0) | _FUTURE_WRITE
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def pipe_address(fd: int, purpose: str) -> bytes | None:
    """Return the abstract socket address for a pipe, the same for both of its ends.

    None if `fd` is not a pipe, or if the system cannot share memory.
    """
    if not (sys.platform.startswith("linux") and hasattr(os, "memfd_create") and fcntl):
        return None
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    if not stat.S_ISFIFO(found.st_mode):
        return None
    return b"\0%s-%x-%x" % (purpose.encode(), found.st_dev, found.st_ino)


def listening(address: bytes) -> socket.socket:
    """Return a listening socket. Raises OSError: another process listens at the address."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        made.setblocking(False)
        made.bind(address)
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def accepted(listener: socket.socket) -> socket.socket:
    """Return the first connection from a process of the same user. Raises BlockingIOError: none."""
    while True:
        connection, _ = listener.accept()
        if _same_user(connection):
            connection.setblocking(False)
            return connection
        connection.close()


def connected(address: bytes) -> socket.socket:
    """Return a connection to a listening process. Raises OSError: none of the same user listens."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        made.setblocking(False)
        made.connect(address)
        if not _same_user(made):
            raise PermissionError("a process of another user listens")
    except OSError:
        made.close()
        raise
    return made


def send_memory(connection: socket.socket, message: bytes, size: int) -> mmap.mmap:
    """Create memory, send it with a message to the process at the other end, and return it.

    Raises:
        OSError: the memory cannot be allocated, sealed or sent.
    """
    fd = os.memfd_create("lod", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        memory = mmap.mmap(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS | fcntl.F_SEAL_SEAL)
        socket.send_fds(connection, [message], [fd])
    finally:
        os.close(fd)
    return memory


def received_memory(connection: socket.socket, message_bytes: int) -> tuple[bytes, int, int]:
    """Return a message, and the file descriptor and size of the memory sent with it.

    The size cannot change, and written pages cannot be removed: only their content can change.

    Raises:
        OSError: no file was sent, or one that is not such memory.
    """
    message, fds, _, _ = socket.recv_fds(connection, message_bytes, 1, socket.MSG_CMSG_CLOEXEC)
    if not fds:
        raise OSError("no memory came")
    try:
        # EINVAL for a file that does not support seals.
        sealed = fcntl.fcntl(fds[0], fcntl.F_GET_SEALS) & _SEALS == _SEALS
        # Not huge pages: whether they are allocated cannot be found out.
        if not sealed or os.fstatvfs(fds[0]).f_bsize != mmap.PAGESIZE:
            raise OSError("its size or its pages could change")
        return message, fds[0], os.fstat(fds[0]).st_size
    except OSError:
        os.close(fds[0])
        raise


def mapped(fd: int, size: int) -> mmap.mmap:
    """Return received memory mapped for reading; read only as far as `written` returns."""
    return mmap.mmap(fd, size, prot=mmap.PROT_READ)


def written(fd: int, start: int) -> int:
    """Return the end, in bytes, of the pages of received memory written without a gap from `start`.

    Reading beyond it allocates pages; if there is no memory left, a signal ends the process.
    """
    return os.lseek(fd, start, os.SEEK_HOLE)


def wait(connection: socket.socket, pipe: int) -> None:
    """Wait until the connection has data, or no process has the reading end of the pipe open."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    waiting.register(pipe, 0)
    waiting.poll()


def _same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end has the same user."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(raw)[1] == os.geteuid())
