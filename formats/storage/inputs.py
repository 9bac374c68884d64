"""Input: a path or standard input, opened once, with its first bytes for detection.

A file compressed by gzip or Zstandard is decompressed while it is read, as if through a pipe.

For a format of several files, the Input is the folder, or the file that was named. `beside` opens
the others.
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import io
import json
import os
import stat
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError, naming
from lodcli.formats.remote.urls import file_name, is_url, shown
from lodcli.formats.storage.compression import MAGIC_BYTES, Unpacked, codec_of, suffix_codec
from lodcli.formats.storage.durable import OpenFolder
from lodcli.formats.storage.journal import opened, remove_stale
from lodcli.kernels.errors import OptionError, UnsupportedError
from lodcli.kernels.platform import files, processes
from lodcli.kernels.platform.files import PathLike

if TYPE_CHECKING:
    from lodcli.formats.remote.fetched import FetchedFile
    from lodcli.formats.remote.folder import RemoteFolder

# Its name in messages.
STANDARD_INPUT = "standard input"
HEAD_BYTES = 4096
# By device and inode of a file that is standard input: its position when it was first opened.
_BEGINNINGS: dict[tuple[int, int], int] = {}
# How often a pair of files is opened again while another process replaces it.
_TRIES = 1000
# Open files, and, during a fork, those whose position the new process must not share.
_OPEN: set[weakref.ref[io.RawIOBase]] = set()
_AT_FORK: list[tuple[io.RawIOBase, int]] = []
_SHARED = contextvars.ContextVar("_SHARED", default=False)


def require_path(path: object) -> None:
    """Raise OptionError unless `path` may name a file."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    found = type(name).__name__
    if isinstance(name, str):
        if name and "\0" not in name:
            return
        found = repr(name[:100])
    elif isinstance(name, bytes):
        found += ", of which os.fsdecode makes a str"
    raise OptionError(f"expected first the path of a file (str or os.PathLike), found {found}")


def absolute(path: PathLike) -> str:
    """Return a path that means the same in every folder; a URL is returned as it is.

    Raises:
        OptionError: it cannot name a file.
    """
    require_path(path)
    return os.fspath(path) if is_url(path) else os.path.abspath(path)


class _Ahead(io.FileIO):
    """A file with lookahead at its first bytes, also for a pipe.

    BufferedReader.peek returns the result of one read, which may be a single byte of a pipe.

    Raises:
        DamagedFileError: at its end, a regular file is shorter than it was when it was opened, or
            was overwritten. It may grow.
    """

    _ahead = b""  # and `first`: its state when it was opened

    def __init__(self, file: str | Path | int, mode: str) -> None:
        super().__init__(file if isinstance(file, int) else os.fspath(file), mode)
        self.first = os.fstat(self.fileno())
        _register(self)

    def look(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end; they will be read again."""
        while len(self._ahead) < size and (more := self.read(size - len(self._ahead))):
            self._ahead += more
        return self._ahead[:size]

    def readinto(self, buffer: Any) -> int | None:
        if not self._ahead:
            size = super().readinto(buffer)
            if not size and memoryview(buffer).nbytes:
                self._require_unchanged()
            return size
        view = memoryview(buffer).cast("B")
        part, self._ahead = self._ahead[: len(view)], self._ahead[len(view) :]
        view[: len(part)] = part
        return len(part)

    def readall(self) -> bytes:
        ahead, self._ahead = self._ahead, b""
        rest = super().readall() or b""
        self._require_unchanged()
        return ahead + rest

    def _require_unchanged(self) -> None:
        first, last = self.first, os.fstat(self.fileno())
        if not stat.S_ISREG(first.st_mode) or last.st_size > first.st_size:
            return
        if last.st_size < first.st_size:
            raise DamagedFileError(
                f"was truncated while it was read: expected {first.st_size} bytes, found "
                f"{last.st_size}; read it again when it is complete"
            )
        if last.st_mtime_ns != first.st_mtime_ns:
            raise DamagedFileError(
                "was overwritten while it was read; read it again when it is complete"
            )


class _Rest(_Ahead):
    """The rest of a file whose beginning another program has read; like a pipe."""

    def seekable(self) -> bool:
        return False


class _Fetched(_Ahead):
    """A file behind a URL, fetched as it is read."""

    def __init__(self, fetched: FetchedFile) -> None:
        self._fetched = fetched
        super().__init__(fetched.fd, "rb")

    def readinto(self, buffer: Any) -> int | None:
        self._fetched.fetch(self.tell(), memoryview(buffer).nbytes)
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._fetched.fetch(self.tell(), os.fstat(self.fileno()).st_size)
        return super().readall()

    def _require_unchanged(self) -> None:
        """No check: the temporary file changes with each fetch; the server reports changes."""

    def close(self) -> None:
        self._fetched.close()
        super().close()


def _register(raw: io.RawIOBase) -> None:
    _OPEN.add(weakref.ref(raw, _OPEN.discard))


def _note_positions() -> None:
    for one in () if _SHARED.get() else list(_OPEN):
        raw = one()
        # A fetched file is also written to, and its connection is shared as well.
        if raw is None or raw.closed or isinstance(raw, _Fetched) or not raw.seekable():
            continue
        _AT_FORK.append((raw, os.lseek(raw.fileno(), 0, os.SEEK_CUR)))


def _open_again() -> None:
    for raw, position in _AT_FORK:
        made = files.reopen(raw.fileno(), None)
        if made is not None:
            os.lseek(made, position, os.SEEK_SET)
            os.dup2(made, raw.fileno(), inheritable=False)
            os.close(made)
    _AT_FORK.clear()


@contextlib.contextmanager
def shared_positions() -> Iterator[None]:
    """Let a process forked in this block share the positions in files: its reads move them."""
    token = _SHARED.set(True)
    try:
        yield
    finally:
        _SHARED.reset(token)


if processes.CAN_FORK:
    # A forked process shares the positions in open files, so each would skip what the other reads.
    os.register_at_fork(
        before=_note_positions, after_in_parent=_AT_FORK.clear, after_in_child=_open_again
    )


def _standard_input() -> _Ahead:
    # A copy of the descriptor: closing this input must not close the process's.
    fd = os.dup(sys.stdin.fileno())
    found, start = os.fstat(fd), 0
    if stat.S_ISREG(found.st_mode):
        # A command may open it again, once it has read it.
        place = os.lseek(fd, 0, os.SEEK_CUR)
        start = _BEGINNINGS.setdefault((found.st_dev, found.st_ino), place)
    return _Rest(fd, "rb") if start else _Ahead(fd, "rb")


def _file_or_folder(place: Path) -> _Ahead | OpenFolder:
    try:
        return _Ahead(place, "rb")
    except IsADirectoryError:
        return OpenFolder(place)
    except PermissionError:  # of a folder on Windows
        if not place.is_dir():
            raise
        return OpenFolder(place)


class Input:
    """A readable file, pipe or folder.

    Args:
        source: a path, a URL, or "-" for standard input.

    Attributes:
        label: its name in messages.
        path: None for standard input; of a URL, only the name of the file.
        is_folder: whether it is a folder: `file` and everything that uses it then raises an error.
        folder: the open folder, if it is one.
        remote: whether it is behind a URL.
        bounds: limit on its decompressed size; see `allow`.
        when_copied: callback of `make_seekable`, invoked with the size of the copy if it makes one.

    Raises:
        OSError: it cannot be opened.
    """

    _looked = remote = _is_rest = _by_name = False
    _first: os.stat_result | None = None  # of a file that is not behind a URL
    folder: OpenFolder | RemoteFolder
    when_copied: Callable[[int], object] | None = None

    def __init__(self, source: PathLike) -> None:
        require_path(source)
        self._begin()
        if os.fspath(source) == "-":
            self.path: Path | None = None
            self.label = STANDARD_INPUT
            if sys.stdin is None:
                raise OSError(errno.EBADF, "is closed", self.label)
            self._raw: io.RawIOBase = _standard_input()
            self._is_rest = isinstance(self._raw, _Rest)
        elif is_url(source):
            from lodcli.formats.remote.fetched import FetchedFile
            from lodcli.formats.remote.folder import RemoteFolder, is_folder_url

            self.remote = True
            url = os.fspath(source)
            self.path = Path(file_name(url))
            self.label = shown(url)
            if is_folder_url(url):
                self.is_folder, self.folder = True, RemoteFolder(url)
                return
            self._raw = _Fetched(FetchedFile(url))
        else:
            self.path = Path(source)
            self.label = os.fspath(source)
            self._open()
            return
        self._file: BinaryIO = io.BufferedReader(self._raw, 1 << 20)

    def _begin(self) -> None:
        self.is_folder = False
        self.bounds = Bounds()
        self._beside: list[Input] = []

    def _open(self) -> None:
        """Open the current target of the path."""
        assert self.path is not None
        found = opened(self.path, _file_or_folder)
        if isinstance(found, OpenFolder):
            self.is_folder, self.folder = True, found
            return
        self._raw, self._first = found, found.first
        self._file = io.BufferedReader(self._raw, 1 << 20)

    @property
    def lists(self) -> bool:
        """Whether this is a folder whose files can be listed; not behind a URL."""
        return self.is_folder and isinstance(self.folder, OpenFolder)

    @property
    def listed(self) -> OpenFolder:
        """The open folder, whose files can be listed. Raises UnsupportedError behind a URL."""
        if not isinstance(self.folder, OpenFolder):
            raise UnsupportedError(
                "the files of a folder behind a URL cannot be listed; of such folders only "
                "datasets of lod are read"
            )
        return self.folder

    @property
    def file(self) -> BinaryIO:
        """The open file. Raises IsADirectoryError for a folder."""
        if self.is_folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.label)
        if not self._looked:
            self._looked = True
            self._unpack()
        return self._file

    def _unpack(self) -> None:
        """Add a decompressor if the name says compressed; of a pipe, if the content does."""
        raw = self._file.raw  # type: ignore[attr-defined]
        seekable = raw.seekable()
        named = self.path is not None and suffix_codec(self.path.name) is not None
        if not named and (self._by_name or (self.path is not None and seekable)):
            return  # raw numbers may begin like a compressed file
        codec = codec_of(
            files.pread(raw.fileno(), MAGIC_BYTES, 0) if seekable else raw.look(MAGIC_BYTES)
        )
        if codec is None and named:
            assert self.path is not None
            from lodcli.formats.catalogue.unread import in_place_of

            other = in_place_of(raw.look(HEAD_BYTES))
            if other is not None:
                raise NotThisFormatError(
                    f"is named as if compressed ({self.path.suffix}) but begins like "
                    f"{other.what}{other.advice}"
                )
            # A beginning that was cut off or altered must not turn into text.
            what = "does not begin like that" if raw.look(1) else "is empty"
            raise DamagedFileError(
                f"is named as if compressed ({self.path.suffix}) but {what}; it is damaged, or "
                "should be renamed"
            )
        if codec is not None:
            self._raw = unpacked = Unpacked(self._file, codec)
            unpacked.bounds = self.bounds
            self._file = io.BufferedReader(self._raw, 1 << 20)

    def unpack_by_name(self) -> None:
        """Detect compression by the extension only, not by the content. Call before reading."""
        self._by_name = True

    def fetch(self) -> None:
        """Fetch all of a remote file, for readers other than `file`."""
        if self.remote:
            files.fetch(self._file.fileno(), 0, os.fstat(self._file.fileno()).st_size)

    def allow(self, bounds: Bounds) -> None:
        """Set the limits for this input, and for files beside it opened later."""
        self.bounds = bounds
        if not self.is_folder and isinstance(self._raw, Unpacked):
            self._raw.bounds = bounds

    def beside(self, name: str) -> Input:
        """Return another file: inside of this folder, or beside this file.

        It is closed together with this one, if not before. The name may come from an untrusted
        file, so it must be a plain name, of a regular file.

        Raises:
            DamagedFileError: the name leads elsewhere, or not to a regular file.
            FileNotFoundError: there is no such file.
            NotThisFormatError: it is a pointer of Git LFS.
            UnsupportedError: this is standard input.
        """
        if self.path is None or (self.remote and not self.is_folder):
            raise UnsupportedError(
                "is one of several files that this format reads; give the path of a file"
            )
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise DamagedFileError(f"refers to {name[:255]!r}, which is not a plain name of a file")
        if self.is_folder:
            with naming(name):
                found = self.inside(name)
        else:
            found = self._together_with(self.path.with_name(name))
        found.allow(self.bounds)
        self._beside.append(found)
        if not self.is_folder:
            with naming(name):
                found._refuse_pointer()
        return found

    def json_beside(self, name: str, most_bytes: int) -> Any:
        """Return the content of a JSON file: see `beside`.

        Raises:
            DamagedFileError: it is not JSON, or exceeds the maximum size.
        """
        with self.beside(name) as source:
            if (source.size_bytes or 0) > most_bytes:
                raise DamagedFileError(
                    f"{name}: has {source.size_bytes} bytes; at most {most_bytes}"
                )
            try:
                return json.loads(source.file.read())
            except (ValueError, RecursionError):
                raise DamagedFileError(f"{name}: is not JSON") from None

    def inside(self, name: str) -> Input:
        """Open a file of the folder that was opened, even if the path is now another folder.

        Like `beside`, but the caller closes the file, and the name is not checked.
        """
        assert self.path is not None
        path = self.path / name
        if not isinstance(self.folder, OpenFolder):
            made = Input.of_raw(_Fetched(self.folder.fetched(name)), f"{self.label}{name}")
            made.path, made._looked, made.remote = path, False, True
            made._refuse_pointer()
            return made
        try:
            if not stat.S_ISREG(self.folder.stat(name).st_mode):
                raise DamagedFileError("is not a regular file")
            made = Input.of_descriptor(self.folder.open(name), os.fspath(path))
        except OSError as error:
            error.filename = os.fspath(path)
            raise
        made.path = path
        made._refuse_pointer()
        return made

    def _refuse_pointer(self) -> None:
        """Raise NotThisFormatError, and close the file, if it is a pointer of Git LFS."""
        from lodcli.formats.catalogue.unread import refuse_pointer

        def begin(size: int) -> bytes:
            return files.pread(self._file.fileno(), size, 0)  # not decompressed

        try:
            refuse_pointer(begin, self.stored_bytes)
        except BaseException:
            self.close()
            raise

    def _together_with(self, path: Path) -> Input:
        """Open another file of the same version of a set, even while a writer replaces the set."""
        assert self.path is not None
        for _ in range(_TRIES):
            if path.exists() and not path.is_file():
                raise DamagedFileError(f"{path.name}: is not a regular file")
            found = Input(path)
            if os.path.samestat(os.fstat(self._file.fileno()), opened(self.path, os.stat)):
                return found
            found.close()
            self._file.close()
            self._open()
        raise OSError(
            errno.EBUSY, "was replaced each time it was opened; read it again later", self.label
        )

    def has_beside(self, name: str) -> bool:
        """Return whether there is a file of this name in the folder, or beside the file."""
        if self.path is None or self.remote:
            return False
        try:
            if self.is_folder:
                assert isinstance(self.folder, OpenFolder)
                found = self.folder.stat(name)
            else:
                found = opened(self.path.with_name(name), os.stat)
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode)

    @classmethod
    def of_raw(cls, raw: io.RawIOBase, label: str) -> Input:
        """Return an input over a raw stream, which is read front to back."""
        made = cls.__new__(cls)
        made._begin()
        made.path, made.label = None, label
        made._raw, made._looked = raw, True
        made._file = io.BufferedReader(raw, 1 << 20)
        return made

    @classmethod
    def of_descriptor(cls, fd: int, label: str) -> Input:
        """Return an input over an open descriptor, which the input closes."""
        raw = _Ahead(fd, "rb")
        made = cls.of_raw(raw, label)
        made._looked, made._first = False, raw.first
        return made

    def again(self) -> Input:
        """Open the same file again, at its beginning, even if its path leads elsewhere by now.

        Raises:
            UnsupportedError: the file no longer has its name, and the system needs that.
        """
        self.fetch()
        found = files.reopen(self._file.fileno(), self.path)
        if found is None:
            raise UnsupportedError(
                f"{self.label}: was replaced while it was read, and this system cannot open the "
                "old file again; read the new one"
            )
        made = Input.of_descriptor(found, self.label)
        made.path = self.path
        made._looked = not isinstance(self._raw, Unpacked)
        made.allow(self.bounds)
        return made

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Its open descriptors."""
        own = self.folder.descriptors if self.is_folder else (self._file.fileno(),)
        return own + tuple(each for one in self._beside for each in one.descriptors)

    @property
    def version(self) -> tuple[tuple[int, ...], ...]:
        """A value that changes when this file, or an open one beside it, is replaced or written to.

        It has size, time and inode of each; of a folder only the inode, since other programs may
        add files to it; nothing for URLs.
        """
        own = self._first
        if own is not None:
            found: tuple[tuple[int, ...], ...] = ((own.st_size, own.st_mtime_ns, own.st_ino),)
        else:
            opened = self.folder.descriptors if self.is_folder else ()
            found = tuple((os.fstat(fd).st_ino,) for fd in opened)
        return found + tuple(each for one in self._beside for each in one.version)

    def head(self) -> bytes:
        """Return the first bytes, up to HEAD_BYTES, without consuming them.

        For a pipe, this waits for them, and must be called before anything else is read.
        """
        if self.seekable:
            return files.pread(self.file.fileno(), HEAD_BYTES, 0)
        assert isinstance(self._raw, _Ahead | Unpacked)
        return self._raw.look(HEAD_BYTES)

    @property
    def checksums(self) -> str:
        """Description of the checksums of its compression, verified while reading; "" for none."""
        raw = None if self.is_folder else self._raw
        return raw.checksums if isinstance(raw, Unpacked) else ""

    @property
    def seekable(self) -> bool:
        """Whether any part can be read at any time: a file, not a pipe."""
        return self.file.seekable()

    @property
    def pipe(self) -> int | None:
        """The descriptor of the pipe, if the input is one and not compressed; else None."""
        raw = None if self.is_folder else self._raw
        if not isinstance(raw, _Ahead) or not stat.S_ISFIFO(os.fstat(raw.fileno()).st_mode):
            return None
        return raw.fileno()

    @property
    def size_bytes(self) -> int | None:
        """Size of the file; None for a pipe, and for a compressed file."""
        return os.fstat(self.file.fileno()).st_size if self.seekable else None

    @property
    def stored_bytes(self) -> int | None:
        """Size of the file, compressed or not; None for a pipe and for a folder."""
        if self.is_folder or self._is_rest:
            return None
        found = os.fstat(self._file.fileno())
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def read_share(self) -> float | None:
        """Return the share of the file, from 0 to 1, up to the current position; None for a pipe.

        For a compressed file, the share of the compressed bytes.
        """
        size = self.stored_bytes
        return os.lseek(self._file.fileno(), 0, os.SEEK_CUR) / size if size else None

    def make_seekable(self) -> BinaryIO:
        """Return the whole input as a seekable file; a pipe is first copied to a temporary one."""
        if not self.seekable:
            import shutil  # slow to import, as tempfile
            import tempfile

            spooled = tempfile.TemporaryFile(prefix="lod-")  # noqa: SIM115
            try:
                shutil.copyfileobj(self.file, spooled, 1 << 20)
                spooled.flush()
            except BaseException as error:
                with contextlib.suppress(OSError):
                    spooled.close()
                if isinstance(error, OSError) and error.filename is None:
                    error.filename = f"{self.label}, copied to {tempfile.gettempdir()}"
                raise
            self._file.close()
            self._file, self._is_rest = spooled, False
            _register(spooled.raw)
            if self.when_copied is not None:
                self.when_copied(spooled.tell())
        self.file.seek(0)
        return self.file

    def close(self) -> None:
        """Close the input and those beside it, except for the standard input of the process."""
        for one in self._beside:
            one.close()
        if not self.is_folder:
            self._file.close()
            return
        replaced = isinstance(self.folder, OpenFolder) and self.folder.was_replaced()
        self.folder.close()
        if replaced and self.path is not None:
            # The writer left the old folder to its readers; this may be the last.
            remove_stale(Path(os.path.realpath(self.path)))

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
