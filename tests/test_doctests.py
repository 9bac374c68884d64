"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import lodcli

SAMPLES = Path(__file__).parent.parent / "samples"
ROOT = Path(lodcli.__file__).parent
# Needs a GPU to be imported; its examples are those of the reference it stands in for.
SKIPPED = ("cuda", "cupy")
SLOW = "formats.testing.check_format"


def modules() -> list[str]:
    found = set()
    for folder in (ROOT, ROOT / "formats", ROOT / "kernels"):  # the last two may be links
        for path in folder.rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            needs_gpu = any(name in part for part in parts for name in SKIPPED)
            if not needs_gpu and ">>>" in path.read_text(encoding="utf-8"):
                found.add(".".join(parts).removesuffix(".__init__"))
    return sorted(found)


def test_examples_are_found() -> None:
    expected = {"kernels.index.lod", "formats.core.io", "expressions.functions", SLOW}
    assert expected <= set(modules())


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each == SLOW)) for each in modules()]
)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "samples").symlink_to(SAMPLES)
    monkeypatch.chdir(tmp_path)
    for part, package in (("arrow", "pyarrow"), ("dask", "dask"), ("torch", "torch")):
        if part in name:
            pytest.importorskip(package)
    module = importlib.import_module(f"lodcli.{name}")
    failed, attempted = doctest.testmod(module)
    assert attempted > 0
    assert failed == 0
