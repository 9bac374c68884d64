"""Hugging Face datasets: a row of an Arrow table for each sequence."""

from __future__ import annotations

import os
import runpy
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa

_EPOCHS = runpy.run_path(str(Path(__file__).parents[1] / "measure" / "epochs.py"))
_way = _EPOCHS["batched_way"]


def version() -> str:
    """Return the measured version."""
    return installed("datasets")


def threads(count: int) -> None:
    """Turn off progress bars; the number is ignored, since tables are read by one thread."""
    datasets.disable_progress_bars()


def load(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an epoch in random order with datasets."""
    data, offsets = inputs["data"], inputs["offsets"]
    rows = pa.FixedSizeListArray.from_arrays(pa.array(data.reshape(-1)), data.shape[1])
    table = pa.table({"x": pa.LargeListArray.from_arrays(pa.array(offsets), rows)})
    path = os.path.join(inputs["folder"], "rows")
    datasets.Dataset(table).save_to_disk(path)
    shuffled = datasets.load_from_disk(path).with_format("numpy").shuffle(seed=0)
    size = max(1, inputs["tokens"] * len(offsets) // max(1, len(data)))

    def rows_of(each: Any) -> Any:
        return np.asarray(each, np.float32).reshape(-1, data.shape[1])

    def by_batches() -> Any:
        chunks = shuffled.iter(batch_size=size)
        return (rows_of(each) for chunk in chunks for each in chunk["x"])

    return {
        "by item": _way(lambda: (rows_of(one["x"]) for one in shuffled), inputs["tokens"]),
        "by batches": _way(by_batches, inputs["tokens"]),
    }
