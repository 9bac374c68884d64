"""`lod bench rnn`, small: ours and every peer run the same network."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest

from lodcli.bench.measure.peer_set import PeerSet, chosen_peers
from lodcli.bench.runner import run_task
from lodcli.bench.suites.cases import RNN_CASES
from lodcli.bench.suites.lengths import LengthsError, parse_lengths
from lodcli.bench.suites.rnn import CELLS, ON_PADDED, PASSES, box_places, rnn_lengths, rnn_task
from lodcli.kernels.rnn.engine.amx.availability import amx_problem
from tests.lodcli.bench.small import QUICK, small_layer
from tests.lodcli.conftest import Lod
from tests.slow import slow_except

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def peers() -> Iterator[PeerSet]:
    with PeerSet("rnn", chosen_peers("rnn", None), 1, {}) as found:
        yield found


@pytest.mark.parametrize("which", slow_except(["forward"], PASSES))
@pytest.mark.parametrize("cell", slow_except(["gru"], CELLS))
def test_every_peer_and_the_padded_run_agree_with_ours(
    cell: str, which: str, peers: PeerSet
) -> None:
    task = rnn_task(cell, which, small_layer(), peers)
    # Two products of 60 rows: inputs and states with the weights of every gate.
    assert task.work.useful == 2 * 60 * CELLS[cell] * 6 * (5 + 6) * (1 if which == "forward" else 3)
    found = run_task(task, QUICK, threads=1)
    assert not found["skipped"]
    assert [row["label"] for row in found["rows"][:2]] == ["", ON_PADDED]
    assert {row["library"] for row in found["rows"]} == {
        "lod",
        *(name for name in peers.versions if which == "forward" or name != "onnxruntime"),
    }


@pytest.mark.skipif(amx_problem() is not None, reason=f"needs AMX: {amx_problem()}")
@pytest.mark.parametrize("which", PASSES)
def test_products_of_bfloat16_agree_with_those_of_torch(which: str, peers: PeerSet) -> None:
    found = run_task(rnn_task("lstm", which, small_layer(), peers, "bfloat16"), QUICK, threads=1)
    assert not found["skipped"]
    assert {(row["case"], row["limit"]) for row in found["rows"]} == {("custom bfloat16", None)}


@pytest.mark.parametrize("which", PASSES)
def test_float64_is_compared_to_its_last_digits(which: str, peers: PeerSet) -> None:
    task = rnn_task("lstm", which, small_layer(), peers, dtype="float64")
    assert task.tolerance <= 1e-12
    found = run_task(task, QUICK, threads=1)
    assert not found["skipped"]
    assert {(row["case"], row["limit"]) for row in found["rows"]} == {("custom float64", None)}
    others = {row["library"] for row in found["rows"]} - {"lod"}
    assert "torch" in others or "torch" not in peers.versions
    assert "onnxruntime" not in others


def test_peers_are_loaded_by_processes_of_their_own() -> None:
    if find_spec("onnxruntime") is None:
        pytest.skip("needs the package onnxruntime")
    told = (
        "import sys; from lodcli.bench.measure.peer_set import PeerSet\n"
        "with PeerSet('rnn', ['onnxruntime'], 1, {}) as peers: print(list(peers.versions))\n"
        "print('onnxruntime' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["['onnxruntime']", "False"]


def test_named_cases_have_the_rows_and_the_longest_sequence_they_say() -> None:
    lengths = rnn_lengths(RNN_CASES["b"])
    assert (lengths.size, lengths.sum(), lengths.max()) == (256, 15_360, 240)
    assert lengths.min() >= 1
    with pytest.raises(LengthsError, match="do not fit"):
        parse_lengths("lognormal:50,1,0,60").draw(3, 300, np.random.default_rng(0))


@pytest.mark.slow
def test_places_count_through_the_box() -> None:
    assert box_places(np.array([2, 3, 1])).tolist() == [0, 1, 3, 4, 5, 6]


@pytest.mark.slow
def test_the_command_measures_what_is_asked(shell: Lod) -> None:
    done = shell(
        "lod bench rnn --cell gru --pass forward --rows 40 --sequences 5 --features 3 --hidden 4 "
        "--against none --rounds 1 --budget 0 --threads 1 --json"
    )
    assert (done.code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    rows = report["results"]
    assert report["limits"]["1"].keys() == {"fma", "gemm numpy"}
    assert all(rate > 1e8 for rate in report["limits"]["1"].values())
    assert [(row["op"], row["unit"], row["limit"]) for row in rows] == [
        ("gru forward", "FLOP", "fma")
    ] * 2
    assert rows[0]["parameters"]["hidden"] == "4"
    assert shell("lod bench rnn --cell transformer").code == 2
    assert shell("lod bench rnn --hidden 100000 --rows 100000000").code == 3
