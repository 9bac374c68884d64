"""`lod verify --write-sums` and `--sums`, and the tool sha256sum, both ways."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.table import TABLE
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod

RAGGED = LoDTensor(np.arange(6, dtype=np.int32), LoD.from_lengths([[2, 1, 3]]))
TARGETS = ("x.jsonl", "x.npz", "x.idx", "mds", "deep/er/x.csv")
THEIRS = Path(__file__).parents[2] / "formats" / "theirs"

needs_sha256sum = pytest.mark.skipif(
    shutil.which("sha256sum") is None, reason="the tool sha256sum is not installed"
)


@pytest.fixture
def files(folder: Path) -> Path:
    """Return a folder with a file, an archive, a pair and a folder of a data set."""
    Path("deep/er").mkdir(parents=True)
    for name in TARGETS:
        kind = "mds" if name == "mds" else None
        io.write(name, RAGGED, format_name=kind)
    return folder


def sha256sum(*arguments: str, cwd: Path | str = ".") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sha256sum", *arguments], cwd=cwd, capture_output=True, text=True)


def sidecar(name: str) -> Path:
    return Path(f"{name}.sha256")


@needs_sha256sum
@pytest.mark.parametrize("name", TARGETS)
def test_sha256sum_checks_what_is_written(lod: Lod, files: Path, name: str) -> None:
    done = lod("verify", "--write-sums", name)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.endswith(f"SHA-256 in {sidecar(name)}\n")
    checked = sha256sum("--strict", "-c", sidecar(name).name, cwd=sidecar(name).parent)
    assert (checked.returncode, checked.stderr) == (0, "")
    count = {"x.idx": 2, "mds": 2}.get(name, 1)
    assert checked.stdout.count(": OK\n") == count
    (target,) = [one for one in (Path(name), Path(name, "index.json")) if one.is_file()]
    target.write_bytes(target.read_bytes() + b"\n")
    checked = sha256sum("-c", sidecar(name).name, cwd=sidecar(name).parent)
    assert checked.returncode == 1
    assert checked.stdout.count("FAILED") == 1


@needs_sha256sum
@pytest.mark.parametrize("options", [(), ("--tag",), ("--binary",)])
def test_sums_of_sha256sum_are_checked(lod: Lod, files: Path, options: tuple[str, ...]) -> None:
    for name, members in (
        ("x.jsonl", ["x.jsonl"]),
        ("x.idx", ["x.bin", "./x.idx"]),
        ("mds", ["mds/index.json", os.path.abspath("mds/shard.00000.mds")]),
    ):
        sidecar(name).write_text(sha256sum(*options, *members).stdout)
        assert lod("verify", "--sums", name).clean, name
        Path(members[0]).write_bytes(Path(members[0]).read_bytes().replace(b"0", b"1"))


@needs_sha256sum
def test_odd_names_go_both_ways(lod: Lod, folder: Path) -> None:
    name = "a\nb\\c\r *é.jsonl"
    io.write(name, RAGGED)
    assert lod("verify", "-q", "--write-sums", name).code == 0
    assert sha256sum("--strict", "-c", f"{name}.sha256").returncode == 0
    assert sidecar(name).read_text() == sha256sum(name).stdout
    assert lod("verify", "--sums", name).code == 0


def test_a_changed_digit_is_found_by_sums_alone(lod: Lod, files: Path) -> None:
    assert lod("verify", "--write-sums", "x.jsonl").code == 0
    before = hashlib.sha256(Path("x.jsonl").read_bytes()).hexdigest()
    Path("x.jsonl").write_bytes(Path("x.jsonl").read_bytes().replace(b"5", b"6"))
    after = hashlib.sha256(Path("x.jsonl").read_bytes()).hexdigest()
    assert lod("verify", "x.jsonl").code == 0
    done = lod("verify", "--sums", "x.jsonl")
    assert (done.code, done.stdout) == (1, "x.jsonl: FAILED\n")
    assert done.stderr == (
        f"lod verify: x.jsonl: is altered: expected SHA-256 {before}, found {after}\n"
    )


def test_each_file_that_is_altered_missing_or_new_has_a_line(lod: Lod, folder: Path) -> None:
    shutil.copytree(THEIRS / "mds", "mds")
    assert lod("verify", "-q", "--write-sums", "mds/").code == 0
    assert lod("verify", "-q", "--sums", "mds").code == 0
    Path("mds/new").write_bytes(b"")
    Path("mds/shard.00000.mds").unlink()
    shard = Path("mds/shard.00001.mds")
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    done = lod("verify", "--sums", "--json", "mds")
    assert done.code == 1
    (found,) = json.loads(done.stdout)["files"]
    told = [error.partition(";")[0].partition(":") for error in found["errors"]]
    assert [(name, what.split(":")[0]) for name, _, what in told] == [
        ("mds/new", " is not listed in mds.sha256"),
        ("mds/shard.00000.mds", " is missing"),
        ("mds/shard.00001.mds", " is altered"),
        ("mds/shard.00000.mds", " no such file"),  # what reading says
    ]
    assert len(done.stderr.splitlines()) == 4


def test_a_pair_has_one_sidecar_whichever_file_is_named(lod: Lod, files: Path) -> None:
    assert lod("verify", "--write-sums", "x.idx").code == 0
    assert not sidecar("x.bin").exists()
    assert lod("verify", "--sums", "x.bin").code == 0
    Path("x.bin").write_bytes(b"\1" + Path("x.bin").read_bytes()[1:])
    done = lod("verify", "--sums", "x.idx")
    assert (done.code, done.stderr.split(":")[1]) == (1, " x.bin")


def test_the_current_folder_has_its_sidecar_beside_it(
    lod: Lod, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("mds")
    assert lod("verify", "--write-sums", ".").code == 0
    assert Path("../mds.sha256").exists()
    assert lod("verify", "--sums", ".").code == 0


def test_sums_are_not_replaced_unasked(lod: Lod, files: Path) -> None:
    assert lod("verify", "--write-sums", "x.jsonl").code == 0
    done = lod("verify", "--write-sums", "x.jsonl")
    assert (done.code, done.stderr) == (
        3,
        "lod verify: x.jsonl.sha256: exists already; use --force to replace it\n",
    )
    assert done.stdout.startswith("x.jsonl: ok (")
    assert done.stdout.endswith("; no SHA-256 was written\n")
    reported = json.loads(lod("verify", "--write-sums", "x.jsonl", "--json").stdout)
    (result,) = reported["files"]
    assert (reported["failed"], result["ok"], result["exit_code"]) == (0, True, 3)
    assert result["error"] == "x.jsonl.sha256: exists already; use --force to replace it"
    assert lod("verify", "--write-sums", "-f", "x.jsonl").code == 0


def test_a_damaged_file_gets_no_sums(lod: Lod, files: Path) -> None:
    Path("x.npz").write_bytes(Path("x.npz").read_bytes()[:-9])
    assert lod("verify", "--write-sums", "x.npz").code == 1
    assert not sidecar("x.npz").exists()


def test_an_invalid_list_of_sums_is_reported(lod: Lod, files: Path) -> None:
    done = lod("verify", "--sums", "x.jsonl")
    assert (done.code, done.stderr) == (
        3,
        "lod verify: x.jsonl.sha256: no such file; write it with --write-sums\n",
    )
    for content, part in (
        (b"\n# only this\n", "lists no file"),
        (b"\n" + b"0" * 63 + b"  x.jsonl\n", "line 2: expected 64 hexadecimal digits"),
        (b"\xff\0", "line 1: expected 64"),
    ):
        sidecar("x.jsonl").write_bytes(content)
        done = lod("verify", "--sums", "x.jsonl")
        assert done.code == 1
        assert f"x.jsonl.sha256: {part}" in done.stderr


def test_other_entries_than_files_have_no_sum(lod: Lod, files: Path) -> None:
    """Reading a pipe or a device might never end."""
    os.mkfifo("mds/pipe")
    done = lod("verify", "--write-sums", "mds")
    assert (done.code, done.stderr) == (1, "lod verify: mds/pipe: is not a regular file\n")
    assert not sidecar("mds").exists()
    os.unlink("mds/pipe")
    assert lod("verify", "--write-sums", "mds").code == 0
    with sidecar("mds").open("a") as lines:
        lines.write(f"{'0' * 64}  /dev/zero\n")
    done = lod("verify", "--sums", "mds")
    said = "lod verify: /dev/zero: is not a regular file; mds.sha256 lists it\n"
    assert (done.code, done.stderr) == (1, said)
    sidecar("mds").unlink()
    os.mkfifo("mds.sha256")
    done = lod("verify", "--sums", "mds")
    said = "lod verify: mds.sha256: is not a list of sums: is not a regular file\n"
    assert (done.code, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sums", "--write-sums", "x.jsonl"], "exclude each other"),
        (["--sums", "-"], "standard input has no file"),
        (["--force", "x.jsonl"], "--force is for --write-sums"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    lod: Lod, files: Path, arguments: list[str], message: str
) -> None:
    done = lod("verify", *arguments)
    assert done.code == 2
    assert message in done.stderr


# -- what of a file its own checksums cover ------------------------------------------------

SUMMED = {
    "lod.h5": "CRC32C of header, index and rows",
    "lod.dataset": "CRC32C of header, index and rows",
    "lod.stream": "CRC32C of every frame",
    "npz": "CRC-32 of every array",
    "awkward": "CRC-32 of every array",
    "torch": "CRC-32 of every record",
    "tfrecord": "CRC32C of every record",
    "zarr": "XXH64 of every chunk",
    "zarr-zip": "XXH64 of every chunk",
}


def test_every_format_says_what_its_checksums_cover() -> None:
    for name in TABLE:
        assert table.get(name).checksums == SUMMED.get(name, ""), name


@pytest.mark.parametrize(
    "name", ["x.lod.h5", "x.lods", "x.npz", "x.jsonl", "x.idx", "x.safetensors"]
)
def test_verify_says_which_checksums_were_checked(lod: Lod, folder: Path, name: str) -> None:
    io.write(name, RAGGED)
    done, told = lod("verify", name), json.loads(lod("verify", "--json", name).stdout)["files"][0]
    covered = SUMMED.get(told["format"])
    assert told["checksums"] == covered
    if covered is None:
        assert told["checked"] == "no checksums in this format: structure only"
        assert done.stdout.endswith("; no checksums in this format: structure only\n")
    else:
        assert told["checked"] == covered
        assert done.stdout.endswith(f"; checked {covered}\n")


def test_compressed_text_stands_under_the_checksums_of_its_compression(
    lod: Lod, folder: Path
) -> None:
    io.write("x.jsonl", RAGGED)
    Path("x.jsonl.gz").write_bytes(gzip.compress(Path("x.jsonl").read_bytes()))
    assert lod("verify", "x.jsonl.gz").stdout.endswith("checked CRC-32 of what gzip compressed\n")
    zstandard = pytest.importorskip("zstandard")
    text = Path("x.jsonl").read_bytes()
    for checked in (True, False):
        packer = zstandard.ZstdCompressor(write_checksum=checked)
        frames = zstandard.ZstdCompressor(write_checksum=True).compress(text)
        Path("x.jsonl.zst").write_bytes(frames + packer.compress(text))
        done = lod("verify", "x.jsonl.zst")
        assert done.code == 0
        assert done.stdout.endswith(
            "checked XXH64 of what zstd compressed\n" if checked else "structure only\n"
        )
