"""WebDataset: a sample of an archive for each sequence."""

from __future__ import annotations

import os
import runpy
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np
import webdataset

_EPOCHS = runpy.run_path(str(Path(__file__).parents[1] / "measure" / "epochs.py"))
_way = _EPOCHS["batched_way"]


def version() -> str:
    """Return the measured version."""
    return installed("webdataset")


def load(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an epoch in random order with WebDataset."""
    path = os.path.join(inputs["folder"], "rows.tar")
    with webdataset.TarWriter(path) as writer:
        parts = np.split(inputs["data"], inputs["offsets"][1:-1])
        for number, rows in enumerate(parts):
            writer.write({"__key__": f"{number:09}", "x.npy": rows})

    def items() -> Any:
        found = webdataset.WebDataset(path, shardshuffle=False, empty_check=False)
        return (one["x.npy"] for one in found.shuffle(1000).decode())

    return {".shuffle(1000)": _way(items, inputs["tokens"])}
