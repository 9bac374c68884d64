"""The outcome of a check, and the files and command lines that checks share."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lodcli.formats.core import io
from lodcli.formats.core.schema import StoredArray
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.hanging import HANG_SECONDS

LOD = str(Path(sys.executable).with_name("lod"))
OLD = b"the only copy of somebody's work"


@dataclass
class Outcome:
    """The result of one check.

    Attributes:
        fault: the injected fault.
        tried: number of runs.
        broken: violated invariants, in words; empty if all held.
        unable: why the check cannot run here; None if it can.
    """

    fault: str
    tried: int = 0
    broken: list[str] = field(default_factory=list)
    unable: str | None = None

    def expect(self, holds: bool, what: str) -> None:
        """Record `what` if a condition is false."""
        if not holds:
            self.broken.append(what)


def make_sources(folder: Path) -> None:
    """Write the files that the commands below read."""
    articles = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"])
    words = LoDTensor(np.arange(30, dtype=np.float32).reshape(15, 2), articles)
    io.write(folder / "words.lod.h5", words, overwrite=True)
    steps = StoredArray(*TensorArray.unpack(words, 1))
    io.write(folder / "steps.lod.h5", steps, overwrite=True)


def run_lod(args: list[str], folder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    """Run the installed `lod` in a folder, behind the words of another command."""
    return subprocess.run(
        [*before, LOD, *args],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


def partials(folder: Path) -> list[str]:
    """Return the names of temporary files in a folder."""
    return [name for name in os.listdir(folder) if name.endswith(".lod-partial")]


def is_whole(path: Path) -> bool:
    """Return whether the installed `lod` finds nothing wrong with a file."""
    return run_lod(["verify", "-q", str(path)], path.parent).returncode == 0
