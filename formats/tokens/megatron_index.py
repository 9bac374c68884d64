"""The .idx file of a Megatron dataset: the position of each sequence in the .bin file."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.pread import read_array
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets

MAGIC = b"MMIDIDX\0\0"
VERSION = 1
HEADER = struct.Struct("<9sQBQQ")
# Dtypes by their codes in the file.
DTYPES = dict(
    enumerate(["uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"], start=1)
)
# Entries read and checked at a time; the index of a large dataset may exceed memory.
PORTION = 1 << 18


class Index:
    """An open .idx file, which was checked completely.

    Attributes:
        dtype: of the tokens.
        sequences: number of sequences.
        documents: number of documents.
        tokens: number of tokens of all sequences together.
        has_modes: whether each sequence has a mode, an int8.

    Raises:
        DamagedFileError: the file contradicts itself, or points beyond the .bin file.
    """

    def __init__(self, source: Input, *, bin_bytes: int, with_documents: bool) -> None:
        self._fd = source.file.fileno()
        size = source.size_bytes or 0
        if size < HEADER.size:
            raise DamagedFileError(f"is cut off: {size} bytes, its header has {HEADER.size}")
        head = read_array(self._fd, HEADER.size, np.uint8, 0).tobytes()
        magic, version, code, self.sequences, documents = HEADER.unpack(head)
        if magic != MAGIC:
            raise DamagedFileError(f"does not begin with {MAGIC.rstrip(bytes(1)).decode()}")
        if version != VERSION:
            raise UnsupportedError(f"has version {version}; expected {VERSION}")
        if code not in DTYPES:
            raise UnsupportedError(f"has dtype code {code}; expected 1 to {len(DTYPES)}")
        self.dtype = np.dtype(DTYPES[code])
        self._lengths_at = HEADER.size
        self._pointers_at = self._lengths_at + 4 * self.sequences
        self._documents_at = self._pointers_at + 8 * self.sequences
        self._modes_at = self._documents_at + 8 * documents
        self.has_modes = size > self._modes_at
        expected = self._modes_at + self.sequences * self.has_modes
        if size != expected:
            raise DamagedFileError(
                f"announces {self.sequences} sequences and a document index of {documents}: "
                f"needs {expected} bytes, found {size}"
            )
        self.documents = documents - 1 if with_documents else 0
        if with_documents:
            self._check_documents(documents)
        self.tokens = self._checked_tokens(bin_bytes)

    # -- the arrays, items start to stop -----------------------------------------------

    def lengths(self, start: int, stop: int) -> Array:
        """Return the number of tokens of each sequence, int32."""
        return self._read("<i4", self._lengths_at, start, stop)

    def pointers(self, start: int, stop: int) -> Array:
        """Return the position of each sequence in the .bin file, in bytes."""
        return self._read("<i8", self._pointers_at, start, stop)

    def document_offsets(self, start: int, stop: int) -> Offsets:
        """Return the first sequence of the documents start to stop, and the end of the last."""
        return self._read("<i8", self._documents_at, start, stop + 1)

    def modes(self, start: int, stop: int) -> Array:
        """Return the mode of each sequence, int8."""
        return self._read("i1", self._modes_at, start, stop)

    def _read(self, dtype: str, position: int, start: int, stop: int) -> Array:
        position += start * np.dtype(dtype).itemsize
        return read_array(self._fd, stop - start, dtype, position)

    # -- checks ------------------------------------------------------------------------

    def _check_documents(self, count: int) -> None:
        if not count:
            raise DamagedFileError("has no document index; expected at least its closing total")
        last = 0
        for start, stop in portions(count):
            part = self._read("<i8", self._documents_at, start, stop)
            if start == 0 and part[0] != 0:
                raise DamagedFileError(f"document index: expected 0 first, found {part[0]}")
            steps = np.diff(part, prepend=last)
            if (steps < 0).any():
                at = int(np.argmax(steps < 0))
                before = part[at - 1] if at else last
                raise DamagedFileError(
                    f"document index decreases at position {start + at} ({before}, then {part[at]})"
                )
            last = int(part[-1])
        if last != self.sequences:
            raise DamagedFileError(
                f"document index ends at {last}, but there are {self.sequences} sequences; "
                "to read them without documents name one level: --levels sequence"
            )

    def _checked_tokens(self, bin_bytes: int) -> int:
        """Return the number of tokens, checked: sequences are within the .bin file."""
        tokens = 0
        for start, stop in portions(self.sequences):
            lengths, pointers = self.lengths(start, stop), self.pointers(start, stop)
            if (lengths < 0).any():
                at = int(np.argmax(lengths < 0))
                raise DamagedFileError(f"sequence {start + at} has length {lengths[at]}")
            sizes = lengths.astype(np.int64) * self.dtype.itemsize
            # Not pointer + size, which may overflow.
            outside = (pointers < 0) | (pointers > bin_bytes - sizes)
            if outside.any():
                at = int(np.argmax(outside))
                raise DamagedFileError(
                    f"sequence {start + at} needs {sizes[at]} bytes from {pointers[at]} on, "
                    f"the .bin file has {bin_bytes}; it is truncated or belongs to another .idx"
                )
            tokens += int(lengths.sum(dtype=np.int64))
        if tokens * self.dtype.itemsize > bin_bytes:
            raise DamagedFileError(
                f"{tokens} tokens need {tokens * self.dtype.itemsize} bytes, the .bin file has "
                f"{bin_bytes}: sequences overlap"
            )
        return tokens


def portions(count: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of portions of `count` items; at least one, which may be (0, 0)."""
    for start in range(0, max(1, count), PORTION):
        yield start, min(start + PORTION, count)
