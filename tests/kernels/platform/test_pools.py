"""Pools of threads."""

from __future__ import annotations

import pytest

from lodcli.kernels.platform import pools


def test_without_memory_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_THREAD_BYTES", 1 << 60)
    with pytest.raises(MemoryError):
        pools.thread_pool(1, "lod-test")
