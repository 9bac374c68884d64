"""Compiled kernels on disk: several processes, damage, and nowhere to write."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.hanging import HANG_SECONDS

pytest.importorskip("numba")

KERNELS = Path(__file__).parents[2] / "kernels"
# Sums by hand; then how often the kernel was loaded and how often compiled.
PROGRAM = """
import sys
import numpy as np
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.scan.scan import sequence_cumsum
from lodcli.kernels.tensor.lod_tensor import LoDTensor
rows = LoDTensor(np.array([1, 2, 3, 4], sys.argv[1]), LoD.from_lengths([[3, 1]]))
assert sequence_cumsum(rows, backend="numba").data.tolist() == [1, 3, 6, 4]
from lodcli.kernels.ops.scan.scan_numba import _running
print(sum(_running.stats.cache_hits.values()), sum(_running.stats.cache_misses.values()))
"""
LOADED, COMPILED = "1 0\n", "0 1\n"


def start(dtype: str, **more: str) -> subprocess.Popen[str]:
    kept = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, dtype],
        env={**kept, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, err) == (0, "")
    return out


def in_the_source_tree() -> set[Path]:
    return set(KERNELS.rglob("*.nbi"))


@pytest.mark.slow
def test_processes_that_compile_at_once_all_keep_what_they_made(tmp_path: Path) -> None:
    dtypes = ("float32", "float64", "int64", "uint64")
    for wanted in (COMPILED, LOADED):
        processes = [start(dtype, NUMBA_CACHE_DIR=str(tmp_path)) for dtype in dtypes]
        assert [end(process) for process in processes] == [wanted] * len(dtypes)


def test_writers_at_once_never_share_a_file_nor_lose_an_entry(tmp_path: Path) -> None:
    from lodcli.kernels.runtime.numba_cache_files import _Files

    def write(writer: int) -> None:
        for number in range(20):
            _Files(str(tmp_path), "kernel", b"stamp").save((writer, number), f"{writer} {number}")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = _Files(str(tmp_path), "kernel", b"stamp")
    for writer in range(4):
        for number in range(20):
            assert files.load((writer, number)) == f"{writer} {number}"


def test_another_source_loads_nothing_old_and_leaves_none_of_it(tmp_path: Path) -> None:
    from lodcli.kernels.runtime.numba_cache_files import _Files

    _Files(str(tmp_path), "kernel", b"old").save("key", "old code")
    fresh = _Files(str(tmp_path), "kernel", b"new")
    assert fresh.load("key") is None
    fresh.save("key", "new code")
    assert fresh.load("key") == "new code"
    assert len(list(tmp_path.glob("*.nbc"))) == 1


def test_a_change_in_any_kernel_changes_the_stamp_of_all(tmp_path: Path) -> None:
    from lodcli.kernels.runtime.numba_cache_files import _folder_of, _stamp

    def stamp(source: Path) -> bytes:
        _stamp.cache_clear()
        return _stamp(_folder_of(str(source)))

    deep = tmp_path / "kernels" / "ops"
    deep.mkdir(parents=True)
    one, two = tmp_path / "kernels" / "one_numba.py", deep / "two_numba.py"
    one.write_text("a = 1")
    two.write_text("b = 1")
    before = stamp(one)
    assert stamp(two) == before
    two.write_text("b = 2")
    assert stamp(one) != before
    _stamp.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, name: str) -> None:
    # A folder below a file cannot be made, not even by root.
    file, temporary = tmp_path / "file", tmp_path / "temporary"
    file.write_text("no folder")
    temporary.mkdir()
    before = in_the_source_tree()
    more = {"XDG_CACHE_HOME": "", name: str(file / "below"), "TMPDIR": str(temporary)}
    assert end(start("float64", **more)) == COMPILED
    assert not list(temporary.iterdir())
    assert in_the_source_tree() == before


def test_nowhere_to_write_at_all_costs_only_time(tmp_path: Path) -> None:
    from lodcli.kernels.runtime import numba_cache_files as kept

    function: Any = test_nowhere_to_write_at_all_costs_only_time

    def refused(*_: object) -> None:
        raise RuntimeError("no locator available")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "_Cache", refused)
        patch.setattr(kept, "_is_ours", lambda function: True)
        assert kept._cache_for(function).cache_path is None


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["nbc", "nbi"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, ending: str) -> None:
    more = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert end(start("float64", **more)) == COMPILED
    damaged = list(tmp_path.rglob(f"*.{ending}"))
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[:20])
    assert end(start("float64", **more)) == COMPILED
    assert end(start("float64", **more)) == LOADED
