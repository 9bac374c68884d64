"""google-crc32c: the checksum that lod checks, of all bytes of lod's own file, and nothing else."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version as installed
from typing import Any

import google_crc32c
import numpy as np

from lodcli.formats.arrays import crc32c

PIECE_BYTES = 1 << 20
_threads = 1


def version() -> str:
    """Return the versions measured."""
    return f"{installed('google-crc32c')}, {google_crc32c.implementation}"


def threads(count: int) -> None:
    """Limit the threads that compute it."""
    global _threads
    _threads = count


def io(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the ways to check a file: with one thread, and with each thread a part of it."""
    path = os.path.join(inputs["folder"], "ours.lod.h5")

    def part(start: int, stop: int) -> int:
        piece, found = np.empty(PIECE_BYTES, np.uint8), 0
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            while size := file.readinto(piece[: stop - start].data):
                # By the C function that lod calls: the package's holds the interpreter's lock.
                found, start = crc32c.extend(found, piece[:size]), start + size
        return found

    def verify(count: int) -> list[int]:
        size = os.stat(path).st_size
        step = -(-size // count // PIECE_BYTES) * PIECE_BYTES
        starts = range(0, size, step)
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda start: part(start, min(start + step, size)), starts))

    # What it computes is compared with nothing; both read the same file.
    ways: dict[str, Any] = {
        "one thread": (lambda: verify(1), lambda _: []),
        "all threads": (lambda: verify(_threads), lambda _: []),
    }
    return ways if op == "verify" else {}
