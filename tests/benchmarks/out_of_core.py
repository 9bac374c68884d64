"""Measure the memory of commands with a budget, on data many times as large.

    python -m tests.benchmarks.out_of_core [MEGABYTES] [BUDGET] [OTHER]

Each command runs with `--memory BUDGET` (default 256M) on a file of MEGABYTES (default 5120), made
in a temporary folder (TMPDIR), where eight times as much must be free. The most anonymous memory of
all its processes is sampled every 4 ms. With a third argument, every command also runs with that
budget, and the results are compared byte by byte. docs/large.md holds the figures.
"""

from __future__ import annotations

import filecmp
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lodcli.bench.measure.machine import machine

MAKE = """
import sys
import numpy as np
from lodcli.formats.core.io import write_batches
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor

rng = np.random.default_rng(0)

def batches(most):
    done = 0
    while done < most:
        lengths = rng.integers(1, 400, 100)
        rows = rng.standard_normal((int(lengths.sum()), 64), np.float32)
        done += rows.nbytes
        yield {"data": LoDTensor(rows, [lengths.tolist()])}

for name in ("a", "b"):
    rng = np.random.default_rng(0)  # of equal lengths
    schema = tuple(s.uncounted() for s in schema_of(next(batches(1))))
    rng = np.random.default_rng(0)
    write_batches(f"{name}.lod.h5", schema, batches(int(sys.argv[1]) << 20))
"""
COMMANDS = (
    "convert a.lod.h5 OUT",
    "verify a.lod.h5",
    "slice a.lod.h5 10: -o OUT",
    "filter a.lod.h5 length()>100 -o OUT",
    "shuffle a.lod.h5 --seed 1 -o OUT",
    "sort a.lod.h5 -o OUT",
    "apply mean a.lod.h5 -o OUT",
    "apply softmax a.lod.h5 -o OUT",
    "apply add a.lod.h5 b.lod.h5 -o OUT",
    "apply concat a.lod.h5 b.lod.h5 -o OUT",
    "apply sort_by_length a.lod.h5 -o OUT",
    "unpack a.lod.h5 -o OUT",
    "pack steps.lod.h5 -o OUT",
    "run-rnn a.lod.h5 --cell gru --hidden 64 --seed 1 -o OUT",
)


def anonymous_bytes(pid: int) -> int:
    """Return the anonymous memory of a process and of its children."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    found = re.search(r"RssAnon:\s*(\d+)", text)
    own = int(found[1]) << 10 if found else 0
    return own + sum(anonymous_bytes(int(child)) for child in children)


def measured(line: str) -> tuple[int, float]:
    """Return the peak of a command, and its seconds."""
    started, peak = time.monotonic(), 0
    process = subprocess.Popen(
        [os.path.join(os.path.dirname(sys.executable), "lod"), *line.split()]
    )
    while process.poll() is None:
        peak = max(peak, anonymous_bytes(process.pid))
        time.sleep(0.004)
    if process.returncode:
        raise SystemExit(f"lod {line}: exit {process.returncode}")
    return peak, time.monotonic() - started


def main() -> None:
    """Print the machine and a table."""
    megabytes, budget, other = (*sys.argv[1:4], *("5120", "256M", "")[len(sys.argv) - 1 :])
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([sys.executable, "-c", MAKE, megabytes], check=True)
        measured("-q slice a.lod.h5 0:200 -o small.lod.h5")
        measured(f"-q unpack a.lod.h5 -o steps.lod.h5 --memory {budget}")
        print(f"| {megabytes} MiB, --memory {budget} | peak | seconds | bytes |\n|---|---|---|---|")
        for command in COMMANDS:
            if command.startswith(("apply", "run-rnn")):  # compiles kernels
                small = re.sub(r"[ab]\.lod", "small.lod", command)
                measured(f"-q {small.replace('OUT', 'warm.lod.h5 -f')}")
            line = f"-q {command} --memory"
            peak, seconds = measured(f"{line.replace('OUT', 'out.lod.h5 -f')} {budget}")
            same = ""
            if other and "OUT" in command:
                measured(f"{line.replace('OUT', 'other.lod.h5 -f')} {other}")
                equal = filecmp.cmp("out.lod.h5", "other.lod.h5", shallow=False)
                same = "same" if equal else "differ"
            shown = command.removesuffix(" -o OUT")
            print(f"| `{shown}` | {peak >> 20} MiB | {seconds:.1f} | {same} |", flush=True)


if __name__ == "__main__":
    main()
