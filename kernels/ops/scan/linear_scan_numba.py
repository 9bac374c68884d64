"""Kernels of linear recurrences: blocks of rows in order, with carries (decoupled look-back).

Rows are split into pieces of equal height, regardless of segments, in the order of the recurrence.
A piece within one segment does not wait for its initial state: it first computes its linear map (a
factor and a summand per column), waits for the carry of the previous piece, publishes the carry for
the next piece, and computes its rows, which are still in the cache. Pieces begin in order, so the
previous piece is always in progress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.native import system_numba as system
from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import address, function
from lodcli.kernels.ops.scan.linear_rows_numba import (
    COMPLEX,
    CONJUGATE,
    REAL,
    Numbers,
    all_finite,
    parts_loops,
    row_loops,
)
from lodcli.kernels.simd.lanes_numba import lanes_in, load, load_narrow, store, store_narrow
from lodcli.kernels.simd.row_partition_numba import segment_at

_SPINS = 100


@function()
def _wait(ready: Any, piece: int) -> None:
    """Wait until a piece has published its carry."""
    word, spins = address(ready) + 8 * piece, 0
    while system.load(word) == 0:
        spins += 1
        if spins < _SPINS:
            system.pause()
        else:
            system.sched_yield()


@function()
def _tell(ready: Any, piece: int) -> None:
    system.store(address(ready) + 8 * piece, 1)


@function()
def _copy(row: Any, out: Any, width: int) -> None:
    for k in range(width):
        out[k] = row[k]


def _blocks(loops: tuple[Callable[..., Any], ...]) -> Callable[..., Any]:
    """Return a function that computes a piece within one segment."""
    states, effect, carry, _ = loops

    @function()
    def block(
        a: Any, b: Any, times: Any, ends: Any, ready: Any, out: Any, number: int, count: int,
        width: int, a_step: int, step: int,
    ) -> None:  # fmt: skip
        own, above, here = (
            times + number * width,
            ends + (number - 1) * width,
            ends + number * width,
        )
        effect(a, b, own, here, count, width, a_step, step)
        carried = all_finite(own, width)
        _wait(ready, number - 1)
        if carried:
            carry(own, above, here, width)
            _tell(ready, number)
        states(a, b, above, out, count, width, a_step, step)
        if not carried:
            _copy(out + (count - 1) * step, here, width)
            _tell(ready, number)

    return block  # type: ignore[no-any-return]


def _parts_blocks(
    numbers: Numbers,
    states: Callable[..., Any],
    load: Callable[..., Any],
    store: Callable[..., None],
) -> Callable[..., Any]:
    """Return a function that computes a piece within one segment in four parts at once.

    A single chain of dependent steps would be bound by the latency of an addition.
    """
    effects, whole, starts, after, states_of_four = parts_loops(numbers, load, store)

    @function()
    def block(
        a: Any, b: Any, times: Any, ends: Any, ready: Any, out: Any, number: int, count: int,
        width: int, a_step: int, step: int,
    ) -> None:  # fmt: skip
        own, above, here = (
            times + number * width,
            ends + (number - 1) * width,
            ends + number * width,
        )
        quarter = count // 4
        rest = count - 4 * quarter
        x, y, to = a + 4 * quarter * a_step, b + 4 * quarter * step, out + 4 * quarter * step
        found = effects(a, b, quarter, width, a_step, step)
        store(whole(found), own, 0, width)
        carried = all_finite(own, width)
        _wait(ready, number - 1)
        if not carried:
            states(a, b, above, out, count, width, a_step, step)
            _copy(out + (count - 1) * step, here, width)
            _tell(ready, number)
            return
        begun = starts(found, load(above, 0, width))
        store(after(x, y, begun[4], rest, width, a_step, step), here, 0, width)
        _tell(ready, number)
        states_of_four(a, b, begun, out, quarter, width, a_step, step)
        states(x, y, to + -step, to, rest, width, a_step, step)

    return block  # type: ignore[no-any-return]


def _scan(
    numbers: Numbers, loops: tuple[Callable[..., Any], ...], behind: int
) -> Callable[..., None]:
    """Return the recurrence over one piece.

    Args:
        behind: 1 if the factor of a row belongs to the previous row.
    """
    states = loops[0]
    wide = _blocks(loops)
    narrow = _parts_blocks(numbers, states, load_narrow, store_narrow)
    vector = _parts_blocks(numbers, states, load, store)

    @function()
    def block(
        a: Any, b: Any, times: Any, ends: Any, ready: Any, out: Any, number: int, count: int,
        width: int, a_step: int, step: int,
    ) -> None:  # fmt: skip
        """Compute a piece within one segment: rows of up to one vector in four parts."""
        if width > lanes_in(a) or count < 8:
            wide(a, b, times, ends, ready, out, number, count, width, a_step, step)
        elif width <= lanes_in(a) // 4:
            narrow(a, b, times, ends, ready, out, number, count, width, a_step, step)
        else:
            vector(a, b, times, ends, ready, out, number, count, width, a_step, step)

    @function()
    def begun(a: Any, b: Any, start: Any, out: Any, count: int, width: int, a_step: int, step: int,
              has_start: bool) -> None:  # fmt: skip
        """Write the states of the first rows of segments."""
        if has_start:
            states(a, b, start, out, count, width, a_step, step)
            return
        _copy(b, out, width)
        states(a + a_step, b + step, out, out + step, count - 1, width, a_step, step)

    @function()
    def piece(
        a: Any, b: Any, offsets: Any, initial: Any, out: Any, times: Any, ends: Any, ready: Any,
        segments: int, width: int, a_step: int, has_initial: bool, reverse: bool, piece_rows: int,
        number: int,
    ) -> None:  # fmt: skip
        """Write the states of one piece. Offsets are in the order of the recurrence."""
        rows = offsets[segments]
        top = number * piece_rows
        bottom = min(top + piece_rows, rows)
        step = width
        if reverse:
            last = rows - 1
            a, b, out = a + last * a_step, b + last * width, out + last * width
            a_step, step = -a_step, -step
        a = a + (-behind * a_step)
        s = segment_at(offsets, segments, top)
        stop = offsets[s + 1]
        above, here = ends + (number - 1) * width, ends + number * width
        head = 0
        if offsets[s] < top:
            head = min(stop, bottom) - top
        x, y, to = a + top * a_step, b + top * step, out + top * step
        if head and stop > bottom:
            block(x, y, times, ends, ready, to, number, head, width, a_step, step)
            return
        row = top + head
        if head:
            s += 1
        while row < bottom:
            while offsets[s + 1] == row:
                s += 1
            end = min(offsets[s + 1], bottom)
            start = initial
            if has_initial:
                start = initial + (segments - 1 - s if reverse else s) * width
            begun(
                a + row * a_step, b + row * step, start, out + row * step, end - row, width, a_step,
                step, has_initial,
            )  # fmt: skip
            if offsets[s + 1] > bottom:
                _copy(out + (bottom - 1) * step, here, width)
                _tell(ready, number)
            row = end
            s += 1
        if head:
            _wait(ready, number - 1)
            states(x, y, above, to, head, width, a_step, step)

    return piece  # type: ignore[no-any-return]


def _declare(name: str, forward_numbers: Numbers, backward_numbers: Numbers) -> None:
    forward = _scan(forward_numbers, row_loops(forward_numbers), 0)
    loops = row_loops(backward_numbers)
    backward, products = _scan(backward_numbers, loops, 1), loops[-1]
    conjugated = backward_numbers is CONJUGATE

    @kernel(name=name, types=FLOATS)
    def linear(
        a: Pointer[T], b: Pointer[T], offsets: Pointer[np.int64], initial: Pointer[T],
        out: Pointer[T], times: Pointer[T], ends: Pointer[T], ready: Pointer[np.int64],
        segments: int, width: int, a_step: int, has_initial: bool, reverse: bool, piece_rows: int,
        first: int, last: int,
    ) -> int:  # fmt: skip
        """Write h[t] = a[t] h[t-1] + b[t] of rows (N, width), a complex number in two columns.

        Args:
            times, ends: scratch, (pieces, width).
            ready: (pieces,) zeros.
            a_step: stride between rows of `a`: `width` or 0.
        """
        for number in range(first, last):
            forward(
                a, b, offsets, initial, out, times, ends, ready, segments, width, a_step,
                has_initial, reverse, piece_rows, number,
            )  # fmt: skip
        return 0

    @kernel(name=f"{name}_grad", types=FLOATS)
    def linear_grad(
        flow: Pointer[T], a: Pointer[T], h: Pointer[T], offsets: Pointer[np.int64],
        of_a: Pointer[T], of_b: Pointer[T], times: Pointer[T], ends: Pointer[T],
        ready: Pointer[np.int64], segments: int, width: int, a_step: int, reverse: bool,
        piece_rows: int, first: int, last: int,
    ) -> int:  # fmt: skip
        """Write the gradients for a and b; those for a of first rows of segments are fixed later.

        Args:
            offsets, reverse: in the order of the gradient, opposite to that of h.
            times, ends, ready, a_step: as in `linear`.
        """
        rows = offsets[segments]
        # The previous state of h is the next row in this order.
        behind = -1 if reverse else 1
        for number in range(first, last):
            backward(
                a, flow, offsets, flow, of_b, times, ends, ready, segments, width, a_step, False,
                reverse, piece_rows, number,
            )  # fmt: skip
            # While they are in the cache.
            top, bottom = number * piece_rows, min((number + 1) * piece_rows, rows)
            low, high = (rows - bottom, rows - top) if reverse else (top, bottom)
            low, high = max(low, -behind), min(high, rows - behind)
            products(
                of_b + low * width, h + (low + behind) * width, of_a + low * width,
                (high - low) * width,
            )  # fmt: skip
        return 0

    @kernel(name=f"{name}_firsts", types=FLOATS)
    def linear_firsts(
        a: Pointer[T], of_a: Pointer[T], of_b: Pointer[T], offsets: Pointer[np.int64],
        initial: Pointer[T], of_initial: Pointer[T], segments: int, width: int, a_step: int,
        has_initial: bool, reverse: bool,
    ) -> int:  # fmt: skip
        """Fix the gradients for a of the first row of each segment; write those for `initial`.

        Args:
            offsets, reverse: in the order of h.
            initial: (segments, width), or one row of zeros.
            of_initial: (segments, width) zeros; None unless `has_initial`.
        """
        for s in range(segments):
            if offsets[s] == offsets[s + 1]:
                continue
            row = offsets[s + 1] - 1 if reverse else offsets[s]
            flow, to = of_b + row * width, of_a + row * width
            if not has_initial:
                products(flow, initial, to, width)
                continue
            products(flow, a + row * a_step, of_initial + s * width, width)
            # Factors in NumPy's order, for bitwise equal results: conj(conj(flow) state).
            products(initial + s * width, flow, to, width)
            if conjugated:
                for k in range(1, width, 2):
                    to[k] = -to[k]
        return 0


@kernel()
def turned(offsets: Pointer[np.int64], out: Pointer[np.int64], segments: int) -> int:
    """Write the offsets of the same rows in reverse."""
    for s in range(segments + 1):
        out[s] = offsets[segments] - offsets[segments - s]
    return 0


_declare("linear", REAL, REAL)
_declare("linear_complex", COMPLEX, CONJUGATE)
