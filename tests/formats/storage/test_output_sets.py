"""Outputs of several files, and folders: all of the new ones or all of the old ones."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import stat
import struct
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from lodcli.formats.storage import journal
from lodcli.formats.storage.durable import rename_new
from lodcli.formats.storage.folder_output import FolderOutput
from lodcli.formats.storage.output_set import OutputSet
from lodcli.formats.storage.outputs import Output, TargetExistsError
from lodcli.formats.storage.set_commit import UnfinishedError
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.platform import files
from lodcli.kernels.platform.files import exchange
from tests.formats.broken.failing import CALLS, error_of, failing
from tests.formats.cases.sets import (
    NEW,
    OLD,
    SETS,
    Content,
    Set,
    folder_in,
    old_folder,
    pair_in,
    read_folder,
    write_folder,
    write_folder_by_journal,
    write_names,
    write_pair,
)
from tests.formats.cases.writing import partials_in
from tests.growth import calls_of
from tests.sampling import every
from tests.slow import slow

GROUP = 54321  # in which no process is

pytestmark = pytest.mark.usefixtures("no_waiting_for_disks")


def hidden_in(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".")]


def check_after_a_fault(kind: Set, folder: Path, old: Content) -> Content:
    """Check what stands in a folder after a fault; return which set it is, old or new."""
    there = {name: data for name, data in kind.there(folder).items() if name[0] != "."}
    assert there in (old, NEW) or kind.between(there)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "finish", not_permitted)
        found = kind.found(folder)
        assert found in (old, NEW)
    assert kind.found(folder) == found, "finished to something else"
    there = {name: data for name, data in kind.there(folder).items() if name[0] != "."}
    assert there == found, "a reader that may has not finished it"
    kind.write(folder)
    assert kind.there(folder) == kind.found(folder) == NEW
    assert not hidden_in(folder), "the next writer has not cleaned up"
    return found


def not_permitted(*args: object, **options: object) -> bool:
    raise PermissionError


@SETS
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EPERM], ids=errno.errorcode.get)
@pytest.mark.parametrize("old", [OLD, {}], ids=["old", "none"])
def test_whatever_call_fails_all_old_files_or_all_new_ones_are_there(
    kind: Set, old: Content, number: int, tmp_path: Path
) -> None:
    failed = set()
    for fail_at in range(1, 100):
        folder = tmp_path / str(fail_at)
        folder.mkdir()
        if old:
            kind.old(folder)
        with failing(fail_at, number, (*CALLS, "rename", "unlink", "listdir")) as calls:
            error = error_of(lambda target=folder: kind.write(target, overwrite=bool(old)))  # type: ignore[misc]
        if error is not None:
            assert "t" in str(error)
            assert error.errno == number or isinstance(error, UnfinishedError)
        found = check_after_a_fault(kind, folder, old)
        # Whole, although an error was reported: only its durability may be lost.
        assert found == NEW if error is None else True
        shutil.rmtree(folder)
        if not calls.failed:
            break
        failed.add(calls.failed)
    assert not calls.failed
    assert {"write", "fsync", "fchmod", "open"} <= failed


@SETS
@pytest.mark.parametrize("old", [OLD, slow({})], ids=["old", "none"])
def test_after_being_killed_anywhere_the_old_set_or_the_new_one_is_found(
    kind: Set, old: Content, tmp_path: Path
) -> None:
    seen = []
    for kill_at in range(1, 100):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        if old:
            kind.old(folder)
        killed = killed_in(lambda target=folder: kind.write(target, overwrite=bool(old)), kill_at)  # type: ignore[misc]
        seen.append(check_after_a_fault(kind, folder, old))
        shutil.rmtree(folder)
        if not killed:
            break
    assert old in seen
    assert seen[-1] == NEW
    assert seen == sorted(seen, key=lambda one: one == NEW), "new, and then old again"


@pytest.mark.slow
@SETS
def test_after_a_reader_is_killed_while_it_finishes_all_is_still_found(
    kind: Set, tmp_path: Path
) -> None:
    """Every moment of a writer's end, and for each every moment of the end of who finishes."""
    step = every(3)
    for kill_at in range(1, 100, step):
        for again_at in range(1 + kill_at // step % step, 100, step):
            folder = tmp_path / f"{kill_at}-{again_at}"
            folder.mkdir()
            kind.old(folder)
            if not killed_in(lambda target=folder: kind.write(target), kill_at):  # type: ignore[misc]
                assert kill_at > 10
                return
            pending = [name for name in hidden_in(folder) if name.endswith(".lod-commit")]
            again = bool(pending) and killed_in(
                lambda target=folder: kind.found(target),  # type: ignore[misc]
                again_at,
            )
            check_after_a_fault(kind, folder, OLD)
            shutil.rmtree(folder)
            if not again:
                break


MUTATING = ("replace", "rename", "link", "unlink", "rmdir", "fsync", "open", "write", "fchmod")


class Killing:
    """Calls of `os`, before the k-th of which the process is killed."""

    def __init__(self, kill_at: int) -> None:
        self.left = kill_at

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call


def killed_in(work: Callable[[], object], kill_at: int) -> bool:
    """Do something in a child that kills itself at its k-th call; return whether it came to it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            killing = Killing(kill_at)
            for name in MUTATING:
                setattr(os, name, killing.wrap(getattr(os, name)))
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


@SETS
def test_an_error_while_writing_leaves_the_old_files(
    kind: Set, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind.old(folder)

    def broken(self: Output, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Output, "write", broken)
    with pytest.raises(KeyboardInterrupt):
        kind.write(folder)
    assert kind.there(folder) == OLD


@SETS
@pytest.mark.parametrize("there", ["t.bin", "t.idx"])
def test_existing_files_are_refused_or_replaced(kind: Set, there: str, folder: Path) -> None:
    kind.old(folder)
    for path in folder.rglob("t.*"):
        if path.name != there:
            path.unlink()
    before = kind.there(folder)
    with pytest.raises(TargetExistsError, match="exists already; use overwrite=True to replace it"):
        kind.write(folder, overwrite=False)
    assert kind.there(folder) == before
    kind.write(folder)
    assert kind.there(folder) == NEW


@pytest.mark.parametrize("there", ["t.bin", "t.idx"])
def test_a_part_that_appears_meanwhile_is_refused(there: str, folder: Path) -> None:
    output = Output(folder / "t.idx")
    output.part("t.bin").write(b"new")
    (folder / there).write_bytes(b"somebody's")
    with pytest.raises(TargetExistsError, match="was created while it was being written"), output:
        pass
    assert pair_in(folder) == {there: b"somebody's"}


@pytest.mark.parametrize(("write", "there"), [(write_pair, "t.idx"), (write_names, "t-2.x")])
def test_a_file_that_appears_between_the_renames_is_refused(
    write: Callable[..., None], there: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(partial: Path, path: Path) -> None:
        (folder / there).write_bytes(b"somebody's")
        rename_new(partial, path)

    monkeypatch.setattr(journal, "rename_new", late)
    with pytest.raises(TargetExistsError, match=f"{there}: was created while it was being writ"):
        write(folder, overwrite=False)
    assert pair_in(folder) == {there: b"somebody's"}


@pytest.mark.parametrize("content", [OLD, NEW], ids=["old", "new"])
def test_a_folder_that_cannot_be_renamed_leaves_the_old_one_to_other_programs(
    content: Content, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_folder(folder)
    rename = os.rename

    def failing_once(old: Path, new: Path) -> None:
        if Path(old) != folder / "t" or content == OLD:
            monkeypatch.undo()
            raise OSError(errno.EIO, "the disk failed")
        rename(old, new)

    monkeypatch.setattr(os, "rename", failing_once)
    with pytest.raises(UnfinishedError, match="could not be renamed"):
        write_folder_by_journal(folder)
    assert folder_in(folder) == OLD
    assert len(partials_in(folder)) == 1
    assert read_folder(folder) == folder_in(folder) == NEW


def test_a_folder_that_appears_meanwhile_is_refused(folder: Path) -> None:
    output = FolderOutput(folder / "t", may_hold="a")
    output.part("a").write(b"new")
    old_folder(folder)
    with pytest.raises(TargetExistsError, match="exists already"), output:
        pass
    assert folder_in(folder) == OLD


@pytest.mark.parametrize("write", [write_folder, write_folder_by_journal])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_appears_at_the_last_moment_is_as_one_that_was_there(
    write: Callable[..., None], overwrite: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def late(old: Path, new: Path) -> None:
        monkeypatch.undo()
        old_folder(folder)
        rename(old, new)

    monkeypatch.setattr(os, "rename", late)
    expected: AbstractContextManager[Any] = nullcontext()
    if not overwrite:
        expected = pytest.raises(TargetExistsError, match="exists already")
    with expected:
        write(folder, overwrite=overwrite)
    assert read_folder(folder) == folder_in(folder) == (NEW if overwrite else OLD)
    assert not partials_in(folder)


@pytest.mark.parametrize("name", ["photo.jpg", "t.idx.bak", "deep"])
def test_a_folder_that_holds_something_else_is_not_replaced(name: str, folder: Path) -> None:
    old_folder(folder)
    stranger = folder / "t" / name
    if name == "deep":
        stranger.mkdir()
    else:
        stranger.write_bytes(b"mine")
    with pytest.raises(TargetExistsError, match=f"holds '{name}', which is not part"):
        write_folder(folder)
    assert stranger.exists()


def test_a_file_in_the_place_of_a_folder_stays(folder: Path) -> None:
    (folder / "t").write_bytes(b"mine")
    with pytest.raises(TargetExistsError, match="is not a folder and is left unchanged"):
        write_folder(folder)
    assert (folder / "t").read_bytes() == b"mine"


def test_a_stranger_that_comes_at_the_last_moment_brings_the_old_folder_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_folder(folder)

    def late(one: Path, other: Path) -> bool:
        (folder / "t" / "photo.jpg").touch()
        return exchange(one, other)

    monkeypatch.setattr(files, "exchange", late)
    with pytest.raises(TargetExistsError, match=r"/t: holds 'photo\.jpg', which is not part"):
        write_folder(folder)
    assert folder_in(folder) == {**OLD, "photo.jpg": b""}


@pytest.mark.parametrize("strangers", [False, True])
def test_a_writer_that_begins_meanwhile_does_not_remove_the_old_folder(
    strangers: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(one: str, other: Path) -> bool:
        if strangers:
            (other / "stranger").write_bytes(b"theirs")
        done = exchange(one, other)
        journal.remove_stale(other)  # as a writer does first
        return done

    monkeypatch.setattr(files, "exchange", late)
    (folder / "t").mkdir()
    (folder / "t" / "a").write_bytes(b"old")
    expected: AbstractContextManager[Any] = nullcontext()
    if strangers:
        expected = pytest.raises(TargetExistsError, match="stranger")
    with (
        expected,
        FolderOutput(folder / "t", overwrite=True, may_hold="a") as output,
        output.part("a") as part,
    ):
        part.write(b"new")
    found = {one.name: one.read_bytes() for one in (folder / "t").iterdir()}
    assert found == ({"a": b"old", "stranger": b"theirs"} if strangers else {"a": b"new"})
    assert not partials_in(folder)


def test_a_folder_that_another_writer_replaces_at_the_last_moment_is_replaced_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(one: Path, other: Path) -> bool:
        (folder / "theirs").mkdir()
        exchange(folder / "theirs", other)
        shutil.rmtree(folder / "theirs")
        done = exchange(one, other)
        journal.remove_stale(other)  # of a third writer
        return done

    monkeypatch.setattr(files, "exchange", late)
    (folder / "t").mkdir()
    with (
        FolderOutput(folder / "t", overwrite=True, may_hold="a") as output,
        output.part("a") as part,
    ):
        part.write(b"new")
    assert (folder / "t" / "a").read_bytes() == b"new"
    assert not partials_in(folder)


def test_a_pair_is_replaced_where_its_links_lead(folder: Path) -> None:
    (folder / "deep").mkdir()
    for ending in ("bin", "idx"):
        (folder / f"t.{ending}").symlink_to(folder / "deep" / f"other.{ending}")
    write_pair(folder)
    assert pair_in(folder) == NEW
    assert all(path.is_symlink() for path in folder.glob("t.*"))
    assert pair_in(folder / "deep") == {f"other{name[1:]}": NEW[name] for name in NEW}


@pytest.mark.parametrize("to", ["deep/t.idx", "other.idx"])
def test_a_pair_whose_links_lead_to_different_names_is_refused(to: str, folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / to).write_bytes(b"mine")
    (folder / "t.idx").symlink_to(folder / to)
    with pytest.raises(
        UnsupportedError, match=f"links lead to .*{to} and .*/t.bin; the files of one"
    ):
        write_pair(folder)
    assert (folder / "t.idx").read_bytes() == b"mine"
    assert not (folder / "t.bin").exists()
    assert not partials_in(folder / "deep")


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


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs a free group")
def test_the_group_of_old_files_and_folders_is_kept(folder: Path) -> None:
    def shared(*paths: str) -> list[tuple[int, int]]:
        found = [(folder / path).stat() for path in paths]
        return [(one.st_gid, stat.S_IMODE(one.st_mode)) for one in found]

    def write_deep() -> None:
        with FolderOutput(folder / "t", overwrite=True, may_hold=r"below/t\.bin") as output:
            output.part("below/t.bin").commit()

    write_pair(folder)
    (folder / "t").mkdir()
    for path, mode in (("t.bin", 0o640), ("t", 0o2770)):
        os.chown(folder / path, -1, GROUP)
        (folder / path).chmod(mode)
    write_pair(folder)
    write_deep()
    assert shared("t.bin", "t", "t/below") == [(GROUP, 0o640), (GROUP, 0o2770), (GROUP, 0o2770)]
    assert shared("t/below/t.bin")[0][0] == GROUP
    # New folders, in a folder with that bit.
    shutil.rmtree(folder / "t")
    os.chown(folder, -1, GROUP)
    folder.chmod(0o2775)
    write_deep()
    (folder / "made").mkdir()
    assert shared("t", "t/below") == shared("made") * 2


def test_a_group_that_cannot_be_kept_gets_the_permissions_of_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "t"
    path.write_bytes(b"old")
    path.chmod(0o664)
    monkeypatch.setattr(files, "take_group", lambda *_: False)
    with Output(path, overwrite=True) as output:
        output.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def packed_list(entries: list[tuple[int, int, int]]) -> bytes:
    """Return an access control list: kinds, permissions, users."""
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", kind, allowed, who & 0xFFFFFFFF) for kind, allowed, who in entries
    )


def set_list(path: Path, name: str, packed: bytes) -> None:
    try:
        os.setxattr(path, name, packed)
    except (AttributeError, OSError):
        pytest.skip("needs a file system with access control lists")


@pytest.mark.parametrize("mask", [(), ((0x10, 6, -1),)])
def test_new_files_have_the_permissions_of_the_folders_default_list(
    mask: tuple[tuple[int, int, int], ...], folder: Path
) -> None:
    """As a file that is opened, and a folder that is made there: others get nothing."""
    named = [(2, 7, GROUP)] if mask else []
    default = packed_list([(1, 7, -1), *named, (4, 5, -1), *mask, (0x20, 0, -1)])
    set_list(folder, "system.posix_acl_default", default)
    (folder / "plain").write_bytes(b"")
    (folder / "made").mkdir()
    (folder / "made" / "plain").write_bytes(b"")
    with Output(folder / "t") as output:
        output.write(b"new")
    with FolderOutput(folder / "d", may_hold=".*") as output:
        output.part("below/t.bin").commit()

    def found(path: str) -> tuple[int, bytes]:
        place = folder / path
        named = "system.posix_acl_access"
        return place.stat().st_mode, os.getxattr(place, named) if mask else b""

    assert found("t") == found("plain")
    assert found("d") == found("d/below") == found("made")
    assert found("d/below/t.bin") == found("made/plain")
    assert not found("t")[0] & 0o007


def test_the_access_control_list_of_an_old_file_is_kept(folder: Path) -> None:
    """Its mask is the mode's group: without the list, the group would get what one user has."""
    path, name = folder / "t", "system.posix_acl_access"
    path.write_bytes(b"old")
    entries = [(1, 6, -1), (2, 6, GROUP), (4, 0, -1), (0x10, 6, -1), (0x20, 0, -1)]
    packed = packed_list(entries)
    set_list(path, name, packed)
    before = path.stat()
    with Output(path, overwrite=True) as output:
        output.write(b"new")
    assert path.read_bytes() == b"new"
    assert os.getxattr(path, name) == packed
    assert (path.stat().st_mode, path.stat().st_gid) == (before.st_mode, before.st_gid)


def test_the_files_of_a_large_set_do_not_list_the_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".t-7.x.abcdefgh.lod-partial").touch()
    listed = calls_of(monkeypatch, os, "listdir")
    names = [f"t-{number}.x" for number in range(20)]
    with OutputSet([str(tmp_path / name) for name in names]) as outputs:
        for output in outputs.files:
            with output:
                output.write(b"1")
    assert len(listed) < 5
    assert sorted(os.listdir(tmp_path)) == sorted(names)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_part_of_a_folder_that_cannot_be_written_is_a_target(folder: Path) -> None:
    """The command line then says that it cannot be written, as of a file."""
    output = FolderOutput(folder / "made", may_hold="part")
    part = output.part("part")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, part.fd)
    os.close(full)
    with pytest.raises(OSError, match="No space left") as raised:
        part.write(b"abc")
    output.abort()
    assert raised.value.filename2 == f"{folder / 'made'}/part"


def write_many(folder: Path) -> None:
    with FolderOutput(folder / "t", may_hold="a") as output:
        for number in range(40):
            with output.part(f"{number}/a") as part:
                part.write(b"new")


def test_every_file_of_a_folder_is_synced_before_it_appears(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    at_rename: set[int] = set()
    rename = os.rename

    def sync(fd: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.02)
        synced.add(os.fstat(fd).st_ino)

    def renamed(old: Path, new: Path) -> None:
        at_rename.update(synced)
        rename(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", renamed)
    write_many(folder)
    written = {path.stat().st_ino for path in (folder / "t").rglob("*")}
    assert len(written) == 80
    assert written <= at_rename


@pytest.mark.parametrize("failing", [2, 30, 79])
def test_a_file_that_cannot_be_synced_is_named_and_no_folder_appears(
    failing: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count()

    def sync(fd: int) -> None:
        if next(asked) == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", sync)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Input/output error") as error:
        write_many(folder)
    assert ".lod-partial" in str(error.value.filename)
    assert os.listdir(folder) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_writing_many_files_of_a_folder_holds_few_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: time.sleep(0.02))
    before, most = len(os.listdir("/proc/self/fd")), 0
    with FolderOutput(folder / "t", may_hold="a") as output:
        for number in range(60):
            with output.part(f"a{number}") as part:
                part.write(b"new")
            most = max(most, len(os.listdir("/proc/self/fd")) - before)
    assert most < 20
