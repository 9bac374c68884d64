"""Registry of cells, one line each. Importing it does not import NumPy.

A new cell is one folder beside this file and one line here. If only the shapes of weights are
known, the first matching cell is used, so order matters.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.suggestions import or_near

if TYPE_CHECKING:
    from lodcli.kernels.rnn.cells.weights import LayerWeights


@dataclass(frozen=True)
class CellEntry:
    """The module and classes of a cell.

    Attributes:
        module: its module in lodcli.kernels.rnn.cells; its GPU twin is MODULE_cupy.
        stem: prefix of its classes: STEMWeights and STEMCell, and on a GPU STEMSteps; linear cells
            have no STEMSteps.
    """

    module: str
    stem: str

    def weights(self) -> type[LayerWeights]:
        """Return the class of its weights; its file is imported only now."""
        return self._load("", "Weights")  # type: ignore[no-any-return]

    def cell(self) -> Any:
        """Return its Cell or LinearCell class."""
        return self._load("", "Cell")

    def steps_cupy(self) -> Any:
        """Return its class for steps on a GPU."""
        return self._load("_cupy", "Steps")

    def _load(self, suffix: str, kind: str) -> Any:
        module = importlib.import_module(f"lodcli.kernels.rnn.cells.{self.module}{suffix}")
        return getattr(module, self.stem + kind)


CELLS: dict[str, CellEntry] = {
    "elman": CellEntry("elman.elman", "Elman"),
    "gru": CellEntry("gru.gru", "GRU"),
    "gru_paddle": CellEntry("gru_paddle.gru_paddle", "PaddleGRU"),
    "lstm": CellEntry("lstm.lstm", "LSTM"),
    "slstm": CellEntry("slstm.slstm", "SLSTM"),
    "mingru": CellEntry("mingru.mingru", "MinGRU"),
    "minlstm": CellEntry("minlstm.minlstm", "MinLSTM"),
    "rglru": CellEntry("rglru.rglru", "RGLRU"),
    "lru": CellEntry("lru.lru", "LRU"),
    "s5": CellEntry("s5.s5", "S5"),
}


def weights_class(kind: str) -> type[LayerWeights]:
    """Return the weights class of a kind of cell.

    Raises:
        UnsupportedError: unknown cell; the message lists the known ones.

    >>> weights_class("lstm").KIND
    'lstm'
    """
    if kind not in CELLS:
        raise UnsupportedError(
            f"cell: expected one of {', '.join(CELLS)}, found {kind!r}{or_near(kind, CELLS)}"
        )
    return CELLS[kind].weights()


def cell_of(weights: LayerWeights) -> Any:
    """Return the Cell or LinearCell of `weights`."""
    return CELLS[weights.KIND].cell()(weights)
