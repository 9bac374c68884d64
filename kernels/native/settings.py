"""Environment variables for compiled kernels.

LOD_NATIVE   "off": NumPy alone; or the level of processors to use at most, such as "v3"
LOD_CACHE    the folder of kernels compiled here; by default lod/ in $XDG_CACHE_HOME, ~/.cache
NUMBA_BOUNDSCHECK=1   kernels are compiled that check every index
"""

from __future__ import annotations

import os
from pathlib import Path

from lodcli.kernels.errors import OptionError
from lodcli.kernels.native.processor import Level, level_named, levels_here
from lodcli.kernels.platform import environment


class LevelError(ValueError):
    """There is no level of processors to use: the message says why."""


def level() -> Level:
    """Return the level of processors to use kernels of.

    Raises:
        LevelError: LOD_NATIVE is off, or nothing is compiled for this processor.
        OptionError: LOD_NATIVE names no level of this processor.
    """
    here = levels_here()
    wanted = environment.value("LOD_NATIVE")
    if wanted == "off":
        raise LevelError("LOD_NATIVE=off")
    if not here:
        raise LevelError("no level of processors that kernels are compiled for fits this one")
    if not wanted:
        return here[-1]
    named = level_named(wanted)
    if named not in here:
        known = ", ".join(each.name for each in here)
        raise OptionError(f"LOD_NATIVE: expected off or one of {known}, found {wanted[:40]!r}")
    return named


def levels_up_to(level: Level) -> list[Level]:
    """Return the levels that this processor has, the least first, up to one."""
    here = levels_here()
    return list(here[: here.index(level) + 1])


def checked() -> bool:
    """Return whether kernels are to check every index."""
    return os.environ.get("NUMBA_BOUNDSCHECK", "") not in ("", "0")


def cache_folder() -> Path | None:
    """Return the folder that kernels compiled here are kept in; None for a user without a home."""
    folder = environment.value("LOD_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lod"
    )
    # Not Path.home(), which fails for a user without a name: "~" is left then.
    return None if folder.startswith("~") else Path(folder, "kernels")
