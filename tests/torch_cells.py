"""Published recurrent cells as plain loops in torch, for its autograd. Shares no code with lodcli.

Each takes the arrays by their public names, the rows of a sequence, (T, D), and the state before
them, and returns the outputs, (T, P), and the state after them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
Arrays = dict[str, Any]
Rows = tuple[Any, Any]


def _g(x: Any) -> Any:
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def _loop(weights: Arrays, rows: Any, h: Any, step: Callable[..., Any]) -> Rows:
    outputs = []
    for x in rows:
        h = step(x, h)
        outputs.append(weights["to_out.weight"] @ h if "to_out.weight" in weights else h)
    return torch.stack(outputs), h


def mingru(weights: Arrays, options: dict[str, Any], rows: Any, h: Any) -> Rows:
    bias = weights.get("to_hidden_and_gate.bias", torch.zeros(()))

    def step(x: Any, h: Any) -> Any:
        candidate, gate = (weights["to_hidden_and_gate.weight"] @ x + bias).chunk(2)
        if options.get("candidate_activation") != "identity":
            candidate = _g(candidate)
        return torch.lerp(h, candidate, torch.sigmoid(gate))

    return _loop(weights, rows, h, step)


def minlstm(weights: Arrays, options: dict[str, Any], rows: Any, h: Any) -> Rows:
    bias = weights.get("to_hidden_and_f_i_gate.bias", torch.zeros(()))

    def step(x: Any, h: Any) -> Any:
        parts = weights["to_hidden_and_f_i_gate.weight"] @ x + bias
        candidate, forget, enter = parts.chunk(3)
        if options.get("candidate_activation") != "identity":
            candidate = _g(candidate)
        f, i = torch.sigmoid(forget), torch.sigmoid(enter)
        return f / (f + i) * h + i / (f + i) * candidate

    return _loop(weights, rows, h, step)


def rglru(weights: Arrays, options: dict[str, Any], rows: Any, h: Any) -> Rows:
    def gate(name: str, u: Any) -> Any:
        heads = u.reshape(len(weights[f"{name}.w"]), -1)
        blocks = torch.einsum("hi,hij->hj", heads, weights[f"{name}.w"]) + weights[f"{name}.b"]
        return torch.sigmoid(blocks.reshape(-1))

    def step(x: Any, h: Any) -> Any:
        u = weights["linear_x.weight"] @ x + weights.get("linear_x.bias", torch.zeros(()))
        softplus = torch.nn.functional.softplus(weights["a_param"])
        a = torch.exp(-8 * softplus * gate("a_gate", u))
        return a * h + torch.sqrt(1 - a * a) * gate("input_gate", u) * u

    return _loop(weights, rows, h, step)


def lru(weights: Arrays, options: dict[str, Any], rows: Any, h: Any) -> Rows:
    factor = torch.exp(
        torch.complex(-torch.exp(weights["nu_log"]), torch.exp(weights["theta_log"]))
    )
    into = torch.complex(weights["B_re"], weights["B_im"])
    out = torch.complex(weights["C_re"], weights["C_im"])
    state = torch.view_as_complex(h.reshape(-1, 2))
    outputs = []
    for x in rows:
        state = factor * state + torch.exp(weights["gamma_log"]) * (into @ x.to(into.dtype))
        skip = weights["D"] * x if weights["D"].dim() == 1 else weights["D"] @ x
        outputs.append((out @ state).real + skip)
    return torch.stack(outputs), torch.view_as_real(state).reshape(-1)


CELLS = {"lru": lru, "mingru": mingru, "minlstm": minlstm, "rglru": rglru}
