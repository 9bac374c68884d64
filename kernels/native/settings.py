"""Environment variables for compiled kernels.

LOD_NATIVE   "off": NumPy alone; or the highest processor level to use, such as "v3"
LOD_CACHE    cache folder of compiled kernels; by default lod/ in $XDG_CACHE_HOME or ~/.cache
NUMBA_BOUNDSCHECK=1   kernels are compiled with bounds checks
"""

from __future__ import annotations

import os
from pathlib import Path

from lodcli.kernels.errors import OptionError
from lodcli.kernels.native.processor import Level, level_named, levels_here
from lodcli.kernels.platform import environment


class LevelError(ValueError):
    """No processor level can be used; the message says why."""


def level() -> Level:
    """Return the highest processor level whose kernels may be used.

    Raises:
        LevelError: LOD_NATIVE is off, or this processor has none of the levels.
        OptionError: LOD_NATIVE is not a level of this processor.
    """
    here = levels_here()
    wanted = environment.value("LOD_NATIVE")
    if wanted == "off":
        raise LevelError("LOD_NATIVE=off")
    if not here:
        raise LevelError("kernels are compiled for none of the levels that this processor has")
    if not wanted:
        return here[-1]
    named = level_named(wanted)
    if named not in here:
        known = ", ".join(each.name for each in here)
        raise OptionError(
            f"LOD_NATIVE: expected off or one of {known}, the levels of this processor, "
            f"found {wanted[:40]!r}"
        )
    return named


def levels_up_to(level: Level) -> list[Level]:
    """Return the levels of this processor up to `level`, lowest first."""
    here = levels_here()
    return list(here[: here.index(level) + 1])


def checked() -> bool:
    """Return whether kernels are compiled with bounds checks."""
    return os.environ.get("NUMBA_BOUNDSCHECK", "") not in ("", "0")


def cache_folder() -> Path | None:
    """Return the cache folder of compiled kernels; None for a user without a home folder."""
    folder = environment.value("LOD_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lod"
    )
    # Not Path.home(), which raises for a user without a home folder; expanduser leaves "~".
    return None if folder.startswith("~") else Path(folder, "kernels")
