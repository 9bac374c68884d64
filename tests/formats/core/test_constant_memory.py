"""Converting takes as much memory for a large file as for a small one, in every such format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.cases.processes import python

ROOT = Path(__file__).parents[3]
SMALL, LARGE = 4_500_000, 16_500_000  # numbers of eight bytes; compiled code works on both
ALLOWED_BYTES = 72 << 20  # of 96 MB more: shards and row groups, and what allocators hold back

# In a separate process, because its peak memory is measured.
CODE = """
import resource, sys
from pathlib import Path
import numpy as np
import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.schema import LevelSpec, TensorSpec
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

folder, sizes = Path(sys.argv[1]), [int(size) for size in sys.argv[2:4]]
files = dict(name.split("=") for name in sys.argv[4:])

def batches(size):
    part = LoDTensor(np.arange(500_000) % 999, LoD([np.arange(0, 500_001, 1_000)]))
    return ({"data": part} for _ in range(size // 500_000))

def convert(source, target, name):
    with lodcli.open(source, format_name=name[0]) as opened:
        io.write_batches(target, opened.schema, opened.batches(), format_name=name[1])

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

for size in sizes:
    begin = folder / f"{size}.lod.h5"
    spec = TensorSpec("data", np.dtype(np.int64), (), (LevelSpec("0"),))
    io.write_batches(begin, (spec,), batches(size))
    for name, file in files.items():
        target, back = folder / f"{size}{file}", folder / f"{size}.{name}.lod.h5"
        convert(begin, target, (None, name))
        convert(target, back, (name, None))
        with lodcli.open(back) as opened:  # the rows would be mapped, and count as memory
            assert opened.schema[0].rows == size
        back.unlink()
    print(peak())
"""
FILES = {
    "lod.stream": ".lods",
    "paddle": ".lodt",
    "megatron": ".idx",
    "npz": ".npz",
    "jsonl": ".jsonl",
    "json": ".json",
}
COLUMNS = {"arrow": ".arrow", "parquet": ".parquet", "datasets": ".ds"}


@pytest.mark.slow
@pytest.mark.parametrize("files", [FILES, COLUMNS], ids=["ours", "columns"])
def test_memory_does_not_grow_with_the_file(files: dict[str, str], tmp_path: Path) -> None:
    named = [f"{name}={file}" for name, file in files.items()]
    done = python(CODE, tmp_path, SMALL, LARGE, *named, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    small, large = map(int, done.stdout.split())
    assert large - small < ALLOWED_BYTES
