"""csv, tsv: null texts are empty fields, and empty texts are fields in quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.core.io import open_file, planned, write_batches, write_set
from lodcli.formats.core.losses import Loss
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import Batch, schema_of, tensor_of
from lodcli.formats.csv import writing
from lodcli.formats.csv.records import Records
from lodcli.formats.text import records_native
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

TEXTS = ["x", "", None, 'a,"",b\t', None, "", '5" y', "two\nlines", '"', None]


@pytest.mark.parametrize("least", [0, 1 << 60])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_null_texts_and_numbers_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, least: int
) -> None:
    monkeypatch.setattr(records_native, "REPAID_VALUES", least)
    monkeypatch.setattr(writing, "WRITTEN_FIELDS", 6)
    numbers = [1, None, 3, None, None, 6, 7, 8, 9, 10]
    tensors = {
        "t": LoDTensor.from_lists(TEXTS),
        "n": LoDTensor.from_lists(numbers),
        "u": LoDTensor.from_lists(TEXTS[::-1]),
    }
    lodcli.write(tmp_path / name, tensors)
    found = lodcli.read_all(tmp_path / name, nulls="keep")
    for key, tensor in tensors.items():
        assert found[key].identical(tensor)
    assert lodcli.read(tmp_path / name, "u", nulls="keep").to_list() == TEXTS[::-1]
    # Without the option they are empty, and numbers are null.
    plain = lodcli.read_all(tmp_path / name)
    assert plain["t"].to_list() == [text or "" for text in TEXTS]
    assert plain["n"].to_list() == numbers


@pytest.mark.parametrize("least", [0, 1 << 60])
def test_null_texts_of_items_are_empty_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(records_native, "REPAID_VALUES", least)
    tensor = LoDTensor.from_lists([["a", None], [""], [None, "b"]])
    lodcli.write(tmp_path / "t.csv", {"t": tensor})
    lines = ["level0,t", "0,a", "0,", '1,""', "2,", "2,b", ""]
    assert (tmp_path / "t.csv").read_text() == "\n".join(lines)
    found = lodcli.read(tmp_path / "t.csv", levels=("level0",), nulls="keep")
    assert found.to_list() == tensor.to_list()


def test_null_texts_of_the_only_column_are_blank_lines(tmp_path: Path) -> None:
    tensor = LoDTensor.from_lists([None, "", "a", None])
    lodcli.write(tmp_path / "t.csv", {"t": tensor})
    assert (tmp_path / "t.csv").read_text() == 't\n\n""\na\n\n'
    assert lodcli.read(tmp_path / "t.csv", nulls="keep").identical(tensor)


# Each block is parsed anew: one with a quote within a field by Python's csv module.
@pytest.mark.parametrize("quote", ["", '5" y'])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quotes_tell_null_texts_in_every_block(tmp_path: Path, quote: str, end: str) -> None:
    fields = {"x": "x", "": None, '""': "", '"a,"",""b"': 'a,","b', '""""': '"'}
    texts = list(fields) * 60
    rows = [f"k{n // 3},{quote},{text},{other}" for n, (text, other) in enumerate(pairs(texts))]
    (tmp_path / "t.csv").write_bytes(end.join(["k,q,t,u", *rows, ""]).encode())
    options = ReadOptions(levels=("k",), nulls="keep", text_columns=("q",))
    with open_file(tmp_path / "t.csv", options=options) as opened:
        parts = [
            {name: tensor_of(item).to_list() for name, item in batch.items()}
            for batch in opened.source.batches(100)
        ]
    assert len(parts) > 5
    for name, column in (("t", texts), ("u", texts[::-1])):
        found = [text for part in parts for item in part[name] for text in item]
        assert found == [fields[text] for text in column]


def pairs(texts: list[str]) -> Iterator[tuple[str, str]]:
    return zip(texts, reversed(texts), strict=True)


@pytest.mark.parametrize("columns", [1, 2])
def test_polars_and_duckdb_find_the_null_texts(tmp_path: Path, columns: int) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    path = tmp_path / "t.csv"
    texts = [text for text in TEXTS if text is None or "\n" not in text]
    tensors = {"t": LoDTensor.from_lists(texts), "n": LoDTensor(np.arange(len(texts)))}
    lodcli.write(path, dict(list(tensors.items())[:columns]))
    assert polars.read_csv(path)["t"].to_list() == texts
    read = duckdb.execute(
        "select t from read_csv(?, header=true, delim=',', quote='\"', "
        "escape='\"', allow_quoted_nulls=false)",
        [str(path)],
    )
    assert [row[0] for row in read.fetchall()] == texts
    theirs = tmp_path / "theirs.csv"
    polars.DataFrame({"t": texts, "n": range(len(texts))}).select("t", "n").write_csv(theirs)
    assert lodcli.read(theirs, "t", nulls="keep").to_list() == texts


@pytest.mark.parametrize(
    ("nulls", "wanted"),
    [
        ("empty", ["x", "", ""]),
        ("zero", ["x", "", ""]),
        ("fill=5", ["x", "", ""]),
        ("drop", ["x", ""]),
    ],
)
def test_null_texts_are_treated_on_reading(tmp_path: Path, nulls: str, wanted: list[str]) -> None:
    (tmp_path / "t.csv").write_text('t,n,m\nx,1,4\n"",2,5\n,3,6\n')
    for wide in (None, True):
        found = lodcli.read_all(tmp_path / "t.csv", nulls=nulls, wide=wide)
        assert found["t"].to_list() == wanted
        assert len(found) == (2 if wide else 3)


def test_null_texts_stay_beside_wide_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('t,n_0,n_1\nx,1,4\n"",2,5\n,3,6\n')
    found = lodcli.read_all(tmp_path / "t.csv", nulls="keep", wide=True)
    assert found["t"].to_list() == ["x", "", None]
    lodcli.write(tmp_path / "u.csv", found, wide=True)
    assert (tmp_path / "u.csv").read_text() == 'n_0,n_1,t\n1,4,x\n2,5,""\n3,6,\n'


def test_null_categories_are_empty_fields(tmp_path: Path) -> None:
    tensor = LoDTensor.from_lists([1, None, 0]).as_categories(["", "b"])
    lodcli.write(tmp_path / "t.csv", {"t": tensor, "n": LoDTensor(np.arange(3))})
    assert (tmp_path / "t.csv").read_text() == 't,n\nb,0\n,1\n"",2\n'


def test_null_lists_of_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="item of level 0 <1> is null; for lists csv has no"):
        lodcli.write(tmp_path / "t.csv", LoDTensor.from_lists([["a", None], None]))
    assert not list(tmp_path.iterdir())


LOST = "csv does not keep these null texts, unless nulls='keep' and text_columns= read them: t, u"


@pytest.mark.parametrize(
    "tensor",
    [
        LoDTensor.from_lists(["a", None]),
        LoDTensor.from_lists([["a"], [None, "b"]]),
        LoDTensor.from_lists([1, None, 0]).as_categories(["x", "y"]),
    ],
)
def test_null_texts_are_lost_without_options(tmp_path: Path, tensor: LoDTensor) -> None:
    path, lost = tmp_path / "t.csv", list[Loss]()
    batch: Batch = {"t": tensor, "u": tensor}
    write_batches(path, schema_of(batch), [batch, batch], when_lost=lost.append)
    assert LOST in map(str, lost)
    assert LOST in map(str, planned(path, schema_of(batch), [batch]).lost)


def test_null_texts_are_refused_if_nothing_may_be_lost(tmp_path: Path) -> None:
    texts = LoDTensor.from_lists(["a", None])
    with pytest.raises(UnsupportedError, match=f"t.csv: {re.escape(LOST)}; write lod.h5"):
        lodcli.write(tmp_path / "t.csv", {"t": texts, "u": texts}, strict=True)
    assert not list(tmp_path.iterdir())


def test_null_texts_of_all_files_of_a_set_are_reported(tmp_path: Path) -> None:
    paths, lost = [str(tmp_path / f"{n}.csv") for n in range(3)], list[Loss]()
    texts, none = LoDTensor.from_lists(["a", None]), LoDTensor.from_lists(["a", "b", None])[:2]
    parts: list[Batch] = [{"t": texts, "u": none}, {"t": none, "u": texts}, {"t": none, "u": none}]
    schema = schema_of(parts[0])
    schema = tuple(replace(spec, rows=None, nullable=True) for spec in schema)
    write_set(paths, [(schema, [part]) for part in parts], when_lost=lost.append)
    assert list(map(str, lost)) == [LOST]


def test_null_texts_that_are_not_there_are_not_lost(tmp_path: Path) -> None:
    tensors = {"t": LoDTensor.from_lists([None, "a"])[1:], "n": LoDTensor.from_lists([None])}
    (spec, number) = schema_of(tensors)
    schema = (replace(spec, nullable=True), number)
    lost = list[Loss]()
    write_batches(tmp_path / "t.csv", schema, [tensors], when_lost=lost.append)
    assert not lost


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("nulls", [None, "keep"])
def test_a_record_of_one_empty_text_is_no_blank_line(
    tmp_path: Path, end: str, nulls: str | None
) -> None:
    (tmp_path / "t.csv").write_bytes(b't,u\n,5\n""' + end.encode())
    with pytest.raises(InvalidDataError, match=r"line 3: expected 2 fields, .*, found 1 field;"):
        lodcli.read_all(tmp_path / "t.csv", nulls=nulls)
    (tmp_path / "u.csv").write_bytes(b't,u\n"",5\n' + 2 * end.encode())
    assert lodcli.read(tmp_path / "u.csv", "u", nulls=nulls).to_list() == [5]


def test_quotes_of_empty_texts_are_searched_only_for_nulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text('t,u\n"",5" y\n')

    def search(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Records, "_empty_in_quotes", search)
    assert lodcli.read(tmp_path / "t.csv", "u").to_list() == ['5" y']
    with pytest.raises(AssertionError):
        lodcli.read(tmp_path / "t.csv", "u", nulls="keep")


def test_texts_after_many_nulls_are_read_with_an_option(tmp_path: Path) -> None:
    tensor = LoDTensor.from_lists([None] * 40_000 + ["a"])
    lodcli.write(tmp_path / "t.csv", {"n": LoDTensor(np.arange(40_001)), "t": tensor})
    with pytest.raises(InvalidDataError, match=r"expected a number .*; text_columns= reads the"):
        lodcli.read(tmp_path / "t.csv", "t", nulls="keep")
    found = lodcli.read(tmp_path / "t.csv", "t", nulls="keep", text_columns=["t"])
    assert found.identical(tensor)
