"""Linear cells made of torch's ops: a loop over steps, and parallel scans, on a padded batch.

A scan of log T passes over all steps ("doubling") works for every cell. If factors and inputs are
positive, as in minGRU and minLSTM, a scan in log space works too, with logcumsumexp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from lodcli.bench.peers.torch import threads, version

__all__ = ["linear", "threads", "version"]

functional = torch.nn.functional
# Maximum for the loop, which is far slower than the scans for more steps, and for the scan in log
# space, whose sums of logarithms become inexact.
MOST_STEPS = 1000


def linear(which: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of a linear cell with torch."""
    weights = {
        name.removeprefix("weight_"): torch.as_tensor(array)
        for name, array in inputs.items()
        if name.startswith("weight_")
    }
    lengths = inputs["lengths"].tolist()
    data, upstream = (
        pad_sequence(list(torch.split(torch.as_tensor(inputs[name]), lengths)), batch_first=True)
        for name in ("data", "upstream")
    )
    cell = inputs["cell"]
    runs = {"doubling": _run(cell, doubling)}
    if max(lengths) <= MOST_STEPS:
        runs["loop"] = _run(cell, loop)
        if cell in _LOG_SPACE:
            runs["log space"] = _LOG_SPACE[cell]
    ways = {}
    for label, run in runs.items():
        if which == "forward":
            ways[label] = _forward(run, weights, data, inputs["places"])
        else:
            compared = inputs["compared"].removeprefix("weight_")
            ways[label] = _training(run, weights, data, upstream, inputs["places"], compared)
    return ways


def _forward(run: Any, weights: Any, data: Any, places: Any) -> Any:
    def call() -> Any:
        with torch.no_grad():
            return run(weights, data)

    return call, lambda found: [_rows(found, places)]


def _training(run: Any, weights: Any, data: Any, upstream: Any, places: Any, compared: str) -> Any:
    for array in weights.values():
        array.requires_grad_(True)

    def call() -> Any:
        rows = data.detach().requires_grad_(True)
        found = run(weights, rows)
        grads = torch.autograd.grad(found, [rows, *weights.values()], upstream)
        return found, grads[0], dict(zip(weights, grads[1:], strict=True))

    def arrays(found: Any) -> list[Any]:
        outputs, rows, grads = found
        of_input = _rows(rows, places).sum(axis=0, dtype="float64")
        return [_rows(outputs, places), of_input, grads[compared].numpy()]

    return call, arrays


def _rows(box: Any, places: Any) -> Any:
    return box.detach().flatten(0, 1).numpy()[places]


def loop(a: Any, b: Any) -> Any:
    """Return h[t] = a[t] h[t-1] + b[t], (S, T, H), step by step; a may be the same for all."""
    h, states = torch.zeros_like(b[:, 0]), []
    for t in range(b.shape[1]):
        h = torch.addcmul(b[:, t], a[:, min(t, a.shape[1] - 1)], h)
        states.append(h)
    return torch.stack(states, 1)


def doubling(a: Any, b: Any) -> Any:
    """Return the same as `loop`: pass n combines each step with the one 2^n steps before."""
    distance = 1
    same = a.shape[1] == 1
    while distance < b.shape[1]:
        d = distance
        reach = a if same else a[:, d:]
        b = torch.cat([b[:, :d], torch.addcmul(b[:, d:], reach, b[:, :-d])], 1)
        a = a * a if same else torch.cat([a[:, :d], a[:, d:] * a[:, :-d]], 1)
        distance *= 2
    return b


def _run(cell: str, scan: Callable[[Any, Any], Any]) -> Any:
    made = {"mingru": _mingru, "minlstm": _minlstm, "rglru": _rglru}.get(cell)
    if made is not None:
        return lambda weights, x: scan(*made(weights, x))
    diagonal = _lru if cell == "lru" else _s5

    def run(weights: Any, x: Any) -> Any:
        a, b, real, imaginary = diagonal(weights, x)
        h, skip = scan(a, b), weights["skip"]
        shown = h.real @ real.T - h.imag @ imaginary.T
        return shown + (x * skip if skip.dim() == 1 else x @ skip.T)

    return run


def _g(x: Any) -> Any:
    return torch.where(x >= 0, x + 0.5, x.sigmoid())


def _log_g(x: Any) -> Any:
    return torch.where(x >= 0, (x.relu() + 0.5).log(), -functional.softplus(-x))


def _in_log_space(log_a: Any, log_b: Any) -> Any:
    total = log_a.cumsum(1)
    return (total + (log_b - total).logcumsumexp(1)).exp()


def _mingru(weights: Any, x: Any) -> Any:
    candidate, gate = (x @ weights["to_gates"].T).chunk(2, dim=-1)
    return (-gate).sigmoid(), _g(candidate) * gate.sigmoid()


def _mingru_log(weights: Any, x: Any) -> Any:
    candidate, gate = (x @ weights["to_gates"].T).chunk(2, dim=-1)
    return _in_log_space(-functional.softplus(gate), _log_g(candidate) - functional.softplus(-gate))


def _minlstm(weights: Any, x: Any) -> Any:
    candidate, forget, enter = (x @ weights["to_gates"].T).chunk(3, dim=-1)
    f, i = forget.sigmoid(), enter.sigmoid()
    return f / (f + i), _g(candidate) * i / (f + i)


def _minlstm_log(weights: Any, x: Any) -> Any:
    candidate, forget, enter = (x @ weights["to_gates"].T).chunk(3, dim=-1)
    difference = functional.softplus(-forget) - functional.softplus(-enter)
    return _in_log_space(
        -functional.softplus(difference), _log_g(candidate) - functional.softplus(-difference)
    )


_LOG_SPACE = {"mingru": _mingru_log, "minlstm": _minlstm_log}


def _rglru(weights: Any, x: Any) -> Any:
    u = x @ weights["linear_x"].T + weights["linear_x_bias"]

    def gate(name: str) -> Any:
        blocks = weights[f"{name}_w"]
        parts = u.unflatten(-1, (len(blocks), -1))
        inner = torch.einsum("sthi,hij->sthj", parts, blocks) + weights[f"{name}_b"]
        return inner.flatten(-2).sigmoid()

    log_a = -8 * functional.softplus(weights["a_param"]) * gate("a_gate")
    a = log_a.exp()
    return a, torch.sqrt(-torch.expm1(2 * log_a)) * gate("input_gate") * u


def _lru(weights: Any, x: Any) -> Any:
    a = torch.exp(torch.complex(-weights["nu_log"].exp(), weights["theta_log"].exp()))
    entering = torch.complex(x @ weights["b_re"].T, x @ weights["b_im"].T)
    return a[None, None], weights["gamma_log"].exp() * entering, weights["c_re"], weights["c_im"]


def _s5(weights: Any, x: Any) -> Any:
    rate = torch.complex(weights["lambda_re"], weights["lambda_im"])
    a = torch.exp(rate * weights["log_step"][:, 0].exp())
    b, c = weights["b"], 2 * weights["c"]
    entering = torch.complex(x @ b[..., 0].T, x @ b[..., 1].T)
    return a[None, None], (a - 1) / rate * entering, c[..., 0], c[..., 1]
