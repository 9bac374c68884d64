"""Time linear recurrences against torch: its loop over steps, and parallel scans made of its ops.

    python -m tests.benchmarks.linear_scan

Prints processor times of one thread in milliseconds, the least of some rounds in turn, in each of
which a call is repeated for 10 ms: forward, and forward with all gradients. Sequences are equally
long, so that torch needs no padding. Then how long one sequence of a million rows takes against a
thousand of a thousand, for some widths and dtypes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.scan.linear_scan import sequence_linear_scan, sequence_linear_scan_grad
from lodcli.kernels.tensor.lod_tensor import LoDTensor

ROUNDS = 7
SAMPLE_SECONDS = 0.01
# Sequences, rows of each, values of a row.
CASES = ((64, 200, 128), (16, 1000, 64), (1000, 1000, 1), (1, 100_000, 16))
MOST_STEPS = 1000  # of torch's loop
WIDTHS = (
    *(("f", 1), ("f", 2), ("f", 4), ("f", 5), ("f", 8), ("f", 16), ("f", 64)),
    *(("d", 1), ("d", 3), ("d", 64), ("F", 1), ("F", 2), ("F", 3), ("F", 4), ("F", 8), ("F", 12)),
    *(("F", 64), ("D", 1), ("D", 4)),
)


def least(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the least processor time of each in milliseconds."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start, calls_made, spent = time.process_time(), 0, 0.0
            while spent < SAMPLE_SECONDS:
                call()
                calls_made, spent = calls_made + 1, time.process_time() - start
            found[name] = min(found[name], 1e3 * spent / calls_made)
    return found


def gradients(upstream: Array, a: LoDTensor, b: LoDTensor) -> None:
    """Compute the states and all gradients."""
    result = sequence_linear_scan(a, b)
    sequence_linear_scan_grad(upstream, a, b, result=result)


def against_torch() -> None:
    """Print times of lod and torch."""
    import torch

    torch.set_num_threads(1)

    def loop(a: Any, b: Any) -> Any:
        h, states = torch.zeros(a.shape[0], a.shape[2]), []
        for t in range(a.shape[1]):
            h = a[:, t] * h + b[:, t]
            states.append(h)
        return torch.stack(states, 1)

    def doubling(a: Any, b: Any) -> Any:
        distance = 1
        while distance < a.shape[1]:
            d = distance
            b = torch.cat([b[:, :d], torch.addcmul(b[:, d:], a[:, d:], b[:, :-d])], 1)
            a = torch.cat([a[:, :d], a[:, d:] * a[:, :-d]], 1)
            distance *= 2
        return b

    def in_log_space(a: Any, b: Any) -> Any:
        total = a.log().cumsum(1)
        return (total + (b.log() - total).logcumsumexp(1)).exp()

    def associative(a: Any, b: Any) -> Any:
        from torch._higher_order_ops.associative_scan import associative_scan

        def join(x: Any, y: Any) -> Any:
            return x[0] * y[0], x[1] * y[0] + y[1]

        return associative_scan(join, (a, b), 1, combine_mode="generic")[1]

    peers = {"loop": loop, "doubling": doubling, "log": in_log_space, "assoc": associative}
    for sequences, steps, width in CASES:
        shape = (sequences, steps, width)
        a, b, upstream = torch.rand(shape) * 0.9 + 0.05, torch.rand(shape) + 0.01, torch.rand(shape)
        flat = [each.reshape(-1, width).numpy() for each in (a, b, upstream)]
        x, y = (LoDTensor(each, [[steps] * sequences]) for each in flat[:2])
        chosen = {name: f for name, f in peers.items() if name != "loop" or steps <= MOST_STEPS}
        calls: dict[str, Callable[[], Any]] = {"lod": lambda x=x, y=y: sequence_linear_scan(x, y)}  # type: ignore[misc]
        calls |= {name: lambda f=f, a=a, b=b: f(a, b) for name, f in chosen.items()}  # type: ignore[misc]
        report(f"forward {shape}", least(calls))
        a.requires_grad_(), b.requires_grad_()
        calls = {"lod": lambda x=x, y=y, g=flat[2]: gradients(g, x, y)}  # type: ignore[misc]
        for name in ("loop", "doubling"):
            if name in chosen:
                calls[name] = lambda f=peers[name], a=a, b=b, g=upstream: torch.autograd.grad(  # type: ignore[misc]
                    f(a, b), (a, b), g
                )
        report(f"training {shape}", least(calls))


def report(title: str, times: dict[str, float]) -> None:
    """Print times, and how many times as long as lod each takes."""
    each = (f"{name} {time:.2f} ({time / times['lod']:.1f})" for name, time in times.items())
    print(f"{title}: {', '.join(each)}", flush=True)


def by_length() -> None:
    """Print the time of one long sequence relative to many short ones."""
    for char, width in WIDTHS:
        shape = (1_000_000, width)
        a, b = ((np.random.rand(*shape) * 0.9).astype(char) for _ in range(2))
        calls: dict[str, Callable[[], Any]] = {}
        for name, lengths in (("lod", [1000] * 1000), ("one sequence", [1_000_000])):
            x, y = (LoDTensor(each, [lengths]) for each in (a, b))
            calls[name] = lambda x=x, y=y: sequence_linear_scan(x, y)  # type: ignore[misc]
        report(f"{np.dtype(char)} of {width} columns", least(calls))


if __name__ == "__main__":
    os.environ.setdefault("LOD_THREADS", "1")
    against_torch()
    by_length()
