"""Every rule of docs/format.md has a file that breaks it, and the error that names it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import google_crc32c
import h5py
import numpy as np
import pytest

import lodcli
from lodcli.formats.container.header import decode, encode
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.broken.broken_hdf5 import OTHER_BYTES, OTHER_HDF5
from tests.formats.broken.containers import CASES
from tests.formats.broken.crafted import Case, edit, good
from tests.hanging import HANG_SECONDS

ROOT = Path(__file__).parents[3]
BASES = ("articles", "compressed", "shared", "array", "text", "nulls")

# Reads each file, prints the exceptions, and then the peak memory.
READ_ALL = r"""
import re, sys
from lodcli.formats.core import io
from lodcli.formats.container import reader
from lodcli.kernels.errors import LodError
def most_kib():
    return int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
before = most_kib()
for path in sys.argv[1:]:
    try:
        io.read_all(path, format_name="lod.h5")
        print("read", path)
    except LodError as error:
        assert path in str(error), error
print("took", most_kib() - before >> 10)
"""


def test_every_rule_has_a_file_that_breaks_it() -> None:
    text = (ROOT / "docs" / "format.md").read_text("utf-8")
    rules = re.findall(r"^\* \*\*(R\d+)\*\*", text, re.MULTILINE)
    assert len(rules) == len(set(rules)) >= 25
    # R7 says MUST as well, for what is shared; R12 of the last member.
    assert sorted({each.rule for each in CASES}) == sorted(rules)


def test_no_two_cases_have_one_name() -> None:
    assert len({str(each) for each in CASES}) == len(CASES)


@pytest.mark.parametrize("each", CASES, ids=str)
def test_a_file_that_breaks_a_rule_is_refused(each: Case, broken: dict[str, Path]) -> None:
    path = broken[str(each)]
    with pytest.raises(each.error) as caught:
        io.read_all(path, format_name="lod.h5")
    assert type(caught.value) is each.error or issubclass(type(caught.value), each.error)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert each.message in message
    assert len(message.splitlines()) == 1
    assert len(message) < 700


@pytest.mark.parametrize("each", CASES, ids=str)
def test_batches_of_a_broken_file_are_refused_as_well(each: Case, broken: dict[str, Path]) -> None:
    with (
        pytest.raises(each.error),
        lodcli.open(broken[str(each)], format_name="lod.h5") as source,
    ):
        for _ in source.batches(1 << 16):
            pass


@pytest.mark.parametrize("base", BASES)
def test_the_files_they_start_as_break_none(base: str, tmp_path: Path) -> None:
    path = tmp_path / "good.lod.h5"
    path.write_bytes(good(base))
    content = io.read_all(path)
    edit(path, lambda file, header: None, [])  # the tools of this test break nothing either
    assert list(io.read_all(path)) == list(content)


def test_broken_files_take_little_memory_and_time(broken: dict[str, Path]) -> None:
    answer = _read_all([str(path) for path in broken.values()])
    assert "read" not in answer
    assert int(answer.split()[-1]) < 200, answer


def _read_all(paths: list[str], *before: str) -> str:
    command = [*before, sys.executable, "-c", READ_ALL, *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_broken_files_make_us_open_no_other_file(broken: dict[str, Path], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-e", "trace=%file", "-o", str(trace)]
    if subprocess.run([*strace, "true"], capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    paths = [str(path) for name, path in broken.items() if name.startswith(("R18", "R19"))]
    _read_all(paths, *strace)
    calls = trace.read_text("utf-8", "replace")
    assert paths[0] in calls
    assert OTHER_HDF5 not in calls
    assert OTHER_BYTES not in calls


@pytest.mark.parametrize("base", BASES)
def test_a_file_truncated_anywhere_is_refused(base: str, tmp_path: Path) -> None:
    content, path = good(base), tmp_path / "cut.lod.h5"
    for size in [*range(1, len(content), 64), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises((DamagedFileError, NotThisFormatError)) as caught:
            io.read_all(path, format_name="lod.h5")
        assert str(path) in str(caught.value)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.lod.h5"
    path.touch()
    with pytest.raises(NotThisFormatError, match="is empty"):
        io.read_all(path)
    with pytest.raises(NotThisFormatError, match="is not an HDF5 file"):
        io.read_all(path, format_name="lod.h5")


@pytest.mark.parametrize("track_order", [False, True])  # netCDF does
def test_plain_hdf5_is_distinguished_from_a_container(tmp_path: Path, track_order: bool) -> None:
    path = tmp_path / "theirs.h5"
    with h5py.File(path, "w", track_order=track_order) as file:
        file["x"] = np.arange(3)
    with pytest.raises(NotThisFormatError, match=r"an HDF5 file, .*; there are: /x \(int64, 3\)$"):
        io.read_all(path)


@pytest.mark.parametrize("base", BASES)
def test_a_header_survives_being_read_and_written(base: str) -> None:
    content = good(base)
    text = content[content.index(b'{"format"') : content.rindex(b'"}') + 2]
    assert encode(decode(text)) == text


def test_the_header_of_the_page_is_that_of_its_example(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "format.md").read_text("utf-8")
    shown = re.search(r'^    \{"format".*?"\}$', page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    lod = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", None])
    rows = np.arange(30, dtype=np.float32).reshape(15, 2)
    io.write(tmp_path / "articles.lod.h5", LoDTensor(rows, lod))
    with h5py.File(tmp_path / "articles.lod.h5") as file:
        assert encode(decode(dedent(shown[0]).encode())) == file["header"][()]


def test_the_checksum_is_crc32c() -> None:
    # RFC 3720, B.4: 32 bytes of zeros, and of ones.
    assert google_crc32c.value(bytes(32)) == 0x8A9136AA
    assert google_crc32c.value(b"\xff" * 32) == 0x62A8AB43


def test_any_changed_header_is_a_lod_error() -> None:
    content = good("array")
    text = content[content.index(b'{"format"') : content.rindex(b'"}') + 2]
    for position in range(len(text)):
        for byte in (0, 0x22, 0x7B, 0xFF):
            changed = text[:position] + bytes([byte]) + text[position + 1 :]
            if changed != text:
                with pytest.raises(LodError):
                    decode(changed)
