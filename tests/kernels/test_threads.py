"""How many threads a computation may use."""

from __future__ import annotations

import pytest

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.threads import thread_count


def test_what_is_asked_for_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOD_THREADS", "5")
    assert thread_count(2) == 2
    assert thread_count() == 5


@pytest.mark.parametrize("setting", ["", "0", "-1", "many"])
def test_a_setting_that_is_no_number_of_threads_is_passed_over(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOD_THREADS", raising=False)
    default = thread_count()
    assert default >= 1
    monkeypatch.setenv("LOD_THREADS", setting)
    assert thread_count() == default


def test_no_threads_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="threads: expected at least 1, found 0"):
        thread_count(0)
