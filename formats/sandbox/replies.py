"""Protocol between a sandboxed child process and its parent: requests and replies.

A request is a line of JSON. A reply is a sequence of blocks, each after its kind and its size, up
to an end block. So the parent knows where a reply ends, and one pipe serves for all replies.
"""

from __future__ import annotations

import io
import json
import os
import select
import struct
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from lodcli.formats.core import errors as format_errors
from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.kernels import errors as kernel_errors
from lodcli.kernels.errors import LodError

_BLOCK = struct.Struct("<BQ")
_DATA, _END, _ERROR = range(3)
# Maximum sizes of a line of facts, and of an error.
MOST_FACTS_BYTES = 1 << 12
_MOST_ERROR_BYTES = 1 << 16
_NONSENSE = "the sandboxed process sent invalid data; do not trust the file"


class ReplyWriter:
    """The child's end of the pipe, with the methods of an Output that formats write to."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def write(self, data: bytes | memoryview) -> None:
        """Send some bytes of a reply."""
        self._send(_DATA, memoryview(data).cast("B"))

    def end(self) -> None:
        """End a reply."""
        self._send(_END, memoryview(b""))

    def fail(self, error: BaseException) -> None:
        """End a reply with an error."""
        text = json.dumps(_described(error)).encode()
        self._send(_ERROR, memoryview(text))

    def _send(self, kind: int, view: memoryview) -> None:
        head = memoryview(_BLOCK.pack(kind, len(view)))
        while len(head) or len(view):
            done = os.writev(self.fd, [head, view])
            head, view = head[done:], view[max(0, done - len(head)) :]


class Reply(io.RawIOBase):
    """A reply in the parent: a file that ends where the reply ends.

    Args:
        ended: called if the child has ended instead; raises the reason.
        seconds: how long to wait for the next bytes; None: forever.

    Attributes:
        whole: whether it was read to its end.

    Raises:
        LodError: any read may raise the error of the child.
    """

    def __init__(self, fd: int, ended: Callable[[], NoReturn], seconds: int | None = None) -> None:
        self._fd = fd
        self._ended = ended
        self._seconds = seconds
        self._left = 0
        self.whole = False

    def fileno(self) -> int:
        return self._fd

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left and not self.whole:
            kind, self._left = _BLOCK.unpack(self._exactly(_BLOCK.size))
            if kind == _ERROR:
                text = self._exactly(min(self._left, _MOST_ERROR_BYTES))
                self._left, self.whole = 0, True
                raise _rebuilt(_parsed(text))
            if kind not in (_DATA, _END):
                raise DamagedFileError(_NONSENSE)
            self.whole = kind == _END
        if self.whole:
            return 0
        view = memoryview(buffer).cast("B")[: self._left]
        self._wait()
        done = os.readv(self._fd, [view])
        if not done:
            self._ended()
        self._left -= done
        return done

    def _wait(self) -> None:
        """Wait for bytes, second by second: if all processes are stopped, that takes no time."""
        if self._seconds is None:
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        for _ in range(self._seconds):
            if poll.poll(1000):
                return
        raise DamagedFileError(
            f"the sandboxed process did not answer for {self._seconds} seconds; do not trust the "
            "file, unless its disk is that slow"
        )

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            self._wait()
            part = os.read(self._fd, size - len(found))
            if not part:
                self._ended()
            found += part
        return found


def _described(error: BaseException) -> dict[str, Any]:
    """Return an error as a dict for JSON."""
    if isinstance(error, OSError) and not isinstance(error, LodError):
        filename = error.filename if isinstance(error.filename, str) else None
        said = error.strerror or str(error)
        return {"kind": "OSError", "errno": error.errno, "message": said, "filename": filename}
    details = {key: value for key, value in vars(error).items() if _is_plain(value)}
    return {"kind": type(error).__name__, "message": str(error)[:4000], "details": details}


def _is_plain(value: object) -> bool:
    """Return whether an error may have this attribute: a number, a text, or a few texts."""
    if isinstance(value, list | tuple):
        return len(str(value)) < 1000 and all(isinstance(one, str) for one in value)
    return value is None or (isinstance(value, int | str) and len(str(value)) < 1000)


def facts(line: bytes, *names: str) -> dict[str, bool]:
    """Return the boolean members of a JSON line."""
    found = _parsed(line)
    if found.keys() != set(names) or not all(isinstance(found[name], bool) for name in names):
        raise DamagedFileError(_NONSENSE)
    return found


def names_of(line: bytes) -> frozenset[str]:
    """Return the names in a JSON line."""
    match _value(line):
        case list() as names if all(isinstance(name, str) for name in names):
            return frozenset(names)
    raise DamagedFileError(_NONSENSE)


def line_of(errors: Mapping[str, LodError]) -> bytes:
    """Encode errors by name as a line, for `errors_of`."""
    return json.dumps({name: _described(error) for name, error in errors.items()}).encode() + b"\n"


def errors_of(line: bytes) -> dict[str, LodError]:
    """Decode the errors encoded by `line_of`."""
    found = {name: _rebuilt(described) for name, described in _parsed(line).items()}
    return {name: error for name, error in found.items() if isinstance(error, LodError)}


def decode_notes(text: bytes) -> tuple[list[str], str | None]:
    """Return the notes on a file, and the names of the checksums that were verified."""
    match _value(text):
        case [list() as notes, str() | None as checksums]:
            return [str(note) for note in notes], checksums
    raise DamagedFileError(_NONSENSE)


def _parsed(text: bytes) -> dict[str, Any]:
    found = _value(text)
    if not isinstance(found, dict):
        raise DamagedFileError(_NONSENSE)
    return found


def _value(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _rebuilt(described: object) -> Exception:
    """Return the error from its description by the child."""
    if not isinstance(described, dict):
        return DamagedFileError(_NONSENSE)
    kind, message, details = (described.get(key) for key in ("kind", "message", "details"))
    number = described.get("errno")
    if kind == "MemoryError":
        return TooLargeError("needs more memory than the sandbox allows")
    if kind == "OSError" and isinstance(number, int | None) and isinstance(message, str):
        raised, filename = OSError(number, message), described.get("filename")
        raised.filename = filename if isinstance(filename, str) else None
        return raised
    if not (isinstance(kind, str) and isinstance(message, str) and isinstance(details, dict)):
        return DamagedFileError(_NONSENSE)
    if not all(map(_is_plain, details.values())):
        return DamagedFileError(_NONSENSE)
    for module in (format_errors, kernel_errors):
        found = getattr(module, kind, None)
        if isinstance(found, type) and issubclass(found, LodError):
            error: LodError = found.__new__(found)
            error.args = (message,)
            vars(error).update(details)
            return error
    return LodError(f"{kind}: {message}")
