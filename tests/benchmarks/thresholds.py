"""Measure the sizes from which on compiled kernels, threads and non-temporal stores are faster.

    python -m tests.benchmarks.thresholds

Prints a table for each threshold of the code, the figures that it was chosen by: times of a call
in microseconds with warm caches and results made before, in turn, the median of some rounds; and
how long a first call takes in a new process. What was chosen: docs/decisions/0022-thresholds.md.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import pool
from lodcli.kernels.ops.pooling.pool import sequence_sum
from lodcli.kernels.ops.slicing.reverse import sequence_reverse
from lodcli.kernels.ops.softmax.softmax import sequence_softmax
from lodcli.kernels.simd import row_copies
from lodcli.kernels.tensor.lod_tensor import LoDTensor

ROUNDS = 15
WIDTH = 64  # float32 values a row
LENGTH = 50  # rows a sequence
OPS = {"sum": sequence_sum, "softmax": sequence_softmax, "reverse": sequence_reverse}
NEVER = 1 << 62
FIRST_CALL = (
    "import time, numpy as np\n"
    "from lodcli.kernels.ops.pooling.pool import sequence_sum\n"
    "from lodcli.kernels.tensor.lod_tensor import LoDTensor\n"
    "tensor = LoDTensor(np.ones((100, 64), np.float32), [[100]])\n"
    "start = time.perf_counter()\n"
    "sequence_sum(tensor, backend='{}')\n"
    "print(time.perf_counter() - start)\n"
)


def batch(size_bytes: int) -> LoDTensor:
    """Return sequences of equal length with this many bytes of rows in total."""
    sequences = max(1, size_bytes // (4 * WIDTH * LENGTH))
    rows = np.ones((sequences * LENGTH, WIDTH), np.float32)
    return LoDTensor(rows, [[LENGTH] * sequences])


def times(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return microseconds a call of each, the median of rounds in which they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            start = time.perf_counter()
            call()
            taken[name].append(1e6 * (time.perf_counter() - start))
    return {name: statistics.median(found) for name, found in taken.items()}


def show(title: str, sizes: Sequence[int], ways: Callable[[int], Mapping[str, float]]) -> None:
    """Print what each way takes at each size."""
    print(f"\n{title}")
    for size in sizes:
        found = "  ".join(f"{name} {figure:.0f}" for name, figure in ways(size).items())
        print(f"  {size / (1 << 20):8.3f} MiB  {found}", flush=True)


def compiled(op: str, size: int) -> dict[str, float]:
    """Return what NumPy and the compiled kernel take."""
    tensor, function = batch(size), OPS[op]
    return times(
        {
            "numpy": lambda: function(tensor, backend="numpy"),
            "compiled": lambda: function(tensor, backend="numba"),
        }
    )


def with_threshold(module: object, name: str, value: int, call: Callable[[], object]) -> object:
    """Call with another threshold."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        return call()
    finally:
        setattr(module, name, before)


def shared(op: str, size: int) -> dict[str, float]:
    """Return the times of one thread and of all threads."""
    tensor, function = batch(size), OPS[op]
    out = np.empty_like(function(tensor, backend="numba").data)

    def call() -> object:
        return function(tensor, out=out, backend="numba")

    return times(
        {
            "one thread": lambda: with_threshold(pool, "SHARED_BYTES", NEVER, call),
            "all threads": lambda: with_threshold(pool, "SHARED_BYTES", 0, call),
        }
    )


def streamed(size: int, then: Callable[[Array], object] | None = None) -> dict[str, float]:
    """Return the times of a reversal with and without the caches, and of the op after it."""
    tensor = batch(size)
    out = np.empty_like(tensor.data)

    def call() -> object:
        sequence_reverse(tensor, out=out, backend="numba")
        return then(out) if then else None

    return times(
        {
            "through": lambda: with_threshold(row_copies, "STREAMED_BYTES", NEVER, call),
            "past": lambda: with_threshold(row_copies, "STREAMED_BYTES", 0, call),
        }
    )


def main() -> None:
    """Print all tables."""
    for backend in ("numpy", "numba"):
        words = [sys.executable, "-c", FIRST_CALL.format(backend)]
        for _ in range(2):
            done = subprocess.run(words, capture_output=True, text=True, check=True)
        print(f"first call of a process, {backend}: {1e3 * float(done.stdout):.0f} ms")
    for op in OPS:
        sizes = [1 << power for power in range(14, 25, 2)]
        show(f"COMPILED_BYTES, {op}, us", sizes, partial(compiled, op))
    for op in OPS:
        sizes = [1 << power for power in range(18, 25)]
        show(f"SHARED_BYTES, {op}, us", sizes, partial(shared, op))
    sizes = [1 << power for power in range(20, 29)]
    show("STREAMED_BYTES, reverse, us", sizes, streamed)
    show("STREAMED_BYTES, reverse and sum of the result, us", sizes, partial(streamed, then=np.sum))


if __name__ == "__main__":
    main()
