"""Halves of the tests that run on the emulated GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def collected(half: int, **environment: str) -> set[str]:
    """Return the tests of a file that belong to a half."""
    words = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, *words, "-p", "tests.cuda.halves", "tests/kernels/index/test_rank.py"],
        env=os.environ | {"HOST_CUDA_HALF": str(half), "LOD_TEST_THOROUGH": ""} | environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout
    return {line for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.slow
def test_a_test_is_in_one_half_and_in_both_of_a_thorough_run() -> None:
    first, second = collected(0), collected(1)
    assert first
    assert second
    assert not first & second
    assert collected(0, LOD_TEST_THOROUGH="1") == first | second
