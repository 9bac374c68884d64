"""Reference RNNs: one sequence, one step, one gate at a time. Shares no code with lodcli.

Also the cells and shapes that the RNN tests run over.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_FUNCTIONS: dict[str, Any] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: x * (x > 0),
    "identity": lambda x: x,
}


def _block(weights: Any, number: int, x: Array, h: Array) -> tuple[Array, Array]:
    """Return the products of one gate with the input and the hidden state, with biases."""
    size = len(weights.weight_hh) // weights.GATES
    rows = slice(number * size, (number + 1) * size)
    from_input = x[rows] if weights.weight_ih is None else weights.weight_ih[rows] @ x
    from_hidden = weights.weight_hh[rows] @ h
    if weights.bias_ih is not None:
        from_input = from_input + weights.bias_ih[rows]
    if weights.bias_hh is not None:
        from_hidden = from_hidden + weights.bias_hh[rows]
    return from_input, from_hidden


def elman_step(weights: Any, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    return _FUNCTIONS[weights.nonlinearity](sum(_block(weights, 0, x, h))), c


def gru_step(weights: Any, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    sigmoid = _FUNCTIONS["sigmoid"]
    r = sigmoid(sum(_block(weights, 0, x, h)))
    z = sigmoid(sum(_block(weights, 1, x, h)))
    n_input, n_hidden = _block(weights, 2, x, h)
    n = np.tanh(n_input + r * n_hidden)
    return n + z * (h - n), c


def gru_paddle_step(weights: Any, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    gate = _FUNCTIONS[weights.gate_activation]
    u = gate(sum(_block(weights, 0, x, h)))
    r = gate(sum(_block(weights, 1, x, h)))
    candidate = _FUNCTIONS[weights.candidate_activation](sum(_block(weights, 2, x, r * h)))
    if weights.origin_mode:
        u = 1 - u
    return h + u * (candidate - h), c


def lstm_step(weights: Any, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    gate = _FUNCTIONS[weights.gate_activation]
    peepholes = np.zeros((3, len(c))) if weights.peepholes is None else weights.peepholes
    i = gate(sum(_block(weights, 0, x, h)) + peepholes[0] * c)
    f = gate(sum(_block(weights, 1, x, h)) + peepholes[1] * c)
    if weights.coupled:
        f = 1 - i
    g = _FUNCTIONS[weights.candidate_activation](sum(_block(weights, 2, x, h)))
    new_c = i * g + f * c
    o = gate(sum(_block(weights, 3, x, h)) + peepholes[2] * new_c)
    new_h = o * _FUNCTIONS[weights.cell_activation](new_c)
    return (new_h if weights.weight_hr is None else weights.weight_hr @ new_h), new_c


def slstm_step(weights: Any, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    heads, _, width = weights.recurrent_kernel.shape
    gates = [weights.weight_i, weights.weight_f, weights.weight_z, weights.weight_o]
    new_h, new_c = np.zeros(heads * width), np.zeros((3, heads * width))
    for head in range(heads):
        raw = weights.recurrent_kernel[head] @ h[head * width : (head + 1) * width]
        for unit in range(width):
            place = head * width + unit
            i, f, z, o = (
                raw[gate * width + unit] + _slstm_input(one, place, x)
                + (0 if weights.bias is None else weights.bias[gate * heads * width + place])
                for gate, one in enumerate(gates)
            )  # fmt: skip
            old, norm, level = c.reshape(3, -1)[:, place]
            # Without the stabiliser c and n would be exp(m) times as large.
            forget, enter = 1 / (1 + np.exp(-f)), np.exp(i)
            total = forget * np.exp(level) * old + enter * np.tanh(z)
            count = forget * np.exp(level) * norm + enter
            top = max(enter, forget * np.exp(level)) if norm else enter
            new_c[:, place] = total / top, count / top, np.log(top)
            new_h[place] = total / count / (1 + np.exp(-o))
    return new_h, new_c.ravel()


def _slstm_input(gate: Array, place: int, x: Array) -> Any:
    rows = len(gate[0])
    return gate[place // rows, place % rows] @ np.split(x, len(gate))[place // rows]


def _minimal_step(weights: Any, k: Array, candidate: Array, h: Array, c: Array) -> Any:
    if weights.candidate_activation == "g":
        candidate = np.where(candidate >= 0, candidate + 0.5, 1 / (1 + np.exp(-candidate)))
    before = h if weights.to_out is None else c
    state = before + (candidate - before) / (1 + np.exp(-k))
    return (state, c) if weights.to_out is None else (weights.to_out @ state, state)


def _blocks(weights: Any, x: Array) -> list[Array]:
    whole = weights.to_gates @ x
    whole = whole if weights.to_gates_bias is None else whole + weights.to_gates_bias
    return np.split(whole, weights.GATES)


def mingru_step(weights: Any, x: Array, h: Array, c: Array) -> Any:
    candidate, gate = _blocks(weights, x)
    return _minimal_step(weights, gate, candidate, h, c)


def minlstm_step(weights: Any, x: Array, h: Array, c: Array) -> Any:
    candidate, f, i = _blocks(weights, x)
    # i / (f + i), as the sigmoid of the logarithm of i / f.
    return _minimal_step(weights, np.log((1 + np.exp(-f)) / (1 + np.exp(-i))), candidate, h, c)


def rglru_step(weights: Any, x: Array, h: Array, c: Array) -> Any:
    u = weights.linear_x @ x
    u = u if weights.linear_x_bias is None else u + weights.linear_x_bias

    def gate(blocks: Array, bias: Array) -> Array:
        parts = np.split(u, len(blocks))
        inner = [part @ block for part, block in zip(parts, blocks, strict=True)]
        result: Array = 1 / (1 + np.exp(-np.concatenate(inner) - bias.ravel()))
        return result

    r = gate(weights.a_gate_w, weights.a_gate_b)
    a = np.exp(-8 * r * np.log(1 + np.exp(weights.a_param)))
    i = gate(weights.input_gate_w, weights.input_gate_b)
    return a * h + np.sqrt(1 - a**2) * i * u, c


def lru_step(weights: Any, x: Array, h: Array, c: Array) -> Any:
    factor = np.exp(-np.exp(weights.nu_log) + 1j * np.exp(weights.theta_log))
    entering = np.exp(weights.gamma_log) * ((weights.b_re + 1j * weights.b_im) @ x)
    state = factor * (c[0::2] + 1j * c[1::2]) + entering
    skip = weights.skip * x if weights.skip.ndim == 1 else weights.skip @ x
    shown = ((weights.c_re + 1j * weights.c_im) @ state).real + skip
    return shown, np.stack([state.real, state.imag], axis=1).ravel()


def s5_step(weights: Any, x: Array, h: Array, c: Array) -> Any:
    rate = weights.lambda_re + 1j * weights.lambda_im
    held = np.exp(rate * np.exp(weights.log_step.ravel()))
    entering = (held - 1) / rate * (_complex(weights.b) @ x)
    state = held * (c[0::2] + 1j * c[1::2]) + entering
    skip = weights.skip * x if weights.skip.ndim == 1 else weights.skip @ x
    shown = (2 if weights.conj_sym else 1) * (_complex(weights.c) @ state).real + skip
    return shown, np.stack([state.real, state.imag], axis=1).ravel()


def _complex(pairs: Array) -> Array:
    result: Array = pairs[..., 0] + 1j * pairs[..., 1]
    return result


_STEPS: dict[str, Any] = {
    "elman": elman_step,
    "gru": gru_step,
    "gru_paddle": gru_paddle_step,
    "lru": lru_step,
    "lstm": lstm_step,
    "mingru": mingru_step,
    "minlstm": minlstm_step,
    "rglru": rglru_step,
    "s5": s5_step,
    "slstm": slstm_step,
}


def rnn_by_the_book(
    sequences: list[Array], weights: Any, *, hidden: Array, cell: Array, reverse: bool = False
) -> tuple[list[Array], list[Array], Array, Array]:
    """Return the hidden and cell states of every sequence, and the last ones of each.

    Args:
        sequences: (rows, D) each.
        hidden: (S, P), before the first step.
        cell: (S, H); returned unchanged by a cell without a cell state.
    """
    hiddens, cells = [], []
    last_hidden, last_cell = hidden.copy(), cell.copy()
    for number, rows in enumerate(sequences):
        h, c = hidden[number], cell[number]
        by_row: dict[int, tuple[Array, Array]] = {}
        steps = range(len(rows))
        for row in reversed(steps) if reverse else steps:
            h, c = _STEPS[weights.KIND](weights, rows[row], h, c)
            by_row[row] = h, c
        last_hidden[number], last_cell[number] = h, c
        hiddens.append(np.array([by_row[row][0] for row in steps]).reshape(-1, hidden.shape[1]))
        cells.append(np.array([by_row[row][1] for row in steps]).reshape(-1, cell.shape[1]))
    return hiddens, cells, last_hidden, last_cell


def cut(data: Array, offsets: list[int]) -> list[Array]:
    """Return the rows of every sequence."""
    return [data[a:b] for a, b in itertools.pairwise(offsets)]


def offsets_of(lengths: list[int]) -> npt.NDArray[np.int64]:
    """Return the prefix sums of `lengths`, starting with 0."""
    return np.array([sum(lengths[:n]) for n in range(len(lengths) + 1)], np.int64)


def close(got: Any, wanted: Any, tolerance: float, what: str = "") -> None:
    """Assert |got - wanted| <= tolerance * (1 + |wanted|) everywhere, and equal shapes."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, expected {wanted.shape}"
    error = np.max(np.abs(got - wanted) / (1 + np.abs(wanted)), initial=0)
    assert error <= tolerance, f"{what}: off by {error}"
