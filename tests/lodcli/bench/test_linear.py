"""`lod bench linear`, small: ours and every way of torch run the same layer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lodcli.bench.measure.peer_set import PeerSet, chosen_peers
from lodcli.bench.runner import run_task
from lodcli.bench.suites.linear import LINEAR_CELLS, linear_task
from lodcli.kernels.rnn.cells.linear_cell import LinearWeights
from lodcli.kernels.rnn.cells.registry import CELLS
from tests.lodcli.bench.small import QUICK, small_layer
from tests.lodcli.conftest import Lod

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def peers() -> Iterator[PeerSet]:
    with PeerSet("linear", chosen_peers("linear", None), 1, {}) as found:
        yield found


@pytest.mark.parametrize("which", ["forward", "training"])
@pytest.mark.parametrize("cell", LINEAR_CELLS)
def test_every_way_of_torch_agrees_with_ours(cell: str, which: str, peers: PeerSet) -> None:
    found = run_task(linear_task(cell, which, small_layer(), peers), QUICK, threads=1)
    assert not found["skipped"]
    ways = {row["label"] for row in found["rows"] if row["library"] == "torch"}
    assert ways == {"doubling", "loop"} | ({"log space"} if cell.startswith("min") else set())


def test_every_linear_cell_is_measured() -> None:
    linear = {kind for kind, cell in CELLS.items() if issubclass(cell.weights(), LinearWeights)}
    assert linear == set(LINEAR_CELLS)


@pytest.mark.slow
def test_the_command_measures_what_is_asked(shell: Lod) -> None:
    done = shell(
        "lod bench linear --cell s5 --pass forward --rows 40 --sequences 5 --features 3 --hidden 4 "
        "--against none --rounds 1 --budget 0 --threads 1 --json"
    )
    assert (done.code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert {row["op"] for row in report["results"]} == {"s5 forward"}
    assert "fma" in report["limits"]["1"]
