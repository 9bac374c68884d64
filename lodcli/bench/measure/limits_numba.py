"""What this machine could do at best: bytes read, written and copied, additions multiplied.

Plain loops over memory that numba turns into vector instructions on all its threads, and
chains of fused multiply-adds that never leave the registers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lodcli.bench.measure.tasks import LimitKind
from lodcli.kernels.index.checks import Array
from lodcli.kernels.runtime.jit_numba import cgutils, intrinsic, ir, numba, types

# More than any cache holds, and still quick to go through.
MOST_BYTES = 256 << 20
LEAST_BYTES = 1 << 16
LANES = 16
# A millisecond or so: waking the threads must not count.
STEPS = 1_000_000


@numba.njit(parallel=True, fastmath=True)
def _read(source: Any) -> Any:
    total = np.float32(0)
    for i in numba.prange(source.size):
        total += source[i]
    return total


@numba.njit(parallel=True)
def _copy(source: Any, target: Any) -> None:
    for i in numba.prange(source.size):
        target[i] = source[i]


@numba.njit(parallel=True)
def _write(target: Any, value: Any) -> None:
    for i in numba.prange(target.size):
        target[i] = value


def _multiply_adds(chains: int) -> Any:
    """Return a function that runs `chains` vectors through count fused multiply-adds each."""

    @intrinsic
    def run(typing_context: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(ir.FloatType(), LANES)
            kind = ir.FunctionType(vector, [vector] * 3)
            name = f"llvm.fma.v{LANES}f32"
            # Typed nowhere, like all of numba.core.
            declare: Any = cgutils.get_or_insert_function
            fma = declare(builder.module, kind, name)
            factor, added = (ir.Constant(vector, [value] * LANES) for value in (0.999, 0.001))
            before = builder.block
            inside, after = (builder.append_basic_block(f"fma_{n}") for n in ("in", "out"))
            builder.branch(inside)
            builder.position_at_end(inside)
            number = builder.phi(ir.IntType(64))
            number.add_incoming(ir.IntType(64)(0), before)
            values = [builder.phi(vector) for _ in range(chains)]
            for place, value in enumerate(values):
                value.add_incoming(ir.Constant(vector, [float(place)] * LANES), before)
            found = [builder.call(fma, [value, factor, added]) for value in values]
            following = builder.add(number, ir.IntType(64)(1))
            number.add_incoming(following, inside)
            for value, new in zip(values, found, strict=True):
                value.add_incoming(new, inside)
            builder.cbranch(builder.icmp_signed("<", following, args[0]), inside, after)
            builder.position_at_end(after)
            total = found[0]
            for value in found[1:]:
                total = builder.fadd(total, value)
            return builder.extract_element(total, ir.IntType(32)(0))

        return types.float32(types.int64), generate

    # Numba gives the first argument, the context of its typing.
    lanes: Any = run

    @numba.njit(parallel=True)
    def everywhere(count: Any, results: Any) -> None:
        for thread in numba.prange(results.size):
            results[thread] = lanes(count)

    return everywhere


@cache
def _best_chains(threads: int) -> tuple[Any, int]:
    """Return the number of vectors side by side that is fastest here: registers differ."""
    results = np.zeros(threads, np.float32)
    found = []
    for chains in (5, 10, 20):
        function = _multiply_adds(chains)
        function(10, results)
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            function(STEPS, results)
            seconds.append(time.perf_counter() - start)
        found.append((chains / min(seconds), chains, function))
    _, chains, function = max(found, key=lambda one: one[0])
    return function, chains


@cache
def _buffers(size_bytes: int) -> tuple[Array, Array]:
    count = size_bytes // 4
    return np.ones(count, np.float32), np.ones(count, np.float32)


def limit_call(kind: LimitKind, size_bytes: float, threads: int) -> tuple[Callable[[], Any], float]:
    """Return a function that works at the machine's limit, and how much one call does.

    Args:
        kind: "read", "write" or "copy", in bytes (a copy reads and writes), or "fma", in
            floating-point operations.
        size_bytes: what the work it is compared with moves: what fits into a cache has
            another limit.
        threads: how many compute.
    """
    if kind == "fma":
        function, chains = _best_chains(threads)
        results = np.zeros(threads, np.float32)
        return lambda: function(STEPS, results), 2.0 * threads * STEPS * chains * LANES
    touched = int(min(max(size_bytes, LEAST_BYTES), MOST_BYTES))
    source, target = _buffers(touched // 2 if kind == "copy" else touched)
    if kind == "read":
        return lambda: _read(source), float(source.nbytes)
    if kind == "write":
        return lambda: _write(target, np.float32(1)), float(target.nbytes)
    return lambda: _copy(source, target), 2.0 * source.nbytes


def best_rates(kinds: Sequence[LimitKind], threads: int) -> dict[str, float]:
    """Return bytes or operations a second, the best of a few tries at memory's own size."""
    found: dict[str, float] = {}
    for kind in kinds:
        call, amount = limit_call(kind, MOST_BYTES // 4, threads)
        found[kind] = amount / _best_seconds(call)
    return found


def best_gemm_rate(size: int = 1024) -> dict[str, float]:
    """Return operations a second of a product of square float32 matrices, by NumPy and torch.

    torch only where a peer has loaded it: a BLAS of its own, often the faster one.
    """
    a, b = (np.ones((size, size), np.float32) for _ in range(2))
    out = np.empty_like(a)
    calls: dict[str, Callable[[], Any]] = {"gemm numpy": lambda: np.matmul(a, b, out=out)}
    other = sys.modules.get("torch")
    if other is not None:
        x, y, z = (other.from_numpy(array) for array in (a, b, out))
        calls["gemm torch"] = lambda: other.matmul(x, y, out=z)
    return {name: 2.0 * size**3 / _best_seconds(call) for name, call in calls.items()}


def _best_seconds(call: Callable[[], Any], tries: int = 7) -> float:
    call()
    seconds = []
    for _ in range(tries):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
