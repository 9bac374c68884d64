"""MosaicML streaming: a sample of MDS shards for each sequence."""

from __future__ import annotations

import os
import runpy
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np
import streaming

_EPOCHS = runpy.run_path(str(Path(__file__).parents[1] / "measure" / "epochs.py"))
_way = _EPOCHS["batched_way"]


def version() -> str:
    """Return the measured version."""
    return installed("mosaicml-streaming")


def load(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an epoch in random order with streaming."""
    path = os.path.join(inputs["folder"], "mds")
    with streaming.MDSWriter(out=path, columns={"x": "ndarray"}) as writer:
        for rows in np.split(inputs["data"], inputs["offsets"][1:-1]):
            writer.write({"x": rows})
    found = streaming.StreamingDataset(local=path, shuffle=True, batch_size=1)
    return {"StreamingDataset": _way(lambda: (one["x"] for one in found), inputs["tokens"])}
