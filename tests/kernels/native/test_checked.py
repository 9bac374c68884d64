"""Builds that check every index: NUMBA_BOUNDSCHECK=1."""

from __future__ import annotations

import pytest

from tests.kernels.native.building import python

PROGRAM = """
import numpy as np
from lodcli.kernels.native import load, pool
count = load.kernel("kernels.native.probe_numba", "count")[""]
done = np.zeros(3, np.int64)
assert count.call(0, 3, done) == 0
for first, last in ((0, 4), (-1, 1), (3, 4)):
    try:
        count.call(first, last, done)
        raise SystemExit(f"{first}..{last} was not refused")
    except IndexError as error:
        assert "kernel count: an index is out of bounds of an array" in str(error)
try:
    pool.run_shared(count, 50, 2, done)
    raise SystemExit("not refused in a thread")
except IndexError:
    pass
for wrong in (np.zeros(3, np.int32), np.zeros(6, np.int64)[::2]):
    try:
        count.call(0, 1, wrong)
        raise SystemExit("a wrong array was not refused")
    except TypeError as error:
        assert "argument 0: expected a C-contiguous array of int64" in str(error), error
count.call(0, 0, None)
print("checked")
"""


@pytest.mark.slow
def test_checked_kernels_refuse_what_leaves_an_array() -> None:
    pytest.importorskip("numba", reason="kernels are compiled by numba")
    done = python(PROGRAM, NUMBA_BOUNDSCHECK="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "checked\n", "")
