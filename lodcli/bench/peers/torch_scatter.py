"""torch_scatter: segment ops over compressed row pointers."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

import numpy as np
import torch
import torch_scatter

from lodcli.bench.peers.torch import require_gpu, threads

__all__ = ["kernels", "require_gpu", "threads", "version"]


def version() -> str:
    """Return the measured versions."""
    return f"{installed('torch-scatter')} on torch {torch.__version__}"


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op with torch_scatter."""
    return _OPS[op](inputs) if op in _OPS else {}


def _there(inputs: dict[str, Any], name: str) -> Any:
    return torch.as_tensor(inputs[name], device=inputs.get("device", "cpu"))


def _csr(inputs: dict[str, Any], kind: str) -> dict[str, Any]:
    x, offsets = _there(inputs, "data"), _there(inputs, "offsets")
    full = inputs["full"]
    target = x.new_zeros(full.size, x.shape[1])

    def arrays(rows: Any) -> list[Any]:
        return [rows.cpu().numpy()[full]]

    return {
        "segment_csr": (lambda: torch_scatter.segment_csr(x, offsets, reduce=kind), arrays),
        "segment_csr out=": (
            lambda: torch_scatter.segment_csr(x, offsets, out=target, reduce=kind),
            arrays,
        ),
    }


def _max_index(inputs: dict[str, Any]) -> dict[str, Any]:
    x, offsets = _there(inputs, "data"), _there(inputs, "offsets")
    full = inputs["full"]

    def arrays(found: Any) -> list[Any]:
        rows = found[1].cpu().numpy()[full]
        return [found[0].cpu().numpy()[full], np.take_along_axis(x.cpu().numpy(), rows, axis=0)]

    return {"segment_max_csr": (lambda: torch_scatter.segment_max_csr(x, offsets), arrays)}


def _softmax(inputs: dict[str, Any]) -> dict[str, Any]:
    # Its scatter_softmax needs an index for every value; wide rows would take minutes.
    x, lengths = _there(inputs, "data"), _there(inputs, "offsets").diff()
    if x.shape[1] > 1:
        return {}
    ids = torch.repeat_interleave(torch.arange(len(lengths), device=x.device), lengths)[:, None]
    return {
        "scatter_softmax": (
            lambda: torch_scatter.composite.scatter_softmax(x, ids, dim=0),
            lambda rows: [rows.cpu().numpy()],
        )
    }


def _expand(inputs: dict[str, Any]) -> dict[str, Any]:
    values, offsets = _there(inputs, "values"), _there(inputs, "offsets")
    target = values.new_zeros(len(inputs["data"]), values.shape[1])
    return {
        "gather_csr": (
            lambda: torch_scatter.gather_csr(values, offsets),
            lambda rows: [rows.cpu().numpy()],
        ),
        "gather_csr out=": (
            lambda: torch_scatter.gather_csr(values, offsets, out=target),
            lambda rows: [rows.cpu().numpy()],
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
