"""Files with invalid HDF5 structures: wrong ends of the file, and cycles."""

from __future__ import annotations

import struct

from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from tests.formats.broken.crafted import byte_case


@byte_case("R25", DamagedFileError, "has trailing bytes (expected ")
def bytes_behind(content: bytes) -> bytes:
    return content + b"\n"


@byte_case("R25", DamagedFileError, "fetch or copy it again")
def truncated_by_a_byte(content: bytes) -> bytes:
    return content[:-1]


@byte_case("R25", NotThisFormatError, "is not an HDF5 file")
def user_block(content: bytes) -> bytes:
    return b"#!/bin/sh\n".ljust(512, b"#") + content


@byte_case("R26", NotThisFormatError, "unlike containers written by lod (its superblock differs)")
def base_address(content: bytes) -> bytes:
    return content[:24] + b"\x40" + content[25:]


@byte_case("R26", DamagedFileError, "file: its superblock is damaged or of an unknown version")
def superblock_of_the_future(content: bytes) -> bytes:
    return content[:8] + b"\x09" + content[9:]


@byte_case("R26", NotThisFormatError, "unlike containers written by lod (its superblock differs)")
def driver_information(content: bytes) -> bytes:
    return content[:48] + struct.pack("<Q", 0x60) + content[56:]


@byte_case(
    "R21",
    DamagedFileError,
    "the nodes of its index are not linked to each other",
    base="compressed",
)
def index_of_chunks_that_returns_to_itself(content: bytes) -> bytes:
    # The first B-tree of type 1, chunks: the node to its right is itself.
    tree = content.index(b"TREE\1\0")
    return content[: tree + 16] + struct.pack("<Q", tree) + content[tree + 24 :]


@byte_case("R6", DamagedFileError, "/: the free list of its heap is damaged")
def names_that_return_to_themselves(content: bytes) -> bytes:
    # The list of free places in the heap of the root's names: its only one is also the next.
    heap = content.index(b"HEAP")
    free, address = struct.unpack("<QQ", content[heap + 16 : heap + 32])
    place = address + free
    return content[:place] + struct.pack("<Q", free) + content[place + 8 :]
