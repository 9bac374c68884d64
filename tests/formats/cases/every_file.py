"""A file of every format, and the options to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from lodcli.formats.core import io
from lodcli.formats.core.options import WriteOptions
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

THEIRS = Path(__file__).parents[1] / "theirs"
SAMPLES = Path(__file__).parents[3] / "samples"
TOKENS = LoDTensor(np.arange(1, 13, dtype=np.uint16), LoD.from_lengths([[3, 4, 5]]))
# By format: the sample, or the name of a file to be written, and options for reading.
FILES: dict[str, tuple[Path | str, dict[str, Any]]] = {
    "lod.h5": ("t.lod.h5", {}),
    "lod.stream": ("t.lods", {}),
    "lod.dataset": ("t.dataset", {}),
    "hdf5": ("plain.h5", {"data": "/x", "offsets": ("/o",)}),
    "megatron": (THEIRS / "megatron.idx", {}),
    "awkward": (THEIRS / "awkward.npz", {}),
    "awkward-hdf5": (THEIRS / "awkward.h5", {}),
    "npz": ("t.npz", {}),
    "npy": (THEIRS / "fortran.npy", {}),
    "torch": ("t.pt", {}),
    "safetensors": ("t.safetensors", {}),
    "paddle": ("t.lodt", {}),
    "arrow": ("t.arrow", {}),
    "arrow-stream": ("t.arrows", {}),
    "parquet": ("t.parquet", {}),
    "orc": (THEIRS / "spark.orc", {"nulls": "zero"}),
    "tfrecord": ("t.tfrecord", {}),
    "zarr": ("t.zarr", {}),
    "zarr-zip": ("t.zarr.zip", {}),
    "mds": (THEIRS / "mds", {}),
    "datasets": (THEIRS / "datasets" / "train", {}),
    "nwb": (THEIRS / "units.nwb", {"data": "/units/spike_times"}),
    "vtkhdf": (THEIRS / "grid.vtkhdf", {}),
    "h5ad": (THEIRS / "anndata.h5ad", {}),
    "hdf5-vlen": ("vlen.h5", {"data": "/v"}),
    "webdataset": (THEIRS / "webdataset.tar", {}),
    "llmc": (THEIRS / "llmc.bin", {}),
    "tokens": (THEIRS / "nanogpt.bin", {}),
    "ts": (SAMPLES / "japanese_vowels.ts", {}),
    "jsonl": (SAMPLES / "events.jsonl", {}),
    "json": (THEIRS / "pandas.json", {}),
    "csv": ("t.csv", {}),
    "tsv": ("t.tsv", {}),
    "text": (SAMPLES / "articles.txt", {}),
}
NEEDS = {
    "torch": "torch",
    "zarr": "zarr",
    "zarr-zip": "zarr",
}


def file_of(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return a file of a format, made in `folder` if need be, and how to read it."""
    path, options = FILES[name]
    return (made(folder / path, name) if isinstance(path, str) else path), options


def made(path: Path, name: str) -> Path:
    """Write a file of a format without a sample."""
    if name == "hdf5-vlen":
        with h5py.File(path, "w") as file:
            file["v"] = ["to", "be", ""]
    elif name == "hdf5":
        with h5py.File(path, "w") as file:
            file["x"], file["o"] = np.arange(4.0), [0, 1, 4]
    else:
        options = WriteOptions(form="list") if name == "torch" else WriteOptions()
        content = TOKENS if name != "paddle" else _signed()
        io.write(path, content, format_name=name, options=options)
    return path


def _signed() -> LoDTensor:
    return LoDTensor(TOKENS.data.astype(np.int64), TOKENS.lod)
