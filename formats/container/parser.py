"""Parser for the HDF5 structures that lod writes, and no others: docs/format.md, section 4.

A container is read without libhdf5. Every structure is read once, and no two overlap, so no file
can cause a loop, and the work is bounded by the size of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from lodcli.formats.catalogue.unread import begins_instead
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, NotThisFormatError
from lodcli.formats.core.table import HDF5_MAGIC
from lodcli.kernels.platform import files

NOWHERE = (1 << 64) - 1
LIST_END = 1  # ends the free list of a local heap
# Far more than the largest possible header can name.
MOST_NAMES = 1_000_000
LONGEST_NAME = 255
LONGEST_HEADER = 1 << 16
MOST_TREE_LEVELS = 16
# Twice the ranks in the superblock (R26), and that of chunks, which is HDF5's default (R29).
NAMES_A_LEAF, CHILDREN_A_NODE, CHUNKS_A_NODE = 8, 32, 64
# Read size: structures are mostly adjacent. The last windows are cached.
_WINDOW_BYTES, _WINDOWS = 16384, 8
# Number of the first parts of a file that are noted, to compare them when it is opened again.
MOST_PARTS = 8
_HEADER_PREFIX = struct.Struct("<BBHIII")
_MESSAGE = struct.Struct("<HHB3x")
# Of a symbol node, and of one of its names.
_NODE, _ENTRY = struct.Struct("<4sBBH"), struct.Struct("<QQIIQQ")
_TREE_NODE = struct.Struct("<4sBBHQQ")
_ADDRESSES = struct.Struct("<QQQ")
# Header messages by their numbers.
NIL, DATASPACE, DATATYPE, FILL, LAYOUT = 0x00, 0x01, 0x03, 0x05, 0x08
FILTERS, CONTINUATION, GROUP = 0x0B, 0x10, 0x11
_REFUSED = {
    0x02: "is a group of a newer version than in a lod container",
    0x06: "is a group of a newer version than in a lod container",
    0x04: "has a fill value; a lod container has none",
    0x07: "is stored in another file",
    0x0C: "has attributes; a lod container has none",
    0x15: "has attributes; a lod container has none",
}


# Not dataclasses, here and in `stored`: a file of many tensors has many, and they are made slowly.
class Link(NamedTuple):
    """An entry of a group: where an object's header is, None for a soft link."""

    address: int | None
    cached: tuple[int, int] | None


class Messages(NamedTuple):
    """The messages of an object header.

    Attributes:
        by_kind: the content of each message, at least 8 bytes; zeros if it is stored elsewhere.
        problem: why this is not an object of a container; None if it may be one.
    """

    by_kind: Mapping[int, bytes]
    problem: str | None


class Blocks:
    """The bytes of a file; each may be claimed by only one structure.

    Args:
        fd: an open descriptor of the file; the caller keeps and closes it.
        size: bytes of the file.

    Attributes:
        parts: the position and bytes of the first parts that were read, one more than are kept.
    """

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self.parts: list[tuple[int, bytes]] = []
        self.extents: list[tuple[int, int, str]] = []
        self._starts: set[int] = set()
        self._windows: list[tuple[int, bytes]] = []

    def claim(self, address: int, length: int, what: str) -> None:
        """Record the use of a byte range.

        Raises:
            DamagedFileError: the range exceeds the file, or another one begins at this address.
        """
        if address + length > self.size:
            raise DamagedFileError(
                f"{what}: needs bytes {address} to {address + length}, the file ends at "
                f"{self.size}; it is truncated{FETCH_AGAIN}"
            )
        if address in self._starts:
            raise DamagedFileError(f"{what}: address {address} is used twice")
        self._starts.add(address)
        self.extents.append((address, address + length, what))

    def take(self, address: int, length: int, what: str) -> bytes:
        """Return the bytes of one structure and claim them."""
        self.claim(address, length, what)
        found = self.look(address, length)
        if len(found) < length:
            raise DamagedFileError(f"{what}: the file was truncated while it was read")
        return found

    def look(self, address: int, length: int) -> bytes:
        """Return bytes without claiming them; fewer at the end of the file."""
        for start, held in self._windows:
            if start <= address and address + length <= start + len(held):
                return held[address - start : address - start + length]
        start = address - address % _WINDOW_BYTES  # a group is stored before or after its members
        held = files.pread(self.fd, max(address + length - start, _WINDOW_BYTES), start)
        if len(self.parts) <= MOST_PARTS:
            self.parts.append((start, held))
        if length <= _WINDOW_BYTES:
            self._windows = [(start, held), *self._windows[: _WINDOWS - 1]]
        return held[address - start : address - start + length]

    def check_overlaps(self, more: Iterable[tuple[int, int, str]]) -> None:
        """Raise DamagedFileError if two structures, or others of these, claim the same bytes."""
        extents = sorted([*self.extents, *more])
        for (_, end, first), (start, _, second) in pairwise(extents):
            if start < end:
                raise DamagedFileError(f"{second}: overlaps {first}")


def root_of(blocks: Blocks) -> Link:
    """Return the root group, if the superblock is one that lod writes.

    Raises:
        NotThisFormatError: no HDF5 file, or one that lod did not write.
        DamagedFileError: damaged, or truncated.
    """
    # `look`, not `take`: a file too short for a superblock has a separate error.
    head = blocks.look(0, 96)
    if not head.startswith(HDF5_MAGIC):
        raise NotThisFormatError(f"is not an HDF5 file{begins_instead(head)}")
    if head[8:9] in (b"\1", b"\2", b"\3"):
        raise foreign(f"unlike containers written by lod (superblock version {head[8]})")
    if len(head) < 96:
        raise DamagedFileError(f"file: ends within its superblock{FETCH_AGAIN}")
    if head[8]:
        raise DamagedFileError("file: its superblock is damaged or of an unknown version")
    blocks.claim(0, 96, "the superblock")
    # Versions, widths of addresses and lengths, ranks of B-trees, flags, base address, and the
    # address of free space: equal in all containers. Then the end, driver information.
    expected = struct.pack("<8xBBBBBBBBHHIQQ", 0, 0, 0, 0, 0, 8, 8, 0, 4, 16, 0, 0, NOWHERE)
    end, driver, name = struct.unpack_from("<QQQ", head, 40)
    if head[8:40] != expected[8:] or driver != NOWHERE or name:
        raise foreign("unlike containers written by lod (its superblock differs)")
    if end > blocks.size:
        raise DamagedFileError(
            f"file: is truncated (expected {end} bytes, found {blocks.size}){FETCH_AGAIN}"
        )
    return _link(*_ENTRY.unpack_from(head, 56))


def check_end(blocks: Blocks) -> None:
    """Raise DamagedFileError if the file does not end where the superblock says."""
    end = int.from_bytes(blocks.look(40, 8), "little")
    if end != blocks.size:
        raise DamagedFileError(
            f"file: has trailing bytes (expected {end} bytes, found {blocks.size}){FETCH_AGAIN}"
        )


def foreign(why: str = "not a lod container (no /header)") -> NotThisFormatError:
    """Return the error for an HDF5 file not written by lod."""
    return NotThisFormatError(f"an HDF5 file, but {why}")


def object_at(blocks: Blocks, link: Link, path: str) -> Messages:
    """Return the messages of the object that a link names."""
    if link.address is None:
        raise DamagedFileError(f"{path}: is a soft or external link; a lod container has none")
    messages = messages_at(blocks, link.address, path)
    if messages.problem is not None:
        raise DamagedFileError(f"{path}: {messages.problem}")
    return messages


def messages_at(blocks: Blocks, address: int, path: str) -> Messages:
    """Return the messages of an object header, which may be one that lod did not write."""
    prefix = blocks.take(address, 16, path)
    if path == "/" and prefix.startswith(b"OHDR"):  # with other properties than lod sets
        raise foreign("unlike containers written by lod (its root group differs)")
    version, zero, count, names, size, padding = _HEADER_PREFIX.unpack(prefix)
    if version != 1 or zero or padding or size > LONGEST_HEADER:
        raise DamagedFileError(f"{path}: its object header differs from those written by lod")
    waiting = [blocks.take(address + 16, size, path)]
    found: dict[int, bytes] = {}
    problems = [] if names == 1 else [f"has {names} names; must have one"]
    seen = 0
    while waiting:
        block, place = waiting.pop(), 0
        while place < len(block):
            if place + 8 > len(block):
                raise _damaged_header(path)
            kind, length, flags = _MESSAGE.unpack_from(block, place)
            begin = place + 8
            place, seen = begin + length, seen + 1
            if place > len(block) or length % 8 or seen > count:
                raise _damaged_header(path)
            if kind == NIL:
                continue
            content = block[begin:place]
            if kind in _REFUSED:
                problems.append(_REFUSED[kind])  # such messages may repeat
            elif kind == CONTINUATION and length == 16:
                address, size = struct.unpack("<QQ", content)
                waiting.append(blocks.take(address, min(size, LONGEST_HEADER), path))
                continue
            elif kind in found or flags > 3 or not length:
                raise _damaged_header(path)
            # Flags: bit 0, the message is constant; bit 1, it is shared, as a named type is.
            found[kind] = bytes(8) if flags & 2 else content
    if seen != count:
        raise _damaged_header(path)
    return Messages(found, problems[-1] if problems else None)


def _damaged_header(path: str) -> DamagedFileError:
    return DamagedFileError(f"{path}: its object header is damaged")


# -- groups ------------------------------------------------------------------------


def links_of(blocks: Blocks, link: Link, messages: Messages, path: str) -> dict[str, Link]:
    """Return the links of a group by name, in the order of the bytes of their names."""
    content = messages.by_kind[GROUP]
    if len(content) != 16:
        raise _damaged_header(path)
    tree, heap = struct.unpack("<QQ", content)
    if link.cached not in (None, (tree, heap)):
        raise DamagedFileError(f"{path}: its names are stored twice")
    names = _heap(blocks, heap, path)
    before = b""
    found: dict[str, Link] = {}
    for name, entry in _entries(blocks, tree, names, path):
        if name <= before or b"/" in name:
            raise DamagedFileError(f"{path}: its names are damaged")
        if len(found) == MOST_NAMES:
            raise DamagedFileError(f"{path}: has more than {MOST_NAMES} names")
        before = name
        found[name.decode("utf-8", "replace")] = _link(*entry)
    return found


def _link(_: int, address: int, kind: int, zero: int, tree: int, heap: int) -> Link:
    """Return the link of the six fields of an entry; the first is the place of its name."""
    if kind == 2:
        return Link(None, None)
    if kind > 1 or zero:
        raise DamagedFileError("file: a name of a group is damaged")
    return Link(address, (tree, heap) if kind else None)


def _heap(blocks: Blocks, address: int, path: str) -> bytes:
    """Return the names of a group, one after another."""
    what = f"{path}, the heap of its names"
    head = blocks.take(address, 32, what)
    size, free, place = _ADDRESSES.unpack_from(head, 8)
    if not head.startswith(b"HEAP\0\0\0\0"):
        raise DamagedFileError(f"{path}: its names are damaged")
    names = blocks.take(place, size, what)
    # lod does not use the free list, but HDF5 follows it.
    seen: set[int] = set()
    while free != LIST_END:
        following, length = (
            struct.unpack_from("<QQ", names, free) if free <= size - 16 else (0, size)
        )
        if free in seen or length > size - free:
            raise DamagedFileError(f"{path}: the free list of its heap is damaged")
        seen.add(free)
        free = following
    return names


def _entries(
    blocks: Blocks, tree: int, names: bytes, path: str
) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """Yield the names of a group, each with the fields of its entry.

    lod does not use the keys of the tree, but HDF5 finds names with them.
    """
    size = 24 + 8 * (2 * CHILDREN_A_NODE + 1)
    for node in walk(blocks, tree, 0, size, 8, CHILDREN_A_NODE, path):
        for start in range(8, len(node) - 8, 16):
            low, leaf, high = _ADDRESSES.unpack_from(node, start - 8)
            content = blocks.take(leaf, 8 + 40 * NAMES_A_LEAF, f"{path}, its names")
            signature, version, zero, count = _NODE.unpack_from(content)
            if signature != b"SNOD" or version != 1 or zero or not 0 < count <= NAMES_A_LEAF:
                raise DamagedFileError(f"{path}: its names are damaged")
            entries = list(_ENTRY.iter_unpack(content[8 : 8 + 40 * count]))
            found = [_name(names, entry[0], path) for entry in entries]
            if not _name(names, low, path) < found[0] <= found[-1] <= _name(names, high, path):
                raise DamagedFileError(f"{path}: its names are damaged")
            yield from zip(found, entries, strict=True)


def _name(names: bytes, place: int, path: str) -> bytes:
    """Return the name at a place in the heap of a group."""
    end = names.find(b"\0", place, place + LONGEST_NAME + 1)
    if end < 0:
        raise DamagedFileError(f"{path}: its names are damaged")
    return names[place:end]


# -- B-trees -----------------------------------------------------------------------


def walk(
    blocks: Blocks, root: int, kind: int, node_bytes: int, key_bytes: int, most: int, path: str
) -> Iterator[bytes]:
    """Yield the keys and children of every leaf of a B-tree (version 1), in order.

    A leaf is the bytes of a key, a child's address, a key, .. and a last key. The links between
    siblings are checked as well: lod does not follow them, but HDF5 does.

    Args:
        root: the address of the root.
        kind: of the tree: 0 names, 1 chunks.
        node_bytes: bytes of a node.
        key_bytes: bytes of a key.
        most: maximum number of children of a node.
        path: of the group or dataset that the tree belongs to.
    """
    what = f"{path}, its index"
    # By level: the left sibling and the address that the next node must have.
    chain: dict[int, tuple[int, int]] = {}
    step = key_bytes + 8
    waiting: list[tuple[int, int | None]] = [(root, None)]
    while waiting:
        address, level = waiting.pop()
        node = blocks.take(address, node_bytes, what)
        signature, found, height, count, left, right = _TREE_NODE.unpack_from(node)
        if signature != b"TREE" or found != kind or height != (height if level is None else level):
            raise DamagedFileError(f"{path}: its index is damaged")
        if count > most or height > MOST_TREE_LEVELS or (not count and level is not None):
            raise DamagedFileError(f"{path}: its index is damaged")
        if (left, address) != chain.get(height, (NOWHERE, address)):
            raise DamagedFileError(f"{path}: the nodes of its index are not linked to each other")
        chain[height] = (address, right)
        used = node[24 : 24 + count * step + key_bytes]
        if height == 0:
            yield used
            continue
        below = [
            struct.unpack_from("<Q", used, start)[0] for start in range(key_bytes, len(used), step)
        ]
        waiting += [(child, height - 1) for child in reversed(below)]
    if any(right != NOWHERE for _, right in chain.values()):
        raise DamagedFileError(f"{path}: the nodes of its index are not linked to each other")
