"""A file, or several, for each rule of docs/format.md on categories."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import InvalidDataError, InvalidLoDError
from tests.formats.broken.crafted import case, put, reseal

Header = dict[str, Any]
WORDS, ENDS = "/categories/words", "/categories/offsets"


@case("R41", DamagedFileError, "marks: categories are codes, whole numbers; found float32")
def codes_of_floats(file: h5py.File, header: Header) -> None:
    _marked(header, {"values": "category"})
    for path, data in ((WORDS, np.zeros(0, np.uint8)), (ENDS, np.zeros(1, np.int64))):
        put(file, path, data)
        header["datasets"][path] = {"dtype": data.dtype.name, "shape": [], "block_rows": 8}
        reseal(file, header, path)


@case("R41", DamagedFileError, "categories: ordered is true, found False", base="categories")
def not_ordered(file: h5py.File, header: Header) -> None:
    _marked(header, {"values": "category", "ordered": False})


@case("R41", DamagedFileError, "categories: expected no words, found ['a']", base="categories")
def words_in_the_header(file: h5py.File, header: Header) -> None:
    _marked(header, {"values": "category", "words": ["a"]})


@case("R42", DamagedFileError, "data: no dataset '/categories/words'", base="categories")
def no_words(file: h5py.File, header: Header) -> None:
    del file[WORDS], header["datasets"][WORDS]


@case("R42", DamagedFileError, "/categories/words: belongs to no tensor", base="categories")
def words_of_numbers(file: h5py.File, header: Header) -> None:
    _marked(header, {})


@case("R42", DamagedFileError, "words must be uint8, their offsets int64", base="categories")
def words_of_int8(file: h5py.File, header: Header) -> None:
    put(file, WORDS, file[WORDS][()].view(np.int8))
    header["datasets"][WORDS]["dtype"] = "int8"


@case("R42", DamagedFileError, "at most 1048576 words of 8388608 bytes", base="categories")
def too_many_words(file: h5py.File, header: Header) -> None:
    put(file, ENDS, np.arange((1 << 20) + 2), chunks=(1 << 15,), compression="gzip")
    header["datasets"][ENDS]["block_rows"] = 1 << 15
    reseal(file, header, ENDS)


@case(
    "R42",
    InvalidLoDError,
    "/categories/offsets: level 0, position 2: offsets decrease",
    base="categories",
    paths=[ENDS],
)
def words_that_go_back(file: h5py.File, header: Header) -> None:
    file[ENDS][1:] = [7, 5]


@case(
    "R42",
    InvalidLoDError,
    "/categories/words: level 0, position 2: the last offset",
    base="categories",
    paths=[ENDS],
)
def letters_of_no_word(file: h5py.File, header: Header) -> None:
    file[ENDS][2] = 4


@case(
    "R42",
    DamagedFileError,
    "/categories/words: a word is not UTF-8",
    base="categories",
    paths=[WORDS],
)
def a_word_that_is_not_utf8(file: h5py.File, header: Header) -> None:
    file[WORDS][0] = 0xFF


@case(
    "R42",
    DamagedFileError,
    "word 1 is the same as word 0: 'n'",
    base="categories",
    paths=[WORDS, ENDS],
)
def two_equal_words(file: h5py.File, header: Header) -> None:
    put(file, WORDS, np.frombuffer(b"nn", np.uint8))
    file[ENDS][1:] = [1, 2]


@case(
    "R43",
    InvalidDataError,
    "row 0: expected the code of one of 2 words, found 2",
    base="categories",
)
def a_code_too_large(file: h5py.File, header: Header) -> None:
    file["/data"][0] = 2
    reseal(file, header, "/data")


@case(
    "R43",
    InvalidDataError,
    "row 2: expected the code of one of 2 words, found -1",
    base="categories",
)
def a_negative_code(file: h5py.File, header: Header) -> None:
    file["/data"][2] = -1
    reseal(file, header, "/data")


def _marked(header: Header, marks: Any) -> None:
    header["version"] = 2
    header["tensors"]["data"]["marks"] = marks
