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
    """How long one call took, on average over those of one sample.

    Attributes:
        seconds: of wall time, a call; or of processor time, see `by_processor`.
        user_seconds: of all threads of the process, a call.
        system_seconds: likewise, inside the system.
        preemptions: involuntary context switches of the process during the whole sample.
        calls: how many there were.
    """

    seconds: float
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    preemptions: int = 0
    calls: int = 1

    @property
    def calm(self) -> bool:
        """Whether the process kept its processors."""
        return self.preemptions <= 1 + MOST_PREEMPTIONS_PER_SECOND * self.seconds * self.calls

    def by_processor(self) -> Sample:
        """Return the same with the processor time of all threads in place of the wall time."""
        return replace(self, seconds=self.user_seconds + self.system_seconds)


@dataclass(frozen=True)
class Summary:
    """What the clean samples say.

    Attributes:
        times: seconds a call of the clean samples, in the order they were taken.
        dropped: how many samples were left out as disturbed.
        noisy: too few were clean, so the least disturbed ones stand in for them.
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
    """Return what samples say once the disturbed ones are left out.

    A sample is disturbed if its process was preempted often, or if it lies beyond the far
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
    """Return the first and third quartile, both the value itself if there is but one."""
    if len(times) < 2:
        return times[0], times[0]
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return low, high


def drift(times: Sequence[float]) -> float:
    """Return by what share one half of samples, in the order they were taken, is slower.

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
    # Equal samples have no spread; the resolution of the clock must not make outliers of them.
    return high + FAR_QUARTILE_RANGES * max(high - low, 0.01 * high)
