"""Inner tile product: a few rows times one panel of columns.

A panel holds some columns of a matrix, as many as a few vectors hold, row by row: panel[k] are the
k-th elements of its columns. A register tile multiplies up to `tile_rows` rows of the other matrix,
with all sums in registers from the first k to the last. The sums of a row are accumulated in the
order of k in every tile: results depend neither on the rows that share a tile nor on the thread.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits, function, not_inlined
from lodcli.kernels.rnn.engine.native.layout import VECTOR_ROWS
from lodcli.kernels.rnn.engine.native.structures import Fours, Threes
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.instructions import VECTOR_BYTES as LINE_BYTES
from lodcli.kernels.simd.instructions import call, load, prefetch, splat, store
from lodcli.kernels.simd.lanes_numba import LAYOUT, address, lanes_in, vector_type

_UNROLLED = 32  # vector products per loop iteration
_TURNS = 2  # minimum of k per loop iteration for blocked products
_I64 = ir.IntType(64)
_WIDTHS = {Fours: 4, Threes: 3}


class _Tile:
    """Emits the sums of one tile, for the arguments of `multiply`.

    Args:
        width: vectors of a panel.
        vectors: how many of them the tile uses, from the first on.
        panels: number of panels of the tile, `apart` elements apart.
        block: see multiply_block; or none.
    """

    def __init__(
        self,
        on: Emitter,
        args: Any,
        width: int,
        vectors: int,
        panels: int,
        apart: Any,
        block: tuple[Any, Any] | None,
    ) -> None:
        self.builder, self.args = on.builder, args
        self.k_from: Any = _I64(0)
        self.ahead: Any = None
        if block:
            self.k_from, self.ahead = block
        self.dtype = on.kinds[2].dtype
        self.vector = vector_type(self.dtype)
        self.width, self.taken = width * self.vector.count, vectors * self.vector.count
        self.panels, self.apart = panels, apart
        self.vectors = vectors * panels

    def address(self, array: int, position: Any) -> Any:
        return address(self.builder, self.args[array], position)

    def listed(self, array: int, first: Any, row: int) -> Any:
        """Return element first + row of a list of positions."""
        place = self.builder.add(first, _I64(row))
        return self.builder.load(self.address(array, place))

    def columns(self, place: Any) -> list[Any]:
        """Return the positions of the tile's vectors, from `place` on."""
        steps = [_I64(n * self.vector.count) for n in range(self.vectors)]
        return [self.vector_at(place, step) for step in steps]

    def columns_of_panels(self, panel: Any, k: Any) -> list[Any]:
        """Return the positions of the vectors of row k of all panels."""
        builder, places = self.builder, []
        row = builder.gep(panel, [builder.mul(k, _I64(self.width))])
        for number in range(self.panels):
            first = builder.gep(row, [builder.mul(self.apart, _I64(number))]) if number else row
            for n in range(0, self.taken, self.vector.count):
                places.append(self.vector_at(first, _I64(n)))
        return places

    def vector_at(self, place: Any, step: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(place, [step]), self.vector.as_pointer())

    def load(self, place: Any) -> Any:
        return load(self.builder, place, self.dtype.bitwidth // 8)

    def emit(self, rows: int, *, onto: bool) -> None:
        """Emit the tile for this many rows."""
        _, _, _, _, row, step, _, panel_at, depth, _, first_at, _, _, out_row, plus = self.args
        builder = self.builder
        a = [self.address(2, self.listed(3, row, n)) for n in range(rows)]
        out = []
        for n in range(rows):
            position = builder.add(self.listed(12, out_row, n), plus)
            out.append(self.columns(self.address(11, position)))
        if onto:
            # Read after the loop over k: fetched meanwhile.
            for place in [place for places in out for place in places]:
                prefetch(builder, place, 3)
        sums = self.begun(out, self.columns(self.address(9, first_at)))
        sums = self.summed(sums, a, step, self.address(6, panel_at), depth)
        for places, values in zip(out, sums, strict=True):
            for place, value in zip(places, values, strict=True):
                if onto:
                    value = builder.fadd(self.load(place), value)
                store(builder, value, place, self.dtype.bitwidth // 8)

    def begun(self, out: list[list[Any]], first: list[Any]) -> list[list[Any]]:
        """Return the initial sums: `first`, or in a later block of k the content of `out`."""
        builder = self.builder
        if self.ahead is None:
            values = [self.load(place) for place in first]
            return [list(values) for _ in out]
        later = builder.icmp_signed(">", self.k_from, _I64(0))
        return [
            [
                self.load(builder.select(later, place, other))
                for place, other in zip(places, first, strict=True)
            ]
            for places in out
        ]

    def summed(self, sums: Any, a: list[Any], step: Any, panel: Any, depth: Any) -> Any:
        """Emit the loop over k; return the final sums."""
        builder = self.builder
        # A tile of few rows is bound by loads of the panel: unrolling k increases the L2 bandwidth
        # (measured). The order of summation stays the same.
        turns = 1 if self.ahead is None else _TURNS
        while 2 * turns * len(a) * self.vectors <= _UNROLLED:
            turns *= 2
        whole = builder.and_(builder.sub(depth, self.k_from), _I64(-turns))
        whole = builder.add(self.k_from, whole)
        sums = self.looped(sums, a, step, panel, self.k_from, whole, turns)
        return sums if turns == 1 else self.looped(sums, a, step, panel, whole, depth, 1)

    def looped(
        self, sums: Any, a: list[Any], step: Any, panel: Any, first: Any, end: Any, turns: int
    ) -> Any:
        """Emit the loop from `first` to `end`, unrolled `turns` times."""
        builder = self.builder
        before = builder.block
        head, inside, after = (builder.append_basic_block(f"k_{n}") for n in ("head", "in", "out"))
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(_I64)
        k.add_incoming(first, before)
        phis = [[builder.phi(self.vector) for _ in row] for row in sums]
        for row, values in zip(phis, sums, strict=True):
            for phi, value in zip(row, values, strict=True):
                phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", k, end), inside, after)
        builder.position_at_end(inside)
        changed = phis
        for turn in range(turns):
            if self.ahead is not None and turns > 1 and turn % _TURNS == 0:
                self.prefetch(builder.add(k, _I64(turn)))
            changed = self.added(changed, a, step, panel, builder.add(k, _I64(turn)))
        for row, values in zip(phis, changed, strict=True):
            for phi, value in zip(row, values, strict=True):
                phi.add_incoming(value, inside)
        k.add_incoming(builder.add(k, _I64(turns)), inside)
        builder.branch(head)
        builder.position_at_end(after)
        return phis

    def prefetch(self, k: Any) -> None:
        """Emit a prefetch into the L2 cache: one line per _TURNS of k."""
        builder = self.builder
        each = LINE_BYTES * 8 // self.dtype.bitwidth // _TURNS
        step = builder.mul(builder.sub(k, self.k_from), _I64(each))
        prefetch(builder, builder.gep(self.address(6, self.ahead), [step]), 2)

    def added(self, sums: Any, a: list[Any], step: Any, panel: Any, k: Any) -> Any:
        """Emit the products of one k; return the new sums."""
        builder = self.builder
        columns = self.columns_of_panels(panel, k)
        along = builder.mul(k, step)

        def element(row: int) -> Any:
            number = builder.load(builder.gep(a[row], [along]))
            return splat(builder, number, self.vector)

        # The smaller operand is held in registers, the other is loaded one vector at a time: with
        # sums in three quarters of 16 registers, nothing else fits.
        rows, vectors = range(len(a)), range(self.vectors)
        changed = [list(row) for row in sums]
        if len(a) < self.vectors:
            elements = [element(row) for row in rows]
            for n in vectors:
                value = self.load(columns[n])
                for row in rows:
                    changed[row][n] = call(builder, "fmuladd", elements[row], value, sums[row][n])
        else:
            values = [self.load(place) for place in columns]
            for row in rows:
                one = element(row)
                for n in vectors:
                    changed[row][n] = call(builder, "fmuladd", one, values[n], sums[row][n])
        return changed


def _tiles(
    *, one_row: bool = False, onto: bool = False, blocks: bool = False, vector: bool = False
) -> Any:
    """Return a function for a tile of 1 to `tile_rows` rows, or of one row and 1 to some panels.

    Args:
        vector: use only one vector of a panel.
    """

    whole = types.int64

    @emits(
        types.void, None, whole, None, None, whole, whole, None, whole, whole, None, whole, None,
        None, whole, whole, whole, whole, whole,
    )  # fmt: skip
    def tiles(on: Emitter, shape: Any, count: Any, *args: Any) -> None:
        """See multiply, multiply_one and multiply_block, which use some of the last arguments."""
        width = _WIDTHS[on.kinds[0].instance_class]
        most = LAYOUT.panels_at_once(width) if one_row else LAYOUT.tile_rows(width)
        most = VECTOR_ROWS if vector else most
        *usual, apart, k_from, ahead = (shape, count, *args)
        builder = on.builder
        done = builder.append_basic_block("tile_done")
        switch = builder.switch(count, done)
        for number in range(1, most + 1):
            block = builder.append_basic_block(f"tile_{number}")
            switch.add_case(_I64(number), block)
            builder.position_at_end(block)
            rows, columns = (1, number) if one_row else (number, 1)
            block = (k_from, ahead) if blocks else None
            taken = 1 if vector else width
            tile = _Tile(on, usual, width, taken, columns, apart, block)
            tile.emit(rows, onto=onto)
            builder.branch(done)
        builder.position_at_end(done)

    return tiles


_multiply, _multiply_onto, _multiply_one = _tiles(), _tiles(onto=True), _tiles(one_row=True)
_multiply_block = _tiles(blocks=True)
_multiply_vector, _multiply_vector_onto = _tiles(vector=True), _tiles(vector=True, onto=True)


@function()
def multiply(  # type: ignore[no-untyped-def]
    shape, rows, a, a_at, row, a_step, panels, panel_at, depth, first, first_at,
    out, out_at, out_row, out_plus,
):  # fmt: skip
    """Multiply rows of `a` by a panel: 1 to tile_rows of them.

    Args:
        shape: Fours or Threes.
        a, a_at, row, a_step: element k of row r is a[a_at[row + r] + k * a_step].
        panels, panel_at, depth: position of the panel, and number of k.
        first, first_at: initial value of the sums of every row.
        out, out_at, out_row, out_plus: row r goes to out[out_at[out_row + r] + out_plus],
            a panel wide.
    """
    # Not inlined, so that its many instructions are compiled once, not per call.
    _multiply(
        shape, rows, a, a_at, row, a_step, panels, panel_at, depth, first, first_at,
        out, out_at, out_row, out_plus, 0, 0, 0,
    )  # fmt: skip


@function()
def multiply_vectors(  # type: ignore[no-untyped-def]
    vectors, shape, rows, a, a_at, row, a_step, panels, panel_at, depth, first, first_at,
    out, out_at, out_row, out_plus,
):  # fmt: skip
    """Likewise, for only the first `vectors` of the panel, one at a time."""
    for plus in range(0, vectors * lanes_in(a), lanes_in(a)):
        _multiply_vector(
            shape, rows, a, a_at, row, a_step, panels, panel_at + plus, depth,
            first, first_at + plus, out, out_at, out_row, out_plus + plus, 0, 0, 0,
        )  # fmt: skip


@function()
def multiply_block(  # type: ignore[no-untyped-def]
    shape, rows, a, a_at, row, panels, panel_at, k_from, k_to, first, first_at,
    out, out_at, out_row, out_plus, ahead,
):  # fmt: skip
    """Likewise, for k from `k_from` to `k_to`: later blocks continue from the content of `out`.

    Args:
        ahead: position of the lines of `panels` needed next; one is prefetched per two k.
    """
    not_inlined()
    _multiply_block(
        shape, rows, a, a_at, row, 1, panels, panel_at, k_to, first, first_at,
        out, out_at, out_row, out_plus, 0, k_from, ahead,
    )  # fmt: skip


@function()
def multiply_onto(  # type: ignore[no-untyped-def]
    shape, rows, a, a_at, row, a_step, panels, panel_at, depth, zeros,
    out, out_at, out_row, out_plus,
):  # fmt: skip
    """Likewise; the sums start from zero and are added to `out`."""
    _multiply_onto(
        shape, rows, a, a_at, row, a_step, panels, panel_at, depth, zeros, 0,
        out, out_at, out_row, out_plus, 0, 0, 0,
    )  # fmt: skip


@function()
def multiply_vectors_onto(  # type: ignore[no-untyped-def]
    vectors, shape, rows, a, a_at, row, a_step, panels, panel_at, depth, zeros,
    out, out_at, out_row, out_plus,
):  # fmt: skip
    """Likewise, for only the first `vectors` of the panel, one at a time."""
    for plus in range(0, vectors * lanes_in(a), lanes_in(a)):
        _multiply_vector_onto(
            shape, rows, a, a_at, row, a_step, panels, panel_at + plus, depth, zeros, 0,
            out, out_at, out_row, out_plus + plus, 0, 0, 0,
        )  # fmt: skip


@function()
def multiply_one(  # type: ignore[no-untyped-def]
    shape, count, a, a_at, row, panels, panel_at, apart, depth, first, first_at,
    out, out_at, out_row, out_plus,
):  # fmt: skip
    """Multiply one row by 1 to `panels_at_once` panels, `apart` elements apart.

    Args: as for multiply; the products are stored side by side, like panels in `first`.
    """
    _multiply_one(
        shape, count, a, a_at, row, 1, panels, panel_at, depth, first, first_at,
        out, out_at, out_row, out_plus, apart, 0, 0,
    )  # fmt: skip
