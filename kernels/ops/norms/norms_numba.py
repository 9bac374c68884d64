"""Kernels of row norms. A row is read twice or three times while in the cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import address, function
from lodcli.kernels.runtime.jit_numba import intrinsic, ir, types
from lodcli.kernels.simd.instructions import call
from lodcli.kernels.simd.vectors import Values, Vectors

_I64, _DOUBLE = ir.IntType(64), ir.DoubleType()


class _Row:
    """Values of a row as float64, vector by vector."""

    def __init__(self, context: Any, builder: Any, kind: Any) -> None:
        self.v, self.builder = Vectors(context, builder, kind, types.float64), builder

    def load(self, at: Any, k: Any, mask: Any) -> Any:
        v = self.v
        return v.widened(v.load(v.place(at, k), v.kind, mask, v.zero()))

    def store(self, value: Any, to: Any, k: Any, mask: Any) -> None:
        v = self.v
        narrow = value if v.bytes == 8 else self.builder.fptrunc(value, v.kind)
        v.store(narrow, v.place(to, k), mask)

    def add(self, value: Any, to: Any, k: Any, mask: Any) -> None:
        """Add to float64 in memory."""
        v = self.v
        place = v.place(to, k, v.total_bytes)
        old = v.load(place, v.total_kind, mask, self.all(0.0))
        v.store(self.builder.fadd(old, value), place, mask)

    def all(self, value: float) -> Any:
        return self.v.constant(value, self.v.total_kind)

    def sums(self, count: Any, number: int, body: Callable[[Any, Any], Values]) -> Values:
        """Return the sums of the `number` values that body(k, mask) gives for each vector."""
        v = self.v

        def added(k: Any, mask: Any, totals: Values) -> Values:
            found = [v.where(mask, each, self.all(0.0)) for each in body(k, mask)]
            return plus(totals, found)

        def plus(a: Values, b: Values) -> Values:
            return [self.builder.fadd(one, other) for one, other in zip(a, b, strict=True)]

        totals = v.each(count, [self.all(0.0)] * number, added)
        first = ir.IntType(32)(0)
        return [self.builder.extract_element(each, first) for each in v.joined(totals, plus, None)]

    def everywhere(self, number: Any) -> Any:
        return self.v.all(number, self.v.total_kind)

    def normalised(self, at: Any, k: Any, mask: Any, mean: Any, over: Any) -> Any:
        return self.builder.fmul(self.builder.fsub(self.load(at, k, mask), mean), over)

    def measured(self, at: Any, width: Any, epsilon: Any, centred: bool) -> Values:
        """Return the mean that is subtracted, and one over the root of the mean square left."""
        builder = self.builder
        count = builder.sitofp(width, _DOUBLE)
        mean = self.all(0.0)
        if centred:
            (total,) = self.sums(width, 1, lambda k, mask: [self.load(at, k, mask)])
            mean = self.everywhere(builder.fdiv(total, count))

        def squared(k: Any, mask: Any) -> Values:
            apart = builder.fsub(self.load(at, k, mask), mean)
            return [builder.fmul(apart, apart)]

        (square,) = self.sums(width, 1, squared)
        root = call(builder, "sqrt", builder.fadd(builder.fdiv(square, count), epsilon))
        return [mean, self.everywhere(builder.fdiv(_DOUBLE(1.0), root))]


def _forward(centred: bool) -> Any:
    @intrinsic
    def normalise(
        typing_context: Any,
        to: Any,
        at: Any,
        weight: Any,
        bias: Any,
        width: Any,
        epsilon: Any,
        like: Any,
    ) -> Any:
        """Normalise one row; all but the numbers are addresses."""

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            row = _Row(context, builder, sig.args[-1].dtype)
            to, at, weight, bias, width, epsilon, _ = args
            mean, over = row.measured(at, width, epsilon, centred)

            def one(k: Any, mask: Any, _: Values) -> Values:
                z = row.normalised(at, k, mask, mean, over)
                z = builder.fmul(z, row.load(weight, k, mask))
                row.store(builder.fadd(z, row.load(bias, k, mask)), to, k, mask)
                return []

            row.v.each(width, [], one)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5, types.float64, like), generate

    return normalise


def _backward(centred: bool) -> Any:
    @intrinsic
    def flow_back(
        typing_context: Any,
        to: Any,
        up: Any,
        at: Any,
        weight: Any,
        scales: Any,
        shifts: Any,
        width: Any,
        epsilon: Any,
        like: Any,
    ) -> Any:
        """Write the gradient of one row, and add those of the weight and bias in float64."""

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            row = _Row(context, builder, sig.args[-1].dtype)
            to, up, at, weight, scales, shifts, width, epsilon, _ = args
            mean, over = row.measured(at, width, epsilon, centred)

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

            count = builder.sitofp(width, _DOUBLE)
            totals = row.sums(width, 2, summed)
            flow, shared = (row.everywhere(builder.fdiv(each, count)) for each in totals)

            def one(k: Any, mask: Any, _: Values) -> Values:
                _, z, g = parts(k, mask)
                g = builder.fsub(g, flow) if centred else g
                g = builder.fsub(g, builder.fmul(z, shared))
                row.store(builder.fmul(over, g), to, k, mask)
                return []

            row.v.each(width, [], one)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7, types.float64, like), generate

    return flow_back


_layer_norm, _rms_norm = _forward(True), _forward(False)
_layer_norm_back, _rms_norm_back = _backward(True), _backward(False)


@kernel(types=FLOATS)
def forward(
    x: Pointer[T], weight: Pointer[T], bias: Pointer[T], out: Pointer[T], epsilon: float,
    centred: bool, rows: int, width: int, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Normalise rows (N, width)."""
    begin, end = first * piece_rows, min(last * piece_rows, rows)
    if width == 1:
        _single_values(x, weight[0], bias[0], out, epsilon, centred, begin, end)
        return 0
    w, b = address(weight), address(bias)
    for r in range(begin, end):
        row, to = address(x + r * width), address(out + r * width)
        if centred:
            _layer_norm(to, row, w, b, width, epsilon, x)
        else:
            _rms_norm(to, row, w, b, width, epsilon, x)
    return 0


@function()
def _single_values(
    x: Any, weight: float, bias: float, out: Any, epsilon: float, centred: bool, begin: int,
    end: int,
) -> None:  # fmt: skip
    """Normalise rows of one value, side by side in vectors."""
    for r in range(begin, end):
        value = float(x[r])
        apart = value - value if centred else value
        out[r] = apart * (1.0 / math.sqrt(apart * apart + epsilon)) * weight + bias


@kernel(types=FLOATS)
def backward(
    upstream: Pointer[T], x: Pointer[T], weight: Pointer[T], out: Pointer[T],
    scale: Pointer[np.float64], shift: Pointer[np.float64], epsilon: float, centred: bool,
    rows: int, width: int, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient of rows (N, width), and add those of the weight and bias of each piece.

    Args:
        scale, shift: (pieces, width), zeros.
    """
    w = address(weight)
    for piece in range(first, last):
        scales, shifts = address(scale + piece * width), address(shift + piece * width)
        for r in range(piece * piece_rows, min((piece + 1) * piece_rows, rows)):
            up, row = address(upstream + r * width), address(x + r * width)
            to = address(out + r * width)
            if centred:
                _layer_norm_back(to, up, row, w, scales, shifts, width, epsilon, x)
            else:
                _rms_norm_back(to, up, row, w, scales, shifts, width, epsilon, x)
    return 0
