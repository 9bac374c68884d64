"""csv, tsv: the long form, read and written."""

from __future__ import annotations

import csv
import os
import pickle
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.csv import csv_file, number_columns
from lodcli.formats.csv.records import Records
from lodcli.formats.text.lines import LineReader
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from tests.formats.cases.opening import batches_of, content, content_of, nested, pipe, tensor_in
from tests.sampling import many
from tests.strategies import DTYPES, tensors

HELD = [dtype for dtype in DTYPES if dtype.kind in "iufb" and dtype.name != "bfloat16"]
VISITS = b"user,visit,value,weight\na,1,1,0.5\na,1,2,1.5\na,2,3,2\nb,1,4,3\n"


def given_lines(folder: Path, data: bytes, **options: Any) -> dict[str, LoDTensor]:
    return content_of(folder, ".csv", data, **options)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@settings(max_examples=many(60, share=4), deadline=None)
@given(data=st.data())
def test_a_tensor_comes_back_or_is_refused(suffix: str, data: st.DataObject) -> None:
    tensor = data.draw(tensors(HELD, row_shapes=[()]))
    names = tuple(f"l{n}" for n in range(tensor.lod.n_levels))
    tensor = LoDTensor(tensor.data, tensor.lod.with_names(names))
    empty = any((np.diff(tensor.lod.absolute(n)) == 0).any() for n in range(len(names)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"t{suffix}")
        if empty:
            with pytest.raises(UnsupportedError, match="holds no item without rows"):
                io.write(path, tensor)
            assert not os.listdir(folder)
            return
        io.write(path, tensor)
        found = content(path, levels=names, dtype=tensor.dtype)["data"]
        assert found.identical(tensor)
        with open(path, newline="") as file:
            rows = list(csv.reader(file, delimiter="," if suffix == ".csv" else "\t"))
        assert rows[0] == [*names, "data"]
        words = {"true": 1.0, "false": 0.0}
        numbers = [words[row[-1]] if row[-1] in words else float(row[-1]) for row in rows[1:]]
        assert np.array(numbers).astype(tensor.dtype).tolist() == tensor.data.tolist()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (["1,5", "", "-12,25", "3"], ", or give decimal_comma=True"),
        (["1.234,5", ",5"], ""),
        ([" 1,5", "2,5E-05 "], ", or give decimal_comma=True"),
        (["1,234", "5,678,901.5"], ""),
        (["1,5", "x"], None),
        (["59.9,10.7"], None),
        (["1,23,4"], None),
    ],
)
def test_text_of_numbers_with_commas_is_reported(
    fields: list[str], said: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{field};1\n" for field in ["x", *fields]))
    notes = [f"numbers with commas are read as text: 'x'; write numbers as 1234.5{said}"]
    for texts in (None, ["x"]):
        with lodcli.open(path, separator=";", text_columns=texts) as file:
            assert file["x"][:].marks.is_text
            assert file.notes == (notes if said is not None and not texts else [])


@pytest.mark.parametrize(
    ("header", "said"),
    [("1.5,NaN", "are numbers: '1.5', 'NaN'; if"), ("1,x", None), ("0,1", None), ("x,y", None)],
)
def test_a_header_of_numbers_is_reported(header: str, said: str | None, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n3,4\n")
    with lodcli.open(path) as file:
        assert [said in note for note in file.notes if said] == [True] * bool(said)
        assert bool(file.notes) == bool(said)


def test_columns_group_and_the_others_share_the_levels(tmp_path: Path) -> None:
    found = given_lines(tmp_path, VISITS, levels=("user", "visit"))
    assert nested(found["value"]) == [[[1, 2], [3]], [[4]]]
    assert nested(found["weight"]) == [[[0.5, 1.5], [2.0]], [[3.0]]]
    assert found["value"].lod is found["weight"].lod
    assert found["value"].lod.names == ("user", "visit")
    assert found["value"].dtype == np.int64
    only = given_lines(tmp_path, VISITS, levels=("user",), field=("weight",))
    assert {name: nested(one) for name, one in only.items()} == {"weight": [[0.5, 1.5, 2], [3]]}


@pytest.mark.parametrize("limit", [64, 200, 1 << 20])
def test_batches_are_whole_items_whatever_their_size(limit: int, tmp_path: Path) -> None:
    rows = [(n // 7, n // 3, n) for n in range(2000)]
    text = "a,b,v\n" + "".join(f"{a},{b},{v}\n" for a, b, v in rows)
    (tmp_path / "t.csv").write_text(text)
    found = batches_of(tmp_path / "t.csv", limit, levels=("a", "b"))
    expected = [
        [[row[2] for row in part] for _, part in groupby(list(item), key=lambda row: row[1])]
        for _, item in groupby(rows, key=lambda row: row[0])
    ]
    assert nested(LoDTensor.concatenate([batch["v"] for batch in found])) == expected
    with pipe(tmp_path, ".csv", text.encode()) as path:
        assert nested(content(path, levels=("a", "b"))["v"]) == expected


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b'k,v\n"a,b",1\n"a,b",2\n', [2]),
        (b'k,v\n"a\nb",1\n"a ""q""",2\n', [1, 1]),
        (b"\xef\xbb\xbfk,v\r\na,1\r\na,2\r\n", [2]),
        (b"k,v\na,1\na,2", [2]),
        ("k,v\nä,1\nä,2\n€,3\n".encode(), [2, 1]),
    ],
)
def test_quotes_marks_and_line_ends(data: bytes, keys: list[int], tmp_path: Path) -> None:
    found = given_lines(tmp_path, data, levels=("k",))["v"]
    assert found.recursive_sequence_lengths() == [keys]
    assert found.data.tolist() == list(range(1, sum(keys) + 1))


@pytest.mark.parametrize("values", [[np.nan], [np.inf, np.nan, -np.inf]])
def test_values_none_of_which_is_finite_are_floats(values: list[float], tmp_path: Path) -> None:
    io.write(tmp_path / "v.csv", LoDTensor(np.array(values)))
    found = tensor_in(tmp_path / "v.csv")
    assert found.data.dtype == np.float64
    np.testing.assert_array_equal(found.data, values)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"k,v\na,1\nb,2\na,3\n",
            "line 4: k 'a' appears again after other values; sort the records by k",
        ),
        (b"k,v\na,1\na\n", "line 3: expected 2 fields, as line 1 has, found 1 field;.*in quotes"),
        (
            b"k,v\na,1\n\na,2\n",
            "line 3: expected 2 fields, as line 1 has, found a blank line; take it out",
        ),
        (b"k,v\na,1\na,2,3\n", "line 3: expected 2 fields, as line 1 has, found 3 fields"),
        (b"# a title\n# in m\nk,v\na,1\n", "line 3: .* 2 fields; .*; if line 1 is a comment, take"),
        (b"k,v\n# in m\na,1\n", "line 2: .* 1 field; .*; if this is a comment, take it out"),
        (
            b"k,v\n" + b"a,1\n" * 20_000 + b"a,2.5\n",
            r"line 20002, column 'v': expected a whole number .*dtype='float64'",
        ),
        (
            b"k,v\n" + b"a,1\n" * 20_000 + b"a,nan\n",
            r"line 20002, column 'v': expected a whole number .*dtype='float64'",
        ),
        (
            b"k,v\n" + b"a,1\n" * 20_000 + b"a,\n",
            "line 20002, column 'v': expected a whole number .*found ''; .*nulls='keep'",
        ),
        (b"k,v\na,1.5\na,x\n", "line 3, column 'v': expected a number .*found 'x'"),
        (b'k,v\na,1\na,"2,5"\n', "line 3, column 'v': .*found '2,5'; write numbers as 1234.5"),
        (b"k,v\na,1\na,1_0\n", "line 3, column 'v': .*found '1_0'"),
        (b"k,v\na,-1\na,9223372036854775808\n", "line 3, column 'v': expected a whole number"),
        (b"k,v\na,1\n\xff,2\n", "line 3: is not UTF-8 .*encoding="),
        (b"k,v\na,1\na\0,2\n", "line 3: holds NUL.*then give encoding='utf-16'"),
        (b'"a","b"\n"x",1,2\n', "2: expected 2 .*; if the header lacks a name, as that of R's"),
        (
            "k,é\na,1\n".encode("utf-16-le"),
            "binary data, not text, or UTF-16: then give encoding='utf-16-le'",
        ),
        (b'k,v\na,1\n"a,2\n', "line 3: is not a record"),
        (b'k,v\na,1\n"a"b,2\n', "line 3: is not a record"),
        (b"v,v\n1,2\n", "line 1: two columns are named 'v'; choose other columns with columns="),
        (b"1.5,1.5\n1,2\n", "named '1.5'; if it is a record, put a line of names above it"),
        (
            b"a;b\n1;2\n",
            "line 1: has no comma but semicolons: 'a;b'; give separator='semicolon'",
        ),
        (
            b'"a";"b"\n1;2\n',  # as write.csv2 of R
            "line 1: has no comma but semicolons: '\"a\";\"b\"'; give separator='semicolon'",
        ),
        (
            b'"x" "y"\n1 "a"\n',  # as write.table of R
            "line 1: has no comma but spaces: '\"x\" \"y\"'; give separator='space'",
        ),
        (b'a;b\r\n1;2\r\n"x;y";3\r\n', "has no comma but semicolons: 'a;b';"),  # as Excel
        (b'a;b\n1\n"x"y\n', "line 3: is not a record"),
        (b"a;b\n1,5;2\n", "line 1: has no comma but semicolons"),  # with decimal commas
        (b"a|b\n", "line 1: has no comma but bars"),
        (b"sep=,\na,b\n1,2\n", r"line 1: names the separator for Excel \('sep=,'\); remove"),
        (b"sep=;\na;b\n1;2\n", r"line 1: names .* remove .* \+2, and give separator='semicolon'$"),
        (b"sep=\t\r\na\tb\r\n1\t2\r\n", "for Excel .* and give separator='tab'$"),
        (b"k,v\na,1\n\n" + b"\n" * 20_000 + b"a,2\n", "line 3: .* found a blank line"),
    ],
)
def test_errors_name_the_line(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(LodError, match=message):
        given_lines(tmp_path, data, levels=("k",) if data[:1] == b"k" else None)


@pytest.mark.parametrize("mark", ["1", "x", "-", '"', "é"])
def test_a_name_that_gives_no_separator_is_a_column(mark: str, tmp_path: Path) -> None:
    given = given_lines(tmp_path, f"sep={mark}\n3\n4\n".encode())
    assert given[f"sep={mark}"].to_list() == [3, 4]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("blank", [1, 100, 20_000])
def test_blank_lines_at_the_end_are_none(end: str, blank: int, tmp_path: Path) -> None:
    text = f'k,v{end}a,1{end}"b{end}",2{end}{end * blank}'
    assert given_lines(tmp_path, text.encode())["v"].to_list() == [1, 2]
    assert given_lines(tmp_path, f"k,v\n{end * blank}".encode())["v"].rows == 0
    with pytest.raises(LodError, match=r"line 3, column 'k': .* found ''"):
        given_lines(tmp_path, f"k\n1\n{end * blank}".encode())


def test_a_name_with_another_separator_is_one_name(tmp_path: Path) -> None:
    found = given_lines(tmp_path, b"City; State\nOslo\n")
    assert {name: item.to_list() for name, item in found.items()} == {"City; State": ["Oslo"]}


def test_a_space_as_separator_has_a_name_in_errors(tmp_path: Path) -> None:
    with pytest.raises(LodError, match="line 1: has no space but commas: 'a,b'"):
        given_lines(tmp_path, b"a,b\n1,2\n", separator="space")


@settings(max_examples=many(60, share=4), deadline=None)
@given(
    keys=st.lists(st.sampled_from(["a", "b", "é", "", " "]), min_size=1, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
    closed=st.booleans(),
    wrong=st.sampled_from(["", "1,", "a,b,c", "b", "b,x", "é,1_0"]),
    limit=st.sampled_from([64, 1 << 20]),
)
def test_quotes_around_the_fields_change_nothing(
    keys: list[str], end: str, closed: bool, wrong: str, limit: int
) -> None:
    records = [f"{key},{n}" for n, key in enumerate(sorted(keys))] + ([wrong] if wrong else [])
    plain = end.join(["k,v", *records]) + end * closed
    quoted = plain.replace(f"k,v{end}", f'"k",v{end}', 1)  # the one sends the block another way
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        for text in (plain, quoted):
            path = Path(folder, "t.csv")
            path.write_bytes(text.encode())
            try:
                options = ReadOptions(levels=("k",))
                with lodcli.open(path, options=options) as source:
                    parts = [dict(batch)["v"] for batch in source.batches(limit)]
                tensor = LoDTensor.concatenate([p for p in parts if isinstance(p, LoDTensor)])
                found.append((tensor.data.tolist(), tensor.lod.recursive_sequence_lengths()))
            except LodError as error:
                found.append(str(error))
    assert found[0] == found[1]


def test_a_dtype_makes_numbers_of_booleans_and_the_other_way_round(tmp_path: Path) -> None:
    for text, dtype, wanted in (
        ("true\nfalse", "float32", [1, 0]),
        ("0\n1", "bool", [0, 1]),
        ("NA\nTrue", "bool", None),
    ):
        nulls = None if wanted else "keep"
        data = f"v\n{text}\n".encode()
        found = given_lines(tmp_path, data, dtype=np.dtype(dtype), nulls=nulls)["v"]
        assert found.dtype == dtype
        expected: list[Any] = wanted or [None, True]
        assert found.to_list() == expected
    with pytest.raises(InvalidDataError, match="v: row 1: 2 does not fit bool"):
        given_lines(tmp_path, b"v\n0\n2\n", dtype=np.dtype("bool"))


def test_numbers_beyond_a_dtype_are_refused(tmp_path: Path) -> None:
    for text, dtype in (("300", "int8"), ("-1", "uint16"), ("1e300", "float32")):
        with pytest.raises(LodError, match="line 2, column 'v': expected"):
            given_lines(tmp_path, f"v\n{text}\n".encode(), dtype=np.dtype(dtype))


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(None, 2**53 + 1), ("float64", -(2**53) - 1), ("float32", 2**24 + 1), ("float16", 2049)],
)
def test_a_whole_number_is_not_rounded_unless_asked(
    dtype: str | None, number: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"a,b\n1,0.5\n2,{number}\n")
    wanted = dtype or "float64"
    given = None if dtype is None else np.dtype(dtype)
    with pytest.raises(
        LodError, match=f"line 3, column 'b': .*dtype='{wanted}', dtype_unsafe=True"
    ):
        io.read_all(path, options=ReadOptions(dtype=given))
    found = content(path, dtype=np.dtype(wanted), dtype_unsafe=True)["b"]
    assert found.data.tolist() == [0.5, np.dtype(wanted).type(number)]


def test_floats_of_more_than_64_bits_may_be_written_without_a_point(tmp_path: Path) -> None:
    # As JavaScript writes them: the shortest digits, and zeros.
    data = b"a\n123456789012345680000\n0.5\n"
    assert content_of(tmp_path, ".csv", data)["a"].data.tolist() == [1.2345678901234568e20, 0.5]


def test_columns_that_are_not_there_are_named(tmp_path: Path) -> None:
    for options in ({"levels": ("x",)}, {"field": ("x",)}):
        with pytest.raises(SelectionError, match="no column 'x'; there are: user, visit"):
            given_lines(tmp_path, VISITS, **options)


def test_a_column_of_a_level_is_not_chosen_as_well(tmp_path: Path) -> None:
    message = "column 'x': is in levels and among the chosen columns; leave it out of one"
    with pytest.raises(SelectionError, match=message):
        given_lines(tmp_path, b"u,x,y\n1,2,3\n", levels=("u", "x"), field=("x", "y"))
    message = "no column is left for the numbers: levels= names them all"
    with pytest.raises(SelectionError, match=message):
        given_lines(tmp_path, b"u,x\n1,2\n", levels=("u", "x"))


def test_tensors_of_other_lengths_or_levels_are_refused(tmp_path: Path) -> None:
    lengths = {"a": [[1, 2], [3, 1, 2]], "b": [[1, 2], [3, 2, 1]]}
    two = {name: LoDTensor(np.arange(6), LoD.from_lengths(each)) for name, each in lengths.items()}
    found = "the same levels and lengths; item 1 of level 1 has 1 in a and 2 in b; choose one with"
    with pytest.raises(LodError, match=f"{found} FILE::NAME$"):
        io.write(tmp_path / "t.csv", two)
    plain = {"c": LoDTensor(np.arange(6))}
    said = "; found c without levels, and a, b with levels .*NAME, or a, b with lod convert --col"
    with pytest.raises(LodError, match=said):
        io.write(tmp_path / "t.csv", plain | two)
    # A level may have the name of a tensor beside it, as after lod group.
    grouped = {"v": LoDTensor([1, 2], LoD.from_lengths([[2]], ["k"])), "k": LoDTensor([7])}
    with pytest.raises(LodError, match=r"found v with levels \(k\), and k without levels"):
        io.write(tmp_path / "t.csv", grouped)
    many = {f"c{number}": LoDTensor([1]) for number in range(50)}
    with pytest.raises(LodError, match=r"c5 and 44 more without .* or c0, .*, c5 and 44 more with"):
        io.write(tmp_path / "t.csv", many | two)
    with pytest.raises(LodError, match="levels and lengths; x has 3 rows, y has 1 row; choose"):
        io.write(tmp_path / "t.csv", {"x": LoDTensor([1, 2, 3]), "y": LoDTensor([1])})
    assert not os.listdir(tmp_path)


def test_tensors_of_equal_lengths_are_columns(tmp_path: Path) -> None:
    lines = b'{"a":[1,2],"b":[3,4],"t":["x","y"]}\n{"a":[5],"b":[6],"t":["z"]}\n'
    io.write(tmp_path / "t.csv", content_of(tmp_path, ".jsonl", lines))
    wanted = "level0,a,b,t\n0,1,3,x\n0,2,4,y\n1,5,6,z\n"
    assert (tmp_path / "t.csv").read_text() == wanted


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (["1", "2.5", "3"], [1.0, 2.5, 3.0]),
        (["1", "1e3"], [1.0, 1000.0]),
        (["1", "-2"], [1, -2]),
        (["", "ann", "5"], ["", "ann", "5"]),
        (["NA", "bob"], ["NA", "bob"]),
        (["2024_01", "2024_02"], ["2024_01", "2024_02"]),
        (["\u0663", "4"], ["\u0663", "4"]),  # a digit of another script
    ],
)
def test_the_first_records_decide_the_dtype(
    tmp_path: Path, fields: list[str], wanted: list[Any]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("v,other\n" + "".join(f"{field},0\n" for field in fields))
    found = io.read_all(path)["v"]
    assert isinstance(found, LoDTensor)
    assert found.to_list() == wanted
    assert found.marks == TEXT or found.dtype == np.array(wanted).dtype


NULLS = {"n": [1, None, 3, None], "x": [None, 0.5, None, -1.0], "t": ["a", "", "b", ""]}


def test_empty_fields_of_numbers_are_nulls(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    path = tmp_path / "theirs.csv"
    table = pd.DataFrame({"n": pd.array(NULLS["n"], "Int64"), "x": NULLS["x"], "t": NULLS["t"]})
    table.to_csv(path, index=False)
    found = io.read_all(path)
    assert {name: item.to_list() for name, item in found.items()} == NULLS
    io.write(tmp_path / "ours.csv", found)
    again = pd.read_csv(tmp_path / "ours.csv", dtype={"n": "Int64"}, keep_default_na=True)
    pd.testing.assert_frame_equal(again.fillna({"t": ""}), table)


def test_booleans_are_those_of_other_libraries(tmp_path: Path) -> None:
    pa_csv = pytest.importorskip("pyarrow.csv")
    flags: dict[str, list[Any]] = {"a": [True, False, None, True], "b": [False, True, True, False]}
    io.write(tmp_path / "t.csv", {name: LoDTensor.from_lists(one) for name, one in flags.items()})
    assert pa_csv.read_csv(tmp_path / "t.csv").to_pydict() == flags
    pd = pytest.importorskip("pandas")
    pd.DataFrame(flags).to_csv(tmp_path / "p.csv", index=False)  # True and False
    for path in ("t.csv", "p.csv"):
        found = io.read_all(tmp_path / path)
        assert {name: one.dtype.name for name, one in found.items()} == {"a": "bool", "b": "bool"}
        assert {name: one.to_list() for name, one in found.items()} == flags


def test_a_word_among_booleans_makes_a_column_text_or_is_an_error(tmp_path: Path) -> None:
    assert given_lines(tmp_path, b"a,b\ntrue,1\nmaybe,2\n")["a"].to_list() == ["true", "maybe"]
    late = b"a,b\n" + b"true,1\n" * 20_000 + b"maybe,2\n"
    with pytest.raises(InvalidDataError, match="line 20002, column 'a': expected true or false"):
        given_lines(tmp_path, late)
    assert given_lines(tmp_path, late, text_columns=("a",))["a"].to_list()[-1] == "maybe"


def test_nulls_of_numbers_are_empty_fields_of_their_items(tmp_path: Path) -> None:
    numbers = LoDTensor.from_lists([[1, None], [None], [4]])
    other = LoDTensor(np.arange(4), numbers.lod)
    io.write(tmp_path / "t.csv", {"a": numbers, "b": other})
    assert (tmp_path / "t.csv").read_text() == "level0,a,b\n0,1,0\n0,,1\n1,,2\n2,4,3\n"
    found = io.read_all(tmp_path / "t.csv", options=ReadOptions(levels=("level0",)))
    assert found["a"].to_list() == numbers.to_list()


def test_a_null_of_the_only_column_is_asked_for(tmp_path: Path) -> None:
    io.write(tmp_path / "t.csv", LoDTensor.from_lists([1, None]))
    assert (tmp_path / "t.csv").read_text() == 'data\n1\n""\n'
    with pytest.raises(LodError, match="nulls='keep'"):
        io.read(tmp_path / "t.csv")
    found = tensor_in(tmp_path / "t.csv", options=ReadOptions(nulls="keep"))
    assert found.to_list() == [1, None]


def test_words_for_missing_numbers_are_nulls_on_request(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    words = ["NA", "n/a", " null ", "None", "#N/A", "<NA>", "?", "-", ""]
    path = tmp_path / "t.csv"
    path.write_text("n,x,t\n1,0.5,NA\n" + "".join(f"{word},{word},b\n" for word in words))
    with pytest.raises(LodError, match=r"line 3, column 'n': .* found 'NA'; nulls='keep' reads it"):
        io.read_all(path)
    found = io.read_all(path, options=ReadOptions(nulls="keep"))
    table = pd.read_csv(path, na_values=["?", "-", " null "])
    for name in ("n", "x"):
        nulls = cast(LoDTensor, found[name]).nulls
        assert nulls.rows is not None
        assert nulls.rows.tolist() == (~table[name].isna()).tolist()
    assert found["t"].to_list() == ["NA", *"b" * len(words)]


def test_null_lists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"level 0 <1> is null; for lists csv has no nulls"):
        io.write(tmp_path / "t.csv", LoDTensor.from_lists([[1], None]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("texts", [["", "a", ""], ["a", "", "b"]])
def test_pandas_finds_every_text_of_the_only_column(texts: list[str], tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pd.DataFrame({"data": texts}).to_csv(tmp_path / "theirs.csv", index=False)
    found = tensor_in(tmp_path / "theirs.csv")
    assert found.to_list() == texts
    io.write(tmp_path / "ours.csv", found)
    again = pd.read_csv(tmp_path / "ours.csv", keep_default_na=False)
    assert again["data"].to_list() == texts
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "theirs.csv").read_bytes()


def test_chosen_columns_are_text_even_if_they_look_like_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("zip,size,phone\n02139,1,1.50\nSW1A,2,\n")
    found = io.read_all(path, text_columns=["zip", "phone"])
    assert {name: item.to_list() for name, item in found.items()} == {
        "zip": ["02139", "SW1A"],
        "size": [1, 2],
        "phone": ["1.50", ""],
    }
    with pytest.raises(InvalidDataError, match=r"line 3, column 'zip'.*text_columns= reads"):
        io.read_all(path)
    with pytest.raises(SelectionError, match=r"no column 'zpi'; there are: zip, size, phone"):
        io.read_all(path, text_columns="zpi")
    io.write(tmp_path / "t.npy", LoDTensor(np.arange(3)))
    with pytest.raises(UnsupportedError, match=r"text_columns.*it is for csv and tsv"):
        io.read_all(tmp_path / "t.npy", text_columns=["zip"])


def test_quotes_are_counted_once_in_each_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counted = 0

    def is_open(self: Records, block: bytes) -> bool:
        nonlocal counted
        counted += len(block)
        return block.count(b'"') % 2 == 1

    monkeypatch.setattr(Records, "_open", is_open)
    data = b"a,b\n" + b"1,2\n" * 20_000 + b'"' + b"1,2\n" * 20_000 + b'",3\n'
    found = given_lines(tmp_path, data, field=("b",))["b"].data
    assert found.tolist() == [2] * 20_000 + [3]
    # The first 64 KiB twice.
    assert counted < 2 * len(data)


def test_an_item_over_many_blocks_is_one_item(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(csv_file, "MOST_BLOCK_BYTES", 64)
    data = b"k,v\n" + b"0,1\n" * 50 + b"1,1\n" * 1000 + b"2,1\n" * 50 + b"3,1\n4,1\n"
    found = given_lines(tmp_path, data, levels=("k",))["v"]
    assert found.lod.lengths(0).tolist() == [50, 1000, 50, 1, 1]


@pytest.mark.parametrize("at_once", [1, 7, 1 << 14])
def test_columns_that_are_read_together_are_those_that_are_read_one_by_one(
    at_once: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(csv_file, "READ_FIELDS", at_once)
    columns: dict[str, list[str]] = {
        "i": ["1", "", "-3", "4"],
        "x": ["0.5", "1e3", "", "NaN"],
        "t": ["a", "b", "", "d"],
        "f": ["true", "False", "", "TRUE"],
        "j": ["10", "20", "30", "9007199254740993"],
        "y": ["-1.5", "", "inf", "2.5"],
        "g": ["false", "false", "true", "true"],
    }
    wanted: dict[str, list[Any]] = {
        "i": [1, None, -3, 4],
        "t": ["a", "b", "", "d"],
        "f": [True, False, None, True],
        "j": [10, 20, 30, 2**53 + 1],
        "y": [-1.5, None, float("inf"), 2.5],
        "g": [False, False, True, True],
    }
    rows = zip(["0", "0", "0", "1"], *columns.values(), strict=True)
    text = "\n".join(map(",".join, [["k", *columns], *rows]))
    found = given_lines(tmp_path, text.encode(), levels=("k",))
    assert list(found) == list(columns)
    x = found.pop("x").to_list()
    assert x[0] == [0.5, 1000, None]
    assert np.isnan(x[1][0])
    assert {name: item.to_list() for name, item in found.items()} == {
        name: [values[:3], values[3:]] for name, values in wanted.items()
    }


@pytest.mark.parametrize(
    ("row", "column", "word", "message"),
    [
        (3, 5, "x", r"line 5, column 'c5': expected a number \(float64\), found 'x'"),
        (2, 6, "0.5", r"line 4, column 'c6': expected a whole number \(int64\), found '0.5'"),
        (3, 7, "", r"line 5, column 'c7': expected a number \(float64\), found ''; the first"),
        (2, 8, "NA", r"line 4, column 'c8': .* \(int64\), found 'NA'; nulls='keep' reads it"),
    ],
)
def test_an_error_in_columns_that_are_read_together_names_its_own(
    row: int, column: int, word: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Only the first record determines dtypes.
    first = Records.first
    monkeypatch.setattr(Records, "first", lambda self: first(self)[:2])
    rows = [[f"{n}.5" if n % 2 else str(n) for n in range(10)] for _ in range(5)]
    rows[0][1], rows[1][1] = "", "1e3"  # a column with nulls
    rows[row][column] = word
    text = "\n".join(map(",".join, [[f"c{n}" for n in range(10)], *rows]))
    with pytest.raises(InvalidDataError, match=message):
        given_lines(tmp_path, text.encode())


def test_columns_of_one_dtype_are_read_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = []

    def read(*arguments: Any) -> Any:
        sizes.append(arguments[1].lengths.size)
        return one_by_one(*arguments)

    one_by_one = number_columns._read
    monkeypatch.setattr(number_columns, "_read", read)
    names = ",".join(f"c{n}" for n in range(900))
    data = f"{names}\n" + f"{'1,0.5,true,' * 299}1,0.5,true\n" * 4
    found = given_lines(tmp_path, data.encode())
    assert [found[f"c{n}"].data.tolist() for n in (0, 898)] == [[1] * 4, [0.5] * 4]
    assert sizes == [1200] * 3
    # A column does not keep the others in memory.
    bases = [item.data.base for item in found.values()]
    assert all(base is not None and base.nbytes <= 32 for base in bases)


def test_a_header_of_any_size_leaves_the_dtypes_to_the_records(tmp_path: Path) -> None:
    names = [f"column_number_{n:05}" for n in range(4000)]
    fields = ["word", "0.5", "true", *map(str, range(3997))]
    for header in (",".join(names), ",".join(f'"{name}\n"' for name in names)):
        data = f"{header}\n" + f"{','.join(fields)}\n" * 3
        found = list(given_lines(tmp_path, data.encode()).values())
        assert found[0].to_list() == ["word"] * 3
        dtypes = [item.dtype.name for item in found[1:]]
        assert dtypes == ["float64", "bool", *["int64"] * 3997]
        empty = given_lines(tmp_path, header.encode())
        assert {item.rows for item in empty.values()} == {0}


@pytest.mark.parametrize("name", ["x" * 60_000 + "{}", '"' + "x\n" * 30_000 + '{}"'])
def test_a_long_header_leaves_records_of_64_kib_to_determine_dtypes(
    name: str, tmp_path: Path
) -> None:
    header = ",".join(name.format(n) for n in range(2))
    data = f"{header}\n" + "1,1\n" * 10_000 + "0.5,1\n"
    found = list(given_lines(tmp_path, data.encode()).values())
    assert [item.dtype.name for item in found] == ["float64", "int64"]


def test_an_open_quote_in_the_header_is_not_searched_for_its_end_without_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lodcli.formats.csv.records.MOST_FIELD_BYTES", 1 << 18)
    peeked = 0

    def peek(self: LineReader, limit_bytes: int) -> list[bytes]:
        nonlocal peeked
        found = peek_lines(self, limit_bytes)
        peeked += sum(map(len, found))
        return found

    peek_lines = LineReader.peek
    monkeypatch.setattr(LineReader, "peek", peek)
    with pytest.raises(InvalidDataError, match="line 1: is not a record"):
        given_lines(tmp_path, b'"a,b\n' + b"1,2\n" * 1_000_000)
    assert peeked < 1 << 20


@pytest.mark.parametrize("records", [1, 2_000])
def test_an_open_quote_at_the_end_is_an_error_of_any_process(tmp_path: Path, records: int) -> None:
    with pytest.raises(InvalidDataError, match="is not a record") as caught:
        given_lines(tmp_path, b"a,b\n" + b"1,2\n" * records + b'3,"4\n')
    assert type(pickle.loads(pickle.dumps(caught.value))) is InvalidDataError


def test_whole_records_are_there_before_one_that_is_longer_than_what_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lodcli.formats.csv.records.MOST_FIELD_BYTES", 1 << 17)
    field = "some words\n" * 10_000
    found = given_lines(tmp_path, f'a,b\n1,"{field}"\n2,"{field}"\n'.encode())
    assert found["b"].to_list() == [field] * 2


@pytest.fixture
def limit_of_2_mebibytes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lower the limit of a field, which takes ten times as much memory while it is read."""
    monkeypatch.setattr("lodcli.formats.csv.records.MOST_FIELD_BYTES", 2 << 20)
    before = csv.field_size_limit(2 << 20)
    yield
    csv.field_size_limit(before)


@pytest.mark.usefixtures("limit_of_2_mebibytes")
@pytest.mark.parametrize(
    "line", ["x" * (3 << 20), "x" * 999 + "\n", "x" * 15 + "\n"], ids=["one", "long", "short"]
)
def test_a_first_record_beyond_the_limit_is_an_error_that_names_it(
    tmp_path: Path, line: str
) -> None:
    field = '"' + line * max(1, (3 << 20) // len(line))
    with pytest.raises(InvalidDataError, match=r"line 2: is not a record .* 2 MiB"):
        given_lines(tmp_path, f"a,b\n{field},1\n2,3\n".encode())


@pytest.mark.usefixtures("limit_of_2_mebibytes")
def test_a_record_with_a_quoted_field_beyond_the_limit_is_an_error_that_names_it(
    tmp_path: Path,
) -> None:
    wide = "x" * (3 << 20)
    for record in (f'1,"{wide}"', f'"1",{wide}'):
        with pytest.raises(
            InvalidDataError, match=" 2 MiB: it is longer, or a quote is not closed"
        ):
            given_lines(tmp_path, f"a,b\n{record}\n2,y\n".encode())
    assert given_lines(tmp_path, f"a,b\n1,{wide}\n2,y\n".encode())["b"].to_list() == [wide, "y"]
