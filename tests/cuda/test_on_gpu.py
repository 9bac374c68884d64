"""The tests of the ops, golden data and properties among them, on a GPU's kernels.

In processes of their own: whether rows are moved there is settled when pytest starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cuda.hot import ROOT, TESTED

cupy: Any = pytest.importorskip("cupy", reason="the cupy package is not installed")
pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("file", TESTED)
def test_ops_pass_their_tests_on_the_gpu(file: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "tests.cuda.moving", file),
        ],
        cwd=ROOT,
        env={**os.environ, "LOD_TEST_BACKENDS": "cupy"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
