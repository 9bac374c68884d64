"""Statistics of samples: median, quartiles, and which samples were disturbed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

# A process with more involuntary context switches than this was disturbed; a single one is common,
# and too short to matter.
MOST_PREEMPTIONS_PER_SECOND = 40.0
# Tukey's far fence: this many quartile ranges above the third quartile.
FAR_QUARTILE_RANGES = 3.0
# Fewer undisturbed samples than this are not significant.
LEAST_CLEAN = 3
# Minimum number of samples to detect a trend.
LEAST_TO_DRIFT = 6


@dataclass(frozen=True)
class Sample:
    """The average duration of a call in one sample.

    Attributes:
        seconds: wall time per call; or processor time, see `by_processor`.
        user_seconds: user time of all threads of the process, per call.
        system_seconds: system time, likewise.
        preemptions: involuntary context switches of the process during the whole sample.
    """

    seconds: float
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    preemptions: int = 0
    calls: int = 1

    @property
    def calm(self) -> bool:
        """Whether the process was rarely preempted."""
        return self.preemptions <= 1 + MOST_PREEMPTIONS_PER_SECOND * self.seconds * self.calls

    def by_processor(self) -> Sample:
        """Return the sample with the processor time of all threads instead of the wall time."""
        return replace(self, seconds=self.user_seconds + self.system_seconds)


@dataclass(frozen=True)
class Summary:
    """The times of the undisturbed samples.

    Attributes:
        times: seconds per call of the undisturbed samples, in the order they were taken.
        dropped: number of disturbed samples that were left out.
        noisy: whether too few were undisturbed, so that the least disturbed ones are used.
    """

    times: tuple[float, ...]
    user_seconds: float
    system_seconds: float
    dropped: int
    noisy: bool

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def stddev(self) -> float:
        return statistics.stdev(self.times) if len(self.times) > 1 else 0.0

    @property
    def quartiles(self) -> tuple[float, float]:
        return quartiles(self.times)


def summarised(samples: Sequence[Sample]) -> Summary:
    """Return the summary of samples without the disturbed ones.

    A sample is disturbed if its process was preempted often, or if its time is beyond the far
    fence above all others: a sample can be too slow by accident, but not too fast.
    """
    calm = [one for one in samples if one.calm]
    fence = far_fence([one.seconds for one in calm])
    clean = [one for one in calm if one.seconds <= fence]
    noisy = len(clean) < min(LEAST_CLEAN, len(samples))
    if noisy:
        least = max(LEAST_CLEAN, len(samples) // 4)
        clean = sorted(samples, key=lambda one: (one.preemptions, one.seconds))[:least]
    return Summary(
        times=tuple(one.seconds for one in clean),
        user_seconds=statistics.fmean(one.user_seconds for one in clean),
        system_seconds=statistics.fmean(one.system_seconds for one in clean),
        dropped=len(samples) - len(clean),
        noisy=noisy,
    )


def quartiles(times: Sequence[float]) -> tuple[float, float]:
    """Return the first and third quartile; for a single value, that value twice."""
    if len(times) < 2:
        return times[0], times[0]
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return low, high


def drift(times: Sequence[float]) -> float:
    """Return by what fraction the medians of the first and the second half of samples differ.

    >>> round(drift([1.0, 1.0, 1.0, 1.2, 1.2, 1.2]), 9)
    0.2
    """
    if len(times) < LEAST_TO_DRIFT:
        return 0.0
    half = len(times) // 2
    medians = statistics.median(times[:half]), statistics.median(times[-half:])
    return max(medians) / min(medians) - 1


def far_fence(times: Sequence[float]) -> float:
    """Return the time above which a sample is an outlier."""
    if len(times) < LEAST_CLEAN:
        return float("inf")
    low, high = quartiles(times)
    # Equal samples have no spread; the clock resolution must not turn some into outliers.
    return high + FAR_QUARTILE_RANGES * max(high - low, 0.01 * high)
