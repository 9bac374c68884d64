"""Attributes of a file as a whole pass through commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.core.test_file_attributes import attributes
from tests.lodcli.conftest import Lod

KEPT = {"license": "MIT", "made": {"by": "us"}}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, day in (("a", 1), ("b", 2)):
        said = {**KEPT, "day": day}
        rows = LoDTensor([[1.5, 2.0], [3.0, 4.0]], [[1, 1]])
        io.write(f"{name}.lod.h5", {"key": LoDTensor([1, 2]), name: rows}, attributes=said)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        *("slice a.lod.h5::a :1", "select a.lod.h5 a", "drop a.lod.h5 a", "rename a.lod.h5 a=c"),
        *("cast a.lod.h5::a float32", "filter a.lod.h5 key>1", "shuffle a.lod.h5 --seed 1"),
        *("sort a.lod.h5 --by key", "head a.lod.h5 -n 1", "tail a.lod.h5 -n 1", "convert a.lod.h5"),
        *("apply sum a.lod.h5::a", "concat a.lod.h5 a.lod.h5", "unpack a.lod.h5::a"),
        *("sample a.lod.h5 1 --seed 1", "group a.lod.h5 --by key"),
    ],
)
def test_commands_keep_attributes_of_a_file(command: str, lod: Lod, files: Path) -> None:
    assert lod(*command.split(), "-o", "out.lod.h5").clean
    assert attributes(files / "out.lod.h5") == {**KEPT, "day": 1}


@pytest.mark.parametrize(
    "command",
    ["concat a.lod.h5 c.lod.h5", "join a.lod.h5 b.lod.h5 --on key", "merge a.lod.h5 d.lod.h5"],
)
def test_of_several_files_what_they_have_alike_is_kept(command: str, lod: Lod, files: Path) -> None:
    assert lod("rename", "b.lod.h5", "b=a", "-o", "c.lod.h5").code == 0
    assert lod("select", "b.lod.h5", "b", "-o", "d.lod.h5").code == 0
    assert lod(*command.split(), "-o", "out.lod.h5").clean
    assert attributes(files / "out.lod.h5") == KEPT


def test_shards_and_splits_have_the_attributes_of_their_file(lod: Lod, files: Path) -> None:
    assert lod("shard", "a.lod.h5", "shards", "--shards", "2").code == 0
    for path in (Path("shards"), *Path("shards").iterdir()):
        assert attributes(path) == {**KEPT, "day": 1}
    said = ["--jobs", "1", "--attribute", "day=today"]
    assert lod("convert", "shards", "again", *said).code == 0
    assert attributes(Path("again")) == {**KEPT, "day": "today"}
    assert lod("split", "a.lod.h5", "--by", "count", "1", "-o", "part-{}.lod.h5").code == 0
    parts = sorted(files.glob("part-*"))
    assert [attributes(path) for path in parts] == [{**KEPT, "day": 1}] * 2


def test_convert_sets_and_drops_attributes(lod: Lod, files: Path) -> None:
    change = ["--attribute", "license=CC0=1", "--attribute", "day=", "--attribute", "x="]
    assert lod("convert", "a.lod.h5", "out.lods", *change).code == 0
    assert attributes(files / "out.lods") == {"license": "CC0=1", "made": {"by": "us"}}
    for wrong in ("license", "=x"):
        done = lod("convert", "a.lod.h5", "new.lods", "--attribute", wrong)
        assert done.code == 2
        assert "expected NAME=TEXT" in done.stderr
    for wrong in ("a=x\udcff", "\udcff=x"):  # bytes of the command line that are not UTF-8
        done = lod("convert", "a.lod.h5", "new.lods", "--attribute", wrong)
        assert (done.code, done.stdout) == (2, "")
        assert r"expected UTF-8, found '\udcff'; see lod convert --help" in done.stderr


def test_a_dry_run_says_which_attributes_of_a_file_are_lost(lod: Lod, files: Path) -> None:
    done = lod("convert", "a.lod.h5::a", "x.jsonl", "--dry-run")
    assert "lost: file attributes: license, made, day\n" in done.stdout


def test_inspect_shows_attributes_of_a_file(lod: Lod, files: Path) -> None:
    said = 'attributes of the file: {"license":"MIT","made":{"by":"us"},"day":1}\n'
    assert said in lod("inspect", "a.lod.h5").stdout
    found = json.loads(lod("inspect", "a.lod.h5", "--json").stdout)
    assert found["attributes"] == {**KEPT, "day": 1}


def test_diff_compares_attributes_of_files(lod: Lod, files: Path) -> None:
    drop = ["--attribute", "license=", "--attribute", "day=1 März"]
    assert lod("convert", "a.lod.h5", "other.lod.h5", *drop).code == 0
    done = lod("diff", "a.lod.h5", "other.lod.h5")
    assert (done.code, done.stdout) == (
        1,
        'attribute license of the file: "MIT" against nothing\n'
        'attribute day of the file: 1 against "1 März"\n',
    )
    found = json.loads(lod("diff", "a.lod.h5", "other.lod.h5", "--json").stdout)
    assert found["attributes"][0] == {"name": "license", "left": "MIT", "right": None}
    assert not found["equal"]
    assert "(attributes of the file)" in lod("diff", "a.lod.h5", "other.lod.h5", "--stat").stdout
