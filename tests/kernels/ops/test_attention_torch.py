"""Attention inside sequences against torch's, one sequence at a time, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.lod import LoD
from lodcli.kernels.ops.attention import (
    default_scale,
    segment_attention_grad,
    sequence_attention,
)
from lodcli.kernels.tensor import LoDTensor
from tests.cases_ops import near

torch: Any = pytest.importorskip("torch", reason="the torch package is not installed")

# torch's causal mask aligns first with first, ours last with last: equal for equal numbers.
CASES = [([3, 1, 5], [2, 4, 5], False), ([3, 1, 5], [3, 1, 5], False), ([3, 1, 5], [3, 1, 5], True)]


@pytest.mark.parametrize(("queries", "keys", "causal"), CASES)
def test_attention_is_that_of_torch(queries: list[int], keys: list[int], causal: bool) -> None:
    generator = np.random.default_rng(1)
    q_lod, k_lod = LoD.from_lengths([queries]), LoD.from_lengths([keys])
    shapes = (sum(queries), 2, 4), (sum(keys), 2, 4), (sum(keys), 2, 3), (sum(queries), 2, 3)
    q, k, v, upstream = (generator.normal(size=shape) for shape in shapes)
    out = sequence_attention(
        LoDTensor(q, q_lod), LoDTensor(k, k_lod), LoDTensor(v, k_lod), causal=causal
    )
    grads = segment_attention_grad(
        *(q, k, v, q_lod.levels[0], k_lod.levels[0]),
        grad=upstream,
        causal=causal,
        scale=default_scale(4),
    )
    for s in range(3):
        rows = slice(*q_lod.levels[0][s : s + 2].tolist())
        seen = slice(*k_lod.levels[0][s : s + 2].tolist())
        ours = (q[rows], k[seen], v[seen])
        theirs = [torch.tensor(one.transpose(1, 0, 2), requires_grad=True) for one in ours]
        found = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=causal)
        near(out.data[rows], found.detach().numpy().transpose(1, 0, 2), 1e-12)
        found.backward(torch.tensor(upstream[rows].transpose(1, 0, 2)))
        for gradient, one, where in zip(grads, theirs, (rows, seen, seen), strict=True):
            near(gradient[where], one.grad.numpy().transpose(1, 0, 2), 1e-12)
