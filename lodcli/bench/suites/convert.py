"""`lod bench convert`: conversions to lod's container and back, against native libraries.

Reading starts from a file in the page cache, writing from arrays in memory; both end with a
file. Every result is read back and compared.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lodcli.bench.measure.checks import Result
from lodcli.bench.measure.machine import require_memory
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import COPY, OURS, Task, Way, Work, in_this_process
from lodcli.bench.suites.cases import Case
from lodcli.bench.suites.plan import Plan
from lodcli.formats.core import io
from lodcli.formats.core.format import Stored
from lodcli.formats.core.table import TABLE
from lodcli.formats.items.indexed_copy import in_place
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform.files import send
from lodcli.kernels.tensor.lod_tensor import LoDTensor

FORMATS = ("jsonl", "arrow", "parquet", "megatron", "paddle", "npz", "safetensors")
LOD = "lod"
CONVERSIONS = [
    *(f"{name}_to_{LOD}" for name in FORMATS),
    *(f"{LOD}_to_{name}" for name in FORMATS),
    f"{LOD}_to_{LOD}",
]
# Approximate bytes of a number and its comma in text.
TEXT_BYTES = 10


@dataclass(frozen=True)
class ConvertPlan(Plan):
    """The conversions of files of a dtype to measure."""

    dtype: str

    def check(self, devices: Sequence[str]) -> None:
        """Raise NotEnoughMemoryError if a case would not fit."""
        for case in self.cases:
            # Peers hold the text, the parsed values, and Python objects.
            needed = case.rows * case.features * (2 * TEXT_BYTES + 80)
            require_memory(needed, f"convert {case.name}")

    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task:
        """See Plan."""
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        return convert_task(op, case, np.dtype(self.dtype), Path(folder), peers)


def make_tensor(case: Case, dtype: np.dtype[Any]) -> LoDTensor:
    """Return rows of one value: token ids, or measurements of six digits."""
    rng = np.random.default_rng(case.seed + 1)
    offsets = case.offsets()
    count = int(offsets[-1])
    if dtype.kind in "iu":
        data = rng.integers(0, min(50_000, np.iinfo(dtype).max), count).astype(dtype)
    else:
        data = np.round(rng.standard_normal(count), 6).astype(dtype)
    return LoDTensor(data, LoD([offsets]))


def convert_task(op: str, case: Case, dtype: np.dtype[Any], folder: Path, peers: PeerSet) -> Task:
    """Return the task of converting one file, with lod and the peers."""
    source, _, target = op.partition("_to_")
    tensor = make_tensor(case, dtype)
    ours_in, ours_out = folder / f"in{_ending(source)}", folder / f"out{_ending(target)}"
    _write(ours_in, tensor, source)
    inputs = {
        "source": str(ours_in),
        "target": str(folder / f"peer{_ending(target)}"),
        "data": tensor.data,
        "offsets": tensor.lod.levels[0],
    }
    others, skipped = peers.candidates("convert", op, inputs)
    size_bytes = sum(path.stat().st_size for path in _files(ours_in))
    parameters = {
        **case.parameters(),
        "features": 1,
        "dtype": dtype.name,
        "source_bytes": size_bytes,
        "folder": str(folder.parent.parent),
    }
    return Task(
        bench="convert",
        op=op,
        parameters=parameters,
        candidates=[
            *in_this_process(OURS, {"": _ours(ours_in, ours_out, target, dtype)}),
            *in_this_process(COPY, _copies(ours_in, folder, dtype)),
            *others,
        ],
        work=Work(float(size_bytes), "B", float(size_bytes), "cp"),
        skipped=skipped,
        uses_files=True,
    )


def _ending(name: str) -> str:
    return TABLE[_name(name)].endings[0]


def _name(name: str) -> str:
    return "lod.h5" if name == LOD else name


def _write(path: Path, tensor: LoDTensor, name: str) -> None:
    if name == "jsonl":
        # JSON objects, which every library reads; few read lists at the top level.
        offsets = tensor.lod.levels[0]
        with path.open("w") as file:
            for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
                numbers = ",".join(map(repr, tensor.data[start:stop].tolist()))
                file.write(f'{{"data":[{numbers}]}}\n')
        return
    io.write(path, tensor, format_name=_name(name), overwrite=True)


def _ours(source: Path, target: Path, name: str, dtype: np.dtype[Any]) -> Way:
    def call() -> None:
        with io.open_file(source) as file:
            opened = file.source
            whole = in_place(opened, [spec.name for spec in opened.schema])
            io.write_batches(
                target,
                opened.schema,
                opened.batches(),
                format_name=_name(name),
                overwrite=True,
                stored=None if whole is None else Stored(whole, iter),
            )

    return call, lambda _: arrays_of(target, dtype)


def arrays_of(path: Path, dtype: np.dtype[Any]) -> Result:
    """Return the values and offsets of a file, read by lod.

    Values are cast, since text has no dtype: 0.189053 differs between float32 and float64.
    """
    (item,) = io.read_all(path).values()
    assert isinstance(item, LoDTensor)
    # The finest level: Megatron files have a level of documents above it.
    return [item.data.astype(dtype, copy=False), item.lod.levels[-1]]


def _copies(source: Path, folder: Path, dtype: np.dtype[Any]) -> dict[str, Way]:
    """Return plain copies of the bytes: one like cp, one that is synced to the disk."""
    targets = [(path, folder / f"copy-{path.name}") for path in _files(source)]

    def copy(*, sync: bool) -> None:
        for path, target in targets:
            with path.open("rb") as left, target.open("wb") as right:
                size = os.fstat(left.fileno()).st_size
                sent = 0
                while part := send(left.fileno(), right.fileno(), size - sent, sent):
                    sent += part
                if sent < size:
                    shutil.copyfileobj(left, right)
                if sync:
                    os.fsync(right.fileno())

    def arrays(_: Any) -> Result:
        copied = targets[0][1]
        return arrays_of(copied, dtype)

    return {
        "": (lambda: copy(sync=False), arrays),
        "and fsync": (lambda: copy(sync=True), arrays),
    }


def _files(path: Path) -> list[Path]:
    """Return all files of a data set: Megatron keeps its tokens beside the index."""
    return [path, path.with_suffix(".bin")] if path.suffix == ".idx" else [path]
