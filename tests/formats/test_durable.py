"""What the file system and the process are asked when a file is written."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lodcli.formats import durable

WAYS = pytest.mark.parametrize("way", [durable.umask, durable._umask_of_a_probe])


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o077, 0o177])
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@WAYS
def test_the_umask_is_found_without_setting_it(
    way: Callable[[], int], mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_it(value: int) -> int:
        raise AssertionError("another thread would make files with these permissions")

    with monkeypatch.context() as patch:
        patch.setattr(os, "umask", set_it)
        assert way() == mask


def test_the_umask_is_found_where_there_is_no_proc(
    mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.open

    def without_proc(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path).startswith("/proc"):
            raise FileNotFoundError(path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", without_proc)
    assert durable.umask() == mask


def test_a_probe_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    durable._umask_of_a_probe()
    assert list(tmp_path.iterdir()) == []
