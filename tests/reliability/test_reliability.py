"""Each check of the table, in short: `python -m tests.reliability` tries them at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from lodcli.formats import io
from tests.reliability import invariants, together
from tests.reliability.checks import CHECKS

# How much less than all.
PARTS = {"calls": 100, "cut": 40, "memory": 20, "readers": 10, "open-files": 10, "invariants": 1}
SHORT = 20


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_it_holds(name: str) -> None:
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
