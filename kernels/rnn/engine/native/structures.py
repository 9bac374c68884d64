"""Argument structures of the kernels of a layer. Arrays of several dimensions are passed flat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native.declare import Pointer, T

# Python passes arrays; compiled code sees pointers to their elements.
if TYPE_CHECKING:
    Floats: TypeAlias = Array
    Wholes: TypeAlias = Array
else:
    Floats, Wholes = Pointer[T], Pointer[np.int64]

TANH, RELU, SIGMOID, IDENTITY = range(4)


class Fours(NamedTuple):
    """Panels are four vectors wide."""

    wide: int = 4


class Threes(NamedTuple):
    """Panels are three vectors wide."""

    wide: int = 3


class Matrix(NamedTuple):
    """A matrix (depth, columns) in panels.

    panels[p][k] holds columns p * width .. (p+1) * width of row k; the last panel is padded with
    zeros.

    Attributes:
        zeros: a panel's width of zeros, the initial value of sums.
        blocked: whether products run in blocks of rows; see tuning.py.
    """

    panels: Floats
    zeros: Floats
    depth: int
    columns: int
    blocked: bool
    shape: Fours = Fours()


class FourCell(NamedTuple):
    """A cell.

    Attributes:
        panels: weight_hh.T; a panel holds the columns of the same units of all gates.
        start: the initial values of sums, in the order of the columns of `panels`.
        inner_bias: for a GRU, the bias of n outside the product with r.
        hidden: H.
        blocked: whether products run in blocks of rows; see tuning.py.
        activation: for an Elman cell, TANH, RELU, SIGMOID or IDENTITY.
        shape: the width of the panels.
    """

    panels: Floats
    start: Floats
    inner_bias: Floats
    hidden: int
    blocked: bool
    activation: int = TANH
    shape: Fours = Fours()


class Lstm(FourCell):
    """An LSTM. Saves i, f, g, o for the backward pass."""


class Slstm(FourCell):
    """An sLSTM. Saves i - (log sigmoid(f) + m), sigmoid(-f), tanh(z), sigmoid(o)."""


class Elman(FourCell):
    """An Elman cell. Saves nothing: the backward pass needs only the outputs."""


class Gru(NamedTuple):
    """A GRU; fields as of FourCell. Saves r, z, n, and the term of n that r multiplies."""

    panels: Floats
    start: Floats
    inner_bias: Floats
    hidden: int
    blocked: bool
    activation: int = TANH
    shape: Threes = Threes()


Cell = Lstm | Elman | Slstm | Gru
KINDS: dict[str, type[Cell]] = {"lstm": Lstm, "gru": Gru, "elman": Elman, "slstm": Slstm}


class Sequences(NamedTuple):
    """Some sequences, none of them empty, in descending order of their lengths.

    Attributes:
        firsts: (total,) the row of the first step of each sequence.
        lengths: (total,) the number of rows of each.
        numbers: (total,) the row of each in the initial states.
        ranks: (total,) the position of each among all sequences of the batch, longest first.
        onward: the distance from the row of a step to that of the next step: 1, or -1 in reverse.
    """

    firsts: Wholes
    lengths: Wholes
    numbers: Wholes
    ranks: Wholes
    total: int
    onward: int


class Team(NamedTuple):
    """A thread's number among those that run the same sequences, their count and their barrier."""

    member: int
    members: int
    barrier: Wholes


class ForwardRun(NamedTuple):
    """Input and output arrays of a forward pass.

    The cell state of an sLSTM has 3H columns instead of H.

    Attributes:
        data: (N, D), or the projected inputs (N, gates * H).
        begin_h: (S, H), the hidden states before the first step.
        no_begin_h: whether begin_h is all zeros.
        state_c: (S, H), the cell states before the first step; unless `by_row`, the pass replaces
            them with those after the last step.
        outputs: (N, H), the hidden state after every row.
        by_row: whether to write the cell state after every row to `cells`.
        cells: (N, H).
        keep: whether to save values for the backward pass in `kept`.
        kept: (N, KEPT * H).
    """

    data: Floats
    begin_h: Floats
    no_begin_h: bool
    state_c: Floats
    outputs: Floats
    by_row: bool
    cells: Floats
    keep: bool
    kept: Floats


class ForwardSpace(NamedTuple):
    """Scratch memory of a forward pass; see _new_space in layer_native.py.

    Attributes:
        inputs: (slots, width), projected inputs; shared by a team.
        rows, places: (slots,), positions of the rows to project in `data` and in `inputs`.
        sums: sums of a tile, with its rows at `sums_at`.
        rounded: rows rounded to bfloat16 for AMX; see engine/amx. Empty for exact products.
        x_at .. c_at: (total,), for each sequence its position in an array: of its projected input,
            its previous states, its saved values and its new states.
    """

    inputs: Floats
    slots: int
    width: int
    rows: Wholes
    places: Wholes
    sums: Floats
    sums_at: Wholes
    rounded: Floats
    x_at: Wholes
    old_h_at: Wholes
    old_c_at: Wholes
    kept_at: Wholes
    h_at: Wholes
    c_at: Wholes


class BackwardRun(NamedTuple):
    """Input and output arrays of a backward pass.

    Cell states of an sLSTM, and their gradients, have 3H columns instead of H.

    Attributes:
        begin_h, begin_c: (S, H), the states before the first step.
        outputs, cells, kept: see ForwardRun.
        with_grad_h, with_grad_c: whether there are gradients by row.
        grad_h, grad_c: (N, H), the gradients of the states after every row.
        carry_h: (S, H), the gradient of the last hidden state; at the end that of the initial one.
        carry_other: (S, H), the gradient of the last cell state; at the end that of the initial
            one. For a GRU zeros, then the part of carry_h that does not pass through weight_hh.
    """

    begin_h: Floats
    begin_c: Floats
    outputs: Floats
    cells: Floats
    kept: Floats
    with_grad_h: bool
    grad_h: Floats
    with_grad_c: bool
    grad_c: Floats
    carry_h: Floats
    carry_other: Floats


class Chunk(NamedTuple):
    """Some steps, with a slot for every row of these steps.

    Attributes:
        step_from, step_to: the range of steps.
        bases: (steps,), the first slot of each step; a sequence has slot base + rank.
        filled: the number of slots in use.
        slopes: (slots, stride); see step_backward.
        rows: (slots,), the row of each slot.
        before: (slots,), the previous row; -1 - n for the initial state of sequence n.
    """

    step_from: int
    step_to: int
    bases: Wholes
    filled: int
    slopes: Floats
    stride: int
    rows: Wholes
    before: Wholes


class BackwardSpace(NamedTuple):
    """Scratch memory of one thread in a backward pass.

    Attributes:
        sums: sums of a tile, with its rows at `sums_at`.
        panel: (DEPTH, panel width); for AMX all panels of the inputs and states of some slots.
        rounded: rows rounded to bfloat16 for AMX; empty for exact products.
        from_at, to_at: positions; room for every sequence, slot and column of slopes.
    """

    sums: Floats
    sums_at: Wholes
    panel: Floats
    rounded: Floats
    from_at: Wholes
    to_at: Wholes


class Gradients(NamedTuple):
    """Gradients of the input and of the weights.

    Attributes:
        data: (N, D), the input.
        with_input: whether to compute its gradient.
        of_input: (N, D), its gradient.
        weight_ih: (gates * H, input_room), padded to whole panels of columns, and for AMX to whole
            tiles of rows.
        weight_hh: likewise, its rows in the order of the slopes.
        input_room, hidden_room: number of columns.
        bias: (2, SLOPES * H), the sums of all slopes, and their rounding errors (Kahan summation).
    """

    data: Floats
    with_input: bool
    of_input: Floats
    weight_ih: Floats
    input_room: int
    weight_hh: Floats
    hidden_room: int
    bias: Floats


def words(structure: Cell | Matrix) -> tuple[Any, ...]:
    """Return the fields of a structure as arguments of kernels, with those of its shape inlined."""
    return (*structure[:-1], *structure.shape)
