"""FBGEMM's jagged ops, called through torch."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch

from lodcli.bench.peers.torch import require_gpu, threads

# It warns about versions of torch that it was not built for; results are checked anyway.
logging.disable(logging.WARNING)
import fbgemm_gpu  # noqa: E402

logging.disable(logging.NOTSET)

__all__ = ["kernels", "require_gpu", "threads", "version"]


def version() -> str:
    """Return the measured versions."""
    return f"{fbgemm_gpu.__version__} on torch {torch.__version__}"


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an op with FBGEMM."""
    return _OPS[op](inputs) if op in _OPS else {}


def _there(inputs: dict[str, Any], array: Any) -> Any:
    return torch.as_tensor(array, device=inputs.get("device", "cpu"))


def _numpy(found: Any) -> list[Any]:
    return [found.cpu().numpy()]


def _sum(inputs: dict[str, Any]) -> dict[str, Any]:
    x, offsets = _there(inputs, inputs["data"]), _there(inputs, inputs["offsets"])
    if x.shape[1] != 1:
        return {}
    flat, full = x.reshape(-1), inputs["full"]
    return {
        "segment_sum_csr": (
            lambda: torch.ops.fbgemm.segment_sum_csr(1, offsets, flat),
            lambda sums: [sums.cpu().numpy()[full][:, None]],
        )
    }


def _softmax(inputs: dict[str, Any]) -> dict[str, Any]:
    x, offsets = _there(inputs, inputs["data"]), _there(inputs, inputs["offsets"])
    longest = int(np.diff(inputs["offsets"]).max(initial=0))
    if x.shape[1] == 1:
        return {}
    return {
        "jagged_softmax": (
            lambda: torch.ops.fbgemm.jagged_softmax(x, offsets, longest),
            lambda found: [found[0].cpu().numpy()],
        )
    }


def _pad(inputs: dict[str, Any]) -> dict[str, Any]:
    x, offsets = _there(inputs, inputs["data"]), _there(inputs, inputs["offsets"])
    maxlen = inputs["maxlen"]
    return {
        "jagged_to_padded_dense": (
            lambda: torch.ops.fbgemm.jagged_to_padded_dense(x, [offsets], [maxlen], 0.0),
            _numpy,
        )
    }


def _unpad(inputs: dict[str, Any]) -> dict[str, Any]:
    box, kept = _there(inputs, inputs["box"]), inputs["kept"]
    bounds = _there(inputs, np.concatenate([[0], np.cumsum(kept)]))
    total = int(kept.sum())
    return {
        "dense_to_jagged": (
            lambda: torch.ops.fbgemm.dense_to_jagged(box, [bounds], total),
            lambda found: [found[0].cpu().numpy()],
        )
    }


_OPS = {"sum": _sum, "softmax": _softmax, "pad": _pad, "unpad": _unpad}
