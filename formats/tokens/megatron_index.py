"""The .idx file of a Megatron or fairseq dataset: where each sequence is in the .bin file."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.pread import read_array
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.options import option

MAGIC = b"MMIDIDX\0\0"
# Those of other kinds of fairseq's datasets.
OTHERS = {b"TNTIDX\0\0": "cached", b"HUFFIDX\0": "huffman"}
VERSION = 1
HEADER = struct.Struct("<9sQBQQ")
# Without the number of documents.
_FAIRSEQ_HEADER = struct.Struct("<9sQBQ")
# Dtypes by their codes in the file.
DTYPES = dict(
    enumerate(["uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"], start=1)
)
_FAIRSEQ_DTYPES = DTYPES | {7: "float64", 9: "uint32", 10: "uint64"}
# Entries read and checked at a time; the index of a large dataset may exceed memory.
PORTION = 1 << 18


class Index:
    """An open .idx file, which was checked completely.

    fairseq's has no documents; its sequences are one after another, and are the whole .bin file.

    Args:
        source: the .idx file.
        bin_bytes: size of the .bin file.
        with_documents: whether to read the documents, if there are any.

    Attributes:
        dtype: of the tokens.
        sequences: number of sequences.
        has_documents: whether the file has documents.
        documents: number of documents, 0 if they are not read.
        tokens: number of tokens of all sequences together.
        has_modes: whether each sequence has a mode, an int8.

    Raises:
        DamagedFileError: the file contradicts itself, or points beyond the .bin file.
        UnsupportedError: another version, dtype or kind of index.
    """

    def __init__(self, source: Input, *, bin_bytes: int, with_documents: bool) -> None:
        self._fd = source.file.fileno()
        size = source.size_bytes or 0
        head = read_array(self._fd, min(size, HEADER.size), np.uint8, 0).tobytes()
        if (kind := OTHERS.get(head[: len(MAGIC) - 1])) is not None:
            raise UnsupportedError(
                f"is an index of fairseq for --dataset-impl {kind}; lod reads those for mmap, as "
                "fairseq-preprocess writes them by default"
            )
        fields = HEADER.unpack(head.ljust(HEADER.size, b"\0"))
        magic, version, code, self.sequences, documents = fields
        fairseq_bytes = _FAIRSEQ_HEADER.size + 12 * self.sequences
        self.has_documents = size != fairseq_bytes
        header_bytes = HEADER.size if self.has_documents else _FAIRSEQ_HEADER.size
        if size < header_bytes:
            raise DamagedFileError(
                f"is cut off: {size} bytes, its header has {header_bytes}{FETCH_AGAIN}"
            )
        if magic != MAGIC:
            raise DamagedFileError(f"does not begin with {MAGIC.rstrip(bytes(1)).decode()}")
        if version != VERSION:
            raise UnsupportedError(f"has version {version}; expected {VERSION}")
        dtypes = DTYPES if self.has_documents else _FAIRSEQ_DTYPES
        if code not in dtypes:
            raise UnsupportedError(f"has dtype code {code}; expected 1 to {len(dtypes)}")
        self.dtype = np.dtype(dtypes[code])
        self._lengths_at = header_bytes
        self._pointers_at = self._lengths_at + 4 * self.sequences
        self._documents_at = self._pointers_at + 8 * self.sequences
        self._modes_at = self._documents_at + 8 * documents * self.has_documents
        self.has_modes = size > self._modes_at
        expected = self._modes_at + self.sequences * self.has_modes
        if size != expected:
            raise DamagedFileError(
                f"announces {self.sequences} sequences: needs {fairseq_bytes} bytes as an index of "
                f"fairseq, or {expected} as one of Megatron with a document index of {documents}; "
                f"found {size}"
            )
        self.documents = 0
        if with_documents and self.has_documents:
            self.documents = documents - 1
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
                f"to read them without documents name one level: {option('levels', 'sequence')}"
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
                    f"the .bin file has {bin_bytes}; it is truncated or belongs to another .idx; "
                    "fetch or copy both again"
                )
            if not self.has_documents:
                self._check_joined(start, pointers, tokens * self.dtype.itemsize, sizes)
            tokens += int(lengths.sum(dtype=np.int64))
        if not self.has_documents and tokens * self.dtype.itemsize != bin_bytes:
            raise DamagedFileError(
                f"{tokens} tokens need {tokens * self.dtype.itemsize} bytes, the .bin file has "
                f"{bin_bytes}; it belongs to another .idx; fetch or copy both again"
            )
        if tokens * self.dtype.itemsize > bin_bytes:
            raise DamagedFileError(
                f"{tokens} tokens need {tokens * self.dtype.itemsize} bytes, the .bin file has "
                f"{bin_bytes}: sequences overlap"
            )
        return tokens

    def _check_joined(self, start: int, pointers: Array, begin: int, sizes: Offsets) -> None:
        """Raise DamagedFileError unless each sequence begins where the one before ends.

        It tells an index of fairseq from one of Megatron that is truncated to the same size.
        """
        expected = begin + np.cumsum(sizes) - sizes
        if (pointers != expected).any():
            at = int(np.argmax(pointers != expected))
            raise DamagedFileError(
                f"sequence {start + at} begins at byte {pointers[at]} of the .bin file; expected "
                f"{expected[at]}, where the one before ends"
            )


def portions(count: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of portions of `count` items; at least one, which may be (0, 0)."""
    for start in range(0, max(1, count), PORTION):
        yield start, min(start + PORTION, count)
