"""Training on episodes of very different lengths, empty ones included, without padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoD, LoDTensor

torch: Any = pytest.importorskip("torch")
ours: Any = lodcli.torch

LENGTHS = [1, 0, 700, 37, 0, 112, 2]


def loss_of(rnn: Any, head: Any, seen: Any, actions: Any, returns: Any) -> Any:
    """Return the policy-gradient loss of episodes one by one, by torch alone."""
    total = 0.0
    for rows, action, later in zip(seen, actions, returns, strict=True):
        if len(rows):
            likely = torch.distributions.Categorical(logits=head(rnn(rows)[0])).log_prob(action)
            total = total - (likely * later).mean()
    return total


def test_training_on_episodes_equals_torch_on_each_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lod, steps = LoD.from_lengths([LENGTHS]), sum(LENGTHS)
    episodes = {
        "seen": LoDTensor(rng.standard_normal((steps, 4)), lod),
        "action": LoDTensor(rng.integers(0, 3, steps), lod),
        "reward": LoDTensor(rng.standard_normal((steps, 1)), lod),
    }
    lodcli.write(tmp_path / "episodes.lod.h5", episodes)
    torch.manual_seed(0)
    theirs, head = torch.nn.LSTM(4, 8, dtype=torch.float64), torch.nn.Linear(8, 3).double()
    mine = ours.LSTM(4, 8, dtype=torch.float64)
    mine.load_state_dict(theirs.state_dict())

    dataset = ours.Dataset(tmp_path / "episodes.lod.h5")
    sampler = ours.BatchSampler(dataset, rows=750, seed=2)
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler, collate_fn=ours.collate())
    total = 0.0
    for batch in loader:
        returns = ours.cumsum(batch["reward"], reverse=True)
        logits = head(mine(batch["seen"])[0]).values()
        likely = torch.distributions.Categorical(logits=logits).log_prob(batch["action"].values())
        cost = -(likely[:, None] * returns.values())
        total = (
            total + ours.mean(torch.nested.nested_tensor_from_jagged(cost, returns.offsets())).sum()
        )
    assert len(sampler) > 1

    parts = {
        name: [torch.from_numpy(np.array(each)) for each in tensor.to_arrays()]
        for name, tensor in episodes.items()
    }
    later = [each.flip(0).cumsum(0).flip(0)[:, 0] for each in parts["reward"]]
    wanted = loss_of(theirs, head, parts["seen"], parts["action"], later)
    torch.testing.assert_close(total, wanted, rtol=1e-10, atol=1e-10)
    for a, b in zip(
        torch.autograd.grad(total, [*mine.parameters()]),
        torch.autograd.grad(wanted, [*theirs.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)
