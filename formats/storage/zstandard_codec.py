"""Zstandard, from the package zstandard (the extra codecs)."""

from __future__ import annotations

from typing import Any, BinaryIO

from lodcli.formats.catalogue.packages import Package
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.kernels.errors import UnsupportedError

# A block of 128 KiB may be packed to four bytes: this becomes 32 MiB at most.
_BLOCK_BYTES = 1 << 10
# RFC 8878, 3.1.1: the magic number, and the longest header.
_HEADER_BYTES = 18
# Maximum window, and so memory, of decompression: the default limit of the tool zstd.
MOST_WINDOW_BYTES = 1 << 27


def pieces() -> Any:
    """Return the decompressor of a file."""
    return _Frames(_loaded("is compressed with Zstandard", ", or decompress it with `zstd -d`"))


def packer() -> Any:
    """Return a compressor."""
    return (
        _loaded("is to be compressed with Zstandard", ", or write .gz")
        .ZstdCompressor(write_checksum=True)
        .compressobj()
    )


def _loaded(use: str, otherwise: str) -> Any:
    try:
        import zstandard
    except ModuleNotFoundError:
        package = Package("zstandard", "lodcli[codecs]")
        raise package.missing(f"{use} (.zst), which", otherwise) from None
    return zstandard


class _Frames:
    """The frames of a file."""

    def __init__(self, package: Any) -> None:
        self._error = package.ZstdError
        self._magic, self._header = package.FRAME_HEADER, package.get_frame_parameters
        self._making = package.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES).decompressobj
        self._frame: Any = None
        self._left = b""
        self._summed: set[bool] = set()

    @property
    def checksums(self) -> str:
        """Which checksums were checked; "" if a frame had none, or there is no frame."""
        return "XXH64 of what zstd compressed" if self._summed == {True} else ""

    def next(self, packed: BinaryIO) -> bytes | None:
        """Return the next piece, None at the end."""
        if not self._left:
            self._left = packed.read(_BLOCK_BYTES)
        if not self._left:
            if self._frame is not None:
                raise DamagedFileError(f"zstd: is truncated: it ends in the middle{FETCH_AGAIN}")
            return None
        if self._frame is None:
            self._frame = self._making()
            while len(self._left) < _HEADER_BYTES and (more := packed.read(_BLOCK_BYTES)):
                self._left += more
            self._check_header()
        try:
            found: bytes = self._frame.decompress(self._left)
        except self._error as error:
            raise DamagedFileError(f"zstd: is damaged ({error})") from None
        self._left = b""
        if self._frame.eof:
            self._left, self._frame = self._frame.unused_data, None
        return found

    def _check_header(self) -> None:
        """Check the window of the next frame, and note whether it has a checksum."""
        try:
            header = self._header(self._left)
        except self._error:
            return  # decompressing it reports this
        if not self._left.startswith(self._magic):  # skippable, as pzstd writes one before each
            return
        self._summed.add(header.has_checksum)
        if header.window_size > MOST_WINDOW_BYTES:
            raise UnsupportedError(
                f"zstd: needs {header.window_size >> 20:,} MiB of memory to decompress, at most "
                f"{MOST_WINDOW_BYTES >> 20} are allowed; decompress it first with "
                "`zstd -d --long=31`"
            )
