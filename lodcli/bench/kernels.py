"""`lod bench kernels`: the sequence ops against other people's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lodcli.bench.cases import Case
from lodcli.bench.machine import require_memory
from lodcli.bench.ops import (
    load_kernels,
    make_inputs,
    needed_bytes,
    ours,
    sizes_of,
    tolerance_of,
    work_of,
)
from lodcli.bench.peer_set import PeerSet
from lodcli.bench.tasks import OURS, Task, in_this_process


@dataclass(frozen=True)
class KernelPlan:
    """Which ops on which cases."""

    ops: Sequence[str]
    cases: Sequence[Case]
    folder: None = None

    def check(self) -> None:
        """Raise NotEnoughMemoryError if one of them would not fit."""
        for case in self.cases:
            sizes = sizes_of(case, case.draw_lengths())
            for op in self.ops:
                require_memory(needed_bytes(op, sizes), f"kernels {op} {case.name}")

    def tasks(self, peers: PeerSet) -> Iterator[Task]:
        """Yield one task for each op and case; its arrays live until the next one."""
        for case in self.cases:
            for op in self.ops:
                yield kernel_task(op, case, peers)


def kernel_task(op: str, case: Case, peers: PeerSet) -> Task:
    """Return ours and the peers doing one op on one case."""
    lengths = case.draw_lengths()
    sizes = sizes_of(case, lengths)
    inputs = make_inputs(op, case, sizes)
    others, skipped = peers.candidates("kernels", op, inputs)
    load_kernels()
    return Task(
        bench="kernels",
        op=op,
        parameters=case.parameters(),
        candidates=[*in_this_process(OURS, ours(op, inputs)), *others],
        work=work_of(op, sizes),
        tolerance=tolerance_of(op, lengths),
        skipped=skipped,
    )
