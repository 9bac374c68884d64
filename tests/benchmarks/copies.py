"""Time commands that move rows of a large file against cp and cmp, and pipes against --then.

    python -m tests.benchmarks.copies [FOLDER]

A file of 2 GB, 100,000 sequences of 1 to 79 rows of 512 bytes, is made in FOLDER, where 10 GB must
be free. cp is followed by sync, since lod syncs what it writes. Runs of a table are interleaved.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lodcli.bench.measure.machine import machine

ROUNDS = 3
MAKE = """
import numpy as np, lodcli
rng = np.random.default_rng(0)
lengths = rng.integers(1, 80, 100_000)
lod = lodcli.LoD.from_lengths([lengths.tolist()])
rows = rng.standard_normal((int(lengths.sum()), 128), np.float32)
lodcli.write("a.lod.h5", {"data": lodcli.LoDTensor(rows, lod)})
lodcli.write("beside.lod.h5", {"first": lodcli.LoDTensor(rows[:, :4].copy(), lod)})
lodcli.write("end.lod.h5", {"data": lodcli.LoDTensor(rows[:1], [[1]])})
"""
COPYING = {
    "cp": "cp a.lod.h5 out.lod.h5 && sync out.lod.h5",
    "convert": "lod -q convert a.lod.h5 out.lod.h5",
    "filter": "lod -q filter a.lod.h5 'length(data) >= 1' -o out.lod.h5",
    "shuffle": "lod -q shuffle a.lod.h5 --seed 1 -o out.lod.h5",
    "split": "lod -q split a.lod.h5 --by fractions 0.8,0.1,0.1 --seed 7 -o 'out-{}.lod.h5'",
    "merge": "lod -q merge a.lod.h5 beside.lod.h5 -o out.lod.h5",
    "concat": "lod -q concat a.lod.h5 end.lod.h5 -o out.lod.h5",
}
COMPARING = {
    "cmp": "cmp a.lod.h5 same.lod.h5",
    "diff": "lod -q diff a.lod.h5 same.lod.h5",
}
# With cat at the other end of a pipe, rows go through it as a stream.
PIPING = {
    "--then": "lod -q apply softmax a.lod.h5 --then reverse --then cumsum -o out.lod.h5",
    "pipe": "lod -q apply softmax a.lod.h5 -o - | lod -q apply reverse - -o - "
    "| lod -q apply cumsum - -o out.lod.h5",
    "with cat": "lod -q apply softmax a.lod.h5 -o - | cat | lod -q apply reverse - -o - | cat "
    "| lod -q apply cumsum - -o out.lod.h5",
}
# The same for one sequence: what starting takes.
STARTING = {name: line.replace("a.lod.h5", "end.lod.h5") for name, line in PIPING.items()}


def once(command: str, folder: Path) -> tuple[float, float, int]:
    """Run a command; return its seconds, those of processors, and its memory in bytes."""
    for old in folder.glob("out*"):
        old.unlink()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    start = time.perf_counter()
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def table(commands: dict[str, str], folder: Path) -> None:
    """Print the times of each command, and their ratio to those of the first."""
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            found[name].append(once(command, folder))
    first = statistics.median(seconds for seconds, _, _ in next(iter(found.values())))
    for name, runs in found.items():
        seconds = [one for one, _, _ in runs]
        middle = statistics.median(seconds)
        processors = statistics.median(one for _, one, _ in runs)
        print(
            f"  {name:10} {middle:5.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), "
            f"{processors:5.2f} s of processors, {max(one for _, _, one in runs) / 1e6:4.0f} MB, "
            f"{first / middle:4.0%} of {next(iter(found))}'s speed"
        )


def main() -> None:
    """Print the machine, then all tables."""
    print(machine())
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name)
        # In a separate process, because the peak memory of a child includes that of its parent.
        subprocess.run([sys.executable, "-c", MAKE], cwd=folder, check=True)
        shutil.copyfile(folder / "a.lod.h5", folder / "same.lod.h5")
        table(COPYING, folder)
        table(COMPARING, folder)
        table(PIPING, folder)
        table(STARTING, folder)


if __name__ == "__main__":
    main()
