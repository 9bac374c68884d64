"""Reports of `lod bench`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from lodcli.reports.common import Report


@dataclass(frozen=True)
class Change:
    """One measurement of lod, in both reports.

    Attributes:
        command: what was measured.
        old, new: median seconds.
        ratio: new over old.
        machine: the ratio for the machine's limit, measured in the same rounds; 1 if it was not.
        chance: the probability that code of equal speed would look at least as slow.
        verdict: slower, faster, same, or unclear: it changed, but most samples of one side were
            disturbed.
    """

    command: str
    old: float
    new: float
    ratio: float
    machine: float
    chance: float
    verdict: str


class Changes(Report):
    """How measurements changed, with --compare.

    Attributes:
        changes: one for each that both reports have.
    """

    changes: list[Change]


class Result(TypedDict):
    """One candidate of one measurement; the first keys are those of hyperfine's export.

    Attributes:
        command: what was measured.
        mean, stddev, median, user, system, min, max: seconds.
        times: seconds of each sample.
        exit_codes: zeros.
        parameters: of the measurement.
        bench, op, case: which measurement it is.
        library, label: which candidate.
        ours: whether it is lod.
        allocates: whether its result is in new memory.
        device, threads: where it ran.
        clock: what the seconds are: wall or processor time.
        q1, q3, iqr: quartiles of the times and their distance.
        samples, dropped: number of samples kept, and left out since they were disturbed.
        noisy: whether the machine was too busy for significant times.
        useful, unit: useful work of one run, and its unit.
        rate: useful work a second.
        limit, limit_rate: which limit of the machine holds, and its rate.
        fraction_of_limit: the rate relative to it.
        best_peer, ratio_to_best_peer: the fastest peer, and its time relative to lod's.
        digest: of the result.
        limit_times: seconds of the machine's limit, measured in the same rounds.
    """

    command: str
    mean: float
    stddev: float
    median: float
    user: float
    system: float
    min: float
    max: float
    times: list[float]
    exit_codes: list[int]
    parameters: dict[str, str]
    bench: str
    op: str
    case: str
    library: str
    label: str
    ours: bool
    allocates: bool
    device: str
    threads: int
    clock: str
    q1: float
    q3: float
    iqr: float
    samples: int
    dropped: int
    noisy: bool
    useful: float
    unit: str
    rate: float
    limit: str
    limit_rate: float | None
    fraction_of_limit: float | None
    best_peer: str | None
    ratio_to_best_peer: float | None
    digest: str
    limit_times: list[float]


class Benchmark(Report):
    """The report of a benchmark.

    Attributes:
        command: the command line.
        machine: processor, memory, GPU.
        versions: of the libraries.
        threads: numbers of threads that were measured.
        limits: rates of the machine.
        missing: peers that are not installed, and why.
        skipped: measurements that were left out, and why.
        failed: measurements that failed, and why.
        results: one for each candidate.
    """

    command: str
    machine: dict[str, Any]
    versions: dict[str, str]
    threads: list[int]
    limits: Any
    missing: dict[str, str]
    skipped: Any
    failed: dict[str, str]
    results: list[Result]
