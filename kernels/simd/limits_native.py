"""Kernels at the limit of the machine: reads, writes, copies and products on several threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run_shared

# About a millisecond, so that waking the threads is negligible.
_STEPS = 1_000_000
_CHAINS = 10
_STRIDE = 128

_MODULE = "kernels.simd.limits_numba"
_read, _write, _copy, _multiply_adds = (
    load.kernel(_MODULE, name) for name in ("read", "write", "copy", "multiply_adds")
)


def available() -> bool:
    """Return whether compiled kernels exist for this processor."""
    try:
        return _copy[""] is not None
    except load.NativeUnavailableError:
        return False


def reading(source: Array, threads: int) -> Callable[[], object]:
    """Return a function that reads all of an array of float32."""
    sums = np.empty(threads, np.float32)
    arguments = (source, sums, source.size, threads)
    return lambda: run_shared(_read[""], threads, threads, *arguments)


def writing(target: Array, threads: int) -> Callable[[], object]:
    """Return a function that writes all of an array of float32."""
    arguments = (target, target.size, threads)
    return lambda: run_shared(_write[""], threads, threads, *arguments)


def copying(source: Array, target: Array, threads: int) -> Callable[[], object]:
    """Return a function that copies an array of float32."""
    arguments = (source, target, source.size, threads)
    return lambda: run_shared(_copy[""], threads, threads, *arguments)


def multiplying(threads: int) -> tuple[Callable[[], object], float]:
    """Return a function that does multiply-adds in float32, and its number of operations per
    call."""
    values = np.linspace(0, 1, threads * _STRIDE, dtype=np.float32)
    kernel = _multiply_adds[""]
    lanes = kernel.call(0, 1, 1, values, _STRIDE)
    operations = 2.0 * threads * _STEPS * _CHAINS * lanes
    return lambda: run_shared(kernel, threads, threads, _STEPS, values, _STRIDE), operations
