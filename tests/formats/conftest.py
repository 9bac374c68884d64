"""Fixtures of the tests of formats."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest


@pytest.fixture
def few_files() -> Iterator[None]:
    """Let the process open 100 files at most."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
