"""Time whole commands against a named peer, interleaved, and print docs/benchmarks.md's table.

    python -m tests.benchmarks.startup [--runs 15] [--large-gb 2] [-o docs/benchmarks/startup.json]

Each row runs its two commands in turn, so that a drifting machine disturbs both alike, and
gives the median of each and the median of the pairwise ratios. The files are made first, in
shared memory, where no disk is (`--folder` to choose another place with room).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.benchmarks.measure import SHARED_MEMORY

ROWS_PER_SEQUENCE = 80
FEATURES = 128
SEQUENCE_BYTES = ROWS_PER_SEQUENCE * FEATURES * 4


@dataclass(frozen=True)
class Row:
    """One comparison: ours, the peer, and the largest ratio that is allowed."""

    name: str
    ours: list[str]
    peer: list[str]
    limit: float


# As installed: with compiled bytecode.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def make_file(path: Path, size_bytes: int) -> Path:
    """Write a container of about this size, sequences of 80 rows of 128 float32."""
    count = max(2, size_bytes // SEQUENCE_BYTES)
    block = np.random.default_rng(0).standard_normal((ROWS_PER_SEQUENCE, FEATURES), "f4")
    data = np.tile(block, (count, 1))
    lod = LoD.from_lengths([np.full(count, ROWS_PER_SEQUENCE)], ["sequence"])
    io.write(path, LoDTensor(data, lod), overwrite=True)
    return path


def wall_seconds(command: list[str]) -> float:
    """Return how long a command took; fail if it failed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - start


def measure(row: Row, runs: int) -> dict[str, object]:
    """Return medians and the median pairwise ratio of a row."""
    wall_seconds(row.ours), wall_seconds(row.peer)
    pairs = [(wall_seconds(row.ours), wall_seconds(row.peer)) for _ in range(runs)]
    ratios = sorted(ours / peer for ours, peer in pairs)
    return {
        "name": row.name,
        "ours_ms": round(1e3 * statistics.median(ours for ours, _ in pairs), 1),
        "peer_ms": round(1e3 * statistics.median(peer for _, peer in pairs), 1),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_min": round(ratios[0], 2),
        "ratio_max": round(ratios[-1], 2),
        "limit": row.limit,
    }


def piped(lod: str, folder: Path, size_gb: float) -> Row:
    """Return three commands in a pipe against one that does the same."""
    source = make_file(folder / "piped.lod.h5", int(size_gb * 1e9))
    target = f"-f -o {folder / 'out.lod.h5'}"
    pipe = (
        f"{lod} -q apply softmax {source} -o - | {lod} -q apply reverse - -o - "
        f"| {lod} -q apply cumsum - {target}"
    )
    chain = f"{lod} -q apply softmax {source} --then reverse --then cumsum {target}"
    name = f"3 lod apply in a pipe, {size_gb:g} GB / one with --then"
    return Row(name, ["sh", "-c", pipe], ["sh", "-c", chain], 1.11)


def bytes_read(arguments: list[str]) -> int:
    """Return how many bytes a command reads beyond what starting it reads."""
    code = (
        "import sys, lodcli.main as m\n"
        "def rchar(): return int(open('/proc/self/io').read().split()[1])\n"
        "import h5py, lodcli.commands.slice, lodcli.commands.inspect.command\n"
        "import lodcli.formats.container.reader, lodcli.commands.inspect.drawing\n"
        "import lodcli.commands.inspect.statistics\n"
        "before = rchar(); sys.argv[0] = 'lod'\n"
        "try: m.main()\n"
        "except SystemExit: pass\n"
        "print(rchar() - before, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    return int(done.stderr.split()[-1])


def main() -> None:
    """Make the files, measure, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--large-gb", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=SHARED_MEMORY)
    parser.add_argument("-o", "--output", type=Path, help="write JSON to this file")
    options = parser.parse_args()
    lod = str(Path(sys.executable).with_name("lod"))
    python = sys.executable
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        small = str(make_file(folder / "small.lod.h5", 2 << 20))
        large = str(make_file(folder / "large.lod.h5", int(options.large_gb * 1e9)))
        middle = str(int(options.large_gb * 1e9) // SEQUENCE_BYTES // 2)
        out = ["-f", "-o", str(folder / "out.lod.h5")]
        rows = [
            Row("lod --help / import click", [lod, "--help"], [python, "-c", "import click"], 2.0),
            Row(
                "lod inspect 2 MB / import h5py",
                [lod, "inspect", small],
                [python, "-c", "import h5py"],
                1.5,
            ),
            Row(
                f"lod inspect {options.large_gb:g} GB / import h5py",
                [lod, "inspect", large],
                [python, "-c", "import h5py"],
                1.5,
            ),
            Row(
                f"lod slice {options.large_gb:g} GB / of 2 MB",
                [lod, "slice", large, middle, *out],
                [lod, "slice", small, "20", *out],
                1.3,
            ),
            piped(lod, folder, options.large_gb / 2),
        ]
        results = [measure(row, options.runs) for row in rows]
        reads = {
            "inspect": bytes_read(["inspect", large]),
            "slice": bytes_read(["slice", large, middle, *out]),
            "index": 8 * (int(options.large_gb * 1e9) // SEQUENCE_BYTES + 1),
            "sequence": SEQUENCE_BYTES,
        }
    machine = {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": h5py.__version__,
        "hdf5": h5py.version.hdf5_version,
        "runs": options.runs,
    }
    if options.output:
        report = {"schema_version": 1, **machine, "rows": results, "bytes_read": reads}
        options.output.write_text(json.dumps(report) + "\n")
    print(" ".join(f"{key} {value}," for key, value in machine.items()).rstrip(","))
    print("\n| command / peer | ours ms | peer ms | ratio (min to max) | at most |")
    print("|---|---|---|---|---|")
    for row in results:
        print(
            f"| {row['name']} | {row['ours_ms']} | {row['peer_ms']} | "
            f"{row['ratio']} ({row['ratio_min']} to {row['ratio_max']}) | {row['limit']} |"
        )
    print(
        f"\nBytes read from the large file: inspect {reads['inspect']:,}, slice "
        f"{reads['slice']:,}; its index has {reads['index']:,}, the sequence "
        f"{reads['sequence']:,}."
    )


if __name__ == "__main__":
    main()
