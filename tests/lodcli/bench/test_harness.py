"""Timing, on clocks and candidates that are made up: no test here depends on real time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from lodcli.bench.measure import harness
from lodcli.bench.measure.harness import (
    MOST_TRIES,
    Effort,
    calls_for,
    measure,
    measure_steadily,
    sampler,
)
from lodcli.bench.measure.samples import Sample, drift, summarised


class Clock:
    """A clock that stands still unless someone works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """A candidate whose calls take a given time, and are sometimes disturbed."""

    def __init__(self, clock: Clock, seconds: float, log: list[str], name: str) -> None:
        self.clock, self.seconds, self.log, self.name = clock, seconds, log, name
        self.preemptions = 0
        self.calls: list[int] = []

    def __call__(self, calls: int) -> Sample:
        self.clock.now += self.seconds * calls
        self.log.append(self.name)
        self.calls.append(calls)
        return Sample(self.seconds, preemptions=self.preemptions, calls=calls)


def run(seconds: dict[str, float], effort: Effort) -> tuple[dict[str, Worker], list[str], Clock]:
    clock, log = Clock(), list[str]()
    workers = {name: Worker(clock, each, log, name) for name, each in seconds.items()}
    samplers: dict[str, Callable[[int], Sample]] = dict(workers)
    taken = measure(
        samplers, effort, rng=np.random.default_rng(0), clock=clock, rest=lambda: log.append("-")
    )
    assert taken.keys() == seconds.keys()
    return workers, log, clock


def test_rounds_take_turns_and_rest_before_every_sample() -> None:
    _, log, _ = run({"a": 0.01, "b": 0.01}, Effort(rounds=4, budget_seconds=9))
    assert log[::2] == ["-"] * (len(log) // 2)
    rounds = [set(log[i : i + 4]) for i in range(0, len(log), 4)]
    assert all(each == {"-", "a", "b"} for each in rounds)


def test_the_order_within_a_round_changes() -> None:
    _, log, _ = run({"a": 0.01, "b": 0.01}, Effort(rounds=40, budget_seconds=9))
    named = [name for name in log if name != "-"]
    first = {named[i] for i in range(2, len(named), 2)}
    assert first == {"a", "b"}


def test_a_quick_candidate_is_called_often_enough_to_be_timed() -> None:
    workers, _, _ = run({"quick": 1e-5}, Effort(rounds=3, sample_seconds=0.01))
    assert workers["quick"].calls == [1, 1000, 1000, 1000]
    assert calls_for(0.0, 1.0) == 100_000
    assert calls_for(5.0, 1.0) == 1


def test_a_slow_candidate_is_sampled_only_as_often_as_it_must() -> None:
    workers, _, _ = run({"a": 0.02, "slow": 1.0}, Effort(rounds=9, budget_seconds=1e9))
    assert len(workers["slow"].calls) == 3
    assert len(workers["a"].calls) == 9


def test_no_round_begins_after_the_budget_but_the_least_are_taken() -> None:
    workers, _, clock = run({"a": 2.0}, Effort(rounds=50, least_rounds=3, budget_seconds=1))
    assert len(workers["a"].calls) == 3
    assert clock.now == 6.0


def test_disturbed_samples_are_taken_again_up_to_a_limit() -> None:
    clock, log = Clock(), list[str]()
    worker = Worker(clock, 0.01, log, "a")
    worker.preemptions = 50
    effort = Effort(rounds=4, most_rounds=12, budget_seconds=1e9)
    taken = measure({"a": worker}, effort, rng=np.random.default_rng(0), clock=clock)
    assert len(taken["a"]) == 12


def test_settling_ends_when_other_threads_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([True, True, False, True])
    monkeypatch.setattr(harness, "others_run", lambda: next(runs))
    # The time of running threads is not counted yet.
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    harness.settle()
    assert next(runs)


def test_a_sample_of_this_process_counts_its_calls() -> None:
    calls: list[int] = []
    sample = sampler(lambda: calls.append(1))(7)
    assert len(calls) == 7
    assert sample.calls == 7
    assert sample.seconds > 0


def test_a_preempted_sample_is_dropped() -> None:
    samples = [Sample(1.0), Sample(1.1), Sample(1.05), Sample(9.0, preemptions=900)]
    found = summarised(samples)
    assert found.times == (1.0, 1.1, 1.05)
    assert (found.dropped, found.noisy) == (1, False)


def test_one_preemption_disturbs_nothing() -> None:
    assert Sample(0.001, preemptions=1).calm
    assert not Sample(0.001, preemptions=2).calm
    assert Sample(0.1, calls=10, preemptions=41).calm


def test_a_far_outlier_is_dropped_only_if_it_is_slow() -> None:
    usual = [Sample(1.0), Sample(1.02), Sample(0.98), Sample(1.01), Sample(0.99)]
    assert summarised([*usual, Sample(5.0)]).dropped == 1
    assert summarised([*usual, Sample(0.2)]).dropped == 0


def test_equal_samples_and_one_a_little_slower_are_all_kept() -> None:
    assert summarised([Sample(1.0)] * 5 + [Sample(1.02)]).dropped == 0


def test_too_few_calm_samples_make_a_summary_noisy() -> None:
    samples = [Sample(1.0 + n, preemptions=900 + n) for n in range(8)]
    found = summarised(samples)
    assert found.noisy
    assert found.times == (1.0, 2.0, 3.0)


def test_the_figures_of_a_summary_are_those_of_the_textbook() -> None:
    found = summarised([Sample(t, user_seconds=2 * t) for t in (4.0, 1.0, 3.0, 2.0)])
    assert (found.median, found.mean, found.quartiles) == (2.5, 2.5, (1.75, 3.25))

    assert found.stddev == pytest.approx(np.std([1, 2, 3, 4], ddof=1))
    assert found.user_seconds == 5.0


def test_a_candidate_is_warm_before_its_first_sample() -> None:
    effort = Effort(rounds=1, sample_seconds=0.01, warm_calls=3, warm_seconds=0.05)
    workers, _, _ = run({"quick": 0.01, "slow": 1.0}, effort)
    # Five calls are 0.05 s; then the first sample, which counts.
    assert workers["quick"].calls == [1] * 6
    assert workers["slow"].calls == [1] * 4


@pytest.mark.parametrize(
    ("slower", "runs", "kept"),
    [([0.05], 1, 0), ([0.3, 0.0], 2, 1), ([0.5, 0.2, 0.4], MOST_TRIES, 1)],
)
def test_all_is_measured_again_while_the_limit_moves(
    slower: list[float], runs: int, kept: int
) -> None:
    made: list[dict[str, list[Sample]]] = []

    def once() -> dict[str, list[Sample]]:
        late = 1 + slower[len(made)]
        made.append({"limit": [Sample(1.0)] * 4 + [Sample(late)] * 4, "lod": [Sample(2.0)]})
        return made[-1]

    assert measure_steadily(once, "limit") is made[kept]
    assert len(made) == runs


def test_a_few_samples_show_no_trend() -> None:
    assert drift([1.0, 1.0, 9.0, 9.0]) == 0
    assert drift([1.0, 9.0, 1.0, 1.0, 9.0, 1.0]) == 0
