"""Processors and memory of the machine."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from lodcli.kernels.platform.processes import last_error, libc, lines_of, user_thread_limit

IS_LINUX = sys.platform.startswith("linux")
_GROUPS = Path("/sys/fs/cgroup")


def require_memory(size_bytes: int) -> None:
    """Raise MemoryError unless this much memory is available: for code that would hang or crash."""
    try:
        mmap.mmap(-1, size_bytes).close()  # never touched
    except OSError as error:
        raise MemoryError from error


def unread_zeros(size_bytes: int) -> memoryview:
    """Return `size_bytes` (at least 1) zeros that take no memory until they are read."""
    return memoryview(mapped_zeros(size_bytes, writable=False)).toreadonly()


def sparse_zeros(size_bytes: int) -> memoryview:
    """Return `size_bytes` (at least 1) zeros, of which only the pages that are written take memory.

    For memory with few writes in many places: in a large array of NumPy, each takes 2 MiB.

    Raises:
        MemoryError: the system refuses so much.
    """
    try:
        zeros = mapped_zeros(size_bytes)
    except (OSError, OverflowError) as error:
        raise MemoryError from error
    advise(zeros, "MADV_NOHUGEPAGE")
    return memoryview(zeros)


def mapped_zeros(size_bytes: int, *, writable: bool = True) -> mmap.mmap:
    """Return `size_bytes` (at least 1) zeros, of which only used pages take memory.

    Raises:
        OSError, OverflowError: the system refuses so much.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size_bytes)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return mmap.mmap(-1, size_bytes, flags, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))


def enlarged(block: mmap.mmap, size_bytes: int) -> mmap.mmap:
    """Return mapped memory of `size_bytes` that begins with that of a block, which it replaces.

    Raises:
        OSError: the system refuses so much.
    """
    try:
        block.resize(size_bytes)
    except SystemError:  # macOS cannot resize
        found = mapped_zeros(size_bytes)
        found[: len(block)] = block
        return found
    return block


def usable_cores() -> int:
    """Return how many processors this process may use; all if unknown.

    At most the CPU quota of its control group, rounded up.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(cores, cores_of_group() or cores)


def _group_folders(controller: str, root: Path) -> list[Path]:
    """Return the folders of this process's control group (v2 or v1) and of all groups above it.

    Each may have a limit: the scheduler of a cluster sets that of a job above its steps. In a
    container, names may be those outside of it; then only the root is there.
    """
    found = [root, root / controller]
    for line in lines_of("/proc/self/cgroup"):
        _, controllers, name = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = root / controller if controllers else root
            names = name.strip("/").split("/")
            found += [top.joinpath(*names[: end + 1]) for end in range(len(names))]
    return found


@cache
def cores_of_group(root: Path = _GROUPS) -> int | None:
    """Return the CPU quota of the control group (v2 or v1) in processors; None for no quota."""
    found = []
    for folder in _group_folders("cpu", root):
        for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            with suppress(OSError, ValueError):  # no such group, or "max"
                text = " ".join((folder / name).read_text(encoding="ascii") for name in names)
                quota, period = (int(part) for part in text.split())
                if quota > 0 and period > 0:
                    found.append(-(-quota // period))
    return min(found, default=None)


def thread_limit(root: Path = _GROUPS) -> int | None:
    """Return the limit on threads, of the user or of the control group; None for no limit.

    Those that are running count, also those of other processes.
    """
    found = [user_thread_limit()]
    for folder in _group_folders("pids", root):
        with suppress(OSError, ValueError):  # no such group, or "max"
            found.append(int((folder / "pids.max").read_text(encoding="ascii")))
    return min((most for most in found if most is not None), default=None)


def architecture() -> str:
    """Return the system's name of the processor architecture, such as "x86_64"."""
    if hasattr(os, "uname"):
        return os.uname().machine
    import platform  # slow to import, and used only here and below

    return platform.machine()


def cpu_name() -> str:
    """Return the model name of the processor; its architecture if unknown."""
    for line in lines_of("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    import platform

    return platform.processor() or architecture()


def cpu_flags() -> frozenset[str]:
    """Return the feature flags of the first processor, on Linux on x86-64; empty if unknown."""
    return frozenset(_cpuinfo().get("flags", "").split())


def ask_for_tiles() -> str | None:
    """Request the AMX tile registers from Linux on x86-64; return the error, None if granted.

    They are then available in all threads, and in processes forked later.
    """
    syscall = libc("syscall")
    if syscall is None:
        return "not Linux"
    # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    return None if syscall(158, 0x1023, 18) == 0 else os.strerror(last_error())


def cpu_vendor() -> str:
    """Return the vendor of the processor, such as "GenuineIntel"; "" if unknown."""
    return _cpuinfo().get("vendor_id", "")


def second_cache_bytes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int | None:
    """Return the size of a processor's L2 cache; None if unknown."""
    for cache_folder in sorted(folder.glob("index*")):
        try:
            level = (cache_folder / "level").read_text(encoding="ascii").strip()
            size = (cache_folder / "size").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if level == "2" and size.endswith("K") and size[:-1].isdigit():
            return int(size[:-1]) << 10
    return None


@cache
def _cpuinfo() -> dict[str, str]:
    """Return the fields of /proc/cpuinfo for the first processor; empty if unknown."""
    try:
        # Unbuffered, and only the beginning: the text of a hundred processors takes long.
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(1 << 14)
    except OSError:
        return {}
    first = text.decode("ascii", "replace").partition("\n\n")[0]
    lines = (line.partition(":") for line in first.split("\n"))
    return {name.strip(): value.strip() for name, _, value in lines}


def memory_bytes() -> int | None:
    """Return the size of the memory; None if unknown."""
    return _meminfo("MemTotal") or _pages("SC_PHYS_PAGES")


def available_bytes() -> int | None:
    """Return how much memory is available; None if unknown.

    The system's, or less if the control group of this process limits it.
    """
    system = _meminfo("MemAvailable") or _pages("SC_AVPHYS_PAGES")
    found = [size for size in (system, left_in_group()) if size is not None]
    return min(found, default=None)


def left_in_group(root: Path = _GROUPS) -> int | None:
    """Return the memory that the control group (v2 or v1) has left; None if unlimited."""
    left = []
    for folder, most in _group_limits(root):
        for used in ("memory.current", "memory.usage_in_bytes"):
            with suppress(OSError, ValueError):
                left.append(max(0, most - int((folder / used).read_text(encoding="ascii"))))
    return min(left, default=None)


def group_limit_bytes(root: Path = _GROUPS) -> int | None:
    """Return the memory limit of the control group (v2 or v1); None if unlimited."""
    return min((most for _, most in _group_limits(root)), default=None)


def _group_limits(root: Path) -> Iterator[tuple[Path, int]]:
    for folder in _group_folders("memory", root):
        for limit in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # no such group, or "max"
                most = int((folder / limit).read_text(encoding="ascii"))
                if most < 1 << 60:
                    yield folder, most


def _meminfo(name: str) -> int | None:
    for line in lines_of("/proc/meminfo"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None


def _pages(name: str) -> int | None:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def advise(block: mmap.mmap, advice: str) -> bool:
    """Tell the system how mapped memory is used; return whether the system accepted it."""
    value = getattr(mmap, advice, None)
    if value is None:
        return False
    try:
        block.madvise(value)
    except OSError:
        return False
    return True
