"""Formats of other packages: found, used like ours, and named where they do not work."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats import Format, Input, LevelSpec, MemorySource, Package, ReadOptions, Source
from lodcli.formats.catalogue import plugins as formats_plugins
from lodcli.formats.catalogue.description import all_formats
from lodcli.formats.core import io, registry
from lodcli.formats.core.table import SUFFIXES, TABLE
from lodcli.formats.npz.npz import Npz
from lodcli.kernels import plugins
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.plugins import FORMATS, Plugin
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.testing import check_format
from tests.lodcli.conftest import SCRIPTS

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "samples" / "plugin_fasta"
THEIRS = ROOT / "tests" / "formats" / "theirs" / "fasta"
# Says in a file that it was imported.
TELLING = "import pathlib\npathlib.Path(__file__).with_suffix('.imported').touch()\n"


def add_package(site: Path, name: str, version: str, group: str, entry: str) -> None:
    """Make a package known that has a plug-in."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample plug-in, and one that cannot be imported."""
    site = tmp_path_factory.mktemp("site")
    shutil.copy(SAMPLE / "lod_fasta.py", site)
    add_package(site, "lod-fasta", "0.1.0", "lodcli.formats", "fasta = lod_fasta:Fasta")
    add_package(site, "broken", "1.0", "lodcli.formats", "broken = broken:Broken")
    (site / "broken.py").write_text(f"{TELLING}import no_such_package\n")
    return site


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip installed the sample plug-in."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(SAMPLE, folder / "source")
    command = "-m pip install -q --no-deps --no-build-isolation --no-index --target"
    subprocess.run(
        [sys.executable, *command.split(), str(folder / "site"), str(source)],
        check=True,
        capture_output=True,
    )
    return folder / "site"


Run = Callable[..., subprocess.CompletedProcess[str]]


def lod_with(site: Path, folder: Path) -> Run:
    """Return the installed `lod`, with the plug-ins of `site`."""

    def run(*args: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(SCRIPTS / "lod"), *map(str, args)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.mark.slow
def test_the_sample_reads_and_writes_what_biopython_does(installed: Path, tmp_path: Path) -> None:
    lod = lod_with(installed, tmp_path)
    theirs = THEIRS / "biopython.fasta"
    lod("convert", "-q", theirs, "t.lod.h5")
    titles = lod("convert", "t.lod.h5::title", "--to", "jsonl").stdout.splitlines()
    sequences = lod("convert", "t.lod.h5::data", "--to", "jsonl").stdout.splitlines()
    pairs = [list(map(json.loads, pair)) for pair in zip(titles, sequences, strict=True)]
    assert pairs == json.loads((THEIRS / "records.json").read_text("utf-8"))
    lod("convert", "-q", "t.lod.h5", "again.fa")
    assert (tmp_path / "again.fa").read_bytes() == theirs.read_bytes()
    lod("convert", "-q", "t.lod.h5", "again.fna.gz")
    assert lod("diff", "again.fna.gz", "t.lod.h5").stdout == lod("diff", theirs, "t.lod.h5").stdout
    assert "fasta, 2 tensors" in lod("inspect", theirs, "--isolate").stdout
    first = lod("head", theirs, "-n", "1", "--to", "fasta").stdout
    assert theirs.read_text("utf-8").startswith(first)
    assert first.count(">") == 1
    (tmp_path / "unnamed").write_bytes(theirs.read_bytes())
    assert "unnamed: fasta, 2 tensors" in lod("inspect", "unnamed").stdout
    error = lod("convert", "again.fa", "t.csv", "--max-bytes", "9", code=1).stderr
    assert "again.fa: declares 16 bytes, at most 9 are allowed" in error
    (tmp_path / "bad.fa").write_bytes(b">a\nAC\x00GT\n")
    assert (
        "bad.fa: line 2: expected letters, found b'\\x00'" in lod("verify", "bad.fa", code=1).stderr
    )


def test_plugins_are_imported_only_when_needed(site: Path, tmp_path: Path) -> None:
    lod = lod_with(site, tmp_path)
    (tmp_path / "t.jsonl").write_text("[1,2]\n")
    for line in ("--help", "convert --help", "inspect t.jsonl", "convert t.jsonl t.npz -q"):
        assert lod(*line.split()).stderr == ""
    assert not (site / "broken.imported").exists()
    # Found for a file that none of ours is.
    assert lod("convert", "-q", THEIRS / "biopython.fasta", "t.lods").stderr == ""
    assert (site / "broken.imported").exists()


@pytest.mark.slow
def test_a_broken_plugin_is_named_with_its_package(site: Path, tmp_path: Path) -> None:
    lod = lod_with(site, tmp_path)
    said = (
        "the plug-in broken of broken 1.0 cannot be loaded: ModuleNotFoundError: No module named "
        "'no_such_package'"
    )
    done = lod("convert", "--formats")
    assert done.stderr == f"lod convert: {said}\n"
    assert "lod-fasta 0.1.0" in done.stdout
    (tmp_path / "t.jsonl").write_text("[1,2]\n")
    assert lod("convert", "t.jsonl", "--to", "broken", code=4).stderr.endswith(f": {said}\n")
    assert f"lists all); {said}" in lod("convert", "t.jsonl", "t.odd", code=2).stderr
    found = json.loads(lod("convert", "--formats", "--json").stdout)["formats"]
    assert [one["package"] for one in found if one["name"] == "fasta"] == ["lod-fasta 0.1.0"]


# -- in this process ---------------------------------------------------------------


class Lines(Format):
    """A length a line, each a sequence of ones."""

    name = "lines"
    endings = (".lines",)
    read_only = "an example"

    def open(self, source: Input, options: ReadOptions) -> Source:
        lengths = [int(line) for line in source.file]
        return MemorySource({"data": LoDTensor([1] * sum(lengths), [lengths])})


def of(**members: Any) -> type[Format]:
    """Return the class above with other members."""
    return type("Other", (Lines,), members)


Install = Callable[..., None]
COUNTER = count()


def installer(monkeypatch: pytest.MonkeyPatch, group: str) -> Install:
    """Return a function that installs plug-ins of a group, by name: package NAME-NUMBER 1.0."""

    def run(*members: tuple[str, object]) -> None:
        module = ModuleType(f"plugins_of_a_test_{next(COUNTER)}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        found = []
        for number, (name, member) in enumerate(members):
            setattr(module, f"member{number}", member)
            entry = EntryPoint(name, f"{module.__name__}:member{number}", group)
            found.append(Plugin(name, f"{name}-{number} 1.0", entry))
        monkeypatch.setattr(plugins, "plugins", lambda of: tuple(found) if of == group else ())

    return run


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(monkeypatch, FORMATS)


def test_a_plugin_is_a_format_like_ours(install: Install, tmp_path: Path) -> None:
    install(("lines", Lines))
    (tmp_path / "t.lines").write_text("2\n0\n1\n")
    found = lodcli.read(tmp_path / "t.lines", levels="item")
    assert isinstance(found, LoDTensor)
    assert found.to_list() == [[1, 1], [], [1]]
    assert found.lod.names == ("item",)
    with pytest.raises(UnsupportedError, match="lines is read-only: an example"):
        lodcli.write(tmp_path / "x.lines", found)
    with pytest.raises(UnsupportedError, match=r"there are: lod\.h5, .*, text, lines"):
        registry.get("nothing")
    with pytest.raises(LodError, match="declares"):
        lodcli.read(tmp_path / "t.lines", limits=lodcli.formats.Limits(max_bytes=1))


REFUSED: dict[str, tuple[str, object, str]] = {
    "no class": ("lines", 3, "expected a subclass of lodcli.formats.Format, found 3"),
    "another name": ("other", Lines, "its format is called 'lines', its entry point 'other'"),
    "a name of ours": ("npz", of(name="npz"), "lod has a format of this name"),
    "an extension of ours": ("lines", of(endings=(".csv",)), ".csv are files of csv"),
    "an odd extension": ("lines", of(endings=("X",)), "expected an extension such as .fasta"),
    "a packed extension": ("lines", of(endings=(".x.gz",)), "expected an extension such as"),
    "a folder": ("lines", of(layout="folder"), "plug-ins are formats of single files"),
    "no writer": ("lines", of(read_only=""), "expected a method write, or read_only"),
    "no reader": ("lines", of(open=Format.open), "it has no method open"),
}


@pytest.mark.parametrize(("name", "kind", "why"), REFUSED.values(), ids=REFUSED)
def test_a_plugin_that_breaks_a_rule_is_not_used(
    name: str, kind: object, why: str, install: Install, tmp_path: Path
) -> None:
    install((name, kind))
    (broken,) = all_formats()[1]
    assert str(broken).startswith(f"the plug-in {name} of {name}-0 1.0 is not used: ")
    assert why in str(broken)
    # Ours is not replaced.
    io.write(tmp_path / "t.csv", LoDTensor([1, 2]))
    assert isinstance(io.read(tmp_path / "t.csv"), LoDTensor)
    assert isinstance(registry.get("npz"), Npz)
    with pytest.warns(UserWarning, match="is not used"):
        assert len(lodcli.formats.formats()) == len(TABLE)


def test_two_plugins_of_one_name_or_extension_are_reported(
    install: Install, tmp_path: Path
) -> None:
    install(("lines", Lines), ("lines", Lines))
    with pytest.raises(
        UnsupportedError, match=r"lines-0 1\.0 and lines-1 1\.0 both have a plug-in"
    ):
        registry.get("lines")
    install(("lines", Lines), ("other", of(name="other")))
    (tmp_path / "t.lines").write_text("1\n")
    with pytest.raises(UnsupportedError, match=r"plug-ins lines and other both have files \.lines"):
        io.read(tmp_path / "t.lines")
    assert isinstance(io.read(tmp_path / "t.lines", format_name="other"), LoDTensor)


class _Late(MemorySource):
    def batches(self, limit_bytes: int = 0) -> Any:
        yield from super().batches(1 << 20)
        raise KeyError("late")


def _open_late(self: Format, source: Input, options: ReadOptions) -> Source:
    return _Late({"data": LoDTensor([1])})


def _open_badly(self: Format, source: Input, options: ReadOptions) -> Source:
    raise RuntimeError("two\nlines")


def _open_nothing(self: Format, source: Input, options: ReadOptions) -> Source:
    return None  # type: ignore[return-value]


def _open_rows(self: Format, source: Input, options: ReadOptions) -> Source:
    rows: Any = np.zeros(3)
    return MemorySource({"data": rows})


def _open_and_exit(self: Format, source: Input, options: ReadOptions) -> Source:
    raise SystemExit(0)


def _sniff_badly(self: Format, head: bytes) -> bool:
    raise ValueError("no")


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (of(open=_open_badly), "failed: RuntimeError: two lines"),
        (of(open=_open_late), "failed: KeyError: 'late'"),
        (of(open=_open_nothing), "TypeError: expected open to return a lodcli.formats.Source, fou"),
        (of(open=_open_rows), "TypeError: data: expected a LoDTensor or a StoredArray, found nda"),
        (of(open=_open_and_exit), "failed: SystemExit: 0"),
        (of(sniff=_sniff_badly), "failed: ValueError: no"),
        (Lines, "failed: ValueError: invalid literal for int"),
    ],
)
def test_a_fault_of_a_plugin_is_one_line(
    kind: type[Format], said: str, isolate: bool, install: Install, tmp_path: Path
) -> None:
    install(("lines", kind))
    path = tmp_path / "t.lines"
    path.write_text("x\n")
    limits = lodcli.formats.Limits(isolate=isolate)
    with (
        pytest.raises(
            UnsupportedError, match=r"^[^\n]*the plug-in lines of lines-\d+ 1\.0"
        ) as raised,
        lodcli.open(path, limits=limits) as source,
    ):
        list(source.batches())
    assert said in str(raised.value)


def test_a_plugin_may_need_a_package(install: Install, tmp_path: Path) -> None:
    install(("lines", of(needs=(Package("no_such_package", "lines-plugin[all]"),))))
    (tmp_path / "t.lines").write_text("1\n")
    with pytest.raises(UnsupportedError, match=r"pip install 'lines-plugin\[all\]'"):
        io.read(tmp_path / "t.lines")


# -- the test kit ------------------------------------------------------------------


@pytest.fixture
def fasta(monkeypatch: pytest.MonkeyPatch) -> type[Format]:
    monkeypatch.syspath_prepend(SAMPLE)
    found: type[Format] = importlib.import_module("lod_fasta").Fasta
    return found


def test_the_sample_passes_the_kit(fasta: type[Format]) -> None:
    report = check_format(fasta, files=[THEIRS / "biopython.fasta"])
    assert report.held == ["letters", "letters and titles", "no text"]
    assert "fasta holds letters, found" in report.refused["text"]


@pytest.mark.parametrize("kind", [None, Lines(), LoDTensor])
def test_the_kit_takes_a_class_of_a_format(kind: Any) -> None:
    with pytest.raises(AssertionError, match=r"expected a subclass of lodcli.formats.Format, fou"):
        check_format(kind)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lod.h5", "lod.stream", "npz", "parquet", "mds"])
def test_ours_pass_the_kit(name: str) -> None:
    report = check_format(type(registry.get(name)))
    assert len(report.held) > 20


def faulty(fasta: type[Format], fault: str) -> type[Format]:
    """Return the sample with a fault."""

    def open_(self: Any, source: Input, options: ReadOptions) -> Source:
        found = fasta.open(self, source, options)
        tensors = dict(found.read())
        data = tensors["data"]
        assert isinstance(data, LoDTensor)
        if fault == "other values" and data.rows:
            tensors["data"] = LoDTensor(data.data[::-1].copy(), data.lod, data.marks)
        if fault == "lost marks":
            tensors["data"] = data.as_numbers()
        if fault == "lost tensor":
            del tensors["title"]
        if fault == "other lengths":
            tensors["data"] = data[:0]
        return MemorySource(tensors)

    def write(self: Any, output: Any, *rest: Any) -> None:
        if fault == "a traceback":
            raise KeyError("x")
        if fault == "a nameless error":
            raise UnsupportedError("no")
        fasta.write(self, output, *rest)

    return type("Faulty", (fasta,), {"open": open_, "write": write})


FAULTS = {
    "other values": "values: expected",
    "lost marks": "marks: expected text, found none",
    "lost tensor": "no tensor 'title'",
    "other lengths": r"lengths: expected \[\[7, 2, 1\]\], found \[\[\]\]",
    "a traceback": "writing: KeyError: 'x'",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_kit_finds_faults(fault: str, fasta: type[Format]) -> None:
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        check_format(faulty(fasta, fault))


def test_the_kit_finds_what_breaks_on_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "t.lines").write_text("2\n0\n1\n")
    with pytest.raises(
        AssertionError, match=r"with bit \d of byte \d changed: ValueError: invalid literal"
    ):
        check_format(Lines, files=[tmp_path / "t.lines"])


def test_the_kit_tells_what_must_be_held(fasta: type[Format]) -> None:
    with pytest.raises(AssertionError, match=r"numbers: is refused: t\.fasta: fasta needs 1 l"):
        check_format(fasta, examples={"numbers": {"data": LoDTensor([1])}})


def test_endings_of_the_sample_are_free(fasta: type[Format]) -> None:
    assert formats_plugins.misfit("fasta", fasta) is None
    assert not set(fasta.endings) & set(SUFFIXES)
    assert LevelSpec("a").items is None
