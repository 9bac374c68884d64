"""flash-attn as a peer: a stand-in checks the rows and offsets that it gets."""

from __future__ import annotations

import importlib
import itertools
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lodcli.bench.measure.checks import difference
from lodcli.bench.suites.ops import make_inputs, ops_of, reference, sizes_of, tolerance_of
from tests.lodcli.bench.small import small_case

torch: Any = pytest.importorskip("torch")
HALVES = sorted({*ops_of(["cuda"])} - {*ops_of(["cpu"])})


def varlen(
    q: Any, k: Any, v: Any, q_bounds: Any, k_bounds: Any, q_longest: int, k_longest: int
) -> Any:
    """Compute what flash_attn_varlen_func does, and refuse what it does: (N, heads, D)."""
    assert {one.dtype for one in (q, k, v)} <= {torch.float16, torch.bfloat16}
    assert {one.dtype for one in (q_bounds, k_bounds)} == {torch.int32}
    assert q_longest == int(q_bounds.diff().max())
    assert k_longest == int(k_bounds.diff().max())
    parts = []
    for bounds in zip(
        itertools.pairwise(q_bounds.tolist()), itertools.pairwise(k_bounds.tolist()), strict=True
    ):
        ours, theirs = (slice(*each) for each in bounds)
        given = (one.transpose(0, 1) for one in (q[ours], k[theirs], v[theirs]))
        found = torch.nn.functional.scaled_dot_product_attention(*given)
        parts.append(found.transpose(0, 1))
    return torch.cat(parts)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("flash_attn")
    module.flash_attn_varlen_func, module.__version__ = varlen, "2.0"
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    name = "lodcli.bench.peers.torch_flash_attn"
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


@pytest.mark.parametrize("op", HALVES)
def test_attention_of_the_peer_equals_the_reference(op: str, peer: Any) -> None:
    case = small_case(8)
    lengths = case.draw_lengths()
    inputs = make_inputs(op, case, sizes_of(case, lengths))
    assert (lengths == 0).any()
    ((call, arrays),) = peer.kernels(op, inputs).values()
    found, expected = arrays(call()), reference(op, inputs)()
    assert {one.dtype for one in found} == {np.dtype(np.float32)}
    assert difference(found, expected, tolerance_of(op, lengths)) is None


def test_flash_attn_offers_no_other_op(peer: Any) -> None:
    assert [op for op in ops_of(["cuda"]) if op not in HALVES and peer.kernels(op, {})] == []
    assert peer.version().startswith("2.0 on torch")
