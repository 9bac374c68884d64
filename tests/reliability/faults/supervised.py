"""Runs a command in a forked child, whose system calls are observed and may be replaced."""

from __future__ import annotations

import array
import contextlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.reliability.faults import kernel

READING = frozenset({"read", "pread64", "getdents64", "newfstatat", "statx"})
WRITING = frozenset(kernel.NUMBERS) - READING - {"mmap", "brk", "mremap", "lseek"}
ALLOCATING = frozenset({"mmap", "brk", "mremap"})
# Calls whose first argument is a descriptor; that of the others is a path, or a folder and a path.
_OF_DESCRIPTORS = frozenset(
    [
        *("read", "write", "pread64", "pwrite64", "writev", "pwritev", "sendfile", "close"),
        *("dup", "dup2", "dup3", "fsync", "fdatasync", "ftruncate"),
        *("fallocate", "fchmod", "flock", "lseek", "getdents64"),
    ]
)
_OF_TWO_PATHS = frozenset({"rename", "link"})
_OF_TWO_PLACES = frozenset({"renameat", "renameat2", "linkat"})
_AT_FDCWD = 0xFFFFFF9C
HANG_SECONDS = 60


@dataclass(frozen=True)
class Call:
    """A call of the operating system, before it happens.

    Attributes:
        number: the number of calls of the run before it.
        name: its name.
        args: its arguments, as numbers.
        process: the process that makes it.
        paths: the absolute paths of its descriptor, or of its arguments.
    """

    number: int
    name: str
    args: tuple[int, ...]
    process: int
    paths: tuple[str, ...]


# What to do with a call: nothing; let it fail with an error number; let it do half of its work;
# kill the process; or interrupt it.
Fault = int | str | signal.Signals | None
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHORT, KILL = "short", "SIGKILL"
Decide = Callable[[Call], Fault]


@dataclass(frozen=True)
class Run:
    """The result of a command.

    Attributes:
        code: its exit code; the negative number of the signal that ended it.
        said: its standard error.
        calls: the number of its calls.
    """

    code: int
    said: str
    calls: int


def run(work: Callable[[], int], folder: Path, names: frozenset[str], decide: Decide) -> Run:
    """Run a function in a forked child, and decide on each of its system calls of these names.

    Args:
        work: the function, which returns an exit code.
        folder: its working directory.
        names: names of calls; one of the groups above.
        decide: returns the action for a call.
    """
    ours, theirs = socket.socketpair()
    said = os.memfd_create("said")
    child = os.fork()
    if child == 0:
        ours.close()
        _child(work, folder, names, theirs, said)
    theirs.close()
    try:
        calls = _supervise(ours, child, decide)
        text = "" if _ended(child) else "hangs\n"
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text += os.pread(said, 1 << 20, 0).decode("utf-8", "replace")
    finally:
        os.close(said)
        ours.close()
    return Run(code, text, calls)


def _child(
    work: Callable[[], int], folder: Path, names: frozenset[str], theirs: socket.socket, said: int
) -> None:
    code = 70
    try:
        os.setpgid(0, 0)
        kernel.die_with_parent()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.memfd_create("data"), 1)
        os.dup2(said, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_DFL)
        listener = kernel.supervise(names) if names else -1
        message = array.array("i", [listener] if names else [])
        theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, message)] if names else [])
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        with contextlib.suppress(BaseException):
            os.write(said, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _supervise(ours: socket.socket, child: int, decide: Decide) -> int:
    _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    if not ancillary:
        return 0
    (listener,) = array.array("i", ancillary[0][2])
    calls = 0
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    try:
        while True:
            events = poll.poll(HANG_SECONDS * 1000)
            if not events or not events[0][1] & select.POLLIN:
                return calls  # all processes of the command have ended, or none ever will
            with contextlib.suppress(FileNotFoundError):  # killed meanwhile
                number, thread, name, args = kernel.received(listener)
                call = Call(calls, name, args, thread, _paths(thread, name, args))
                calls += 1
                _answer(listener, number, call, decide(call), child)
    finally:
        os.close(listener)


def _ended(child: int) -> bool:
    """Wait for the end of a process; kill it if it does not end."""
    pidfd = os.pidfd_open(child)
    try:
        ended = bool(select.select([pidfd], [], [], HANG_SECONDS)[0])
        if not ended:
            os.killpg(child, signal.SIGKILL)
        return ended
    finally:
        os.close(pidfd)


def _answer(listener: int, number: int, call: Call, fault: Fault, child: int) -> None:
    if fault == KILL:
        os.killpg(child, signal.SIGKILL)
    elif fault == SHORT:
        kernel.answer(listener, number, value=_half(call))
    elif isinstance(fault, signal.Signals):
        os.kill(child, fault)  # it is pending when the call ends
        kernel.answer(listener, number)
    elif fault and call.name == "brk":
        # No error number: it fails by leaving the end of the heap where it is.
        kernel.answer(listener, number, value=_end_of_heap(call.process))
    else:
        kernel.answer(listener, number, error=fault if isinstance(fault, int) else 0)


def can_be_short(call: Call) -> bool:
    """Return whether a call can do half of its work."""
    if call.name == "copy_file_range":
        return call.args[4] > 1
    return call.name in ("read", "write", "pread64", "pwrite64") and call.args[2] > 1


def _half(call: Call) -> int:
    """Do half of a read, a write or a copy; return how many bytes that is."""
    if call.name == "copy_file_range":
        data, position = written(call)
        return _copy_half(call, data[: len(data) // 2], position or 0)
    size = max(1, call.args[2] // 2)
    fd = kernel.descriptor_of(_process_of(call.process), call.args[0])
    try:
        with open(f"/proc/{call.process}/mem", "r+b", buffering=0) as memory:
            memory.seek(call.args[1])
            if call.name == "write":
                return os.write(fd, memory.read(size))
            if call.name == "pwrite64":
                return os.pwrite(fd, memory.read(size), call.args[3])
            if call.name == "read":
                return memory.write(os.read(fd, size)) or 0
            return memory.write(os.pread(fd, size, call.args[3])) or 0
    finally:
        os.close(fd)


def _copy_half(call: Call, data: bytes, position: int) -> int:
    fd = kernel.descriptor_of(_process_of(call.process), call.args[2])
    try:
        return os.pwrite(fd, data, position)
    finally:
        os.close(fd)


def written(call: Call) -> tuple[bytes, int | None]:
    """Return the bytes that a call will write, and their position; None for the current one."""
    if call.name == "copy_file_range":
        source, from_, _, to, size, _ = call.args
        fd = kernel.descriptor_of(_process_of(call.process), source)
        try:
            return os.pread(fd, size, _number(call.process, from_)), _number(call.process, to)
        finally:
            os.close(fd)
    with open(f"/proc/{call.process}/mem", "rb", buffering=0) as memory:
        memory.seek(call.args[1])
        data = bytearray()
        while len(data) < call.args[2] and (piece := memory.read(call.args[2] - len(data))):
            data += piece
    return bytes(data), call.args[3] if call.name == "pwrite64" else None


def _number(process: int, address: int) -> int:
    """Return the 64-bit number at an address."""
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return int.from_bytes(memory.read(8), "little")


def _end_of_heap(process: int) -> int:
    lines = Path("/proc", str(process), "maps").read_text().splitlines()
    # It may be mapped in several pieces.
    return max(int(line.split()[0].partition("-")[2], 16) for line in lines if "[heap]" in line)


def _process_of(thread: int) -> int:
    for line in Path("/proc", str(thread), "status").read_text().splitlines():
        if line.startswith("Tgid:"):
            return int(line.split()[1])
    raise AssertionError(thread)


def _paths(process: int, name: str, args: tuple[int, ...]) -> tuple[str, ...]:
    if name in ALLOCATING:
        return ()
    if name == "copy_file_range":
        return (_link(process, f"fd/{args[2] & 0xFFFFFFFF}"),)
    if name in _OF_DESCRIPTORS:
        return (_link(process, f"fd/{args[0] & 0xFFFFFFFF}"),)
    if name in _OF_TWO_PATHS:
        return (_path(process, _AT_FDCWD, args[0]), _path(process, _AT_FDCWD, args[1]))
    if name in _OF_TWO_PLACES:
        return (_path(process, args[0], args[1]), _path(process, args[2], args[3]))
    if name.endswith("at") or name in ("fchmodat", "newfstatat", "statx"):
        return (_path(process, args[0], args[1]),)
    return (_path(process, _AT_FDCWD, args[0]),)


def _path(process: int, folder: int, address: int) -> str:
    text = _text(process, address)
    if text.startswith("/"):
        return os.path.normpath(text)
    folder &= 0xFFFFFFFF
    base = _link(process, "cwd" if folder == _AT_FDCWD else f"fd/{folder}")
    return os.path.normpath(os.path.join(base, text)) if text else base


def _text(process: int, address: int) -> str:
    if not address:
        return ""
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        text = b""
        # In steps that end where pages do: the next page may not be there.
        while b"\0" not in text and len(text) < 4096:
            text += memory.read(256 - (address + len(text)) % 256)
    return os.fsdecode(text.partition(b"\0")[0])


def _link(process: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{process}/{name}")
    except OSError:
        return ""
