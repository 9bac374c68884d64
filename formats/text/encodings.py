"""Text in other encodings than UTF-8, converted to UTF-8 while it is read."""

from __future__ import annotations

import codecs
from typing import BinaryIO

from lodcli.formats.text.derived import Derived
from lodcli.kernels.errors import InvalidDataError, OptionError
from lodcli.kernels.options import option, option_name


def encoding_named(name: str) -> str:
    """Return Python's name of an encoding.

    Raises:
        OptionError: Python has no encoding of this name.

    >>> encoding_named("Latin1")
    'iso8859-1'
    """
    try:
        "a".encode(name)
        codecs.getincrementaldecoder(name)
        return codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        pass  # rot13, zlib and others are codecs, but not encodings of text
    raise OptionError(
        f"{option_name('encoding')}: no encoding {name!r}; there are utf-8, utf-16, latin1, "
        "cp1252, shift_jis, gb18030 and all others of Python"
    )


class Recoded(Derived):
    """A file of text as UTF-8.

    Args:
        file: at its beginning.
        encoding: that of the file.

    Raises, when it is read:
        InvalidDataError: bytes that are invalid in the encoding.
    """

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._encoding = encoding
        super().__init__(file)

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self._encoding)("strict")
        self._taken = 0

    def _next(self, block: bytes) -> bytes:
        waiting, _ = self._decoder.getstate()
        place = self._taken - len(waiting)
        self._taken += len(block)
        try:
            return self._decoder.decode(block, final=not block).encode()
        except UnicodeError as error:
            found, remedy = "a surrogate", f"give its {option('encoding')}"
            if "BOM" in str(error):  # a UnicodeDecodeError from Python 3.14 on
                found = "no byte order mark"
                remedy = (
                    f"give {option('encoding', f'{self._encoding}-le', f'{self._encoding}-be')}"
                )
            elif isinstance(error, UnicodeDecodeError):
                place += error.start
                found = f"0x{error.object[error.start : error.end][:8].hex()}"
            raise InvalidDataError(
                f"byte {place}: expected {self._encoding}, found {found}; {remedy}"
            ) from None
