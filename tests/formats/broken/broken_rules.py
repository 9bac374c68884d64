"""A file, or several, for each rule of docs/format.md on tensors, header and index."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.kernels.errors import InvalidDataError, InvalidLoDError, UnsupportedError
from tests.formats.broken.crafted import byte_case, case, encoded, put, put_header, reseal, sealed

Header = dict[str, Any]
INDEX = ["/index/0"], ["/index/1"]


def levels_of(header: Header, name: str = "data") -> Any:
    return header["tensors"][name]["levels"]


# -- 1, what a tensor is -----------------------------------------------------------


def _retyped(file: h5py.File, header: Header, dtype: str) -> None:
    put(file, "/index/0", file["/index/0"][()].astype(dtype))
    header["datasets"]["/index/0"]["dtype"] = dtype


@case("R1", DamagedFileError, "/index/0: offsets must be int64, 1-D", paths=INDEX[0])
def int32_offsets(file: h5py.File, header: Header) -> None:
    _retyped(file, header, "int32")


@case("R1", DamagedFileError, "/index/0: offsets must be int64, 1-D", paths=INDEX[0])
def float_offsets(file: h5py.File, header: Header) -> None:
    _retyped(file, header, "float64")


@case("R1", DamagedFileError, "/index/0: offsets must be int64, 1-D", paths=INDEX[0])
def offsets_in_two_dimensions(file: h5py.File, header: Header) -> None:
    put(file, "/index/0", file["/index/0"][()].reshape(2, 2))


@case("R2", InvalidLoDError, "/index/0: level 0, position 0: first offset", paths=INDEX[0])
def first_offset_is_one(file: h5py.File, header: Header) -> None:
    file["/index/0"][0] = 1


@case("R2", InvalidLoDError, "/index/0: level 0: no offsets", paths=INDEX[0])
def no_offsets(file: h5py.File, header: Header) -> None:
    put(file, "/index/0", np.zeros(0, np.int64))


@case("R3", InvalidLoDError, "/index/1: level 1, position 3: offsets decrease", paths=INDEX[1])
def offsets_decrease(file: h5py.File, header: Header) -> None:
    file["/index/1"][3] = 4


@case("R3", InvalidLoDError, "/index/1: level 1, position 4: offsets decrease", paths=INDEX[1])
def offset_of_2_to_63(file: h5py.File, header: Header) -> None:
    file["/index/1"][3] = 2**63 - 1


@case("R4", InvalidLoDError, "/index/0: level 0, position 3: the last offset", paths=INDEX[0])
def level_counts_one_item_less(file: h5py.File, header: Header) -> None:
    file["/index/0"][3] = 5


@case("R4", InvalidLoDError, "expected 6, found 9223372036854775807", paths=INDEX[0])
def level_counts_2_to_63_items(file: h5py.File, header: Header) -> None:
    file["/index/0"][3] = 2**63 - 1


@case("R5", InvalidLoDError, "/data: level 1, position 6: the last offset", paths=INDEX[1])
def index_counts_one_row_less(file: h5py.File, header: Header) -> None:
    file["/index/1"][6] = 14


@case("R5", InvalidLoDError, "expected 15, found 9223372036854775807", paths=INDEX[1])
def index_counts_2_to_63_rows(file: h5py.File, header: Header) -> None:
    file["/index/1"][6] = 2**63 - 1


# -- 2, where things are -----------------------------------------------------------


@case("R6", DamagedFileError, "/extra: is not named by the header")
def a_dataset_more(file: h5py.File, header: Header) -> None:
    put(file, "/extra", np.zeros(3))


@case("R6", DamagedFileError, "/index/more: is not named by the header")
def a_group_more(file: h5py.File, header: Header) -> None:
    file.create_group("/index/more")


@case("R6", DamagedFileError, "/data: is missing")
def a_dataset_less(file: h5py.File, header: Header) -> None:
    del file["/data"]


@case("R6", DamagedFileError, "/index: is missing")
def a_group_less(file: h5py.File, header: Header) -> None:
    del file["/index"]


@case("R6", DamagedFileError, "/other/data: belongs to no tensor")
def a_dataset_of_no_tensor(file: h5py.File, header: Header) -> None:
    put(file, "/other/data", np.zeros(3, np.float32))
    header["datasets"]["/other/data"] = dict(header["datasets"]["/data"])
    reseal(file, header, "/other/data")


@case("R6", DamagedFileError, "/data: is a group")
def a_group_for_a_dataset(file: h5py.File, header: Header) -> None:
    del file["/data"]
    file.create_group("/data")


@case("R6", DamagedFileError, "/index: is a dataset; must be a group")
def a_dataset_for_a_group(file: h5py.File, header: Header) -> None:
    put(file, "/index", np.zeros(3))


@case("R6", DamagedFileError, "no dataset '/index/2'")
def a_level_of_no_dataset(file: h5py.File, header: Header) -> None:
    levels_of(header).append({"offsets": "/index/2", "name": None})


@case("R6", DamagedFileError, "names no tensor")
def no_tensor(file: h5py.File, header: Header) -> None:
    header["tensors"] = {}
    header["datasets"] = {}


@case("R7", DamagedFileError, "/flags/index/0 is not a path for level 1", base="shared")
def level_in_the_place_of_another(file: h5py.File, header: Header) -> None:
    file.move("/index/1", "/flags/index/0")
    header["datasets"]["/flags/index/0"] = header["datasets"].pop("/index/1")
    for name in ("data", "flags"):
        levels_of(header, name)[1]["offsets"] = "/flags/index/0"


@case("R7", DamagedFileError, "/index/1: shared by tensors that differ", base="shared")
def finer_level_shared_without_the_coarser(file: h5py.File, header: Header) -> None:
    put(file, "/flags/index/0", file["/index/0"][()])
    header["datasets"]["/flags/index/0"] = header["datasets"]["/index/0"]
    levels_of(header, "flags")[0]["offsets"] = "/flags/index/0"


def _renamed(file: h5py.File, header: Header, name: str) -> None:
    file.move("/flags/data", f"/{name}/data")
    del file["/flags"]
    header["tensors"][name] = header["tensors"].pop("flags")
    header["tensors"][name]["data"] = f"/{name}/data"
    header["datasets"][f"/{name}/data"] = header["datasets"].pop("/flags/data")


@case("R8", DamagedFileError, "cannot name a tensor: it holds '::'", base="shared")
def name_with_two_colons(file: h5py.File, header: Header) -> None:
    _renamed(file, header, "a::b")


@case("R8", DamagedFileError, "a control character", base="shared")
def name_with_a_control_character(file: h5py.File, header: Header) -> None:
    _renamed(file, header, "a\x1b[2J")


@case("R8", DamagedFileError, "order: data must be at /::order/data", base="shared")
def reserved_name_in_the_root(file: h5py.File, header: Header) -> None:
    _renamed(file, header, "order")


@case("R8", DamagedFileError, "data must be at /::../data", base="shared")
def name_of_the_folder_above(file: h5py.File, header: Header) -> None:
    header["tensors"][".."] = header["tensors"].pop("flags")


# -- 3, the header -----------------------------------------------------------------


@case("R9", DamagedFileError, "/header: must be a fixed-length string")
def header_of_variable_length(file: h5py.File, header: Header) -> None:
    put(file, "/header", encoded(header).decode(), dtype=h5py.string_dtype())


@case("R9", DamagedFileError, "/header: must be a fixed-length string, null-padded, of ASCII")
def header_with_a_final_zero(file: h5py.File, header: Header) -> None:
    header["tensors"]["data"]["levels"][0]["name"] = "another"
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(len(encoded(header)) + 1)
    kind.set_strpad(h5py.h5t.STR_NULLTERM)
    plain = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plain.set_obj_track_times(False)
    del file["/header"]
    scalar = h5py.h5s.create(h5py.h5s.SCALAR)
    found = h5py.h5d.create(file.id, b"header", kind, scalar, plain)
    found.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(encoded(header)))


@case("R9", DamagedFileError, "/header: must be a fixed-length string")
def header_of_bytes(file: h5py.File, header: Header) -> None:
    put(file, "/header", np.frombuffer(encoded(header), np.uint8))


@case("R9", DamagedFileError, "/header: must be one string")
def header_of_several_strings(file: h5py.File, header: Header) -> None:
    text = encoded(header)
    put(file, "/header", np.array([text], f"S{len(text)}"))


@case("R9", DamagedFileError, "/header: must be contiguous")
def header_in_chunks(file: h5py.File, header: Header) -> None:
    text = encoded(header)
    put(file, "/header", np.array([text], f"S{len(text)}"), chunks=(1,))


@case("R9", DamagedFileError, "/header: must be one string")
def header_without_value(file: h5py.File, header: Header) -> None:
    put(file, "/header", h5py.Empty("S100"))


@case("R9", DamagedFileError, "/header: is a group")
def header_that_is_a_group(file: h5py.File, header: Header) -> None:
    del file["/header"]
    file.create_group("/header")


@case("R9", NotThisFormatError, "not a lod container (no /header)")
def header_missing(file: h5py.File, header: Header) -> None:
    del file["/header"]


@byte_case("R9", DamagedFileError, "/header: ")
def header_of_4_gigabytes(content: bytes) -> bytes:
    # The size in the string's type: what the text has, in the datatype message.
    text = content[content.index(b'{"format"') : content.rindex(b"}") + 1]
    kind = content.index(b"\x13\1\0\0" + len(text).to_bytes(4, "little"))
    return content[: kind + 4] + b"\xff\xff\xff\xff" + content[kind + 8 :]


@case("R10", DamagedFileError, "/header: is not JSON")
def header_of_prose(file: h5py.File, header: Header) -> None:
    put_header(file, sealed(b"lod 1, one tensor"))


@case("R10", DamagedFileError, "/header: is not a JSON object")
def header_of_a_list(file: h5py.File, header: Header) -> None:
    put_header(file, b"[1,2,3]")


@case("R10", DamagedFileError, "a member appears twice")
def member_twice(file: h5py.File, header: Header) -> None:
    put_header(file, sealed(b'{"format":"lod",' + encoded(header)[1:].rpartition(b",")[0]))


@case("R10", DamagedFileError, "NaN is not JSON")
def not_a_number(file: h5py.File, header: Header) -> None:
    header["datasets"]["/data"]["block_rows"] = float("nan")


@case("R10", DamagedFileError, "/header: is not JSON")
def nested_100_000_deep(file: h5py.File, header: Header) -> None:
    put_header(file, sealed(b'{"format":' + b"[" * 100_000 + b"]" * 100_000))


@case("R10", DamagedFileError, "/header: is not JSON")
def number_of_10_000_digits(file: h5py.File, header: Header) -> None:
    put_header(file, sealed(b'{"format":"lod","version":' + b"1" * 10_000))


@case("R10", DamagedFileError, "is not a shape")
def shape_of_400_digits(file: h5py.File, header: Header) -> None:
    header["datasets"]["/data"]["shape"] = [10**400, 2]


@case("R10", DamagedFileError, "/header: the header has an unknown member 'colour'")
def unknown_member(file: h5py.File, header: Header) -> None:
    header["colour"] = "blue"


@case("R10", DamagedFileError, "/header: data lacks member 'levels'")
def missing_member(file: h5py.File, header: Header) -> None:
    del header["tensors"]["data"]["levels"]


@case("R10", DamagedFileError, "/header: data: more than 64 levels")
def too_many_levels(file: h5py.File, header: Header) -> None:
    levels = header["tensors"]["data"]["levels"]
    levels += [levels[-1]] * 64


@case("R10", DamagedFileError, "/data: [-1, 2] is not a shape")
def negative_shape(file: h5py.File, header: Header) -> None:
    header["datasets"]["/data"]["shape"] = [-1, 2]


@case("R10", DamagedFileError, "/data: block_rows must be positive")
def blocks_of_no_rows(file: h5py.File, header: Header) -> None:
    header["datasets"]["/data"]["block_rows"] = 0


@case("R10", DamagedFileError, "'7' is not a valid level name")
def level_named_like_a_number(file: h5py.File, header: Header) -> None:
    levels_of(header)[0]["name"] = "7"


@case("R10", DamagedFileError, "data: unknown kind of tensor 'list'")
def unknown_kind(file: h5py.File, header: Header) -> None:
    header["tensors"]["data"]["kind"] = "list"


@case("R11", DamagedFileError, "/header: is not of a lod container")
def another_format(file: h5py.File, header: Header) -> None:
    header["format"] = "dol"


@case("R11", UnsupportedError, "container version 3; this program reads versions 1 and 2")
def version_3(file: h5py.File, header: Header) -> None:
    header["version"] = 3


@case("R11", UnsupportedError, "container version 1.0")
def version_with_a_point(file: h5py.File, header: Header) -> None:
    header["version"] = 1.0


@case("R11", UnsupportedError, "container version True")
def version_true(file: h5py.File, header: Header) -> None:
    header["version"] = True


@byte_case("R12", DamagedFileError, "/header: the checksum does not match")
def header_altered(content: bytes) -> bytes:
    return content.replace(b'"article"', b'"artikel"')


@case("R12", DamagedFileError, "/header: the checksum does not match")
def white_space_behind(file: h5py.File, header: Header) -> None:
    put_header(file, encoded(header) + b"\n")


@case("R12", DamagedFileError, "/header: the checksum does not match")
def checksum_in_the_middle(file: h5py.File, header: Header) -> None:
    text = encoded(header)
    put_header(file, text[:-1] + b',"colour":1}')


@case("R13", DamagedFileError, "/data: expected shape (14, 2), found (15, 2)")
def another_shape(file: h5py.File, header: Header) -> None:
    header["datasets"]["/data"]["shape"] = [14, 2]


@case("R13", DamagedFileError, "/data: is not stored as little-endian uint32")
def another_dtype(file: h5py.File, header: Header) -> None:
    header["datasets"]["/data"]["dtype"] = "uint32"


@case("R14", DamagedFileError, "/data: rows 0 to 14 were altered")
def rows_altered(file: h5py.File, header: Header) -> None:
    file["/data"][3, 1] += 1


@case("R14", DamagedFileError, "/data: rows 4 to 7 were altered")
def second_block_altered(file: h5py.File, header: Header) -> None:
    header["datasets"]["/data"]["block_rows"] = 4
    reseal(file, header, "/data")
    file["/data"][7, 0] += 1


@case("R14", DamagedFileError, "/index/1: rows 0 to 6 were altered")
def index_altered_into_another_index(file: h5py.File, header: Header) -> None:
    file["/index/1"][1] = 2


@case("R14", DamagedFileError, "/data: 1 blocks need 1 checksums")
def a_checksum_more(file: h5py.File, header: Header) -> None:
    header["datasets"]["/data"]["crc32c"] *= 2


@case("R16", InvalidDataError, "/flags/data: a boolean must be stored as 0 or 1", base="shared")
def boolean_of_two(file: h5py.File, header: Header) -> None:
    two = np.full(15, 2, np.int8)
    dataset = file["/flags/data"].id
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, two, dataset.get_type())
    reseal(file, header, "/flags/data")


# -- 5, TensorArrays ---------------------------------------------------------------


@case("R24", DamagedFileError, "data: an array needs steps and outer levels", base="array")
def array_without_outer_levels(file: h5py.File, header: Header) -> None:
    header["tensors"]["data"]["outer"] = []
    for path in [path for path in header["datasets"] if path.startswith("/outer/")]:
        del header["datasets"][path], file[path]


@case("R24", DamagedFileError, "marks: a TensorArray has no marks", base="array")
def array_with_attributes(file: h5py.File, header: Header) -> None:
    marked(header, {"attributes": {"unit": "m"}})


@case("R24", InvalidDataError, "/order: order: sequence 2 comes 2 times", base="array")
def order_names_one_twice(file: h5py.File, header: Header) -> None:
    order = file["/order"]
    order[:] = np.where(order[:] == 0, 2, order[:])
    reseal(file, header, "/order")


@case("R24", InvalidDataError, "/order: order, position 1: no sequence 6", base="array")
def order_names_one_that_is_not_there(file: h5py.File, header: Header) -> None:
    file["/order"][1] = 6
    reseal(file, header, "/order")


@case("R24", InvalidDataError, "expected 1125899906842624 items, found 15", base="array")
def steps_for_2_to_50_items(file: h5py.File, header: Header) -> None:
    file["/outer/1"][6] = 2**50
    reseal(file, header, "/outer/1")


@case("R24", InvalidDataError, "step 0: expected 6 items, found 5", base="array")
def a_step_of_other_size(file: h5py.File, header: Header) -> None:
    file["/index/0"][1] = 5
    reseal(file, header, "/index/0")


# -- 8, marks ----------------------------------------------------------------------


@case("R10", DamagedFileError, "/header: data has an unknown member 'marks'")
def marks_in_version_1(file: h5py.File, header: Header) -> None:
    header["tensors"]["data"]["marks"] = {}


@case("R10", DamagedFileError, "/header: data lacks member 'marks'")
def no_marks_in_version_2(file: h5py.File, header: Header) -> None:
    header["version"] = 2


def marked(header: Header, marks: Any) -> None:
    """Make the header of version 2, with these marks of all tensors."""
    header["version"] = 2
    for tensor in header["tensors"].values():
        tensor["marks"] = marks


@case("R31", UnsupportedError, "/header: data: no mark 'colour' is known; use a later lod")
def unknown_mark(file: h5py.File, header: Header) -> None:
    marked(header, {"values": "text", "colour": "blue"})


@case("R31", UnsupportedError, "/header: data: no mark of values 'html' is known")
def unknown_values(file: h5py.File, header: Header) -> None:
    marked(header, {"values": "html"})


@case("R31", UnsupportedError, "/header: data: no mark of values ['text'] is known")
def values_in_a_list(file: h5py.File, header: Header) -> None:
    marked(header, {"values": ["text"]})


@case("R31", DamagedFileError, "/header: data: marks: expected an object, found 'text'")
def marks_that_are_no_object(file: h5py.File, header: Header) -> None:
    marked(header, "text")


@case("R32", DamagedFileError, "/header: data: marks: text is uint8 rows of one value")
def text_of_floats(file: h5py.File, header: Header) -> None:
    marked(header, {"values": "text"})


@case("R32", DamagedFileError, "marks: a TensorArray has no marks", base="array")
def bytes_of_an_array(file: h5py.File, header: Header) -> None:
    marked(header, {"values": "bytes"})


@case("R32", DamagedFileError, "rows of shape (), 0 levels", base="text")
def text_without_a_level(file: h5py.File, header: Header) -> None:
    header["tensors"]["data"]["levels"] = []
    del header["datasets"]["/index/0"], file["/index/0"]


@case("R33", InvalidDataError, "data: item <2>: is not UTF-8", base="text", paths=["/data"])
def text_that_is_not_utf_8(file: h5py.File, header: Header) -> None:
    file["/data"][6] = 0xFF


@case("R33", InvalidDataError, "item <1>: is not UTF-8", base="text", paths=["/index/0"])
def text_cut_within_a_character(file: h5py.File, header: Header) -> None:
    file["/index/0"][1] = 3


@case("R34", DamagedFileError, "/header: data: nulls: expected the levels that have a mask")
def nulls_without_masks(file: h5py.File, header: Header) -> None:
    marked(header, {"nulls": [0]})


@case("R34", DamagedFileError, "expected the levels that have a mask, found [0]", base="nulls")
def a_mask_that_is_not_named(file: h5py.File, header: Header) -> None:
    marked(header, {"nulls": [0]})


@case("R34", DamagedFileError, "expected the levels that have a mask, found []", base="nulls")
def no_level_of_nulls(file: h5py.File, header: Header) -> None:
    marked(header, {"nulls": []})


@case(
    "R34", DamagedFileError, "expected the levels that have a mask, found [True, 0]", base="nulls"
)
def nulls_of_no_levels(file: h5py.File, header: Header) -> None:
    marked(header, {"nulls": [True, 0]})


@case("R34", DamagedFileError, "/valid/rows: belongs to no tensor", base="nulls")
def masks_without_nulls(file: h5py.File, header: Header) -> None:
    marked(header, {})
    del header["datasets"]["/valid/0"], file["/valid/0"]


@case("R34", DamagedFileError, "marks: a TensorArray has no marks", base="array")
def nulls_of_an_array(file: h5py.File, header: Header) -> None:
    marked(header, {"nulls": [0]})


@case(
    "R35", DamagedFileError, "/valid/0: a mask of 4 items must be uint8 of shape (1,)", base="nulls"
)
def a_mask_of_other_length(file: h5py.File, header: Header) -> None:
    put(file, "/valid/0", np.array([5, 0], np.uint8))
    reseal(file, header, "/valid/0")


@case(
    "R35", DamagedFileError, "/valid/0: a mask of 4 items must be uint8 of shape (1,)", base="nulls"
)
def a_mask_of_other_dtype(file: h5py.File, header: Header) -> None:
    put(file, "/valid/0", np.array([5], np.int8))
    header["datasets"]["/valid/0"]["dtype"] = "int8"
    reseal(file, header, "/valid/0")


@case(
    "R35", DamagedFileError, "/valid/0: masks more than 4 items", base="nulls", paths=["/valid/0"]
)
def a_mask_of_more_items(file: h5py.File, header: Header) -> None:
    file["/valid/0"][0] = 0b11101


@case(
    "R36",
    InvalidDataError,
    "data: nulls: item 0 of level 0 is null and is not empty",
    base="nulls",
    paths=["/valid/0"],
)
def a_null_that_is_not_empty(file: h5py.File, header: Header) -> None:
    file["/valid/0"][0] = 0b1100


@case(
    "R36", InvalidDataError, "data: a row is null and not zero", base="nulls", paths=["/valid/rows"]
)
def a_null_that_is_not_zero(file: h5py.File, header: Header) -> None:
    file["/valid/rows"][0] = 0b11111100


@case("R37", DamagedFileError, "marks: timestamp[us] is int64, found float32")
def times_of_floats(file: h5py.File, header: Header) -> None:
    marked(header, {"values": "timestamp", "unit": "us"})


@case("R37", DamagedFileError, "marks: date: expected unit D, ms, found 's'", base="nulls")
def dates_of_seconds(file: h5py.File, header: Header) -> None:
    marked(header, {"nulls": [0, 1], "values": "date", "unit": "s"})


@case("R37", UnsupportedError, "no mark 'zone' is known", base="nulls")
def a_zone_of_dates(file: h5py.File, header: Header) -> None:
    marked(header, {"nulls": [0, 1], "values": "date", "unit": "D", "zone": "UTC"})


@case("R37", DamagedFileError, "marks: expected ['unit'], found", base="nulls")
def a_duration_without_unit(file: h5py.File, header: Header) -> None:
    marked(header, {"nulls": [0, 1], "values": "duration"})


@case("R37", DamagedFileError, "expected a precision of 1 to 38, found 39", base="nulls")
def too_many_digits(file: h5py.File, header: Header) -> None:
    mark = {"values": "decimal", "precision": 39, "scale": 0, "bits": 128}
    marked(header, {"nulls": [0, 1], **mark})
