"""Memory shared by the two ends of a pipe, and the socket on which they agree. Linux only."""

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

# Of Linux 5.1, and not in every `fcntl`: only maps made before may write, and pages stay.
_FUTURE_WRITE = 0x10
_SEALS = getattr(fcntl, "F_SEAL_SHRINK", 0) | getattr(fcntl, "F_SEAL_GROW", 0) | _FUTURE_WRITE
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def pipe_address(fd: int, purpose: str) -> bytes | None:
    """Return the abstract address that belongs to a pipe, whichever end of it `fd` is.

    None for what is no pipe, and where memory cannot be shared.
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
    """Return a socket to which others can connect. Raises OSError: another listens there."""
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
    """Return the first connection of the same user. Raises BlockingIOError: there is none."""
    while True:
        connection, _ = listener.accept()
        if _same_user(connection):
            connection.setblocking(False)
            return connection
        connection.close()


def connected(address: bytes) -> socket.socket:
    """Return a connection to a listening process of the same user. Raises OSError: none."""
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
    """Return new memory that the process at the other end has been sent, with a message.

    Raises:
        OSError: there is no memory, it cannot be sealed, or not be sent.
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
    """Return a message, and the descriptor and the size of the memory that came with it.

    The size can never change, and pages that were written once stay: only their content changes.

    Raises:
        OSError: nothing came, or a file that is no such memory.
    """
    message, fds, _, _ = socket.recv_fds(connection, message_bytes, 1, socket.MSG_CMSG_CLOEXEC)
    if not fds:
        raise OSError("no memory came")
    try:
        # EINVAL for any other file.
        sealed = fcntl.fcntl(fds[0], fcntl.F_GET_SEALS) & _SEALS == _SEALS
        # Of large pages that are set aside nothing says whether they are there.
        if not sealed or os.fstatvfs(fds[0]).f_bsize != mmap.PAGESIZE:
            raise OSError("its size or its pages could change")
        return message, fds[0], os.fstat(fds[0]).st_size
    except OSError:
        os.close(fds[0])
        raise


def mapped(fd: int, size: int) -> mmap.mmap:
    """Return received memory, to be read where it lies, up to where `written` says."""
    return mmap.mmap(fd, size, prot=mmap.PROT_READ)


def written(fd: int, start: int) -> int:
    """Return up to which byte, from `start` on, all pages of received memory were written.

    To read beyond takes new pages, of which there may be none: then a signal ends the process.
    """
    return os.lseek(fd, start, os.SEEK_HOLE)


def wait(connection: socket.socket, pipe: int) -> None:
    """Return once something came over the connection, or no process can read the pipe any more."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    waiting.register(pipe, 0)
    waiting.poll()


def _same_user(connection: socket.socket) -> bool:
    """Return whether a process of the same user is at the other end."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(raw)[1] == os.geteuid())
