"""Arrow's compute functions on a table of ids and values, for rows of one value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def version() -> str:
    """Return the measured version."""
    return str(pa.__version__)


def threads(count: int) -> None:
    """Set the number of threads of Arrow."""
    pa.set_cpu_count(count)


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op with Arrow."""
    if inputs["data"].shape[1] != 1:
        return {}
    counts = np.diff(inputs["offsets"])
    if op in ("sum", "mean", "max", "min"):
        ids = np.repeat(np.arange(counts.size), counts)
        table = pa.table({"id": ids, "x": inputs["data"].reshape(-1)})

        def arrays(found: Any) -> list[Any]:
            order = np.argsort(found["id"].to_numpy())
            return [found[f"x_{op}"].to_numpy()[order].astype(np.float32)[:, None]]

        return {"group_by": (lambda: table.group_by("id").aggregate([("x", op)]), arrays)}
    return {}
