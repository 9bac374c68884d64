"""A file for each rule of docs/format.md on attributes."""

from __future__ import annotations

import json

import h5py

from lodcli.formats.core.errors import DamagedFileError
from tests.formats.broken.broken_rules import Header, marked
from tests.formats.broken.crafted import case


@case("R40", DamagedFileError, "/header: data: attributes: expected an object whose keys are text")
def attributes_in_a_list(file: h5py.File, header: Header) -> None:
    marked(header, {"attributes": ["m"]})


@case("R40", DamagedFileError, "attributes: expected at least one, found {}")
def no_attributes(file: h5py.File, header: Header) -> None:
    marked(header, {"attributes": {}})


@case("R40", DamagedFileError, "attributes: 262154 bytes of JSON, at most 262144")
def too_many_attributes(file: h5py.File, header: Header) -> None:
    marked(header, {"attributes": {"text": "x" * (262154 - len('{"text":""}'))}})


@case("R40", DamagedFileError, "/header: data: attributes: nest deeper than 256")
def attributes_too_deep(file: h5py.File, header: Header) -> None:
    marked(header, {"attributes": json.loads('{"a":' * 257 + "1" + "}" * 257)})


def _of_file(header: Header, attributes: object) -> None:
    """Make the header of version 2, with attributes of the file."""
    marked(header, {})
    header["attributes"] = attributes


@case("R45", DamagedFileError, "/header: attributes: expected an object whose keys are text")
def attributes_of_the_file_in_a_list(file: h5py.File, header: Header) -> None:
    _of_file(header, ["m"])


@case("R45", DamagedFileError, "/header: attributes: expected at least one, found {}")
def no_attributes_of_the_file(file: h5py.File, header: Header) -> None:
    _of_file(header, {})


@case("R45", DamagedFileError, "/header: attributes: 262154 bytes of JSON, at most 262144")
def too_many_attributes_of_the_file(file: h5py.File, header: Header) -> None:
    _of_file(header, {"text": "x" * (262154 - len('{"text":""}'))})


@case("R45", DamagedFileError, "/header: attributes: nest deeper than 256")
def attributes_of_the_file_too_deep(file: h5py.File, header: Header) -> None:
    _of_file(header, json.loads('{"a":' * 257 + "1" + "}" * 257))


@case("R45", DamagedFileError, "the header has an unknown member 'attributes'")
def attributes_of_the_file_in_version_1(file: h5py.File, header: Header) -> None:
    header["attributes"] = {"license": "MIT"}
