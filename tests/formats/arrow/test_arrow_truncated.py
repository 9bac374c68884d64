"""arrow, arrow-stream, parquet: files that another process truncates while they are read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lodcli
from lodcli.formats.core.errors import DamagedFileError
from tests.formats.cases.opening import content
from tests.formats.cases.tables import written_by_pyarrow
from tests.hanging import HANG_SECONDS

ROOT = Path(__file__).parents[3]
FILES = pytest.mark.parametrize(
    "name", ["t.arrow", "words.arrow", "lz4.arrow", "t.arrows", "t.parquet"]
)


def written(path: Path) -> Path:
    """Write 48 MB in batches of 1 MB; "words" with a dictionary, so that batches are read whole."""
    offsets = np.arange(0, 6_000_001, 100)
    numbers = np.random.default_rng(0).standard_normal(6_000_000)
    columns = {"x": pa.LargeListArray.from_arrays(offsets, numbers)}
    if path.stem == "words":
        columns["y"] = pa.array(["a", "b"] * 30_000).dictionary_encode()
    codec = "lz4" if path.stem == "lz4" else None
    return written_by_pyarrow(path, pa.table(columns), 1_250, compression=codec)


@FILES
def test_a_file_truncated_while_it_is_read_is_an_error(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name)
    command = [sys.executable, "-m", "lodcli", "convert", str(path), "-", "--to", "lod.stream"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)  # it has begun, and cannot go far before the pipe is full
    os.truncate(path, path.stat().st_size // 2)
    _, stderr = process.communicate(timeout=HANG_SECONDS)
    lines = stderr.decode().splitlines()
    assert (process.returncode, len(lines)) == (1, 1), stderr
    assert f"{path}: " in lines[0]
    assert "was truncated while bytes" in lines[0]


@FILES
def test_a_file_truncated_after_it_was_opened_is_an_error(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name)
    with lodcli.open(path) as source:
        os.truncate(path, 1000)
        with pytest.raises(DamagedFileError, match="found 1000"):
            source.read()


def test_values_read_before_the_file_is_truncated_do_not_change(tmp_path: Path) -> None:
    path = written(tmp_path / "t.arrow")
    found = content(path)["x"]
    os.truncate(path, 0)
    assert found.values.sum() == np.random.default_rng(0).standard_normal(6_000_000).sum()
