"""The modules and tests that first_hour.sh runs on a machine with a GPU exist."""

from __future__ import annotations

import re
import subprocess

from tests.benchmarks.measure import ON_GPU, PARTS
from tests.cuda.hot import ROOT

SCRIPT = ROOT / "tests" / "cuda" / "first_hour.sh"
TEXT = SCRIPT.read_text("utf-8")


def test_it_measures_every_part_of_a_gpu_once() -> None:
    named = re.findall(r"\bgpu-[a-z0-9-]+", TEXT)
    assert sorted(named) == sorted(part for part in PARTS if part.startswith(ON_GPU))


def test_the_files_that_it_runs_are_there() -> None:
    paths = re.findall(r"\btests/[\w/]+(?:\.\w+)?", TEXT)
    assert paths
    assert all((ROOT / path).exists() for path in paths)


def test_an_unknown_stage_prints_the_usage() -> None:
    done = subprocess.run(["sh", SCRIPT, "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "first_hour.sh check" in done.stderr
