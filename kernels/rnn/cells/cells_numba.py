"""One step of a cell, forward and backward, one vector of units at a time.

The equations and the orders of the gates are those of lstm/lstm.py, gru/gru.py and
elman/elman.py. A step forward begins where the tile has ended: in `sums` lie the products with
the state before, biases included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lodcli.kernels.rnn.engine.numba.tiles import panels_at_once, tile_rows
from lodcli.kernels.runtime.jit_numba import njit, overload
from lodcli.kernels.simd.activations import sigmoid, tanh
from lodcli.kernels.simd.lanes import above, lanes_in, load, positive, store


class Cell(NamedTuple):
    """A cell: weight_hh.T in panels of the same units of all gates, and what its sums begin with.

    Attributes:
        inner_bias: of a GRU, the bias of n that r does not multiply.
        shape: how wide the panels are.
    """

    panels: Any
    start: Any
    inner_bias: Any
    hidden: int
    shape: Any


class Lstm(Cell):
    """Keeps i, f, g, o for the way back."""


class Gru(Cell):
    """Keeps r, z, n, and what r multiplies."""


class ElmanTanh(Cell):
    """Keeps nothing: the outputs are enough."""


class ElmanRelu(ElmanTanh):
    """See ElmanTanh."""


class ElmanSigmoid(ElmanTanh):
    """See ElmanTanh."""


class ElmanIdentity(ElmanTanh):
    """See ElmanTanh."""


class CellShape(NamedTuple):
    """The numbers of a kind of cell.

    Attributes:
        vectors: side by side in its panels.
        gates: blocks of H in weight_hh.
        kept: blocks of H that a row keeps for the way back.
        slopes: blocks of H that a row has on the way back.
        tile_rows: rows of a tile.
        tile_panels: panels of a tile of one row.
    """

    vectors: int
    gates: int
    kept: int
    slopes: int
    tile_rows: int
    tile_panels: int


_ELMAN = CellShape(4, 1, 0, 1, tile_rows(4), panels_at_once(4))
SHAPES: dict[type[Cell], CellShape] = {
    Lstm: CellShape(4, 4, 4, 4, tile_rows(4), panels_at_once(4)),
    Gru: CellShape(3, 3, 4, 4, tile_rows(3), panels_at_once(3)),
    ElmanTanh: _ELMAN,
    ElmanRelu: _ELMAN,
    ElmanSigmoid: _ELMAN,
    ElmanIdentity: _ELMAN,
}


def shape_of(cell: Any) -> CellShape:
    """Return the numbers of a cell: in compiled code constants."""
    return SHAPES[type(cell)]


@overload(shape_of)
def _shape_of(cell):  # type: ignore[no-untyped-def]
    vectors, gates, kept, slopes, rows, panels = SHAPES[cell.instance_class]
    return lambda cell: CellShape(vectors, gates, kept, slopes, rows, panels)


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
        old_h, old_h_at, old_c, old_c_at: the state before.
        keep, kept, kept_at: whether and where to put what the way back needs.
        h, h_at, c, c_at: the new state.
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
    new = f * load(old_c, old_c_at + unit, count) + i * g
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


def _elman_forward(activation: Any) -> Any:
    def forward(  # type: ignore[no-untyped-def]
        cell, unit, sums, at, x, x_at, old_h, old_h_at, old_c, old_c_at,
        keep, kept, kept_at, h, h_at, c, c_at,
    ):  # fmt: skip
        lanes = lanes_in(x)
        for n in range(0, 4 * lanes, lanes):
            count = cell.hidden - unit - n
            if count > 0:
                inner = load(sums, at + n, lanes) + load(x, x_at + unit + n, count)
                store(activation(inner), h, h_at + unit + n, count)

    return forward


@njit(nogil=True)
def _relu(x):  # type: ignore[no-untyped-def]
    return above(x, 0.0)


@njit(nogil=True)
def _identity(x):  # type: ignore[no-untyped-def]
    return x


def step_backward(
    cell: Any, unit: int, run: Any, row_at: int, old_h: Any, old_c: Any, old_at: int,
    kept_at: int, slopes: Any, slopes_at: int, carry_at: int,
) -> None:  # fmt: skip
    """Write the slopes of one row, and what it hands on, for the units of one vector.

    The slopes of an LSTM are of i, f, g, o; of a GRU, of what r multiplies, r, z, n; of an
    Elman cell, of its one sum. The gradient of the hidden state before is their product with
    weight_hh, and for a GRU what it puts into `carry_other` besides.

    Args:
        unit: the first of the units.
        run: a BackwardRun.
        row_at: where the row begins in arrays of H columns.
        old_h, old_c, old_at: the state before.
        kept_at: where the row begins in what was kept.
        slopes, slopes_at: where they go, block by block.
        carry_at: where its sequence begins in the gradients that steps hand on.
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


def _elman_backward(slope: Any) -> Any:
    def backward(  # type: ignore[no-untyped-def]
        cell, unit, run, row_at, old_h, old_c, old_at, kept_at, slopes, slopes_at, carry_at
    ):
        count = cell.hidden - unit
        dh = load(run.carry_h, carry_at + unit, count)
        if run.with_grad_h:
            dh = dh + load(run.grad_h, row_at + unit, count)
        new = load(run.outputs, row_at + unit, count)
        store(slope(new, dh), slopes, slopes_at + unit, count)

    return backward


@njit(nogil=True)
def _through_tanh(new, grad):  # type: ignore[no-untyped-def]
    return grad * (1.0 - new * new)


@njit(nogil=True)
def _through_relu(new, grad):  # type: ignore[no-untyped-def]
    return positive(new, grad)


@njit(nogil=True)
def _through_sigmoid(new, grad):  # type: ignore[no-untyped-def]
    return grad * (new - new * new)


@njit(nogil=True)
def _through_identity(new, grad):  # type: ignore[no-untyped-def]
    return grad


_BACKWARD: dict[type[Cell], Any] = {
    Lstm: _lstm_backward,
    Gru: _gru_backward,
    ElmanTanh: _elman_backward(_through_tanh),
    ElmanRelu: _elman_backward(_through_relu),
    ElmanSigmoid: _elman_backward(_through_sigmoid),
    ElmanIdentity: _elman_backward(_through_identity),
}
_FORWARD: dict[type[Cell], Any] = {
    Lstm: _lstm_forward,
    Gru: _gru_forward,
    ElmanTanh: _elman_forward(tanh),
    ElmanRelu: _elman_forward(_relu),
    ElmanSigmoid: _elman_forward(sigmoid),
    ElmanIdentity: _elman_forward(_identity),
}
