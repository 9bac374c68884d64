"""One task and its candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lodcli.bench.measure.checks import Result
from lodcli.bench.measure.harness import Sampler, Timer, by_the_clock, sampler

LimitKind = Literal["read", "write", "copy", "fma", "gemm", "cp"]
# Candidates that are not peers: lod, the machine's limit, and the plain copy of a file.
OURS, LIMIT, COPY = "lod", "limit", "cp"
# The label of a candidate ends with this if it writes to a preallocated array.
OUT = "out="


@dataclass(frozen=True)
class Work:
    """The amount of work of a task.

    Attributes:
        useful: bytes or floating-point operations for actual rows, without padding.
        needed: the minimum to be moved or computed, including padding if the task requires it; the
            fraction of the limit is computed from it.
        limit: the machine's limit that applies; None: no measured one.
    """

    useful: float
    unit: Literal["B", "FLOP"]
    needed: float
    limit: LimitKind | None


@dataclass(frozen=True)
class Candidate:
    """An implementation of a task by a library, or a limit of the machine.

    Attributes:
        library: "lod", the name of a peer, or "limit".
        label: the function used, ending with "out=" if it writes to a given array.
        sample: makes some calls and times them.
        result: computes once and returns the arrays to compare; None: nothing to compare.
    """

    library: str
    label: str
    sample: Sampler
    result: Callable[[], Result] | None = None

    @property
    def name(self) -> str:
        return f"{self.library} {self.label}".strip()

    @property
    def into_out(self) -> bool:
        """Whether it writes to a preallocated array."""
        return self.label.endswith(OUT)


@dataclass(frozen=True)
class Task:
    """One op on one case.

    Attributes:
        bench: "kernels", "rnn", ..
        parameters: of the case, as in reports.
        candidates: those of lod first.
        tolerance: as for `checks.agreed`.
        skipped: the reason why each missing candidate cannot take part.
        witness: a reference computation on another device, compared with all but not timed.
        uses_files: whether it waits for files, which takes no processor time.
    """

    bench: str
    op: str
    parameters: dict[str, Any]
    candidates: Sequence[Candidate]
    work: Work
    tolerance: float = 0.0
    skipped: dict[str, str] = field(default_factory=dict)
    device: str = "cpu"
    witness: Callable[[], Result] | None = None
    uses_files: bool = False

    @property
    def title(self) -> str:
        where = "" if self.device == "cpu" else f" on {self.device}"
        return f"{self.bench} {self.op} {self.parameters.get('case', '')}".strip() + where


Way = tuple[Callable[[], Any], Callable[[Any], Result]]
"""A call, and what turns its value into the arrays that are compared."""


def in_this_process(
    library: str, ways: Mapping[str, Way], timed: Timer = by_the_clock
) -> list[Candidate]:
    """Return candidates that are functions of this process."""

    def result(call: Callable[[], Any], arrays: Callable[[Any], Result]) -> Callable[[], Result]:
        return lambda: arrays(call())

    return [
        Candidate(library, label, sampler(call, timed), result(call, arrays))
        for label, (call, arrays) in ways.items()
    ]
