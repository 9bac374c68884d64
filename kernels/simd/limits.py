"""NumPy fallback of limits_native.py, for processors without compiled kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lodcli.kernels.index.checks import Array

_SIZE = 512


def reading(source: Array, threads: int) -> Callable[[], object]:
    """Return a function that reads all of an array of float32, on one thread."""
    return lambda: source.max()


def writing(target: Array, threads: int) -> Callable[[], object]:
    """Return a function that writes all of an array of float32, on one thread."""
    return lambda: target.fill(1)


def copying(source: Array, target: Array, threads: int) -> Callable[[], object]:
    """Return a function that copies an array of float32, on one thread."""
    return lambda: np.copyto(target, source)


def multiplying(threads: int) -> tuple[Callable[[], object], float]:
    """Return a function that multiplies float32 matrices with BLAS, and its operations per call."""
    a, out = np.ones((_SIZE, _SIZE), np.float32), np.empty((_SIZE, _SIZE), np.float32)
    return lambda: np.matmul(a, a, out=out), 2.0 * _SIZE**3
