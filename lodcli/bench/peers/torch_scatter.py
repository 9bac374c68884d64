"""torch_scatter: segment ops over compressed row pointers."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

import numpy as np
import torch
import torch_scatter


def version() -> str:
    """Return the versions measured."""
    return f"{installed('torch-scatter')} on torch {torch.__version__}"


def threads(count: int) -> None:
    """Make torch compute with so many threads."""
    torch.set_num_threads(count)


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the ways torch_scatter does an op."""
    return _OPS[op](inputs) if op in _OPS else {}


def _csr(inputs: dict[str, Any], kind: str) -> dict[str, Any]:
    x, offsets = torch.from_numpy(inputs["data"]), torch.from_numpy(inputs["offsets"])
    full = inputs["full"]
    target = torch.zeros(full.size, x.shape[1])

    def arrays(rows: Any) -> list[Any]:
        return [rows.numpy()[full]]

    return {
        "segment_csr": (lambda: torch_scatter.segment_csr(x, offsets, reduce=kind), arrays),
        "segment_csr out=": (
            lambda: torch_scatter.segment_csr(x, offsets, out=target, reduce=kind),
            arrays,
        ),
    }


def _max_index(inputs: dict[str, Any]) -> dict[str, Any]:
    x, offsets = torch.from_numpy(inputs["data"]), torch.from_numpy(inputs["offsets"])
    full = inputs["full"]

    def arrays(found: Any) -> list[Any]:
        rows = found[1].numpy()[full]
        return [found[0].numpy()[full], np.take_along_axis(inputs["data"], rows, axis=0)]

    return {"segment_max_csr": (lambda: torch_scatter.segment_max_csr(x, offsets), arrays)}


def _softmax(inputs: dict[str, Any]) -> dict[str, Any]:
    # Its scatter_softmax needs an index for every value; rows of many would take minutes.
    x, lengths = torch.from_numpy(inputs["data"]), torch.from_numpy(np.diff(inputs["offsets"]))
    if x.shape[1] > 1:
        return {}
    ids = torch.repeat_interleave(torch.arange(len(lengths)), lengths)[:, None]
    return {
        "scatter_softmax": (
            lambda: torch_scatter.composite.scatter_softmax(x, ids, dim=0),
            lambda rows: [rows.numpy()],
        )
    }


def _expand(inputs: dict[str, Any]) -> dict[str, Any]:
    values, offsets = torch.from_numpy(inputs["values"]), torch.from_numpy(inputs["offsets"])
    target = torch.zeros(len(inputs["data"]), values.shape[1])
    return {
        "gather_csr": (
            lambda: torch_scatter.gather_csr(values, offsets),
            lambda rows: [rows.numpy()],
        ),
        "gather_csr out=": (
            lambda: torch_scatter.gather_csr(values, offsets, out=target),
            lambda rows: [rows.numpy()],
        ),
    }


_OPS = {
    "sum": lambda inputs: _csr(inputs, "sum"),
    "mean": lambda inputs: _csr(inputs, "mean"),
    "max": lambda inputs: _csr(inputs, "max"),
    "min": lambda inputs: _csr(inputs, "min"),
    "max_index": _max_index,
    "softmax": _softmax,
    "expand": _expand,
}
