"""Outputs: the old file or the new one, whole, whatever call of the system fails."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.storage import outputs, partials
from lodcli.formats.storage.outputs import Output, TargetExistsError
from lodcli.kernels.platform import files
from tests.formats.broken.failing import error_of, failing
from tests.formats.cases.writing import (
    OLD,
    WRITERS,
    as_another_user,
    partials_in,
    write,
    write_streamed,
)

COMPRESSIONS = pytest.mark.parametrize("compression", [None, "deflate"])


@WRITERS
@COMPRESSIONS
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("overwrite", [True, False])
def test_whatever_call_fails_the_old_file_or_the_new_one_is_there(
    writer: Callable[..., None],
    compression: str | None,
    number: int,
    overwrite: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "_renameat2", lambda *args: False)  # a link, and an unlink
    path, new = folder / "t.lod.h5", folder / "new.lod.h5"
    writer(new, compression=compression)
    failed = set()
    for fail_at in range(1, 1000):
        path.unlink(missing_ok=True)
        if overwrite:
            path.write_bytes(OLD)
        with failing(fail_at, number) as calls:
            error = error_of(lambda: writer(path, overwrite=overwrite, compression=compression))
        if error is None:
            # What a file system may lack is done without: hard links, files without a name.
            assert calls.failed in ("", "link", "open")
        else:
            assert error.errno == number
            assert str(path) in (error.filename, error.filename2)
            assert str(path) in str(error)
        assert not partials_in(folder), (fail_at, calls.failed)
        if path.exists() and path.read_bytes() != OLD:
            assert path.read_bytes() == new.read_bytes()
            # Whole, although an error was reported: only the folder's entry may be lost.
            assert calls.failed in ("", "link", "open", "fsync")
        else:
            assert path.exists() == overwrite
            assert calls.failed
        if not calls.failed:
            break
        failed.add(calls.failed)
    expected = {"pwrite", "fsync", "fchmod", "replace" if overwrite else "link"}
    assert expected <= failed


def _no_descriptor_left(before: int) -> None:
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_failure_leaves_no_descriptor_open(folder: Path) -> None:
    path = folder / "t.lod.h5"
    with suppress(OSError), failing(3, errno.EIO):
        write(path)
    before = len(os.listdir("/proc/self/fd"))
    for fail_at in range(1, 30):
        with suppress(OSError), failing(fail_at, errno.EIO):
            write(path)
        with suppress(OSError), failing(fail_at, errno.EIO):
            write_streamed(path)
    _no_descriptor_left(before)


# -- the target --------------------------------------------------------------------


def test_an_existing_target_is_refused(folder: Path) -> None:
    path = folder / "t.lod.h5"
    path.write_bytes(OLD)
    with pytest.raises(TargetExistsError, match=f"^{path}: exists already; use overwrite=True"):
        write(path, overwrite=False)
    assert path.read_bytes() == OLD


def test_a_name_of_another_partial_file_is_not_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = partials.partial_prefix(folder / "new.bin") + "00" * 4 + partials.SUFFIX
    (folder / taken).write_bytes(b"of another writer")
    drawn = iter([b"\0" * 4, b"\1" * 4])
    monkeypatch.setattr(os, "urandom", lambda size: next(drawn))
    with Output(folder / "new.bin") as output:
        output.write(b"new")
        assert stat.S_IMODE(os.fstat(output.fd).st_mode) & 0o077 == 0
        has_locks = files.lock(output.fd) is not None
    assert (folder / "new.bin").read_bytes() == b"new"
    # Without locks, it is not known to be stale.
    assert (folder / taken).exists() != has_locks
    (folder / taken).unlink(missing_ok=True)


def test_a_target_that_appears_meanwhile_is_refused(folder: Path) -> None:
    path = folder / "t.lod.h5"
    output = Output(path)
    output.write(b"new")
    path.write_bytes(OLD)
    with pytest.raises(TargetExistsError, match="was created while it was being written"), output:
        pass
    assert path.read_bytes() == OLD


@pytest.mark.parametrize("links", [True, False])
def test_without_renameat2_a_target_that_appears_meanwhile_is_refused(
    links: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(files, "_renameat2", lambda *args: False)
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    test_a_target_that_appears_meanwhile_is_refused(folder)


def test_a_target_that_appears_meanwhile_is_replaced_if_it_may_be(folder: Path) -> None:
    path = folder / "t"
    with Output(path, overwrite=True) as output:
        output.write(b"new")
        path.write_bytes(OLD)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_hard_links_is_written_to(
    number: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "_renameat2", lambda *args: False)
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(fcntl, "flock", refuse if number == errno.ENOTSUP else fcntl.flock)
    with Output(folder / "t") as output:
        output.write(b"new")
    assert (folder / "t").read_bytes() == b"new"


def test_a_link_is_followed_and_stays(folder: Path) -> None:
    (folder / "deep").mkdir()
    target, link = folder / "deep" / "t", folder / "link"
    link.symlink_to(target)
    for overwrite in (False, True):  # it names nothing at first
        with Output(link, overwrite=overwrite) as output:
            output.write(b"new")
            assert len(partials_in(folder / "deep")) == 1
        assert target.read_bytes() == b"new"
        assert link.is_symlink()
    assert not partials_in(folder / "deep")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
@pytest.mark.parametrize("overwrite", [True, False])
def test_an_output_that_is_no_regular_file_is_left_unchanged(
    make: Callable[[Path], None], overwrite: bool, folder: Path
) -> None:
    path = folder / "t"
    make(path)
    kind = path.stat().st_mode
    with pytest.raises(OSError, match=r"is a folder|is a pipe and is left unchanged") as caught:
        Output(path, overwrite=overwrite)
    assert str(path) in str(caught.value)
    assert path.stat().st_mode == kind


def test_an_open_file_that_was_deleted_is_no_target(folder: Path) -> None:
    (folder / "t").write_bytes(OLD)
    with (folder / "t").open("rb") as held:
        (folder / "t").unlink()
        path = f"/dev/fd/{held.fileno()}"
        if not os.path.exists(path):
            pytest.skip("needs /dev/fd")
        with pytest.raises(TargetExistsError, match=f"^{path}: is an open file that was deleted"):
            Output(path, overwrite=True)
    assert os.listdir(folder) == []


def test_a_folder_that_may_be_written_to_but_not_read_is_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o333)

    def write_twice() -> None:
        for _ in range(2):
            with Output(place / "t", overwrite=True) as output:
                output.write(b"new")

    as_another_user(tmp_path, write_twice)
    assert os.listdir(place) == ["t"]
    assert (place / "t").read_bytes() == b"new"


def test_a_missing_folder_is_an_error_that_names_the_target(folder: Path) -> None:
    path = folder / "nowhere" / "t.lod.h5"
    with pytest.raises(FileNotFoundError) as caught:
        write(path)
    assert str(caught.value) == (
        f"{path}: cannot be written: its folder does not exist; create {path.parent} first"
    )


def test_a_failed_rename_names_the_target_as_it_was_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(IsADirectoryError) as caught, Output("t", overwrite=True):
        Path("t").mkdir()
    assert caught.value.filename2 == "t"


def test_a_full_disk_names_the_target_and_not_a_temporary_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "lod-abcdefgh")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(OSError, match="No space") as raised, Output(folder / "t") as output:
        output.spool()
    assert raised.value.filename2 == str(folder / "t")


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o444, 0o200])
def test_the_permissions_of_the_old_file_are_kept(mode: int, folder: Path) -> None:
    path = folder / "t.lod.h5"
    path.write_bytes(OLD)
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_the_umask_is_respected(mask: int, folder: Path) -> None:
    before = os.umask(mask)
    try:
        with Output(folder / "t") as output:
            partial = partials_in(folder)[0]
            assert stat.S_IMODE(partial.stat().st_mode) == 0o600  # nobody else's before it is whole
            output.write(b"new")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "t").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("name", ["a" * 255, "ß" * 127, "語" * 85, "a[b]*?.x", "-x", "\udcff.h5"])
def test_any_name_a_file_can_have(name: str, folder: Path) -> None:
    for _ in range(2):
        with Output(folder / name, overwrite=True) as output:
            output.write(b"new")
    assert (folder / name).read_bytes() == b"new"
    assert len(os.listdir(folder)) == 1


def test_an_empty_view_is_written(folder: Path) -> None:
    with Output(folder / "t") as output:
        output.write(np.zeros((0, 3)).data)
        output.write(np.arange(3, dtype=np.uint16).data)
        output.write(b"")
        assert output.size_bytes == 6
    assert (folder / "t").stat().st_size == 6


@WRITERS
def test_the_disk_begins_to_write_a_large_file_before_its_end(
    writer: Callable[..., None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    monkeypatch.setattr(outputs, "UNSYNCED_BYTES", 30_000)
    monkeypatch.setattr(files, "start_sync", lambda fd: begun.append(os.fstat(fd).st_size))
    writer(folder / "t.lod.h5")
    # Once the rows are written, of which there are 72 kB, and before the rest of the file is.
    assert begun
    assert all(72_000 <= size < (folder / "t.lod.h5").stat().st_size for size in begun)


def test_standard_output_is_not_synchronized_with_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "start_sync", lambda fd: pytest.fail("a nameless file"))
    with Output("-", seekable=True) as output:
        output.wrote(1 << 30)


def test_starting_a_sync_of_what_cannot_be_synced_does_nothing() -> None:
    reading, writing = os.pipe()
    files.start_sync(writing)
    os.close(reading)
    os.close(writing)


def test_the_destructor_of_a_written_output_has_no_work_that_could_swallow_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Output(tmp_path / "t")
    with output:
        pass
    aborted: list[Output] = []
    monkeypatch.setattr(Output, "abort", aborted.append)
    del output
    assert not aborted
