"""Time calls on ten rows: every op and gradient, every kind of key, time steps, tensors, files.

    python -m tests.benchmarks.small_calls              # all, slowest last
    python -m tests.benchmarks.small_calls op. key.     # those whose names begin so

Prints microseconds of processor time of one thread, the least of some rounds, in each of which
every call is repeated for a millisecond. The rows are 10 of 4 float32, or of 1 number where an op
takes no more, in 3 sequences. Kernels are used as in a package that was built: a checkout compiles
those that it has not compiled yet, so its first run takes minutes.
"""

from __future__ import annotations

import operator
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import lodcli
from lodcli.commands.apply.arguments import described
from lodcli.kernels.native import load
from lodcli.kernels.ops.registry import OPS
from tests.kernels.ops.gradient_cases import CASES, gradient_of
from tests.kernels.ops.op_arguments import arguments
from tests.kernels.ops.test_call_counts import KEYS, LENGTHS, ten_rows

ROUNDS = 40
SAMPLE_SECONDS = 0.001
INTEGERS = ("sum", "mean", "sqrt", "max", "cumsum", "sort", "add")

Calls = Iterator[tuple[str, Callable[[], Any]]]


def ops() -> Calls:
    """Yield every op, and some on whole numbers."""
    for name, entry in OPS.items():
        yield f"op.{name}", partial(described(entry).function, **arguments(name, ten_rows(name)))
    whole = lodcli.LoDTensor(np.arange(40).reshape(10, 4), LENGTHS)
    for name in INTEGERS:
        yield f"op.{name} of int64", partial(OPS[name].load(), **arguments(name, whole))


def gradients() -> Calls:
    """Yield the gradient of every op that has one."""
    lod = lodcli.LoD.from_lengths([[3], *LENGTHS])
    for name in CASES:
        yield f"gradient.{name}", gradient_of(name, lod)


def keys() -> Calls:
    """Yield a key of every kind."""
    tensor = ten_rows("softmax")
    for name, (key, _) in KEYS.items():
        yield f"key.{name}", partial(operator.getitem, tensor, key)
    marked = tensor.with_data(tensor.data[:, 0] > 0)
    yield "key.a tensor of booleans", lambda: tensor[marked]
    places = lodcli.LoDTensor(np.array([0, 1, 0]), [[1, 1, 1]])
    yield "key.a tensor of places", lambda: tensor[places]
    yield "key.the last of each", lambda: tensor[:, -1]
    yield "key.a column", lambda: tensor[..., 0]
    yield "key.three in turn", lambda: list(tensor)


def time_steps() -> Calls:
    """Yield the operations of a TensorArray."""
    tensor = ten_rows("softmax")
    array, index_map = lodcli.TensorArray.unpack(tensor)
    written = lodcli.TensorArray(values=list(array))
    equal = lodcli.TensorArray.unstack(np.zeros((5, 2, 4), np.float32))
    yield "steps.unpack", lambda: lodcli.TensorArray.unpack(tensor)
    yield "steps.unpack and read", lambda: list(lodcli.TensorArray.unpack(tensor)[0])
    yield "steps.pack", lambda: array.pack(-1, index_map)
    yield "steps.pack of written", lambda: written.pack(-1, index_map)
    kept = lodcli.TensorArray(1)
    yield "steps.write", lambda: kept.write(0, tensor)
    yield "steps.read", lambda: array.read(0)
    yield "steps.stack", equal.stack
    yield "steps.unstack", lambda: lodcli.TensorArray.unstack(np.zeros((5, 2, 4), np.float32))


def tensors() -> Calls:
    """Yield what makes, compares and joins tensors."""
    tensor = ten_rows("softmax")
    rows, lod = tensor.data, tensor.lod
    same, other = tensor.copy(), lodcli.LoDTensor(rows, LENGTHS)
    lists, offsets = tensor.to_list(), np.array([0, 3, 5, 10])
    yield "tensor.of an index", lambda: lodcli.LoDTensor(rows, lod)
    yield "tensor.of lengths", lambda: lodcli.LoDTensor(rows, LENGTHS)
    yield "tensor.of offsets", lambda: lodcli.LoDTensor(rows, lodcli.LoD([offsets]))
    yield "tensor.of lists", lambda: lodcli.LoDTensor.from_lists(lists)
    yield "tensor.to_list", tensor.to_list
    yield "tensor.identical", lambda: tensor.identical(same)
    yield "tensor.copy", tensor.copy
    yield "tensor.astype", lambda: tensor.astype("float64")
    yield "tensor.concatenate", lambda: lodcli.LoDTensor.concatenate([tensor, same])
    yield "tensor.x == y", lambda: tensor == same
    yield "tensor.x + y", lambda: tensor + same
    yield "tensor.x + y of another index", lambda: tensor + other
    yield "tensor.x * 2", lambda: tensor * 2
    yield "tensor.lengths", tensor.lod.lengths


def files(folder: Path) -> Calls:
    """Yield what reads and writes a file, which takes calls of the system."""
    tensor, path = ten_rows("softmax"), folder / "ten.lod.h5"
    lodcli.write(path, tensor)
    yield "file.read", lambda: lodcli.read(path)
    yield "file.write", lambda: lodcli.write(path, tensor, overwrite=True)


def least(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the least processor time of each call in microseconds."""
    found, times = {}, {}
    for name, call in calls.items():
        call()
        start = time.thread_time()
        call()
        times[name] = max(1, int(SAMPLE_SECONDS / (time.thread_time() - start)))
        found[name] = float("inf")
    for _ in range(ROUNDS):
        for name, call in calls.items():
            repeated = range(times[name])
            start = time.thread_time()
            for _ in repeated:
                call()
            spent = time.thread_time() - start
            found[name] = min(found[name], 1e6 * spent / times[name])
    return found


def small_calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return all calls by name; files are written to `folder`."""
    groups = (ops(), gradients(), keys(), time_steps(), tensors(), files(folder))
    return {name: call for group in groups for name, call in group}


def main() -> None:
    """Print the times of all calls, or of those named."""
    beginnings = tuple(sys.argv[1:])
    with (
        patch.object(load, "is_shipped", lambda: True),
        tempfile.TemporaryDirectory() as folder,
    ):
        calls = small_calls(Path(folder))
        found = least({n: c for n, c in calls.items() if n.startswith(beginnings or "")})
    for name, microseconds in sorted(found.items(), key=lambda each: each[1]):
        print(f"{microseconds:8.1f}  {name}")
    print(f"{sum(t <= 10 for t in found.values())} of {len(found)} take at most 10 us")


if __name__ == "__main__":
    main()
