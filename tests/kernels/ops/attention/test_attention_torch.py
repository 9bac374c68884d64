"""Attention inside sequences against torch's, one sequence at a time, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.attention.attention import sequence_attention, sequence_attention_grad
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import near, on_every_backend

torch: Any = pytest.importorskip("torch")

# Queries and keys of each sequence.
CASES = [
    *(([3, 1, 5], [2, 4, 5]), ([3, 1, 5], [3, 1, 5]), ([3, 20, 1], [5, 17, 30])),
    ([70, 33, 90], [70, 40, 80]),
]


def mask_of(queries: int, keys: int, align: str | None) -> Any:
    """Return what torch masks: nothing, or as its two causal masks do."""
    if align is None:
        return None
    bias = pytest.importorskip("torch.nn.attention.bias")
    made = bias.causal_lower_right if align == "last" else bias.causal_upper_left
    return made(queries, keys)


@on_every_backend
@pytest.mark.parametrize("align", [None, "last", "first"])
@pytest.mark.parametrize(("queries", "keys"), CASES)
def test_attention_is_that_of_torch(
    backend: Backend, queries: list[int], keys: list[int], align: Any
) -> None:
    generator = np.random.default_rng(1)
    q_lod, k_lod = LoD.from_lengths([queries]), LoD.from_lengths([keys])
    shapes = (sum(queries), 2, 4), (sum(keys), 2, 4), (sum(keys), 2, 3), (sum(queries), 2, 3)
    q, k, v, upstream = (generator.normal(size=shape) for shape in shapes)
    options: Any = {"causal": align is not None, "align": align or "last", "backend": backend}
    given = LoDTensor(q, q_lod), LoDTensor(k, k_lod), LoDTensor(v, k_lod)
    out = sequence_attention(*given, **options)
    grads = sequence_attention_grad(upstream, *given, **options)
    for s in range(3):
        rows = slice(*q_lod.levels[0][s : s + 2].tolist())
        seen = slice(*k_lod.levels[0][s : s + 2].tolist())
        # Queries that see no key: torch makes them NaN, ours are zeros and give no gradient.
        blind = max(0, queries[s] - keys[s]) if align == "last" else 0
        assert not out.data[rows][:blind].any()
        assert not grads[0].data[rows][:blind].any()
        rows = slice(rows.start + blind, rows.stop)
        ours = (q[rows], k[seen], v[seen])
        theirs = [torch.tensor(one.transpose(1, 0, 2), requires_grad=True) for one in ours]
        mask = mask_of(queries[s] - blind, keys[s], align)
        found = torch.nn.functional.scaled_dot_product_attention(*theirs, attn_mask=mask)
        near(out.data[rows], found.detach().numpy().transpose(1, 0, 2), 1e-12)
        found.backward(torch.tensor(upstream[rows].transpose(1, 0, 2)))
        for gradient, one, where in zip(grads, theirs, (rows, seen, seen), strict=True):
            near(gradient.data[where], one.grad.numpy().transpose(1, 0, 2), 1e-12)
