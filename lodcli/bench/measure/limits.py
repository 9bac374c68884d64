"""The limits of this machine: bytes read, written and copied, and multiply-adds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lodcli.bench.measure.harness import by_the_clock
from lodcli.bench.measure.tasks import LimitKind
from lodcli.kernels.index.checks import Array
from lodcli.kernels.simd import limits, limits_native

# Larger than any cache, and still fast to process.
MOST_BYTES = 256 << 20
LEAST_BYTES = 1 << 16
TRIES = 7


@cache
def _buffers(size_bytes: int) -> tuple[Array, Array]:
    count = size_bytes // 4
    return np.ones(count, np.float32), np.ones(count, np.float32)


def limit_call(kind: LimitKind, size_bytes: float, threads: int) -> tuple[Callable[[], Any], float]:
    """Return a function that works at the machine's limit, and the amount of work of a call.

    Args:
        kind: "read", "write" or "copy", in bytes (a copy reads and writes), or "fma", in
            floating-point operations.
        size_bytes: the bytes that the measured task moves: within a cache the limit is another.
    """
    # Without compiled kernels, as on processors older than x86-64-v2, the limit is that of NumPy.
    calls: Any = limits_native if limits_native.available() else limits
    if kind == "fma":
        call, operations = calls.multiplying(threads)
        return call, operations
    touched = int(min(max(size_bytes, LEAST_BYTES), MOST_BYTES))
    source, target = _buffers(touched // 2 if kind == "copy" else touched)
    if kind == "read":
        return calls.reading(source, threads), float(source.nbytes)
    if kind == "write":
        return calls.writing(target, threads), float(target.nbytes)
    return calls.copying(source, target, threads), 2.0 * source.nbytes


def best_rates(kinds: Sequence[LimitKind], threads: int) -> dict[str, float]:
    """Return bytes or operations per second, the best of a few tries larger than the caches."""
    found: dict[str, float] = {}
    for kind in kinds:
        call, amount = limit_call(kind, MOST_BYTES // 4, threads)
        found[kind] = amount / _best_seconds(call)
    return found


def best_gemm_rate() -> dict[str, float]:
    """Return operations per second of a product of square float32 matrices, by NumPy and torch.

    torch only if a peer has loaded it: its BLAS is another one, often faster.
    """
    size = 1024
    a, b = (np.ones((size, size), np.float32) for _ in range(2))
    out = np.empty_like(a)
    calls: dict[str, Callable[[], Any]] = {"gemm numpy": lambda: np.matmul(a, b, out=out)}
    other = sys.modules.get("torch")
    if other is not None:
        x, y, z = (other.from_numpy(array) for array in (a, b, out))
        calls["gemm torch"] = lambda: other.matmul(x, y, out=z)
    return {name: 2.0 * size**3 / _best_seconds(call) for name, call in calls.items()}


def _best_seconds(call: Callable[[], Any]) -> float:
    call()
    return min(by_the_clock(call, 1) for _ in range(TRIES))
