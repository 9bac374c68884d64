"""The table of formats: it agrees with the classes, and a new format needs one entry."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lodcli.formats.core import registry
from lodcli.formats.core.format import Format
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.table import FOLDERS, PAIRS, SUFFIXES, TABLE
from lodcli.formats.storage.inputs import HEAD_BYTES, Input
from lodcli.formats.tfrecord.frames import framed
from lodcli.formats.ts.header import DIRECTIVES

ROOT = Path(__file__).parents[3]

# A format of one tensor of text lines, each a sequence of bytes as numbers.
TOY = '''
import numpy as np

from lodcli.formats.core.format import Format, joined
from lodcli.formats.arrays.in_memory import MemorySource
from lodcli.kernels.tensor.lod_tensor import LoDTensor


class Toy(Format):
    """Lines of numbers below the word toy."""

    name = "toy"
    max_levels = min_levels = 1
    row_ranks = 0
    dtypes = kept_dtypes = frozenset({"int64"})

    def sniff(self, head):
        return head.startswith(b"toy\\n")

    def open(self, source, options):
        lines = [line.split() for line in source.file.read().decode().splitlines()[1:]]
        numbers = np.array([int(word) for line in lines for word in line], np.int64)
        return MemorySource({"data": LoDTensor(numbers, [list(map(len, lines))])})

    def write(self, output, schema, batches, options):
        (tensor,) = joined(schema, batches).values()
        lines = (" ".join(map(str, tensor.data[a:b])) for a, b in pairs(tensor.lod.levels[0]))
        output.write(("toy\\n" + "".join(line + "\\n" for line in lines)).encode())


def pairs(offsets):
    return zip(offsets[:-1], offsets[1:])
'''
ENTRY = '"toy": Entry("toy", "Toy", (".toy",), marks=((0, b"toy"),)),'
# `lod` with that entry in its table.
LOD = f"""
import importlib.util, sys, types

spec = importlib.util.find_spec("lodcli.formats.core.table")
source = open(spec.origin).read().replace("TABLE = {{\\n", 'TABLE = {{\\n    {ENTRY}\\n', 1)
sys.modules[spec.name] = table = types.ModuleType(spec.name)
exec(compile(source, spec.origin, "exec"), table.__dict__)
"""


@pytest.mark.parametrize("name", TABLE)
def test_an_entry_agrees_with_its_class(name: str) -> None:
    kind, entry = registry.get(name), TABLE[name]
    assert kind.name == name
    assert bool(entry.marks) == (type(kind).sniff is not Format.sniff)
    assert bool(entry.folder_marks) == (kind.layout == "folder")
    assert bool(entry.pair_ending) == (kind.layout == "files")
    assert entry.begins_like is None or TABLE[entry.begins_like].marks
    assert all(ending == ending.lower() and ending[0] == "." for ending in entry.endings)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("megatron", b"TNTIDX\0\0"),
        ("megatron", b"HUFFIDX\0"),
        ("npz", b"PK\x05\x06" + bytes(18)),  # without a member
        ("arrow", b"FEA1"),
        ("parquet", b"PARE"),
        (
            "paddle",
            bytes(4) + (1).to_bytes(8, "little") + (8000).to_bytes(8, "little") + bytes(4076),
        ),
        ("tfrecord", framed(b"record")[0]),
        ("tfrecord", gzip.compress(framed(b"record")[0], mtime=0)),
        ("llmc", (20240520).to_bytes(4, "little")),
        ("llmc", (20240801).to_bytes(4, "little")),
        ("llmc", (20240522).to_bytes(4, "little")),
        ("ts", b"# words\n\n @data\n"),
        ("ts", b"\xef\xbb\xbf@ProblemName vowels\r\n"),
        *(("ts", b"@" + directive) for directive in sorted(DIRECTIVES)),
        ("lod.stream", b"\x89LODS\n\x01{"),  # as text mode left it, and so the next three
        ("lod.stream", b"\tLODS\r\n\x01"),
        ("lod.stream", b"\xc2\x89LODS\r\n\x01"),
        ("lod.stream", b"\xef\xbf\xbdLODS\r\n\x01"),
    ],
)
def test_every_beginning_of_a_format_has_a_mark(name: str, head: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(head)
    with Input(tmp_path / "x") as opened:
        assert registry.of_input(opened, ReadOptions()) == name


def heads_of_files() -> Iterator[bytes]:
    """Yield the first bytes of all files of the tests, also as text modes change them."""
    for folder in ("tests/corpus", "tests/formats/theirs", "samples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or path.suffix in (".py", ".pyc"):
                continue
            with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
                head = file.read(HEAD_BYTES)
            yield head
            yield bytes(byte & 127 for byte in head)
            yield head.replace(b"\n", b"\r\n")
            yield head.replace(b"\r\n", b"\n")
            yield head.decode("latin-1").encode()
            yield head.decode(errors="replace").encode()
            yield b"\xef\xbb\xbf" + head


def test_marks_exclude_no_format_that_would_accept_a_file() -> None:
    kinds = [registry.get(name) for name in TABLE]
    found = Counter[str | None]()
    for head in heads_of_files():
        accepting = next((kind.name for kind in kinds if kind.sniff(head)), None)
        assert registry.of_head(head) == accepting, head[:64]
        found[accepting] += 1
    marked = {name for name, entry in TABLE.items() if entry.marks}
    assert marked - found.keys() <= {"tfrecord", "zarr-zip"}  # no such files in these folders


def test_no_two_formats_are_recognised_by_the_same() -> None:
    entries = TABLE.values()
    for marks in (
        [ending for entry in entries for ending in entry.endings],
        [mark for entry in entries for mark in entry.folder_marks],
        [entry.pair_ending for entry in entries if entry.pair_ending],
    ):
        assert max(Counter(marks).values()) == 1
    assert len(SUFFIXES) == sum(len(entry.endings) for entry in entries)
    assert FOLDERS["index.json"] == "mds"
    assert PAIRS == {".bin": (".idx", "megatron")}


def test_a_longer_ending_goes_before_one_that_it_ends_with() -> None:
    endings = list(SUFFIXES)
    for place, ending in enumerate(endings):
        assert not any(later.endswith(ending) for later in endings[place + 1 :])
    assert registry.of_name("words.LOD.h5.gz") == "lod.h5"
    assert registry.of_name("words.h5") == "hdf5"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """The folder of the toy format, in which `python_with_toy` runs."""
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "x.jsonl").write_text("[1,2]\n[]\n[3]\n")
    return tmp_path


def python_with_toy(folder: Path, code: str, *args: str, stdin: bytes = b"") -> str:
    """Run Python with the toy format in the table, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", LOD + code, *args],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def lod_with_toy(folder: Path, *args: str, stdin: bytes = b"") -> str:
    code = "from lodcli.main import main\nsys.exit(main())"
    return python_with_toy(folder, code, *args, stdin=stdin)


def test_one_module_and_one_entry_make_a_format(toy: Path) -> None:
    lod_with_toy(toy, "convert", "x.jsonl", "x.toy")
    written = b"toy\n1 2\n\n3\n"
    assert (toy / "x.toy").read_bytes() == written
    lines = (toy / "x.jsonl").read_text()
    assert lod_with_toy(toy, "convert", "x.toy", "--to", "jsonl") == lines
    assert lod_with_toy(toy, "convert", "-", "--to", "jsonl", stdin=written) == lines  # detected
    assert lod_with_toy(toy, "slice", "x.toy", "2:", "--to", "toy") == "toy\n3\n"
    assert "toy, 1 tensor" in lod_with_toy(toy, "inspect", "x.toy", "--isolate")
    assert '"name": "toy"' in lod_with_toy(toy, "convert", "--formats", "--json")
