"""FlashRNN as a peer: its reference on the CPU checks the gates and biases that it gets."""

from __future__ import annotations

import numpy as np
import pytest

from lodcli.bench.suites.rnn import make_inputs, ours
from tests.lodcli.bench.small import small_layer


@pytest.mark.parametrize("which", ["forward", "training"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
def test_its_reference_computes_the_same(
    cell: str, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flashrnn")
    from lodcli.bench.peers import torch_flashrnn as peer

    monkeypatch.setattr(peer, "BACKENDS", ("vanilla",))
    inputs = make_inputs(cell, small_layer()) | {"precision": "float32"}
    ((call, arrays),) = peer.rnn(which, inputs).values()
    our_call, our_arrays = ours(which, inputs)[""]
    for theirs, mine in zip(arrays(call()), our_arrays(our_call()), strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-5)
