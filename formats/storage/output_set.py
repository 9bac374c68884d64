"""OutputSet: writes several files in one folder atomically, as `Output` does one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lodcli.formats.storage.journal import Journal
from lodcli.formats.storage.outputs import Beside, Output, refuse_existing
from lodcli.formats.storage.partials import partials_in
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.platform.processes import allow_descriptors

# Open files beside those of the set: temporary ones, and folders that are synced.
_SPARE_FILES = 8


class TooManyFilesError(LodError, OSError):
    """A set has more files than may be open at once."""


class OutputSet:
    """Files that appear together, each under its own name.

    Used as a context manager: leaving it normally commits all of them, leaving it by an exception
    removes all temporary files.

    Args:
        targets: paths in one folder, with one extension.
        overwrite: whether existing files may be replaced.

    Attributes:
        files: the files to write; leaving the `with` block of one syncs it.

    Raises:
        TargetExistsError: at once if one exists and may not be replaced, and at the commit if it
            appeared meanwhile.
        TooManyFilesError: each file, and its journal, is open until the commit.
        UnsupportedError: links lead to several folders, or to names of several kinds.
        OSError: the folder cannot be written to.
    """

    def __init__(self, targets: Sequence[str], *, overwrite: bool = False) -> None:
        self.files: list[Output] = []
        self._overwrite = overwrite
        # Checked now, because the journals are only opened after everything is written.
        needed, most = allow_descriptors(2 * len(targets) + _SPARE_FILES)
        if needed > most:
            raise TooManyFilesError(
                f"{targets[0]}: {len(targets)} files written at once need {needed} open files, "
                f"but {most} are allowed; write fewer, or allow more with ulimit -n"
            )
        try:
            for target in targets:
                refuse_existing(target, overwrite=overwrite)
            partials: Mapping[str, Sequence[str]] | None = None
            for target in targets:
                self.files.append(Beside(target, overwrite=overwrite, partials=partials))
                if partials is None:
                    assert self.files[0].path is not None
                    # Once: for each file, the time would grow with the square of their number.
                    partials = partials_in(self.files[0].path.parent)
            self._refuse_scattered()
        except BaseException:
            self._abort()
            raise

    def _refuse_scattered(self) -> None:
        """Raise UnsupportedError if links lead to files that no journal can name together."""
        paths = {one.path: one.label for one in self.files if one.path is not None}
        names = {path.name: "" for path in paths}
        folders = {path.parent: label for path, label in paths.items()}
        made = Journal(next(iter(folders)), names, self._overwrite)
        if len(folders) > 1 or len(names) < len(self.files) or not made.is_of_one_kind(made.path):
            labels = ", ".join(list(folders.values())[:2])
            raise UnsupportedError(
                f"{labels}: links lead to several folders, to one file, or to other extensions; "
                "several files are replaced only if all are in the same folder; give the paths "
                "that the links lead to"
            )

    def _commit(self) -> None:
        # The journal takes the last name for the index of a pair; here none is.
        *parts, last = self.files
        last._parts = parts
        with last.naming():
            last._appear()

    def _abort(self) -> None:
        for one in self.files:
            one.abort()

    def __enter__(self) -> OutputSet:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self._commit()
                for one in self.files:
                    with one.naming():
                        one._close()
        finally:
            self._abort()
