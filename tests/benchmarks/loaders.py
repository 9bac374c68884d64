"""Time an epoch in random order through torch's DataLoader: lod, np.memmap and other loaders.

    python -m tests.benchmarks.loaders tokens            # 1,000,000 sequences of 1 to 63 int32
    python -m tests.benchmarks.loaders frames 10000      # 10,000 sequences of 300 x 80 float32

Batches have 256 sequences of tokens, or 32 of frames: their rows and cu_seqlens. Loaders slower
than lod by more than ten times read a tenth. Every epoch runs in a process of its own, whose time
counts that of its workers; files are in the page cache. Prints the most of some alternated rounds:
thousands of sequences for each second of processor time, and of wall time. docs/torch.md holds the
figures. The interpreter LOD_BENCH_STREAMING_PYTHON has MosaicML streaming; without, it is left out.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 3
WORKERS = (0, 2, 4)
SIZES = {"tokens": 1_000_000, "frames": 10_000}
BATCH = {"tokens": 256, "frames": 32}
WAYS = {
    "`Batches`": 1,
    "`Batches(mmap=True)`": 1,
    "`Dataset(mmap=True)`, `BatchSampler`": 1,
    "`Dataset`, `BatchSampler`": 1,
    "`np.memmap`, indexed in a loop": 1,
    "MosaicML streaming": 10,
    "datasets, format numpy": 10,
    "WebDataset, `.shuffle(1000)`": 10,
}
STREAMING = os.environ.get("LOD_BENCH_STREAMING_PYTHON")


def concatenated(items: Iterable[Any], name: str | None = None) -> Any:
    """Return the rows of a batch and its cu_seqlens."""
    import torch

    rows = [item if name is None else item[name] for item in items]
    bounds = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return torch.from_numpy(np.concatenate(rows)), torch.from_numpy(bounds)


class Mapped:
    """Rows in a file of NumPy, opened by each worker process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bounds = folder, np.load(folder / "bounds.npy")
        self.rows: Any = None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, place: int) -> Any:
        if self.rows is None:
            self.rows = np.load(self.folder / "rows.npy", mmap_mode="r")
        return self.rows[self.bounds[place] : self.bounds[place + 1]]


def loader(way: str, folder: Path, size: int, workers: int) -> Any:
    """Return a DataLoader of an epoch."""
    from torch.utils.data import DataLoader

    make = partial(DataLoader, num_workers=workers)
    if way.startswith("`"):
        if "memmap" in way:
            data: Any = Mapped(folder)
            return make(data, batch_size=size, shuffle=True, collate_fn=concatenated)
        from lodcli.torch import Batches, BatchSampler, Dataset, collate

        path, mmap = folder / "rows.lod.h5", "mmap" in way
        if "Batches" in way:
            return make(Batches(path, items=size, mmap=mmap), batch_size=None)
        dataset = Dataset(path, mmap=mmap)
        sampler: Any = BatchSampler(dataset, items=size)
        return make(dataset, batch_sampler=sampler, collate_fn=collate("varlen"))
    if way.startswith("datasets"):
        data = importlib.import_module("datasets").load_from_disk(str(folder / "datasets"))
        collate_fn = partial(concatenated, name="x")
        data = data.with_format("numpy")
        return make(data, batch_size=size, shuffle=True, collate_fn=collate_fn)
    if way.startswith("WebDataset"):
        archives = sorted(map(str, folder.glob("*.tar")))
        data = importlib.import_module("webdataset").WebDataset(archives, shardshuffle=8)
        data = data.shuffle(1000).decode()
        data = data.batched(size, collation_fn=partial(concatenated, name="x.npy"))
        return make(data, batch_size=None)
    streaming = importlib.import_module("streaming")
    data = streaming.StreamingDataset(local=str(folder / "mds"), shuffle=True, batch_size=size)
    return make(data, batch_size=size, collate_fn=partial(concatenated, name="x"))


def make_files(case: str, count: int, folder: Path) -> None:
    """Write the same sequences in the format of each loader."""
    import pyarrow as pa

    import lodcli

    random = np.random.default_rng(0)
    lengths = random.integers(1, 64, count) if case == "tokens" else np.full(count, 300)
    bounds = np.concatenate([[0], lengths.cumsum()])
    total = int(bounds[-1])
    if case == "tokens":
        rows: Any = random.integers(0, 50_000, total).astype(np.int32)
    else:
        rows = random.standard_normal((total, 80), np.float32)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "bounds.npy", bounds)
    lodcli.write(folder / "rows.lod.h5", lodcli.LoDTensor.from_offsets(rows, bounds))
    values: Any = pa.array(rows.reshape(-1))
    if rows.ndim == 2:
        values = pa.FixedSizeListArray.from_arrays(values, rows.shape[1])
    table = pa.table({"x": pa.LargeListArray.from_arrays(pa.array(bounds), values)})
    importlib.import_module("datasets").Dataset(table).save_to_disk(str(folder / "datasets"))
    archive = str(folder / "rows-%05d.tar")
    webdataset = importlib.import_module("webdataset")
    with webdataset.ShardWriter(archive, maxcount=-(-count // 8), verbose=0) as writer:
        for number, part in enumerate(np.split(rows, bounds[1:-1])):
            writer.write({"__key__": f"{number:09}", "x.npy": part})


def make_streaming(folder: Path) -> None:
    """Write the sequences in the format MDS."""
    streaming, items = importlib.import_module("streaming"), Mapped(folder)
    with streaming.MDSWriter(out=str(folder / "mds"), columns={"x": "ndarray"}) as writer:
        for place in range(len(items)):
            writer.write({"x": np.ascontiguousarray(items[place])})


def processor_seconds() -> float:
    """Return the processor time of this process and of its workers that have ended."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(each)[:2]) for each in who)


def epoch(way: str, folder: Path, size: int, workers: int, share: int) -> None:
    """Print the number of sequences and the seconds of an epoch, or of a share of it."""
    importlib.import_module("torch").set_num_threads(1)
    batches = loader(way, folder, size, workers)
    most = (len(np.load(folder / "bounds.npy", mmap_mode="r")) - 1) // share
    cpu, wall, count = processor_seconds(), time.perf_counter(), 0
    for batch in batches:
        count += len(batch[1]) - 1
        if count >= most:
            break
    del batch, batches
    gc.collect()  # ends the workers
    print(json.dumps([count, processor_seconds() - cpu, time.perf_counter() - wall]))


def in_process(function: Callable[..., None], *args: Any, python: str = sys.executable) -> str:
    """Return the output of a function in a separate process."""
    given = json.dumps([function.__name__, *map(str, args)])
    command = [python, "-m", "tests.benchmarks.loaders", given]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip().rpartition("\n")[2]


def main() -> None:
    if sys.argv[1].startswith("["):
        name, *args = json.loads(sys.argv[1])
        if name == "make_streaming":
            make_streaming(Path(args[0]))
        else:
            epoch(args[0], Path(args[1]), *map(int, args[2:]))
        return
    case = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else SIZES[case]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(case, count, folder)
        ways = {way: share for way, share in WAYS.items() if STREAMING or "Mosaic" not in way}
        if STREAMING:
            in_process(make_streaming, folder, python=STREAMING)
        best: dict[tuple[str, int], tuple[float, float]] = {}
        for _ in range(ROUNDS):
            for workers in WORKERS:
                for way, share in ways.items():
                    python = (STREAMING or "") if "Mosaic" in way else sys.executable
                    args = way, folder, BATCH[case], workers, share
                    found, *seconds = json.loads(in_process(epoch, *args, python=python))
                    now = [found / each / 1000 for each in seconds]
                    before = best.get((way, workers), (0.0, 0.0))
                    best[way, workers] = max(before[0], now[0]), max(before[1], now[1])
    print(f"| {case} | {' | '.join(f'{each} workers' for each in WORKERS)} |")
    print(f"|---|{'---|' * len(WORKERS)}")
    for way in ways:
        cells = ("{:.3g} ({:.3g})".format(*best[way, workers]) for workers in WORKERS)
        print(f"| {way} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
