"""Each check of the table, in short: `python -m tests.reliability` tries them at length."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lodcli.formats.core import io
from lodcli.formats.storage import outputs
from lodcli.kernels.platform import files
from lodcli.shell.group import group
from tests.lodcli.test_all_commands import leaves
from tests.reliability import invariants, together
from tests.reliability.checks import CHECKS
from tests.reliability.faults import calls, power
from tests.reliability.faults.commands import COMMANDS
from tests.reliability.faults.workers import Bench, Check, check_all
from tests.reliability.outcome import Outcome

# The fraction of all.
PARTS = {
    "calls": 600,
    "power": 80,
    "allocations": 600,
    "cut": 40,
    "memory": 20,
    "readers": 10,
    "open-files": 10,
    "invariants": 1,
}
SHORT = 20


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_the_check_finds_no_fault(name: str) -> None:
    outcome = CHECKS[name](PARTS.get(name, SHORT))
    if outcome.unable:
        pytest.skip(outcome.unable)
    assert outcome.tried
    assert not outcome.broken, "\n".join(outcome.broken[:20])


# -- the checks can fail -------------------------------------------------------------


def test_a_fault_that_is_overlooked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "_found_fault", lambda levels, rows: None)
    assert invariants.trees(200).broken


@pytest.mark.slow
def test_a_file_written_in_place_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def replace(source: object, target: Path) -> None:
        # What a rename spares us: the old file changes under whoever holds it open.
        content = Path(str(source)).read_bytes()
        with target.open("r+b" if target.exists() else "wb") as file:
            file.write(content)
        Path(str(source)).unlink()

    monkeypatch.setattr("os.replace", replace)
    io.write(tmp_path / "t.lod.h5", together._tensor(1))
    assert together.open_files(8).broken


# In separate processes, so that injected faults need not be undone.
def _written_in_place(outcome: Outcome, name: str, bench: Bench, each: int) -> None:
    def open_target(output: outputs.Output, path: Path) -> tuple[int, str]:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), os.fspath(path)

    setattr(outputs.Output, "_make_partial", open_target)  # noqa: B010
    calls.check(outcome, name, bench, each)


def _without_a_journal(outcome: Outcome, name: str, bench: Bench, each: int) -> None:
    def rename_all(output: outputs.Output) -> None:
        for one in (*output._parts, output):
            assert one._partial is not None
            assert one.path is not None
            os.replace(one._partial, one.path)
            one._partial = None

    setattr(outputs.Output, "_commit_set", rename_all)  # noqa: B010
    power.check(outcome, name, bench, each)


def _with_files_never_synced(outcome: Outcome, name: str, bench: Bench, each: int) -> None:
    setattr(files, "fsync", lambda fd: None)  # noqa: B010
    power.check(outcome, name, bench, each)


def _with_folders_never_synced(outcome: Outcome, name: str, bench: Bench, each: int) -> None:
    setattr(outputs, "fsync_folder", lambda folder: None)  # noqa: B010
    power.check(outcome, name, bench, each)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "name", "each"),
    [
        (_written_in_place, "convert to npz", 20),
        (_without_a_journal, "convert to megatron", 1),
        (_with_files_never_synced, "convert to lod.h5", 1),
        (_with_folders_never_synced, "convert to npz", 1),
    ],
)
def test_a_writer_that_leaves_a_step_out_is_noticed(broken: Check, name: str, each: int) -> None:
    outcome = check_all("a step left out", broken, each, [name])
    if outcome.unable:
        pytest.skip(outcome.unable)
    assert any("neither old nor new" in line for line in outcome.broken), outcome.broken


def test_every_command_with_a_target_is_in_the_table_of_faults() -> None:
    found = {
        name.split()[0]
        for name, command in leaves(group)
        if any("--output" in param.opts for param in command.params)
    }
    # These write reports and pictures, as bytes at the end.
    assert found - {"bench", "plot"} <= {command.args[0] for command in COMMANDS.values()}
