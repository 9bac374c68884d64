"""Journal for replacing several files, or a folder, as one; recovery after killed writers.

No system renames several files at once. So before the renames of a set, a journal is written
beside it, `.STEM.lod-commit`: the target of each partial file. Once the journal is complete, the
new set is valid. A process that opens one of its files reads the partial file if that has not been
renamed yet, and finishes the renames of a killed writer if it has the permission.
Without a complete journal the old set is valid. See docs/decisions/0026-sets-of-files.md.

A reader looks for the journal by the stem of the file it opens. Files of a set with other stems
have signposts there, which only name the journal: docs/decisions/0057-split-files.md.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lodcli.formats.storage.durable import fsync_folder, rename_new
from lodcli.formats.storage.partials import (
    SUFFIX,
    are_removed_together,
    exists,
    is_partial_of,
    partial_prefix,
    partials_in,
    remove,
    shortened,
)
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.platform import files

VERSION = 1
# Enough for 10,000 files of `lod split` with names of any characters.
_MOST_BYTES = 1 << 25
# Attempts to open a file that is being renamed.
_TRIES = 100

T = TypeVar("T")


class AppearedError(FileExistsError):
    """A file exists at the path of a file of a set that may not replace files."""


def stem(name: str) -> str:
    """Return the common stem of the file names of one set."""
    head, dot, _ = name.rpartition(".")
    return head if dot else name


def journal_path(target: Path) -> Path:
    """Return the path of the journal, or signpost, of the set of `target`; it need not exist."""
    return target.with_name(_journal_name(target.name))


def _journal_name(target: str) -> str:
    return f".{shortened(stem(target))}.lod-commit"


@dataclass(frozen=True)
class Journal:
    """Target names of the partial files of a set.

    It is in effect from when it is complete until its last partial file is renamed.

    Attributes:
        folder: the folder of all of them.
        names: the name of the partial file, by the target name, in the order of renames; an
            index, without which the other files are useless, is the last.
        replace: whether files of these names may be replaced.
    """

    folder: Path
    names: Mapping[str, str]
    replace: bool

    @property
    def path(self) -> Path:
        """Its path."""
        return journal_path(self.folder / next(iter(self.names)))

    @property
    def signposts(self) -> list[Path]:
        """The paths of the signposts, for files of the set with another stem."""
        places = (journal_path(self.folder / name) for name in self.names)
        return [place for place in dict.fromkeys(places) if place != self.path]

    def encoded(self) -> bytes:
        """Return its bytes in a file."""
        return _encoded({"names": dict(self.names), "replace": self.replace})

    def encoded_signpost(self) -> bytes:
        """Return the bytes of its signposts."""
        return _encoded({"journal": self.path.name})

    @classmethod
    def read(cls, path: Path) -> Journal | None:
        """Return the journal at `path`, or that the signpost there names; None if none is complete.

        Raises:
            OSError: there is one, but it cannot be read.
            UnsupportedError: it is of a newer version.
        """
        said = _content(path)
        aim = _aim(said, path)
        return cls._of(said, path) if aim is None else cls._of(_content(aim), aim)

    @classmethod
    def _of(cls, said: Any, path: Path) -> Journal | None:
        try:
            made = cls(path.parent, said["names"], said["replace"])
            return made if made._is_sound(path) else None
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def _is_sound(self, path: Path) -> bool:
        """Return whether it names only partial files of its set: it may come from an archive."""
        return self.is_of_one_kind(path) and all(
            "/" not in name and is_partial_of(partial, self.folder / name)
            for name, partial in self.names.items()
        )

    def is_of_one_kind(self, path: Path) -> bool:
        """Return whether it is the journal of its files: of one stem, or of one extension."""
        if not self.names or self.path != path:
            return False
        endings = {name.rpartition(".")[2] for name in self.names}
        visible = all(name[0] != "." for name in self.names)
        return not self.signposts or (len(endings) == 1 and visible)

    def waiting(self) -> dict[str, Path]:
        """Return the partial files that hold the content of the set, by the file's name.

        {} if all are renamed, or if another program has put files in their place.
        """
        held = {name: self.folder / partial for name, partial in self.names.items()}
        held = {name: partial for name, partial in held.items() if exists(partial)}
        index = list(self.names)[-1]
        if index not in held:
            return {}
        if self.replace and len(held) < len(self.names) and exists(self.folder / index):
            return {}  # `apply` removes the old index before any rename: this index is another one
        return held

    def apply(self) -> None:
        """Rename every partial file. May be repeated after a failure at any call.

        Raises:
            AppearedError: a file exists that may not be replaced. Then no file is renamed.
        """
        held = self.waiting()
        *others, index = self.names
        if others and held and self.replace:
            # Programs that do not know the journal must never find an old index beside new
            # content.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.folder / index)
                fsync_folder(self.folder)
        for name, partial in held.items():
            if name == index and len(held) > 1:
                fsync_folder(self.folder)  # a renamed index means that all others are renamed
            self._rename(partial, self.folder / name)
        if held:
            fsync_folder(self.folder)

    def _rename(self, partial: Path, path: Path) -> None:
        if not self.replace:
            try:
                rename_new(partial, path)
            except FileExistsError as error:
                self._undo()
                raise AppearedError(*error.args, path) from None
        elif path.is_dir():
            _replace_folder(partial, path)
        else:
            os.replace(partial, path)

    def _undo(self) -> None:
        """Undo the renames; no file was replaced by them."""
        for name, partial in self.names.items():
            if not exists(self.folder / partial):
                os.rename(self.folder / name, self.folder / partial)


def _encoded(said: dict[str, Any]) -> bytes:
    """Return the bytes of a journal or a signpost; the checksum detects a torn write."""
    body = json.dumps({"version": VERSION, **said})
    return f"{body}\n{zlib.crc32(body.encode()):08x}\n".encode()


def _content(path: Path) -> Any:
    """Return the content of the journal or signpost at `path`; None if it is not complete."""
    if not exists(path):
        return None
    try:
        fd = os.open(path, os.O_RDONLY | files.UNTRUSTED)
    except FileNotFoundError:
        return None
    try:
        return _content_of(fd, path)
    finally:
        os.close(fd)


def _content_of(fd: int, path: Path) -> Any:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return None
    body, _, rest = files.pread(fd, _MOST_BYTES, 0).partition(b"\n")
    if rest != f"{zlib.crc32(body):08x}\n".encode():
        return None
    try:
        said = json.loads(body)
        version = said["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if version != VERSION:
        raise UnsupportedError(f"{path}: was written by a newer lod; open the files with it")
    return said


def _aim(said: Any, path: Path) -> Path | None:
    """Return the journal to which a signpost at `path` points; None if it is not a signpost."""
    name = said.get("journal") if isinstance(said, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"\.[^/]+\.lod-commit", name):
        return None
    return path.with_name(name)


def may_replace(path: Path) -> bool:
    """Return whether this user may replace a file in a folder where they can create files."""
    folder = os.stat(path.parent)
    if not folder.st_mode & stat.S_ISVTX:
        return True
    return files.user_id() in (0, folder.st_uid, os.lstat(path).st_uid)


def _owner_may_replace(journal: Path, path: Path) -> bool:
    """Return whether the owner of a journal may replace a file that it names.

    In a folder with the sticky bit, such as /tmp, users may create files but replace only theirs.
    """
    folder = os.stat(journal.parent)
    if not folder.st_mode & stat.S_ISVTX:
        return True
    try:
        owner = os.lstat(journal).st_uid
    except FileNotFoundError:
        return False
    if owner in (folder.st_uid, files.user_id()):
        return True
    try:
        return os.lstat(path).st_uid == owner
    except FileNotFoundError:
        return True


def _replace_folder(partial: Path, path: Path) -> None:
    """Rename a folder over another one, which is moved aside and then removed."""
    import tempfile  # slow to import, and folders are rare

    aside = tempfile.mkdtemp(prefix=partial_prefix(path), suffix=SUFFIX, dir=path.parent)
    try:
        os.rename(path, aside)
    except OSError:
        os.rmdir(aside)
        raise
    try:
        os.rename(partial, path)
    except OSError:
        os.rename(aside, path)  # so that programs that do not know the journal find the old one
        raise
    fsync_folder(path.parent)
    with contextlib.suppress(OSError):  # the next writer removes the rest
        remove_unused(Path(aside), path, ours=True)


# -- after a crash -------------------------------------------------------------------


def finish(path: Path, *, seize: bool = False) -> bool:
    """Finish, or drop, the commit of a killed writer.

    Args:
        path: of its journal.
        seize: whether to assume that the writer was killed if the file system has no locks.

    Returns:
        Whether it is done; False while another process has the journal locked.

    Raises:
        OSError: a call failed, and can be repeated; or the owner of the journal may not replace
            the files that it names.
    """
    try:
        fd = os.open(path, os.O_RDWR | files.UNTRUSTED)
    except FileNotFoundError:
        return True
    try:
        locked = files.lock(fd)
        if locked is False or (locked is None and not seize) or not os.fstat(fd).st_nlink:
            return False
        said = _content_of(fd, path)
        aim = _aim(said, path)
        if aim is not None:
            if aim != path and _aim(_content(aim), aim) is None and not finish(aim, seize=seize):
                return False
        elif (journal := Journal._of(said, path)) is not None:
            if not all(_owner_may_replace(path, path.with_name(name)) for name in journal.names):
                what = f"{path.name} beside it is owned by a user who may not replace it; remove it"
                raise OSError(errno.EBUSY, what)
            with contextlib.suppress(AppearedError):
                journal.apply()
            # No other process removes them while their journal is locked here.
            for signpost in journal.signposts:
                if _aim(_content(signpost), signpost) == path:
                    os.unlink(signpost)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        fsync_folder(path.parent)
        return True
    finally:
        os.close(fd)


def opened(path: Path, opener: Callable[[Path], T]) -> T:
    """Return `opener` of the current position of the content of `path`.

    That is `path` itself, except for files of a set that was committed by a writer that was
    killed, or is still renaming. Finishes the renames of a killed writer of the same user.

    Raises:
        OSError: raised by the opener; or there is a journal that cannot be read.
    """
    text = os.fspath(path)
    folder, name = os.path.split(text)
    if name in ("", ".", "..") or ".." in path.parts or os.path.islink(text):
        text = os.path.realpath(path)
        folder, name = os.path.split(text)
        if not name:  # the root of the file system
            return opener(path)
    # As text: for every file that is opened, paths would take three times as long.
    journal_text = os.path.join(folder, _journal_name(name))
    if not exists(journal_text):
        try:
            return opener(path)
        except FileNotFoundError:
            # A writer may be renaming it whose journal was created after the check.
            if not exists(journal_text) and not exists(text):
                raise
    real, place = Path(text), Path(journal_text)
    with contextlib.suppress(OSError):  # users without write permission can still read
        if files.owns(place):
            finish(place)
    for _ in range(_TRIES):
        journal = Journal.read(place)
        partial = None
        if journal is not None and _owner_may_replace(journal.path, real):
            partial = journal.waiting().get(real.name)
        try:
            return opener(partial or real)
        except FileNotFoundError:
            if partial is None and Journal.read(place) == journal and not exists(real):
                raise
    return opener(path)


def remove_stale(target: Path, partials: Mapping[str, Sequence[str]] | None = None) -> None:
    """Remove partial files of `target` left by killed writers, except those of a committed set.

    Args:
        target: the path of a file or a folder.
        partials: see `partials_in`, of the folder of the target; None: that folder is read, unless
            its partial files are removed together.
    """
    if partials is None and are_removed_together(target.parent):
        return
    found = partials_in(target.parent) if partials is None else partials
    for name in found.get(shortened(target.name), ()):
        with contextlib.suppress(OSError):
            remove_unused(target.parent / name, target)


def remove_unused(partial: Path, target: Path, *, ours: bool = False) -> None:
    """Remove a partial file or folder of `target`, unless it is in use.

    Args:
        partial: the file or folder to remove.
        target: its target.
        ours: whether no other writer can use it; readers of a folder may.
    """
    access = os.O_RDONLY if partial.is_dir() else os.O_RDWR
    fd = os.open(partial, access | files.UNTRUSTED)
    try:
        locked = files.lock(fd)
        if locked is False or (locked is None and not ours):
            return
        # Read only under the lock: a living writer could still have committed it.
        journal = Journal.read(journal_path(target))
        if journal is None or partial.name not in journal.names.values():
            remove(partial)
    finally:
        os.close(fd)
