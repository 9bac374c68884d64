"""google-crc32c: only the checksum of all bytes of lod's file, which lod checks too."""

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
    """Return the measured versions."""
    return f"{installed('google-crc32c')}, {google_crc32c.implementation}"


def threads(count: int) -> None:
    """Set the number of threads."""
    global _threads
    _threads = count


def io(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of the check: by one thread, and by several on parts of it."""
    path = os.path.join(inputs["folder"], "ours.lod.h5")

    def part(start: int, stop: int) -> int:
        piece, found = np.empty(PIECE_BYTES, np.uint8), 0
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            while size := file.readinto(piece[: stop - start].data):
                # The C function that lod calls: the function of the package holds the GIL.
                found, start = crc32c.extend(found, piece[:size]), start + size
        return found

    def verify(count: int) -> list[int]:
        size = os.stat(path).st_size
        step = -(-size // count // PIECE_BYTES) * PIECE_BYTES
        starts = range(0, size, step)
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda start: part(start, min(start + step, size)), starts))

    # The checksums are not compared with other candidates; both implementations read the same file.
    ways: dict[str, Any] = {
        "one thread": (lambda: verify(1), lambda _: []),
        "all threads": (lambda: verify(_threads), lambda _: []),
    }
    return ways if op == "verify" else {}
