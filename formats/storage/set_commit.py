"""Commit of a set: several files, or a folder, replace the old ones together."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lodcli.formats.storage.durable import fsync_folder
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.journal import AppearedError, Journal, finish, may_replace
from lodcli.formats.storage.partials import remove
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform import files

# A commit takes milliseconds, on a slow network file system perhaps a second.
_WAIT_SECONDS, _POLL_SECONDS = 20.0, 0.01


class UnfinishedError(LodError, OSError):
    """A set is committed, but not all of its files are renamed."""


def commit(
    journal: Journal, label: str, refuse: Callable[[], None], release: Callable[[], None]
) -> None:
    """Replace the old set by partial files, all or none.

    Waits while another writer renames files of this set.

    Args:
        journal: of partial files that are durable.
        label: the name of the set in messages.
        refuse: raises an error if the set may not be replaced; called while no other writer can
            interfere.
        release: called when the partial files belong to the journal, not to the caller.

    Raises:
        FileExistsError: a file appeared that may not be replaced; nothing has changed.
        UnfinishedError: a call failed after the commit. The next process that opens one of the
            files finds the new set, and finishes the renames.
        OSError: a call failed; nothing has changed.
    """
    fsync_folder(journal.folder)
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        late = time.monotonic() > until
        with shielded():
            fds = _new_journals([journal.path, *journal.signposts], seize=late)
            if fds is not None:
                try:
                    _commit(journal, fds, label, refuse, release)
                finally:
                    for fd in fds:
                        os.close(fd)
                return
        if late:
            raise OSError(errno.EBUSY, "another process is still replacing it", label)
        time.sleep(_POLL_SECONDS)


def _new_journals(paths: Sequence[Path], *, seize: bool) -> list[int] | None:
    """Return new empty journals, locked; None, without creating any, while a writer is active."""
    fds: list[int] = []
    try:
        for path in paths:
            fd = _new_journal(path, seize=seize)
            if fd is None:
                break
            fds.append(fd)
        else:
            return fds
    except BaseException:
        _drop(paths, fds)
        raise
    _drop(paths, fds)
    return None


def _drop(paths: Sequence[Path], fds: Sequence[int]) -> None:
    """Remove journals that are still empty."""
    for path, fd in zip(paths, fds, strict=False):
        with contextlib.suppress(OSError):  # an empty one has no effect
            os.unlink(path)
        os.close(fd)


def _new_journal(path: Path, *, seize: bool) -> int | None:
    """Return a new empty journal, locked; None while there is one of an active writer."""
    while True:
        try:
            fd = os.open(path, files.CREATE, 0o600)
        except FileExistsError:
            if not finish(path, seize=seize):
                return None
            continue
        try:
            # Before it is locked, others can take it for that of a killed writer, and remove it.
            if files.lock(fd) is not False and os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            os.unlink(path)
            raise
        os.close(fd)


def _commit(
    journal: Journal,
    fds: Sequence[int],
    label: str,
    refuse: Callable[[], None],
    release: Callable[[], None],
) -> None:
    """Commit with a journal and its signposts, which this process has locked; still empty."""
    try:
        for fd in fds:
            files.set_mode(fd, 0o644)  # every reader of the files must be able to read it
        refuse()
        _refuse_files_of_others(journal)
        for fd in fds[1:]:
            # Signposts have no effect until the journal is complete: that is the commit.
            files.write_all(fd, journal.encoded_signpost())
            files.fsync(fd)
    except BaseException:
        _remove_journals(journal)
        raise
    release()
    try:
        if len(fds) > 1:
            fsync_folder(journal.folder)
        files.write_all(fds[0], journal.encoded())
        files.fsync(fds[0])
        fsync_folder(journal.folder)
    except BaseException:
        _withdraw(journal)
        raise
    try:
        journal.apply()
    except AppearedError:
        _withdraw(journal)
        raise
    except OSError as error:
        raise UnfinishedError(
            f"{label}: is written, but one file could not be renamed ({error.strerror}); "
            "the next lod command that opens it completes the renaming"
        ) from error
    _remove_journals(journal)
    with contextlib.suppress(OSError):  # without partial files journals have no effect
        fsync_folder(journal.folder)


def _refuse_files_of_others(journal: Journal) -> None:
    """Raise PermissionError for a file that this user may not replace.

    Checked before the journal is written: a commit with such a file could never be finished.
    """
    for name in journal.names:
        path = journal.folder / name
        if os.path.lexists(path) and not may_replace(path):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)


def _remove_journals(journal: Journal) -> None:
    """Remove a journal without effect and its signposts; those that remain have no effect."""
    for path in (*journal.signposts, journal.path):
        with contextlib.suppress(OSError):
            os.unlink(path)


def _withdraw(journal: Journal) -> None:
    """Undo a commit before any rename, if possible."""
    with contextlib.suppress(OSError):
        for path in (journal.path, *journal.signposts):
            os.unlink(path)
        # A journal that a power cut brings back must find all of its files, or none.
        fsync_folder(journal.folder)
        for partial in journal.names.values():
            remove(journal.folder / partial)
