"""`lod bench io` and `slice`: writing the container, reading and checking all, and sequences."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lodcli.bench.measure.machine import require_memory
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import OURS, Task, Way, Work, in_this_process
from lodcli.bench.suites.cases import Case
from lodcli.bench.suites.ops import Inputs, make_inputs, sizes_of
from lodcli.bench.suites.plan import Plan
from lodcli.formats.core import io
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import DEFAULT_NAME
from lodcli.formats.items.indexed_copy import in_place
from lodcli.formats.loading.file import open_source
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# The ops, and the number of sequences looked up in one call.
IO_OPS = ("write", "write_synced", "read", "verify", "sequence", "open_and_sequence")
LOOK_UPS = 20
COMPRESSED = "deflate"


@dataclass(frozen=True)
class FilesPlan(Plan):
    """The ops on files to measure."""

    bench: str

    def check(self, devices: Sequence[str]) -> None:
        """Raise NotEnoughMemoryError if a case would not fit."""
        for case in self.cases:
            sizes = sizes_of(case, case.draw_lengths(self.bench, 4))
            require_memory(4 * sizes.data + 8 * sizes.index, f"{self.bench} {case.name}")

    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task:
        """See Plan."""
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        return files_task(self.bench, op, case, Path(folder), peers, opened)


def files_task(
    bench: str, op: str, case: Case, folder: Path, peers: PeerSet, opened: ExitStack
) -> Task:
    """Return the task of one op on files of the same rows, with lod and the peers.

    Args:
        opened: closes files that stay open during the measurement.
    """
    inputs = make_inputs("sum", case, sizes_of(case, case.draw_lengths()))
    rng = np.random.default_rng(case.seed)
    inputs["wanted"] = rng.choice(np.flatnonzero(inputs["full"]), LOOK_UPS)
    inputs["folder"] = str(folder)
    others, skipped = peers.candidates("io", op, inputs)
    moved = inputs["data"].nbytes
    if "sequence" in op:
        lengths = np.diff(inputs["offsets"])
        moved = int(lengths[inputs["wanted"]].sum()) * inputs["data"].itemsize * case.features
    parameters = {**case.parameters(), "folder": str(folder.parent.parent)}
    if "sequence" in op:
        parameters["look_ups"] = LOOK_UPS
    return Task(
        bench=bench,
        op=op,
        parameters=parameters,
        candidates=[*in_this_process(OURS, ours(op, inputs, folder, opened)), *others],
        work=Work(float(moved), "B", float(moved), "copy" if op == "read" else None),
        skipped=skipped,
        uses_files=True,
    )


def ours(op: str, inputs: Inputs, folder: Path, opened: ExitStack) -> dict[str, Way]:
    """Return lod's implementations: the plain layout, and for reading the compressed one."""
    tensor = LoDTensor(inputs["data"], LoD([inputs["offsets"]]))
    ways: dict[str, Way] = {}
    for label, compression in (("", None), (COMPRESSED, COMPRESSED)):
        path = folder / f"ours{compression or ''}.lod.h5"
        options = WriteOptions(compression)
        io.write(path, tensor, options=options, overwrite=True)
        ways[label] = _way(op, path, tensor, options, inputs["wanted"].tolist(), opened)
    return ways


def _way(
    op: str,
    path: Path,
    tensor: LoDTensor,
    options: WriteOptions,
    wanted: list[int],
    opened: ExitStack,
) -> Way:
    def whole(_: Any = None) -> list[Any]:
        item = io.read(path)
        assert isinstance(item, LoDTensor)
        return [item.data, item.lod.levels[0]]

    def verify() -> None:
        with io.open_file(path) as file:
            (spec,) = file.source.schema
            rows = in_place(file.source, [spec.name])
            assert rows is not None
            deque(rows.check_in_place(spec.name) or (), 0)

    if op == "verify":
        return verify, lambda _: []
    if op in ("write", "write_synced"):  # lod has synced its file when it returns
        return lambda: io.write(path, tensor, options=options, overwrite=True), whole
    if op == "read":
        return whole, lambda found: found
    if op == "sequence":
        stored = opened.enter_context(open_source(path))[DEFAULT_NAME]
        return lambda: [stored[n].data for n in wanted], list

    def each() -> list[Any]:
        found = []
        for number in wanted:
            with open_source(path) as file:
                found.append(file[DEFAULT_NAME][number].data)
        return found

    return each, list
