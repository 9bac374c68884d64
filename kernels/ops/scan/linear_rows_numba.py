"""Loops of linear recurrences over rows: their states, and what they make of any state.

Each loop takes the addresses of the first rows of a, b and the result, and the steps to the next
ones, which are negative where the recurrence runs from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lodcli.kernels.native.language_numba import function
from lodcli.kernels.simd.lanes_numba import lanes_in, load, store


@function()
def all_finite(row: Any, width: int) -> bool:
    found = True
    for k in range(width):
        found &= row[k] - row[k] == 0
    return found


# -- complex numbers -------------------------------------------------------------------


@function()
def plain(value: Any) -> Any:
    return value


@function()
def conjugate(value: Any) -> Any:
    return value.conjugate()


def complex_loops(factor: Callable[[Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `states` and `effect` with `factor` of each a."""

    @function()
    def states(
        a: Any, b: Any, before: Any, out: Any, count: int, width: int, a_step: int, step: int
    ) -> None:
        for _ in range(count):
            for k in range(width):
                out[k] = factor(a[k]) * before[k] + b[k]
            before = out
            a, b, out = a + a_step, b + step, out + step

    @function()
    def effect(
        a: Any, b: Any, times: Any, plus: Any, count: int, width: int, a_step: int, step: int
    ) -> None:
        for k in range(width):
            times[k], plus[k] = factor(a[k]), b[k]
        for _ in range(1, count):
            a, b = a + a_step, b + step
            for k in range(width):
                value = factor(a[k])
                times[k] *= value
                plus[k] = value * plus[k] + b[k]

    return states, effect


# -- vectors of real numbers -----------------------------------------------------------


@function()
def states(
    a: Any, b: Any, before: Any, out: Any, count: int, width: int, a_step: int, step: int
) -> None:
    """Write the states of `count` rows; `before` is the one before them."""
    lanes = lanes_in(a)
    k = 0
    while k + 4 * lanes <= width:
        # Whole lines of memory, and four sums at once.
        h0, h1 = load(before, k, lanes), load(before, k + lanes, lanes)
        h2, h3 = load(before, k + 2 * lanes, lanes), load(before, k + 3 * lanes, lanes)
        x, y, to = a + k, b + k, out + k
        for _ in range(count):
            h0 = load(x, 0, lanes) * h0 + load(y, 0, lanes)
            h1 = load(x, lanes, lanes) * h1 + load(y, lanes, lanes)
            h2 = load(x, 2 * lanes, lanes) * h2 + load(y, 2 * lanes, lanes)
            h3 = load(x, 3 * lanes, lanes) * h3 + load(y, 3 * lanes, lanes)
            store(h0, to, 0, lanes)
            store(h1, to, lanes, lanes)
            store(h2, to, 2 * lanes, lanes)
            store(h3, to, 3 * lanes, lanes)
            x, y, to = x + a_step, y + step, to + step
        k += 4 * lanes
    while k < width:
        n = min(lanes, width - k)
        h = load(before, k, n)
        x, y, to = a + k, b + k, out + k
        for _ in range(count):
            h = load(x, 0, n) * h + load(y, 0, n)
            store(h, to, 0, n)
            x, y, to = x + a_step, y + step, to + step
        k += lanes


@function()
def effect(
    a: Any, b: Any, times: Any, plus: Any, count: int, width: int, a_step: int, step: int
) -> None:
    """Write what rows make of a state h: times h + plus."""
    lanes = lanes_in(a)
    for k in range(0, width, lanes):
        n = min(lanes, width - k)
        product, total = _effect(a + k, b + k, count, n, a_step, step)
        store(product, times, k, n)
        store(total, plus, k, n)


@function()
def _effect(a: Any, b: Any, count: int, n: int, a_step: int, step: int) -> Any:
    product, total = load(a, 0, n), load(b, 0, n)
    for _ in range(1, count):
        a, b = a + a_step, b + step
        factor = load(a, 0, n)
        product = product * factor
        total = factor * total + load(b, 0, n)
    return product, total


# -- four parts side by side -----------------------------------------------------------


@function()
def load_one(row: Any, at: int, n: int) -> Any:
    here = row + at  # no index below 0: checked builds refuse it
    return here[0]


@function()
def store_one(value: Any, row: Any, at: int, n: int) -> None:
    here = row + at
    here[0] = value


def parts_loops(
    load: Callable[..., Any],
    store: Callable[..., None],
    factor: Callable[[Any], Any],
    fastmath: set[str],
) -> tuple[Callable[..., Any], ...]:
    """Return loops over columns that make up a number or a vector, four parts side by side.

    Args:
        load, store: of `n` columns.
        factor: returns each a as it is, or its conjugate.
        fastmath: of sums of products.

    Returns:
        `effects`, what each part of `count` rows makes of any state; `starts`, the state before
        each part and after the last one; `after`, the state after a few more rows;
        `states_of_four`, which writes all states of the parts.
    """

    @function(fastmath=fastmath)
    def effects(a: Any, b: Any, count: int, n: int, a_step: int, step: int) -> Any:
        a_next, b_next = count * a_step, count * step
        a1, b1 = a + a_next, b + b_next
        a2, b2 = a1 + a_next, b1 + b_next
        a3, b3 = a2 + a_next, b2 + b_next
        p0, p1 = factor(load(a, 0, n)), factor(load(a1, 0, n))
        p2, p3 = factor(load(a2, 0, n)), factor(load(a3, 0, n))
        t0, t1, t2, t3 = load(b, 0, n), load(b1, 0, n), load(b2, 0, n), load(b3, 0, n)
        for row in range(1, count):
            x, y = row * a_step, row * step
            f0, f1 = factor(load(a, x, n)), factor(load(a1, x, n))
            f2, f3 = factor(load(a2, x, n)), factor(load(a3, x, n))
            p0, p1, p2, p3 = p0 * f0, p1 * f1, p2 * f2, p3 * f3
            t0, t1 = f0 * t0 + load(b, y, n), f1 * t1 + load(b1, y, n)
            t2, t3 = f2 * t2 + load(b2, y, n), f3 * t3 + load(b3, y, n)
        return p0, p1, p2, p3, t0, t1, t2, t3

    @function(fastmath=fastmath)
    def starts(found: Any, h0: Any) -> Any:
        p0, p1, p2, p3, t0, t1, t2, t3 = found
        h1 = p0 * h0 + t0
        h2 = p1 * h1 + t1
        h3 = p2 * h2 + t2
        return h0, h1, h2, h3, p3 * h3 + t3

    @function(fastmath=fastmath)
    def after(a: Any, b: Any, h: Any, count: int, n: int, a_step: int, step: int) -> Any:
        for row in range(count):
            h = factor(load(a, row * a_step, n)) * h + load(b, row * step, n)
        return h

    @function(fastmath=fastmath)
    def states_of_four(
        a: Any, b: Any, begun: Any, out: Any, count: int, n: int, a_step: int, step: int
    ) -> None:
        a_next, b_next = count * a_step, count * step
        h0, h1, h2, h3, _ = begun
        a1, b1, out1 = a + a_next, b + b_next, out + b_next
        a2, b2, out2 = a1 + a_next, b1 + b_next, out1 + b_next
        a3, b3, out3 = a2 + a_next, b2 + b_next, out2 + b_next
        for row in range(count):
            x, y = row * a_step, row * step
            h0 = factor(load(a, x, n)) * h0 + load(b, y, n)
            h1 = factor(load(a1, x, n)) * h1 + load(b1, y, n)
            h2 = factor(load(a2, x, n)) * h2 + load(b2, y, n)
            h3 = factor(load(a3, x, n)) * h3 + load(b3, y, n)
            store(h0, out, y, n)
            store(h1, out1, y, n)
            store(h2, out2, y, n)
            store(h3, out3, y, n)

    return effects, starts, after, states_of_four
