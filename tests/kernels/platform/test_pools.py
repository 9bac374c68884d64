"""Pools of threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.kernels.platform import pools


def test_without_memory_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_THREAD_BYTES", 1 << 60)
    with pytest.raises(MemoryError):
        pools.thread_pool(1, "lod-test")


AT_THE_END = """
import atexit, importlib, sys, threading, lodcli
def copy():
    lodcli.write(sys.argv[2], lodcli.read(sys.argv[1]))
    print("copied")
def late():
    threading.main_thread().join()
    copy()
importlib.import_module(sys.argv[3])
threading.Thread(target=late).start() if sys.argv[4] == "thread" else atexit.register(copy)
"""


@pytest.mark.parametrize("where", ["thread", "atexit"])
@pytest.mark.parametrize(
    ("name", "imports"),
    # h5py cannot be imported when the interpreter ends: it crashes.
    [("a.parquet", "lodcli"), ("a.parquet", "concurrent.futures.thread"), ("a.lod.h5", "h5py")],
)
def test_files_are_read_and_written_when_the_interpreter_ends(
    tmp_path: Path, name: str, imports: str, where: str
) -> None:
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    # Large enough for threads: several batches, and a block of which checksums are computed.
    lodcli.write(tmp_path / name, lodcli.LoDTensor(np.arange(1 << 18), [[2] * (1 << 17)]))
    copy = tmp_path / f"copy-{name}"
    arguments = [str(tmp_path / name), str(copy), imports, where]
    ended = subprocess.run(
        [sys.executable, "-c", AT_THE_END, *arguments], capture_output=True, text=True
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("copied\n", "", 0)
    assert copy.read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("imports", ["threading", "concurrent.futures.thread"])
def test_calls_when_the_interpreter_ends_return_or_raise(imports: str) -> None:
    code = f"""
import atexit, {imports}
from lodcli.kernels.platform.pools import thread_pool
def call():
    with thread_pool(1, "lod-test") as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        print(repr(pool.submit(int, "one").exception()))
atexit.register(call)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stderr == ""
    assert ended.stdout.startswith("ValueError(")
