"""Arrays as arguments of compiled code."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native.calls import address
from lodcli.kernels.platform.processes import held_during_forks

_Room = TypeVar("_Room")
_LINE_BYTES = 64
_KEPT_BYTES = 64 << 20  # limit of cached free memory
_LEAST_KEPT_BYTES = 1 << 16  # smaller arrays come from the allocator


def aligned(count: int, dtype: np.dtype[Any]) -> Array:
    """Return an uninitialised array aligned to a cache line.

    A vector that crosses a cache line costs two accesses. Memory is reused once it has no
    references: fresh pages cost more than filling them.
    """
    if not count:
        return np.empty(0, dtype)
    size_bytes = count * dtype.itemsize
    if size_bytes < _LEAST_KEPT_BYTES:
        wide = np.empty(count + _LINE_BYTES // dtype.itemsize, dtype)
        skipped = -address(wide) % _LINE_BYTES // dtype.itemsize
        return wide[skipped : skipped + count]
    block = _taken(size_bytes + _LINE_BYTES)
    first = -address(block) % _LINE_BYTES
    # Through a memoryview, the base of all later views: the block lives as long as any of them.
    room: Array = np.frombuffer(block.data[first : first + size_bytes], dtype)
    lent = _Lent(room, _ended)
    lent.block = block
    _lent[id(lent)] = lent
    return room


class _Lent(weakref.ref[Array]):
    """Reference to an array, and its block; weakref.finalize takes three times as long."""

    __slots__ = ("block",)
    block: Array


def _ended(lent: weakref.ref[Array]) -> None:
    _returned.append(_lent.pop(id(lent)).block)


_lent: dict[int, _Lent] = {}
_lock = held_during_forks(threading.Lock())
_free: list[Array] = []
# Freed blocks are queued here: a finaliser can run anywhere, and must not wait for a lock.
_returned: deque[Array] = deque()


def _taken(size_bytes: int) -> Array:
    """Return a block of at least this many bytes, reused if possible."""
    with _lock:
        while _returned:
            _free.append(_returned.popleft())
        while sum([block.size for block in _free]) > _KEPT_BYTES:
            _free.pop(0)
        best, place = 2 * size_bytes + 1, -1
        for number, block in enumerate(_free):
            if size_bytes <= block.size < best:
                best, place = block.size, number
        if place >= 0:
            return _free.pop(place)
    return np.empty(size_bytes, np.uint8)


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


def forget_used() -> None:
    """Free all cached memory."""
    with _lock:
        _spare.clear()
        _returned.clear()
        _free.clear()
