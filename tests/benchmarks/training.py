"""Time lodcli.torch against torch: ops forward and backward, and loading, interleaved.

    python -m tests.benchmarks.training

Results are compared before anything is timed. docs/torch.md holds the figures.
"""

from __future__ import annotations

import importlib
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import lodcli
from lodcli.bench.measure.machine import machine
from lodcli.bench.suites.cases import KERNEL_CASES

Ways = dict[str, Callable[[], Any]]
ROUNDS = 7
torch: Any = importlib.import_module("torch")


def timed(title: str, ways: Ways) -> None:
    """Print the times of each way; the first is ours, and results are those of its first call."""
    wanted = next(iter(ways.values()))()
    for way in ways.values():
        for found, right in zip(way(), wanted, strict=True):
            torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name in random.sample(list(ways), len(ways)):
            start = time.perf_counter()
            ways[name]()
            times[name].append(time.perf_counter() - start)
    ours = statistics.median(times["lod"])
    print(title)
    for name, each in times.items():
        middle = statistics.median(each)
        print(
            f"  {name:24} {middle * 1e3:9.1f} ms (least {min(each) * 1e3:.1f})  {middle / ours:.2f}"
        )


def ops() -> None:
    offsets = torch.from_numpy(np.array(KERNEL_CASES["B1"].offsets()))
    count = offsets.numel() - 1
    lengths = offsets.diff()
    ids = torch.repeat_interleave(torch.arange(count), lengths)
    rows = torch.randn(int(offsets[-1]), 64, requires_grad=True)
    upstream, pooled = torch.randn_like(rows), torch.randn(count, 64)
    longest = int(lengths.max())

    def nested() -> Any:
        return torch.nested.nested_tensor_from_jagged(rows, offsets)

    def both(forward: Callable[[], Any], flow: Any) -> Callable[[], Any]:
        def call() -> Any:
            rows.grad = None
            found = forward()
            found.backward(flow)
            return found.detach(), rows.grad

        return call

    def composed() -> Any:
        most = torch.segment_reduce(rows.detach(), "max", offsets=offsets, axis=0)
        powers = (rows - most[ids]).exp()
        return powers / torch.segment_reduce(powers, "sum", offsets=offsets, axis=0)[ids]

    ways = {
        "lod": both(lambda: lodcli.torch.softmax(nested()).values(), upstream),
        "torch composed": both(composed, upstream),
    }
    if find_spec("fbgemm_gpu"):
        importlib.import_module("fbgemm_gpu")

        jagged = torch.ops.fbgemm.jagged_softmax
        ways["fbgemm"] = both(lambda: jagged(rows, offsets, longest)[0], upstream)
    timed("softmax, forward and backward", ways)
    timed(
        "sum, forward and backward",
        {
            "lod": both(lambda: lodcli.torch.sum(nested()), pooled),
            "torch segment_reduce": both(
                lambda: torch.segment_reduce(rows, "sum", offsets=offsets, axis=0, initial=0),
                pooled,
            ),
            "torch index_add": both(lambda: torch.zeros(count, 64).index_add(0, ids, rows), pooled),
        },
    )


class Lists:
    """A list of tensors, as a dataset."""

    def __init__(self, tensors: list[Any]) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors)

    def __getitem__(self, place: int) -> Any:
        return self.tensors[place]


def padded(items: list[Any]) -> Any:
    box = torch.nn.utils.rnn.pad_sequence(items, batch_first=True)
    return box, torch.tensor([len(item) for item in items])


def loading() -> None:
    generator = np.random.default_rng(0)
    lengths = np.maximum(1, generator.lognormal(np.log(50) - 0.405, 0.9, 100_000)).astype(np.int64)
    rows = generator.standard_normal((int(lengths.sum()), 16), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sequences.lod.h5")
        lodcli.write(path, lodcli.LoDTensor(rows, [lengths.tolist()]))
        held = lodcli.torch.Dataset(path, in_memory=True)
        mapped = lodcli.torch.Dataset(path, mmap=True)
        lists = Lists(
            [torch.from_numpy(part.copy()) for part in np.split(rows, lengths.cumsum()[:-1])]
        )
        order = generator.permutation(lengths.size)
        for size in (32, 256):
            batches = [part.tolist() for part in np.split(order, range(size, order.size, size))]

            def epoch(data: Any, collate: Any, batches: Any = batches) -> Callable[[], Any]:
                def call() -> Any:
                    loader = torch.utils.data.DataLoader(
                        data, batch_sampler=batches, collate_fn=collate, num_workers=1
                    )
                    return [torch.tensor(sum(1 for _ in loader))]

                return call

            timed(
                f"an epoch of 100,000 sequences in batches of {size}, in random order, 1 worker",
                {
                    "lod": epoch(held, lodcli.torch.collate("jagged")),
                    "lod varlen": epoch(held, lodcli.torch.collate("varlen")),
                    "lod padded": epoch(held, lodcli.torch.collate("padded")),
                    "lod mmap": epoch(mapped, lodcli.torch.collate("jagged")),
                    "torch list, pad_sequence": epoch(lists, padded),
                },
            )


def main() -> None:
    warnings.simplefilter("ignore")
    print(machine(), torch.__version__, f"{torch.get_num_threads()} threads")
    ops()
    loading()


if __name__ == "__main__":
    main()
