"""Widths of vectors, tiles and panels for the registers of a processor."""

from __future__ import annotations

from dataclasses import dataclass

from lodcli.kernels.rnn.engine.native.structures import Cell, Elman, Gru, Lstm, Slstm

VECTORS = 4  # vectors per panel, unless a cell says otherwise
DEPTH = 128  # rows of a block when columns are multiplied, whose panel stays in the cache
# Rows that are multiplied by a single vector at once: two units of four cycles need at least eight
# independent sums.
VECTOR_ROWS = 12
BLOCK_TILES = 16  # rows whose sums are saved between blocks of a panel


@dataclass(frozen=True)
class CellShape:
    """The numbers that describe a kind of cell.

    Attributes:
        vectors: per panel.
        gates: blocks of H in weight_hh.
        kept: blocks of H values saved per row for the backward pass.
        slopes: blocks of H slopes per row in the backward pass.
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
    """Sizes that depend on a processor's vector registers.

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
        """Maximum number of vectors of sums of a tile: three quarters of the registers."""
        return self.registers * 3 // 4

    def tile_rows(self, vectors: int) -> int:
        """Return how many rows a tile takes."""
        return self.tile_sums // vectors

    def panels_at_once(self, vectors: int) -> int:
        """Return the number of panels that a single row is multiplied by at once.

        A single panel has too few independent sums to hide latency. Three or four saturate the L2
        cache.
        """
        return min(4, self.tile_rows(vectors))

    def panel_width(self, item_bytes: int) -> int:
        """Return how many columns a panel has."""
        return self.lanes(item_bytes) * VECTORS
