"""Runs half of the tests, HOST_CUDA_HALF=0 or 1; all of them in a thorough run.

So a short run does not repeat all tests under every check of the stand-in.
"""

from __future__ import annotations

import os
import zlib

import pytest

from tests.sampling import THOROUGH

HALF = int(os.environ["HOST_CUDA_HALF"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select half of the tests, by name: adjacent ones often differ in one binary parameter."""
    if THOROUGH:
        return
    other = {item for item in items if zlib.crc32(item.nodeid.encode()) % 2 != HALF}
    items[:] = [item for item in items if item not in other]
    config.hook.pytest_deselected(items=list(other))
