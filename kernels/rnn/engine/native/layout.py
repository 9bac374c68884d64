"""Widths of vectors, tiles and panels for the registers of a processor."""

from __future__ import annotations

from dataclasses import dataclass

from lodcli.kernels.rnn.engine.native.structures import Cell, Elman, Gru, Lstm, Slstm

VECTORS = 4  # side by side in a panel, unless a cell says otherwise
DEPTH = 128  # rows of a block of columns, when columns are multiplied: a panel of them stays, too
BLOCK_TILES = 16  # whose sums are kept from one block of a panel to the next


@dataclass(frozen=True)
class CellShape:
    """The numbers of a kind of cell.

    Attributes:
        vectors: side by side in its panels.
        gates: blocks of H in weight_hh.
        kept: blocks of H that a row keeps for the way back.
        slopes: blocks of H that a row has on the way back.
    """

    vectors: int
    gates: int
    kept: int
    slopes: int


SHAPES: dict[type[Cell], CellShape] = {
    Lstm: CellShape(4, 4, 4, 4),
    Gru: CellShape(3, 3, 4, 4),
    Elman: CellShape(4, 1, 0, 1),
    Slstm: CellShape(4, 4, 4, 4),
}


@dataclass(frozen=True)
class Layout:
    """What depends on a processor's vector registers.

    Attributes:
        vector_bytes: of a register.
        registers: how many there are.
    """

    vector_bytes: int
    registers: int

    def lanes(self, item_bytes: int) -> int:
        """Return how many elements of so many bytes one vector holds."""
        return self.vector_bytes // item_bytes

    @property
    def tile_sums(self) -> int:
        """How many vectors a tile sums up in at most: three quarters of all registers."""
        return self.registers * 3 // 4

    def tile_rows(self, vectors: int) -> int:
        """Return how many rows a tile takes."""
        return self.tile_sums // vectors

    def panels_at_once(self, vectors: int) -> int:
        """Return how many panels a single row is multiplied by at once.

        A panel alone is too few sums: each waits for its own last product. Three or four are
        enough to take all that the second cache gives.
        """
        return min(4, self.tile_rows(vectors))

    def panel_width(self, item_bytes: int) -> int:
        """Return how many columns a panel has."""
        return self.lanes(item_bytes) * VECTORS
