"""The folder that compiled kernels are kept in: what lies there, and how to be rid of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lodcli.kernels.runtime.jit_numba import numba

# What numba writes: an index for each function, and a file for each compiled version.
_ENDINGS = (".nbi", ".nbc")
# An object whose attributes are made while it is imported.
_config: Any = numba.config


def folder() -> Path:
    """Return the folder; it need not be there yet."""
    return Path(_config.CACHE_DIR)


def size_bytes() -> int:
    """Return the size of all compiled kernels there."""
    return sum(_size(path) for path in _files())


def clear() -> int:
    """Delete all compiled kernels there and return their bytes; other files stay."""
    freed = 0
    for path in list(_files()):
        size = _size(path)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            freed += size
    return freed


def _files() -> Iterator[Path]:
    for parent, _, names in os.walk(folder()):
        yield from (Path(parent, name) for name in sorted(names) if name.endswith(_ENDINGS))


def _size(path: Path) -> int:
    # Another process may have replaced or deleted it.
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
