"""Row norms and their gradients in LLVM IR, in float64: row by row, or narrow rows side by side.

Both variants sum in the same order, so the result of a row does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lodcli.kernels.native.language_numba import Emitter, emits
from lodcli.kernels.ops.norms.narrow_rows_numba import load_columns, store_columns, whole_blocks
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.instructions import call, constant
from lodcli.kernels.simd.vectors import Values, Vectors

_I64, _DOUBLE = ir.IntType(64), ir.DoubleType()


class _Row:
    """The values of a row, one vector at a time.

    Attributes:
        count: the width as a floating-point divisor.
        epsilon: added to mean squares.
    """

    def __init__(self, on: Emitter, width: Any, epsilon: Any) -> None:
        self.v = Vectors(on, on.kinds[-1].dtype, types.float64)
        self.builder = on.builder
        self.width, self.epsilon = width, epsilon
        self.count = on.builder.sitofp(width, _DOUBLE)

    def load(self, at: Any, k: Any, mask: Any) -> Any:
        v = self.v
        return v.widened(v.load(v.place(at, k), v.kind, mask, v.zero()))

    def store(self, value: Any, to: Any, k: Any, mask: Any) -> None:
        self.v.store(self.narrowed(value), self.v.place(to, k), mask)

    def add(self, value: Any, to: Any, k: Any, mask: Any) -> None:
        """Add to a float64 in memory."""
        v = self.v
        place = v.place(to, k, v.total_bytes)
        old = v.load(place, v.total_kind, mask, self.all(0.0))
        v.store(self.builder.fadd(old, value), place, mask)

    def all(self, value: float) -> Any:
        return self.v.constant(value, self.v.total_kind)

    def narrowed(self, value: Any) -> Any:
        return value if self.v.bytes == 8 else self.builder.fptrunc(value, self.v.kind)

    def each(self, body: Callable[[Any, Any], None]) -> None:
        """Call body(k, mask) for each vector."""

        def called(k: Any, mask: Any, _: Values) -> Values:
            body(k, mask)
            return []

        self.v.each(self.width, [], called)

    def sums(self, number: int, body: Callable[[Any, Any], Values]) -> Values:
        """Return the sums of the `number` values that body(k, mask) returns for each vector."""
        v = self.v

        def added(k: Any, mask: Any, totals: Values) -> Values:
            return self.plus(totals, [v.where(mask, each, self.all(0.0)) for each in body(k, mask)])

        totals = v.each(self.width, [self.all(0.0)] * number, added)
        return self.lane_sums(totals)

    def plus(self, a: Values, b: Values) -> Values:
        return [self.builder.fadd(one, other) for one, other in zip(a, b, strict=True)]

    def lane_sums(self, totals: Values) -> Values:
        """Return the sum of the lanes of each vector."""
        first = ir.IntType(32)(0)
        joined = self.v.joined(totals, self.plus, None)
        return [self.builder.extract_element(each, first) for each in joined]

    def everywhere(self, number: Any) -> Any:
        return self.v.all(number, self.v.total_kind)

    def normalised(self, at: Any, k: Any, mask: Any, mean: Any, over: Any) -> Any:
        return self.builder.fmul(self.builder.fsub(self.load(at, k, mask), mean), over)

    def measured(self, at: Any, centred: bool) -> Values:
        """Return the mean to subtract, and the inverse root mean square of the rest."""
        builder = self.builder
        mean = self.all(0.0)
        if centred:
            (total,) = self.sums(1, lambda k, mask: [self.load(at, k, mask)])
            mean = self.everywhere(builder.fdiv(total, self.count))

        def squared(k: Any, mask: Any) -> Values:
            apart = builder.fsub(self.load(at, k, mask), mean)
            return [builder.fmul(apart, apart)]

        (square,) = self.sums(1, squared)
        root = call(builder, "sqrt", builder.fadd(builder.fdiv(square, self.count), self.epsilon))
        return [mean, self.everywhere(builder.fdiv(constant(root.type, 1.0), root))]


class _Beside(_Row):
    """The values of rows side by side, one vector per column; k is a compile-time constant."""

    def __init__(self, on: Emitter, width: int, epsilon: Any) -> None:
        super().__init__(on, _I64(width), epsilon)
        self.epsilon, self.count = self.everywhere(epsilon), self.all(float(width))
        self.columns = range(width)
        # Per column: loaded values, values to store, and totals.
        self.held: dict[Any, Values] = {}
        self.results: Values = []
        self.totals: dict[Any, Values] = {}

    def hold(self, at: Any) -> None:
        """Load values shared by all rows, before the loop, whose stores might alias them."""
        v = self.v
        found = [v.load(v.place(at, _I64(k)), v.kind.element) for k in self.columns]
        if v.bytes != 8:
            found = [self.builder.fpext(one, _DOUBLE) for one in found]
        self.held[at] = [v.all(one, v.total_kind) for one in found]

    def load(self, at: Any, k: Any, mask: Any) -> Any:
        if at not in self.held:
            columns = load_columns(self.v, at, len(self.columns))
            self.held[at] = [self.v.widened(column) for column in columns]
        return self.held[at][k]

    def store(self, value: Any, to: Any, k: Any, mask: Any) -> None:
        self.results.append(self.narrowed(value))
        if k == self.columns[-1]:
            store_columns(self.v, self.results, to)
            self.results = []

    def add(self, value: Any, to: Any, k: Any, mask: Any) -> None:
        self.totals[to][k] = self.builder.fadd(self.totals[to][k], value)

    def each(self, body: Callable[[Any, Any], None]) -> None:
        for k in self.columns:
            body(k, None)

    def sums(self, number: int, body: Callable[[Any, Any], Values]) -> Values:
        found = [body(k, None) for k in self.columns]
        return [self.column_sum(list(one)) for one in zip(*found, strict=True)]

    def column_sum(self, values: Values) -> Any:
        """Return the sum as `lane_sums` computes it for a row, with zeros after the last lane."""
        by = self.v.lanes // 2
        while by:
            behind = values[by:]
            values = self.plus(values[: len(behind)], behind) + values[len(behind) : by]
            by //= 2
        # There it starts at 0, so no sum is -0.
        return self.builder.fadd(values[0], self.all(0.0))

    def everywhere(self, number: Any) -> Any:
        return number if number.type == self.v.total_kind else super().everywhere(number)

    def loop(self, rows: Any, totals: Values, body: Callable[[Any], None]) -> Any:
        """Call body(offset in bytes) for blocks of rows; return how many rows these are.

        Args:
            totals: addresses of float64 accumulators for each column.
        """
        builder, v, width = self.builder, self.v, len(self.columns)
        many = whole_blocks(v, rows, width)

        def block(k: Any, values: Values) -> Values:
            self.totals = {to: values[n * width :][:width] for n, to in enumerate(totals)}
            body(builder.mul(k, _I64(width * v.bytes)))
            return [value for to in totals for value in self.totals[to]]

        found = v.loop(many, v.lanes, [self.all(0.0)] * (width * len(totals)), block)
        for n, total in enumerate(self.lane_sums(found)):
            place = v.place(totals[n // width], _I64(n % width), v.total_bytes)
            v.store(builder.fadd(v.load(place, _DOUBLE), total), place)
        return many


def _normalise(row: _Row, to: Any, at: Any, weight: Any, bias: Any, centred: bool) -> None:
    builder = row.builder
    mean, over = row.measured(at, centred)

    def one(k: Any, mask: Any) -> None:
        z = builder.fmul(row.normalised(at, k, mask, mean, over), row.load(weight, k, mask))
        row.store(builder.fadd(z, row.load(bias, k, mask)), to, k, mask)

    row.each(one)


def _flow_back(
    row: _Row, to: Any, up: Any, at: Any, weight: Any, scales: Any, shifts: Any, centred: bool
) -> None:
    builder = row.builder
    mean, over = row.measured(at, centred)

    def parts(k: Any, mask: Any) -> Values:
        """Return the upstream gradient, the normalised row and the gradient at it."""
        flow = row.load(up, k, mask)
        z = row.normalised(at, k, mask, mean, over)
        return [flow, z, builder.fmul(flow, row.load(weight, k, mask))]

    def summed(k: Any, mask: Any) -> Values:
        flow, z, g = parts(k, mask)
        row.add(builder.fmul(flow, z), scales, k, mask)
        row.add(flow, shifts, k, mask)
        return [g, builder.fmul(g, z)]

    totals = row.sums(2, summed)
    flow, shared = (row.everywhere(builder.fdiv(each, row.count)) for each in totals)

    def one(k: Any, mask: Any) -> None:
        _, z, g = parts(k, mask)
        g = builder.fsub(g, flow) if centred else g
        g = builder.fsub(g, builder.fmul(z, shared))
        row.store(builder.fmul(over, g), to, k, mask)

    row.each(one)


def _of_width(v: Vectors, width: Any, emit: Callable[[int], Any]) -> Any:
    """Return emit(width), an int64, with a constant width of at most `v.lanes`; else 0."""
    builder = v.builder
    found = [(_I64(0), builder.block)]
    after = builder.append_basic_block("other_widths")
    switch = builder.switch(width, after)
    for known in range(1, v.lanes + 1):
        case = builder.append_basic_block(f"width_{known}")
        switch.add_case(_I64(known), case)
        builder.position_at_end(case)
        found.append((emit(known), builder.block))
        builder.branch(after)
    builder.position_at_end(after)
    result = builder.phi(_I64)
    for value, block in found:
        result.add_incoming(value, block)
    return result


def _forward(centred: bool) -> tuple[Any, Any]:
    """Return a function of one row, and one of rows side by side."""

    @emits(types.void, *[types.int64] * 5, types.float64, None)
    def normalise(
        on: Emitter, to: Any, at: Any, weight: Any, bias: Any, width: Any, epsilon: Any, like: Any
    ) -> None:
        """Normalise one row; all arguments but the numbers are addresses."""
        row = _Row(on, width, epsilon)
        _normalise(row, to, at, weight, bias, centred)

    @emits(types.int64, *[types.int64] * 6, types.float64, None)
    def beside(
        on: Emitter, to: Any, at: Any, weight: Any, bias: Any, rows: Any, width: Any, epsilon: Any,
        like: Any,
    ) -> Any:  # fmt: skip
        """Normalise the first of `rows` rows; return how many, 0 if rows are too wide."""
        builder = on.builder

        def of_width(known: int) -> Any:
            row = _Beside(on, known, epsilon)
            row.hold(weight)
            row.hold(bias)

            def block(offset: Any) -> None:
                there, here = builder.add(to, offset), builder.add(at, offset)
                _normalise(row, there, here, weight, bias, centred)

            return row.loop(rows, [], block)

        return _of_width(Vectors(on, on.kinds[-1].dtype, types.float64), width, of_width)

    return normalise, beside


def _backward(centred: bool) -> tuple[Any, Any]:
    """Return a function of one row, and one of rows side by side."""

    @emits(types.void, *[types.int64] * 7, types.float64, None)
    def flow_back(
        on: Emitter, to: Any, up: Any, at: Any, weight: Any, scales: Any, shifts: Any, width: Any,
        epsilon: Any, like: Any,
    ) -> None:  # fmt: skip
        """Write the gradient of one row, and add those of weight and bias in float64."""
        row = _Row(on, width, epsilon)
        _flow_back(row, to, up, at, weight, scales, shifts, centred)

    @emits(types.int64, *[types.int64] * 8, types.float64, None)
    def beside(
        on: Emitter, to: Any, up: Any, at: Any, weight: Any, scales: Any, shifts: Any, rows: Any,
        width: Any, epsilon: Any, like: Any,
    ) -> Any:  # fmt: skip
        """Likewise for the first of `rows` rows; return how many, 0 if rows are too wide."""

        def of_width(known: int) -> Any:
            row = _Beside(on, known, epsilon)
            row.hold(weight)

            def block(offset: Any) -> None:
                there, flow, here = (on.builder.add(each, offset) for each in (to, up, at))
                _flow_back(row, there, flow, here, weight, scales, shifts, centred)

            return row.loop(rows, [scales, shifts], block)

        return _of_width(Vectors(on, on.kinds[-1].dtype, types.float64), width, of_width)

    return flow_back, beside


layer_norm, layer_norms = _forward(True)
rms_norm, rms_norms = _forward(False)
layer_norm_back, layer_norms_back = _backward(True)
rms_norm_back, rms_norms_back = _backward(False)
