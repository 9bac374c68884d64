"""Every file of the corpus, with every command that reads: its own error, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus.make import Entry, crafted, entries, unpacked
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Lod
from tests.lodcli.test_bad_input import COMMANDS
from tests.sampling import every
from tests.slow import one_in

ROOT = Path(__file__).parents[2]
ENTRIES = entries()
FORMATS = sorted({each.format for each in ENTRIES})
ALL = {**COMMANDS, "apply": ["apply", "reverse", "{}", "-o", "out.lod.h5"]}
# These read a file to its end, and say what the corpus says of it.
TO_THE_END = ("verify", "convert")


@pytest.fixture
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give an empty folder."""
    return tmp_path_factory.mktemp("corpus")


def test_the_corpus_is_large_enough() -> None:
    counts = {name: sum(each.format == name for each in ENTRIES) for name in {"lod.h5"}}
    assert counts["lod.h5"] >= 40
    for name in {each.format for each in ENTRIES} - {"lod.h5"}:
        least = 30 if name == "lod.stream" else 20
        assert sum(each.format == name for each in ENTRIES) >= least, name


@pytest.mark.slow
def test_crafted_files_are_in_the_corpus() -> None:
    found = {each.file.removesuffix(".xz") for each in ENTRIES}
    assert {each.file for each in crafted()} <= found


def entries_of(kind: str) -> list[Entry]:
    """Return the files of a format; skips the test without the package that reads it."""
    if kind == "torch":
        pytest.importorskip("torch")
    return [each for each in ENTRIES if each.format == kind]


def entries_for(name: str, kind: str) -> list[Entry]:
    """Return the files of a format that a command is to refuse.

    All for those that read to the end. The others open a file alike, so each takes every third
    one, and each file is given to two or three of them; all to all in a thorough run.
    """
    if name in TO_THE_END:
        return entries_of(kind)
    step = every(3)
    others = [one for one in ALL if one not in TO_THE_END]
    return entries_of(kind)[others.index(name) % step :: step]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", one_in(3, ALL))
def test_every_command_refuses_every_file(
    name: str, kind: str, lod: Lod, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus)
    out = corpus / "out.lod.h5"
    for each in entries_for(name, kind):
        path = Path(Path(each.file.removesuffix(".xz")).name)
        path.write_bytes(unpacked(each))
        args = [str(path) if arg == "{}" else arg for arg in ALL[name]]
        done = lod(*args, "--from", each.format)
        _check(each, name, done.code, done.stderr, path)
        path.unlink()
        assert list(corpus.iterdir()) == ([out] if done.code == 0 and out.exists() else [])
        out.unlink(missing_ok=True)


def _check(each: Entry, name: str, code: int, stderr: str, path: Path) -> None:
    what = f"{name} {each.file}: {code} {stderr}"
    assert "internal error" not in stderr, what
    assert len(stderr.splitlines()) <= 1, what
    assert stderr.replace("\n", "").isprintable(), what
    if name in TO_THE_END:
        assert code == each.code, what
        assert str(path) in stderr, what
        shown = stderr.replace(f"{path}: ", "").replace(str(path), path.name)
        assert _words(each.message[:60]).rstrip() in _words(shown), what
        return
    # The others may find that they cannot use what the header announces, before the damage;
    # and where header and index are whole, they may not touch what is damaged.
    assert code in (each.code, 2) or (code == 0 and each.opens), what


def _words(message: str) -> str:
    """Return a message without what differs from one machine to the next.

    That is numbers (damaged HDF5 may read as whatever memory held), and after a parenthesis the
    words of Python's own modules.
    """
    return re.sub(r"\s+|[0-9]+", " ", message.partition(" (")[0])


# Reads every file named on standard input, and prints how much memory that took, in MiB.
READ = r"""
import contextlib, faulthandler, importlib, re, sys
from lodcli.formats.core import io
from lodcli.kernels.errors import LodError
def most_kib():
    return int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
for package in ("torch", "pyarrow.parquet", "pyarrow.ipc"):  # large, whatever is read
    with contextlib.suppress(ImportError):
        importlib.import_module(package)
before = None
for line in sys.stdin:
    name, path = line.split()
    faulthandler.dump_traceback_later(200, exit=True)
    try:
        io.read_all(path, format_name=name)
        sys.exit(f"{path} is read")
    except LodError:
        pass
    before = before or most_kib()
print(most_kib() - before >> 10)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds", [["torch"], [kind for kind in FORMATS if kind != "torch"]], ids=len
)
def test_the_corpus_takes_little_memory_and_time(kinds: list[str], corpus: Path) -> None:
    lines = []
    for number, each in enumerate(each for kind in kinds for each in entries_of(kind)):
        path = corpus / str(number)
        path.write_bytes(unpacked(each))
        lines.append(f"{each.format} {path}\n")
    done = subprocess.run(
        [sys.executable, "-c", READ],
        input="".join(lines),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200
