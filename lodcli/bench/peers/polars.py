"""Polars: list columns, for rows of one value."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl


def version() -> str:
    """Return the version measured."""
    return str(pl.__version__)


def threads(count: int) -> None:
    """Polars reads POLARS_MAX_THREADS when it is loaded."""


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the ways Polars does an op."""
    if inputs["data"].shape[1] != 1 or op not in _OPS:
        return {}
    counts = np.diff(inputs["offsets"])
    ids = np.repeat(np.arange(counts.size), counts)
    frame = pl.DataFrame({"id": ids, "x": inputs["data"].reshape(-1)})
    lists = frame.group_by("id", maintain_order=True).agg("x")["x"]
    full = inputs["full"]
    if lists.len() != int(full.sum()):
        return {}
    return {f"list.{op}": _OPS[op](lists)}


def _pooled(name: str) -> Any:
    def way(lists: Any) -> Any:
        call = getattr(lists.list, name)
        return call, lambda found: [found.to_numpy().astype(np.float32)[:, None]]

    return way


def _reverse(lists: Any) -> Any:
    return (
        lambda: lists.list.reverse(),
        lambda found: [found.explode().to_numpy().astype(np.float32)[:, None]],
    )


_OPS = {name: _pooled(name) for name in ("sum", "mean", "max", "min", "first", "last")}
_OPS["reverse"] = _reverse
