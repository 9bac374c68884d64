"""The journal of a set: whole or none, for its own files only, and many processes at once."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lodcli.formats.storage import folder_output as folders
from lodcli.formats.storage import inputs, journal, set_commit
from lodcli.formats.storage.folder_output import FolderOutput
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.journal import Journal
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.partials import shortened
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.platform import files
from tests.formats.cases.sets import (
    NEW,
    OLD,
    folder_in,
    old_folder,
    old_pair,
    pair_in,
    read_pair,
    write_folder,
    write_folder_by_journal,
    write_pair,
)
from tests.formats.cases.writing import as_another_user, partials_in

pytestmark = pytest.mark.usefixtures("no_waiting_for_disks")

# -- the journal ---------------------------------------------------------------------


def pending(folder: Path, *, replace: bool = True) -> Journal:
    """Make a committed set whose writer was killed before the first rename."""
    names = {name: f".{name}.abcd1234.lod-partial" for name in NEW}
    for name, partial in names.items():
        (folder / partial).write_bytes(NEW[name])
    made = Journal(folder, names, replace)
    made.path.write_bytes(made.encoded())
    return made


def test_a_torn_journal_is_none(folder: Path) -> None:
    old_pair(folder)
    made = pending(folder)
    whole = made.encoded()
    for torn in (
        *(whole[:size] for size in range(len(whole))),
        *(bytes(len(whole)) for _ in range(1)),
        *(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))),
    ):
        made.path.write_bytes(torn)
        assert Journal.read(made.path) is None
        assert read_pair(folder) == OLD
        assert not made.path.exists(), "what a killed writer left"
    write_pair(folder)


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"t.idx": "t.idx"},
        {"t.idx": ".t.idx.abcd1234.lod-partial.x"},
        {"t.idx": "../.t.idx.abcd1234.lod-partial"},
        {"../t.idx": ".t.idx.abcd1234.lod-partial"},
        {"/t.idx": ".t.idx.abcd1234.lod-partial"},
        {"other.idx": ".other.idx.abcd1234.lod-partial"},
        {"t.idx": ".t.bin.abcd1234.lod-partial"},
        {"t.idx": 1},
        [],
    ],
)
def test_a_journal_stays_with_the_files_of_its_own_set(names: Any, folder: Path) -> None:
    old_pair(folder)
    made = Journal(folder, {"t.idx": ""}, True)
    body = json.dumps({"version": 1, "names": names, "replace": True}).encode()
    made.path.write_bytes(body + b"\n%08x\n" % zlib.crc32(body))
    assert Journal.read(made.path) is None
    assert read_pair(folder) == OLD


def test_a_journal_of_a_newer_version_is_left_alone(folder: Path) -> None:
    old_pair(folder)
    made = pending(folder)
    whole, body = made.encoded(), made.encoded().partition(b"\n")[0]
    newer = body.replace(b'"version": 1', b'"version": 2')
    made.path.write_bytes(newer + b"\n%08x\n" % zlib.crc32(newer))
    before = sorted(os.listdir(folder))
    for work in (read_pair, write_pair):
        with pytest.raises(UnsupportedError, match=r"/\.t\.lod-commit: was written by a newer lod"):
            work(folder)
    assert sorted(os.listdir(folder)) == before
    made.path.write_bytes(whole)
    assert read_pair(folder) == NEW


def test_partial_files_of_a_committed_set_are_no_litter(folder: Path) -> None:
    old_pair(folder)
    made = pending(folder)
    for name in NEW:
        journal.remove_stale(folder / name)
    assert pair_in(folder).keys() == {*OLD, made.path.name, *made.names.values()}
    made.path.unlink()
    for name in NEW:
        journal.remove_stale(folder / name)
    assert pair_in(folder) == OLD


def test_a_writer_of_one_file_of_a_committed_set_finishes_it_first(folder: Path) -> None:
    old_pair(folder)
    pending(folder)
    with Output(folder / "t.bin", overwrite=True) as output:
        assert pair_in(folder).items() >= NEW.items()
        output.write(b"mine")
    assert pair_in(folder) == {**NEW, "t.bin": b"mine"}


def test_a_set_that_replaces_nothing_does_not_when_it_is_finished(folder: Path) -> None:
    pending(folder, replace=False)
    (folder / "t.idx").write_bytes(b"mine")
    assert read_pair(folder) == {"t.idx": b"mine"}
    assert "t.bin" not in pair_in(folder)
    journal.remove_stale(folder / "t.idx")
    journal.remove_stale(folder / "t.bin")
    assert pair_in(folder) == {"t.idx": b"mine"}


def test_files_that_were_put_back_by_hand_stay_together(folder: Path) -> None:
    """After a kill between the renames: somebody copies the old pair back, then reads it."""
    old_pair(folder)
    made = pending(folder)
    (folder / "t.idx").unlink()
    os.replace(folder / made.names["t.bin"], folder / "t.bin")
    old_pair(folder)
    assert read_pair(folder) == OLD
    write_pair(folder)


def test_a_set_whose_partial_index_was_deleted_is_no_more(folder: Path) -> None:
    old_pair(folder)
    made = pending(folder)
    (folder / made.names["t.idx"]).unlink()
    (folder / "t.idx").unlink()
    assert read_pair(folder) == {"t.bin": OLD["t.bin"]}
    assert not made.path.exists()
    write_pair(folder)


def test_who_may_not_write_reads_through_the_journal(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    old_pair(tmp_path)
    made = pending(tmp_path)
    for name in made.names.values():
        (tmp_path / name).chmod(0o644)
    made.path.chmod(0o644)
    before = sorted(os.listdir(tmp_path))

    def read() -> None:
        assert read_pair(tmp_path) == NEW

    as_another_user(tmp_path, read)
    assert sorted(os.listdir(tmp_path)) == before
    assert read_pair(tmp_path) == NEW
    assert pair_in(tmp_path) == NEW


def test_a_journal_of_another_user_replaces_only_what_that_user_could(folder: Path) -> None:
    """In a folder such as /tmp anyone may make files, but replace only their own."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make files of others")
    old_pair(folder)
    made = pending(folder)
    os.chown(folder, 1, 1)
    folder.chmod(0o1777)
    for name in (made.path.name, *made.names.values()):
        os.chown(folder / name, 2, 2)
    made.path.chmod(0o666)
    before = pair_in(folder)
    assert read_pair(folder) == OLD
    with pytest.raises(OSError, match=r"\.t\.lod-commit beside it is owned by a user who may not"):
        write_pair(folder)
    assert pair_in(folder) == before
    for name in OLD:
        os.chown(folder / name, 2, 2)
    assert read_pair(folder) == NEW
    folder.chmod(0o777)
    os.chown(folder / "t.idx", 0, 0)
    assert read_pair(folder) == NEW
    write_pair(folder)
    assert pair_in(folder) == NEW


@pytest.mark.parametrize("write", [write_pair, write_folder])
def test_files_of_another_user_in_a_folder_for_all_are_refused_before_the_commit(
    write: Callable[[Path], None], folder: Path
) -> None:
    """The commit could never be finished, and its files would stay."""
    old_pair(folder)
    old_folder(folder)
    before = sorted(os.listdir(folder))
    folder.chmod(0o1777)

    def refused() -> None:
        with pytest.raises(PermissionError):
            write(folder)

    as_another_user(folder, refused)
    assert sorted(os.listdir(folder)) == before
    assert read_pair(folder) == OLD


@pytest.mark.parametrize("char", ["a", "\u8a9e", "\udcff"])
def test_a_journal_of_as_many_files_as_can_be_is_read(char: str, folder: Path) -> None:
    size = len(os.fsencode(char))
    names = [f"{char * (245 // size)}{n:04}.npz" for n in range(10_000)]
    partial = [f".{shortened(name)}.abcd1234.lod-partial" for name in names]
    made = Journal(folder, dict(zip(names, partial, strict=True)), True)
    made.path.write_bytes(made.encoded())
    assert Journal.read(made.path) == made


def test_a_journal_that_may_not_be_read_is_named(folder: Path) -> None:
    old_pair(folder)
    made = pending(folder)

    def denied(path: Any, *args: Any, **options: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", denied)
        with pytest.raises(PermissionError) as caught:
            read_pair(folder)
    assert str(caught.value.filename) == str(made.path)
    assert read_pair(folder) == NEW


def test_a_live_writers_journal_is_waited_for_by_writers_and_not_by_readers(folder: Path) -> None:
    old_pair(folder)
    made = pending(folder)
    with made.path.open("rb+") as held:
        assert files.lock(held.fileno())
        assert read_pair(folder) == NEW
        assert made.path.exists()
        writer = threading.Thread(target=write_pair, args=(folder,))
        writer.start()
        time.sleep(0.1)
        assert made.path.exists()
    writer.join(30)
    assert not writer.is_alive()
    assert pair_in(folder) == NEW


def test_a_writer_does_not_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_commit, "_WAIT_SECONDS", 0.05)
    old_pair(folder)
    made = pending(folder)
    with made.path.open("rb+") as held:
        assert files.lock(held.fileno())
        with pytest.raises(OSError, match="another process is still replacing it") as caught:
            write_pair(folder)
    assert str(folder / "t.idx") in str(caught.value)
    write_pair(folder)


def test_without_locks_the_journal_of_a_killed_writer_is_taken_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_commit, "_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(files, "lock", lambda fd, shared=False: None)
    old_pair(folder)
    made = pending(folder)
    assert read_pair(folder) == NEW
    assert made.path.exists(), "its writer may be at work"
    write_pair(folder)
    assert pair_in(folder) == NEW


# -- readers and writers at once -----------------------------------------------------


def test_many_writers_of_a_pair_at_once_leave_one_whole(folder: Path) -> None:
    wrong: list[BaseException] = []

    def write(letter: bytes) -> None:
        try:
            for _ in range(20):
                with Output(folder / "t.idx", overwrite=True) as output:
                    output.part("t.bin").write(letter * 1000)
                    output.write(letter)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with contextlib.suppress(FileNotFoundError), Input(folder / "t.idx") as source:
            beside = source.beside("t.bin").file.read()
            assert beside == 1000 * source.file.read()
    for thread in threads:
        thread.join()
    assert not wrong
    left = pair_in(folder)
    assert left["t.bin"] == 1000 * left["t.idx"]


@pytest.mark.parametrize("write", [write_folder, write_folder_by_journal])
def test_an_open_folder_stays_whole_while_it_is_replaced(
    write: Callable[..., None], tmp_path: Path
) -> None:
    old_folder(tmp_path)
    with Input(tmp_path / "t") as source:
        for _ in range(2):
            write(tmp_path)
        assert {name: source.beside(name).file.read() for name in OLD} == OLD
        assert source.has_beside("t.bin")
        assert source.listed.size_bytes() == sum(map(len, OLD.values()))
    assert folder_in(tmp_path) == NEW
    write(tmp_path)
    assert not partials_in(tmp_path)


@pytest.mark.parametrize("write", [write_folder, write_folder_by_journal])
def test_a_folder_that_is_replaced_while_it_is_opened_is_opened_again(
    write: Callable[..., None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_folder(folder)
    lock = files.lock

    def meanwhile(fd: int, *, shared: bool = False) -> bool | None:
        monkeypatch.setattr(files, "lock", lock)
        write(folder)  # and removes the old folder, which is not locked yet
        return lock(fd, shared=shared)

    monkeypatch.setattr(files, "lock", meanwhile)
    with Input(folder / "t") as source:
        assert {name: source.beside(name).file.read() for name in NEW} == NEW


def test_a_folder_that_another_writer_replaces_while_its_names_are_checked_may_be_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_folder(folder)

    def meanwhile(expression: str, name: str) -> object:
        monkeypatch.setattr(folders, "re", re)
        with FolderOutput(folder / "t", overwrite=True, may_hold=expression) as other:
            other.part("other").write(b"of other names")
        return re.fullmatch(expression, name)

    monkeypatch.setattr(folders, "re", SimpleNamespace(fullmatch=meanwhile))
    with FolderOutput(folder / "t", overwrite=True, may_hold="other|t.*") as output:
        output.part("t.idx").write(b"new")
    assert folder_in(folder) == {"t.idx": b"new"}


def test_writers_wait_for_one_that_replaces_a_folder_without_an_exchange(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    old_folder(folder)
    rename = os.rename
    other = threading.Thread(target=write_folder, args=(folder,))

    def meanwhile(old: Path, new: Path) -> None:
        rename(old, new)
        if Path(old) == folder / "t":  # it is renamed, so there is none now
            monkeypatch.setattr(os, "rename", rename)
            other.start()
            other.join(0.3)

    monkeypatch.setattr(os, "rename", meanwhile)
    with FolderOutput(folder / "t", overwrite=True, may_hold="t.*") as output:
        output.part("t.idx").write(b"first")
    other.join()
    assert folder_in(folder) == NEW


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_gets_its_name_while_it_is_opened_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    partial = folder / ".t.abcd1234.lod-partial"
    partial.mkdir()
    (partial / "t.idx").write_bytes(b"first")
    made = Journal(folder, {"t": partial.name}, True)
    made.path.write_bytes(made.encoded())
    lock, opening, wanted = files.lock, inputs._Ahead, {"t.idx": b"first"}

    def finished() -> None:
        monkeypatch.setattr(files, "lock", lock)
        monkeypatch.setattr(inputs, "_Ahead", opening)
        made.apply()
        made.path.unlink()

    def locking(fd: int, *, shared: bool = False) -> bool | None:
        if shared and replaced:
            finished()
            write_folder(folder)
            wanted.update(NEW)
        return lock(fd, shared=shared)

    def looking(place: Path, mode: str) -> None:
        if not replaced:
            finished()
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)

    with made.path.open("rb+") as held:
        assert lock(held.fileno())
        monkeypatch.setattr(files, "lock", locking)
        monkeypatch.setattr(inputs, "_Ahead", looking)
        with Input(folder / "t") as source:
            assert {name: source.beside(name).file.read() for name in wanted} == wanted


def test_writers_of_a_folder_at_once_leave_each_other_alone(folder: Path) -> None:
    with FolderOutput(folder / "t", overwrite=True, may_hold="a") as first:
        first.part("a").write(b"first")
        with FolderOutput(folder / "t", overwrite=True, may_hold="a") as second:
            assert len(partials_in(folder)) == 2
            second.part("a").write(b"second")
        assert folder_in(folder) == {"a": b"second"}
    assert folder_in(folder) == {"a": b"first"}


def test_a_writer_that_begins_may_remove_the_folder_of_another_that_is_not_locked_yet(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_folder = files.open_folder

    def meanwhile(path: str) -> int:
        monkeypatch.setattr(files, "open_folder", open_folder)
        write_folder(folder)
        return open_folder(path)

    monkeypatch.setattr(files, "open_folder", meanwhile)
    with FolderOutput(folder / "t", overwrite=True, may_hold="t.*") as output:
        output.part("t.idx").write(b"second")
    assert folder_in(folder) == {"t.idx": b"second"}


def test_a_folder_that_is_replaced_before_its_writer_is_done_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_folder(folder)

    def meanwhile(parent: Path) -> None:
        monkeypatch.setattr(folders, "fsync_folder", lambda parent: None)
        write_folder(folder)

    monkeypatch.setattr(folders, "fsync_folder", meanwhile)
    write_folder(folder)
    assert folder_in(folder) == NEW


@pytest.mark.parametrize("replace", [True, False])
def test_the_last_file_is_renamed_when_the_names_of_all_others_are_durable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    names = {f"t.{n}": f".t.{n}.abcd1234.lod-partial" for n in range(20)}
    for partial in names.values():
        (folder / partial).write_bytes(b"new")
    done: list[str] = []
    rename = Journal._rename

    def renamed(self: Journal, partial: Path, path: Path) -> None:
        done.append(path.name)
        rename(self, partial, path)

    monkeypatch.setattr(Journal, "_rename", renamed)
    monkeypatch.setattr(journal, "fsync_folder", lambda parent: done.append("sync"))
    made = Journal(folder, names, replace)
    made.apply()
    # A journal is complete if its last file is renamed, and one sync is enough for many renames.
    *others, last = names
    assert done == [*others, "sync", last, "sync"]
    assert not made.waiting()
    made.apply()
    assert len(done) == 22


def test_a_set_is_found_by_any_path_that_leads_to_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("t", "t/", "./t", "t/../t", "link", "t/.", "."):
        old_folder(folder)
        partial = folder / ".t.abcd1234.lod-partial"
        partial.mkdir()
        for name, content in NEW.items():
            (partial / name).write_bytes(content)
        made = Journal(folder, {"t": partial.name}, True)
        made.path.write_bytes(made.encoded())
        (folder / "link").symlink_to("t")
        monkeypatch.chdir(folder / "t" if path == "." else folder)
        with Input(path) as source:
            assert source.beside("t.idx").file.read() == NEW["t.idx"], path
        monkeypatch.chdir(folder)
        (folder / "link").unlink()
        shutil.rmtree(folder / "t")


def test_the_root_is_a_folder_as_any(folder: Path) -> None:
    with Input("/") as source:
        assert source.is_folder
