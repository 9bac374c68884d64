"""A file that comes to more than is allowed is refused early, and in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.formats.broken.bombs import bombs

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

MAX_BYTES = 20 << 20
# The largest of what may be decompressed at once, and copies of it on their way.
MOST_MEMORY_BYTES = 200 << 20

READING = r"""
import json, resource, sys
from lodcli.formats.core import io
from lodcli.formats.core.limits import Limits
from lodcli.kernels.errors import LodError
path, max_bytes, isolate = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "isolated"
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    with io.open_source(path, limits=Limits(max_bytes, isolate)) as source:
        for _ in source.batches():
            pass
    found = "read", ""
except LodError as error:
    found = type(error).__name__, str(error)
kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
most = max(resource.getrusage(kind).ru_maxrss for kind in kinds)
print(json.dumps([*found, (most - before) << 10]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["here", "isolated"])
@pytest.mark.parametrize("name", bombs())
def test_what_comes_to_too_much_is_refused_in_little_memory(
    name: str, how: str, tmp_path: Path
) -> None:
    ending, write = bombs()[name]
    path = tmp_path / f"bomb{ending}"
    write(path)
    command = [sys.executable, "-c", READING, str(path), str(MAX_BYTES), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    kind, message, memory_bytes = json.loads(done.stdout)
    assert (kind, message[: len(str(path))]) == ("TooLargeError", str(path)), message
    assert f"at most {MAX_BYTES} are allowed" in message or "line " in message
    assert "--max-bytes" in message
    assert memory_bytes < MOST_MEMORY_BYTES
