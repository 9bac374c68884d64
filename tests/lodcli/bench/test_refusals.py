"""Cases that cannot be measured are an error of one line, before allocation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lodcli.bench.suites.lengths import Lengths
from lodcli.commands.bench.showing import file_lengths
from tests.hanging import HANG_SECONDS, wait_for
from tests.lodcli.conftest import Lod

USAGE, IO, UNSUPPORTED = 2, 3, 4


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("kernels --rows 0", USAGE, "expected a whole number from 1"),
        ("rnn --precision tf32", USAGE, "--precision tf32 goes with --device cuda"),
        ("rnn --precision bfloat16 --device cpu,cuda", USAGE, "bfloat16 is measured on one device"),
        ("kernels --rows 1.5", USAGE, "expected a whole number from 1"),
        ("kernels --rows 1e16", USAGE, "expected a whole number from 1"),
        ("kernels --features -3", USAGE, "expected a whole number from 1"),
        ("rnn --hidden nan", USAGE, "expected a whole number from 1"),
        ("kernels --op sum,attention_float16", USAGE, "--op attention_float16 goes with --device"),
        ("kernels --op sum --rows 1e15", IO, "drawing 20,000,000,000,000 lengths needs about"),
        ("kernels --op sum --rows 1e12 --lengths fixed:1e9", IO, "kernels sum custom needs about"),
        ("kernels --op sum --features 1e13", IO, "kernels sum custom needs about"),
        ("rnn --cell gru --hidden 1e9", IO, "rnn gru custom needs about"),
        ("convert --rows 1e12 --op jsonl_to_lod", IO, "needs about"),
        ("io --rows 1e12", IO, "needs about"),
        ("slice --rows 1e12", IO, "needs about"),
        ("padding --rows 1e12", IO, "needs about"),
        ("levels --sequences 1e12", IO, "needs about"),
        ("kernels --lengths nonsense:1", USAGE, "expected lognormal:MEAN,SIGMA"),
        ("kernels --lengths uniform:9,1", USAGE, "the least length is above the greatest"),
        ("kernels --lengths lognormal:50,9", USAGE, "a sigma of at most 5"),
        ("kernels --lengths lognormal:nan,1", USAGE, "expected lognormal:MEAN,SIGMA"),
        ("kernels --lengths missing.lod.h5", IO, "no such file"),
        ("kernels --lengths .", IO, "is a folder"),
        ("kernels --sweep rows=nan", USAGE, "expected WHAT=N,N,.."),
        ("kernels --sweep rows=1e3,inf", USAGE, "expected WHAT=N,N,.."),
        ("kernels --sweep rows=2.5", USAGE, "expected WHAT=N,N,.."),
        ("kernels --sweep skew=9", USAGE, "expected a sigma from 0 to 5"),
        ("kernels --sweep colour=1", USAGE, "expected one of rows"),
        ("kernels --seed -1", USAGE, "is not in the range"),
        ("kernels --budget nan", USAGE, "expected seconds"),
        ("kernels --rounds 0", USAGE, "is not in the range"),
        ("kernels --threads 0", USAGE, "expected numbers of 1"),
        ("kernels --threads 1,1000", USAGE, "--threads 1000: more than the"),
        ("kernels --device abacus", USAGE, "expected cpu, cuda or both"),
        ("kernels --peer-python paddle=nowhere", USAGE, "nowhere cannot be run"),
        ("kernels --peer-python abacus=python", USAGE, "expected PEER=PYTHON"),
        ("kernels --against abacus", USAGE, "no such peer of kernels"),
        ("kernels --against=", USAGE, "--against is empty; name peers, or none"),
        ("kernels --case=", USAGE, "--case : expected one of B1"),
        ("rnn --case=", USAGE, "--case : expected one of a"),
        ("kernels --rows 9 --case=", USAGE, "--case : expected one of B1"),
        (
            "kernels --rows 9 --case S1,S2",
            USAGE,
            "expected one case with --sweep, --lengths or sizes",
        ),
        ("rnn --sweep rows=9 --case a,b", USAGE, "--case a,b: expected one case"),
        ("kernels --sweep hidden=3,4", USAGE, "no hidden size; use --sweep features"),
        ("kernels -o nowhere/report.json", IO, "cannot be written"),
        ("kernels -o .", IO, "is a folder"),
        ("kernels --json --export csv", USAGE, "both write to standard output"),
        ("slice --json --plot -", USAGE, "--json and --plot - both write to standard output"),
        ("kernels --json -o -", USAGE, "--json and -o - both write to standard output"),
    ],
)
def test_an_invalid_case_is_one_line_before_anything_is_measured(
    lod: Lod, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "lodcli.commands.bench.showing.run_jobs", lambda *_: pytest.fail("measured")
    )
    done = lod("bench", *line.split())
    assert (done.code, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_text_of_lengths_is_no_container(lod: Lod, tmp_path: Path) -> None:
    path = tmp_path / "words.lod.h5"
    path.write_text("3 1 2")
    done = lod("bench", "kernels", "--lengths", path)
    assert (done.code, done.stdout) == (1, "")
    assert str(path) in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("suite", ["io --op read --rows 2e5", "load"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, signum: signal.Signals, suite: str) -> None:
    if suite == "load":
        pytest.importorskip("torch")
    line = (
        f"bench {suite} --threads 1 --rounds 1000 --budget 60 --against none "
        "--folder . -o report.json"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "lodcli", *line.split()],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    # Not before the process that measures has made its file.
    wait_for(lambda: list(tmp_path.glob("lod-bench-*/*/*.lod.h5")))
    started = children_of(process.pid)
    os.killpg(process.pid, signum)
    _, said = process.communicate(timeout=HANG_SECONDS)
    if signum == signal.SIGKILL:
        assert process.returncode == -signum
        wait_for(lambda: not list(tmp_path.iterdir()))
    else:
        assert (process.returncode, said) == (128 + signum, b"")
        assert list(tmp_path.iterdir()) == []
    wait_for(lambda: not any(map(runs, started)))


def runs(process: int) -> bool:
    """Return whether a process has not ended; one that nobody asked for its end has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(number) for number in text.split()]


def test_a_file_of_more_lengths_than_fit_into_memory_is_refused(
    lod: Lod, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An endless pipe is one of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOD_MEMORY", "1M")
    Path("lines.jsonl").write_text("[1,2]\n" * 100_000)
    done = lod("bench", "kernels", "--op", "sum", "--lengths", "lines.jsonl")
    assert (done.code, done.stdout) == (1, "")
    assert "lines.jsonl: the first " in done.stderr
    assert "lengths fill the memory budget; choose a file of fewer sequences" in done.stderr


def test_lengths_of_a_file_without_counts_are_read_in_batches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines.jsonl").write_text("[[1,2],[]]\n[[3]]\n[]\n" * 50_000)
    monkeypatch.setenv("LOD_MEMORY", "8M")
    assert file_lengths("lines.jsonl").tolist() == [2, 0, 1] * 50_000


@pytest.mark.parametrize(
    "line",
    ["kernels --case B2 --op pad", "rnn --case c", "linear --case many", "io", "load", "padding"],
)
def test_rows_that_do_not_fit_are_refused_before_lengths_are_drawn(
    lod: Lod, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    if line == "load":
        pytest.importorskip("torch")
    monkeypatch.setattr("lodcli.bench.measure.machine.available_bytes", lambda: 20 * 10**9)
    monkeypatch.setattr(Lengths, "draw", lambda *_: pytest.fail("drawn"))
    done = lod("bench", *line.split(), "--rows", "2147483648")
    assert (done.code, done.stdout) == (IO, "")
    assert " custom needs about " in done.stderr
