"""Measure how time and memory of every command grow with the rows of a file.

    python -m tests.benchmarks.growth [--most 1e8] [--folder F] [-o docs/benchmarks/growth.json]

Files hold 10,000 to 100,000,000 rows of one float32 in sequences of 50 on average. Every command
runs as a process of its own; the least time of three runs (one above 5 s) and the most memory that
was resident count. A command that took more than a minute, or a tenth of the memory there is, is
not run on the next larger file.

docs/benchmarks.md shows the pictures, which `python -m tests.benchmarks.page` draws.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lodcli.bench.measure.machine import machine
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

SIZES = (10**4, 10**5, 10**6, 10**7, 10**8)
PER_SEQUENCE = 50
RUNS, ONE_RUN_SECONDS, MOST_SECONDS = 3, 5.0, 60.0
# What is run on a.lod.h5, by the heading of `lod --help`. Results go to OUT or a folder.
COMMANDS: dict[str, tuple[str, ...]] = {
    "Look": (
        "inspect a.lod.h5",
        "plot a.lod.h5::data -o OUT.svg",
        "diff a.lod.h5 b.lod.h5",
    ),
    "Choose": (
        "slice a.lod.h5 1: -o OUT.lod.h5",
        "head a.lod.h5 -n 100 -o OUT.lod.h5",
        "tail a.lod.h5 -n 100 -o OUT.lod.h5",
        "filter a.lod.h5 'length() > 40' -o OUT.lod.h5",
        "sample a.lod.h5 10% --seed 1 -o OUT.lod.h5",
        "shuffle a.lod.h5 --seed 1 -o OUT.lod.h5",
        "sort a.lod.h5 -o OUT.lod.h5",
        "select a.lod.h5 data -o OUT.lod.h5",
        "drop a.lod.h5 label -o OUT.lod.h5",
        "rename a.lod.h5 data=rows -o OUT.lod.h5",
        "cast a.lod.h5 data=float64 -o OUT.lod.h5",
    ),
    "Combine and divide": (
        "concat a.lod.h5 b.lod.h5 -o OUT.lod.h5",
        "merge a.lod.h5::data c.lod.h5 -o OUT.lod.h5",
        "join labels.lod.h5 names.lod.h5 --on label -o OUT.lod.h5",
        "group labels.lod.h5 --by label -o OUT.lod.h5",
        "explode a.lod.h5 -o OUT.lod.h5",
        "split a.lod.h5 --by fractions 0.9,0.1 --seed 1 -o OUT-{}.lod.h5",
        "shard a.lod.h5 OUT --shards 4",
    ),
    "Compute": (
        "apply mean a.lod.h5::data -o OUT.lod.h5",
        "apply softmax a.lod.h5::data -o OUT.lod.h5",
        "run-rnn a.lod.h5::data --cell gru --hidden 8 --seed 1 --emit last -o OUT.lod.h5",
        "train a.lod.h5 --hidden 8 --epochs 1 --seed 1 -o OUT.safetensors",
        "plan a.lod.h5 --tokens 8192",
    ),
    "Convert": (
        "convert a.lod.h5 OUT.lod.h5",
        "convert a.lod.h5::data OUT.parquet",
        "convert a.lod.h5::data OUT.jsonl",
        "unpack a.lod.h5::data -o OUT.lod.h5",
        "pack steps.lod.h5 -o OUT.lod.h5",
    ),
    "Check": ("verify a.lod.h5",),
}
# What reads no rows, or a person has to look at.
WITHOUT_ROWS = ("view", "weights", "bench", "completion", "env", "schema")
# A process begins with the peak of the one that started it: this one is small.
LAUNCH = """
import os, sys, time
start = time.perf_counter()
nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
_, status, used = os.wait4(pid, 0)
print([time.perf_counter() - start, used.ru_maxrss << 10])
sys.exit(os.waitstatus_to_exitcode(status))
"""
LOD = os.path.join(os.path.dirname(sys.executable), "lod")


def make_files(rows: int) -> None:
    """Write what the commands read into this folder."""
    rng = np.random.default_rng(rows)
    lengths = rng.multinomial(rows, np.full(n := rows // PER_SEQUENCE, 1 / n))
    index = LoD.from_lengths([lengths])
    data = LoDTensor(rng.standard_normal((rows, 1), np.float32), index)
    labels = LoDTensor((np.arange(n) % 10).astype(np.int32))
    for name in ("a", "b"):
        io.write(f"{name}.lod.h5", {"data": data, "label": labels}, overwrite=True)
    io.write("c.lod.h5", {"more": data}, overwrite=True)
    # One item per row, with ten different keys.
    keys = (np.arange(rows) % 10).astype(np.int32)
    table = {"label": LoDTensor(keys), "value": LoDTensor(np.arange(rows))}
    io.write("labels.lod.h5", table, overwrite=True)
    few = {"label": LoDTensor(keys[:10]), "name": LoDTensor(np.arange(10))}
    io.write("names.lod.h5", few, overwrite=True)
    subprocess.run([LOD, "-q", "unpack", "a.lod.h5::data", "-f", "-o", "steps.lod.h5"], check=True)


def run(command: str) -> tuple[float, int]:
    """Return the seconds and the peak resident bytes of one run, and remove its output."""
    done = subprocess.run(
        [sys.executable, "-ISc", LAUNCH, LOD, "-q", *shlex.split(command)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )
    if done.returncode:
        raise SystemExit(f"lod {command}: exit {done.returncode}")
    seconds, peak = json.loads(done.stdout)
    for path in Path().glob("OUT*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return seconds, peak


def measure(command: str) -> tuple[float, int]:
    """Return the least time of some runs, and the most memory."""
    found = [run(command)]
    while len(found) < RUNS and found[0][0] < ONE_RUN_SECONDS:
        found.append(run(command))
    return min(seconds for seconds, _ in found), max(peak for _, peak in found)


def results(most: int) -> Iterator[dict[str, object]]:
    """Yield time and memory of each command on each file that it is run on."""
    slow: set[str] = set()
    memory = machine()["memory_bytes"]
    for rows in (size for size in SIZES if size <= most):
        make_files(rows)
        for group, commands in COMMANDS.items():
            for command in commands:
                if command in slow:
                    continue
                seconds, peak = measure(command)
                print(f"{rows:>11,} {seconds:8.3f} s {peak >> 20:6,} MiB  {command}", flush=True)
                if seconds > MOST_SECONDS or 10 * peak > memory:
                    slow.add(command)
                yield {
                    **{"group": group, "command": command, "rows": rows},
                    **{"seconds": round(seconds, 4), "peak_bytes": peak},
                }


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, default=SIZES[-1], help="rows of the largest file")
    parser.add_argument("--folder", type=Path, help="with room for 10 GB")
    parser.add_argument("-o", "--output", type=Path, help="write JSON to this file")
    options = parser.parse_args()
    output = options.output and options.output.resolve()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.chdir(folder)
        report = {"machine": machine(), "rows": list(results(int(options.most)))}
        os.chdir("/")
    if output:
        output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
