"""Partial files: what a target is written to before it gets its name."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

SUFFIX = ".lod-partial"
_TOKEN = r"[0-9a-z_]{8}"


def partial_prefix(target: Path) -> str:
    """Return how the names of partial files of `target` begin; they fit in 255 bytes."""
    return f".{shortened(target.name)}."


def shortened(name: str) -> str:
    """Return as much of a name as leaves room for more."""
    return os.fsdecode(os.fsencode(name)[:200])


def is_partial_of(name: str, target: Path) -> bool:
    """Return whether a file is so named as partial files of `target` are."""
    prefix = re.escape(partial_prefix(target))
    return re.fullmatch(prefix + _TOKEN + re.escape(SUFFIX), name) is not None


def remove(path: Path) -> None:
    """Remove a file, or a folder with all it holds."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        os.unlink(path)
