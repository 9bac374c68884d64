"""Time webdataset archives of many small samples against webdataset and tarfile, interleaved.

    python -m tests.benchmarks.samples [FOLDER]

100,000 samples of three fields, of 200 and of 20 numbers on average and of one, are made in
FOLDER, where 2 GB must be free: 90 MB of rows, an archive of 370 MB with 300,000 files.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from lodcli.bench.measure.machine import machine
from tests.benchmarks.copies import table

MAKE = """
import numpy as np, lodcli
rng = np.random.default_rng(0)
ids, weight = rng.integers(1, 399, 100_000), rng.integers(1, 40, 100_000)
lodcli.write("a.lod.h5", {
    "ids": lodcli.LoDTensor(rng.integers(0, 50_000, ids.sum()).astype("i4"), [ids.tolist()]),
    "weight": lodcli.LoDTensor(rng.standard_normal(weight.sum(), "f4"), [weight.tolist()]),
    "label": lodcli.LoDTensor(rng.integers(0, 10, 100_000)),
})
"""
SCRIPTS = {
    "webdataset_out.py": """
import lodcli, webdataset
tensors = lodcli.read_all("a.lod.h5")
ids, weight, label = (tensors[name] for name in ("ids", "weight", "label"))
ends = [tensor.lod.levels[0].tolist() for tensor in (ids, weight)]
with webdataset.TarWriter("out.tar") as out:
    for n, number in enumerate(label.data.tolist()):
        out.write({
            "__key__": f"{n:09}",
            "ids.npy": ids.data[ends[0][n] : ends[0][n + 1]],
            "weight.npy": weight.data[ends[1][n] : ends[1][n + 1]],
            "label.cls": number,
        })
""",
    "webdataset_in.py": """
import webdataset
for sample in webdataset.WebDataset("a.tar", shardshuffle=False).decode():
    pass
""",
    "tarfile_in.py": """
import io, tarfile, numpy as np
with tarfile.open("a.tar", "r|") as archive:
    for member in archive:
        data = archive.extractfile(member).read()
        int(data) if member.name.endswith("cls") else np.load(io.BytesIO(data))
""",
}
WRITING = {
    "webdataset": f"{sys.executable} webdataset_out.py",
    "lod": "lod -q convert a.lod.h5 out.tar",
}
READING = {
    "webdataset": f"{sys.executable} webdataset_in.py",
    "tarfile": f"{sys.executable} tarfile_in.py",
    "lod": "lod -q convert a.tar out.lod.h5",
}


def main() -> None:
    """Print the machine, then both tables."""
    print(machine())
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name)
        for script, text in SCRIPTS.items():
            (folder / script).write_text(text)
        # In a separate process, because the peak memory of a child includes that of its parent.
        subprocess.run([sys.executable, "-c", MAKE], cwd=folder, check=True)
        subprocess.run(["lod", "-q", "convert", "a.lod.h5", "a.tar"], cwd=folder, check=True)
        table(WRITING, folder)
        table(READING, folder)


if __name__ == "__main__":
    main()
