"""Reads text files by whole lines, from files and pipes."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from lodcli.formats.arrays.budget import ITEM_COPIES, require_fits
from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.storage.compression import MAGICS, codec_suffix
from lodcli.formats.storage.inputs import Input
from lodcli.formats.text.derived import Derived
from lodcli.formats.text.encodings import Recoded
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.options import option

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# UTF-32 first, because one of its marks begins like one of UTF-16.
_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_WIDEST = 4  # bytes of a character, or of a byte order mark
_PLANES = range(4)  # of Unicode; in UTF-32 a byte of each character, in UTF-16 a control character
_XZ_MAGIC = b"\xfd7z"
_PART_BYTES = 1 << 20
# Advice in messages about invalid lines.
WITHOUT_MARK = "a byte order mark stands at its beginning, as after joining files; remove it there"
WITHOUT_RETURNS = r"a line ends with \n, not with \r alone; convert it, as with tr '\r' '\n'"


def wide_text(start: bytes) -> str | None:
    """Return the message about a file with these first bytes; None if not of UTF-16 or UTF-32.

    >>> wide_text("ab".encode("utf-16"))
    "begins like UTF-16; give encoding='utf-16'"
    >>> wide_text("a".encode("utf-32-be"))
    "byte 0 is NUL: this is binary data, not text, or UTF-32: then give encoding='utf-32-be'"
    """
    for mark, encoding in _WIDE_MARKS.items():
        if start.startswith(mark):
            return f"begins like {encoding.upper()}; give {option('encoding', encoding)}"
    unmarked = _without_mark(start[:_WIDEST])
    return None if unmarked is None else f"byte {start.find(0)} is {nul(unmarked)}"


def nul(encoding: str = "utf-16") -> str:
    """Return the end of the message about NUL in a file, which may be text in this encoding."""
    name = encoding[: len("utf-16")].upper()
    return (
        f"NUL: this is binary data, not text, or {name}: then give {option('encoding', encoding)}"
    )


def _without_mark(start: bytes) -> str | None:
    """Return the encoding of text with zeros at these places of its beginning; None if none is."""
    if len(start) == _WIDEST and any(start):
        if start[0] == 0 and start[1] in _PLANES:
            return "utf-32-be"
        if start[3] == 0 and start[2] in _PLANES:
            return "utf-32-le"
    if start[:2].count(0) == 1:
        return "utf-16-be" if start[0] == 0 else "utf-16-le"
    return None


class LineReader:
    """The lines of an input, without a leading byte order mark.

    Args:
        source: a file, or a pipe, which is read without seeking.
        utf_8: whether to refuse UTF-16, UTF-32 and compressed files, by their first bytes.
        encoding: of the input; None is UTF-8.
        derived: converts another format to lines.

    Raises:
        NotThisFormatError: it begins like UTF-16 or UTF-32, or like a compressed file.

    Attributes:
        line: number of lines returned so far: the number of the last one, from 1.
        mark_bytes: size of the byte order mark, 0 if there is none.
    """

    def __init__(
        self,
        source: Input,
        *,
        utf_8: bool = True,
        encoding: str | None = None,
        derived: Callable[[BinaryIO], Derived] | None = None,
    ) -> None:
        self._source = source
        self._file = source.file
        if encoding is not None:
            self._file = Recoded(self._file, encoding).buffered()
        if derived is not None:
            self._file = derived(self._file).buffered()
        self._bounds = source.bounds
        self._kept: deque[bytes] = deque()
        self._started = self._peeked = False
        self.line = 0
        start = self._file.read(_WIDEST)
        if utf_8 and (wide := wide_text(start)) is not None:
            raise NotThisFormatError(wide)
        packed = _packed(start)
        if utf_8 and packed is not None and encoding is None:
            raise NotThisFormatError(f"begins like a file packed with {packed}")
        marked = start.startswith(BYTE_ORDER_MARK)
        self.mark_bytes = len(BYTE_ORDER_MARK) if marked else 0
        if source.seekable:
            self._file.seek(self.mark_bytes)
        elif len(start) > self.mark_bytes:
            self._kept.extend(split(self._finished(start[self.mark_bytes :])))
        self.begin_here()

    def begin_here(self) -> None:
        """Make the current position the start for `restart`."""
        self._begin_line = self.line
        self._begin_byte = self._file.tell() if self._source.seekable else None

    def restart(self) -> None:
        """Go back to the start; see `begin_here`.

        Raises:
            UnsupportedError: a pipe is read for the second time.
        """
        if self._started:
            if self._begin_byte is None:
                raise UnsupportedError(
                    f"{self._source.label}: a pipe can be read only once; use a file"
                )
            self._file.seek(self._begin_byte)
            self._kept.clear()
        self._started = True
        self.line = self._begin_line

    def peek(self, limit_bytes: int) -> list[bytes]:
        """Return further lines of about `limit_bytes`; `lines` returns them again."""
        found = split(self._read(limit_bytes))
        if not self._peeked:
            self._peeked, found = True, [*self._kept, *found]
            self._kept.clear()
        self._kept += found
        return found

    def lines(self, limit_bytes: int) -> list[bytes]:
        """Return the next lines with their ends: at least one, and about `limit_bytes`.

        Empty at the end of the input.
        """
        found = self._take_kept(limit_bytes) or split(self._read(limit_bytes))
        self.line += len(found)
        return found

    def _take_kept(self, limit_bytes: int) -> list[bytes]:
        size, taken = 0, list[bytes]()
        while self._kept and (not taken or size < limit_bytes):
            taken.append(self._kept.popleft())
            size += len(taken[-1])
        return taken

    def block(self, limit_bytes: int) -> bytes:
        """Return about `limit_bytes`, up to the end of a line."""
        found = b"".join(self._take_kept(limit_bytes)) or self._read(limit_bytes)
        self.line += count_lines(found)
        return found

    def _read(self, limit_bytes: int) -> bytes:
        """Return about `limit_bytes` of the file, up to the end of a line."""
        return self._finished(self._file.read(limit_bytes))

    def _finished(self, found: bytes) -> bytes:
        """Return bytes that were just read, completed to the end of their last line.

        Raises:
            TooLargeError: that line is longer than the bounds.
        """
        if not found or found.endswith(b"\n"):
            return found
        begun = len(found) - found.rfind(b"\n") - 1
        parts, size = [found], begun
        number = self.line + len(self._kept) + count_lines(found) + 1
        # In parts: a line may have no end.
        while rest := self._file.readline(_PART_BYTES):
            parts.append(rest)
            size += len(rest.rstrip(b"\r\n"))
            self.check_line(size, number)
            if rest.endswith(b"\n"):
                break
        return b"".join(parts)

    def check_line(self, size_bytes: int, number: int) -> None:
        """Raise TooLargeError if a line is longer than the bounds or the memory budget allow.

        Args:
            size_bytes: of what was read of the line.
            number: of the line, from 1.
        """
        self._bounds.check_line(size_bytes, number)
        require_fits(f"line {number}", size_bytes, ITEM_COPIES, whole=False)

    def fill(self, room: memoryview) -> int:
        """Fill `room` with the next bytes, and return their number, less only at the end.

        `line` is unchanged, and `lines` must not be called afterwards.
        """
        done = 0
        if self._kept:
            kept = b"".join(self._kept)
            done = min(len(kept), len(room))
            room[:done] = kept[:done]
            self._kept = deque([kept[done:]] if done < len(kept) else [])
        while done < len(room) and (got := self._file.readinto(room[done:])):  # type: ignore[attr-defined]
            done += got
        return done


def to_utf_8() -> str:
    """Return advice about text that is not UTF-8, for a message."""
    return f"give its {option('encoding')}, such as latin1 or cp1252"


def count_lines(data: bytes) -> int:
    """Return the number of line ends."""
    return count_of(b"\n", data)


def count_of(mark: bytes, data: bytes) -> int:
    """Return the number of bytes like this one; of many in a fifth of the time of `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(mark))) if data else 0


def split(data: bytes) -> list[bytes]:
    """Return the lines of `data` with their ends; "\\r" alone is not one."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _packed(start: bytes) -> str | None:
    """Return the compression of a file with these first bytes, and advice; None for text."""
    start = start[: len(_XZ_MAGIC)]
    if start == _XZ_MAGIC:
        return "xz, which lod does not read; unpack it first, as with xz -d"
    codec = next(
        (codec for magic, codec in MAGICS.items() if magic[: len(_XZ_MAGIC)] == start), None
    )
    if codec is None:
        return None
    return f"{codec}; unpack it first, or give it a name that ends with {codec_suffix(codec)}"
