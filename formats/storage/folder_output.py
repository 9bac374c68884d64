"""FolderOutput: writes a folder atomically, as `Output` does a file."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lodcli.formats.storage.durable import OpenFolder, fsync_folder, fsync_open_folder
from lodcli.formats.storage.inputs import Input, absolute
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.journal import opened, remove_unused
from lodcli.formats.storage.outputs import Output, TargetExistsError
from lodcli.formats.storage.partials import SUFFIX, partial_prefix
from lodcli.kernels.options import option
from lodcli.kernels.platform import files
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.platform.pools import thread_pool

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

# Files synced before threads sync them, and how many threads do. Disks write what several threads
# wait for together: 8 sync thousands of small files in a fifth of the time of one.
_FEW, _THREADS = 4, 8


class FolderOutput(Output):
    """A folder being written: `part` creates its files, which appear together.

    They are written into a temporary folder beside the target, which is renamed to the target
    at the commit. With `overwrite` the two folders are exchanged atomically. The old one is then
    removed, or by its last reader if it is being read. If the system cannot exchange
    folders, a journal records which of them is valid.

    Args:
        target: a path, not "-".
        overwrite: whether an existing folder may be replaced, if its files match `may_hold`.
        may_hold: a regular expression of all the names that such a folder may hold, with slashes
            for files in folders below. A folder that holds anything else is not replaced: it may
            be a home folder.

    Raises:
        TargetExistsError: see Output; also for a folder that holds something else.
        OSError: the folder above cannot be written to.
    """

    _new_mode = 0o777

    def __init__(self, target: PathLike, *, overwrite: bool = False, may_hold: str) -> None:
        self._may_hold = may_hold
        self._below: dict[Path, None] = {}
        self._open_parts = set[_Inside]()
        self._syncs = _Syncs()
        super().__init__(target, overwrite=overwrite)

    def part(self, name: str) -> Output:
        """Return a file of the folder to be written. Leaving its `with` block closes it.

        Args:
            name: of the file; with slashes, it is in folders below.
        """
        assert self._partial is not None
        for folder in reversed((self._partial / name).parents):
            inside = folder != self._partial and folder.is_relative_to(self._partial)
            if inside and folder not in self._below:
                with self.naming():
                    folder.mkdir()
                self._below[folder] = None
        part = _Inside(self, self._partial / name, f"{self.label}/{name}", self._file_mode)
        self._open_parts.add(part)
        return part

    def close_part(self, part: _Inside, fd: int, *, sync: bool) -> None:
        """Sync the written file and close it, at the latest when the folder is committed."""
        self._open_parts.discard(part)
        if sync:
            self._syncs.add(part.sync, fd)
        else:
            os.close(fd)

    @cached_property
    def _file_mode(self) -> int:
        """Permissions of its files; to read the umask of each takes as long as to make it."""
        assert self._partial is not None
        return files.new_mode(Output._new_mode, self._partial)

    def rename(self, part: str, name: str) -> None:
        """Rename a part that was written."""
        assert self._partial is not None
        with self.naming():
            os.rename(self._partial / part, self._partial / name)

    def _make_partial(self, path: Path) -> tuple[int, str]:
        import tempfile  # slow to import

        fd = -1
        while fd < 0:
            partial = tempfile.mkdtemp(prefix=partial_prefix(path), suffix=SUFFIX, dir=path.parent)
            # Not locked yet: another writer may take it for one of a killed writer and remove it.
            with contextlib.suppress(FileNotFoundError):
                try:
                    fd = files.open_folder(partial)
                except OSError:
                    os.rmdir(partial)
                    raise
        with contextlib.suppress(FileNotFoundError):
            files.take_group(fd, os.stat(path))  # before there are files in it that inherit it
        return fd, partial

    def _lock(self) -> bool | None:
        # A shared lock, like that of readers; removing a folder needs an exclusive one.
        return files.lock(self.fd, shared=True)

    def _settle(self) -> None:
        for part in list(self._open_parts):
            part.commit()
        for folder in reversed(self._below):
            with self.naming():
                fd = files.open_folder(folder)
            try:
                self._permit(fd)
            except BaseException:
                os.close(fd)
                raise
            self._syncs.add(fsync_open_folder, fd)
        self._syncs.finish()
        super()._settle()

    def abort(self) -> None:
        with shielded():
            self._syncs.abandon()
            for part in list(self._open_parts):
                part.abort()
            super().abort()

    def _refuse_existing(self) -> None:
        refuse_existing_folder(self.label, overwrite=self.overwrite, may_hold=self._may_hold)

    _refuse_appeared = _refuse_existing

    def _appear(self) -> None:
        assert self.path is not None
        assert self._partial is not None
        self._refuse_existing()  # again: the target may have changed meanwhile
        if (self._is_there() or not self._rename()) and not self._exchange():
            self._commit_set()

    def _is_there(self) -> bool:
        """Return whether there is an old folder, even if another writer is replacing it."""
        assert self.path is not None
        try:
            opened(self.path, os.stat)
        except FileNotFoundError:
            return False
        return True

    def _rename(self) -> bool:
        """Rename to the target; return False if a folder appeared there that may be replaced."""
        assert self.path is not None
        assert self._partial is not None
        with shielded():
            try:
                os.rename(self._partial, self.path)
            except OSError as error:
                self._refuse_existing()
                if self.overwrite and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            self._partial = None
        fsync_folder(self.path.parent)
        return True

    def _exchange(self) -> bool:
        """Exchange with the old folder and remove it; return False if the system cannot."""
        assert self.path is not None
        assert self._partial is not None
        with shielded():
            # Locked as by a reader: the old folder is renamed to a partial one, and another
            # writer that begins now must not take it for that of a killed writer and remove it.
            try:
                held = OpenFolder(self.path)
            except FileNotFoundError:
                return False  # another writer without this call is replacing it
            with contextlib.closing(held):
                if not files.exchange(self._partial, self.path):
                    return False
                old, self._partial = self._partial, None
                try:
                    # Files may have been added since. Not if another writer has just put it there.
                    if _is_at(held, old):
                        refuse_strangers(held, self._may_hold, self.label)
                except BaseException:
                    files.exchange(old, self.path)
                    self._partial = old
                    raise
            files.unlock(self.fd)
            fsync_folder(self.path.parent)
            with contextlib.suppress(OSError):  # the next writer removes the rest
                remove_unused(old, self.path, ours=True)
        return True


def _is_at(held: OpenFolder, path: Path) -> bool:
    try:
        return os.path.samestat(held.stat("."), os.stat(path))
    except FileNotFoundError:
        return False


class _Inside(Output):
    """A file of a folder being written."""

    def __init__(self, folder: FolderOutput, path: Path, label: str, mode: int) -> None:
        self._folder = folder
        self._mode = mode
        self._begin(label, path, overwrite=False)
        with self.naming(), shielded():
            self.fd = os.open(path, files.CREATE, 0o600)

    def _permit(self, fd: int) -> None:
        files.set_mode(fd, self._mode)

    def sync(self, fd: int) -> None:
        """Make the content of the file durable."""
        with self.naming():
            files.fsync(fd)

    def commit(self) -> None:
        if self.fd >= 0:
            with self.naming():
                self._permit(self.fd)
            self._close(sync=True)

    def _close(self, *, sync: bool = False) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            self._folder.close_part(self, fd, sync=sync)


class _Syncs:
    """Syncs of files and folders: of the first at once, of others in threads."""

    def __init__(self) -> None:
        self._done = 0
        self._pool: Executor | None = None
        self._waiting: deque[Future[None]] = deque()

    def add(self, sync: Callable[[int], None], fd: int) -> None:
        """Sync a file or folder with a function, and close its descriptor.

        Raises:
            OSError: this or an earlier one cannot be synced.
        """
        self._done += 1
        try:
            if len(self._waiting) >= _THREADS:
                self._waiting.popleft().result()
            if self._done > _FEW and self._pool is None:
                self._pool = thread_pool(_THREADS, "lod-sync")
        except BaseException:
            os.close(fd)
            raise
        if self._pool is None:
            _synced(sync, fd)
        else:
            self._waiting.append(self._pool.submit(_synced, sync, fd))

    def finish(self) -> None:
        """Wait for all syncs; raises OSError if one failed."""
        while self._waiting:
            self._waiting.popleft().result()
        self.abandon()

    def abandon(self) -> None:
        """Wait for all syncs, and ignore their errors."""
        pool, self._pool = self._pool, None
        self._waiting.clear()
        if pool is not None:
            pool.shutdown()


def _synced(sync: Callable[[int], None], fd: int) -> None:
    try:
        sync(fd)
    finally:
        os.close(fd)


def refuse_existing_folder(target: PathLike, *, overwrite: bool, may_hold: str) -> None:
    """Raise TargetExistsError if something is there that may not be replaced, links followed."""
    label = os.fspath(target)
    try:
        mode = opened(Path(label), os.stat).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise TargetExistsError(f"{label}: is not a folder and is left unchanged")
    if not overwrite:
        raise TargetExistsError(
            f"{label}: exists already; use {option('force', True)} to replace it"
        )
    # Open, so that another writer cannot replace and empty it meanwhile.
    with contextlib.suppress(FileNotFoundError), Input(absolute(label)) as held:
        refuse_strangers(held.listed, may_hold, label)


def refuse_strangers(folder: OpenFolder, may_hold: str, label: str) -> None:
    """Raise TargetExistsError if a folder holds anything that `may_hold` does not match."""
    for name in _strangers(folder, may_hold):
        raise TargetExistsError(
            f"{label}: holds {name!r}, which is not part of the new output; "
            f"{option('force', True)} does not replace such a folder"
        )


def _strangers(folder: OpenFolder, may_hold: str, prefix: str = "") -> Iterator[str]:
    """Yield the names in a folder, and below it, that are not of files that `may_hold` matches."""
    found = folder.entries(prefix)
    if prefix and not any(found):
        yield prefix.removesuffix("/")
    for name in sorted(name for names in found for name in names):
        if name in found.folders:
            yield from _strangers(folder, may_hold, f"{prefix}{name}/")
        elif name in found.others or not re.fullmatch(may_hold, prefix + name):
            yield prefix + name
