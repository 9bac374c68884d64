"""Commit of a set: several files, or a folder, replace the old ones as one."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from lodcli.formats.storage.durable import fsync_folder
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.journal import AppearedError, Journal, finish
from lodcli.formats.storage.partials import remove
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform import files

# A commit takes milliseconds, on a slow network file system perhaps a second.
_WAIT_SECONDS, _POLL_SECONDS = 20.0, 0.01


class UnfinishedError(LodError, OSError):
    """A set is committed, but not all of its files have their names."""


def commit(
    journal: Journal, label: str, refuse: Callable[[], None], release: Callable[[], None]
) -> None:
    """Make partial files take the place of the old set, all or none.

    Waits while another writer renames files of this set.

    Args:
        journal: of partial files that are durable.
        label: what messages call the set.
        refuse: raises what keeps them from it; called once no other writer can interfere.
        release: called when the partial files are no longer the caller's to remove.

    Raises:
        FileExistsError: a file appeared that may not be replaced; nothing has changed.
        UnfinishedError: a call failed after the commit. Whoever opens one of the files next
            finds the new set, and finishes the renames.
        OSError: a call failed; nothing has changed.
    """
    fsync_folder(journal.folder)
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        late = time.monotonic() > until
        with shielded():
            fd = _new_journal(journal.path, seize=late)
            if fd is not None:
                try:
                    _commit(journal, fd, label, refuse, release)
                finally:
                    os.close(fd)
                return
        if late:
            raise OSError(errno.EBUSY, "another process is still replacing it", label)
        time.sleep(_POLL_SECONDS)


def _new_journal(path: Path, *, seize: bool) -> int | None:
    """Return a new empty journal, locked; None where there is one, of a writer at work."""
    while True:
        try:
            fd = os.open(path, files.CREATE, 0o600)
        except FileExistsError:
            if not finish(path, seize=seize):
                return None
            continue
        try:
            # Before we lock it, others can take it for that of a killed writer, and remove it.
            if files.lock(fd) is not False and os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            os.unlink(path)
            raise
        os.close(fd)


def _commit(
    journal: Journal,
    fd: int,
    label: str,
    refuse: Callable[[], None],
    release: Callable[[], None],
) -> None:
    """Commit with a journal that is locked by us and still empty."""
    try:
        files.set_mode(fd, 0o644)  # whoever can read the files must be able to read it
        refuse()
    except BaseException:
        with contextlib.suppress(OSError):  # an empty one says nothing
            os.unlink(journal.path)
        raise
    release()
    try:
        _write(fd, journal.encoded())
        files.fsync(fd)
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
            "the next lod command that opens it finishes that"
        ) from error
    with contextlib.suppress(OSError):  # without partial files it says nothing
        os.unlink(journal.path)
        fsync_folder(journal.folder)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while len(view):
        view = view[os.write(fd, view) :]


def _withdraw(journal: Journal) -> None:
    """Undo a commit before any rename, if possible."""
    with contextlib.suppress(OSError):
        os.unlink(journal.path)
        # A journal that a power cut brings back must find all of its files, or none.
        fsync_folder(journal.folder)
        for partial in journal.names.values():
            remove(journal.folder / partial)
