"""How many threads a computation may use."""

from __future__ import annotations

from typing import Any

import pytest

from lodcli.kernels.errors import OptionError
from lodcli.kernels.platform.machine import usable_cores
from lodcli.kernels.runtime.threads import thread_count


def test_an_argument_overrides_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOD_THREADS", "5")
    assert thread_count(2) == 2
    assert thread_count() == 5


def test_an_empty_setting_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOD_THREADS", raising=False)
    default = thread_count()
    assert default == usable_cores()
    monkeypatch.setenv("LOD_THREADS", " ")
    assert thread_count() == default


@pytest.mark.parametrize("setting", ["0", "-1", "many", "1025", "1.0", "٣", "9" * 20])
def test_a_setting_that_is_no_number_of_threads_is_refused(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOD_THREADS", setting)
    with pytest.raises(OptionError, match="LOD_THREADS: expected a whole number from 1 to 1024"):
        thread_count()


@pytest.mark.parametrize("threads", [0, -1, 1025, True, 2.0, "2"])
def test_an_invalid_number_of_threads_is_an_error(threads: Any) -> None:
    with pytest.raises(OptionError, match="threads: expected a whole number from 1 to 1024"):
        thread_count(threads)
