"""The datasets of a container: their position, checked against the header."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lodcli.formats.container import parser
from lodcli.formats.container.chunks import (
    CODECS,
    FILTERS,
    MAX_EXPANSION,
    SHUFFLE,
    most_expansion,
    most_stored_bytes,
)
from lodcli.formats.container.header import LIMIT_BYTES, PATH, DatasetEntry, as_tree
from lodcli.formats.container.parser import Blocks, Link, Messages
from lodcli.formats.container.types import datatype_message, numpy_type, string_message
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.kernels.errors import LodError

MAX_CHUNK_BYTES = 1 << 20
# From this number on `alike` checks datasets: parsing fewer one by one takes less time.
MANY = 100
_CONTIGUOUS, _CHUNKED = 1, 2
_GROUP = frozenset({parser.GROUP})
_DATASET = frozenset({parser.DATASPACE, parser.DATATYPE, parser.FILL, parser.LAYOUT})
_FILTERED = _DATASET | {parser.FILTERS}

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chunks:
    """The chunks of a dataset, in order.

    Attributes:
        offsets: position of each in the file.
        sizes: stored bytes of each.
        skipped: for each, a bit mask of the filters that were not applied.
        filters: codes of the dataset's filters, in the order in which they were applied.
    """

    offsets: Int64s
    sizes: Int64s
    skipped: Int64s
    filters: tuple[int, ...]


class StoredDataset(NamedTuple):
    """A dataset that matches its entry in the header.

    Attributes:
        offset: position of its rows in the file; None if chunked, or without bytes.
        chunks: None if contiguous.
    """

    offset: int | None
    chunks: Chunks | None = None


class _Layout(NamedTuple):
    """Position of the bytes of a dataset.

    Attributes:
        address: of the bytes, or of the index of the chunks.
        size: of the bytes; 0 if chunked.
        chunk: shape of a chunk, () if contiguous.
    """

    address: int
    size: int
    chunk: tuple[int, ...] = ()


class ContainerFile:
    """The structure of a container.

    Args:
        fd: an open descriptor of the file; the caller keeps and closes it.
        size: bytes of the file.

    Raises:
        NotThisFormatError: no HDF5 file, or not one that lod wrote.
        DamagedFileError: one that breaks a rule.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._blocks = Blocks(fd, size)
        root = parser.root_of(self._blocks)
        messages = parser.messages_at(self._blocks, root.address or 0, "/")
        if parser.GROUP not in messages.by_kind:
            raise parser.foreign("unlike containers written by lod (its root group differs)")
        self._links = parser.links_of(self._blocks, root, messages, "/")
        if PATH[1:] not in self._links:
            raise parser.foreign()
        if messages.problem is not None:
            raise DamagedFileError(f"/: {messages.problem}")
        _require_only(messages, _GROUP, "/")
        parser.check_end(self._blocks)

    @property
    def parts(self) -> list[tuple[int, bytes]]:
        """The first parts of the file that were read; see `Blocks`."""
        return self._blocks.parts

    def header(self) -> bytes:
        """Return the text of the header."""
        messages = self._dataset_at(self._links[PATH[1:]], PATH)
        layout = _layout(messages, PATH)
        if layout.chunk:
            raise DamagedFileError(f"{PATH}: must be contiguous")
        kind = messages.by_kind[parser.DATATYPE]
        size = int.from_bytes(kind[4:8], "little")
        if kind != string_message(size):
            raise DamagedFileError(
                f"{PATH}: must be a fixed-length string, null-padded, of ASCII characters"
            )
        scalar = messages.by_kind[parser.DATASPACE] == struct.pack("<B7x", 1)
        if not scalar or not 2 <= size <= min(LIMIT_BYTES, self._blocks.size):
            raise DamagedFileError(f"{PATH}: must be one string within the file")
        _check_others(messages, PATH)
        offset = self._place(layout, PATH, size)
        return self._blocks.look(offset, size)

    def datasets(self, entries: Mapping[str, DatasetEntry]) -> dict[str, StoredDataset]:
        """Return the datasets that the header names, if the file holds these and no others."""
        expected = as_tree({path: path for path in entries})
        if len(entries) >= MANY:
            from lodcli.formats.container import alike

            with suppress(alike.UnlikeError, LodError):
                places = alike.positions(self._blocks, self._links, expected, entries, self._check)
                return {path: StoredDataset(places[path]) for path in entries}
        expected[PATH[1:]] = PATH
        found: dict[str, StoredDataset] = {}
        waiting: list[tuple[str, dict[str, Link], dict[str, Any]]] = [("", self._links, expected)]
        while waiting:
            parent, links, names = waiting.pop()
            _check_names(parent, links, names)
            for name, what in names.items():
                path, link = f"{parent}/{name}", links[name]
                if isinstance(what, dict):
                    waiting.append((path, self._group(link, path), what))
                elif path != PATH:
                    found[path] = self._dataset(link, path, entries[path])
        self._check_overlaps(found)
        # In the order of the header, so that errors are reported in that order.
        return {path: found[path] for path in entries}

    def _group(self, link: Link, path: str) -> dict[str, Link]:
        messages = parser.object_at(self._blocks, link, path)
        if parser.GROUP not in messages.by_kind:
            raise DamagedFileError(f"{path}: is a dataset; must be a group")
        _require_only(messages, _GROUP, path)
        return parser.links_of(self._blocks, link, messages, path)

    def _dataset_at(self, link: Link, path: str) -> Messages:
        messages = parser.object_at(self._blocks, link, path)
        if parser.GROUP in messages.by_kind:
            raise DamagedFileError(f"{path}: is a group; must be a dataset")
        if not messages.by_kind.keys() >= _DATASET:
            raise DamagedFileError(f"{path}: its object header is damaged")
        return messages

    def _check(self, link: Link, path: str, entry: DatasetEntry) -> None:
        """Raise the errors of `_dataset`, without claims."""
        other = copy(self)
        other._blocks = Blocks(self._blocks.fd, self._blocks.size)
        other._dataset(link, path, entry)

    def _dataset(self, link: Link, path: str, entry: DatasetEntry) -> StoredDataset:
        messages = self._dataset_at(link, path)
        if messages.by_kind[parser.DATATYPE] != datatype_message(entry.dtype):
            raise DamagedFileError(f"{path}: is not stored as little-endian {entry.dtype}")
        shape = _shape(messages.by_kind[parser.DATASPACE], path)
        if shape != entry.shape:
            raise DamagedFileError(f"{path}: expected shape {entry.shape}, found {shape}")
        size = math.prod(shape) * numpy_type(entry.dtype).itemsize
        if not size:
            # Rows without bytes take no space in the file, but row numbers take memory.
            _refuse_expansion(path, shape[0], self._blocks.size, MAX_EXPANSION, "rows")
        layout = _layout(messages, path)
        _check_others(messages, path)
        filters = _filters(messages.by_kind.get(parser.FILTERS), path, entry)
        if layout.chunk:
            return StoredDataset(None, self._chunks(layout, path, entry, filters))
        if filters:
            raise DamagedFileError(f"{path}: has filters, and is contiguous")
        return StoredDataset(self._place(layout, path, size) if size else None)

    def _place(self, layout: _Layout, path: str, size: int) -> int:
        if layout.address == parser.NOWHERE:
            raise DamagedFileError(f"{path}: its rows were not written")
        if layout.size != size:
            raise DamagedFileError(f"{path}: has {layout.size} bytes, its rows need {size}")
        self._blocks.claim(layout.address, size, path)
        return layout.address

    def _chunks(
        self, layout: _Layout, path: str, entry: DatasetEntry, filters: tuple[int, ...]
    ) -> Chunks:
        item_bytes = numpy_type(entry.dtype).itemsize
        rows, row_shape = entry.block_rows, entry.shape[1:]
        chunk = layout.chunk
        if chunk != (rows, *(max(1, extent) for extent in row_shape), item_bytes):
            raise DamagedFileError(
                f"{path}: chunks of {chunk[:-1]} are not whole rows by blocks of {rows}"
            )
        row_bytes = math.prod(row_shape) * item_bytes
        if rows > 1 and rows * row_bytes > MAX_CHUNK_BYTES:
            raise DamagedFileError(f"{path}: chunks of {chunk[:-1]} are too large")
        blocks = -(-entry.shape[0] // rows) if row_bytes else 0
        table = self._chunk_table(layout.address, path, len(chunk), blocks, rows)
        sizes = table["size"].astype(np.int64)
        most = most_stored_bytes(rows * row_bytes)
        if blocks and (int(sizes.max()) > most or not int(sizes.min())):
            raise DamagedFileError(f"{path}: a chunk of {int(sizes.max())} bytes, at most {most}")
        offsets = table["child"].astype(np.int64)
        if blocks and (
            int(table["child"].max()) > self._blocks.size
            or int((offsets + sizes).max()) > self._blocks.size
        ):
            raise DamagedFileError(
                f"{path}: a chunk is beyond the end of the file; it is truncated{FETCH_AGAIN}"
            )
        stored = min(int(sizes.sum()), self._blocks.size)
        _refuse_expansion(path, entry.shape[0] * row_bytes, stored, most_expansion(filters))
        return Chunks(offsets, sizes, table["skipped"].astype(np.int64), filters)

    def _chunk_table(
        self, address: int, path: str, axes: int, blocks: int, rows: int
    ) -> npt.NDArray[Any]:
        """Return size, skipped filters, start and address of every chunk, in order.

        Args:
            address: of the root of their B-tree.
            axes: numbers in the position of a chunk: one per axis, and a 0.
            blocks: expected number of chunks.
            rows: rows per chunk.
        """
        kind = np.dtype(
            [("size", "<u4"), ("skipped", "<u4"), ("start", "<u8", (axes,)), ("child", "<u8")]
        )
        none = address == parser.NOWHERE
        node_bytes = 24 + parser.CHUNKS_A_NODE * kind.itemsize + kind.itemsize - 8
        done, parts = 0, [np.empty(0, kind)]
        for leaf in (
            ()
            if none
            else parser.walk(
                self._blocks, address, 1, node_bytes, kind.itemsize - 8, parser.CHUNKS_A_NODE, path
            )
        ):
            parts.append(np.frombuffer(leaf, kind, len(leaf) // kind.itemsize))
            done += parts[-1].size
            if done > blocks:
                raise DamagedFileError(f"{path}: {blocks} chunks expected, found more")
        if done < blocks:
            raise DamagedFileError(f"{path}: {blocks} chunks expected, found {done}")
        table = np.concatenate(parts)
        starts = table["start"]
        if starts[:, 1:].any() or (starts[:, 0] != np.arange(blocks, dtype=np.uint64) * rows).any():
            raise DamagedFileError(f"{path}: its chunks are not in order")
        return table

    def _check_overlaps(self, datasets: Mapping[str, StoredDataset]) -> None:
        """Raise DamagedFileError if two structures, datasets or chunks claim the same bytes."""
        extents: list[tuple[int, int, str]] = []
        for path, stored in datasets.items():
            if stored.chunks is None or not stored.chunks.offsets.size:
                continue
            order = np.argsort(stored.chunks.offsets, kind="stable")
            starts = stored.chunks.offsets[order]
            ends = starts + stored.chunks.sizes[order]
            if (starts[1:] < ends[:-1]).any():
                raise DamagedFileError(f"{path}: its chunks overlap")
            extents += _merged(starts, ends, path)
        self._blocks.check_overlaps(extents)


def _merged(starts: Int64s, ends: Int64s, path: str) -> list[tuple[int, int, str]]:
    """Return the extents of chunks, with adjacent ones merged."""
    first = np.flatnonzero(np.concatenate([[True], starts[1:] != ends[:-1]]))
    last = np.append(first[1:], starts.size) - 1
    return [
        (start, end, path)
        for start, end in zip(starts[first].tolist(), ends[last].tolist(), strict=True)
    ]


def _check_names(parent: str, links: Mapping[str, Link], expected: Mapping[str, Any]) -> None:
    """Raise DamagedFileError unless a group links to exactly these names."""
    for name, link in links.items():
        if link.address is None:
            raise DamagedFileError(
                f"{parent}/{name}: is a soft or external link; a lod container has none"
            )
        if name not in expected:
            raise DamagedFileError(f"{parent}/{name}: is not named by the header")
    for name in sorted(expected.keys() - links.keys()):
        raise DamagedFileError(f"{parent}/{name}: is missing")


def _require_only(messages: Messages, kinds: frozenset[int], path: str) -> None:
    for kind in () if messages.by_kind.keys() <= kinds else messages.by_kind.keys() - kinds:
        raise DamagedFileError(f"{path}: has a message {kind:#06x}, which lod never writes")


def _check_others(messages: Messages, path: str) -> None:
    """Raise DamagedFileError if there are messages of other kinds, or there is a fill value."""
    _require_only(messages, _FILTERED, path)
    fill = messages.by_kind[parser.FILL]
    # Version 2, and no value. Its write time does not matter: all rows are stored.
    if len(fill) != 8 or fill[0] != 2 or fill[4:] != bytes(4):
        raise DamagedFileError(f"{path}: has a fill value; a lod container has none")


def _shape(content: bytes, path: str) -> tuple[int, ...]:
    """Return the extents in a dataspace message."""
    # Version, number of axes, and whether maximum extents follow, which HDF5 checks.
    version, axes, flags = content[0], content[1], content[2]
    if version != 1 or flags > 1 or len(content) != 8 + 8 * axes * (1 + flags):
        raise DamagedFileError(f"{path}: its dataspace differs from those written by lod")
    shape = struct.unpack_from(f"<{axes}Q", content, 8)
    most = struct.unpack_from(f"<{axes * flags}Q", content, 8 + 8 * axes)
    if any(size > limit for size, limit in zip(shape, most, strict=False)):
        raise DamagedFileError(f"{path}: its dataspace is damaged")
    return shape


def _layout(messages: Messages, path: str) -> _Layout:
    content = messages.by_kind[parser.LAYOUT]
    version, kind = content[0], content[1]
    if version == 3 and kind == _CONTIGUOUS and len(content) == 24:
        return _Layout(*struct.unpack_from("<QQ", content, 2))
    if version == 3 and kind == _CHUNKED and len(content) >= 11 + 4 * content[2]:
        axes, address = struct.unpack_from("<BQ", content, 2)
        return _Layout(address, 0, struct.unpack_from(f"<{axes}I", content, 11))
    if version <= 4 and kind in (0, 3):
        name = "virtual" if kind else "compact"
        raise DamagedFileError(f"{path}: is {name}; must be contiguous or chunked")
    raise DamagedFileError(f"{path}: its layout differs from those written by lod")


def _filters(content: bytes | None, path: str, entry: DatasetEntry) -> tuple[int, ...]:
    """Return the codes of a dataset's filters, in the order in which they were applied."""
    if content is None:
        return ()
    damaged = DamagedFileError(f"{path}: its filters are damaged")
    version, count = content[:2]
    if version != 1:
        raise damaged
    codes, place = [], 8
    for _ in range(count):
        if place + 8 > len(content):
            raise damaged
        code, name, _, values = struct.unpack_from("<4H", content, place)
        place += 8 + -(-name // 8) * 8
        if code == SHUFFLE and content[place : place + 4] != struct.pack(
            "<I", numpy_type(entry.dtype).itemsize
        ):
            raise damaged
        place += -(-values // 2) * 8
        codes.append(code)
    if place > len(content):
        raise damaged
    for code in codes:
        if code not in FILTERS:
            allowed = ", ".join(FILTERS.values())
            raise DamagedFileError(f"{path}: filter {code} is not allowed ({allowed})")
    codec = codes[1:] if codes[:1] == [SHUFFLE] else codes
    if len(codec) > 1 or (codec and codec[0] not in CODECS.values()):
        raise DamagedFileError(
            f"{path}: filters {codes}; must be shuffle, one codec, or both in this order"
        )
    return tuple(codes)


def _refuse_expansion(path: str, size: int, stored: int, most: int, what: str = "bytes") -> None:
    if size > stored * most + MAX_CHUNK_BYTES:
        raise DamagedFileError(f"{path}: {size} {what} cannot come from {stored} stored bytes")
