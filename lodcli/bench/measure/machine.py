"""Description of the machine and software of a measurement."""

from __future__ import annotations

import os
import platform
from typing import Any

from lodcli.commands.about.versions import installed_version
from lodcli.kernels.errors import LodError
from lodcli.kernels.native.load import is_shipped
from lodcli.kernels.platform.machine import available_bytes, cpu_name, memory_bytes, usable_cores

OURS_STANDS_ON = ("numpy", "numba", "h5py")


class NotEnoughMemoryError(LodError, OSError):
    """A benchmark would need more memory than there is."""


def machine() -> dict[str, Any]:
    """Return the properties of the machine."""
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": memory_bytes(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
    }


def versions() -> dict[str, str]:
    """Return the versions of lod and its dependencies."""
    kernels = "built with the package" if is_shipped() else "compiled when needed"
    found = {
        "lod": installed_version("lodcli"),
        "kernels": kernels,
        "python": platform.python_version(),
    }
    return found | {name: installed_version(name) for name in OURS_STANDS_ON}


def require_memory(needed_bytes: int, what: str) -> None:
    """Raise NotEnoughMemoryError if there is less memory than needed."""
    there = available_bytes()
    if there is not None and needed_bytes > there:
        raise NotEnoughMemoryError(
            f"{what} needs about {needed_bytes / 1e9:.1f} GB of memory, {there / 1e9:.1f} GB are "
            "available; choose a smaller case with --rows, --features or --sequences"
        )
