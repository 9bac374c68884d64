"""A file, or several, for each rule of docs/format.md on the structures of HDF5 (R26 to R30).

Structures are found by their signatures, so these are also a second reading of the format.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from tests.formats.broken.crafted import (
    ROWS,
    byte_case,
    case,
    encoded,
    good,
    put,
    put_header,
    reseal,
)

Header = dict[str, Any]
NOWHERE = b"\xff" * 8
# What precedes the messages of a dataset's header: version, messages, names, size.
PREFIX = struct.pack("<BBH", 1, 0, 5)


def _set(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


def _message(content: bytes, kind: int, number: int = 0) -> int:
    """Return where a message of the dataset of float32 begins: its content."""
    place = content.index(b"\x11\x20\x1f\0\4\0\0\0") - 8  # the datatype's header
    while content[place : place + 2] != struct.pack("<H", kind):
        if kind == 1:
            place = content.rindex(struct.pack("<HH", 1, 40), 0, place)
        else:
            place += 8 + int.from_bytes(content[place + 2 : place + 4], "little")
    return place + 8


# -- R26: the superblock -----------------------------------------------------------

DIFFERS = "unlike containers written by lod (its superblock differs)"


@byte_case("R26", NotThisFormatError, "an HDF5 file, but unlike containers written by lod (superbl")
def the_newest_structures(content: bytes) -> bytes:
    return newest(good("articles"))


@byte_case("R26", NotThisFormatError, DIFFERS)
def addresses_of_four_bytes(content: bytes) -> bytes:
    return _set(content, 13, b"\4")


@byte_case("R26", NotThisFormatError, DIFFERS)
def other_ranks_of_b_trees(content: bytes) -> bytes:
    return _set(content, 16, b"\x10")


@byte_case("R26", NotThisFormatError, DIFFERS)
def place_of_free_space(content: bytes) -> bytes:
    return _set(content, 32, bytes(8))


@byte_case("R26", DamagedFileError, "/: its names are stored twice")
def a_root_with_other_names(content: bytes) -> bytes:
    return _set(content, 80, struct.pack("<Q", 8))


# -- R27: object headers -----------------------------------------------------------


@case("R27", DamagedFileError, "/data: has a message 0x0012, which lod never writes")
def a_time_of_change(file: h5py.File, header: Header) -> None:
    del file["/data"]
    file.create_dataset("/data", data=ROWS, track_times=True)


@case("R27", DamagedFileError, "/data: has a fill value; a lod container has none")
def a_fill_value(file: h5py.File, header: Header) -> None:
    put(file, "/data", ROWS, fillvalue=1.0)


@case("R27", NotThisFormatError, "unlike containers written by lod (its root group differs)")
def a_root_of_a_newer_kind(file: h5py.File, header: Header) -> None:
    del file["/data"]
    file["/data"] = h5py.ExternalLink("elsewhere.h5", "/data")


@case("R27", DamagedFileError, "/index: its object header differs from those written by lod")
def a_group_of_a_newer_kind(file: h5py.File, header: Header) -> None:
    offsets = {name: dataset[()] for name, dataset in file["/index"].items()}
    del file["/index"]
    file.create_group("/index", track_order=True)
    for name, values in offsets.items():
        put(file, f"/index/{name}", values)


@byte_case("R27", DamagedFileError, "/data: its object header differs from those written by lod")
def header_of_version_2(content: bytes) -> bytes:
    return _set(content, content.rindex(PREFIX, 0, _message(content, 1)), b"\2")


@byte_case("R27", DamagedFileError, "/data: its object header is damaged")
def more_messages_than_it_says(content: bytes) -> bytes:
    return _set(content, content.rindex(PREFIX, 0, _message(content, 1)) + 2, b"\4")


@byte_case("R27", DamagedFileError, "/data: its object header is damaged")
def a_message_behind_the_end_of_its_header(content: bytes) -> bytes:
    return _set(content, _message(content, 0) - 6, b"\xf8\xff")


@byte_case("R27", DamagedFileError, "/data: its object header is damaged")
def two_datatypes(content: bytes) -> bytes:
    return _set(content, _message(content, 5) - 8, b"\3")


@byte_case("R27", DamagedFileError, "/data: its object header is damaged", base="compressed")
def two_fill_values(content: bytes) -> bytes:
    return _set(content, _message(content, 11) - 8, b"\5")


@byte_case("R27", DamagedFileError, "/data: its object header is damaged")
def a_message_with_unknown_flags(content: bytes) -> bytes:
    return _set(content, _message(content, 5) - 4, b"\4")


@byte_case("R27", DamagedFileError, "/data: its object header is damaged")
def no_layout(content: bytes) -> bytes:
    return _set(content, _message(content, 8) - 8, b"\0")


@byte_case("R27", DamagedFileError, "/data: its dataspace differs from those written by lod")
def dataspace_of_version_2(content: bytes) -> bytes:
    return _set(content, _message(content, 1), b"\2")


@byte_case("R27", DamagedFileError, "/data: its dataspace is damaged")
def more_rows_than_the_maximum(content: bytes) -> bytes:
    axes = content[_message(content, 1) + 1]
    return _set(content, _message(content, 1) + 8 + 8 * axes, b"\1")


@byte_case("R27", DamagedFileError, "/data: has a fill value; a lod container has none")
def a_fill_value_without_the_older_message(content: bytes) -> bytes:
    return _set(content, _message(content, 5) + 4, b"\4")


@byte_case("R27", DamagedFileError, "/data: has 112 bytes, its rows need 120")
def a_layout_of_fewer_bytes(content: bytes) -> bytes:
    return _set(content, _message(content, 8) + 10, struct.pack("<Q", 112))


@byte_case("R27", DamagedFileError, "/data: has filters, and is contiguous", base="compressed")
def filters_of_contiguous_rows(content: bytes) -> bytes:
    return _set(content, _message(content, 8) + 1, b"\1")


@byte_case("R27", DamagedFileError, "/data: its layout differs from those written by lod")
def layout_of_version_4(content: bytes) -> bytes:
    return _set(content, _message(content, 8), b"\4")


@byte_case("R27", DamagedFileError, "/data: its filters are damaged", base="compressed")
def filters_of_version_2(content: bytes) -> bytes:
    return _set(content, content.index(b"\x01\x02\0\0\0\0\0\0\x02\0\x08\0"), b"\2")


@byte_case("R27", DamagedFileError, "/data: its filters are damaged", base="compressed")
def more_filters_than_their_message_holds(content: bytes) -> bytes:
    return _set(content, content.index(b"\x01\x02\0\0\0\0\0\0\x02\0\x08\0") + 1, b"\x09")


@byte_case("R27", DamagedFileError, "/data: its filters are damaged", base="compressed")
def a_filter_of_more_values_than_their_message_holds(content: bytes) -> bytes:
    return _set(content, content.index(b"deflate\0") - 2, b"\x40")


@byte_case("R27", DamagedFileError, "/data: its filters are damaged", base="compressed")
def shuffle_of_other_numbers(content: bytes) -> bytes:
    return _set(content, content.index(b"shuffle\0\4\0\0\0") + 8, b"\2")


@byte_case("R27", DamagedFileError, "/data: address ")
def a_header_that_goes_on_in_itself(content: bytes) -> bytes:
    place = _message(content, 0) - 8
    here = content.rindex(PREFIX, 0, place) + 16
    content = _set(content, place, struct.pack("<HHIQQHHI", 0x10, 16, 0, here, 256, 0, 96, 0))
    return _set(content, here - 14, b"\6")


# -- R28: groups -------------------------------------------------------------------


@byte_case("R28", DamagedFileError, "/: its names are damaged")
def names_out_of_order(content: bytes) -> bytes:
    entries = content.index(b"SNOD") + 8
    first, second = content[entries : entries + 40], content[entries + 40 : entries + 80]
    return _set(content, entries, second + first)


@byte_case("R28", DamagedFileError, "/: its names are damaged")
def one_name_twice(content: bytes) -> bytes:
    entries = content.index(b"SNOD") + 8
    return _set(content, entries + 40, content[entries : entries + 8])


@byte_case("R28", DamagedFileError, "/: its names are damaged")
def a_name_outside_of_the_heap(content: bytes) -> bytes:
    return _set(content, content.index(b"SNOD") + 8, struct.pack("<Q", 2**40))


@byte_case("R28", DamagedFileError, "/: its names are damaged")
def a_leaf_of_nine_names(content: bytes) -> bytes:
    return _set(content, content.index(b"SNOD") + 6, b"\x09")


@byte_case("R28", DamagedFileError, "/: its names are damaged")
def a_heap_of_the_future(content: bytes) -> bytes:
    return _set(content, content.index(b"HEAP") + 4, b"\1")


@byte_case("R28", DamagedFileError, "/: its index is damaged")
def a_tree_of_another_kind(content: bytes) -> bytes:
    return _set(content, content.index(b"TREE") + 4, b"\1")


@byte_case("R28", DamagedFileError, "/, its names: address ")
def one_leaf_twice(content: bytes) -> bytes:
    tree = content.index(b"TREE")
    content = _set(content, tree + 6, b"\2")
    return _set(content, tree + 48, content[tree + 32 : tree + 40])


@byte_case("R28", DamagedFileError, "/: its names are damaged")
def last_key_of_no_name(content: bytes) -> bytes:
    return _set(content, content.index(b"TREE") + 47, b"\1")


@byte_case("R28", DamagedFileError, "/: its names are damaged")
def first_key_of_another_name(content: bytes) -> bytes:
    tree = content.index(b"TREE")
    return _set(content, tree + 24, content[tree + 40 : tree + 48])


@byte_case("R28", DamagedFileError, "/: the free list of its heap is damaged")
def free_place_of_more_bytes_than_the_heap(content: bytes) -> bytes:
    heap = content.index(b"HEAP")
    free, address = struct.unpack("<QQ", content[heap + 16 : heap + 32])
    return _set(content, address + free + 9, b"\1")


@byte_case("R28", DamagedFileError, "/: the free list of its heap is damaged")
def free_place_in_the_last_bytes_of_the_heap(content: bytes) -> bytes:
    heap = content.index(b"HEAP")
    size = int.from_bytes(content[heap + 8 : heap + 16], "little")
    return _set(content, heap + 16, struct.pack("<Q", size - 8))


@byte_case("R28", DamagedFileError, "file: a name of a group is damaged")
def a_name_of_an_unknown_kind(content: bytes) -> bytes:
    return _set(content, content.index(b"SNOD") + 8 + 16, b"\3")


@byte_case("R28", DamagedFileError, "file: a name of a group is damaged")
def a_name_with_a_value_in_its_padding(content: bytes) -> bytes:
    return _set(content, content.index(b"SNOD") + 8 + 20, b"\1")


# -- R29: chunks -------------------------------------------------------------------

CHUNKS = b"TREE\1\0"
KEY_BYTES = 8 + 8 * 3  # of rows in two dimensions


@byte_case("R29", DamagedFileError, "/data: its chunks are not in order", base="compressed")
def a_chunk_of_other_rows(content: bytes) -> bytes:
    return _set(content, content.index(CHUNKS) + 32, b"\1")


@byte_case("R29", DamagedFileError, "/data: a chunk is beyond the end", base="compressed")
def a_chunk_behind_the_end(content: bytes) -> bytes:
    return _set(content, content.index(CHUNKS) + 24 + KEY_BYTES, struct.pack("<Q", 2**63))


@byte_case("R29", DamagedFileError, "/data: a chunk of 0 bytes", base="compressed")
def a_chunk_of_no_bytes(content: bytes) -> bytes:
    return _set(content, content.index(CHUNKS) + 24, bytes(4))


@byte_case("R29", DamagedFileError, "/data: 1 chunks expected, found 0", base="compressed")
def an_index_that_was_never_written(content: bytes) -> bytes:
    place = struct.pack("<Q", content.index(CHUNKS))
    assert content.count(place) == 1
    return content.replace(place, NOWHERE)


@byte_case("R29", DamagedFileError, "/data: 1 chunks expected, found more", base="compressed")
def an_index_of_more_chunks(content: bytes) -> bytes:
    return _set(content, content.index(CHUNKS) + 6, b"\2")


@byte_case("R29", DamagedFileError, "/data: its chunks overlap", base="chunks")
def two_chunks_in_one_place(content: bytes) -> bytes:
    first = content.index(CHUNKS) + 24 + KEY_BYTES
    return _set(content, first + KEY_BYTES + 8, content[first : first + 8])


@byte_case("R29", DamagedFileError, "/data: its index is damaged", base="compressed")
def an_index_of_65_chunks_a_node(content: bytes) -> bytes:
    return _set(content, content.index(CHUNKS) + 6, b"\x41")


# -- R30: each thing once, and in a place of its own --------------------------------


@byte_case("R30", DamagedFileError, "the nodes of its index are not linked to each other")
def a_sibling_that_is_not_there(content: bytes) -> bytes:
    return _set(content, content.index(b"TREE") + 16, struct.pack("<Q", 96))


@byte_case("R30", DamagedFileError, "is used twice")
def two_names_of_one_header(content: bytes) -> bytes:
    entries = content.index(b"SNOD") + 8
    return _set(content, entries + 8, content[entries + 48 : entries + 56])


@byte_case("R30", DamagedFileError, "overlaps")
def rows_in_the_heap_of_names(content: bytes) -> bytes:
    here = struct.pack("<QQ", content.index(ROWS.tobytes()), ROWS.nbytes)
    assert content.count(here) == 1
    other = struct.pack("<QQ", content.index(b"HEAP") + 8, ROWS.nbytes)
    return content.replace(here, other)


@byte_case("R30", DamagedFileError, "overlaps", base="compressed")
def a_chunk_in_an_object_header(content: bytes) -> bytes:
    header = content.index(b"\x11\x20\x1f\0\4\0\0\0")
    return _set(content, content.index(CHUNKS) + 24 + KEY_BYTES, struct.pack("<Q", header))


def newest(content: bytes) -> bytes:
    """Return a container rewritten in the newest structures of HDF5, every chunk of 5 rows."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "newest.h5")
        path.write_bytes(content)
        with h5py.File(path) as file:
            header = json.loads(file["/header"][()])
            offsets = {name: file[name][()] for name in ("/index/0", "/index/1")}
        with h5py.File(path, "w", libver="latest") as file:
            for name, data in offsets.items():
                put(file, name, data)
            options: dict[str, Any] = {"compression": "gzip", "shuffle": True}
            put(file, "/data", np.asarray(ROWS), chunks=(5, 2), maxshape=(None, 2), **options)
            header["datasets"]["/data"]["block_rows"] = 5
            reseal(file, header, "/data")
            put_header(file, encoded(header))
        return path.read_bytes()
