"""The Linux calls to supervise a process: a seccomp filter passes its calls to a supervisor."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct

# The numbers of system calls on x86-64 and on aarch64, which lacks some.
_TABLE = """
read 0 63
write 1 64
pread64 17 67
pwrite64 18 68
writev 20 66
pwritev 296 70
sendfile 40 71
copy_file_range 326 285
open 2 -
openat 257 56
creat 85 -
close 3 57
dup 32 23
dup2 33 -
dup3 292 24
fsync 74 82
fdatasync 75 83
ftruncate 77 46
truncate 76 45
fallocate 285 47
fchmod 91 52
chmod 90 -
fchmodat 268 53
rename 82 -
renameat 264 38
renameat2 316 276
link 86 -
linkat 265 37
unlink 87 -
unlinkat 263 35
rmdir 84 -
mkdir 83 -
mkdirat 258 34
flock 73 32
lseek 8 62
getdents64 217 61
newfstatat 262 79
statx 332 291
mmap 9 222
brk 12 214
mremap 25 216
"""
# The column of an architecture in the table, and its number in seccomp.
_MACHINES = {"x86_64": (1, 0xC000003E), "aarch64": (2, 0xC00000B7)}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PIDFD_GETFD = 438
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 8, 32
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_CONTINUE = 1

_libc = ctypes.CDLL(None, use_errno=True)
_COLUMN, _ARCHITECTURE = _MACHINES.get(platform.machine(), (0, 0))
NUMBERS = {
    line.split()[0]: int(line.split()[_COLUMN])
    for line in _TABLE.strip().splitlines()
    if _COLUMN and line.split()[_COLUMN] != "-"
}
_CALLS = {number: name for name, number in NUMBERS.items()}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _instruction(code: int, yes: int, no: int, value: int) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def supervise(names: frozenset[str]) -> int:
    """Make system calls of these names, in this process and its children, wait for an answer.

    Returns:
        A descriptor for `received` and `answer`, to be given to another process.
    """
    numbers = sorted(NUMBERS[name] for name in names if name in NUMBERS)
    code = _instruction(0x20, 0, 0, 4)  # the architecture: another has other numbers
    code += _instruction(0x15, 0, len(numbers) + 1, _ARCHITECTURE)
    code += _instruction(0x20, 0, 0, 0)  # the number
    for place, number in enumerate(numbers):
        code += _instruction(0x15, len(numbers) - place, 0, number)
    code += _instruction(0x06, 0, 0, 0x7FFF0000)  # allow
    code += _instruction(0x06, 0, 0, 0x7FC00000)  # ask
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # A call that waits for an answer must not end with EINTR if a signal arrives.
    flags = _NEW_LISTENER | _WAIT_KILLABLE
    number = _SECCOMP[platform.machine()]
    return _checked(_libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.byref(program)))


def die_with_parent() -> None:
    """Kill this process when its parent ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def received(listener: int) -> tuple[int, int, str, tuple[int, ...]]:
    """Return the next call: an id for its answer, the thread, its name and arguments.

    Raises:
        FileNotFoundError: the thread was killed meanwhile.
    """
    buffer = bytearray(80)
    fcntl.ioctl(listener, _RECEIVE, buffer)
    number, thread, _, call, _, _, *args = struct.unpack("QIIiIQ6Q", buffer)
    return number, thread, _CALLS[call], tuple(args)


def answer(listener: int, number: int, *, value: int | None = None, error: int = 0) -> None:
    """Let the kernel execute a call; or return a result or an error without executing it."""
    flags = _CONTINUE if value is None and not error else 0
    fcntl.ioctl(listener, _ANSWER, struct.pack("QqiI", number, value or 0, -error, flags))


def descriptor_of(process: int, fd: int) -> int:
    """Return a copy of a descriptor of another process."""
    pidfd = os.pidfd_open(process)
    try:
        return _checked(_libc.syscall(_PIDFD_GETFD, pidfd, fd, 0))
    finally:
        os.close(pidfd)
