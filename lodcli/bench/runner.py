"""Runs a task: build, check, time, summarise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lodcli.bench.measure.checks import Result, agreed, difference, digest
from lodcli.bench.measure.errors import DisagreementError
from lodcli.bench.measure.harness import Effort, Sampler, measure, measure_steadily, sampler
from lodcli.bench.measure.samples import summarised
from lodcli.bench.measure.tasks import COPY, LIMIT, OURS, Candidate, LimitKind, Task
from lodcli.bench.measure.worker import error_text
from lodcli.bench.report.results import Clock, Measured, row_of
from lodcli.kernels.platform import processes

# A first call may compile or load code: up to this time it does not count as slow.
LEAST_PATIENCE_SECONDS = 5.0
# On a GPU the second call may capture a graph that the third replays, and clocks rise under load.
WARM_CALLS, WARM_SECONDS = 3, 0.05


def run_task(task: Task, effort: Effort, *, threads: int, seed: int = 0) -> dict[str, Any]:
    """Return the rows of a task, and the candidates that could not take part.

    Raises:
        DisagreementError: the result of lod differs from that of most others.
    """
    skipped = dict(task.skipped)
    taking_part: list[Candidate] = []
    results = _results(task, taking_part, skipped, effort.budget_seconds)
    if task.witness is None:
        ours = {one.name for one in task.candidates if one.library == OURS}
        computed, wrong = agreed(task.title, results, task.tolerance, ours)
    else:
        computed, wrong = _as_witnessed(task, results)
    skipped |= wrong
    taking_part = [one for one in taking_part if one.name not in wrong]
    if task.device == "cuda":
        effort = replace(effort, warm_calls=WARM_CALLS, warm_seconds=WARM_SECONDS)
    limit, amount = _limit(task, threads)
    timed = [*taking_part, limit]
    rng = np.random.default_rng(seed)
    clock = _clock(task, threads)
    samplers = {one.name: _by(clock, one.sample) for one in timed}
    samples = measure_steadily(lambda: measure(samplers, effort, rng=rng), limit.name)
    measured = [Measured(one, summarised(samples[one.name])) for one in timed]
    # The best of its samples: a limit is the maximum, not the average.
    best_rate = amount / min(one.seconds for one in samples[limit.name])
    rate = best_rate if task.work.limit == limit.label else _copying_rate(task, measured)
    rows = [
        row_of(task, one, measured, digest=computed, threads=threads, clock=clock, limit_rate=rate)
        for one in measured
        if one.candidate is not limit
    ]
    return {"rows": rows, "skipped": skipped}


def _clock(task: Task, threads: int) -> Clock:
    """Return the clock for a task; other load on the machine does not add to processor time."""
    alone = threads == 1 and task.device == "cpu" and not task.uses_files
    return "processor" if alone and processes.EXACT_USAGE else "wall"


def _by(clock: Clock, sample: Sampler) -> Sampler:
    return sample if clock == "wall" else lambda calls: sample(calls).by_processor()


def _copying_rate(task: Task, measured: Sequence[Measured]) -> float | None:
    """Return the rate at which the bytes of a file are copied, if that is the limit."""
    for one in measured:
        if one.candidate.library == COPY:
            return task.work.needed / one.summary.median
    return None


def _results(
    task: Task, taking_part: list[Candidate], skipped: dict[str, str], budget_seconds: float
) -> Iterator[tuple[str, Result]]:
    """Yield the results of candidates; add each to `taking_part`, or if it fails to `skipped`."""
    for one in task.candidates:
        if one.result is not None:
            start = time.perf_counter()
            try:
                result = one.result()
            except Exception as error:
                # A peer may fail; lod must not.
                if one.library == OURS:
                    raise
                skipped[one.name] = error_text(error)
                continue
            yield one.name, result
            seconds = time.perf_counter() - start
            if one.library != OURS and seconds > max(budget_seconds, LEAST_PATIENCE_SECONDS):
                skipped[one.name] = f"its first call took {seconds:.1f} s, more than the budget"
                continue
        taking_part.append(one)


def _as_witnessed(task: Task, results: Iterator[tuple[str, Result]]) -> tuple[str, dict[str, str]]:
    """Return the digest of lod's result, and the peers that differ from the witness."""
    assert task.witness is not None
    truth, found, wrong = task.witness(), "", dict[str, str]()
    ours = {one.name for one in task.candidates if one.library == OURS}
    for name, result in results:
        found = found or digest(result)
        what = difference(result, truth, task.tolerance)
        if what is None:
            continue
        told = f"{name} and {OURS} in main memory computed different results: {what}"
        if name in ours:
            raise DisagreementError(f"{task.title}: {told}; nothing was timed")
        wrong[name] = told[:200]
    return found, wrong


def _limit(task: Task, threads: int) -> tuple[Candidate, float]:
    """Return a candidate that works at the machine's limit, and the amount of work of a call.

    For a task without such a limit, memory copies are measured anyway: their times in two reports
    show whether the machine has changed.
    """
    kind: LimitKind = "copy" if task.work.limit in (None, COPY) else task.work.limit
    if task.device == "cuda":
        from lodcli.bench.measure import gpu_cupy

        call, amount = gpu_cupy.limit_call(kind, task.work.needed)
        return Candidate(LIMIT, kind, sampler(call, gpu_cupy.by_events)), amount
    from lodcli.bench.measure.limits import limit_call

    call, amount = limit_call(kind, task.work.needed, threads)
    call()
    return Candidate(LIMIT, kind, sampler(call)), amount
