"""Measurements as `--json` prints them for other tools.

    schema_version, command, machine, versions, threads, limits, missing, skipped, failed, results

Each of `results` has the keys of hyperfine's export (command, mean, stddev, median, user,
system, min, max, times, exit_codes, parameters; times in seconds) and more.
docs/benchmarking.md describes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lodcli.bench.measure.samples import Summary
from lodcli.bench.measure.tasks import COPY, LIMIT, OURS, Candidate, Task

SCHEMA_VERSION = 1

# Keys with messages of other libraries, which may contain paths of this machine.
_REASONS = {"missing", "skipped", "failed"}
_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:'\"]+/)+")

# Wall time, or the processor time of all threads.
Clock = Literal["wall", "processor"]


@dataclass(frozen=True)
class Measured:
    """One candidate of a task, and its measured times."""

    candidate: Candidate
    summary: Summary


def row_of(
    task: Task,
    one: Measured,
    measured: Sequence[Measured],
    *,
    digest: str,
    threads: int,
    clock: Clock,
    limit_rate: float | None,
) -> dict[str, Any]:
    """Return the row of a candidate.

    Args:
        measured: all candidates, with the limit.
        clock: whether times are wall time or processor time.
        limit_rate: bytes or operations per second at the machine's limit.
    """
    candidate, summary = one.candidate, one.summary
    low, high = summary.quartiles
    rate = task.work.useful / summary.median
    fraction = task.work.needed / summary.median / limit_rate if limit_rate else None
    peer, ratio = best_peer(one, measured)
    beside = [
        time
        for other in measured
        if other.candidate.library == LIMIT and candidate.library == OURS
        for time in other.summary.times
    ]
    parameters = {**task.parameters, "threads": threads}
    return {
        "command": " ".join([task.title, candidate.name, f"threads={threads}"]),
        "mean": rounded(summary.mean),
        "stddev": rounded(summary.stddev),
        "median": rounded(summary.median),
        "user": rounded(summary.user_seconds),
        "system": rounded(summary.system_seconds),
        "min": rounded(min(summary.times)),
        "max": rounded(max(summary.times)),
        "times": [rounded(time) for time in summary.times],
        "exit_codes": [0] * len(summary.times),
        "parameters": {name: str(value) for name, value in parameters.items()},
        "bench": task.bench,
        "op": task.op,
        "case": task.parameters.get("case", ""),
        "library": candidate.library,
        "label": candidate.label,
        "ours": candidate.library == OURS,
        "allocates": not candidate.into_out,
        "device": task.device,
        "threads": threads,
        "clock": clock,
        "q1": rounded(low),
        "q3": rounded(high),
        "iqr": rounded(high - low),
        "samples": len(summary.times),
        "dropped": summary.dropped,
        "noisy": summary.noisy,
        "useful": task.work.useful,
        "unit": task.work.unit,
        "rate": rounded(rate),
        "limit": task.work.limit,
        "limit_rate": None if limit_rate is None else rounded(limit_rate),
        "fraction_of_limit": None if fraction is None else rounded(fraction),
        "best_peer": peer,
        "ratio_to_best_peer": None if ratio is None else rounded(ratio),
        "digest": digest,
        "limit_times": [rounded(time) for time in beside],
    }


def is_disturbed(row: Mapping[str, Any]) -> bool:
    """Return whether most samples of a row were disturbed, so that it is not significant."""
    return bool(row.get("noisy")) or row.get("dropped", 0) > len(row["times"])


def rounded(figure: float) -> float:
    """Return a figure rounded to five digits; further digits are noise."""
    return float(f"{figure:.4e}")


def best_peer(one: Measured, measured: Sequence[Measured]) -> tuple[str | None, float | None]:
    """Return the fastest peer, and its time divided by that of `one`.

    A candidate that allocates its result is compared with peers that do. One that writes to a
    preallocated array is compared with all, since some peers always allocate.
    """
    if one.candidate.library != OURS:
        return None, None
    peers = [
        other
        for other in measured
        if other.candidate.library not in (OURS, LIMIT, COPY)
        and (one.candidate.into_out or not other.candidate.into_out)
    ]
    if not peers:
        return None, None
    best = min(peers, key=lambda other: other.summary.median)
    return best.candidate.name, best.summary.median / one.summary.median


def report_of(
    command: str,
    machine: Mapping[str, Any],
    versions: Mapping[str, str],
    results: Sequence[Mapping[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    """Return the whole report, ready for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "machine": dict(machine),
        "versions": dict(versions),
        **more,
        "results": [dict(row) for row in results],
    }


def without_folders(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report to publish: without the folders of this machine in messages."""
    return {**report, **{key: _without(report[key]) for key in _REASONS & report.keys()}}


def _without(reasons: Any) -> Any:
    if isinstance(reasons, Mapping):
        return {key: _without(value) for key, value in reasons.items()}
    return _FOLDERS.sub("", reasons)
