"""Fixtures for tests of files that are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.formats.cases.writing import partials_in


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder in which no partial file may stay."""
    yield tmp_path
    assert not partials_in(tmp_path)


@pytest.fixture
def no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Power cuts are simulated elsewhere; here thousands of syncs would only take long."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
