"""Outputs of several files, and folders: all of the new ones or all of the old ones."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lodcli.formats.folders import FolderOutput
from lodcli.formats.outputs import Output, TargetExistsError
from lodcli.kernels.errors import UnsupportedError
from tests.formats.failing import CALLS, error_of, failing
from tests.formats.writing import partials_in

Content = dict[str, bytes]
OLD: Content = {"t.bin": b"old content", "t.idx": b"old"}
NEW: Content = {"t.bin": b"new content, longer", "t.idx": b"new"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder in which no partial file may stay."""
    yield tmp_path
    assert not partials_in(tmp_path)


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


SETS = pytest.mark.parametrize(
    ("write", "make_old", "found"),
    [(write_pair, old_pair, pair_in), (write_folder, old_folder, folder_in)],
    ids=["pair", "folder"],
)


@SETS
@pytest.mark.parametrize("old", [True, False])
def test_whatever_call_fails_all_old_files_or_all_new_ones_are_there(
    write: Callable[..., None],
    make_old: Callable[[Path], None],
    found: Callable[[Path], Content],
    old: bool,
    tmp_path: Path,
) -> None:
    failed = set()
    for fail_at in range(1, 100):
        folder = tmp_path / str(fail_at)
        folder.mkdir()
        if old:
            make_old(folder)
        with failing(fail_at, errno.EIO, (*CALLS, "rename")) as calls:
            error = error_of(lambda target=folder: write(target, overwrite=old))  # type: ignore[misc]
        left = found(folder)
        if error is None:
            assert calls.failed in ("", "link", "open")
            assert left == NEW
        else:
            assert error.errno == errno.EIO
            assert "t" in str(error)
            # Whole, although an error was reported: only the folder's entry may be lost.
            assert left == (OLD if old else {}) or (
                left == NEW and calls.failed in ("fsync", "open")
            )
        if left != NEW or calls.failed != "open":  # without which no old folder can be removed
            assert not partials_in(folder), (fail_at, calls.failed)
        if not calls.failed:
            break
        failed.add(calls.failed)
    assert {"write", "fsync", "fchmod"} <= failed


@SETS
def test_an_error_while_writing_leaves_the_old_files(
    write: Callable[..., None],
    make_old: Callable[[Path], None],
    found: Callable[[Path], Content],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_old(folder)

    def broken(self: Output, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Output, "write", broken)
    with pytest.raises(KeyboardInterrupt):
        write(folder)
    assert found(folder) == OLD


@SETS
@pytest.mark.parametrize("there", ["t.bin", "t.idx"])
def test_what_exists_is_refused_or_replaced(
    write: Callable[..., None],
    make_old: Callable[[Path], None],
    found: Callable[[Path], Content],
    there: str,
    folder: Path,
) -> None:
    make_old(folder)
    for path in folder.rglob("t.*"):
        if path.name != there:
            path.unlink()
    before = found(folder)
    with pytest.raises(TargetExistsError, match="exists already; use --force to replace it"):
        write(folder, overwrite=False)
    assert found(folder) == before
    write(folder)
    assert found(folder) == NEW


@pytest.mark.parametrize("there", ["t.bin", "t.idx"])
def test_a_part_that_appears_meanwhile_is_refused(there: str, folder: Path) -> None:
    output = Output(folder / "t.idx")
    output.part("t.bin").write(b"new")
    (folder / there).write_bytes(b"somebody's")
    with pytest.raises(TargetExistsError, match="appeared while it was being written"), output:
        pass
    assert pair_in(folder) == {there: b"somebody's"}


def test_a_folder_that_appears_meanwhile_is_refused(folder: Path) -> None:
    output = FolderOutput(folder / "t", may_hold="a")
    output.part("a").write(b"new")
    old_folder(folder)
    with pytest.raises(TargetExistsError, match="exists already"), output:
        pass
    assert folder_in(folder) == OLD


@pytest.mark.parametrize("name", ["photo.jpg", "t.idx.bak", "deep"])
def test_a_folder_that_holds_something_else_is_not_replaced(name: str, folder: Path) -> None:
    old_folder(folder)
    stranger = folder / "t" / name
    if name == "deep":
        stranger.mkdir()
    else:
        stranger.write_bytes(b"mine")
    with pytest.raises(TargetExistsError, match=f"holds '{name}', which is no part"):
        write_folder(folder)
    assert stranger.exists()


def test_a_file_in_the_place_of_a_folder_stays(folder: Path) -> None:
    (folder / "t").write_bytes(b"mine")
    with pytest.raises(TargetExistsError, match="is no folder and stays as it is"):
        write_folder(folder)
    assert (folder / "t").read_bytes() == b"mine"


def test_folders_are_exchanged_one_by_one_where_they_cannot_be_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *args, **kwargs: None)
    old_folder(folder)
    write_folder(folder)
    assert folder_in(folder) == NEW


def test_a_part_beside_a_link_has_the_links_name(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "t.idx").symlink_to(folder / "deep" / "other.idx")
    write_pair(folder)
    assert pair_in(folder) == NEW
    assert (folder / "t.idx").is_symlink()
    assert pair_in(folder / "deep") == {"other.idx": NEW["t.idx"]}


def test_standard_output_has_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Output("-", seekable=True) as output,
        pytest.raises(UnsupportedError, match="several files cannot go through a pipe"),
    ):
        output.part("t.bin")


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_umask_and_the_old_permissions_are_respected(mask: int, folder: Path) -> None:
    def modes(*paths: str) -> list[int]:
        return [stat.S_IMODE((folder / path).stat().st_mode) for path in paths]

    before = os.umask(mask)
    try:
        write_pair(folder)
        write_folder(folder)
        assert modes("t.bin", "t.idx", "t/t.bin") == [0o666 & ~mask] * 3
        assert modes("t") == [0o777 & ~mask]
        (folder / "t.bin").chmod(0o640)
        (folder / "t").chmod(0o750)
        write_pair(folder)
        write_folder(folder)
        assert modes("t.bin", "t") == [0o640, 0o750]
    finally:
        os.umask(before)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.formats import test_output_sets as sets
count = 0
def counting(real):
    def call(*args, **kwargs):
        global count
        if kwargs.get("dir_fd") is None:
            count += 1
            if count == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call
for name in ("replace", "rename", "link", "unlink", "fsync"):
    setattr(os, name, counting(getattr(os, name)))
getattr(sets, sys.argv[1])(Path(sys.argv[2]))
"""


@pytest.mark.slow
@SETS
def test_after_being_killed_anywhere_no_mixture_is_there(
    write: Callable[..., None],
    make_old: Callable[[Path], None],
    found: Callable[[Path], Content],
    tmp_path: Path,
) -> None:
    seen = []
    for kill_at in range(1, 40):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        make_old(folder)
        args = [write.__name__, str(folder), str(kill_at)]
        done = subprocess.run([sys.executable, "-c", KILLED, *args], check=False)
        left = {name: data for name, data in found(folder).items() if not name.startswith(".")}
        # A pair has a moment without its index; an index beside another's content, never.
        assert left in (OLD, NEW, {}) or (write is write_pair and list(left) == ["t.bin"])
        seen.append(left)
        write(folder)
        assert not partials_in(folder)
        shutil.rmtree(folder)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert OLD in seen
    assert seen[-1] == NEW
