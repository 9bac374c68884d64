"""What a benchmark measures: checked by the command, run by the measuring process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import Task
from lodcli.bench.suites.cases import Case


@dataclass(frozen=True)
class Plan(ABC):
    """The ops and cases to measure.

    Attributes:
        folder: for files; None: that of temporary files.
    """

    ops: Sequence[str]
    cases: Sequence[Case]
    folder: str | None = field(default=None, kw_only=True)

    @property
    def pieces(self) -> list[tuple[str, Case]]:
        """Each op and case, in the order of the measurements."""
        return [(op, case) for case in self.cases for op in self.ops]

    @abstractmethod
    def check(self, devices: Sequence[str]) -> None:
        """Raise an error if it cannot be measured on these devices of this machine."""

    @abstractmethod
    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task | None:
        """Return the task of one op on one case; None if it is not measured on this device.

        Args:
            opened: closes what stays open during the measurement.
        """
