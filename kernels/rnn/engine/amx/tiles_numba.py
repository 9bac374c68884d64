"""AMX products of rows and a panel.

Between products tiles keep only their shapes, which `configure` sets.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits, function
from lodcli.kernels.native.system_numba import stack_words, store
from lodcli.kernels.rnn.engine.amx.instructions_numba import call
from lodcli.kernels.rnn.engine.amx.layout import PAIRS, TILE_ROWS, TILE_WORDS
from lodcli.kernels.rnn.engine.native.structures import Fours, Threes
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.lanes_numba import address

_I8, _I64 = ir.IntType(8), ir.IntType(64)
_BYTES = _I8.as_pointer()
_WIDTHS = {Fours: 4, Threes: 3}
_WORD_BYTES = 4


class _Product:
    """Emits sums of products for some tiles of rows and of columns.

    Args:
        args: of `multiply`; the panel is `vectors` tiles wide.
        onto: accumulate into `out`.
    """

    def __init__(self, builder: Any, args: Any, vectors: int, onto: bool) -> None:
        self.builder, self.vectors, self.onto = builder, vectors, onto
        _, _, self.steps, a, a_at, self.a_row, panels, panel_at, first, first_at, *out = args
        self.a, self.panel = self.at(a, a_at), self.at(panels, panel_at)
        self.first, self.out, self.out_row = self.at(first, first_at), self.at(*out[:2]), out[2]

    def at(self, array: Any, position: Any) -> Any:
        return self.builder.bitcast(address(self.builder, array, position), _BYTES)

    def place(self, base: Any, words: Any) -> Any:
        return self.builder.gep(base, [self.builder.mul(words, _I64(_WORD_BYTES))])

    def load(self, tile: int, place: Any, row_words: Any) -> None:
        stride = self.builder.mul(row_words, _I64(_WORD_BYTES))
        call(self.builder, "tileloadd64", _I8(tile), place, stride)

    def emit(self, rows: int, columns: list[int]) -> None:
        """Emit the product of `rows` tiles of rows and some of the panel's tile columns."""
        builder, count = self.builder, len(columns)
        sums = {(m, n): m * count + at for m in range(rows) for at, n in enumerate(columns)}
        left = [len(sums) + m for m in range(rows)]
        right = range(len(sums) + rows, 8)
        for (m, n), tile in sums.items():
            if self.onto:
                self.load(tile, self.sums_at(m, n), self.out_row)
            else:
                self.load(tile, self.place(self.first, _I64(n * TILE_ROWS)), _I64(0))

        before = builder.block
        head, inside, after = (builder.append_basic_block(f"k_{n}") for n in ("head", "in", "out"))
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(_I64)
        k.add_incoming(_I64(0), before)
        builder.cbranch(builder.icmp_signed("<", k, self.steps), inside, after)
        builder.position_at_end(inside)
        for m, tile in enumerate(left):
            words = builder.add(
                builder.mul(self.a_row, _I64(m * TILE_ROWS)), builder.mul(k, _I64(PAIRS))
            )
            self.load(tile, self.place(self.a, words), self.a_row)
        for at, n in enumerate(columns):
            other = right[at % len(right)]
            tiles = builder.add(builder.mul(k, _I64(self.vectors)), _I64(n))
            place = self.place(self.panel, builder.mul(tiles, _I64(TILE_WORDS)))
            self.load(other, place, _I64(PAIRS))
            for m, tile in enumerate(left):
                call(builder, "tdpbf16ps", _I8(sums[m, n]), _I8(tile), _I8(other))
        k.add_incoming(builder.add(k, _I64(1)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)

        stride = builder.mul(self.out_row, _I64(_WORD_BYTES))
        for (m, n), tile in sums.items():
            call(builder, "tilestored64", _I8(tile), self.sums_at(m, n), stride)

    def sums_at(self, m: int, n: int) -> Any:
        """Return the address of a tile of sums."""
        row = self.builder.mul(self.out_row, _I64(m * TILE_ROWS))
        return self.place(self.out, self.builder.add(row, _I64(n * TILE_ROWS)))


def _products(*, onto: bool = False) -> Any:
    whole = types.int64

    @emits(
        types.void, None, whole, whole, None, whole, whole, None, whole, None, whole, None, whole,
        whole,
    )  # fmt: skip
    def products(on: Emitter, shape: Any, rows: Any, *args: Any) -> None:
        """See multiply."""
        builder = on.builder
        vectors = _WIDTHS[on.kinds[0].instance_class]
        product = _Product(builder, (shape, rows, *args), vectors, onto)
        columns = list(range(vectors))
        few = builder.icmp_signed("<=", rows, _I64(TILE_ROWS))
        with builder.if_else(few) as (one, two):
            with one:
                product.emit(1, columns)
            with two:
                for n in range(0, vectors, 2):
                    product.emit(2, columns[n : n + 2])

    return products


_product, _product_onto = _products(), _products(onto=True)


@function()
def multiply(  # type: ignore[no-untyped-def]
    shape, rows, steps, a, a_at, a_row, panels, panel_at, first, first_at, out, out_at, out_row
):
    """Multiply rounded rows by a panel: 1 to BLOCK_ROWS of them.

    Whole tiles of rows, one or two, are read and written, even if there are fewer rows.

    Args:
        shape: Fours or Threes.
        steps: number of tiles along the depth.
        a, a_at, a_row: the rows in the layout of round_row, and their stride in words.
        panels, panel_at: position of the panel: see packing.py.
        first, first_at: initial value of the sums of every row.
        out, out_at, out_row: position of the sums, and stride of rows in elements.
    """
    _product(
        shape, rows, steps, a, a_at, a_row, panels, panel_at, first, first_at, out, out_at, out_row
    )


@function()
def multiply_onto(  # type: ignore[no-untyped-def]
    shape, rows, steps, a, a_at, a_row, panels, panel_at, out, out_at, out_row
):
    """Likewise; accumulates into `out`."""
    _product_onto(
        shape, rows, steps, a, a_at, a_row, panels, panel_at, out, out_at, out, out_at, out_row
    )


@emits(types.void, types.int64)
def _load_configuration(on: Emitter, place: Any) -> None:
    call(on.builder, "ldtilecfg", on.builder.inttoptr(place, _BYTES))


@emits(types.void)
def _free(on: Emitter) -> None:
    call(on.builder, "tilerelease")


@function()
def configure() -> None:
    """Configure all eight tiles with 16 rows of 64 bytes."""
    words = stack_words(8)
    for word in range(8):
        store(words + 8 * word, 0)
    store(words, 1)  # the only palette
    store(words + 16, 0x0040004000400040)  # bytes per row, two bytes for each tile
    store(words + 24, 0x0040004000400040)
    store(words + 48, 0x1010101010101010)  # rows
    _load_configuration(words)


@function()
def release() -> None:
    """Release the tiles, so that context switches need not save them."""
    _free()
