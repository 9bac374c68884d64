"""Options of every command that reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lodcli.conftest import Lod, tensor

READING = {
    "inspect": ["inspect", "words.lod.h5"],
    "verify": ["verify", "words.lod.h5"],
    "slice": ["slice", "words.lod.h5", "1:", "-o", "out.lod.h5"],
    "convert": ["convert", "words.lod.h5", "out.lod.h5"],
    "concat": ["concat", "words.lod.h5", "words.lod.h5", "-o", "out.lod.h5"],
    "unpack": ["unpack", "words.lod.h5", "-o", "out.lod.h5"],
    "apply": ["apply", "reverse", "words.lod.h5", "-o", "out.lod.h5"],
    "run-rnn": [
        *["run-rnn", "words.lod.h5", "--cell", "gru", "--hidden", "2", "--seed", "1"],
        *["-o", "out.lod.h5"],
    ],
}


@pytest.mark.parametrize("name", READING)
def test_isolation_changes_nothing(name: str, lod: Lod, folder: Path) -> None:
    plainly = lod(*READING[name])
    found = tensor("out.lod.h5") if name != "unpack" and Path("out.lod.h5").exists() else None
    Path("out.lod.h5").unlink(missing_ok=True)
    isolated = lod(*READING[name], "--isolate")
    assert (isolated.code, isolated.stdout) == (plainly.code, plainly.stdout) == (0, plainly.stdout)
    if found is not None:
        assert tensor("out.lod.h5").identical(found)


@pytest.mark.parametrize("name", READING)
def test_a_limit_is_kept(name: str, lod: Lod, folder: Path) -> None:
    # 15 rows of 8 bytes, 4 and 7 offsets of 8 bytes: 208; the index alone is 88.
    done = lod(*READING[name], "--max-bytes", "87")
    assert done.code == 1
    assert "at most 87 are allowed" in done.stderr
    assert "--max-bytes" in done.stderr
    assert not Path("out.lod.h5").exists()
    assert lod(*READING[name], "--max-bytes", "208").code == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [("208", 0), ("1K", 0), ("0.5k", 0), ("1 MiB", 0), ("1GB", 0), ("0", 1), ("87", 1)],
)
def test_sizes_are_written_as_people_write_them(
    text: str, code: int, lod: Lod, folder: Path
) -> None:
    assert lod("verify", "words.lod.h5", "--max-bytes", text).code == code


@pytest.mark.parametrize("text", ["", "-1", "many", "1P", "1e3", "1..5M", "0x10"])
def test_an_invalid_size_is_an_error(text: str, lod: Lod, folder: Path) -> None:
    done = lod("verify", "words.lod.h5", "--max-bytes", text)
    assert done.code == 2
    assert "is not a size; write 4096, 500M or 2G" in done.stderr


def test_plain_hdf5_needs_no_from_when_its_datasets_are_named(lod: Lod, folder: Path) -> None:
    assert lod(
        *["convert", "words.lod.h5", "out.lod.h5", "--isolate"],
        *["--data", "/data", "--offsets", "/index/0", "--offsets", "/index/1"],
    ).clean
    assert tensor("out.lod.h5").rows == 15


DIALECT = {
    "inspect": "inspect t.csv",
    "verify": "verify t.csv",
    "head": "head t.csv -o out.lod.h5",
    "convert": "convert t.csv out.lod.h5",
    "merge": "merge t.csv u.csv -o out.lod.h5",
    "concat": "concat t.csv t.csv -o out.lod.h5",
    "shuffle": "shuffle t.csv -o out.lod.h5",
    "filter": "filter t.csv weight>1 -o out.lod.h5",
    "op": "apply mul t.csv::weight 2 -o out.lod.h5",
    "expression": "apply weight*2 t.csv -o out.lod.h5",
}


@pytest.mark.parametrize("isolate", ["", "--isolate"])
@pytest.mark.parametrize("name", DIALECT)
def test_csv_of_another_dialect_is_read(name: str, isolate: str, lod: Lod, folder: Path) -> None:
    Path("t.csv").write_bytes("höhe;weight\nü;1\nä;2\n".encode("latin1"))
    Path("u.csv").write_bytes("größe;tiefe\n3;4\n5;6\n".encode("latin1"))
    words = [*DIALECT[name].split(), *isolate.split()]
    assert lod(*words).code != 0
    assert not Path("out.lod.h5").exists()
    assert lod(*words, "--separator", "semicolon", "--encoding", "latin1").code == 0
    if name in ("head", "convert", "merge", "concat", "shuffle"):
        assert set(tensor("out.lod.h5", "höhe").to_list()) == {"ä", "ü"}


@pytest.mark.parametrize(
    ("option", "value", "said", "code"),
    [
        ("--separator", ";", "no option --separator; it is for csv and tsv", 4),
        ("--encoding", "latin1", "no option --encoding; it is for text formats", 4),
        ("--encoding", "klingon", "no encoding 'klingon'", 2),
        ("--separator", "xyz", "expected one ASCII character", 2),
    ],
)
def test_options_of_text_are_refused_for_other_files(
    option: str, value: str, said: str, code: int, lod: Lod, folder: Path
) -> None:
    done = lod("inspect", "words.lod.h5", option, value)
    assert done.code == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
