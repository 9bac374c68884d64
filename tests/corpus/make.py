"""Writes the corpus: `python -m tests.corpus.make` puts every crafted file and the manifest here.

Nothing of it changes when nothing of what it is made from does, but for what another
version of HDF5 lays out differently. A file that was found by fuzzing goes to found/ as it
is, with its line in found.json; this script keeps those.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import lodcli
from lodcli.formats.core import io
from lodcli.kernels.errors import LodError
from lodcli.kernels.options import for_shell
from lodcli.shell.failures import explained
from tests.corpus.sources import SOURCES, Crafted

FOLDER = Path(__file__).parent
MANIFEST = FOLDER / "manifest.json"
FOUND = FOLDER / "found.json"
# Larger ones are kept packed; what makes them large is mostly zeros.
PACKED_BYTES = 16 << 10


@dataclass(frozen=True)
class Entry:
    """One file of the corpus.

    Attributes:
        file: its path in this folder; packed by xz if it ends with that.
        format: what it is read as.
        error: the class of the error that reading all of it raises.
        code: the exit code.
        message: part of the error, without the file's name.
        opens: whether what stands before the rows is whole: commands that read only that
            see no error.
    """

    file: str
    format: str
    error: str
    code: int
    message: str
    opens: bool


def entries() -> list[Entry]:
    """Return the entries of the manifest, and the files found by fuzzing."""
    said = json.loads(MANIFEST.read_text("utf-8")) + json.loads(FOUND.read_text("utf-8"))
    return [Entry(**each) for each in said]


def unpacked(entry: Entry) -> bytes:
    """Return the bytes of a file of the corpus."""
    raw = (FOLDER / entry.file).read_bytes()
    return lzma.decompress(raw) if entry.file.endswith(".xz") else raw


def crafted() -> Iterator[Crafted]:
    """Yield every crafted file, in order, none twice."""
    seen: set[str] = set()
    for source in SOURCES:
        for each in source():
            assert each.file not in seen, each.file
            seen.add(each.file)
            yield each


def entry_of(each: Crafted) -> Entry:
    """Return the line of a file, which must be refused. Raises AssertionError if it is not."""
    with TemporaryDirectory() as folder:
        copy = Path(folder, Path(each.file).name)
        copy.write_bytes(each.content)
        try:
            with for_shell():  # as the commands that the manifest is compared with
                io.read_all(copy, format_name=each.format)
        except LodError as error:
            message, code = explained(error)
            kind = type(error).__name__
        else:
            raise AssertionError(f"{each.file} is read")
        opens = _opens(copy, each.format)
    shown = message.replace(f"{copy}: ", "").replace(os.fspath(copy), copy.name)
    size = len(each.content)
    name = f"{each.file}.xz" if size > PACKED_BYTES else each.file
    return Entry(name, each.format, kind, code, shown[:160], opens)


def _opens(path: Path, format_name: str) -> bool:
    try:
        with lodcli.open(path, format_name=format_name) as source:
            for spec in source.schema:
                source.read_index(spec.name)
    except LodError:
        return False
    return True


def main() -> None:
    """Write all files and the manifest anew."""
    for folder in {Path(each.file).parent for each in crafted()}:
        shutil.rmtree(FOLDER / folder, ignore_errors=True)
    found = []
    for each in crafted():
        entry = entry_of(each)
        target = FOLDER / entry.file
        target.parent.mkdir(exist_ok=True)
        packed = entry.file.endswith(".xz")
        target.write_bytes(lzma.compress(each.content, preset=9) if packed else each.content)
        found.append(asdict(entry))
    MANIFEST.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(found)} files")


if __name__ == "__main__":
    main()
