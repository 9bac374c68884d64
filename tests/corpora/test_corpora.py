"""`lod` over the files that installed packages ship for their own tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from tests.corpora.__main__ import files
from tests.corpora.files import examine
from tests.corpora.oracles import difference
from tests.corpora.runs import Run
from tests.sampling import many

PACKAGES = (
    *(
        "pyarrow",
        "h5py",
        "anndata",
        "awkward",
        "polars",
        "scipy",
        "pandas",
        "numpy",
        "torch",
        "onnx",
    ),
    *("sklearn", "keras", "datasets", "zarr", "pynwb", "hdmf"),
)
# Of these formats, some files must have been compared with the results of other readers.
COMPARED = ("pyarrow", "h5py", "numpy", "scipy")
MOST_FILES = many(60, share=3)


def shipped(package: str) -> list[Path]:
    """Return the data files of an installed package, or an even sample if they are many."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return []
    return some(files(Path(found.origin).parent))


def some(found: Iterable[Path]) -> list[Path]:
    """Return an even sample of at most MOST_FILES files. `.ts` is TypeScript there."""
    paths = sorted(path for path in found if path.suffix.lower() != ".ts")
    return paths[:: -(-len(paths) // MOST_FILES) or 1]


def check(paths: list[Path]) -> int:
    """Examine files, and return how many tensors other libraries read as well."""
    reports = [examine(path) for path in paths]
    assert {report.path: report.faults for report in reports if report.faults} == {}
    return sum(report.compared for report in reports)


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_files_of_other_projects_are_read_right_or_refused(package: str) -> None:
    paths = shipped(package)
    if not paths:
        pytest.skip(f"{package} is not installed, or ships no such files")
    compared = check(paths)
    assert compared > 0 or package not in COMPARED


@pytest.mark.slow
def test_files_of_all_other_packages_are_read_right_or_refused() -> None:
    root = Path(np.__file__).parents[1]
    named = {root / package for package in PACKAGES}
    folders = [path for path in root.iterdir() if path.is_dir() and path not in named]
    check(some(path for folder in folders for path in files(folder)))


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
def test_runs_with_a_fault_are_reported(
    code: int | None, ended_by: str | None, memory_bytes: int, stderr: str, fault: str | None
) -> None:
    assert Run((), code, ended_by, memory_bytes, "", stderr).fault(100) == fault
