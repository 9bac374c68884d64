"""Text in other encodings than UTF-8, turned into UTF-8 while it is read."""

from __future__ import annotations

import codecs
import io
from typing import Any, BinaryIO

from lodcli.kernels.errors import InvalidDataError, OptionError

_BLOCK_BYTES = 1 << 18


def encoding_named(name: str) -> str:
    """Return Python's name of an encoding.

    Raises:
        OptionError: it knows none of this name.

    >>> encoding_named("Latin1")
    'iso8859-1'
    """
    try:
        "a".encode(name)
        codecs.getincrementaldecoder(name)
        return codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        pass  # rot13, zlib and others are codecs, and no encodings of text
    raise OptionError(
        f"encoding: no encoding {name!r}; there are utf-8, utf-16, latin1, cp1252, shift_jis, "
        "gb18030 and all others of Python"
    )


def as_utf_8(file: BinaryIO, encoding: str) -> BinaryIO:
    """Return the content of a file as UTF-8.

    Raises, when it is read:
        InvalidDataError: some of it is not of the encoding.
    """
    return io.BufferedReader(_Recoded(file, encoding), _BLOCK_BYTES)


class _Recoded(io.RawIOBase):
    """A file in UTF-8; to go to a place is to read up to it again."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self._begin()

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self._encoding)("strict")
        self._ready = b""
        self._taken = self._done = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while not self._ready and self._recode_more():
            pass
        part, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(part)] = part
        self._done += len(part)
        return len(part)

    def _recode_more(self) -> bool:
        """Recode a block; return whether there was one."""
        block = self._file.read(_BLOCK_BYTES)
        waiting, _ = self._decoder.getstate()
        place = self._taken - len(waiting)
        self._taken += len(block)
        try:
            self._ready = self._decoder.decode(block, final=not block).encode()
        except UnicodeError as error:
            found = "a surrogate"
            if isinstance(error, UnicodeDecodeError):
                place += error.start
                found = f"0x{error.object[error.start : error.end][:8].hex()}"
            raise InvalidDataError(
                f"byte {place}: expected {self._encoding}, found {found}; give its --encoding"
            ) from None
        return bool(block)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            place += self._done
        elif whence != io.SEEK_SET:
            raise io.UnsupportedOperation("the end of recoded text is not known")
        if place < self._done:
            self._file.seek(0)
            self._begin()
        while self._done < place and self.read(min(place - self._done, _BLOCK_BYTES)):
            pass
        return self._done

    def tell(self) -> int:
        return self._done
