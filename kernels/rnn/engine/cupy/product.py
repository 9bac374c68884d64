"""Product of a step: states of the active sequences times a weight."""

from __future__ import annotations

from dataclasses import dataclass

from lodcli.kernels.cuda.launch import C_TYPES, blocks, run
from lodcli.kernels.cuda.tensor_cores import precision_of
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.engine.cupy.costs import NUMBERS
from lodcli.kernels.rnn.engine.cupy.dot import dot
from lodcli.kernels.rnn.engine.cupy.table import Launch, Table

# Up to this many rows: one warp per column instead of one block per tile. All precisions are exact
# then, because reading the weights dominates.
FEW_ROWS = 8
FEW, WARPS, HIGH, WIDE = 4, 8, 32, 64  # as in rnn_product.cu


@dataclass(frozen=True, eq=False)
class Product:
    """out[:rows] = left[:rows] @ right.T, for any number of rows.

    Attributes:
        left: (S, K).
        right: (M, K).
        out: (S, M). All C-contiguous and of one dtype.
        place: of the struct Operands in the table.
    """

    left: Array
    right: Array
    out: Array
    place: int

    def launch(self, rows: int, *, by_cublas: bool) -> Launch:
        """Return the launch of the product."""
        if by_cublas:
            left, right, out = self.left[:rows], self.right.T, self.out[:rows]

            def multiply(_: Array) -> None:
                dot(left, right, out)

            return multiply
        value = C_TYPES[self.left.dtype.name]
        columns, depth = self.right.shape
        if rows <= FEW_ROWS:
            kernel, block = f"product_few<{value}>", (32 * WARPS,)
            grid = (blocks(columns, WARPS), blocks(rows, FEW))
        else:
            number = NUMBERS.get(precision_of(self.left.dtype))
            kernel, block = f"product_tiles<{value}>", (128,)
            if number:
                kernel = f"product_rounded<{number}>"
            grid = (blocks(rows, HIGH), blocks(columns, WIDE))
        place = self.place
        return lambda table: run(
            "rnn_product", kernel, grid, block, table[place:], rows, columns, depth
        )


def product(table: Table, left: Array, right: Array, out: Array) -> Product:
    """Return the product, with its operands added to a table."""
    table.bake(left, right, out)
    return Product(left, right, out, table.add(left, right, out))
