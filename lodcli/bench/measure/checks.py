"""Checks that all candidates computed the same results, before timing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lodcli.bench.measure.errors import DisagreementError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform.machine import usable_cores

T = TypeVar("T")
Result = Sequence[Array]
# Results of gigabytes are compared in blocks, in parallel and within the caches.
BLOCK = 1 << 18
DIGEST_BYTES = 1 << 24


@dataclass
class _Group:
    result: Result
    names: list[str]


def agreed(
    what: str, results: Iterable[tuple[str, Result]], tolerance: float, ours: Container[str]
) -> tuple[str, dict[str, str]]:
    """Return the digest of the first result, and the peers whose results differ from the majority.

    Args:
        what: the work done, for the message.
        results: name and arrays of every candidate, lod's first. Only differing results are kept,
            so with a generator two results are in memory at a time.
        tolerance: the largest difference allowed, as a fraction of the greatest absolute
            value of the array; 0 for equal values.
        ours: the names of lod's candidates, which must agree with most libraries.

    Raises:
        DisagreementError: results of lod differ from the majority; names the position.
    """
    groups: list[_Group] = []
    first = ""
    for name, result in results:
        first = first or digest(result)
        for group in groups:
            if difference(result, group.result, tolerance) is None:
                group.names.append(name)
                break
        else:
            groups.append(_Group(result, [name]))
    # Of two equally large groups, the one without lod counts as correct.
    majority = max(reversed(groups), key=_libraries, default=None)
    wrong: dict[str, str] = {}
    for group in groups:
        if majority is None or group is majority:
            continue
        found = difference(group.result, majority.result, tolerance)
        assert found is not None
        told = (
            f"{', '.join(group.names)} and {', '.join(majority.names)} have different results: "
            f"{found}"
        )
        if any(name in ours for name in group.names):
            raise DisagreementError(f"{what}: {told}; nothing was timed")
        wrong |= dict.fromkeys(group.names, told[:200])
    return first, wrong


def _libraries(group: _Group) -> int:
    return len({name.partition(" ")[0] for name in group.names})


def difference(one: Result, other: Result, tolerance: float) -> str | None:
    """Return the largest difference between two results in words, or None if they agree."""
    if len(one) != len(other):
        return f"{len(one)} results against {len(other)}"
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        found = _array_difference(a, b, tolerance)
        if found:
            return f"result {number}, {found}" if len(one) > 1 else found
    return None


def _array_difference(a: Array, b: Array, tolerance: float) -> str | None:
    if a.shape != b.shape:
        return f"shape {a.shape} against {b.shape}"
    exact = not tolerance or a.dtype.kind not in "fc"
    flat, other = a.reshape(-1), b.reshape(-1)
    allowed = 0.0 if exact else tolerance * max(_blocks(_greatest, other, size=BLOCK), default=0.0)
    gaps = list(_blocks(_unequal if exact else _gap, flat, other, size=BLOCK))
    widest, block = max(((gap, -n) for n, (gap, _) in enumerate(gaps)), default=(0.0, 0))
    if widest <= allowed:
        return None
    worst = -block * BLOCK + gaps[-block][1]
    place = tuple(int(i) for i in np.unravel_index(worst, a.shape))
    return f"at {place} {a[place]} against {b[place]}"


def _greatest(b: Array) -> float:
    return float(np.abs(b, where=np.isfinite(b), out=np.zeros_like(b)).max())


def _unequal(a: Array, b: Array) -> tuple[float, int]:
    """Return 1 if two blocks differ, else 0, and the first position; NaN equals NaN."""
    wrong = (a != b) & ~((a != a) & (b != b))
    worst = int(wrong.argmax())
    return float(wrong[worst]), worst


def _gap(a: Array, b: Array) -> tuple[float, int]:
    """Return the largest absolute difference between two blocks, and its position."""
    with np.errstate(invalid="ignore"):  # infinity - infinity
        gap = np.abs(np.subtract(a, b, where=a != b, out=np.zeros_like(a)))
    # NaN agrees with NaN, but not with a number.
    gap[np.isnan(gap)] = np.inf
    gap[np.isnan(a) & np.isnan(b)] = 0
    worst = int(gap.argmax())
    return float(gap[worst]), worst


def _blocks(function: Callable[..., T], *arrays: Array, size: int) -> Iterator[T]:
    """Yield the results of a function for each block of flat arrays, in order."""
    cuts = range(0, len(arrays[0]), size)
    if len(cuts) < 2:
        yield from (function(*(array[cut : cut + size] for array in arrays)) for cut in cuts)
        return
    with ThreadPoolExecutor(usable_cores()) as pool:
        yield from pool.map(lambda cut: function(*(x[cut : cut + size] for x in arrays)), cuts)


def digest(result: Result) -> str:
    """Return a short fingerprint of the shapes, dtypes and bytes of arrays."""
    found = hashlib.blake2b(digest_size=8)
    for array in result:
        found.update(f"{array.shape}{array.dtype.str}".encode())
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for part in _blocks(lambda block: hashlib.blake2b(block).digest(), flat, size=DIGEST_BYTES):
            found.update(part)
    return found.hexdigest()
