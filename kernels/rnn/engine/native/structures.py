"""Argument structures of the kernels of a layer, to which all arrays are flat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native.declare import Pointer, T

# Wrappers fill in arrays, which kernels take as pointers.
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
    """A matrix (depth, columns) in panels, and zeros: what sums begin with.

    panels[p][k] holds columns p * width .. (p+1) * width of row k, the last panel filled up
    with zeros.

    Attributes:
        blocked: see tuning.py.
    """

    panels: Floats
    zeros: Floats
    depth: int
    columns: int
    blocked: bool
    shape: Fours = Fours()


class FourCell(NamedTuple):
    """A cell: weight_hh.T in panels of the same units of all gates, and what its sums begin with.

    Attributes:
        inner_bias: of a GRU, the bias of n that r does not multiply.
        blocked: see tuning.py.
        activation: of an Elman cell, TANH, RELU, SIGMOID or IDENTITY.
        shape: how wide the panels are.
    """

    panels: Floats
    start: Floats
    inner_bias: Floats
    hidden: int
    blocked: bool
    activation: int = TANH
    shape: Fours = Fours()


class Lstm(FourCell):
    """Keeps i, f, g, o for the backward pass."""


class Slstm(FourCell):
    """Keeps i - (log sigmoid(f) + m), sigmoid(-f), tanh(z), sigmoid(o)."""


class Elman(FourCell):
    """Keeps nothing: the outputs are enough."""


class Gru(NamedTuple):
    """Keeps r, z, n, and what r multiplies. See FourCell."""

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
    """Some sequences, longest first.

    Attributes:
        firsts: (total,) the row of each that runs first.
        lengths: (total,) how many rows each has; none is empty.
        numbers: (total,) which row of the initial states is each one's.
        ranks: (total,) the place of each among all sequences, longest first.
        onward: what leads from a row to the one that runs next: 1, or -1 in reverse.
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
    """What a run reads and writes; all arrays flat.

    Attributes:
        data: (N, D), or the projected inputs (N, gates * H).
        begin_h: (S, H), before the first steps.
        no_begin_h: those are all zeros.
        state_c: (S, H): before; and after, unless `by_row`. Of an sLSTM (S, 3H).
        outputs: (N, H).
        by_row: the cell state after every row goes to `cells`.
        cells: (N, H), of an sLSTM (N, 3H).
        keep: what the backward pass needs goes to `kept`.
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
    """Room to work in, for one run at a time; see new_space.

    Attributes:
        inputs: (slots, width) projected inputs, flat; a team shares it.
        rows, places: (slots,) where the data are that are projected, and where they go.
        sums: what a tile has summed up, its rows at `sums_at`.
        rounded: rows as AMX multiplies them; see engine/amx. Empty for exact products.
        x_at .. c_at: (total,) positions, one per sequence.
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
    """What the backward pass reads and writes; all arrays flat.

    Attributes:
        begin_h, begin_c: (S, H), before the first steps; all of cells three times as wide of an
            sLSTM.
        outputs, cells, kept: see ForwardRun.
        with_grad_h, grad_h, with_grad_c, grad_c: (N, H), the gradients by row, if there are.
        carry_h: (S, H), the gradient of the last hidden state; in the end of the first.
        carry_other: (S, H), the gradient of the last cell state, in the end of the first; of
            a GRU the rest of the hidden state's, zeros first.
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
    """Some steps, and a slot for every row that they run.

    Attributes:
        step_from, step_to: which steps.
        bases: (steps,) the first slot of each; a sequence's slot is its rank further on.
        filled: how many slots there are.
        slopes: (slots, stride), flat; see step_backward.
        rows: (slots,) which row is in which slot.
        before: (slots,) the row before it; -1 - n for the initial state of sequence n.
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
    """Room for one thread to work in.

    Attributes:
        sums: for the sums of a tile, its rows at `sums_at`.
        panel: (DEPTH, panel width); for AMX all panels of some slots' inputs and states.
        rounded: rows as AMX multiplies them; empty for exact products.
        from_at, to_at: positions, one for every sequence, slot, and column of slopes.
    """

    sums: Floats
    sums_at: Wholes
    panel: Floats
    rounded: Floats
    from_at: Wholes
    to_at: Wholes


class Gradients(NamedTuple):
    """Where the gradients go; all flat.

    Attributes:
        data, of_input: (N, D), and its gradient.
        weight_ih, input_room: (gates * H, input_room), rows wide enough for whole panels, and
            as many more as fill a tile of AMX.
        weight_hh, hidden_room: likewise, in the order of the slopes.
        bias: (2, SLOPES * H), the sums of all slopes, and by how much they are too large.
    """

    data: Floats
    of_input: Floats
    weight_ih: Floats
    input_room: int
    weight_hh: Floats
    hidden_room: int
    bias: Floats


def words(structure: Cell | Matrix) -> tuple[Any, ...]:
    """Return the fields of a structure as kernels take them, those of its shape inlined."""
    return (*structure[:-1], *structure.shape)
