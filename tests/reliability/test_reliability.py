"""Each check of the table, in short: `python -m tests.reliability` tries them at length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lodcli.formats import io
from lodcli.kernels.lod import LoD
from lodcli.kernels.tensor import LoDTensor
from tests.reliability import damage, invariants, together
from tests.reliability.checks import CHECKS

# How much less than all; of damage that is 2,000 places a format, spread over its bases.
PARTS = {"calls": 100, "cut": 40, "memory": 20, "readers": 10, "open-files": 10, "invariants": 1}
SHORT = 20


def _part(name: str) -> int:
    if name.startswith("damage"):
        return 250 if name.startswith("damage lod.h5") else 50
    return PARTS.get(name, SHORT)


@pytest.mark.parametrize("name", CHECKS)
def test_it_holds(name: str) -> None:
    if name == "damage torch":
        pytest.importorskip("torch")
    outcome = CHECKS[name](_part(name))
    if outcome.unable:
        pytest.skip(outcome.unable)
    assert outcome.tried
    assert not outcome.broken, "\n".join(outcome.broken[:20])


def test_every_format_is_damaged_in_at_least_2000_places() -> None:
    for name in {base.format for base in damage.BASES.values()}:
        places = [
            100_000 // _part(f"damage {key}")
            for key, base in damage.BASES.items()
            if base.format == name
        ]
        assert sum(places) >= 2000


# -- the checks can fail -------------------------------------------------------------


def test_wrong_content_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = damage.BASES["npz"]
    sealed = damage.Base(wrong.format, wrong.content, True)
    tensor = LoDTensor(np.zeros(2), LoD.from_lengths([[2]]))
    assert not damage.same({"data": tensor}, {"data": LoDTensor(np.ones(2), tensor.lod)})
    assert not damage.same({"data": tensor}, {"other": tensor})
    monkeypatch.setattr(damage.io, "open_source", _opened(tensor))  # type: ignore[attr-defined]
    assert damage._wrong(Path("x"), sealed, {"data": damage.ARTICLES}) == "wrong content"
    assert damage._wrong(Path("x"), sealed, {"data": tensor}) is None


def _opened(tensor: LoDTensor) -> object:
    class Opened:
        def __init__(self, *args: object, **options: object) -> None:
            pass

        def __enter__(self) -> Opened:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def read(self) -> dict[str, LoDTensor]:
            return {"data": tensor}

    return Opened


def test_a_fault_that_is_overlooked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "_found_fault", lambda levels, rows: None)
    assert invariants.trees(200).broken


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
