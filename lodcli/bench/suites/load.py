"""`lod bench load`: an epoch of batches in random order, of lod and of other loaders."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lodcli.bench.measure.epochs import way
from lodcli.bench.measure.machine import require_memory
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import OURS, Task, Way, Work, in_this_process
from lodcli.bench.suites.cases import Case
from lodcli.bench.suites.ops import make_inputs, sizes_of
from lodcli.bench.suites.plan import Plan
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

EPOCH = "epoch"
# Maximum rows of a batch; a longer sequence is a batch by itself.
TOKENS = 4096


@dataclass(frozen=True)
class LoadPlan(Plan):
    """The epochs to measure."""

    def check(self, devices: Sequence[str]) -> None:
        """Raise UnsupportedError without torch, NotEnoughMemoryError if a case would not fit."""
        import lodcli.kernels.torch  # noqa: F401

        for case in self.cases:
            sizes = sizes_of(case, case.draw_lengths("load", 6))
            require_memory(6 * sizes.data + 8 * sizes.index, f"load {case.name}")

    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task:
        """See Plan."""
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        return load_task(case, Path(folder), peers)


def load_task(case: Case, folder: Path, peers: PeerSet) -> Task:
    """Return the task of an epoch, with lod and the peers; each has its own random order."""
    inputs = make_inputs("sum", case, sizes_of(case, case.draw_lengths()))
    inputs |= {"folder": str(folder), "tokens": TOKENS}
    others, skipped = peers.candidates("load", EPOCH, inputs)
    tensor = LoDTensor(inputs["data"], LoD([inputs["offsets"]]))
    io.write(folder / "rows.lod.h5", tensor, overwrite=True)
    ways = {
        "Batches": _way(folder / "rows.lod.h5", mmap=False),
        "Batches(mmap=True), unchecked": _way(folder / "rows.lod.h5", mmap=True),
    }
    moved = float(inputs["data"].nbytes)
    return Task(
        bench="load",
        op=EPOCH,
        parameters={**case.parameters(), "tokens": TOKENS, "folder": str(folder.parent)},
        candidates=[*in_this_process(OURS, ways), *others],
        work=Work(moved, "B", moved, "copy"),
        skipped=skipped,
        uses_files=True,
    )


def _way(path: Path, *, mmap: bool) -> Way:
    from lodcli.formats.loading.batches_torch import Batches

    batches = Batches(path, tokens=TOKENS, mmap=mmap)

    def epoch() -> Iterator[tuple[Any, int]]:
        return ((each.values.numpy(), len(each.cu_seqlens) - 1) for each in batches)

    return way(epoch)
