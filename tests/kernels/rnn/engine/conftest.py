"""Fixtures of the tests of the engine."""

from __future__ import annotations

import pytest


@pytest.fixture
def few_operations_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads share out even the smallest runs."""
    from lodcli.kernels.rnn.engine.native import schedule

    monkeypatch.setattr(schedule, "_LEAST_WORK", 1)
