"""Errors of files, and adding a file name to an error raised below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lodcli.kernels.errors import InvalidDataError, LodError

T = TypeVar("T")
# Attributes of an error: the file it is about, and the places that `places` returns.
_FILE = "about_file"
_PLACES = "places"
# The remedy for a file that lacks bytes, or has changed ones, at the end of a message.
FETCH_AGAIN = "; fetch or copy it again"


class DamagedFileError(InvalidDataError):
    """A file with inconsistent bytes: truncated, altered or crafted."""


class ProducerFailedError(DamagedFileError):
    """A stream that ends early with a frame that reports the failure of the writing command."""


class NotThisFormatError(InvalidDataError):
    """A file of another format than expected.

    Attributes:
        unknown: whether neither its content nor its name is of a format of lod.
    """

    unknown = False


class TooLargeError(InvalidDataError):
    """A file whose content is larger than the caller allows."""


def changed_while_read() -> DamagedFileError:
    """Return the error about a file with other content than when it was opened first."""
    return DamagedFileError("was changed while it was read; read it again")


class naming:  # lower case: used as `with naming(..):`
    """Prefix LodErrors raised in the block with the file and the part of it."""

    # A class, not a generator: a generator takes 1 us per sequence read.
    __slots__ = ("_label", "_part")

    def __init__(self, label: str, part: str = "") -> None:
        self._label = label
        self._part = part

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LodError) and not hasattr(error, _FILE):
            _prefix(error, self._label, self._part)


def from_item(name: str, first: int) -> str:
    """Return the name of a tensor for messages about a batch whose first item is number `first`."""
    return f"{name}, in the items from {first} on" if first else name


class naming_file:  # lower case: used as `with naming_file(..):`
    """Prefix LodErrors with their file; outer `naming` blocks then add nothing.

    For a block with several open files: one is read while another is written. The file of a
    MemoryError is only in its `places`.
    """

    __slots__ = ("_label",)

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LodError):
            name_file(error, self._label)
        elif isinstance(error, MemoryError) and not places(error):
            setattr(error, _PLACES, [self._label])


@contextmanager
def naming_os(label: str) -> Iterator[None]:
    """Add the file's name to an OSError without one, such as a failed read."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = label
        raise


@contextmanager
def naming_source(label: str) -> Iterator[None]:
    """Add the name of the file that is read to errors of lod and of the operating system."""
    with naming_os(label), naming_file(label):
        yield


class Incoming(Iterator[T]):
    """Batches to write, or descriptions of rows that are copied.

    Attributes:
        error: raised instead of an item; it is not about the file being written.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self.error: LodError | None = None

    def __next__(self) -> T:
        try:
            return next(self._items)
        except LodError as error:
            self.error = error
            raise


def places(error: BaseException) -> list[str]:
    """Return where an error happened: the file, then the part of it, outermost first."""
    found: list[str] = getattr(error, _PLACES, [])
    return found


def name_file(error: LodError, label: str) -> None:
    """Add a file name to one error, as `naming_file` does."""
    if not hasattr(error, _FILE):
        _prefix(error, label)
        setattr(error, _FILE, label)


def rename_file(error: LodError, label: str, renamed: str) -> None:
    """Replace the file name at the beginning of an error."""
    message = str(error.args[0]) if error.args else ""
    if message.startswith(f"{label}: "):
        error.args = (renamed + message.removeprefix(label), *error.args[1:])
        setattr(error, _PLACES, [renamed if one == label else one for one in places(error)])


def append_text(error: LodError, text: str) -> None:
    """Add text to the end of the message of an error, such as a remedy that only a caller knows."""
    error.args = (f"{error}; {text}", *error.args[1:])


def _prefix(error: LodError, label: str, part: str = "") -> None:
    where = f"{label}: {part}" if part else label
    # In place: the class and its attributes must be kept.
    known = places(error)
    if label not in known:
        setattr(error, _PLACES, [label, *filter(None, [part]), *known])
    if not str(error).startswith(f"{label}:"):
        error.args = (f"{where}: {error.args[0]}", *error.args[1:])
