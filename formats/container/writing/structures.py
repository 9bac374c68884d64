"""The HDF5 structures of a container as bytes, which `parser` reads: docs/format.md, section 4."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from lodcli.formats.container import parser
from lodcli.formats.container.parser import CHILDREN_A_NODE, NAMES_A_LEAF, NOWHERE
from lodcli.formats.core.table import HDF5_MAGIC

SUPERBLOCK_BYTES = 96
# Structures are written when this many bytes are waiting.
_HELD_BYTES = 4 << 20
_SUPERBLOCK = struct.Struct("<8s8B2HI4Q")
_ENTRY = struct.Struct("<QQIIQQ")
_ENTRIES_BYTES = _ENTRY.size * NAMES_A_LEAF
_CONTIGUOUS, _CHUNKED = 1, 2
# A message that never changes.
_CONSTANT = 1
# Version 2 without a value: allocated early and never filled, or with each chunk.
_FILL = {_CONTIGUOUS: bytes([2, 1, 1, 1, 0, 0, 0, 0]), _CHUNKED: bytes([2, 3, 0, 1, 0, 0, 0, 0])}


class Chunk(NamedTuple):
    """A stored chunk: its address, its bytes, and a bit mask of the filters that it lacks."""

    address: int
    size: int
    skipped: int


class ChunkedRows(NamedTuple):
    """Rows in chunks.

    Attributes:
        rows: of a chunk.
        item_bytes: of a number.
        filters: the content of the filter message.
        chunks: in order.
    """

    rows: int
    item_bytes: int
    filters: bytes
    chunks: Sequence[Chunk]


class PlacedDataset(NamedTuple):
    """A dataset whose rows are in the file.

    Attributes:
        datatype: the content of the datatype message.
        shape: () for a single value.
        address: of contiguous rows; NOWHERE without bytes.
        size: of contiguous rows, in bytes.
        chunked: of rows in chunks; else None.
    """

    datatype: bytes
    shape: tuple[int, ...]
    address: int = NOWHERE
    size: int = 0
    chunked: ChunkedRows | None = None


Group = Mapping[str, "PlacedDataset | Group"]


class _Place(NamedTuple):
    """The addresses of an object header, and of the tree and the heap of a group."""

    header: int
    tree: int = 0
    heap: int = 0


class StructureWriter:
    """Writes structures one after another.

    Args:
        put: writes bytes at a position.
        start: the position of the first structure, a multiple of 8.
    """

    def __init__(self, put: Callable[[bytes, int], None], start: int) -> None:
        self._put = put
        self._start = start
        self._held = bytearray()

    @property
    def _end(self) -> int:
        return self._start + len(self._held)

    def finish(self, root: Group) -> None:
        """Write all objects, and the superblock last."""
        place = self._group(root)
        self._flush()
        # Widths of addresses and lengths, ranks of B-trees, the end, and the entry of the root.
        head = _SUPERBLOCK.pack(
            *(HDF5_MAGIC, 0, 0, 0, 0, 0, 8, 8, 0, NAMES_A_LEAF // 2, CHILDREN_A_NODE // 2),
            *(0, 0, NOWHERE, self._end, NOWHERE),
        )
        self._put(head + _entry(0, place), 0)

    def _add(self, block: bytes) -> int:
        """Write a structure, and return its address."""
        address = self._end
        self._held += block.ljust(-(-len(block) // 8) * 8, b"\0")
        if len(self._held) >= _HELD_BYTES:
            self._flush()
        return address

    def _flush(self) -> None:
        self._put(bytes(self._held), self._start)
        self._start, self._held = self._end, bytearray()

    def _group(self, holds: Group) -> _Place:
        encoded = sorted((name.encode(), name) for name in holds)
        heap, entries, places = bytearray(8), list[bytes](), [0]
        for name, called in encoded:
            part = holds[called]
            if isinstance(part, PlacedDataset):
                found = _Place(self._dataset(part))
            else:
                found = self._group(part)
            entries.append(_entry(len(heap), found))
            places.append(len(heap))
            heap += name.ljust(len(name) // 8 * 8 + 8, b"\0")
        leaves, bounds = [], [places[0]]
        for first in range(0, len(entries), NAMES_A_LEAF):
            some = entries[first : first + NAMES_A_LEAF]
            head = struct.pack("<4sBBH", b"SNOD", 1, 0, len(some))
            leaves.append(self._add(head + b"".join(some).ljust(_ENTRIES_BYTES, b"\0")))
            bounds.append(places[first + len(some)])
        keys = [struct.pack("<Q", bound) for bound in bounds]
        tree = self._tree(0, leaves, keys, CHILDREN_A_NODE)
        head = struct.pack("<4s4xQQQ", b"HEAP", len(heap), parser.LIST_END, self._end + 32)
        names = self._add(head + heap)
        header = _object_header([(parser.GROUP, 0, struct.pack("<QQ", tree, names))])
        return _Place(self._add(header), tree, names)

    def _dataset(self, dataset: PlacedDataset) -> int:
        shape, chunked = dataset.shape, dataset.chunked
        extents = struct.pack(f"<{len(shape)}Q", *shape)
        if chunked is None:
            before, between = _contiguous(dataset.datatype, len(shape))
            layout = struct.pack("<QQ6x", dataset.address, dataset.size)
            return self._add(b"".join([before, extents, extents, between, layout]))
        chunk = (chunked.rows, *(max(1, size) for size in shape[1:]), chunked.item_bytes)
        address = self._chunks(chunked, len(shape))
        layout = struct.pack(f"<BBBQ{len(chunk)}I", 3, _CHUNKED, len(chunk), address, *chunk)
        most = struct.pack("<Q", NOWHERE) + extents[8:]  # can grow
        messages = [
            (parser.DATASPACE, 0, _space(len(shape)) + extents + most),
            (parser.DATATYPE, _CONSTANT, dataset.datatype),
            (parser.FILL, _CONSTANT, _FILL[_CHUNKED]),
            (parser.FILTERS, _CONSTANT, chunked.filters),
            (parser.LAYOUT, 0, layout),
        ]
        return self._add(_object_header(messages))

    def _chunks(self, chunked: ChunkedRows, axes: int) -> int:
        """Write the B-tree of the chunks of a dataset, and return its address."""
        if not chunked.chunks:
            return NOWHERE
        rest = bytes(8 * axes)  # chunks are whole rows: they begin at 0 on all other axes
        keys = [
            struct.pack("<IIQ", chunk.size, chunk.skipped, number * chunked.rows) + rest
            for number, chunk in enumerate(chunked.chunks)
        ]
        keys.append(struct.pack("<IIQ", 0, 0, len(keys) * chunked.rows) + rest)
        addresses = [chunk.address for chunk in chunked.chunks]
        return self._tree(1, addresses, keys, parser.CHUNKS_A_NODE)

    def _tree(self, kind: int, children: Sequence[int], keys: Sequence[bytes], most: int) -> int:
        """Write a B-tree, and return the address of its root.

        Args:
            kind: 0 of names, 1 of chunks.
            children: the objects that the leaves of the tree refer to.
            keys: before each child, and after the last one.
            most: children of a node.
        """
        step = len(keys[0]) + 8
        size = 24 + most * step + step - 8
        height = 0
        while True:
            starts = range(0, len(children), most)
            nodes = [self._end + number * size for number in range(len(starts))]
            around = [NOWHERE, *nodes, NOWHERE]
            for number, start in enumerate(starts):
                some = children[start : start + most]
                head = (b"TREE", kind, height, len(some), around[number], around[number + 2])
                pairs = zip(keys[start:], some, strict=False)
                content = b"".join([key + struct.pack("<Q", child) for key, child in pairs])
                node = struct.pack("<4sBBHQQ", *head) + content + keys[start + len(some)]
                nodes[number] = self._add(node.ljust(size, b"\0"))
            if len(nodes) == 1:
                return nodes[0]
            keys = [*(keys[start] for start in starts), keys[-1]]
            children, height = nodes, height + 1


def _space(axes: int) -> bytes:
    """Return a dataspace message up to the extents and the maximum extents."""
    return struct.pack("<BBB5x", 1, axes, axes > 0)


@cache  # thousands of datasets differ only in their extents and places
def _contiguous(datatype: bytes, axes: int) -> tuple[bytes, bytes]:
    """Return the object header of a contiguous dataset up to its extents, and up to its place."""
    extents = bytes(16 * axes)
    header = _object_header(
        [
            (parser.DATASPACE, 0, _space(axes) + extents),
            (parser.DATATYPE, _CONSTANT, datatype),
            (parser.FILL, _CONSTANT, _FILL[_CONTIGUOUS]),
            (parser.LAYOUT, _CONSTANT, struct.pack("<BB22x", 3, _CONTIGUOUS)),
        ]
    )
    begin = 16 + 8 + len(_space(axes))
    return header[:begin], header[begin + len(extents) : -22]


def _entry(name: int, place: _Place) -> bytes:
    """Return the entry of an object in a group, with its name at a place in the heap."""
    return _ENTRY.pack(name, place.header, bool(place.tree), 0, place.tree, place.heap)


def _object_header(messages: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Return an object header of messages: kind, flags and content of each."""
    parts = []
    for kind, flags, content in messages:
        padded = content.ljust(-(-len(content) // 8) * 8, b"\0")
        parts += [struct.pack("<HHB3x", kind, len(padded), flags), padded]
    body = b"".join(parts)
    return struct.pack("<BBHIII", 1, 0, len(messages), 1, len(body), 0) + body
