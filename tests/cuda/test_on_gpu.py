"""The tests of the ops and RNNs, golden data, properties and torch among them, on a GPU's kernels.

In processes of their own: whether rows are moved there is settled when pytest starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cuda.hot import OF_RNNS, ROOT, TESTED, TESTED_RNNS

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("file", [*TESTED, *TESTED_RNNS])
def test_the_tests_pass_on_the_gpu(file: str) -> None:
    chosen = ["-k", OF_RNNS] if file in TESTED_RNNS else []
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "tests.cuda.moving", file, *chosen),
        ],
        cwd=ROOT,
        env={**os.environ, "LOD_TEST_BACKENDS": "cupy"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
