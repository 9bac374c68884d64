"""The members of a tar archive, read sequentially, also from pipes and untrusted input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO
from zlib import adler32

from lodcli.formats.arrays.budget import ITEM_COPIES, require_fits
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.kernels.errors import UnsupportedError

BLOCK = 512
COPY_BYTES = 4 << 20
MOST_NAME_BYTES = 1 << 16
_MOST_DIGITS = 20
_REGULAR, _FOLDER = (b"0", b"\0", b"7"), b"5"
_LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL = b"L", b"K", b"x", b"g"
_LINKS, _SPARSE = (b"1", b"2"), b"S"
_LABEL = b"V"  # of a GNU archive (tar --label); it has no content
_SPARSE_KEYS = "GNU.sparse."  # of pax headers; the content begins with a map of the parts


def members(file: BinaryIO) -> Iterator[tuple[str, Content]]:
    """Yield the name of each regular file and its content; unread content is skipped.

    Raises:
        DamagedFileError: a header is invalid, or the archive is truncated.
        UnsupportedError: a member is a link, a device or a sparse file.
    """
    long_name: str | None = None
    size_told: int | None = None
    sparse = False
    while (head := _header(file)) is not None:
        kind, size, name = head[156:157], _number(head[124:136]), _name(head)
        if kind in (_LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL):
            if size > MOST_NAME_BYTES:
                raise DamagedFileError(f"{name[:60]!r}: a name of {size} bytes")
            text = Content(file, size).read()
            if kind == _LONG_NAME:
                long_name = _text(text.partition(b"\0")[0])
            elif kind == _EXTENDED:
                told = _extended(text)
                long_name = told.get(_SPARSE_KEYS + "name", told.get("path", long_name))
                size_told = _told_size(told["size"]) if told.get("size") else None
                sparse = any(key.startswith(_SPARSE_KEYS) for key in told)
            continue
        name, size = long_name or name, size if size_told is None else size_told
        if sparse or kind == _SPARSE:
            raise UnsupportedError(f"{name[:100]!r}: is a sparse file; pack it without --sparse")
        long_name = size_told = None
        content = Content(file, size)
        if kind in _REGULAR and not name.endswith("/"):
            yield name, content
        elif kind not in (_FOLDER, _LABEL) and not name.endswith("/"):
            raise UnsupportedError(f"{name[:100]!r}: {_refused(kind)}")
        content.skip()


def _refused(kind: bytes) -> str:
    """Return the message about a member that is not a regular file."""
    if kind in _LINKS:
        return "is a link; pack the file itself (tar --dereference --hard-dereference)"
    return "is a device or another special file; leave it out"


class Content:
    """The bytes of one member, read once."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._left = size + -size % BLOCK

    def read(self) -> bytes:
        """Return all bytes. Takes no more memory than the archive has bytes.

        Raises:
            TooLargeError: they do not fit into the memory budget.
        """
        require_fits("its content", self._size, ITEM_COPIES)
        parts = []
        while self._left:
            parts.append(self._block())
        return (parts[0] if len(parts) == 1 else b"".join(parts))[: self._size]

    def skip(self) -> None:
        """Skip to its end."""
        while self._left:
            self._block()

    def _block(self) -> bytes:
        block = self._file.read(min(self._left, COPY_BYTES))
        if not block:
            raise DamagedFileError(f"ends {self._left} bytes early, within a file{FETCH_AGAIN}")
        self._left -= len(block)
        return block


def _header(file: BinaryIO) -> bytes | None:
    """Return the next header, None at the end of the archive."""
    head = file.read(BLOCK)
    if len(head) < BLOCK:
        raise DamagedFileError(
            f"ends without its closing blocks; it is cut off, or no tar archive{FETCH_AGAIN}"
        )
    if not any(head):
        if len(second := file.read(BLOCK)) < BLOCK or any(second):
            raise DamagedFileError(
                f"ends without its second closing block; it is cut off{FETCH_AGAIN}"
            )
        while rest := file.read(COPY_BYTES):
            if any(rest):
                raise UnsupportedError("continues after its end; read joined archives one by one")
        return None
    told = _number(head[148:156])
    if told != _sum(head) - sum(head[148:156]) + 8 * ord(" "):
        raise DamagedFileError("a header's checksum does not match; damaged, or no tar archive")
    return head


def _told_size(text: str) -> int:
    """Return the size of a file in a pax header."""
    if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise DamagedFileError(f"a pax header has {text[:60]!r} as the size of a file")
    return int(text)


def _sum(head: bytes) -> int:
    """Return the sum of the bytes of a header, several times faster than `sum`."""
    # The lower half of Adler-32 is the sum plus 1, modulo 65,521; 256 bytes sum up to 65,280.
    return (adler32(head[:256]) & 0xFFFF) + (adler32(head[256:]) & 0xFFFF) - 2


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # GNU: too large for octal digits
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.strip(b" \0")
    if digits.translate(None, b"01234567"):
        raise DamagedFileError(f"a header has {field!r} in a field for a number")
    return int(digits or b"0", 8)


def _name(head: bytes) -> str:
    name = head[:100].partition(b"\0")[0]
    if head[257:263] == b"ustar\0" and head[345]:
        name = head[345:500].partition(b"\0")[0] + b"/" + name
    return _text(name)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DamagedFileError(f"{raw[:60]!r}: a name that is not UTF-8") from None


def _extended(text: bytes) -> dict[str, str]:
    """Return the records of a pax header, each `LENGTH KEY=VALUE` with a line end."""
    found = {}
    while text:
        length = text.partition(b" ")[0]
        plausible = length.isdigit() and len(length) <= _MOST_DIGITS
        if not plausible or not 0 < int(length) <= len(text):
            raise DamagedFileError("a pax header contradicts itself")
        record, text = text[len(length) + 1 : int(length) - 1], text[int(length) :]
        key, _, value = record.partition(b"=")
        found[_text(key)] = _text(value)
    return found
