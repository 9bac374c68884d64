"""`lod convert --dry-run` prints losses and reasons of refusal, and writes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lod = LoD.from_lengths([[2, 1], [1, 2, 1]], ["day", "hour"])
    io.write("x.lod.h5", {"a": LoDTensor([1, 2, 3, 4], lod), "b": LoDTensor([1.0, 2.0], [[1, 1]])})
    io.write("u.lod.h5", {"a": LoDTensor([1]), "b": LoDTensor([1, 2])})
    io.write("n.lod.h5", LoDTensor.from_lists([[1, None], [2]]))
    return tmp_path


TOLD = {
    "x.lod.h5 t.lods": (0, "lod.stream keeps everything"),
    "x.lod.h5 t.npz": (0, "lost: level names: day, hour"),
    "x.lod.h5 t.npz --strict": (4, "lost: level names: day, hour"),
    "u.lod.h5 t.jsonl": (
        4,
        "a has 1, b has 2; choose one with FILE::NAME, or those with as many items with lod select",
    ),
    "x.lod.h5 t.npy": (4, "refused: npy holds one tensor, this has 2 (a, b); choose one"),
    "x.lod.h5::a t.npy": (4, "refused: npy holds 0 levels, a has 2"),
    "x.lod.h5 t.nwb": (4, "nwb is read-only"),
    "n.lod.h5 t.npz --to awkward": (4, "refused: data: row <0,1> is null; awkward has no nulls"),
    "x.lod.h5::a t.txt": (4, "refused: text holds bytes (uint8), a is int64; give --vocab"),
    "n.lod.h5 t.csv": (0, "csv keeps everything"),
    "n.lod.h5 t.npz --to awkward --nulls zero": (0, "awkward keeps everything"),
}


@pytest.mark.parametrize("line", TOLD)
def test_it_tells_what_writing_does_and_writes_nothing(lod: Lod, there: Path, line: str) -> None:
    code, said = TOLD[line]
    before = os.listdir()
    done = lod("convert", *line.split(), "--dry-run")
    assert done.code == code
    assert said in done.stdout + done.stderr
    assert os.listdir() == before
    written = lod("convert", *line.split())
    assert written.code == code
    if done.stdout.startswith("refused: "):
        assert done.stdout.splitlines()[0].removeprefix("refused: ") in written.stderr


def test_all_tensors_that_are_refused_are_reported(lod: Lod, there: Path) -> None:
    io.write("c.lod.h5", {"a": LoDTensor([1j]), "b": LoDTensor([1]), "c": LoDTensor([2j])})
    done = lod("convert", "c.lod.h5", "t.jsonl", "--dry-run", "--json")
    assert json.loads(done.stdout)["refused"] == [
        "jsonl holds no complex128; a has that dtype",
        "jsonl holds no complex128; c has that dtype",
    ]


def test_a_damaged_file_is_an_error_and_not_a_refusal(lod: Lod, there: Path) -> None:
    with Path("n.jsonl").open("w") as file:
        file.write("[1,null]\n[nonsense]\n")
    done = lod("convert", "n.jsonl", "t.npz", "--dry-run")
    assert (done.code, done.stdout) == (1, "")
    assert "n.jsonl: line 2" in done.stderr
