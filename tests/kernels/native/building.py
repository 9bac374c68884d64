"""Kernels built for tests, in a process of their own: numba stays out of the tests' process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lodcli.kernels.native import settings

_BUILD = """
import sys
from pathlib import Path
from lodcli.kernels.native.build import compiled, library, tasks
from lodcli.kernels.native.processor import level_named
level = level_named(sys.argv[1])
done = compiled(level.name, tasks(level.name, sys.argv[4:]))
Path(sys.argv[3]).write_bytes(library(level, done, sys.argv[2]))
"""


def python(script: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a separate process."""
    left_out = {"LOD_NATIVE", "LOD_BUILD_OBJECTS"}
    environment = {name: text for name, text in os.environ.items() if name not in left_out}
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *words],
        env={**environment, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def built(*modules: str, build: str, level: str = "", **more: str) -> bytes:
    """Return a library of all kernels of some modules."""
    pytest.importorskip("numba", reason="kernels are compiled by numba")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "built.so")
        level = level or settings.level().name
        done = python(_BUILD, level, build, str(path), *modules, **more)
        assert done.returncode == 0, done.stderr
        return path.read_bytes()
