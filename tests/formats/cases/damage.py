"""Damaged copies of a file, and what is read from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from lodcli.kernels.errors import LodError

T = TypeVar("T")


def cut(whole: bytes, step: int = 1, *, start: int = 0) -> Iterator[bytes]:
    """Yield a file cut at each length from `start` on."""
    return (whole[:size] for size in range(start, len(whole), step))


def changed(whole: bytes, count: int, seed: int, *, most: int = 3) -> Iterator[bytes]:
    """Yield copies of a file in each of which one to `most` bytes are random."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, most + 1))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        yield bytes(data)


def flipped(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield copies of a file in each of which one bit is flipped."""
    rng = np.random.default_rng(seed)
    for place in rng.integers(0, len(whole), count).tolist():
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        yield bytes(data)


def read_each(
    copies: Iterable[bytes],
    path: Path,
    read: Callable[[Path], T],
    error: type[LodError] = LodError,
) -> Iterator[T | None]:
    """Yield what is read from a file of each content; None where this error is raised."""
    for data in copies:
        path.write_bytes(data)
        try:
            yield read(path)
        except error:
            yield None


def accepted(
    copies: Iterable[bytes],
    path: Path,
    read: Callable[[Path], object],
    error: type[LodError] = LodError,
) -> list[int]:
    """Return which of the contents do not raise the error."""
    found = read_each(copies, path, read, error)
    return [place for place, one in enumerate(found) if one is not None]
