"""The measured GPU: its clock, limits, memory and name."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import cupy
import numpy as np

from lodcli.bench.measure.machine import NotEnoughMemoryError
from lodcli.bench.measure.tasks import LimitKind
from lodcli.kernels.index.checks import Array

# Larger than any cache, smaller than any memory.
MOST_BYTES = 2 << 30
LEAST_BYTES = 1 << 16
# Sizes of square matrices. Larger ones, which use more of a GPU, are tried while they are fast.
GEMM_SIZES = (1024, 2048, 4096, 8192)
SLOW_SECONDS = 0.02
TRIES = 7


def by_events(call: Callable[[], object], calls: int) -> float:
    """Return how many seconds the GPU took for this many calls, by its own clock.

    The calls are queued on the current stream between two events: Python's overhead counts only if
    the GPU has to wait for it.
    """
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3


def limit_call(kind: LimitKind, size_bytes: float) -> tuple[Callable[[], Any], float]:
    """Return a function that works at the GPU's limit, and the amount of work of a call.

    Args:
        kind: "copy", in bytes read and written; "gemm", in floating-point operations.
        size_bytes: the bytes that the measured task moves; used only for "copy".
    """
    if kind == "gemm":
        size = _best_gemm()[1]
        return _gemm_call(size), 2.0 * size**3
    touched = int(min(max(size_bytes, LEAST_BYTES), MOST_BYTES))
    source, target = _buffers(touched // 8)
    # A cudaMemcpyAsync: neither a kernel of lod nor of cupy.
    return (
        lambda: target.data.copy_from_device_async(source.data, source.nbytes),
        2.0 * source.nbytes,
    )


def best_rates(kinds: Sequence[LimitKind]) -> dict[str, float]:
    """Return bytes or operations per second, the best of a few tries."""
    found: dict[str, float] = {}
    for kind in kinds:
        if kind == "gemm":
            found[kind] = _best_gemm()[0]
            continue
        call, amount = limit_call(kind, MOST_BYTES // 4)
        found[kind] = amount / _best_seconds(call)
    return found


@cache
def _buffers(count: int) -> tuple[Any, Any]:
    return cupy.ones(count, "float32"), cupy.ones(count, "float32")


@cache
def _best_gemm() -> tuple[float, int]:
    """Return operations per second of a product of square float32 matrices, and their size."""
    found = []
    for size in GEMM_SIZES:
        seconds = _best_seconds(_gemm_call(size))
        found.append((2.0 * size**3 / seconds, size))
        if seconds > SLOW_SECONDS:
            break
    return max(found)


def _gemm_call(size: int) -> Callable[[], Any]:
    a, b = _factors(size)
    out = cupy.empty((size, size), "float32")
    return lambda: cupy.dot(a, b, out=out)


@cache
def _factors(size: int) -> tuple[Any, Any]:
    # Random numbers: ones take less power, and a power-limited GPU would run faster.
    drawn = cupy.asarray(np.random.default_rng(size).standard_normal((size, size), np.float32))
    return drawn, cupy.ascontiguousarray(drawn[::-1])


def _best_seconds(call: Callable[[], Any]) -> float:
    call()
    return min(by_events(call, 1) for _ in range(TRIES))


def require_memory(needed_bytes: int, what: str) -> None:
    """Raise NotEnoughMemoryError if the GPU has less memory left than needed.

    Memory cached by earlier tasks is freed first, torch's as well.
    """
    _buffers.cache_clear()
    # Reference cycles, such as tensors with gradients, are freed only by the garbage collector.
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
    left, _ = cupy.cuda.runtime.memGetInfo()
    if needed_bytes > left:
        raise NotEnoughMemoryError(
            f"{what} needs about {needed_bytes / 1e9:.1f} GB on the GPU, {left / 1e9:.1f} GB are "
            "left; choose a smaller case with --rows, --features or --sequences"
        )


def facts() -> dict[str, Any]:
    """Return the properties of the GPU."""
    runtime = cupy.cuda.runtime
    about = runtime.getDeviceProperties(runtime.getDevice())
    return {
        "gpu": about["name"].decode(),
        "gpu_memory_bytes": int(about["totalGlobalMem"]),
        "compute_capability": f"{about['major']}.{about['minor']}",
    }


def versions() -> dict[str, str]:
    """Return the versions of the software that uses the GPU."""
    runtime = cupy.cuda.runtime

    def named(number: int) -> str:
        return f"{number // 1000}.{number % 1000 // 10}"

    return {
        "cupy": cupy.__version__,
        "CUDA": named(runtime.runtimeGetVersion()),
        "CUDA driver": named(runtime.driverGetVersion()),
    }


def moved(inputs: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return inputs with the named arrays on the GPU."""
    there: dict[str, Array] = {name: cupy.asarray(inputs[name]) for name in names if name in inputs}
    return {**inputs, **there}
