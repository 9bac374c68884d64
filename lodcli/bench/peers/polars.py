"""Polars: list columns, for rows of one value.

It reads POLARS_MAX_THREADS when it is loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl


def version() -> str:
    """Return the measured version."""
    return str(pl.__version__)


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op with Polars."""
    if inputs["data"].shape[1] != 1 or op not in _OPS:
        return {}
    counts = np.diff(inputs["offsets"])
    ids = np.repeat(np.arange(counts.size), counts)
    frame = pl.DataFrame({"id": ids, "x": inputs["data"].reshape(-1)})
    lists = frame.group_by("id", maintain_order=True).agg("x")["x"]
    full = inputs["full"]
    if lists.len() != int(full.sum()):
        return {}
    return {f"list.{op}": _OPS[op](lists, inputs)}


def _pooled(name: str) -> Any:
    def way(lists: Any, inputs: dict[str, Any]) -> Any:
        call = getattr(lists.list, name)
        return call, lambda found: [found.to_numpy().astype(np.float32)[:, None]]

    return way


def _reverse(lists: Any, inputs: dict[str, Any]) -> Any:
    return (
        lambda: lists.list.reverse(),
        lambda found: [found.explode().to_numpy().astype(np.float32)[:, None]],
    )


def _max_index(lists: Any, inputs: dict[str, Any]) -> Any:
    full, x = inputs["full"], inputs["data"]
    starts = inputs["offsets"][:-1][full]

    def arrays(found: Any) -> list[Any]:
        values, places = found
        rows = (starts + places.to_numpy().astype(np.int64))[:, None]
        return [values.to_numpy().astype(np.float32)[:, None], np.take_along_axis(x, rows, axis=0)]

    return (lambda: (lists.list.max(), lists.list.arg_max())), arrays


def _slice(lists: Any, inputs: dict[str, Any]) -> Any:
    full = inputs["full"]
    frame = pl.DataFrame(
        {
            "x": lists,
            "start": inputs["slice_starts"][full],
            "count": inputs["slice_lengths"][full],
        }
    )
    cut = pl.col("x").list.slice(pl.col("start"), pl.col("count"))
    return (lambda: frame.select(cut)["x"]), _rows


def _cumsum(lists: Any, inputs: dict[str, Any]) -> Any:
    return (lambda: lists.list.eval(pl.element().cum_sum())), _rows


def _shift(lists: Any, inputs: dict[str, Any]) -> Any:
    return (lambda: lists.list.eval(pl.element().shift(1, fill_value=0))), _rows


def _diff(lists: Any, inputs: dict[str, Any]) -> Any:
    return (lambda: lists.list.diff(null_behavior="drop")), _rows


def _softmax(lists: Any, inputs: dict[str, Any]) -> Any:
    element = pl.element()
    powers = (element - element.max()).exp()
    return (lambda: lists.list.eval(powers / powers.sum())), _rows


def _log_softmax(lists: Any, inputs: dict[str, Any]) -> Any:
    shifted = pl.element() - pl.element().max()
    return (lambda: lists.list.eval(shifted - shifted.exp().sum().log())), _rows


def _rows(found: Any) -> list[Any]:
    values = found.explode().drop_nulls().to_numpy()
    return [values.astype(np.float32)[:, None]]


_OPS = {name: _pooled(name) for name in ("sum", "mean", "max", "min", "first", "last")}
_OPS |= {
    "reverse": _reverse,
    "max_index": _max_index,
    "slice": _slice,
    "cumsum": _cumsum,
    "shift": _shift,
    "diff": _diff,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
}
