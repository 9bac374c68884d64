"""--max-bytes and --isolate, on every command that reads."""

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
def test_what_is_no_size_is_refused(text: str, lod: Lod, folder: Path) -> None:
    done = lod("verify", "words.lod.h5", "--max-bytes", text)
    assert done.code == 2
    assert "is not a size; write 4096, 500M or 2G" in done.stderr


def test_plain_hdf5_needs_no_from_when_its_datasets_are_named(lod: Lod, folder: Path) -> None:
    done = lod(
        *["convert", "words.lod.h5", "out.lod.h5", "--isolate"],
        *["--data", "/data", "--offsets", "/index/0", "--offsets", "/index/1"],
    )
    assert (done.code, done.stderr) == (0, "")
    assert tensor("out.lod.h5").rows == 15
