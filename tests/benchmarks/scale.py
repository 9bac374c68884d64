"""Print the size and speed of datasets with many shards: the manifest measured, the rest computed.

    python -m tests.benchmarks.scale

Manifests of up to a million shards are written and opened, each in a process of its own; there are
no shards, for a manifest tells where an item is without them. docs/scale.md holds the figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import lodcli
from lodcli.bench.measure.machine import machine
from lodcli.formats.core import io
from lodcli.formats.core.schema import schema_of
from lodcli.formats.dataset.manifest import Manifest
from lodcli.kernels.tensor.lod_tensor import LoDTensor

ROWS, SHARDS = 10**12, 10**6
# (what, bytes a row, rows a sequence)
DATA = (
    ("vectors of 128 float32, 50 a sequence", 512, 50),
    ("tokens of int32, 500 a sequence", 4, 500),
    ("events of int32, 2 a sequence", 4, 2),
)
OPEN = """
import json, os, sys, time
import numpy as np
import lodcli
from lodcli.formats.dataset.manifest import Manifest
from lodcli.formats.container.reader import ContainerSource
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = resident()
start = time.process_time()
with open(sys.argv[1], "rb") as file:
    manifest = Manifest.read(ContainerSource(file.fileno(), "manifest.lod.h5"))
    ends = manifest.ends()["data", 0]
opened = time.process_time() - start
items = np.random.default_rng(0).integers(0, ends[-1], 1000)
start = time.process_time()
for item in items:
    np.searchsorted(ends, item, "right")
found = (time.process_time() - start) / items.size
print(json.dumps([opened, found, resident() - before]))
"""


def manifest(folder: Path, shards: int) -> tuple[int, float, float, float]:
    """Return bytes of a manifest, seconds to open it, for one item, and bytes of memory."""
    counts = np.full((shards, 2), (1000, 50_000))
    of_shards = schema_of({"data": LoDTensor(np.zeros((0, 128), np.float32), [[]])})
    sums = np.arange(shards, dtype=np.uint32)
    made = Manifest.of(of_shards, counts.tolist(), np.full(shards, 26 << 20).tolist(), sums)
    path = folder / f"{shards}.lod.h5"
    schema, batch = made.tensors()
    io.write_batches(path, schema, [batch])
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)], capture_output=True, check=True, text=True
    )
    opened, found, held = json.loads(done.stdout)
    return path.stat().st_size, opened, found, held


def header_of_a_block(folder: Path) -> float:
    """Return how many bytes of the header come with each block of rows."""
    sizes = []
    for blocks in (64, 192):
        path = folder / f"{blocks}.lod.h5"
        lodcli.write(path, LoDTensor(np.zeros((blocks * 512, 128), np.float32), [[blocks * 512]]))
        sizes.append(path.stat().st_size - blocks * 512 * 512)
    return (sizes[1] - sizes[0]) / 128


def main() -> None:
    """Print the machine and the figures."""
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for shards in (10**4, 10**5, 10**6):
            size, opened, found, held = manifest(folder, shards)
            print(
                f"manifest of {shards:9,} shards: {size / 1e6:6.2f} MB, opened in "
                f"{opened * 1e3:6.1f} ms, {held / 1e6:5.1f} MB of memory, "
                f"an item {found * 1e6:.1f} us"
            )
        header = header_of_a_block(folder)
    print(f"header: {header:.2f} bytes for each block of 256 KiB of rows")
    for what, row, per in DATA:
        data, index = ROWS * row, ROWS // per * 8
        print(
            f"{what}: {data / 1e12:.3g} TB, index {index / 1e12:.3g} TB ({index / data:.1%}); "
            f"a shard {data / SHARDS / 1e6:.3g} MB, its index {index / SHARDS / 1e3:.3g} KB, its "
            f"header {data / SHARDS / 262144 * header / 1e3:.3g} KB"
        )
    print(f"largest file (rule R9): {256 * 2**20 / header * 262144 / 1e12:.2g} TB of rows")


if __name__ == "__main__":
    main()
