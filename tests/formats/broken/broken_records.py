"""A file, or several, for each rule of docs/format.md on records."""

from __future__ import annotations

from typing import Any

import h5py

from lodcli.formats.core.errors import DamagedFileError
from tests.formats.broken.broken_rules import Header, levels_of, marked
from tests.formats.broken.crafted import case, put


def _in_records(header: Header, *paths: Any) -> None:
    """Put each tensor, in order, into records."""
    header["version"] = 2
    for tensor, path in zip(header["tensors"].values(), paths, strict=True):
        tensor["marks"] = {
            "fields": [
                {"name": name, "level": level, **(more[0] if more else {})}
                for name, level, *more in path
            ]
        }


@case("R38", DamagedFileError, "/header: data: fields: expected a list of 1 to 64, found []")
def no_fields(file: h5py.File, header: Header) -> None:
    marked(header, {"fields": []})


@case("R38", DamagedFileError, "fields: no name and level: {'name': 's'}")
def a_field_without_level(file: h5py.File, header: Header) -> None:
    marked(header, {"fields": [{"name": "s"}]})


@case("R38", DamagedFileError, "fields: no name and level: {'colour': 'blue'")
def a_field_with_more(file: h5py.File, header: Header) -> None:
    marked(header, {"fields": [{"name": "s", "level": 0, "colour": "blue"}]})


@case("R38", DamagedFileError, "fields: the column begins at level 0")
def a_column_below_level_0(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 1), ("x", 1)])


@case("R38", DamagedFileError, "no field above the one before it, found 0")
def a_field_above_its_records(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("t", 1), ("x", 0)])


@case("R38", DamagedFileError, "field s[][][].x begins below the levels, of which there are 2")
def a_field_below_the_levels(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("x", 3)])


@case("R38", DamagedFileError, "field s[].x begins below the levels", base="text")
def a_field_within_text(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("x", 1)])
    header["tensors"]["data"]["marks"]["values"] = "text"


@case("R38", DamagedFileError, "fields: '' cannot name a tensor: it is empty")
def a_field_without_a_name(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("", 0)])


@case("R38", DamagedFileError, "fields: required is true, and of records")
def a_required_tensor(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("x", 0, {"required": True})])


@case("R39", DamagedFileError, "data and flags are the same column or field, x", base="shared")
def two_tensors_are_one_field(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("x", 0)], [("s", 0), ("x", 0)])


@case("R39", DamagedFileError, "flags is the column or field data, which holds", base="shared")
def a_column_is_tensor_and_records(file: h5py.File, header: Header) -> None:
    _in_records(header, [("data", 0), ("x", 0)], [("data", 0)])


@case("R39", DamagedFileError, "data and flags do not agree on the levels of s", base="shared")
def fields_at_two_levels(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("x", 0)], [("s", 0), ("y", 1)])


@case("R39", DamagedFileError, "data and flags do not agree on the levels of s", base="shared")
def records_that_are_required_once(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0, {"required": True}), ("x", 0)], [("s", 0), ("y", 0)])


@case("R39", DamagedFileError, "do not share the 2 levels above it", base="shared")
def records_without_shared_levels(file: h5py.File, header: Header) -> None:
    put(file, "/flags/index/1", file["/index/1"][()])
    header["datasets"]["/flags/index/1"] = header["datasets"]["/index/1"]
    levels_of(header, "flags")[1]["offsets"] = "/flags/index/1"
    _in_records(header, [("s", 0), ("x", 2)], [("s", 0), ("y", 2)])


_PRESENT = {"present": True}


@case("R44", DamagedFileError, "fields: present is true, and of a field of records", base="shared")
def a_column_that_tells_records(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("x", 0)], [("t", 0, _PRESENT)])


@case("R44", DamagedFileError, "fields: present is true, and of a field of records", base="shared")
def records_that_tell_records(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("x", 0)], [("s", 0), ("t", 0, _PRESENT), ("y", 0)])


@case("R44", DamagedFileError, "one boolean each, found float32, rows of shape (2,)", base="shared")
def numbers_that_tell_records(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("p", 2, _PRESENT)], [("s", 0), ("x", 2)])


@case("R44", DamagedFileError, "s.p marks which records are null, and has levels", base="shared")
def levels_below_what_tells_records(file: h5py.File, header: Header) -> None:
    _in_records(header, [("s", 0), ("x", 0)], [("s", 0), ("p", 0, _PRESENT)])


@case("R44", DamagedFileError, "flags marks which records are null; none is", base="shared")
def required_records_that_may_be_null(file: h5py.File, header: Header) -> None:
    required = {"required": True}
    _in_records(header, [("s", 0, required), ("x", 2)], [("s", 0, required), ("p", 2, _PRESENT)])
