"""FlashAttention on packed rows: `flash_attn_varlen_func`, only for float16 and bfloat16."""

from __future__ import annotations

from typing import Any

import flash_attn
import numpy as np
import torch

from lodcli.bench.peers.torch import require_gpu, threads

__all__ = ["kernels", "require_gpu", "threads", "version"]


def version() -> str:
    """Return the measured versions."""
    return f"{flash_attn.__version__} on torch {torch.__version__}"


def kernels(op: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementation of attention, or attention with gradients, with FlashAttention."""
    which, _, name = op.rpartition("_")
    if which not in ("attention", "attention_grad") or name not in ("float16", "bfloat16"):
        return {}
    device, dtype = inputs.get("device", "cpu"), getattr(torch, name)

    def there(rows: str) -> Any:
        return torch.as_tensor(inputs[rows], device=device).to(dtype)[:, None]

    x = there("data")
    bounds = torch.as_tensor(inputs["offsets"], dtype=torch.int32, device=device)
    longest = int(np.diff(inputs["offsets"]).max(initial=0))

    def attend(*rows: Any) -> Any:
        return flash_attn.flash_attn_varlen_func(*rows, bounds, bounds, longest, longest)

    def arrays(found: Any) -> list[Any]:
        return [one[:, 0].float().cpu().numpy() for one in found]

    if which == "attention":
        return {"varlen": (lambda: [attend(x, x, x)], arrays)}
    leaves, upstream = [x.clone().requires_grad_(True) for _ in range(3)], there("addend")
    return {
        "varlen": (lambda: torch.autograd.grad(attend(*leaves), leaves, upstream), arrays),
    }
