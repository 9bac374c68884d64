"""The table of cells. A new cell is one file beside this one and one line here."""

from __future__ import annotations

from typing import Any

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.rnn.cells.cell import Cell, CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanCell, ElmanWeights
from lodcli.kernels.rnn.cells.gru.gru import GRUCell, GRUWeights
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUCell, PaddleGRUWeights
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMCell, LSTMWeights

CELLS: dict[str, tuple[type[CellWeights], type[Cell[Any]]]] = {
    weights.KIND: (weights, cell)
    for weights, cell in (
        (ElmanWeights, ElmanCell),
        (GRUWeights, GRUCell),
        (PaddleGRUWeights, PaddleGRUCell),
        (LSTMWeights, LSTMCell),
    )
}


def weights_class(kind: str) -> type[CellWeights]:
    """Return the weights class of a kind of cell.

    Raises:
        UnsupportedError: there is no such cell; the message lists those there are.

    >>> weights_class("lstm").GATES
    4
    """
    if kind not in CELLS:
        raise UnsupportedError(f"cell: expected one of {', '.join(CELLS)}, found {kind!r}")
    return CELLS[kind][0]


def cell_of(weights: CellWeights) -> Cell[Any]:
    """Return the cell that steps with `weights`."""
    return CELLS[weights.KIND][1](weights)
