"""Published recurrent cells as plain loops in torch, with autograd. Shares no code with lodcli.

Each takes arrays by their public names, the rows of a sequence, (T, D), and the initial state, and
returns the outputs, (T, P), and the last state.
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


def slstm(weights: Arrays, rows: Any, state: Any) -> tuple[list[Any], Any]:
    """Return the outputs of all rows, and the last h and c, n, m."""
    kernel = weights["slstm_cell._recurrent_kernel_"]
    heads, _, width = kernel.shape
    h, (c, n, m) = state[0], state[1].chunk(3)
    outputs = []
    for x in rows:
        # The published layer swaps the names of its weights: fgate is for i, and igate for f.
        names = ("fgate.weight", "igate.weight", "zgate.weight", "ogate.weight")
        if names[0] in weights:
            x = torch.cat([_headwise(weights[name], x) for name in names])
        inner = torch.einsum("hgk,hk->hg", kernel, h.reshape(heads, width))
        raw = x + inner.reshape(heads, 4, width).transpose(0, 1).reshape(-1)
        i, f, z, o = (raw + weights["slstm_cell._bias_"]).chunk(4)
        before = torch.nn.functional.logsigmoid(f) + m
        before = torch.where(n == 0, -torch.inf, before)
        m = torch.maximum(i, before)
        enter, keep = torch.exp(i - m), torch.exp(before - m)
        c, n = keep * c + enter * torch.tanh(z), keep * n + enter
        h = torch.sigmoid(o) * c / n
        outputs.append(h)
    return outputs, (h, torch.cat([c, n, m]))


def _headwise(weight: Any, x: Any) -> Any:
    return torch.einsum("bod,bd->bo", weight, x.reshape(len(weight), -1)).reshape(-1)


def s5(weights: Arrays, options: dict[str, Any], rows: Any, h: Any) -> Rows:
    rate = torch.complex(weights["Lambda_re"], weights["Lambda_im"])
    held = torch.exp(rate * torch.exp(weights["log_step"][:, 0]))
    into = ((held - 1) / rate)[:, None] * torch.view_as_complex(weights["B"])
    out = torch.view_as_complex(weights["C"])
    state = torch.view_as_complex(h.reshape(-1, 2))
    outputs = []
    for x in rows:
        state = held * state + into @ x.to(into.dtype)
        skip = weights["D"] * x if weights["D"].dim() == 1 else weights["D"] @ x
        outputs.append((2 if options.get("conj_sym", True) else 1) * (out @ state).real + skip)
    return torch.stack(outputs), torch.view_as_real(state).reshape(-1)


CELLS = {"lru": lru, "mingru": mingru, "minlstm": minlstm, "rglru": rglru, "s5": s5}
