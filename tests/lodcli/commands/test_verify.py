"""`lod verify`: every file is checked, and each result is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lodcli.formats.container.reader import ContainerSource
from tests.lodcli.conftest import Lod

CHECKED = "CRC32C of header, index and rows"


def damage(path: str) -> None:
    """Change one byte of the rows: the last but few of a float that is not zero."""
    content = bytearray(Path("words.lod.h5").read_bytes())
    place = content.index(b"\x00\x00\xe8\x41")  # 29.0, the last value
    content[place] ^= 1
    Path(path).write_bytes(content)


def test_whole_files_are_ok(lod: Lod, folder: Path) -> None:
    done = lod("verify", "words.lod.h5", "many.lod.h5")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"words.lod.h5: ok (1 tensor, 15 rows, 2 levels); checked {CHECKED}",
        f"many.lod.h5: ok (3 tensors, 34 rows, 2 levels); checked {CHECKED}",
    ]


def test_one_changed_bit_is_found_and_the_rest_still_checked(lod: Lod, folder: Path) -> None:
    damage("bad.lod.h5")
    done = lod("verify", "nowhere.npz", "bad.lod.h5", "words.lod.h5")
    assert done.code == 1
    assert done.stdout.splitlines()[:2] == ["nowhere.npz: FAILED", "bad.lod.h5: FAILED"]
    assert done.stdout.splitlines()[2].startswith("words.lod.h5: ok")
    assert "lod verify: nowhere.npz: no such file" in done.stderr
    assert "lod verify: bad.lod.h5: " in done.stderr


def test_only_unreadable_files_are_an_io_failure(lod: Lod, folder: Path) -> None:
    assert lod("verify", "nowhere.npz", "words.lod.h5").code == 3


@pytest.mark.parametrize("method", ["__init__", "check_in_place"])
def test_too_little_memory_names_the_file(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise MemoryError

    assert lod("convert", "words.lod.h5", "words.npz").code == 0
    monkeypatch.setattr(ContainerSource, method, fail)
    done = lod("verify", "many.lod.h5", "words.npz")
    assert done.code == 3
    said = "many.lod.h5: not enough memory; try smaller inputs, or one tensor with FILE::NAME"
    assert done.stderr == f"lod verify: {said}\n"
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["many.lod.h5:", "FAILED"],
        ["words.npz:", "ok"],
    ]
    done = lod("verify", "--json", "many.lod.h5::tags")
    error = json.loads(done.stderr)["error"]
    assert error["message"] == "many.lod.h5::tags: not enough memory; try smaller inputs"
    assert (error["file"], error["dataset"]) == ("many.lod.h5", "tags")
    assert (error["kind"], error["remedy"]) == ("MemoryError", "try smaller inputs")


def test_quiet_shows_failures_only(lod: Lod, folder: Path) -> None:
    damage("bad.lod.h5")
    done = lod("verify", "-q", "words.lod.h5", "bad.lod.h5")
    assert done.code == 1
    assert done.stdout == "bad.lod.h5: FAILED\n"


def test_json_holds_every_file(lod: Lod, folder: Path) -> None:
    damage("bad.lod.h5")
    done = lod("verify", "--json", "words.lod.h5", "bad.lod.h5")
    assert done.code == 1
    found = json.loads(done.stdout)
    assert found["schema_version"] == 1
    assert found["failed"] == 1
    good, bad = found["files"]
    assert good == {
        "file": "words.lod.h5",
        "ok": True,
        "format": "lod.h5",
        "tensors": 1,
        "rows": 15,
        "levels": 2,
        "bytes": 120,
        "checksums": CHECKED,
        "checked": CHECKED,
    }
    assert (bad["ok"], bad["exit_code"]) == (False, 1)
    assert "bad.lod.h5" in bad["error"]


@pytest.mark.parametrize("end", ["", " -c 200"])
def test_a_stream_is_verified_to_its_end(shell: Lod, end: str) -> None:
    cut = f"| head{end}" if end else ""
    done = shell(f"lod slice words.lod.h5 1: {cut} | lod verify -")
    assert done.stdout.startswith("-: FAILED" if end else "-: ok (1 tensor, 6 rows, 2 levels)")
