"""Memory mapped from the system."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from lodcli.kernels.platform import machine

SPARSE = """
import mmap, sys
from pathlib import Path
from lodcli.kernels.platform.machine import sparse_zeros

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

before = resident()
zeros = sparse_zeros(1 << 30)
for place in range(0, 1 << 30, 1 << 24):
    zeros[place] = 1
print(resident() - before)
"""


@pytest.mark.skipif(not machine.IS_LINUX, reason="reads /proc")
def test_only_pages_that_are_written_take_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPARSE], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1 << 21


def test_sparse_zeros_are_writable() -> None:
    values = np.frombuffer(machine.sparse_zeros(1 << 16), np.int64)
    assert not values.any()
    values[-1] = 7
    assert values.tolist()[-2:] == [0, 7]


def test_more_sparse_zeros_than_an_address_has_are_refused() -> None:
    with pytest.raises(MemoryError):
        machine.sparse_zeros(1 << 62)
