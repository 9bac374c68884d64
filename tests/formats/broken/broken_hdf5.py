"""A file, or several, for each rule of docs/format.md on the constructs of HDF5."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import google_crc32c
import h5py
import numpy as np

from lodcli.formats.container.chunks import DEFLATE, ZSTD
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.kernels.index.checks import Array
from tests.formats.broken.crafted import ARTICLES, ROWS, byte_case, case, put, reseal

Header = dict[str, Any]
# What a crafted file would have us read: neither may ever be opened.
OTHER_HDF5, OTHER_BYTES = "elsewhere.h5", "elsewhere.bin"


def put_others(folder: Path) -> None:
    """Make what the links and the external storage point at."""
    with h5py.File(folder / OTHER_HDF5, "w") as file:
        file["data"] = ROWS
        file["group/0"] = np.array([0, 3, 4, 6])
    (folder / OTHER_BYTES).write_bytes(ROWS.tobytes())


def _beside(file: h5py.File, name: str) -> str:
    return str(Path(file.filename).parent / name)


# -- R15: types --------------------------------------------------------------------

NOT_FLOAT32 = "/data: is not stored as little-endian float32"


@case("R15", DamagedFileError, NOT_FLOAT32)
def big_endian(file: h5py.File, header: Header) -> None:
    put(file, "/data", ROWS.astype(">f4"))


@case("R15", DamagedFileError, NOT_FLOAT32)
def float64_for_float32(file: h5py.File, header: Header) -> None:
    put(file, "/data", ROWS.astype("f8"))


@case("R15", DamagedFileError, NOT_FLOAT32)
def variable_length_rows(file: h5py.File, header: Header) -> None:
    rows = put(file, "/data", None, shape=(15, 2), dtype=h5py.vlen_dtype(np.float32))
    rows[0, 0] = [1, 2, 3]


@case("R15", DamagedFileError, "/index/0: is not stored as little-endian int64")
def variable_length_offsets(file: h5py.File, header: Header) -> None:
    put(file, "/index/0", None, shape=(4,), dtype=h5py.vlen_dtype(np.int64))


@case("R15", DamagedFileError, NOT_FLOAT32)
def object_references(file: h5py.File, header: Header) -> None:
    rows = put(file, "/data", None, shape=(15, 2), dtype=h5py.ref_dtype)
    rows[0, 0] = file["/index"].ref


@case("R15", DamagedFileError, NOT_FLOAT32)
def region_references(file: h5py.File, header: Header) -> None:
    rows = put(file, "/data", None, shape=(15, 2), dtype=h5py.regionref_dtype)
    rows[0, 0] = file["/index/0"].regionref[1:2]


@case("R15", DamagedFileError, NOT_FLOAT32)
def named_type(file: h5py.File, header: Header) -> None:
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.commit(file["/index"].id, b"kind")
    space = h5py.h5s.create_simple((15, 2))
    del file["/data"]
    h5py.h5d.create(file.id, b"data", kind, space)
    del file["/index/kind"]  # the dataset keeps it


@case("R15", DamagedFileError, "/flags/data: is not stored as little-endian bool", base="shared")
def boolean_with_three_values(file: h5py.File, header: Header) -> None:
    kind = h5py.enum_dtype({"FALSE": 0, "TRUE": 1, "MAYBE": 2}, np.int8)
    put(file, "/flags/data", np.zeros(15, np.int8), dtype=kind)


# -- R17 and R18: attributes and links ---------------------------------------------


@case("R17", DamagedFileError, "/: has attributes")
def attribute_of_the_root(file: h5py.File, header: Header) -> None:
    file.attrs["made by"] = "hand"


@case("R17", DamagedFileError, "/index: has attributes")
def attribute_of_a_group(file: h5py.File, header: Header) -> None:
    file["/index"].attrs["made by"] = "hand"


@case("R17", DamagedFileError, "/data: has attributes")
def attribute_of_a_dataset(file: h5py.File, header: Header) -> None:
    file["/data"].attrs["unit"] = "mm"


@case("R17", DamagedFileError, "/header: has attributes")
def attribute_of_the_header(file: h5py.File, header: Header) -> None:
    dataset = put(file, "/header", np.array(b"a header", "S8"))
    dataset.attrs["made by"] = "hand"


@case("R18", DamagedFileError, "/data: is a soft or external link")
def soft_link(file: h5py.File, header: Header) -> None:
    file.move("/data", "/index/rows")
    file["/data"] = h5py.SoftLink("/index/rows")


@case("R18", DamagedFileError, "/header: is a soft or external link")
def soft_link_to_the_header(file: h5py.File, header: Header) -> None:
    file.move("/header", "/text")
    file["/header"] = h5py.SoftLink("/text")


@case("R18", DamagedFileError, "/index: is a soft or external link")
def soft_link_on_the_way(file: h5py.File, header: Header) -> None:
    file.move("/index", "/levels")
    file["/index"] = h5py.SoftLink("/levels")


# External links are only in groups of a newer kind.
@case("R18", NotThisFormatError, "unlike containers written by lod (its root group differs)")
def external_link(file: h5py.File, header: Header) -> None:
    del file["/data"]
    file["/data"] = h5py.ExternalLink(_beside(file, OTHER_HDF5), "/data")


@case("R18", NotThisFormatError, "unlike containers written by lod (its root group differs)")
def external_link_on_the_way(file: h5py.File, header: Header) -> None:
    del file["/index"]
    file["/index"] = h5py.ExternalLink(_beside(file, OTHER_HDF5), "/group")


@case("R18", DamagedFileError, "/index/0: is a soft or external link")
def soft_link_to_itself(file: h5py.File, header: Header) -> None:
    del file["/index/0"]
    file["/index/0"] = h5py.SoftLink("/index/0")


@case("R18", DamagedFileError, "/: has 2 names")
def cycle_of_hard_links(file: h5py.File, header: Header) -> None:
    file["/index/root"] = file["/"]


@case("R18", DamagedFileError, "/data: has 2 names", base="compressed")
def one_dataset_twice(file: h5py.File, header: Header) -> None:
    file["/again/data"] = file["/data"]
    header["tensors"]["again"] = {**header["tensors"]["data"], "data": "/again/data"}
    header["datasets"]["/again/data"] = header["datasets"]["/data"]


@case("R18", DamagedFileError, "/0: is a soft or external link")
def forty_thousand_links(file: h5py.File, header: Header) -> None:
    for number in range(40_000):
        file.id.links.create_soft(b"%d" % number, b"/data")


# -- R19 and R20: where the rows are -----------------------------------------------


@case("R19", DamagedFileError, "/data: is virtual")
def virtual_dataset(file: h5py.File, header: Header) -> None:
    layout = h5py.VirtualLayout((15, 2), np.float32)
    layout[:] = h5py.VirtualSource(_beside(file, OTHER_HDF5), "data", (15, 2))
    del file["/data"]
    file.create_virtual_dataset("/data", layout)


@case("R19", DamagedFileError, "/data: is stored in another file")
def external_storage(file: h5py.File, header: Header) -> None:
    name = _beside(file, OTHER_BYTES)
    put(file, "/data", None, shape=(15, 2), dtype=np.float32, external=[(name, 0, 120)])


@case("R19", DamagedFileError, "/data: is compact")
def compact_dataset(file: h5py.File, header: Header) -> None:
    with _created(file, (15, 2)) as plist:
        plist.set_layout(h5py.h5d.COMPACT)


@case("R19", DamagedFileError, "/header: is virtual")
def virtual_header(file: h5py.File, header: Header) -> None:
    layout = h5py.VirtualLayout((), "S100")
    del file["/header"]
    layout[()] = h5py.VirtualSource(_beside(file, OTHER_HDF5), "header", ())
    file.create_virtual_dataset("/header", layout)


@contextmanager
def _created(file: h5py.File, shape: tuple[int, ...]) -> Iterator[Any]:
    """Give a property list, then make /data, a float32 dataset, with it."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_obj_track_times(False)
    yield plist
    if "/data" in file:
        del file["/data"]
    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(file.id, b"/data", h5py.h5t.IEEE_F32LE, space, plist)


@case("R20", DamagedFileError, "/data: its rows were not written")
def eight_pebibytes_never_written(file: h5py.File, header: Header) -> None:
    with _created(file, (2**50, 2)):
        header["datasets"]["/data"] |= {
            "shape": [2**50, 2],
            "block_rows": 2**50,
            "crc32c": "00000000",
        }


def _moved(content: bytes, data: Array, offset: int) -> bytes:
    """Return the bytes with another address for the contiguous dataset that holds `data`."""
    here = struct.pack("<QQ", content.index(data.tobytes()), data.nbytes)
    assert content.count(here) == 1
    return content.replace(here, struct.pack("<QQ", offset, data.nbytes))


@byte_case("R20", DamagedFileError, "/data: ")
def rows_behind_the_end(content: bytes) -> bytes:
    return _moved(content, ROWS, len(content) - 100)


@byte_case("R20", DamagedFileError, "/data: ")
def rows_at_2_to_63(content: bytes) -> bytes:
    return _moved(content, ROWS, 2**63 - 64)


@byte_case("R20", DamagedFileError, "overlaps")
def two_datasets_in_one_place(content: bytes) -> bytes:
    return _moved(content, ARTICLES.levels[1], content.index(ROWS.tobytes()) - 32)


# -- R21 to R23: chunks, filters, expansion ----------------------------------------


def _chunked(file: h5py.File, header: Header, chunks: tuple[int, int], **options: Any) -> None:
    put(file, "/data", ROWS, chunks=chunks, **options)
    header["datasets"]["/data"]["block_rows"] = chunks[0]
    reseal(file, header, "/data")


@case("R21", DamagedFileError, "/data: chunks of (5, 1) are not whole rows")
def chunks_of_columns(file: h5py.File, header: Header) -> None:
    _chunked(file, header, (5, 1))


@case("R21", DamagedFileError, "/data: chunks of (5, 2) are not whole rows by blocks of 4")
def chunks_that_are_not_the_blocks(file: h5py.File, header: Header) -> None:
    _chunked(file, header, (5, 2))
    header["datasets"]["/data"]["block_rows"] = 4
    reseal(file, header, "/data")


@case("R21", DamagedFileError, "/data: 3 chunks expected, found 2")
def a_chunk_less(file: h5py.File, header: Header) -> None:
    _chunked(file, header, (5, 2))
    put(file, "/data", None, shape=(15, 2), dtype=np.float32, chunks=(5, 2))
    file["/data"][:10] = ROWS[:10]


@case("R21", DamagedFileError, "/data: chunks of (262144, 2) are too large")
def chunks_of_2_mebibytes(file: h5py.File, header: Header) -> None:
    put(file, "/data", ROWS, chunks=(1 << 18, 2), maxshape=(None, 2), compression="gzip")
    header["datasets"]["/data"]["block_rows"] = 1 << 18


@case("R22", DamagedFileError, "/data: filter 3 is not allowed")
def checksums_of_hdf5(file: h5py.File, header: Header) -> None:
    _chunked(file, header, (5, 2), fletcher32=True)


@case("R22", DamagedFileError, "/data: filter 32000 is not allowed")
def lzf(file: h5py.File, header: Header) -> None:
    _chunked(file, header, (5, 2), compression="lzf")


@case("R22", DamagedFileError, "/data: filters [1, 1]")
def deflate_twice(file: h5py.File, header: Header) -> None:
    _chunked(file, header, (5, 2))
    with _created(file, (15, 2)) as plist:
        plist.set_chunk((5, 2))
        plist.set_deflate(9)
        plist.set_deflate(9)


@case("R22", DamagedFileError, "/data: filters [1, 2]")
def shuffle_behind_deflate(file: h5py.File, header: Header) -> None:
    _chunked(file, header, (5, 2))
    with _created(file, (15, 2)) as plist:
        plist.set_chunk((5, 2))
        plist.set_deflate(9)
        plist.set_shuffle()


def _bomb(
    file: h5py.File, header: Header, chunks: int, packed: bytes, codec: int = DEFLATE
) -> None:
    """Make 1 MiB chunks of zeros, and store `packed` for each."""
    rows = 1 << 17
    checksum = f"{google_crc32c.value(bytes(1 << 20)):08x}"
    with _created(file, (rows * chunks, 2)) as plist:
        plist.set_chunk((rows, 2))
        plist.set_filter(codec, h5py.h5z.FLAG_OPTIONAL, (9,))
    for number in range(chunks):
        file["/data"].id.write_direct_chunk((rows * number, 0), packed)
    put(file, "/index/0", np.array([0, 1]))
    put(file, "/index/1", np.array([0, rows * chunks]))
    for path in ("/index/0", "/index/1"):
        reseal(file, header, path)
    header["datasets"]["/data"] |= {
        "shape": [rows * chunks, 2],
        "block_rows": rows,
        "crc32c": checksum * chunks,
    }


@case("R21", DamagedFileError, "/data: a chunk is longer than its 1048576 bytes")
def chunk_that_grows_to_a_gigabyte(file: h5py.File, header: Header) -> None:
    _bomb(file, header, 1, _packed_zeros(1 << 30))


@case("R21", DamagedFileError, "/data: a chunk decodes to 1000 bytes, expected 1048576")
def chunk_that_is_too_short(file: h5py.File, header: Header) -> None:
    _bomb(file, header, 1, zlib.compress(bytes(1000)))


@case("R21", DamagedFileError, "/data: a chunk cannot be decompressed")
def chunk_of_noise(file: h5py.File, header: Header) -> None:
    _bomb(file, header, 1, b"no deflate" * 500)


@case("R21", DamagedFileError, "/data: a chunk of 8388608 bytes, at most 1069056")
def chunk_of_8_mebibytes(file: h5py.File, header: Header) -> None:
    _bomb(file, header, 1, bytes(8 << 20))


@case("R23", DamagedFileError, "/data: 1073741824 bytes cannot come from 40960 stored bytes")
def a_gigabyte_from_40_kilobytes(file: h5py.File, header: Header) -> None:
    _bomb(file, header, 1024, bytes(40))


@case("R23", DamagedFileError, "/data: 1073741824 bytes cannot come from 30720 stored bytes")
def a_gigabyte_from_30_kilobytes_of_zstd(file: h5py.File, header: Header) -> None:
    _bomb(file, header, 1024, bytes(30), ZSTD)


@case("R23", DamagedFileError, "rows cannot come from")
def rows_without_bytes(file: h5py.File, header: Header) -> None:
    put(file, "/data", np.zeros((15, 0), np.float32))
    with _created(file, (2**40, 0)):
        header["datasets"]["/data"] |= {"shape": [2**40, 0], "crc32c": ""}


def _packed_zeros(size: int) -> bytes:
    """Return packed zeros: each mebibyte refers to nothing before it, so that all are alike."""
    packer, part = zlib.compressobj(9), bytes(1 << 20)
    first, again = (packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    # An empty last block. Adler-32: 1 and all bytes; then the sum of that after every byte.
    return first + again * ((size >> 20) - 1) + b"\3\0" + struct.pack(">HH", size % 65521, 1)
