"""The machine and the software that figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lodcli.kernels.errors import LodError

OURS_STANDS_ON = ("numpy", "numba", "h5py")


class NotEnoughMemoryError(LodError, OSError):
    """A benchmark would need more memory than there is."""


def machine() -> dict[str, Any]:
    """Return what the machine is."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": _meminfo("MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
    }


def versions() -> dict[str, str]:
    """Return the versions of lod and what it stands on."""
    found = {"lod": _version("lodcli"), "python": platform.python_version()}
    return found | {name: _version(name) for name in OURS_STANDS_ON}


def usable_cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_bytes() -> int | None:
    """Return how much memory there is to take: the system's, or less if a group limits it."""
    found = [size for size in (_meminfo("MemAvailable"), _group_left()) if size is not None]
    return min(found, default=None)


def require_memory(needed_bytes: int, what: str) -> None:
    """Raise NotEnoughMemoryError if there is less memory than needed."""
    there = available_bytes()
    if there is not None and needed_bytes > there:
        raise NotEnoughMemoryError(
            f"{what} needs about {needed_bytes / 1e9:.1f} GB of memory, {there / 1e9:.1f} GB are "
            "available; choose a smaller case with --rows, --features or --sequences"
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _meminfo(name: str) -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None


def _group_left(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return what the control group of this process leaves, of version 2 or 1."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = (folder / limit).read_text(encoding="ascii").strip()
            taken = int((folder / used).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if most != "max" and int(most) < 1 << 60:
            return max(0, int(most) - taken)
    return None
