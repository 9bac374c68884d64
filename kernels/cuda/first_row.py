"""The first row that meets a condition, found by a kernel of first_row.cuh."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import THREADS, blocks, run

MOST_TILES = 1024  # the first row found in each tile is copied to main memory


def first_row(file: str, kernel: str, rows: int, *given: Any) -> int:
    """Return the first row that a kernel finds, -1 if there is none. Synchronizes with the device.

    Args:
        file, kernel: see launch.run.
        rows: number of rows.
        given: the kernel's arguments before the rows, the height of a tile and the result.
    """
    if not rows:
        return -1
    height = THREADS * blocks(rows, THREADS * MOST_TILES)
    firsts = cupy.empty(blocks(rows, height), np.int64)
    run(file, kernel, (firsts.size,), (THREADS,), *given, rows, height, firsts)
    found = int(cupy.asnumpy(firsts).min())
    return found if found < rows else -1
