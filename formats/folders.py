"""FolderOutput: a folder that appears whole or not at all, as `Output` does for a file."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from lodcli.formats.durable import umask
from lodcli.formats.interrupts import shielded
from lodcli.formats.outputs import SUFFIX, Output, TargetExistsError, partial_prefix

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class FolderOutput(Output):
    """A folder being written: its files are made by `part`, and appear together.

    They are written into a folder beside the target, which takes the target's name at the
    commit. With `overwrite` the two change places at once, where the system can do that, and
    the old one is removed after.

    Args:
        target: a path, not "-".
        overwrite: whether an existing folder may be replaced; only one of such files.
        may_hold: a regular expression of all the names such a folder may hold. One that
            holds anything else is not replaced: it may be somebody's home.

    Raises:
        TargetExistsError: see Output; also for a folder that holds something else.
        OSError: the folder above cannot be written to.
    """

    def __init__(
        self, target: str | os.PathLike[str], *, overwrite: bool = False, may_hold: str
    ) -> None:
        self._may_hold = may_hold
        super().__init__(target, overwrite=overwrite)

    def part(self, name: str) -> Output:
        """Return a file of the folder to be written. Leaving its `with` block closes it."""
        assert self._partial is not None
        part = _Inside(self._partial / name, f"{self.label}/{name}")
        self._parts.append(part)
        return part

    def _make_partial(self, path: Path) -> tuple[int, str]:
        partial = tempfile.mkdtemp(prefix=partial_prefix(path), suffix=SUFFIX, dir=path.parent)
        try:
            return os.open(partial, os.O_RDONLY | os.O_DIRECTORY), partial
        except OSError:
            os.rmdir(partial)
            raise

    def _mode(self) -> int:
        assert self.path is not None
        if self.path.exists():
            return self.path.stat().st_mode & 0o777
        return 0o777 & ~umask()

    def _refuse_existing(self) -> None:
        refuse_existing_folder(self.label, overwrite=self.overwrite, may_hold=self._may_hold)

    def _appear(self) -> None:
        assert self.path is not None
        assert self._partial is not None
        self._refuse_existing()  # nor may what was replaced have changed its kind
        if self.path.exists():
            # From here on what the partial name leads to is the old folder; it is removed
            # like anything that is left of a write.
            _exchange(self._partial, self.path)
            return
        os.rename(self._partial, self.path)
        self._partial = None


class _Inside(Output):
    """A file of a folder being written."""

    def __init__(self, path: Path, label: str) -> None:
        self._begin(label, path, overwrite=False)
        with self.naming(), shielded():
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def _mode(self) -> int:
        return 0o666 & ~umask()

    def _settle(self) -> None:
        if self.fd >= 0:
            super()._settle()
            self._close()

    def commit(self) -> None:
        self._settle()


def refuse_existing_folder(
    target: str | os.PathLike[str], *, overwrite: bool, may_hold: str | re.Pattern[str]
) -> None:
    """Raise TargetExistsError if something is there that may not be replaced."""
    path, label = Path(target), os.fspath(target)
    if not path.exists():
        return
    if not path.is_dir():
        raise TargetExistsError(f"{label}: is no folder and stays as it is")
    if not overwrite:
        raise TargetExistsError(f"{label}: exists already; use --force to replace it")
    for found in sorted(path.iterdir()):
        if not re.fullmatch(may_hold, found.name) or not found.is_file():
            raise TargetExistsError(
                f"{label}: holds {found.name!r}, which is no part of what would be written; "
                "--force does not replace such a folder"
            )


def _exchange(new: Path, old: Path) -> None:
    """Let two folders change names: at once, or where the system cannot, one by one."""
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    places = (_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old))
    if rename is not None and rename(*places, _RENAME_EXCHANGE) == 0:
        return
    aside = tempfile.mkdtemp(prefix=partial_prefix(old), suffix=SUFFIX, dir=old.parent)
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except OSError:
        os.rename(aside, old)
        raise
    os.rename(aside, new)
