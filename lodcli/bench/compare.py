"""Whether a newer report is slower than an older one, beyond chance and beyond a threshold."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lodcli.bench.results import SCHEMA_VERSION
from lodcli.kernels.errors import InvalidDataError

# Up to this many samples on both sides the odds are counted out, not approximated.
MOST_EXACT = 12


@dataclass(frozen=True)
class Change:
    """One measurement of ours, in both reports.

    Attributes:
        command: what was measured.
        old, new: median seconds.
        ratio: new over old.
        chance: the probability that equal code would look at least as slow.
        verdict: "slower", "faster" or "same".
    """

    command: str
    old: float
    new: float
    ratio: float
    chance: float
    verdict: str


def read_report(path: str) -> dict[str, Any]:
    """Return a report that --json or -o wrote.

    Raises:
        InvalidDataError: no such JSON.
    """
    try:
        report = json.loads(Path(path).read_bytes())
        if report["schema_version"] != SCHEMA_VERSION:
            raise InvalidDataError(
                f"{path}: expected schema_version {SCHEMA_VERSION}, "
                f"found {report['schema_version']}"
            )
        for row in report["results"]:
            if not (row["times"] and all(time > 0 for time in row["times"])):
                raise InvalidDataError(f"{path}: {row['command']}: no times")
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InvalidDataError):
            raise
        raise InvalidDataError(f"{path}: is no report of lod bench ({error!r})") from None
    found: dict[str, Any] = report
    return found


def compared(
    old: Mapping[str, Any], new: Mapping[str, Any], *, threshold: float, alpha: float
) -> list[Change]:
    """Return how each measurement of ours that both reports have changed.

    Args:
        threshold: the smallest change that matters, as a fraction: 0.05 is 5 %.
        alpha: the largest probability of chance that still counts as a change.

    Raises:
        InvalidDataError: they have none in common.
    """
    before = {row["command"]: row for row in old["results"] if row["ours"]}
    changes = []
    for row in new["results"]:
        if row["command"] in before:
            times = before[row["command"]]["times"], row["times"]
            changes.append(_change(row["command"], *times, threshold, alpha))
    if not changes:
        raise InvalidDataError("the two reports have no measurement of ours in common")
    return changes


def _change(
    command: str, old: Sequence[float], new: Sequence[float], threshold: float, alpha: float
) -> Change:
    before, after = statistics.median(old), statistics.median(new)
    ratio = after / before
    slower, faster = chance_of_slower(old, new), chance_of_slower(new, old)
    verdict = "same"
    if ratio > 1 + threshold and slower <= alpha:
        verdict = "slower"
    elif ratio < 1 / (1 + threshold) and faster <= alpha:
        verdict = "faster"
    return Change(command, before, after, ratio, slower, verdict)


def chance_of_slower(old: Sequence[float], new: Sequence[float]) -> float:
    """Return the one-sided p of Mann and Whitney's U: that `new` is not slower than `old`.

    References:
        Mann and Whitney, On a test of whether one of two random variables is
        stochastically larger than the other, 1947.
    """
    wins = sum((b > a) + 0.5 * (b == a) for a in old for b in new)
    n, m = len(old), len(new)
    if max(n, m) <= MOST_EXACT and len({*old, *new}) == n + m:
        counts = _arrangements(n, m)
        return sum(counts[round(wins) :]) / sum(counts)
    ties = sum(count**3 - count for count in _tie_counts([*old, *new]))
    total = n + m
    spread = math.sqrt(n * m / 12 * (total + 1 - ties / (total * (total - 1))))
    if not spread:
        return 1.0
    return 0.5 * math.erfc((wins - 0.5 - n * m / 2) / spread / math.sqrt(2))


def _arrangements(n: int, m: int) -> list[int]:
    """Return how many orders of n old and m new samples have each number of wins."""
    # Choosing which of n+m places are new: the generating function, one sample at a time.
    counts = [1] + [0] * (n * m)
    for k in range(1, m + 1):
        for wins in range(n * m, n + k - 1, -1):
            counts[wins] -= counts[wins - n - k]
        for wins in range(k, n * m + 1):
            counts[wins] += counts[wins - k]
    return counts


def _tie_counts(values: Sequence[float]) -> Iterator[int]:
    for value in set(values):
        yield sum(one == value for one in values)
