"""A file that decompresses to more than the limit is refused early, with little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.formats.broken.bombs import bombs

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

MAX_BYTES = 20 << 20
# The largest of what may be decompressed at once, and copies of it on their way.
MOST_MEMORY_BYTES = 200 << 20

# Reads each file of standard input in a fork, which has everything loaded already.
READING = r"""
import json, os, resource, signal, sys
import h5py, pyarrow.ipc, pyarrow.json, pyarrow.parquet
import lodcli
from lodcli.formats.core.limits import Limits
from lodcli.kernels.errors import LodError
for line in sys.stdin:
    path, max_bytes, isolate = json.loads(line)
    if child := os.fork():
        if status := os.waitpid(child, 0)[1]:
            print(json.dumps(["died", f"status {status}", 0]), flush=True)
        continue
    signal.alarm(300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with lodcli.open(path, limits=Limits(max_bytes, isolate)) as source:
            for _ in source.batches():
                pass
        found = "read", ""
    except LodError as error:
        found = type(error).__name__, str(error)
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    most = max(resource.getrusage(kind).ru_maxrss for kind in kinds)
    print(json.dumps([*found, (most - before) << 10]), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def reader() -> Iterator[subprocess.Popen[str]]:
    """Give a process that runs READING."""
    command = [sys.executable, "-c", READING]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("how", ["here", "isolated"])
@pytest.mark.parametrize("name", bombs())
def test_bombs_are_refused_in_little_memory(
    name: str, how: str, tmp_path: Path, reader: subprocess.Popen[str]
) -> None:
    ending, write = bombs()[name]
    path = tmp_path / f"bomb{ending}"
    write(path)
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(json.dumps([str(path), MAX_BYTES, how == "isolated"]) + "\n")
    reader.stdin.flush()
    kind, message, memory_bytes = json.loads(reader.stdout.readline())
    assert (kind, message[: len(str(path))]) == ("TooLargeError", str(path)), message
    assert f"at most {MAX_BYTES} are allowed" in message or "line " in message
    assert message.endswith("allow more with limits=")
    assert memory_bytes < MOST_MEMORY_BYTES
