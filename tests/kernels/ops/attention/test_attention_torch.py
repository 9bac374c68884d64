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
@pytest.mark.parametrize("groups", [1, 3])
def test_attention_is_that_of_torch(
    backend: Backend, groups: int, queries: list[int], keys: list[int], align: Any
) -> None:
    generator = np.random.default_rng(1)
    q_lod, k_lod = LoD.from_lengths([queries]), LoD.from_lengths([keys])
    heads = 2 * groups
    shapes = (
        (sum(queries), heads, 4),
        (sum(keys), 2, 4),
        (sum(keys), 2, 3),
        (sum(queries), heads, 3),
    )
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
        # As with enable_gqa, which not every mask of torch allows.
        each = [theirs[0], *(one.repeat_interleave(groups, 0) for one in theirs[1:])]
        found = torch.nn.functional.scaled_dot_product_attention(*each, attn_mask=mask)
        near(out.data[rows], found.detach().numpy().transpose(1, 0, 2), 1e-12)
        found.backward(torch.tensor(upstream[rows].transpose(1, 0, 2)))
        for gradient, one, where in zip(grads, theirs, (rows, seen, seen), strict=True):
            near(gradient.data[where], one.grad.numpy().transpose(1, 0, 2), 1e-12)


@on_every_backend
@pytest.mark.parametrize("lengths", [[], [0], [2, 0, 40, 1]])
def test_grouped_queries_are_those_of_repeated_keys(backend: Backend, lengths: list[int]) -> None:
    """Also the gradients: of a head of keys the sum over the heads of queries that read it."""
    generator = np.random.default_rng(4)
    lod = LoD.from_lengths([lengths])
    q, k, v, upstream = (
        generator.normal(size=(sum(lengths), *shape)) for shape in ((6, 4), (2, 4), (2, 3), (6, 3))
    )
    each_k, each_v = k.repeat(3, axis=1), v.repeat(3, axis=1)
    given = [LoDTensor(one, lod) for one in (q, k, v)]
    repeated = [LoDTensor(one, lod) for one in (q, each_k, each_v)]
    options: Any = {"causal": True, "backend": backend}
    out = sequence_attention(*given, **options)
    near(out.data, sequence_attention(*repeated, **options).data, 1e-12)
    found = sequence_attention_grad(upstream, *given, **options)
    wanted = [one.data for one in sequence_attention_grad(upstream, *repeated, **options)]
    near(found[0].data, wanted[0], 1e-12)
    for one, other in zip(found[1:], wanted[1:], strict=True):
        near(one.data, other.reshape(len(other), 2, 3, one.row_shape[1]).sum(axis=2), 1e-12)


def test_autograd_tracks_grouped_queries() -> None:
    import lodcli

    generator = np.random.default_rng(5)
    lod = LoD.from_lengths([[3, 2]])
    arrays = [generator.normal(size=(5, heads, 4)) for heads in (4, 2, 2)]
    rows = [torch.tensor(one, requires_grad=True) for one in arrays]
    offsets = torch.tensor([0, 3, 5])
    nested = [torch.nested.nested_tensor_from_jagged(one, offsets) for one in rows]
    out = lodcli.torch.attention(*nested)
    whole = torch.nn.functional.scaled_dot_product_attention(
        *(one[:3].transpose(0, 1) for one in rows), enable_gqa=True
    )
    near(out.values()[:3].detach().numpy(), whole.detach().numpy().transpose(1, 0, 2), 1e-12)
    (out.values() ** 2).sum().backward()
    given = [LoDTensor(one, lod) for one in arrays]
    wanted = sequence_attention_grad(2 * out.values().detach().numpy(), *given)
    for one, other in zip(rows, wanted, strict=True):
        near(one.grad.numpy(), other.data, 1e-12)
