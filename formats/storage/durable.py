"""Durable renames: folder syncs, open folders, and renames that never replace."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import NamedTuple

from lodcli.kernels.platform import files

# How often a folder is opened again while other processes replace it.
_TRIES = 100


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable.

    If the system cannot sync folders, or this one cannot be read, the system decides when the
    names become durable: a power failure may bring an old file back.
    """
    if not files.FOLDERS_OPEN:
        return
    try:
        fd = files.open_folder(folder)
    except PermissionError:
        return  # a folder may be writable but not readable
    try:
        fsync_open_folder(fd)
    finally:
        os.close(fd)


def fsync_open_folder(fd: int) -> None:
    """Make the names in an open folder durable; see `fsync_folder`."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in files.NOT_HERE:
            raise


def rename_new(old: Path, new: Path) -> None:
    """Rename a file, but never over another one.

    If the system has no such call, a power failure may leave both names; if it has no hard links
    either, a file that appears at the last moment is replaced.

    Raises:
        FileExistsError: there is another file of the new name.
    """
    try:
        if files.rename_unless_there(old, new):
            return
        os.link(old, new)
    except FileExistsError:
        if not os.path.samefile(old, new):  # the same after a kill between link and unlink
            raise
    except OSError:
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
        os.replace(old, new)
        return
    fsync_folder(new.parent)  # before the old name is removed: the file must have a durable name
    os.unlink(old)


class Entries(NamedTuple):
    """The sorted names in a folder: of files, links to them included, of folders, of all else."""

    files: list[str]
    folders: list[str]
    others: list[str]


class OpenFolder:
    """An open folder: it stays the same folder if another one is renamed to its path.

    A writer that replaces it does not remove it while it is open. If the system cannot open files
    relative to an open folder, they are opened by their path: a reader of a folder that is being
    replaced may then get an error.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        by_folder = {os.open, os.stat} <= os.supports_dir_fd and os.scandir in os.supports_fd
        if not (files.FOLDERS_OPEN and by_folder):
            return
        for _ in range(_TRIES):
            self.close()
            self._fd = files.open_folder(path)
            locked = None
            with contextlib.suppress(OSError):
                locked = files.lock(self._fd, shared=True)
            # Before the lock, a writer may have replaced it and removed its files.
            is_kept = locked is not False and os.fstat(self._fd).st_nlink > 0
            if is_kept and not self.was_replaced():
                break

    def open(self, name: str) -> int:
        """Return a descriptor to read one of its files."""
        return os.open(self._place(name), files.READ, dir_fd=self._fd)

    def stat(self, name: str) -> os.stat_result:
        """Return `os.stat` of one of its files, following links."""
        return os.stat(self._place(name), dir_fd=self._fd)

    def _place(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Its open descriptors."""
        return () if self._fd is None else (self._fd,)

    def was_replaced(self) -> bool:
        """Return whether its path leads to another folder now."""
        try:
            return self._fd is not None and not os.path.samestat(
                os.fstat(self._fd), os.stat(self._path)
            )
        except OSError:
            return False

    def size_bytes(self) -> int:
        """Return the size of all its files, including those in folders below."""
        waiting, total = [""], 0
        while waiting:
            prefix = waiting.pop()
            found = self.entries(prefix)
            total += sum(self.stat(prefix + name).st_size for name in found.files)
            waiting += [f"{prefix}{name}/" for name in found.folders]
        return total

    def entries(self, prefix: str = "") -> Entries:
        """Return the names in it, or in a folder below.

        Args:
            prefix: of the folder below, with a slash at its end.
        """
        path = os.path.join(self._path, prefix)
        place: int | str = path
        found = Entries([], [], [])
        try:
            if self._fd is not None:
                place = files.open_folder(prefix or ".", within=self._fd)
            with os.scandir(place) as entries:
                for entry in entries:
                    folder = entry.is_dir(follow_symlinks=False)
                    kind = found.files if entry.is_file() else found.others
                    (found.folders if folder else kind).append(entry.name)
        except OSError as error:
            error.filename = path  # not one within the folder, or the number of a descriptor
            raise
        finally:
            if isinstance(place, int):
                os.close(place)
        for names in found:
            names.sort()
        return found

    def close(self) -> None:
        """Close the folder. Further calls do nothing."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
