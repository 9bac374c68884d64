"""gzip and Zstandard: decompression while reading, compression while writing."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError

# The first bytes of a compressed file, and its extension.
MAGICS = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
# Short for .tar and the extension of a compression.
_TAR_SUFFIXES = {".tgz": ".tar.gz"}
MAGIC_BYTES = 4
# The first bytes of a frame without content, with which pzstd begins (RFC 8878, 3.1.2).
_SKIPPABLE = [bytes([byte]) for byte in range(0x50, 0x60)]
_BLOCK_BYTES = 1 << 18
# The most bytes that are compressed or decompressed at once, whatever their compressed size: no
# interrupt is handled meanwhile, and gzip takes a second for 10 MB.
_UNPACKED_BYTES = 1 << 20


def codec_of(head: bytes) -> str | None:
    """Return the codec of a file with this beginning, None if not compressed."""
    if head[:1] in _SKIPPABLE and head[1:4] == b"\x2a\x4d\x18":
        return "zstd"
    return next((codec for magic, codec in MAGICS.items() if head.startswith(magic)), None)


def suffix_codec(name: str) -> str | None:
    """Return the codec for the extension of a file name, None for others."""
    full = _in_full(name).lower()
    for suffix, codec in SUFFIXES.items():
        if full.endswith(suffix):
            return codec
    return None


def codec_suffix(codec: str) -> str:
    """Return the extension of files compressed with a codec."""
    return next(suffix for suffix, one in SUFFIXES.items() if one == codec)


def without_suffix(name: str) -> str:
    """Return the name of a file without the extension of its compression."""
    full = _in_full(name)
    return full.rpartition(".")[0] if suffix_codec(full) else name


def _in_full(name: str) -> str:
    """Return a file name with .tar.gz in place of .tgz."""
    short = name[-4:].lower()
    return name[: -len(short)] + _TAR_SUFFIXES[short] if short in _TAR_SUFFIXES else name


class Unpacked(io.RawIOBase):
    """The decompressed content of a file, in constant memory.

    Args:
        packed: the compressed file.
        codec: "gzip" or "zstd".

    Attributes:
        bounds: limit on the decompressed size.

    Raises, when it is read:
        DamagedFileError: it is truncated or altered, or other data follows it.
        TooLargeError: the decompressed size is over the limit.
    """

    def __init__(self, packed: BinaryIO, codec: str) -> None:
        self._packed = packed
        self._codec = codec
        self._pieces = _Gzip() if codec == "gzip" else _zstandard().pieces()
        self._ready = b""
        self._done = 0
        self.bounds = Bounds()

    @property
    def checksums(self) -> str:
        """Which checksums of the read data were checked; "" for none."""
        return str(self._pieces.checksums)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the descriptor of the compressed file."""
        return self._packed.fileno()

    def look(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end; they will be read again."""
        while len(self._ready) < size and self._unpack_more():
            pass
        return self._ready[:size]

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while not self._ready and self._unpack_more():
            pass
        part, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(part)] = part
        return len(part)

    def _unpack_more(self) -> bool:
        """Decompress the next piece; return whether there was one."""
        try:
            found = self._pieces.next(self._packed)
        except zlib.error as error:
            raise DamagedFileError(f"{self._codec}: is damaged ({error})") from None
        self._ready += found or b""
        self._done += len(found or b"")
        self.bounds.check(self._done, "decompresses to at least")
        return found is not None

    def close(self) -> None:
        self._packed.close()
        super().close()


class _Gzip:
    """The members of a gzip file."""

    checksums = "CRC-32 of what gzip compressed"

    def __init__(self) -> None:
        self._member: Any = None
        self._left = b""

    def next(self, packed: BinaryIO) -> bytes | None:
        """Return the next piece, None at the end."""
        if not self._left:
            self._left = packed.read1(_BLOCK_BYTES)  # type: ignore[attr-defined]
        if not self._left and self._member is None:
            return None
        if self._member is None:
            self._left = self._left.lstrip(b"\0")  # files from tapes are padded with zeros
            if not self._left:
                return b""
            self._member = zlib.decompressobj(wbits=31)
        ended = not self._left
        found: bytes = self._member.decompress(self._left, _UNPACKED_BYTES)
        self._left = self._member.unconsumed_tail
        if ended and not found and not self._member.eof:
            raise DamagedFileError(f"gzip: is truncated: it ends in the middle{FETCH_AGAIN}")
        if self._member.eof:
            self._left, self._member = self._member.unused_data, None
        return found


class Packer:
    """Compresses written data incrementally.

    Args:
        write: receives the compressed data.
        codec: "gzip" or "zstd".
    """

    def __init__(self, write: Callable[[bytes], None], codec: str) -> None:
        if codec == "gzip":
            packer: Any = zlib.compressobj(6, wbits=31)  # no name, no time: equal files
        else:
            packer = _zstandard().packer()
        self._packer = packer
        self._write = write

    def write(self, data: bytes | memoryview) -> None:
        """Compress and write."""
        view = memoryview(data)
        if not view.nbytes:  # a shape with a zero in it cannot be cast
            return
        view = view.cast("B")
        for start in range(0, view.nbytes, _UNPACKED_BYTES):
            self._write(self._packer.compress(view[start : start + _UNPACKED_BYTES]))

    def finish(self) -> None:
        """Write the remaining data."""
        self._write(self._packer.flush())


def require_zstandard() -> None:
    """Raise UnsupportedError if Zstandard is not installed."""
    _zstandard().packer()


def _zstandard() -> Any:
    from lodcli.formats.storage import zstandard_codec

    return zstandard_codec
