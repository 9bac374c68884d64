"""`lod bench kernels`: the sequence ops against other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from lodcli.bench.measure.machine import require_memory
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import OURS, Task, in_this_process
from lodcli.bench.suites.cases import Case
from lodcli.bench.suites.ops import (
    ROWS,
    Inputs,
    Sizes,
    make_inputs,
    needed_bytes,
    ops_of,
    ours,
    reference,
    sizes_of,
    tolerance_of,
    work_of,
)
from lodcli.bench.suites.plan import Plan
from lodcli.kernels.errors import SelectionError


@dataclass(frozen=True)
class KernelPlan(Plan):
    """The ops and cases to measure."""

    def check(self, devices: Sequence[str]) -> None:
        """Raise NotEnoughMemoryError if a case would not fit.

        Raises:
            SelectionError: an op is not measured on these devices.
        """
        there = ops_of(devices)
        for op in self.ops:
            if op not in there:
                raise SelectionError(f"--op {op} goes with --device cuda")
        for case in self.cases:
            sizes = sizes_of(case, case.draw_lengths(f"kernels {self.ops[0]}", 5))
            for op in self.ops:
                require_memory(needed_bytes(op, sizes), f"kernels {op} {case.name}")

    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task | None:
        """See Plan."""
        return kernel_task(op, case, peers) if op in ops_of([peers.device]) else None


def kernel_task(op: str, case: Case, peers: PeerSet) -> Task:
    """Return the task of one op on one case, with lod and the peers."""
    lengths = case.draw_lengths()
    sizes = sizes_of(case, lengths)
    inputs = make_inputs(op, case, sizes)
    there = _on_gpu(op, case, sizes, inputs) if peers.device == "cuda" else None
    others, skipped = peers.candidates("kernels", op, there or inputs)
    work = work_of(op, sizes)
    return Task(
        bench="kernels",
        op=op,
        parameters=case.parameters(),
        candidates=[*in_this_process(OURS, ours(op, inputs, there), peers.timed), *others],
        work=replace(work, limit="gemm" if work.unit == "FLOP" else "copy") if there else work,
        tolerance=tolerance_of(op, lengths),
        skipped=skipped,
        device=peers.device,
        witness=reference(op, inputs) if there else None,
    )


def _on_gpu(op: str, case: Case, sizes: Sizes, inputs: Inputs) -> Inputs:
    from lodcli.bench.measure import gpu_cupy

    gpu_cupy.require_memory(needed_bytes(op, sizes), f"kernels {op} {case.name}")
    return gpu_cupy.moved(inputs, ROWS)
