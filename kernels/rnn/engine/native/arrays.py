"""Arrays as arguments of compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native.calls import address
from lodcli.kernels.runtime import buffers

_Room = TypeVar("_Room")
_LINE_BYTES = 64


def aligned(count: int, dtype: np.dtype[Any]) -> Array:
    """Return an uninitialised array aligned to a cache line.

    A vector that crosses a cache line costs two accesses. The memory of freed arrays is reused:
    fresh pages cost more than filling them.
    """
    if not count:
        return np.empty(0, dtype)
    wide = buffers.empty((count + _LINE_BYTES // dtype.itemsize,), dtype)
    skipped = -address(wide) % _LINE_BYTES // dtype.itemsize
    return wide[skipped : skipped + count]


def zeros(count: int, dtype: np.dtype[Any]) -> Array:
    """Return zeros, aligned to a cache line."""
    room = aligned(count, dtype)
    room[:] = 0
    return room


_spare: dict[Any, list[Any]] = {}
_MOST_SPARE = 8  # number of keys, and of spaces per key
_MOST_SPARE_BYTES = 1 << 22


def borrowed(key: Any, make: Callable[[], _Room]) -> _Room:
    """Return a space cached under this key, or a new one."""
    try:
        room: _Room = _spare[key].pop()
    except (KeyError, IndexError):
        room = make()
    return room


def give_back(key: Any, room: Any, size_bytes: int) -> None:
    """Keep scratch memory for the next caller that borrows some with the same key."""
    if size_bytes > _MOST_SPARE_BYTES:
        return
    if key not in _spare and len(_spare) >= _MOST_SPARE:
        _spare.clear()
    rooms = _spare.setdefault(key, [])
    if len(rooms) < _MOST_SPARE:
        rooms.append(room)
