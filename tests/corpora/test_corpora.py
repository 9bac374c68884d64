"""`lod` over the files that installed packages ship for their own tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.corpora.__main__ import OTHERS, files
from tests.corpora.files import examine
from tests.corpora.oracles import difference
from tests.corpora.runs import Run

PACKAGES = ("pyarrow", "h5py", "anndata", "awkward", "polars", "scipy", "pandas", "numpy", "torch")
MOST_FILES = 60


def shipped(package: str) -> list[Path]:
    """Return the data files of an installed package, evenly taken if they are many."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent
    paths = sorted(path for path in files(folder) if path.suffix.lower() not in (".ts", *OTHERS))
    return paths[:: -(-len(paths) // MOST_FILES) or 1]


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_files_of_other_projects_are_read_right_or_refused(package: str) -> None:
    paths = shipped(package)
    if not paths:
        pytest.skip(f"{package} is not installed, or ships no such files")
    faults = {report.path: report.faults for report in map(examine, paths) if report.faults}
    assert faults == {}


def test_other_values_are_found(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"x":[1,2]}\n{"x":[3]}\n')
    report = examine(tmp_path / "t.jsonl")
    assert (report.outcome, report.compared, report.faults) == ("read", 1, [])
    from lodcli.formats.core import io
    from lodcli.kernels.tensor.lod_tensor import LoDTensor

    item = io.read(tmp_path / "t.jsonl", "x")
    assert isinstance(item, LoDTensor)
    assert difference({"x": [[1, 2], [3]]}, "x", item) is None
    assert difference({"x": [[1, 2], [4]]}, "x", item) == "x, item 1: [3], expected [4]"
    assert difference({"x": [[1, 2]]}, "x", item) == "x: 2 items, expected 1"
    assert difference({"y": [[1, 2]]}, "x", item) == "x: no such column"


@pytest.mark.parametrize(
    ("code", "ended_by", "memory_bytes", "stderr", "fault"),
    [
        (0, None, 0, "", None),
        (1, None, 0, "lod verify: t: is damaged\n", None),
        (None, "SIGSEGV", 0, "", "ended by SIGSEGV"),
        (None, "hang", 0, "", "hang"),
        (1, None, 0, "Traceback (most recent call last):\n", "internal error"),
        (1, None, 0, "lod verify: internal error: KeyError: 2\n", "internal error"),
        (1, None, 0, "", "no single line that says what is wrong"),
        (7, None, 0, "", "exit code 7"),
        (0, None, 9 << 30, "", "9216 MB of memory"),
        (1, None, 0, "lod verify: \x1b[2J\n", "control characters on the terminal"),
    ],
)
def test_what_must_not_be_is_told(
    code: int | None, ended_by: str | None, memory_bytes: int, stderr: str, fault: str | None
) -> None:
    assert Run((), code, ended_by, memory_bytes, "", stderr).fault(100) == fault
