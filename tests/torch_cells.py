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


CELLS = {"mingru": mingru, "minlstm": minlstm}
