"""jsonl: reading one sample a line."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.json import jsonl
from lodcli.formats.json.jsonl import JsonLines
from lodcli.kernels.errors import (
    InvalidDataError,
    LodError,
    OptionError,
    SelectionError,
    UnsupportedError,
)
from lodcli.kernels.native import load
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import batches_of, content, content_of, nested, pipe

EVENTS = Path(__file__).parents[3] / "samples" / "events.jsonl"
BEYOND_PEEK = b"[1]\n" * 300_000  # more than the 1 MiB that is read ahead


def given_lines(folder: Path, data: bytes, **options: Any) -> LoDTensor:
    (found,) = content_of(folder, ".jsonl", data, **options).values()
    return found


# -- levels --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "lengths", "rows"),
    [
        (b"1\n2\n", [], [1, 2]),
        (b"[1,2,3]\n[]\n[4]\n", [[3, 0, 1]], [1, 2, 3, 4]),
        (b"[[1,2],[3]]\n[]\n[[],[4]]", [[2, 0, 2], [2, 1, 0, 1]], [1, 2, 3, 4]),
        (b"[[[]]]\n[[[5]]]\n", [[1, 1], [1, 1], [0, 1]], [5]),
        (b" [ 1 , 2 ] \r\n\t[3]\r\n", [[2, 1]], [1, 2, 3]),
        (b"\xef\xbb\xbf[7]\n", [[1]], [7]),
    ],
)
def test_every_list_is_a_level(
    tmp_path: Path, data: bytes, lengths: list[list[int]], rows: list[int]
) -> None:
    found = given_lines(tmp_path, data)
    assert found.recursive_sequence_lengths() == lengths
    assert found.data.tolist() == rows
    assert found.dtype == np.int64


@pytest.mark.slow
def test_later_lines_tell_the_depth_that_empty_lists_leave_open(tmp_path: Path) -> None:
    many = (1 << 21) // 3  # two mebibytes of empty lists
    found = given_lines(tmp_path, b"[]\n" * many + b"[[],[]]\n[[[true]]]\n")
    assert found.lod.n_levels == 3
    assert found.lod.count(0) == many + 2
    assert found.dtype == np.bool_


def test_lists_empty_to_the_end_have_the_depth_they_show(tmp_path: Path) -> None:
    found = given_lines(tmp_path, b"[]\n[[],[]]\n")
    assert found.recursive_sequence_lengths() == [[0, 2], [0, 0]]
    assert found.dtype == np.float64
    named = given_lines(tmp_path, b"[]\n[]\n", levels=("a", "b"), dtype=np.dtype("int8"))
    assert named.recursive_sequence_lengths() == [[0, 0], []]
    assert named.dtype == np.int8


def test_names_say_which_lists_are_levels(tmp_path: Path) -> None:
    data = b"[[1,2],[3,4]]\n[]\n[[5,6]]\n"
    found = given_lines(tmp_path, data, levels=("series",))
    assert found.lod.names == ("series",)
    assert found.recursive_sequence_lengths() == [[2, 0, 1]]
    assert found.data.tolist() == [[1, 2], [3, 4], [5, 6]]
    plain = given_lines(tmp_path, b"[[1,2],[3,4]]\n[[5,6],[7,8]]", levels=())
    assert plain.data.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert given_lines(tmp_path, data, levels=("a", "b")).lod.names == ("a", "b")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[[1,2]]\n[[1,2],[3]]\n", r"line 2: item <1>: expected 2 values in a row, found 1"),
        (b'["ab"]\n["ab","abc"]\n', r"line 2: item <1>: expected 2 values in a row, found 3"),
    ],
)
def test_a_row_that_is_not_rectangular_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        given_lines(tmp_path, data, levels=("series",))


def test_more_names_than_levels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="the lines have 1 level, found 2 names"):
        given_lines(tmp_path, b"[1]\n", levels=("a", "b"))


def test_a_bad_level_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"[1]\n")
    with pytest.raises(OptionError, match="'0' is not a valid level name"):
        lodcli.open(tmp_path / "x.jsonl", levels=("0",))


def test_lists_deeper_than_64_are_refused(tmp_path: Path) -> None:
    assert given_lines(tmp_path, b"[" * 64 + b"1" + b"]" * 64).lod.n_levels == 64
    with pytest.raises(UnsupportedError, match="deeper than 64 levels"):
        given_lines(tmp_path, b"[" * 65 + b"1" + b"]" * 65)
    with pytest.raises(InvalidDataError, match="line 1: is nested too deeply"):
        given_lines(tmp_path, b"[" * 100_000 + b"]" * 100_000)


# -- dtypes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype", "rows"),
    [
        (b"[1]\n[2.5]\n", "float64", [1.0, 2.5]),
        (b"[true,false]\n", "bool", [True, False]),
        (b"[9223372036854775807,-9223372036854775808]", "int64", [2**63 - 1, -(2**63)]),
        (b"[0.1,1e300,-0.0]", "float64", [0.1, 1e300, -0.0]),
    ],
)
def test_values_tell_the_dtype(tmp_path: Path, data: bytes, dtype: str, rows: list[Any]) -> None:
    found = given_lines(tmp_path, data)
    assert found.dtype == dtype
    assert found.data.tobytes() == np.array(rows, dtype).tobytes()


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (b"[0,255]", "uint8"),
        (b"[18446744073709551615]", "uint64"),
        (b"[1,2.5]", "float32"),
        (b"[65504]", "float16"),
        (b"[1.5]", "bfloat16"),
        (b"[3]", "float64"),
        (b"[true,false]", "float32"),
        (b"[1,0]", "bool"),
    ],
)
def test_a_given_dtype_overrules(tmp_path: Path, data: bytes, dtype: str) -> None:
    wanted = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    found = given_lines(tmp_path, data, dtype=wanted)
    assert found.dtype == wanted
    assert found.data.tolist() == json.loads(data)


@pytest.mark.parametrize(
    ("data", "dtype", "message"),
    [
        (b"[1]\n[256]", "uint8", "line 2: item <0>: 256 cannot be represented exactly in uint8"),
        (b"[-1]", "uint64", "line 1: item <0>: -1 cannot be represented exactly in uint64"),
        (
            b"[1.0]",
            "int64",
            r"item <0>: expected a whole number \(int64\), found 1.0; dtype_unsafe=True rounds it",
        ),
        (b"[1e19]", "int64", r"whole number \(int64\), found 1e\+19; dtype='float64' may hold it"),
        (b"[2]", "bool", "2 does not fit bool"),
        (b"[true]\n[1]", "int8", "line 2: item <0>: expected true or false, found 1"),
        (b"[16777217]", "float32", "16777217 cannot be represented exactly in float32"),
        (
            b"[1.5,9007199254740993]",
            "float64",
            "9007199254740993 cannot be represented exactly in float64; dtype='int64' may hold it, "
            "dtype='float64', dtype_unsafe=True rounds it",
        ),
        (
            b"[1.5,123456789012345678901234567890]",
            "float64",
            "exactly in float64; no dtype holds it, dtype='float64', dtype_unsafe=True rounds it",
        ),
        (b"[70000.0]", "float16", "70000.0 is beyond float16; dtype='float64' may hold it"),
        (
            b"[" + b"9" * 400 + b"]",
            "float64",
            "an integer that is too large cannot be represented exactly",
        ),
    ],
)
def test_a_number_that_does_not_fit_the_dtype_is_named(
    tmp_path: Path, data: bytes, dtype: str, message: str
) -> None:
    with pytest.raises(InvalidDataError, match=message):
        given_lines(tmp_path, data, dtype=np.dtype(dtype))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[0.5]", r"line 300001: item <0>: .* found 0.5; read the file with dtype='float64'"),
        (b"[1,9223372036854775808]", "int64; dtype='uint64' may hold it"),
    ],
)
def test_a_fraction_after_many_whole_numbers_tells_the_remedy(
    tmp_path: Path, line: bytes, message: str
) -> None:
    data = BEYOND_PEEK + line
    with pytest.raises(InvalidDataError, match=message):
        given_lines(tmp_path, data)
    found = given_lines(tmp_path, data, dtype=np.dtype(np.float64))
    assert found.data[-1] == json.loads(line)[-1]


@pytest.mark.parametrize("dtype", ["complex64", "datetime64[s]"])
def test_other_dtypes_are_refused(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(UnsupportedError, match="JSON has no numbers of dtype"):
        given_lines(tmp_path, b"[1]", dtype=np.dtype(dtype))


# -- text ----------------------------------------------------------------------------


def test_text_is_one_more_level_of_bytes(tmp_path: Path) -> None:
    found = given_lines(tmp_path, '["ab",""]\n["\\u00e9ß"]\n[]'.encode(), levels=("s", "w"))
    assert found.recursive_sequence_lengths() == [[2, 1, 0], [2, 0, 4]]
    assert found.data.tobytes() == "abéß".encode()
    assert found.lod.names == ("s", "w")
    assert given_lines(tmp_path, b'"ab"\n"c"').recursive_sequence_lengths() == [[2, 1]]


def test_text_has_no_other_dtype(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="cannot cast numbers to float32"):
        given_lines(tmp_path, b'"ab"', dtype=np.dtype(np.float32))


# -- faults --------------------------------------------------------------------------


def test_a_list_of_objects_needs_a_name(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'[]\n[{"a": 1}]\n')
    with pytest.raises(
        UnsupportedError, match=r"a list of objects needs a name: write .*format_name='json'"
    ):
        content(tmp_path / "x.jsonl")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[1]\n[[2]]\n", "line 2: item <0>: expected a number, found a list"),
        (b"[1]\n2\n", "line 2: expected a list, found 2"),
        (b"[[1]]\n[[1],2]", "line 2: item <1>: expected a list, found 2"),
        (b"[[1],[2,[3]]]", "line 1: item <1,1>: expected a number, found a list"),
        (b"[1]\n[2,true]", "line 2: item <1>: expected a number, found true"),
        (b"[true,1]", "line 1: item <1>: expected true or false, found 1"),
        (b'[1,"a"]', "line 1: item <1>: expected a number, found text"),
        (b'["a"]\n["b",1]', "line 2: item <1>: expected text, found 1; all values must be of one"),
        (b'["a"]\n[[]]', "line 2: item <0>: expected text, found a list"),
        (b'[1]\n{"a":1}', "line 2: expected a list, found an object"),
        (b"[1,2]\n[1,NaN]", "line 2: NaN is not JSON"),
        (b"[-Infinity]", "line 1: -Infinity is not JSON"),
        (
            b"[-9223372036854775809]",
            "cannot be represented exactly in int64; no dtype holds it; round it",
        ),
        (b"[36893488147419103232]", "in int64; dtype='float64' may hold it"),
        (
            b"[1e400]",
            "line 1: item <0>: a number that exceeds float64, and so every dtype; scale it, or",
        ),
        (b"[1]\n[1,]", "line 2: column [34]: is not JSON"),
        (b"[1]\n[1", "line 2: column 3: ends before its value does .*; the file seems cut off"),
        *(
            (
                b'{"a":1}\n{"b":%s' % end,
                r"line 2: .*; the file seems cut off: copy it again, or delete its last line$",
            )
            for end in (
                b'"x',
                b"tru",
                b"fals",
                b"nu",
                b"-",
                b"-1.",
                b"1e",
                b"2.5E-",
                b'"\\u00',
                b'"\xc3',
            )
        ),
        (b'{"a":"\xe9"}', "line 1: byte 6 is not UTF-8; give its encoding=, such as latin1"),
        (b'{"a":true', "line 1: column 10: ends before its value does .*; the file seems cut off"),
        (b'{"a":trun', r"line 1: column 6: is not JSON \(Expecting value\)$"),
        (b'{"a":tru\n', r"line 1: column 6: is not JSON \(Expecting value\)$"),
        (b"1\n2.", "line 2: .*; the file seems cut off"),
        *(
            (line, r"line 1: .*is not JSON \((?!.*cut off)")
            for line in (b"2 f", b'{"a":1} e', b"[1 .", b'{"a":u12', b'{"a":.', b'{"a":"\\x')
        ),
        (b"[1]\n[1,2\n", "line 2: column 5: ends before its value does"),
        (b"[1]\n[1,2 \r\n[3]\n", "line 2: column 5: ends before its value does"),
        (
            b"[1][2]",
            r"line 1: column 4: is not JSON \(Extra data\); .*; format_name='json' reads values",
        ),
        (
            b'{"a":1},\n{"a":2}\n',
            r"column 8: is not JSON .*; for elements of an array, put them in",
        ),
        (
            b"\x1e[1]\n\x1e[2]\n",
            r"line 1: .*separator of RFC 7464; remove it, as with tr -d '\\36'",
        ),
        (
            b'\x1e{"a":1}\n\x1e{"a":2}\n',
            r"line 1: .*; format_name='json' reads objects with the separators of RFC 7464$",
        ),
        (b"\n[1]\n \n[2.5,\v]\n", "line 4: column 6: is not JSON"),
        (b'\n{"a":1}\n  \t\r\n\n{"b":1}', "line 5: field 'a' is missing"),
        (b'["\xff"]', "line 1: byte 2 is not UTF-8"),
        (b'["\\ud800"]', "line 1: item <0>: character 0 of the text is half of a surrogate pair$"),
        (b"[" + b"9" * 5000 + b"]", "line 1: holds a number of too many digits"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message) as caught:
        given_lines(tmp_path, data)
    assert str(caught.value).startswith(f"{tmp_path / 'given.jsonl'}: ")


def test_lines_are_counted_while_reading_ahead(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="line 600001: column 2"):
        given_lines(tmp_path, b"[]\n" * 600_000 + b"[x]\n")


def test_lines_are_counted_through_all_batches(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"[1]\n" * 999 + b"[x]\n")
    for limit_bytes in (1, 100, 1 << 20):
        with pytest.raises(InvalidDataError, match="line 1000: column 2"):
            batches_of(path, limit_bytes)


# -- objects -------------------------------------------------------------------------

RECORDS = b'{"x":[1,2],"y":true,"z":"ab"}\n{"z":"","y":false,"x":[]}\n'


def test_every_field_of_an_object_is_a_tensor(tmp_path: Path) -> None:
    found = content_of(tmp_path, ".jsonl", RECORDS)
    assert {name: nested(tensor) for name, tensor in found.items()} == {
        "x": [[1, 2], []],
        "y": [True, False],
        "z": [[97, 98], []],
    }


def test_chosen_fields_are_read_in_that_order(tmp_path: Path) -> None:
    data = RECORDS + b'{"x":[9],"y":false,"z":"c","new":null}\n'
    found = content_of(tmp_path, ".jsonl", data, field=("z", "x", "y"), levels=("sample",))
    assert list(found) == ["z", "x", "y"]
    assert [tensor.lod.names for tensor in found.values()] == [("sample",), ("sample",), ()]
    assert nested(found["x"]) == [[1, 2], [], [9]]


@pytest.mark.parametrize(
    ("data", "fields", "error", "message"),
    [
        (b'{"x":1}\n{"y":1}', None, InvalidDataError, "line 2: field 'x' is missing"),
        (b'{"x":1}\n{"x":1,"y":1}', None, InvalidDataError, "line 2: field 'y' is not in line 1; "),
        (b'{"x":1,"y":2}\n{"x":1}', None, InvalidDataError, "line 2: field 'y' is missing"),
        (b'{"x":1}\n{"x":1}', ("y",), SelectionError, "no field 'y'; there are: x"),
        (b'{"x":1}\n[1]', None, InvalidDataError, "line 2: expected an object, found a list"),
        (
            b'{"x":1}\n{"x":1,"x":2}',
            None,
            InvalidDataError,
            "line 2: field 'x' appears twice; rename one",
        ),
        (b'{"x":[1]}\n{"x":[[]]}', None, InvalidDataError, "line 2: field x: item <0>: expected a"),
        (b'{"x":{}}', None, InvalidDataError, "field 'x': an object without fields .*; choose"),
        (b"{}", None, InvalidDataError, "line 1: the object has no fields"),
        (b"[1]", ("x",), SelectionError, "line 1: has no fields to choose x from"),
        (b'{"x":1}', ("x", "x"), SelectionError, "a field is chosen twice: x, x"),
    ],
)
def test_a_fault_of_an_object_is_named(
    tmp_path: Path, data: bytes, fields: tuple[str, ...] | None, error: type[LodError], message: str
) -> None:
    with pytest.raises(error, match=message):
        content_of(tmp_path, ".jsonl", data, field=fields)


def test_a_new_field_is_refused_on_any_line(tmp_path: Path) -> None:
    data = b'{"x":1}\n' * 150_000 + b'{"x":1,"y":2}\n'
    with pytest.raises(InvalidDataError, match="line 150001: field 'y' is not in line 1"):
        content_of(tmp_path, ".jsonl", data)
    assert content_of(tmp_path, ".jsonl", data, field=("x",))["x"].rows == 150_001


SPARSE = b'{"x":1}\n{"y":[2,3],"o":{"p":1}}\n{}\n{"x":4,"o":{}}\n'


@pytest.mark.parametrize("compiled", [False, True])
def test_with_nulls_a_field_that_a_line_lacks_is_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    if compiled:
        monkeypatch.setattr(jsonl, "repaid_bytes", lambda: 0)
    found = content_of(tmp_path, ".jsonl", SPARSE, nulls="keep")
    assert {name: tensor.to_list() for name, tensor in found.items()} == {
        "x": [1, None, None, 4],
        "y": [None, [2, 3], None, None],
        "o.p": [None, 1, None, None],
        "o.present": [False, True, False, True],
    }
    found = content_of(tmp_path, ".jsonl", SPARSE, field=("y",), nulls="empty")
    assert found["y"].to_list() == [[], [2, 3], [], []]
    with pytest.raises(InvalidDataError, match="line 2: field 'x' is missing; nulls='keep' reads"):
        content_of(tmp_path, ".jsonl", SPARSE, nulls="error")


def test_with_nulls_the_first_lines_define_the_fields(tmp_path: Path) -> None:
    data = b'{"x":1}\n' * 150_000 + b'{"y":2}\n'
    with pytest.raises(InvalidDataError, match="line 150001: field 'y' is not in the first lines"):
        content_of(tmp_path, ".jsonl", data, nulls="keep")


# -- files and pipes -----------------------------------------------------------------


def test_the_sample_is_what_the_json_module_reads() -> None:
    found = content(EVENTS, levels=("day", "hour"))["data"]
    assert nested(found) == [json.loads(line) for line in EVENTS.read_text().splitlines()]
    assert (found.lod.count(0), found.lod.count(1), found.rows) == (31, 744, 26_483)


@pytest.mark.parametrize("limit_bytes", [1, 50_000, 1 << 20])
def test_batches_of_any_size_give_the_same_content(limit_bytes: int) -> None:
    batches = batches_of(EVENTS, limit_bytes)
    # How many depends on whether lines are read by compiled code.
    by_python, by_kernels = {1: (31, 29), 50_000: (6, 7), 1 << 20: (1, 1)}[limit_bytes]
    assert len(batches) == (by_kernels if load.is_shipped() else by_python)
    joined = LoDTensor.concatenate([batch["data"] for batch in batches])
    assert joined.identical(content(EVENTS)["data"])


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"[]\n"])
def test_a_pipe_gives_what_the_file_gives(tmp_path: Path, start: bytes) -> None:
    data = start + EVENTS.read_bytes()
    with pipe(tmp_path, ".jsonl", data) as name:
        found = content(name)["data"]
    assert found.identical(given_lines(tmp_path, data))


@pytest.mark.parametrize("data", [b"1", b"2\n3", b"4\n5\n6\n", b"[]"])
def test_a_pipe_of_a_few_bytes_is_read(tmp_path: Path, data: bytes) -> None:
    with pipe(tmp_path, ".jsonl", data) as name:
        assert nested(content(name)["data"]) == [json.loads(line) for line in data.splitlines()]


def test_no_lines_are_a_tensor_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"")
    found = lodcli.read(path, format_name="jsonl", levels=("a",))
    assert found.recursive_sequence_lengths() == [[]]


def test_lists_are_never_taken_for_jsonl_by_their_content() -> None:
    assert not JsonLines().sniff(b"[1]\n[2]\n")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path, copy = tmp_path / "large.jsonl", tmp_path / "copy.jsonl"
    path.write_bytes(EVENTS.read_bytes() * 40)  # 1 million numbers: the exact writer
    tracemalloc.start()
    try:
        with lodcli.open(path) as source:
            io.write_batches(copy, source.schema, source.batches(1 << 20))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 24 << 20  # the lines read ahead, 1 MiB, are 350,000 Python objects
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_whole_numbers_are_rounded_if_asked(dtype: str, tmp_path: Path) -> None:
    data = b"[0.5,9007199254740993]\n[2049]\n" if dtype != "float16" else b"[0.5]\n[2049]\n"
    found = content_of(tmp_path, ".jsonl", data, dtype=np.dtype(dtype), dtype_unsafe=True)["data"]
    wanted = [0.5, 2.0**53, 2049] if dtype != "float16" else [0.5, 2048]
    assert found.data.tolist() == wanted
    assert found.dtype == dtype
