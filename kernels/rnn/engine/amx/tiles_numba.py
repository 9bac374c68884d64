"""Products of rows and a panel by AMX, and the rounding of rows to bfloat16.

A function with such instructions is compiled for processors that have them: LLVM leaves it apart
from its callers, which run on all processors of the level. Tiles hold nothing between two products
but their shapes, which `configure` sets.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import function
from lodcli.kernels.native.system_numba import stack_words, store
from lodcli.kernels.native.target import level
from lodcli.kernels.rnn.engine.amx.layout import PAIRS, TILE_ROWS, TILE_WORDS
from lodcli.kernels.rnn.engine.native.structures import Fours, Threes
from lodcli.kernels.runtime.jit_numba import cgutils, intrinsic, ir, types
from lodcli.kernels.simd.lanes_numba import address, load

_I8, _I16, _I64 = ir.IntType(8), ir.IntType(16), ir.IntType(64)
_BYTES = _I8.as_pointer()
_WIDTHS = {Fours: 4, Threes: 3}
_WORD_BYTES = 4
_FEATURES = ("+amx-tile", "+amx-bf16", "+avx512bf16")


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's type of a bfloat16, which llvmlite does not know."""

    def _to_string(self) -> str:
        return "bfloat"


def _call(builder: Any, name: str, *args: Any, result: Any = None) -> Any:
    """Call one of LLVM's intrinsics for x86; compile what calls it for processors that have it."""
    features = ",".join((*level().features, *_FEATURES))
    # llvmlite's own `add` knows no attributes with values.
    set.add(builder.function.attributes, f'"target-features"="{features}"')
    form = ir.FunctionType(result or ir.VoidType(), [each.type for each in args])
    called = cgutils.get_or_insert_function(builder.module, form, f"llvm.x86.{name}")
    return builder.call(called, args)


class _Product:
    """Emits sums of products for some tiles of rows and of columns.

    Args:
        args: of `multiply`; the width of the panel is `vectors` tiles.
    """

    def __init__(self, builder: Any, args: Any, vectors: int) -> None:
        self.builder, self.vectors = builder, vectors
        _, _, self.steps, a, a_at, self.a_row, panels, panel_at, first, first_at, *out = args
        self.a, self.panel = self.at(a, a_at), self.at(panels, panel_at)
        self.first, self.out, self.out_row = self.at(first, first_at), self.at(*out[:2]), out[2]

    def at(self, array: Any, position: Any) -> Any:
        return self.builder.bitcast(address(self.builder, array, position), _BYTES)

    def place(self, base: Any, words: Any) -> Any:
        return self.builder.gep(base, [self.builder.mul(words, _I64(_WORD_BYTES))])

    def load(self, tile: int, place: Any, row_words: Any) -> None:
        stride = self.builder.mul(row_words, _I64(_WORD_BYTES))
        _call(self.builder, "tileloadd64", _I8(tile), place, stride)

    def emit(self, rows: int, columns: list[int]) -> None:
        """Emit the product of `rows` tiles of rows and some of the panel's columns of tiles."""
        builder, count = self.builder, len(columns)
        sums = {(m, n): m * count + at for m in range(rows) for at, n in enumerate(columns)}
        left = [len(sums) + m for m in range(rows)]
        right = range(len(sums) + rows, 8)
        for (_, n), tile in sums.items():
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
                _call(builder, "tdpbf16ps", _I8(sums[m, n]), _I8(tile), _I8(other))
        k.add_incoming(builder.add(k, _I64(1)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)

        stride = builder.mul(self.out_row, _I64(_WORD_BYTES))
        for (m, n), tile in sums.items():
            row = builder.mul(self.out_row, _I64(m * TILE_ROWS))
            place = self.place(self.out, builder.add(row, _I64(n * TILE_ROWS)))
            _call(builder, "tilestored64", _I8(tile), place, stride)


@intrinsic
def _multiply(
    typing_context: Any,
    shape: Any,
    rows: Any,
    steps: Any,
    a: Any,
    a_at: Any,
    a_row: Any,
    panels: Any,
    panel_at: Any,
    first: Any,
    first_at: Any,
    out: Any,
    out_at: Any,
    out_row: Any,
) -> Any:
    vectors, whole = _WIDTHS[shape.instance_class], types.int64
    sig = types.void(
        shape, whole, whole, a, whole, whole, panels, whole, first, whole, out, whole, whole
    )

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        product = _Product(builder, args, vectors)
        columns = list(range(vectors))
        few = builder.icmp_signed("<=", args[1], _I64(TILE_ROWS))
        with builder.if_else(few) as (one, two):
            with one:
                product.emit(1, columns)
            with two:
                for n in range(0, vectors, 2):
                    product.emit(2, columns[n : n + 2])
        return context.get_dummy_value()

    return sig, generate


_product: Any = _multiply


@function()
def multiply(  # type: ignore[no-untyped-def]
    shape, rows, steps, a, a_at, a_row, panels, panel_at, first, first_at, out, out_at, out_row
):
    """Multiply rounded rows by a panel: 1 to BLOCK_ROWS of them.

    All rows of a tile, or of two, are read and written, though there be fewer.

    Args:
        shape: Fours or Threes.
        steps: how many tiles of depth.
        a, a_at, a_row: the rows as round_row makes them, and the words from one to the next.
        panels, panel_at: where the panel begins: see packing.py.
        first, first_at: what every row's sums begin with.
        out, out_at, out_row: where the sums go, and the elements from one row to the next.
    """
    _product(
        shape, rows, steps, a, a_at, a_row, panels, panel_at, first, first_at, out, out_at, out_row
    )


@intrinsic
def _store_rounded(typing_context: Any, value: Any, to: Any, position: Any) -> Any:
    """Write a vector of float32 as so many bfloat16, two to a word, from to[position] on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        count = args[0].type.count
        kind = ir.VectorType(_BFloat(), count)
        found = _call(builder, "avx512bf16.cvtneps2bf16.512", args[0], result=kind)
        bits = ir.VectorType(_I16, count)
        place = builder.bitcast(address(builder, args[1], args[2]), bits.as_pointer())
        builder.store(builder.bitcast(found, bits), place).align = _WORD_BYTES
        return context.get_dummy_value()

    return types.void(value, to, types.int64), generate


# Called from compiled code without the typing context that they are declared with.
_put: Any = _store_rounded


@function()
def round_row(a, at, count, to, to_at, words):  # type: ignore[no-untyped-def]
    """Write `count` elements of a row as bfloat16, and zeros up to so many words."""
    whole = count // PAIRS * (PAIRS // 2)
    for word in range(0, whole, PAIRS // 2):
        _put(load(a, at + 2 * word, PAIRS), to, to_at + word)
    for word in range(whole, words, PAIRS // 2):
        _put(load(a, at + 2 * word, count - 2 * word), to, to_at + word)


@intrinsic
def _load_shapes(typing_context: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _call(builder, "ldtilecfg", builder.inttoptr(args[0], _BYTES))
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def _release(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


_load_configuration: Any = _load_shapes
_free: Any = _release


@function()
def configure() -> None:
    """Give all eight tiles 16 rows of 64 bytes."""
    words = stack_words(8)
    for word in range(8):
        store(words + 8 * word, 0)
    store(words, 1)  # the only set of shapes that there is
    store(words + 16, 0x0040004000400040)  # bytes of a row, two bytes for each tile
    store(words + 24, 0x0040004000400040)
    store(words + 48, 0x1010101010101010)  # rows
    _load_configuration(words)


@function()
def release() -> None:
    """Free the tiles: the system has nothing of them to save any more."""
    _free()
