"""Loops of linear recurrences over rows: their states, and their effect on any initial state.

Each loop takes the addresses of the first rows of a, b and the result, and strides, which are
negative for a recurrence in reverse. A complex number is two columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lodcli.kernels.native.language_numba import function
from lodcli.kernels.simd.lanes_numba import (
    both_first,
    both_second,
    conjugated,
    fused,
    lanes_in,
    load,
    store,
    swapped,
)


class Numbers(NamedTuple):
    """How vectors of numbers are multiplied.

    Attributes:
        taken: returns a vector of a, or its conjugate.
        factor: prepares a vector as a factor for `times`.
        times: returns a factor times a vector.
        times_plus: returns that product plus another vector.
    """

    taken: Callable[[Any], Any]
    factor: Callable[[Any], Any]
    times: Callable[[Any, Any], Any]
    times_plus: Callable[[Any, Any, Any], Any]


@function()
def _plain(value: Any) -> Any:
    return value


@function()
def _times(factor: Any, value: Any) -> Any:
    return factor * value


@function()
def _times_plus(factor: Any, value: Any, other: Any) -> Any:
    return factor * value + other


@function()
def _complex(value: Any) -> Any:
    return both_first(value), both_second(value)


@function()
def _conjugate(value: Any) -> Any:
    return conjugated(value)


@function()
def _complex_times(factor: Any, value: Any) -> Any:
    return fused(factor[0], value, factor[1] * swapped(value))


@function()
def _complex_times_plus(factor: Any, value: Any, other: Any) -> Any:
    return fused(factor[1], swapped(value), fused(factor[0], value, other))


REAL = Numbers(_plain, _plain, _times, _times_plus)
COMPLEX = Numbers(_plain, _complex, _complex_times, _complex_times_plus)
CONJUGATE = COMPLEX._replace(taken=_conjugate)


@function()
def all_finite(row: Any, width: int) -> bool:
    found = True
    for k in range(width):
        found &= row[k] - row[k] == 0
    return found


def row_loops(numbers: Numbers) -> tuple[Callable[..., Any], ...]:
    """Return loops over rows of any width.

    Returns:
        `states`, which writes states; `effect`, the linear map of rows on any state; `carry`, which
        applies that map to a state; `products` of states and rows.
    """
    taken, factor, times, times_plus = numbers

    @function()
    def given(a: Any, at: Any, n: Any) -> Any:
        return factor(taken(load(a, at, n)))

    @function()
    def states(
        a: Any, b: Any, before: Any, out: Any, count: int, width: int, a_step: int, step: int
    ) -> None:
        """Write the states of `count` rows; `before` is the previous state."""
        lanes = lanes_in(a)
        k = 0
        while k + 4 * lanes <= width:
            # Whole cache lines, and four independent sums.
            h0, h1 = load(before, k, lanes), load(before, k + lanes, lanes)
            h2, h3 = load(before, k + 2 * lanes, lanes), load(before, k + 3 * lanes, lanes)
            x, y, to = a + k, b + k, out + k
            for _ in range(count):
                h0 = times_plus(given(x, 0, lanes), h0, load(y, 0, lanes))
                h1 = times_plus(given(x, lanes, lanes), h1, load(y, lanes, lanes))
                h2 = times_plus(given(x, 2 * lanes, lanes), h2, load(y, 2 * lanes, lanes))
                h3 = times_plus(given(x, 3 * lanes, lanes), h3, load(y, 3 * lanes, lanes))
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
                h = times_plus(given(x, 0, n), h, load(y, 0, n))
                store(h, to, 0, n)
                x, y, to = x + a_step, y + step, to + step
            k += lanes

    @function()
    def effect_of_columns(a: Any, b: Any, count: int, n: int, a_step: int, step: int) -> Any:
        product, total = taken(load(a, 0, n)), load(b, 0, n)
        for _ in range(1, count):
            a, b = a + a_step, b + step
            each = given(a, 0, n)
            product = times(each, product)
            total = times_plus(each, total, load(b, 0, n))
        return product, total

    @function()
    def effect(
        a: Any, b: Any, product: Any, total: Any, count: int, width: int, a_step: int, step: int
    ) -> None:
        """Write the effect of rows on a state h: product h + total."""
        lanes = lanes_in(a)
        for k in range(0, width, lanes):
            n = min(lanes, width - k)
            p, t = effect_of_columns(a + k, b + k, count, n, a_step, step)
            store(p, product, k, n)
            store(t, total, k, n)

    @function()
    def carry(product: Any, before: Any, total: Any, width: int) -> None:
        """Add the mapped state to `total`."""
        lanes = lanes_in(total)
        for k in range(0, width, lanes):
            n = min(lanes, width - k)
            p, h = factor(load(product, k, n)), load(before, k, n)
            store(times_plus(p, h, load(total, k, n)), total, k, n)

    @function()
    def products(rows: Any, states: Any, out: Any, count: int) -> None:
        """Write `count` products of rows and factors made of states."""
        lanes = lanes_in(rows)
        for k in range(0, count, lanes):
            n = min(lanes, count - k)
            store(times(given(states, k, n), load(rows, k, n)), out, k, n)

    return states, effect, carry, products


def parts_loops(
    numbers: Numbers, load: Callable[..., Any], store: Callable[..., None]
) -> tuple[Callable[..., Any], ...]:
    """Return loops over columns that fill a vector, for four parts side by side.

    Args:
        load, store: of `n` columns.

    Returns:
        `effects`, the linear map of each part of `count` rows; `whole`, the product of all four;
        `starts`, the state before each part and after the last one; `after`, the state after a few
        more rows; `states_of_four`, which writes all states of the parts.
    """
    taken, factor, times, times_plus = numbers

    @function()
    def given(a: Any, at: Any, n: Any) -> Any:
        return factor(taken(load(a, at, n)))

    @function()
    def effects(a: Any, b: Any, count: int, n: int, a_step: int, step: int) -> Any:
        a_next, b_next = count * a_step, count * step
        a1, b1 = a + a_next, b + b_next
        a2, b2 = a1 + a_next, b1 + b_next
        a3, b3 = a2 + a_next, b2 + b_next
        p0, p1 = taken(load(a, 0, n)), taken(load(a1, 0, n))
        p2, p3 = taken(load(a2, 0, n)), taken(load(a3, 0, n))
        t0, t1, t2, t3 = load(b, 0, n), load(b1, 0, n), load(b2, 0, n), load(b3, 0, n)
        for row in range(1, count):
            x, y = row * a_step, row * step
            f0, f1 = given(a, x, n), given(a1, x, n)
            f2, f3 = given(a2, x, n), given(a3, x, n)
            p0, p1, p2, p3 = times(f0, p0), times(f1, p1), times(f2, p2), times(f3, p3)
            t0, t1 = times_plus(f0, t0, load(b, y, n)), times_plus(f1, t1, load(b1, y, n))
            t2, t3 = times_plus(f2, t2, load(b2, y, n)), times_plus(f3, t3, load(b3, y, n))
        return p0, p1, p2, p3, t0, t1, t2, t3

    @function()
    def whole(found: Any) -> Any:
        product = times(factor(found[1]), found[0])
        return times(factor(found[3]), times(factor(found[2]), product))

    @function()
    def starts(found: Any, h0: Any) -> Any:
        p0, p1, p2, p3, t0, t1, t2, t3 = found
        h1 = times_plus(factor(p0), h0, t0)
        h2 = times_plus(factor(p1), h1, t1)
        h3 = times_plus(factor(p2), h2, t2)
        return h0, h1, h2, h3, times_plus(factor(p3), h3, t3)

    @function()
    def after(a: Any, b: Any, h: Any, count: int, n: int, a_step: int, step: int) -> Any:
        for row in range(count):
            h = times_plus(given(a, row * a_step, n), h, load(b, row * step, n))
        return h

    @function()
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
            h0 = times_plus(given(a, x, n), h0, load(b, y, n))
            h1 = times_plus(given(a1, x, n), h1, load(b1, y, n))
            h2 = times_plus(given(a2, x, n), h2, load(b2, y, n))
            h3 = times_plus(given(a3, x, n), h3, load(b3, y, n))
            store(h0, out, y, n)
            store(h1, out1, y, n)
            store(h2, out2, y, n)
            store(h3, out3, y, n)

    return effects, whole, starts, after, states_of_four
