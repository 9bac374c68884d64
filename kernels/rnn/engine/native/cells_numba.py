"""One step of a cell, forward and backward, one vector of units at a time.

Equations and gate orders are those of lstm.py, gru.py, elman.py and slstm.py in kernels/rnn/cells.
A forward step takes the result of a tile: `sums` holds the products with the previous state,
including biases.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from lodcli.kernels.rnn.engine.native.layout import SHAPES
from lodcli.kernels.rnn.engine.native.structures import (
    RELU,
    SIGMOID,
    TANH,
    Cell,
    Elman,
    Gru,
    Lstm,
    Slstm,
)
from lodcli.kernels.runtime.jit_numba import overload
from lodcli.kernels.simd.activations_numba import exp, log1p, sigmoid, tanh
from lodcli.kernels.simd.lanes_numba import (
    LAYOUT,
    above,
    below,
    fused,
    lanes_in,
    load,
    positive,
    store,
    zero,
)


class _Numbers(NamedTuple):
    """See layout.CellShape; and the rows of a tile, and panels for a single row."""

    vectors: int
    gates: int
    kept: int
    slopes: int
    tile_rows: int
    tile_panels: int


def shape_of(cell: Any) -> _Numbers:
    """Return the numbers of a cell, compile-time constants."""
    raise NotImplementedError


@overload(shape_of)
def _shape_of(cell):  # type: ignore[no-untyped-def]
    shape = SHAPES[cell.instance_class]
    vectors, gates, kept, slopes = shape.vectors, shape.gates, shape.kept, shape.slopes
    rows, panels = LAYOUT.tile_rows(vectors), LAYOUT.panels_at_once(vectors)
    return lambda cell: _Numbers(vectors, gates, kept, slopes, rows, panels)


def step_forward(
    cell: Any, unit: int, sums: Any, at: int, x: Any, x_at: int,
    old_h: Any, old_h_at: int, old_c: Any, old_c_at: int,
    keep: bool, kept: Any, kept_at: int, h: Any, h_at: int, c: Any, c_at: int,
) -> None:  # fmt: skip
    """Write the state of one row for the units of one panel.

    Args:
        unit: the first of the units.
        sums, at: a panel's columns, gate by gate.
        x, x_at: the projected input, (gates * H).
        old_h, old_h_at, old_c, old_c_at: the previous state.
        keep, kept, kept_at: whether and where to save values for the backward pass.
        h, h_at, c, c_at: the new state.

    The cell state of an sLSTM is three times as wide: its positions are multiplied by three.
    """
    raise NotImplementedError


@overload(step_forward)
def _step_forward(  # type: ignore[no-untyped-def]
    cell, unit, sums, at, x, x_at, old_h, old_h_at, old_c, old_c_at,
    keep, kept, kept_at, h, h_at, c, c_at,
):  # fmt: skip
    return _FORWARD[cell.instance_class]


def _lstm_forward(  # type: ignore[no-untyped-def]
    cell, unit, sums, at, x, x_at, old_h, old_h_at, old_c, old_c_at,
    keep, kept, kept_at, h, h_at, c, c_at,
):  # fmt: skip
    lanes, size = lanes_in(x), cell.hidden
    count = size - unit
    gate = x_at + unit
    i = sigmoid(load(sums, at, lanes) + load(x, gate, count))
    f = sigmoid(load(sums, at + lanes, lanes) + load(x, gate + size, count))
    g = tanh(load(sums, at + 2 * lanes, lanes) + load(x, gate + 2 * size, count))
    o = sigmoid(load(sums, at + 3 * lanes, lanes) + load(x, gate + 3 * size, count))
    new = fused(i, g, f * load(old_c, old_c_at + unit, count))
    store(new, c, c_at + unit, count)
    store(o * tanh(new), h, h_at + unit, count)
    if keep:
        place = kept_at + unit
        store(i, kept, place, count)
        store(f, kept, place + size, count)
        store(g, kept, place + 2 * size, count)
        store(o, kept, place + 3 * size, count)


def _gru_forward(  # type: ignore[no-untyped-def]
    cell, unit, sums, at, x, x_at, old_h, old_h_at, old_c, old_c_at,
    keep, kept, kept_at, h, h_at, c, c_at,
):  # fmt: skip
    lanes, size = lanes_in(x), cell.hidden
    count = size - unit
    gate = x_at + unit
    r = sigmoid(load(sums, at, lanes) + load(x, gate, count))
    z = sigmoid(load(sums, at + lanes, lanes) + load(x, gate + size, count))
    inner = load(sums, at + 2 * lanes, lanes)
    outer = load(x, gate + 2 * size, count) + load(cell.inner_bias, unit, count)
    n = tanh(outer + r * inner)
    store(n + z * (load(old_h, old_h_at + unit, count) - n), h, h_at + unit, count)
    if keep:
        place = kept_at + unit
        store(r, kept, place, count)
        store(z, kept, place + size, count)
        store(n, kept, place + 2 * size, count)
        store(inner, kept, place + 3 * size, count)


def _elman_forward(  # type: ignore[no-untyped-def]
    cell, unit, sums, at, x, x_at, old_h, old_h_at, old_c, old_c_at,
    keep, kept, kept_at, h, h_at, c, c_at,
):  # fmt: skip
    lanes = lanes_in(x)
    for n in range(0, 4 * lanes, lanes):
        count, to = cell.hidden - unit - n, h_at + unit + n
        if count > 0:
            inner = load(sums, at + n, lanes) + load(x, x_at + unit + n, count)
            if cell.activation == TANH:
                store(tanh(inner), h, to, count)
            elif cell.activation == RELU:
                store(above(inner, 0.0), h, to, count)
            elif cell.activation == SIGMOID:
                store(sigmoid(inner), h, to, count)
            else:
                store(inner, h, to, count)


def _slstm_forward(  # type: ignore[no-untyped-def]
    cell, unit, sums, at, x, x_at, old_h, old_h_at, old_c, old_c_at,
    keep, kept, kept_at, h, h_at, c, c_at,
):  # fmt: skip
    lanes, size = lanes_in(x), cell.hidden
    count = size - unit
    gate, old, new = x_at + unit, 3 * old_c_at + unit, 3 * c_at + unit
    i = load(sums, at, lanes) + load(x, gate, count)
    f = load(sums, at + lanes, lanes) + load(x, gate + size, count)
    z = tanh(load(sums, at + 2 * lanes, lanes) + load(x, gate + 2 * size, count))
    o = sigmoid(load(sums, at + 3 * lanes, lanes) + load(x, gate + 3 * size, count))
    old_n, old_m = load(old_c, old + size, count), load(old_c, old + 2 * size, count)
    log_f = below(f, 0.0) - log1p(exp(below(f, 0.0 - f)))
    before = zero(old_n, -inf, log_f + old_m)
    lead = i - before
    enter, stay = exp(below(lead, 0.0)), exp(below(0.0 - lead, 0.0))
    new_c = fused(enter, z, stay * load(old_c, old, count))
    new_n = fused(stay, old_n, enter)
    # Lanes beyond the last unit would divide by 0.
    store(o * new_c / zero(new_n, 1.0, new_n), h, h_at + unit, count)
    store(new_c, c, new, count)
    store(new_n, c, new + size, count)
    store(above(i, before), c, new + 2 * size, count)
    if keep:
        place = kept_at + unit
        store(lead, kept, place, count)
        store(sigmoid(0.0 - f), kept, place + size, count)
        store(z, kept, place + 2 * size, count)
        store(o, kept, place + 3 * size, count)


def step_backward(
    cell: Any, unit: int, run: Any, row_at: int, old_h: Any, old_c: Any, old_at: int,
    kept_at: int, slopes: Any, slopes_at: int, carry_at: int,
) -> None:  # fmt: skip
    """Write the slopes of one row, and the gradients for the previous step, for one vector of
    units.

    The slopes of an LSTM are those of i, f, g, o; of an sLSTM i, f, z, o; of a GRU the factor of r,
    then r, z, n; of an Elman cell its only sum. The gradient of the previous hidden state is their
    product with weight_hh, plus `carry_other` for a GRU.

    Args:
        unit: the first of the units.
        run: a BackwardRun.
        row_at: position of the row in arrays of H columns.
        old_h, old_c, old_at: the previous state.
        kept_at: position of the row in `kept`.
        slopes, slopes_at: position of the slopes, block by block.
        carry_at: position of its sequence in the carried gradients.
    """
    raise NotImplementedError


@overload(step_backward)
def _step_backward(  # type: ignore[no-untyped-def]
    cell, unit, run, row_at, old_h, old_c, old_at, kept_at, slopes, slopes_at, carry_at
):
    return _BACKWARD[cell.instance_class]


def _lstm_backward(  # type: ignore[no-untyped-def]
    cell, unit, run, row_at, old_h, old_c, old_at, kept_at, slopes, slopes_at, carry_at
):
    size = cell.hidden
    count, place = size - unit, kept_at + unit
    i, f = load(run.kept, place, count), load(run.kept, place + size, count)
    g, o = load(run.kept, place + 2 * size, count), load(run.kept, place + 3 * size, count)
    dh = load(run.carry_h, carry_at + unit, count)
    dc = load(run.carry_other, carry_at + unit, count)
    if run.with_grad_h:
        dh = dh + load(run.grad_h, row_at + unit, count)
    if run.with_grad_c:
        dc = dc + load(run.grad_c, row_at + unit, count)
    shown = tanh(load(run.cells, row_at + unit, count))
    dc = dc + dh * o * (1.0 - shown * shown)
    to = slopes_at + unit
    store(dc * g * (i - i * i), slopes, to, count)
    store(dc * load(old_c, old_at + unit, count) * (f - f * f), slopes, to + size, count)
    store(dc * i * (1.0 - g * g), slopes, to + 2 * size, count)
    store(dh * shown * (o - o * o), slopes, to + 3 * size, count)
    store(dc * f, run.carry_other, carry_at + unit, count)


def _slstm_backward(  # type: ignore[no-untyped-def]
    cell, unit, run, row_at, old_h, old_c, old_at, kept_at, slopes, slopes_at, carry_at
):
    size = cell.hidden
    count, place = size - unit, kept_at + unit
    row, old, carry = 3 * row_at + unit, 3 * old_at + unit, 3 * carry_at + unit
    lead, slope_f = load(run.kept, place, count), load(run.kept, place + size, count)
    z, o = load(run.kept, place + 2 * size, count), load(run.kept, place + 3 * size, count)
    enter, stay = exp(below(lead, 0.0)), exp(below(0.0 - lead, 0.0))
    dh = load(run.carry_h, carry_at + unit, count)
    dc = load(run.carry_other, carry, count)
    dn = load(run.carry_other, carry + size, count)
    dm = load(run.carry_other, carry + 2 * size, count)
    if run.with_grad_h:
        dh = dh + load(run.grad_h, row_at + unit, count)
    if run.with_grad_c:
        dc = dc + load(run.grad_c, row, count)
        dn = dn + load(run.grad_c, row + size, count)
        dm = dm + load(run.grad_c, row + 2 * size, count)
    new_n = load(run.cells, row + size, count)
    new_n = zero(new_n, 1.0, new_n)
    shown = load(run.cells, row, count) / new_n
    flow = dh * o / new_n
    dc = dc + flow
    dn = dn - flow * shown
    flow_i = fused(dc, z, dn) * enter
    old_n = load(old_c, old + size, count)
    flow_f = fused(dc, load(old_c, old, count), dn * old_n) * stay
    d_before = positive(lead, flow_f, dm - flow_i)
    to = slopes_at + unit
    store(positive(lead, dm - flow_f, flow_i), slopes, to, count)
    store(d_before * slope_f, slopes, to + size, count)
    store(dc * enter * (1.0 - z * z), slopes, to + 2 * size, count)
    store(dh * shown * (o - o * o), slopes, to + 3 * size, count)
    store(dc * stay, run.carry_other, carry, count)
    store(dn * stay, run.carry_other, carry + size, count)
    store(d_before, run.carry_other, carry + 2 * size, count)


def _gru_backward(  # type: ignore[no-untyped-def]
    cell, unit, run, row_at, old_h, old_c, old_at, kept_at, slopes, slopes_at, carry_at
):
    size = cell.hidden
    count, place = size - unit, kept_at + unit
    r, z = load(run.kept, place, count), load(run.kept, place + size, count)
    n, inner = load(run.kept, place + 2 * size, count), load(run.kept, place + 3 * size, count)
    carry = carry_at + unit
    dh = load(run.carry_h, carry, count) + load(run.carry_other, carry, count)
    if run.with_grad_h:
        dh = dh + load(run.grad_h, row_at + unit, count)
    dn = dh * (1.0 - z) * (1.0 - n * n)
    to = slopes_at + unit
    store(dn * r, slopes, to, count)
    store(dn * inner * (r - r * r), slopes, to + size, count)
    old = load(old_h, old_at + unit, count)
    store(dh * (old - n) * (z - z * z), slopes, to + 2 * size, count)
    store(dn, slopes, to + 3 * size, count)
    store(dh * z, run.carry_other, carry, count)


def _elman_backward(  # type: ignore[no-untyped-def]
    cell, unit, run, row_at, old_h, old_c, old_at, kept_at, slopes, slopes_at, carry_at
):
    count, to = cell.hidden - unit, slopes_at + unit
    dh = load(run.carry_h, carry_at + unit, count)
    if run.with_grad_h:
        dh = dh + load(run.grad_h, row_at + unit, count)
    new = load(run.outputs, row_at + unit, count)
    if cell.activation == TANH:
        store(dh * (1.0 - new * new), slopes, to, count)
    elif cell.activation == RELU:
        store(positive(new, dh, 0.0), slopes, to, count)
    elif cell.activation == SIGMOID:
        store(dh * (new - new * new), slopes, to, count)
    else:
        store(dh, slopes, to, count)


_BACKWARD: dict[type[Cell], Any] = {
    Lstm: _lstm_backward,
    Gru: _gru_backward,
    Elman: _elman_backward,
    Slstm: _slstm_backward,
}
_FORWARD: dict[type[Cell], Any] = {
    Lstm: _lstm_forward,
    Gru: _gru_forward,
    Elman: _elman_forward,
    Slstm: _slstm_forward,
}
