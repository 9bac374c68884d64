"""Pools of threads."""

from __future__ import annotations

import pytest

from lodcli.formats.core import threads


def test_without_memory_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_THREAD_BYTES", 1 << 60)
    with pytest.raises(MemoryError):
        threads.thread_pool(1, "lod-test")
