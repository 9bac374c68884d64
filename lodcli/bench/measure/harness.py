"""Interleaved timing of candidates in rounds, so that disturbances affect all equally.

A round takes one sample of every candidate, in a new random order. A sample has enough calls to be
timed. Between samples lod waits until the process is idle, because threads of one library that
still spin would take the processor from the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lodcli.bench.measure.samples import Sample, drift
from lodcli.kernels.platform.processes import others_run, usage

Sampler = Callable[[int], Sample]
# A timer makes a number of calls and returns the seconds that they took.
Timer = Callable[[Callable[[], object], int], float]

MOST_CALLS = 100_000
# How long to wait for idle threads at most, and how long they have to be idle.
SETTLING_SECONDS, IDLE_SECONDS = 0.1, 0.001
# Maximum relative difference of the limit between the two halves of the rounds.
MOST_DRIFT, MOST_TRIES = 0.1, 3


@dataclass(frozen=True)
class Effort:
    """How much to measure.

    Attributes:
        rounds: undisturbed samples of every candidate.
        least_rounds: samples taken regardless of the budget.
        most_rounds: maximum number of samples of a candidate that is disturbed repeatedly.
        budget_seconds: time limit for starting rounds.
        sample_seconds: minimum duration of a sample.
        slow_ratio, slow_seconds: a candidate whose call takes that many times as long as
            the fastest one's, and longer than that, is sampled only `least_rounds` times.
        warm_calls, warm_seconds: each candidate runs that often and that long before any sample.
    """

    rounds: int = 11
    least_rounds: int = 3
    most_rounds: int = 33
    budget_seconds: float = 10.0
    sample_seconds: float = 0.01
    slow_ratio: float = 8.0
    slow_seconds: float = 0.2
    warm_calls: int = 0
    warm_seconds: float = 0.0


def measure(
    candidates: Mapping[str, Sampler],
    effort: Effort,
    *,
    rng: np.random.Generator,
    clock: Callable[[], float] = time.monotonic,
    rest: Callable[[], None] | None = None,
) -> dict[str, list[Sample]]:
    """Return the samples of every candidate, including disturbed ones.

    Args:
        candidates: name to a function that makes a number of calls and returns a sample. Each has
            run before, so nothing is compiled or touched for the first time here.
        rng: draws the order within a round.
        clock: seconds, for the budget only.
        rest: waits until the process is idle; by default `settle`.
    """
    pause = settle if rest is None else rest
    began = clock()
    calls, taken = {}, {}
    for name, sample in candidates.items():
        pause()
        _warm(sample, effort)
        first = sample(1)
        calls[name] = calls_for(first.seconds, effort.sample_seconds)
        # The first call is a full sample only for a slow candidate.
        taken[name] = [first] if calls[name] == 1 else []
    while True:
        due = list(_due(taken, effort))
        if not due or (clock() - began > effort.budget_seconds and _least_met(taken, effort)):
            return taken
        for place in rng.permutation(len(due)):
            name = due[int(place)]
            pause()
            taken[name].append(candidates[name](calls[name]))


def measure_steadily(
    once: Callable[[], dict[str, list[Sample]]], limit: str
) -> dict[str, list[Sample]]:
    """Return once(), repeated if the machine's limit has drifted: the steadiest of three.

    Args:
        limit: the name of the limit among the candidates.
    """
    tries = []
    for _ in range(MOST_TRIES):
        samples = once()
        moved = drift([one.seconds for one in samples[limit]])
        tries.append((moved, samples))
        if moved <= MOST_DRIFT:
            break
    return min(tries, key=lambda one: one[0])[1]


def _warm(sample: Sampler, effort: Effort) -> None:
    spent = 0.0
    for _ in range(effort.warm_calls):
        spent += sample(1).seconds
    while effort.warm_calls and spent < effort.warm_seconds:
        spent += max(sample(1).seconds, 1e-6)


def calls_for(seconds: float, sample_seconds: float) -> int:
    """Return how many calls make a sample of at least `sample_seconds`."""
    return int(np.clip(np.ceil(sample_seconds / max(seconds, 1e-9)), 1, MOST_CALLS))


def _least_met(taken: Mapping[str, list[Sample]], effort: Effort) -> bool:
    return all(len(samples) >= effort.least_rounds for samples in taken.values())


def _due(taken: Mapping[str, list[Sample]], effort: Effort) -> Iterator[str]:
    """Yield the candidates to sample in the next round; none when all have enough samples."""
    calm = {name: sum(one.calm for one in samples) for name, samples in taken.items()}
    best = {name: min((one.seconds for one in s), default=0.0) for name, s in taken.items()}
    fastest = min(best.values(), default=0.0)
    slow = {
        name
        for name, seconds in best.items()
        if fastest and seconds > max(effort.slow_seconds, effort.slow_ratio * fastest)
    }
    if all(
        count >= effort.rounds
        or len(taken[name]) >= effort.most_rounds
        or (name in slow and len(taken[name]) >= effort.least_rounds)
        for name, count in calm.items()
    ):
        return
    for name, samples in taken.items():
        if name not in slow or len(samples) < effort.least_rounds:
            yield name


def by_the_clock(call: Callable[[], object], calls: int) -> float:
    """Return the wall time that a number of calls took, in seconds."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start


def sampler(call: Callable[[], object], timed: Timer = by_the_clock) -> Sampler:
    """Return a sampler of a function of this process."""

    def sample(calls: int) -> Sample:
        before = usage()
        seconds = timed(call, calls)
        after = usage()
        return Sample(
            seconds / calls,
            (after.user - before.user) / calls,
            (after.system - before.system) / calls,
            after.preemptions - before.preemptions,
            calls,
        )

    return sample


def settle() -> None:
    """Return once the threads of this process are idle, or after SETTLING_SECONDS.

    OpenMP and others let their threads spin for a while after a call.
    """
    until = time.monotonic() + SETTLING_SECONDS
    while time.monotonic() < until:
        busy = time.process_time()
        time.sleep(IDLE_SECONDS)
        # The processor time of running threads counts only after a tick of the system's timer,
        # which is up to 10 ms long.
        if time.process_time() - busy < 0.2 * IDLE_SECONDS and not others_run():
            return
