"""Frames: the checksummed blocks of a lod stream. docs/stream.md, "Frames"."""

from __future__ import annotations

import contextlib
import io
import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

import numpy as np

from lodcli.formats.arrays import crc32c
from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.core.errors import (
    FETCH_AGAIN,
    DamagedFileError,
    NotThisFormatError,
    ProducerFailedError,
    naming,
)
from lodcli.formats.stream.shared_rows import REFERENCE, SLOT_BYTES, SharedReader, SharedWriter
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.platform import files

# Like PNG's: the first byte is not ASCII, and a transfer in text mode would change the line end.
MAGIC = b"\x89LODS\r\n"
VERSIONS = (1, 2)
PREFIX_BYTES = len(MAGIC) + 1

HEADER_BYTES = 24
PAYLOAD_LIMIT_BYTES = 256 << 20
_PIPE_BYTES = 1 << 20
_SMALL_BYTES = 64 << 10

# kind, three zeros, part, payload bytes, CRC32C of the payload
_CHECKED = struct.Struct("<B3sIQI")
_CRC = struct.Struct("<I")


class Kind(IntEnum):
    """Kind of a frame."""

    HEADER = 1
    BATCH = 2
    OFFSETS = 3
    ROWS = 4
    ORDER = 5
    TRAILER = 6
    VALID = 7
    SHARED = 8
    FAILED = 255


SPOKEN = {
    Kind.HEADER: "header",
    Kind.BATCH: "counts of a batch",
    Kind.OFFSETS: "offsets of a level",
    Kind.ROWS: "rows of data",
    Kind.ORDER: "order of the sequences",
    Kind.TRAILER: "trailer",
    Kind.VALID: "masks of nulls",
    Kind.SHARED: "rows of data in shared memory",
    Kind.FAILED: "failure of the producer",
}


@dataclass(frozen=True)
class Frame:
    """The header of a frame.

    Attributes:
        number: 0 for the first of the stream.
        kind: the kind of content of the payload.
        part: which level, tensor or batch.
        size_bytes: of the payload.
        crc32c: of the payload.
        shared: the payload of the SHARED frame, if the rows are in shared memory.
    """

    number: int
    kind: Kind
    part: int
    size_bytes: int
    crc32c: int
    shared: bytes = b""

    def __str__(self) -> str:
        return f"frame {self.number} ({SPOKEN[self.kind]})"


class Writable(Protocol):
    """Target of a stream: an Output, or a pipe to another process."""

    fd: int

    def write(self, data: bytes | memoryview) -> None:
        """Write all of it."""


class FrameWriter:
    """Writes the prefix of a stream, then frames.

    Args:
        shared: sends rows through shared memory; None: all rows go through `output`.

    Attributes:
        count: frames written so far.
        headers_crc32c: CRC32C of all their headers.
    """

    def __init__(
        self, output: Writable, version: int = 1, shared: SharedWriter | None = None
    ) -> None:
        self._shared = shared
        self.count = 0
        self.headers_crc32c = 0
        self._output = output
        # Small frames are written together: one system call, and a reader's first read from a
        # pipe gets the whole prefix.
        self._held = bytearray(MAGIC + bytes([version]))
        widen_pipe(output.fd)

    def write(self, kind: Kind, part: int, payload: Bytes) -> None:
        """Write one frame. The payload, flat and contiguous, is not copied if it is large."""
        checked = _CHECKED.pack(kind, b"\0\0\0", part, payload.size, crc32c.value(payload))
        header = checked + _CRC.pack(crc32c.value(checked))
        self.headers_crc32c = crc32c.extend(self.headers_crc32c, header)
        self.count += 1
        self._held += header
        if payload.size <= _SMALL_BYTES:
            self._held += payload.data
            if len(self._held) > 4 * _SMALL_BYTES:
                self.flush()
        else:
            self.flush()
            self._output.write(payload.data)

    def write_rows(self, part: int, block: Bytes) -> None:
        """Write rows of a tensor, through shared memory if the reader of the pipe supports it."""
        if self._shared is None:
            self.write(Kind.ROWS, part, block)
            return
        for start in range(0, block.size, SLOT_BYTES):
            piece = block[start : start + SLOT_BYTES]
            reference = self._shared.send(piece) if piece.size > _SMALL_BYTES else None
            if reference is None:
                self.write(Kind.ROWS, part, piece)
            else:
                self.write(Kind.SHARED, part, bytes_of(reference))
                # The writer may wait for a free slot next, and the reader for this frame.
                self.flush()

    def fail(self) -> None:
        """End the stream early with a FAILED frame; errors of the system are ignored."""
        with contextlib.suppress(OSError):
            self.write(Kind.FAILED, 0, bytes_of(b""))
            self.flush()

    def flush(self) -> None:
        """Write the buffered data."""
        if self._held:
            self._output.write(bytes(self._held))
            self._held.clear()


class FrameReader:
    """Reads the prefix of a stream, then frames.

    Args:
        file: a file or pipe at the start of a stream.
        shared: receives rows from shared memory; None: all rows come through `file`.

    Attributes:
        count: frames read so far.
        headers_crc32c: CRC32C of all their headers but the last.

    Raises:
        NotThisFormatError: no lod stream begins here.
        DamagedFileError: the beginning of a lod stream, but damaged.
        UnsupportedError: a stream of another version.
    """

    def __init__(self, file: io.BufferedIOBase, shared: SharedReader | None = None) -> None:
        self._shared = shared
        self.count = 0
        self.headers_crc32c = 0
        self._last = b""
        self._file = file
        self.version = _version(file.read(PREFIX_BYTES))

    def next(self) -> Frame:
        """Return the next frame's header; its payload must be read before the next one.

        Raises:
            DamagedFileError: the stream ends here, or the header is invalid.
            ProducerFailedError: the producer of the stream reports that it failed.
        """
        number = self.count
        raw = self._file.read(HEADER_BYTES)
        if len(raw) < HEADER_BYTES:
            raise _cut_off(f"in the header of frame {number}", HEADER_BYTES - len(raw))
        checked, (crc,) = raw[: _CHECKED.size], _CRC.unpack(raw[_CHECKED.size :])
        if crc32c.value(checked) != crc:
            raise DamagedFileError(
                f"frame {number}: the checksum of its header does not match; the stream was "
                f"altered{FETCH_AGAIN}"
            )
        kind, zeros, part, size_bytes, payload_crc = _CHECKED.unpack(checked)
        if (kind, zeros, part, size_bytes) == (Kind.FAILED, b"\0\0\0", 0, 0):
            raise ProducerFailedError("ends early: the command that wrote it failed")
        most = Kind.TRAILER if self.version == 1 else Kind.VALID
        is_shared = kind == Kind.SHARED and self._shared is not None and self._shared.listens
        if not (1 <= kind <= most or is_shared) or zeros != b"\0\0\0":
            raise DamagedFileError(
                f"frame {number}: expected kind 1 to {most}, found {raw[:4].hex(' ')}"
            )
        if size_bytes > PAYLOAD_LIMIT_BYTES:
            raise DamagedFileError(
                f"frame {number} ({SPOKEN[kind]}): announces {size_bytes} bytes; "
                f"at most {PAYLOAD_LIMIT_BYTES} are allowed"
            )
        self.count += 1
        self.headers_crc32c = crc32c.extend(self.headers_crc32c, self._last)
        self._last = raw
        frame = Frame(number, Kind(kind), part, size_bytes, payload_crc)
        return self._rows_of(frame) if is_shared else frame

    def _rows_of(self, frame: Frame) -> Frame:
        """Return the frame of the rows that a SHARED frame refers to."""
        assert self._shared is not None
        payload = self.payload(frame, REFERENCE.size)
        with naming(str(frame)):
            size = self._shared.size_bytes(payload)
        return replace(frame, kind=Kind.ROWS, size_bytes=size, shared=payload)

    def payload(self, frame: Frame, limit_bytes: int) -> bytes:
        """Return the payload of a frame that may have at most `limit_bytes`."""
        if frame.size_bytes > limit_bytes:
            raise DamagedFileError(
                f"{frame}: announces {frame.size_bytes} bytes; at most {limit_bytes} are allowed"
            )
        raw = self._file.read(frame.size_bytes)
        if len(raw) < frame.size_bytes:
            raise _cut_off(f"in {frame}", frame.size_bytes - len(raw))
        _check_payload(frame, crc32c.value(raw))
        return raw

    def payload_into(self, frame: Frame, out: Bytes) -> None:
        """Read the payload of a frame into `out`, which has its size."""
        if frame.shared and self._shared is not None:
            with naming(str(frame)):
                self._shared.receive(frame.shared, out)
            return
        view, done = memoryview(out.data), 0
        while done < len(view):
            # BufferedIOBase.readinto fills all it can; 0 is the end.
            got = self._file.readinto(view[done:])
            if not got:
                raise _cut_off(f"in {frame}", len(view) - done)
            done += got
        _check_payload(frame, crc32c.value(out))

    def end(self) -> None:
        """Check that nothing follows."""
        more = self._file.read(PREFIX_BYTES)
        if more.startswith(MAGIC):
            raise DamagedFileError(
                "a second stream follows the first; `cat` cannot join streams, `lod concat` can"
            )
        if more:
            raise DamagedFileError(f"data follows the trailer ({more[:8].hex(' ')} ..)")


def bytes_of(raw: bytes) -> Bytes:
    """Return the bytes as a payload."""
    return np.frombuffer(raw, np.uint8)


def widen_pipe(fd: int) -> None:
    """Enlarge the buffer of a pipe: on a busy machine 64 KiB gave 1 GB/s, this size gave 2."""
    files.widen_pipe(fd, _PIPE_BYTES)


def _check_payload(frame: Frame, crc: int) -> None:
    if crc != frame.crc32c:
        raise DamagedFileError(
            f"{frame}: the checksum does not match; the stream was altered{FETCH_AGAIN}"
        )


def _cut_off(where: str, missing: int) -> DamagedFileError:
    return DamagedFileError(
        f"cut off {where}: expected {missing} more bytes; the producer may have died"
    )


_TEXT_MODE = {
    b"\x89LODS\n": "its line ends were changed (text mode, or git)",
    b"\x89LODS\r\r\n": "its line ends were changed (text mode)",
    b"\tLODS": "the highest bit of its bytes is gone",
    b"\xc2\x89LODS": "it was converted from Latin-1 to UTF-8",
    b"\xef\xbf\xbdLODS": "it was decoded as text, and its other bytes are lost",
}


def looks_like_stream(head: bytes) -> bool:
    """Return whether a lod stream of any version begins here, also one changed by text mode."""
    return head.startswith((MAGIC, *_TEXT_MODE))


def _version(prefix: bytes) -> int:
    """Return the version of the stream that begins with these bytes."""
    if prefix.startswith(MAGIC) and len(prefix) == PREFIX_BYTES:
        if prefix[-1] in VERSIONS:
            return prefix[-1]
        raise UnsupportedError(
            f"lod stream of version {prefix[-1]}; this program reads versions 1 and 2"
        )
    for begin, cause in _TEXT_MODE.items():
        if prefix.startswith(begin):
            raise DamagedFileError(f"was a lod stream, but {cause}; transfer it as binary")
    if MAGIC.startswith(prefix):
        raise _cut_off("in its first bytes", PREFIX_BYTES - len(prefix))
    raise NotThisFormatError(f"is not a lod stream: begins with {prefix.hex(' ')}")
