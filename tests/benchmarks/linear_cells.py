"""Time a layer of minGRU against torch: its loop over steps, and parallel scans made of its ops.

    python -m tests.benchmarks.linear_cells

Prints processor times of one thread in milliseconds, the least of some rounds in turn: forward,
and forward with the gradients of input and weights. Sequences are equally long, so that torch needs
no padding. Then the memory that a training step of lod takes, in multiples of its input.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.rnn.engine.engine import rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.stack import seeded_weights
from tests.benchmarks.linear_scan import least, report

# Sequences, rows of each, values of a row and of the state.
CASES = ((64, 200, 128), (16, 1000, 64), (4, 1000, 256), (1, 20_000, 64))
MOST_STEPS = 1000  # of torch's loop


def against_torch() -> None:
    """Print times of lod and torch."""
    import torch

    torch.set_num_threads(1)
    functional = torch.nn.functional

    def g(x: Any) -> Any:
        return torch.where(x >= 0, x + 0.5, x.sigmoid())

    def loop(x: Any, weight: Any) -> Any:
        candidate, gate = (x @ weight.T).chunk(2, dim=-1)
        candidate, z = g(candidate), gate.sigmoid()
        h, states = torch.zeros_like(z[:, 0]), []
        for t in range(x.shape[1]):
            h = torch.lerp(h, candidate[:, t], z[:, t])
            states.append(h)
        return torch.stack(states, 1)

    def in_log_space(x: Any, weight: Any) -> Any:
        candidate, gate = (x @ weight.T).chunk(2, dim=-1)
        log_g = torch.where(
            candidate >= 0, (candidate.relu() + 0.5).log(), -functional.softplus(-candidate)
        )
        total = (-functional.softplus(gate)).cumsum(1)
        entering = log_g - functional.softplus(-gate) - total
        return (total + entering.logcumsumexp(1)).exp()

    def doubling(x: Any, weight: Any) -> Any:
        candidate, gate = (x @ weight.T).chunk(2, dim=-1)
        a, b, distance = (-gate).sigmoid(), g(candidate) * gate.sigmoid(), 1
        while distance < x.shape[1]:
            d = distance
            b = torch.cat([b[:, :d], torch.addcmul(b[:, d:], a[:, d:], b[:, :-d])], 1)
            a = torch.cat([a[:, :d], a[:, d:] * a[:, :-d]], 1)
            distance *= 2
        return b

    peers = {"loop": loop, "log": in_log_space, "doubling": doubling}
    for sequences, steps, width in CASES:
        weights = seeded_weights("mingru", width, width, rng=np.random.default_rng(0))
        layer: Any = weights.layers[0][0].frozen()
        x, upstream = (torch.randn(sequences, steps, width) for _ in range(2))
        weight = torch.tensor(layer.to_gates)
        rows, flow = (each.reshape(-1, width).numpy() for each in (x, upstream))
        offsets = np.arange(sequences + 1) * steps

        def forward(rows: Any = rows, offsets: Any = offsets, layer: Any = layer) -> Any:
            return rnn_forward(rows, offsets, layer, keep=True, backend="numba")

        chosen = {name: f for name, f in peers.items() if name != "loop" or steps <= MOST_STEPS}
        calls: dict[str, Callable[[], Any]] = {"lod": forward}
        with torch.no_grad():
            calls |= {
                name: lambda f=f, x=x, w=weight: f(x, w)  # type: ignore[misc]
                for name, f in chosen.items()
            }
            report(f"forward {x.shape}", least(calls))
        x.requires_grad_(), weight.requires_grad_()
        calls = {"lod": lambda f=forward, g=flow: rnn_backward(f().tape, grad_outputs=g)}  # type: ignore[misc]
        calls |= {
            name: lambda f=f, x=x, w=weight, g=upstream: torch.autograd.grad(f(x, w), (x, w), g)  # type: ignore[misc]
            for name, f in chosen.items()
        }
        report(f"training {x.shape}", least(calls))


def memory() -> None:
    """Print what is kept between forward and backward, and the peak of both."""
    for cell in ("mingru", "minlstm", "rglru", "lru"):
        layer = seeded_weights(cell, 64, 64, rng=np.random.default_rng(0)).layers[0][0]
        rows = np.random.default_rng(1).normal(size=(30_000, 64)).astype(np.float32)
        offsets = np.arange(0, 30_001, 1000)
        tracemalloc.start()
        run = rnn_forward(rows, offsets, layer, keep=True, backend="numba", cells=False)
        kept, peak_forward = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert run.tape is not None
        rnn_backward(run.tape, grad_outputs=run.outputs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        shares = (f"{each / rows.nbytes:.1f}" for each in (kept, peak_forward, peak))
        print(cell, "kept {}, peak forward {}, peak backward {} times its input".format(*shares))


if __name__ == "__main__":
    os.environ.setdefault("LOD_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    memory()
    against_torch()
