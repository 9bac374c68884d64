"""`lod warmup`: compiles, says where, and what it compiled is what ops use."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Lod, environment

pytest.importorskip("numba")


def versions(cache: Path) -> set[Path]:
    return set(cache.rglob("*.nbc"))


def told(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(text)
    return content


@pytest.mark.slow
def test_an_op_that_was_warmed_up_compiles_nothing_more(shell: Lod, folder: Path) -> None:
    cache = folder / "cache"
    done = shell("lod warmup cumsum --json", NUMBA_CACHE_DIR=str(cache))
    assert (done.code, done.stderr) == (0, "")
    content = told(done.stdout)
    assert [one["name"] for one in content["compiled"]] == ["cumsum"]
    assert content["cache"] == str(cache)
    files = [path for path in cache.rglob("*") if path.suffix in (".nbc", ".nbi")]
    assert content["cache_bytes"] == sum(path.stat().st_size for path in files) > 0
    before = {path: path.stat().st_mtime_ns for path in files}
    for dtype in ("float32", "float64", "int32", "int64"):
        rows = LoDTensor(np.ones((6, 2), dtype), LoD.from_lengths([[2, 0, 4]]))
        io.write(folder / f"{dtype}.lod.h5", rows)
        line = f"lod apply cumsum {dtype}.lod.h5 -o {dtype}-sums.lod.h5 --backend numba"
        done = shell(line, NUMBA_CACHE_DIR=str(cache))
        assert (done.code, done.stderr) == (0, "")
        sums = io.read(folder / f"{dtype}-sums.lod.h5")
        assert isinstance(sums, LoDTensor)
        np.testing.assert_array_equal(sums.data[:, 0], [1, 2, 1, 2, 3, 4])
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert versions(cache) <= set(before)


def test_clear_deletes_compiled_kernels_and_nothing_else(shell: Lod, folder: Path) -> None:
    cache = folder / "cache"
    cache.mkdir()
    (cache / "notes.txt").write_text("mine")
    done = shell("lod warmup enumerate", NUMBA_CACHE_DIR=str(cache))
    assert (done.code, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.startswith("1 kernel ready in ")
    assert second.startswith(f"{cache}: ")
    assert versions(cache)
    done = shell("lod warmup --clear", NUMBA_CACHE_DIR=str(cache))
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.endswith(" deleted\n")
    assert not versions(cache)
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["notes.txt"]


def test_a_name_that_is_not_compiled_is_refused(lod: Lod) -> None:
    done = lod("warmup", "sums")
    assert done.code == 2
    assert "'sums' is not compiled; there are: add, " in done.stderr
    done = lod("warmup", "sum", "--clear")
    assert done.code == 2
    assert "--clear deletes everything" in done.stderr


def test_every_job_is_an_op_or_known_by_name() -> None:
    from lodcli.commands.warmup.kernels import jobs

    assert set(jobs(())) - set(OPS) == {"rnn", "jsonl"}


def on_a_terminal(line: str, folder: Path, cache: Path) -> str:
    """Run a command line whose standard error is a terminal; return what is shown there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", line],
        cwd=folder,
        env=environment(NUMBA_CACHE_DIR=str(cache), TERM="xterm"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    # At the end a read fails with EIO.
    with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as stream:
        while part := stream.read(4096):
            shown += part
    process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0
    return shown.decode()


@pytest.mark.slow
def test_a_terminal_is_told_of_compiling_once_and_nobody_else(shell: Lod, folder: Path) -> None:
    line = "lod apply enumerate many.lod.h5::tags --win-size 2 --backend numba -f -o o.lod.h5"
    cache = folder / "cache"
    assert on_a_terminal(line, folder, cache) == "lod apply enumerate: compiling, once\r\n"
    assert on_a_terminal(line, folder, cache) == ""
    assert on_a_terminal(f"{line} -q", folder, folder / "another") == ""
    done = shell(line, NUMBA_CACHE_DIR=str(folder / "third"))
    assert (done.code, done.stderr) == (0, "")
    assert versions(folder / "third")
    (folder / "file").write_text("no folder")
    shown = on_a_terminal(line, folder, folder / "file" / "below")
    assert "compiling, for this time only: NUMBA_CACHE_DIR names a folder" in shown
