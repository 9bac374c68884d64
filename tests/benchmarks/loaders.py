"""Time an epoch of lodcli.torch.Batches against those of other loaders, interleaved.

    python -m tests.benchmarks.loaders

100,000 sequences of about 50 rows of 16 float32 are made in a temporary folder, where 1.5 GB must
be free: a container, an Arrow folder of datasets, an archive of webdataset. Every loader gives
each sequence once, in an order of its own, in batches of at most 4,096 rows, in one process;
`memcpy` copies the same rows. Times are those of the processor. docs/torch.md holds the figures.
"""

from __future__ import annotations

import importlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lodcli
from lodcli.bench.measure.machine import machine

torch: Any = importlib.import_module("torch")
TOKENS, WIDTH, ROUNDS = 4096, 16, 3


def batched(items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield batches of arrays (n, 16): their rows, and where each begins."""
    held: list[Any] = []
    rows = 0
    for item in items:
        if held and rows + len(item) > TOKENS:
            yield joined(held)
            held, rows = [], 0
        held.append(item)
        rows += len(item)
    if held:
        yield joined(held)


def joined(held: list[Any]) -> tuple[Any, Any]:
    begins = np.concatenate([[0], np.cumsum([len(item) for item in held])])
    return torch.from_numpy(np.concatenate(held)), torch.from_numpy(begins)


def made(folder: Path) -> tuple[dict[str, Callable[[], Iterable[Any]]], int]:
    """Write the files; return the loaders and how many rows an epoch has."""
    datasets = importlib.import_module("datasets")
    webdataset = importlib.import_module("webdataset")
    generator = np.random.default_rng(0)
    lengths = np.maximum(1, generator.lognormal(np.log(50) - 0.405, 0.9, 100_000)).astype(np.int64)
    rows = generator.standard_normal((int(lengths.sum()), WIDTH), np.float32)
    content = {"x": lodcli.LoDTensor(rows, [lengths.tolist()])}
    lodcli.write(folder / "x.lod.h5", content)
    lodcli.write(folder / "x.tar", content, format_name="webdataset")
    lodcli.write(folder / "x", content, format_name="datasets")
    numpy = datasets.load_from_disk(str(folder / "x")).with_format("numpy")

    def of_lod(**options: Any) -> Callable[[], Iterable[Any]]:
        batches = lodcli.torch.Batches(folder / "x.lod.h5", tokens=TOKENS, **options)
        return lambda: batches

    def of_webdataset() -> Iterable[Any]:
        found = webdataset.WebDataset(str(folder / "x.tar"), shardshuffle=False)
        return batched(one["x.npy"] for one in found.shuffle(1000).decode())

    def of_datasets() -> Iterable[Any]:
        return batched(one["x"] for one in numpy.shuffle(seed=0))

    def by_batches() -> Iterable[Any]:
        chunks = numpy.shuffle(seed=0).iter(batch_size=TOKENS // 50)
        return batched(item for chunk in chunks for item in chunk["x"])

    def of_memory() -> Iterable[Any]:
        per = TOKENS * 64
        whole = rows.reshape(-1).view(np.uint8)
        return ((whole[at : at + per].copy().reshape(-1, 64),) for at in range(0, whole.size, per))

    loaders = {
        "lod": of_lod(),
        "lod mmap=True": of_lod(mmap=True),
        "memcpy": of_memory,
        "webdataset": of_webdataset,
        "datasets": of_datasets,
        "datasets, by batches": by_batches,
    }
    return loaders, len(rows)


def main() -> None:
    """Print the machine and the times."""
    print(machine(), torch.__version__)
    with tempfile.TemporaryDirectory() as name:
        loaders, rows = made(Path(name))
        times: dict[str, list[float]] = {name: [] for name in loaders}
        for _ in range(ROUNDS):
            for name, loader in loaders.items():
                start = time.process_time()
                seen = sum(len(batch[0]) for batch in loader())
                times[name].append(time.process_time() - start)
                if seen != rows:
                    raise RuntimeError(f"{name}: {seen} rows of {rows}")
    ours = statistics.median(times["lod"])
    for name, each in times.items():
        middle = statistics.median(each)
        print(f"  {name:24} {middle:8.2f} s (least {min(each):.2f})  {middle / ours:.2f}")


if __name__ == "__main__":
    main()
