"""Bad input is an error with its place and a remedy, in one line; no partial file is left."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.json import jsonl
from tests.formats.broken.bad_input import FAULTS, TS, Fault, npz, tar
from tests.formats.cases.opening import content_of
from tests.formats.cases.writing import npy
from tests.lodcli.conftest import Lod, lod  # noqa: F401 - a fixture

OUT = "out.lod.h5"
# Text with a late fault is written in each of these formats; some need options.
TARGETS = {
    "out.lod.h5": ["out.lod.h5"],
    "out.lod.h5, compressed": ["out.lod.h5", "--compress"],
    "out.lods": ["out.lods"],
    "out.npz": ["out.npz"],
    "awkward": ["out.npz", "--to", "awkward"],
    "out.safetensors": ["out.safetensors"],
    "out.pt": ["out.pt"],
    "out.lodt": ["out.lodt"],
    "out.idx": ["out.idx"],
    "out.arrow": ["out.arrow"],
    "out.arrows": ["out.arrows"],
    "out.parquet": ["out.parquet"],
    "datasets": ["out", "--to", "datasets"],
    "mds": ["out", "--to", "mds"],
    "lod.dataset": ["out", "--to", "lod.dataset"],
    "out.jsonl": ["out.jsonl"],
    "out.jsonl.gz": ["out.jsonl.gz"],
    "out.csv": ["out.csv"],
    "out.tar": ["out.tar"],
    "out.h5": ["out.h5"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, made current; `temporary` beside it is where temporary files go."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def _refused(lod: Lod, path: str, out: list[str], *options: str) -> tuple[int, str]:  # noqa: F811
    """Return exit code and message, after looking at what is left behind."""
    before = sorted(os.listdir("."))
    done = lod("convert", path, *out, *options)
    assert sorted(os.listdir(".")) == before
    assert not os.listdir(tempfile.gettempdir())
    assert done.stdout == ""
    assert done.stderr.startswith(f"lod convert: {path}: ")
    assert done.stderr.count("\n") == 1
    return done.code, done.stderr


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_reported_with_its_place(lod: Lod, folder: Path, fault: Fault) -> None:  # noqa: F811
    path = f"in{fault.suffix}"
    Path(path).write_bytes(fault.data)
    code, message = _refused(lod, path, [OUT], *fault.options)
    assert code == fault.code, message
    for part in fault.said:
        assert part in message


@pytest.mark.parametrize("target", TARGETS)
def test_a_late_fault_leaves_no_target(
    lod: Lod,  # noqa: F811
    folder: Path,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if target == "out.pt":
        pytest.importorskip("torch")
    # Less is read at once than there is, so that the writer has been at work.
    monkeypatch.setattr(jsonl, "PEEK_BYTES", 16)
    monkeypatch.setattr(jsonl, "MOST_BLOCK_BYTES", 16)
    Path("in.jsonl").write_bytes(60 * b"[1.5,2.5]\n" + b"[1.5,true]\n")
    code, message = _refused(lod, "in.jsonl", TARGETS[target], "--dtype", "float32")
    assert (code, "line 61: item <1>: expected a number, found true" in message) == (1, True)


# What is no fault: a mark at the beginning, and lines that end as on Windows.
LINES = {
    ".jsonl": b"[1,2]\n[3]\n",
    ".csv": b"a,b\n1,2\n3,4\n",
    ".tsv": b"a\tb\n1\t2\n3\t4\n",
    ".txt": b"to be\nor not\n\nto be\n",
    ".ts": TS + b"1,2\n3\n",
}


@pytest.mark.parametrize("suffix", LINES)
def test_a_mark_and_windows_line_ends_change_nothing(suffix: str, tmp_path: Path) -> None:
    expected = content_of(tmp_path, suffix, LINES[suffix])
    returns = LINES[suffix].replace(b"\n", b"\r\n")
    for data in (b"\xef\xbb\xbf" + LINES[suffix], returns, b"\xef\xbb\xbf" + returns):
        found = content_of(tmp_path, suffix, data)
        assert found.keys() == expected.keys()
        assert all(found[name].identical(expected[name]) for name in found)


PACKED = {
    **{suffix: data * (400 if suffix != ".ts" else 1) for suffix, data in LINES.items()},
    ".csv": b"a\n" + b"123\n" * 3000,
    ".tsv": b"a\n" + b"123\n" * 3000,
    ".ts": TS + b"1,2\n" * 3000,
    ".npz": npz(("data.npy", npy(np.arange(3000)))),
    ".tar": tar(("0.x.npy", npy(np.arange(3000)))),
}


@pytest.mark.parametrize("suffix", [*PACKED, ".lods", ".lod.h5", ".safetensors", ".lodt"])
@pytest.mark.parametrize("cut", [11, 0.5, -9])
def test_truncated_gzip_is_named(lod: Lod, folder: Path, suffix: str, cut: float) -> None:  # noqa: F811
    if suffix in PACKED:
        data = PACKED[suffix]
    else:
        io.write("whole" + suffix, io.read(_written(".npz")))
        data = Path("whole" + suffix).read_bytes()
        Path("whole" + suffix).unlink()
    packed = gzip.compress(data, 1)
    path = f"in{suffix}.gz"
    Path(path).write_bytes(packed[: int(cut * len(packed)) if isinstance(cut, float) else cut])
    code, message = _refused(lod, path, [OUT])
    assert code == 1
    assert "gzip: is truncated: it ends in the middle; fetch or copy it again" in message


def _written(suffix: str) -> str:
    Path(f"given{suffix}").write_bytes(PACKED[suffix])
    return f"given{suffix}"
