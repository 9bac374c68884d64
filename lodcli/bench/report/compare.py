"""Compares two reports: is the newer one slower, beyond chance and a threshold?"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lodcli.bench.measure.samples import quartiles
from lodcli.bench.report.results import SCHEMA_VERSION, is_disturbed
from lodcli.kernels.errors import InvalidDataError
from lodcli.reports.benchmark import Change

# With up to this many samples on both sides, the probability is exact, not approximated.
MOST_EXACT = 12


def read_report(path: str) -> dict[str, Any]:
    """Return a report written by --json or -o.

    Raises:
        InvalidDataError: not such a report.
    """
    try:
        report = json.loads(Path(path).read_bytes())
        if report["schema_version"] != SCHEMA_VERSION:
            raise InvalidDataError(
                f"{path}: expected schema_version {SCHEMA_VERSION}, "
                f"found {report['schema_version']}"
            )
        for row in report["results"]:
            times = [*row["times"], *row.get("limit_times", [])]
            if not (row["times"] and all(time > 0 for time in times)):
                raise InvalidDataError(f"{path}: {row['command']}: no times")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, InvalidDataError):
            raise
        # The text of a UnicodeDecodeError holds the whole file.
        why = type(error).__name__ if isinstance(error, UnicodeError) else repr(error)
        raise InvalidDataError(f"{path}: is not a report of lod bench ({why})") from None
    found: dict[str, Any] = report
    return found


def compared(
    old: Mapping[str, Any], new: Mapping[str, Any], *, threshold: float, alpha: float
) -> list[Change]:
    """Return the change of each measurement of lod that is in both reports.

    Args:
        threshold: the smallest change that matters, as a fraction: 0.05 is 5 %.
        alpha: the largest probability of chance that still counts as a change.

    Raises:
        InvalidDataError: they have none in common, or one counts wall time and the other
            processor time.
    """
    before = {row["command"]: row for row in old["results"] if row["ours"]}
    changes = []
    for row in new["results"]:
        if row["command"] in before:
            same = before[row["command"]]
            _require_one_clock(same, row)
            changes.append(_change(same, row, threshold, alpha))
    if not changes:
        raise InvalidDataError("the two reports have no measurement of lod in common")
    return changes


def _require_one_clock(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    clocks = [row.get("clock", "wall") for row in (old, new)]  # older reports have no clock
    if len(set(clocks)) > 1:
        raise InvalidDataError(
            f"{new['command']}: the old report has {clocks[0]} time and the new one "
            f"{clocks[1]} time; measure the old one again"
        )


def _change(
    old: Mapping[str, Any], new: Mapping[str, Any], threshold: float, alpha: float
) -> Change:
    before, after = old["times"], new["times"]
    machine = _machine_change(old, new)
    slower = _is_slower(before, after, max(1.0, machine), threshold, alpha)
    faster = _is_slower(after, before, max(1.0, 1 / machine), threshold, alpha)
    verdict = "slower" if slower else "faster" if faster else "same"
    if verdict != "same" and (is_disturbed(old) or is_disturbed(new)):
        verdict = "unclear"
    medians = statistics.median(before), statistics.median(after)
    chance = chance_of_slower(before, after)
    return Change(new["command"], *medians, medians[1] / medians[0], machine, chance, verdict)


def _is_slower(
    old: Sequence[float], new: Sequence[float], excused: float, threshold: float, alpha: float
) -> bool:
    """Return whether `new` takes longer, even if the machine was `excused` times as slow.

    Slower code is also slower in its better rounds; a disturbance affects only some rounds.
    """
    return (
        quartiles(new)[0] > excused * (1 + threshold) * quartiles(old)[0]
        and chance_of_slower(old, [time / excused for time in new]) <= alpha
    )


def _machine_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
    """Return the ratio of the times of the machine's limit in the rounds of `new` and `old`."""
    before, after = old.get("limit_times"), new.get("limit_times")
    return quartiles(after)[0] / quartiles(before)[0] if before and after else 1.0


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
    # The coefficients of the generating function, one sample after another.
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
