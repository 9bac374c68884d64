"""`lod bench convert`, `io`, `load` and `slice`, small: every way gives the same bytes."""

from __future__ import annotations

import contextlib
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lodcli.bench.measure.epochs import batched_way
from lodcli.bench.measure.peer_set import PeerSet, chosen_peers
from lodcli.bench.runner import run_task
from lodcli.bench.suites.cases import CONVERT_CASES, FILE_CASES, LOAD_CASES
from lodcli.bench.suites.convert import CONVERSIONS, convert_task
from lodcli.bench.suites.files import IO_OPS, files_task
from lodcli.bench.suites.load import load_task
from tests.lodcli.bench.small import QUICK, small_case
from tests.lodcli.conftest import Lod
from tests.slow import slow


@pytest.mark.parametrize("dtype", ["int64", "float32"])
@pytest.mark.parametrize("op", CONVERSIONS)
def test_every_converter_gives_the_same_values(op: str, dtype: str, tmp_path: Path) -> None:
    case = small_case(1, base=CONVERT_CASES["lines"])
    with PeerSet("convert", chosen_peers("convert", None), 1, {}) as peers:
        task = convert_task(op, case, np.dtype(dtype), tmp_path, peers)
        found = run_task(task, QUICK, threads=1)
    rows = found["rows"]
    assert not found["skipped"]
    assert [row["library"] for row in rows[:3]] == ["lod", "cp", "cp"]
    assert rows[0]["best_peer"] not in ("cp", "cp and fsync")
    # Reports round to five digits.
    share = rows[1]["median"] / rows[0]["median"]
    assert rows[0]["fraction_of_limit"] == pytest.approx(share, rel=1e-3)


@pytest.mark.parametrize("op", IO_OPS)
def test_every_file_gives_the_same_rows(op: str, tmp_path: Path) -> None:
    case = small_case(4, base=FILE_CASES["rows"])
    with (
        PeerSet("io", chosen_peers("io", None), 1, {}) as peers,
        contextlib.ExitStack() as opened,
    ):
        task = files_task("io", op, case, tmp_path, peers, opened)
        found = run_task(task, QUICK, threads=1)
    assert not found["skipped"]
    assert [row["label"] for row in found["rows"][:2]] == ["", "deflate"]
    peers_of = {"verify": {"crc32c"}, "write_synced": {"h5py", "safetensors"}}
    assert peers_of.get(op, {"numpy", "h5py"}) < {row["library"] for row in found["rows"]}


# WebDataset leaves its archive open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_every_loader_gives_the_same_sequences(tmp_path: Path) -> None:
    for package in ("torch", "webdataset", "datasets"):
        pytest.importorskip(package)
    case = small_case(4, base=LOAD_CASES["rows"])
    with PeerSet("load", ["webdataset", "datasets"], 1, {}) as peers:
        found = run_task(load_task(case, tmp_path, peers), QUICK, threads=1)
    assert not found["skipped"]
    assert [row["library"] for row in found["rows"]] == [
        "lod",
        "lod",
        "webdataset",
        *["datasets"] * 2,
    ]
    assert found["rows"][0]["fraction_of_limit"] > 0


def test_a_loader_that_leaves_out_a_sequence_is_found() -> None:
    rows = [np.full((length, 2), length, np.float32) for length in (3, 1, 2)]
    results = []
    for order in ([0, 1, 2], [2, 0, 1], [0, 2, 2], [0, 1]):
        chosen = [rows[place] for place in order]
        run, compared = batched_way(partial(list, chosen), 4)
        results.append([each.tolist() for each in compared(run())])
    assert results[0] == results[1] == [[6, 3], results[0][1]]
    assert results[2] not in results[:2]
    assert results[3] not in results[:2]


SMALL = "--rows 60 --against none --rounds 1 --budget 0 --threads 1 --json"


@pytest.mark.parametrize(
    ("line", "bench", "ops"),
    [
        slow("convert --op jsonl_to_lod,npz-to-lod", "convert", ["jsonl_to_lod", "npz_to_lod"]),
        ("io --op read --features 2", "io", ["read"]),
        ("slice --features 2", "slice", ["open_and_sequence"]),
        slow("load --features 2", "load", ["epoch"]),
    ],
)
def test_the_commands_measure_what_is_asked(
    shell: Lod, line: str, bench: str, ops: list[str]
) -> None:
    if bench == "load":
        pytest.importorskip("torch")
    done = shell(f"lod bench {line} {SMALL} --folder .")
    assert (done.code, done.stderr) == (0, "")
    rows = json.loads(done.stdout)["results"]
    assert {row["bench"] for row in rows} == {bench}
    assert list(dict.fromkeys(row["op"] for row in rows)) == ops
    assert shell("ls -d lod-bench-* 2>/dev/null").stdout == ""


def test_a_folder_that_is_not_there_is_refused(shell: Lod) -> None:
    done = shell("lod bench io --folder nowhere")
    assert (done.code, done.stdout) == (2, "")
    assert "nowhere" in done.stderr
