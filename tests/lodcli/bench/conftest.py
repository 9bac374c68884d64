"""Shared fixtures for tests of `lod bench`."""

from __future__ import annotations

import pytest

from lodcli.kernels.runtime import dispatch


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small inputs computed by compiled kernels in a checkout too: peers are their oracles."""
    monkeypatch.setattr(dispatch, "COMPILED_BYTES", 0)
