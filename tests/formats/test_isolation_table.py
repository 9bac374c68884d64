"""Every format of the table, read in a child process: the same content as without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from lodcli.formats import io, table
from lodcli.formats.base import ReadOptions, WriteOptions
from lodcli.kernels.lod import LoD
from lodcli.kernels.tensor import LoDTensor

THEIRS = Path(__file__).parent / "theirs"
SAMPLES = Path(__file__).parents[2] / "samples"
TOKENS = LoDTensor(np.arange(1, 13, dtype=np.uint16), LoD.from_lengths([[3, 4, 5]]))
# By format: what holds it, or the name of a file to be made, and how it is read.
FILES: dict[str, tuple[Path | str, dict[str, Any]]] = {
    "lod.h5": ("t.lod.h5", {}),
    "lod.stream": ("t.lods", {}),
    "hdf5": ("plain.h5", {"data": "/x", "offsets": ("/o",)}),
    "megatron": (THEIRS / "megatron.idx", {}),
    "awkward": (THEIRS / "awkward.npz", {}),
    "awkward-hdf5": (THEIRS / "awkward.h5", {}),
    "npz": ("t.npz", {}),
    "torch": ("t.pt", {}),
    "safetensors": ("t.safetensors", {}),
    "paddle": ("t.lodt", {}),
    "arrow": ("t.arrow", {}),
    "arrow-stream": ("t.arrows", {}),
    "parquet": ("t.parquet", {}),
    "datasets": (THEIRS / "datasets" / "train", {}),
    "nwb": (THEIRS / "units.nwb", {"data": "/units/spike_times"}),
    "vtkhdf": (THEIRS / "grid.vtkhdf", {}),
    "h5ad": (THEIRS / "anndata.h5ad", {}),
    "hdf5-vlen": ("vlen.h5", {"data": "/v"}),
    "webdataset": (THEIRS / "webdataset.tar", {}),
    "mds": (THEIRS / "mds", {}),
    "llmc": (THEIRS / "llmc.bin", {}),
    "tokens": (THEIRS / "nanogpt.bin", {}),
    "ts": (SAMPLES / "japanese_vowels.ts", {}),
    "jsonl": (SAMPLES / "events.jsonl", {}),
    "csv": ("t.csv", {}),
    "tsv": ("t.tsv", {}),
    "text": (SAMPLES / "articles.txt", {}),
}
NEEDS = {
    "torch": "torch",
}

# Prints the name and the shape of everything, and its bytes, once read with and once without.
READ = """
import hashlib, sys
from lodcli.formats import io
from lodcli.formats.base import ReadOptions
from lodcli.formats.limits import Limits
path, name, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
for isolate in (True, False):
    with io.open_source(
        path, format_name=name, options=ReadOptions(**options), limits=Limits(isolate=isolate)
    ) as source:
        for name_, item in source.read().items():
            data = item.data
            print(name_, data.dtype, data.shape, item.lod.recursive_sequence_lengths()[:1],
                  hashlib.sha256(data.tobytes()).hexdigest())
    print("---")
"""


def test_every_format_is_here() -> None:
    assert list(FILES) == list(table.TABLE)


@pytest.mark.parametrize("name", FILES)
def test_what_is_read_in_isolation_is_the_same(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    path, options = FILES[name]
    if isinstance(path, str):
        path = _made(tmp_path / path, name)
    # A process of its own: what has been imported before decides what a child may still do.
    done = subprocess.run(
        [sys.executable, "-c", READ, path, name, repr(options)], capture_output=True, text=True
    )
    assert done.stderr == ""
    isolated, plain, _ = done.stdout.split("---\n")
    assert isolated
    assert isolated == plain


def _made(path: Path, name: str) -> Path:
    if name == "hdf5-vlen":
        with h5py.File(path, "w") as file:
            file["v"] = ["to", "be", ""]
    elif name == "hdf5":
        with h5py.File(path, "w") as file:
            file["x"], file["o"] = np.arange(4.0), [0, 1, 4]
    else:
        options = WriteOptions(form="list") if name == "torch" else WriteOptions()
        io.write(path, TOKENS if name != "paddle" else _signed(), options=options)
    return path


def _signed() -> LoDTensor:
    return LoDTensor(TOKENS.data.astype(np.int64), TOKENS.lod)


def test_made_files_are_what_they_are_named(tmp_path: Path) -> None:
    path = _made(tmp_path / "plain.h5", "hdf5")
    options = ReadOptions(data="/x", offsets=("/o",))
    with io.open_source(path, format_name="hdf5", options=options) as source:
        assert source.read_index("data").recursive_sequence_lengths() == [[1, 3]]
