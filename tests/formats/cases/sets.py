"""Sets of files to write: a pair and folders; what other programs and lod read from them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lodcli.formats.storage.folder_output import FolderOutput
from lodcli.formats.storage.journal import opened
from lodcli.formats.storage.output_set import OutputSet
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.platform import files
from lodcli.kernels.platform.processes import libc

Content = dict[str, bytes]
OLD: Content = {"t.bin": b"old content", "t.idx": b"old"}
NEW: Content = {"t.bin": b"new content, longer", "t.idx": b"new"}

# Of several stems, as `lod split` writes them.
PARTS_OLD: Content = {"t-1.x": b"old content", "t-2.x": b"old"}
PARTS_NEW: Content = {"t-1.x": b"new content, longer", "t-2.x": b"new"}


def write_pair(folder: Path, *, overwrite: bool = True) -> None:
    with Output(folder / "t.idx", overwrite=overwrite) as output:
        part = output.part("t.bin")
        part.write(NEW["t.bin"])
        output.write(NEW["t.idx"])


def old_pair(folder: Path) -> None:
    for name, content in OLD.items():
        (folder / name).write_bytes(content)


def pair_in(folder: Path) -> Content:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def write_folder(folder: Path, *, overwrite: bool = True) -> None:
    with FolderOutput(folder / "t", overwrite=overwrite, may_hold=r"t\.(bin|idx)") as output:
        for name, content in NEW.items():
            with output.part(name) as part:
                part.write(content)


def old_folder(folder: Path) -> None:
    (folder / "t").mkdir()
    old_pair(folder / "t")


def folder_in(folder: Path) -> Content:
    return pair_in(folder / "t") if (folder / "t").exists() else {}


def read(folder: Path, *names: str) -> Content:
    """Return the files of a set as a reader sees them: by the journal, if there is one."""
    content = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            content[Path(name).name] = opened(folder / name, Path.read_bytes)
    return content


def read_pair(folder: Path) -> Content:
    return read(folder, "t.bin", "t.idx")


def read_folder(folder: Path) -> Content:
    try:
        place = opened(folder / "t", lambda place: place.stat() and place)
    except FileNotFoundError:
        return {}
    return pair_in(place)


def write_names(folder: Path, *, overwrite: bool = True) -> None:
    targets = [str(folder / name) for name in PARTS_NEW]
    with OutputSet(targets, overwrite=overwrite) as output:
        for file, content in zip(output.files, PARTS_NEW.values(), strict=True):
            with file:
                file.write(content)


def old_names(folder: Path) -> None:
    for name, content in PARTS_OLD.items():
        (folder / name).write_bytes(content)


def names_in(folder: Path) -> Content:
    """Return the files of several stems, called as those of the other kinds."""
    called = dict(zip(PARTS_NEW, NEW, strict=True))
    return {called.get(name, name): content for name, content in pair_in(folder).items()}


def read_names(folder: Path) -> Content:
    found = read(folder, *reversed(PARTS_NEW))
    called = dict(zip(PARTS_NEW, NEW, strict=True))
    return {called[name]: found[name] for name in PARTS_NEW if name in found}


def write_pair_by_links(folder: Path, *, overwrite: bool = True) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_renameat2", lambda *args: False)
        write_pair(folder, overwrite=overwrite)


def write_folder_by_journal(folder: Path, *, overwrite: bool = True) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "exchange", lambda one, other: False)
        write_folder(folder, overwrite=overwrite)


@dataclass(frozen=True)
class Set:
    """A kind of set, and how to handle it.

    Attributes:
        write: makes a new one; its argument is the folder in which it lies.
        old: makes an old one.
        there: gives what other programs find, who know no journal.
        found: gives what we find.
        between: whether other programs may find this while it is replaced, beside all of the
            old one and all of the new one.
    """

    write: Callable[..., None]
    old: Callable[[Path], None]
    there: Callable[[Path], Content]
    found: Callable[[Path], Content]
    between: Callable[[Content], bool]


KINDS = {
    # Without its index a pair is worth nothing; an index beside another's content is a lie.
    "pair": Set(write_pair, old_pair, pair_in, read_pair, lambda left: "t.idx" not in left),
    "pair, by links": Set(
        write_pair_by_links, old_pair, pair_in, read_pair, lambda left: "t.idx" not in left
    ),
    "names": Set(write_names, old_names, names_in, read_names, lambda left: "t.idx" not in left),
    "folder": Set(
        *(write_folder, old_folder, folder_in, read_folder),
        lambda left: not left and libc("renameat2") is None,
    ),
    "folder, by journal": Set(
        write_folder_by_journal, old_folder, folder_in, read_folder, lambda left: not left
    ),
}
SETS = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
