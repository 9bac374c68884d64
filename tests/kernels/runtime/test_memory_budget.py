"""The memory budget: its default, and invalid values."""

from __future__ import annotations

from pathlib import Path

import pytest

from lodcli.kernels.errors import OptionError
from lodcli.kernels.platform import machine, processes
from lodcli.kernels.runtime.memory_budget import (
    at_most,
    default_budget,
    memory_budget,
    memory_setting,
    shared_budget,
    within_budget,
)


def test_python_has_no_budget() -> None:
    assert memory_budget() is None
    assert at_most(1 << 50, 8) == 1 << 50


def test_the_default_is_a_quarter_of_what_there_is_or_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LOD_MEMORY", raising=False)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 16 << 30)
    monkeypatch.setattr(machine, "group_limit_bytes", lambda: None)
    assert default_budget() == 4 << 30
    monkeypatch.setattr(machine, "group_limit_bytes", lambda: 2 << 30)
    assert default_budget() == 512 << 20
    monkeypatch.setattr(machine, "group_limit_bytes", lambda: 64 << 30)
    assert default_budget() == 4 << 30
    monkeypatch.setattr(processes, "address_limit_bytes", lambda: 1 << 30)
    assert default_budget() == 256 << 20
    monkeypatch.setattr(processes, "address_limit_bytes", lambda: None)
    monkeypatch.setattr(machine, "memory_bytes", lambda: None)
    monkeypatch.setattr(machine, "group_limit_bytes", lambda: None)
    assert default_budget() is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.max": "1000\n"}, 1000),
        ({"memory.max": "max\n"}, None),
        ({"memory/memory.limit_in_bytes": "2000\n"}, 2000),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({}, None),
    ],
)
def test_both_versions_of_control_groups_are_read(
    files: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert machine.group_limit_bytes(tmp_path) == expected


@pytest.mark.parametrize(
    ("lines", "limits", "expected"),
    [
        # A step of a job of Slurm: the job has the limit.
        (
            ["0::/slurm/job_7/step_0"],
            {"slurm/memory.max": "max", "slurm/job_7/memory.max": "500"},
            (500, 400),
        ),
        (
            ["0::/user/run"],
            {"user/memory.max": "900", "user/run/memory.max": "700"},
            (700, 600),
        ),
        (
            ["9:name=systemd:/a", "4:memory,hugetlb:/pbs/5.node:1", "0::/"],
            {"memory/pbs/5.node:1/memory.limit_in_bytes": "300"},
            (300, 200),
        ),
        # A container that sees the names outside of it.
        (["4:memory:/docker/0f1e"], {"memory/memory.limit_in_bytes": "200"}, (200, 100)),
        (["0::/../../x", "3:cpu:/y"], {"memory.max": "150", "y/memory.max": "1"}, (150, 50)),
    ],
)
def test_the_limits_of_all_groups_around_the_process_count(
    lines: list[str],
    limits: dict[str, str],
    expected: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "lines_of", lambda path: lines)
    for name, text in limits.items():
        folder = (tmp_path / name).parent
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
        (folder / "memory.current").write_text("100\n")
    assert (machine.group_limit_bytes(tmp_path), machine.left_in_group(tmp_path)) == expected


def test_the_variable_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOD_MEMORY", "1.5g")
    assert default_budget() == 3 << 29
    monkeypatch.setenv("LOD_MEMORY", " ")
    assert memory_setting() is None


@pytest.mark.parametrize("text", ["0", "1023K", "-1", "lots", "1e9"])
def test_a_setting_that_is_no_budget_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOD_MEMORY", text)
    with pytest.raises(OptionError, match="LOD_MEMORY: expected a size of 1M or more, found"):
        memory_setting()


def test_processes_get_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOD_MEMORY", raising=False)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 2 << 30)
    monkeypatch.setattr(machine, "group_limit_bytes", lambda: None)
    # Of the default, enough for batches of full size.
    assert [shared_budget(count) for count in (1, 2, 8)] == [512 << 20, 256 << 20, 256 << 20]
    with within_budget(64 << 20):
        assert shared_budget(8) == 8 << 20
    monkeypatch.setenv("LOD_MEMORY", "4M")
    assert shared_budget(8) == 1 << 20


def test_the_budget_before_comes_back() -> None:
    with within_budget(64 << 20):
        with within_budget(1 << 20):
            assert at_most(1 << 20, 16) == 1 << 16
        assert at_most(1 << 20, 16) == 1 << 20
    assert memory_budget() is None
