"""csv, tsv: lines as the compiled writer and Python write them."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from lodcli.formats.core import io
from lodcli.formats.csv import writing
from lodcli.formats.text import records_native
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from lodcli.kernels.tensor.nulls import Nulls
from tests.sampling import many
from tests.strategies import DTYPES, tensors

HELD = [dtype for dtype in DTYPES if dtype.kind in "iufb" and dtype.name != "bfloat16"]


@pytest.mark.parametrize("least", [0, 1 << 60])
def test_rows_of_large_items_are_written_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(records_native, "REPAID_VALUES", least)
    lod = LoD.from_lengths([[1, 2], [3, 1, 2]], ["a", "b"])
    tensor = LoDTensor(np.arange(6), lod)
    monkeypatch.setattr(writing, "WRITTEN_FIELDS", 6)
    io.write(tmp_path / "t.csv", {"n": tensor})
    lines = ["a,b,n", "0,0,0", "0,0,1", "0,0,2", "1,0,3", "1,1,4", "1,1,5", ""]
    assert (tmp_path / "t.csv").read_text() == "\n".join(lines)
    empty = LoD.from_lengths([[1, 2], [3, 1, 0]])
    with pytest.raises(UnsupportedError, match="as item 2 of level 1 is"):
        io.write(tmp_path / "e.csv", {"n": LoDTensor(np.arange(4), empty)})


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_both_writers_write_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rng = np.random.default_rng(3)
    words = ["a,b", 'say "hi"', "", "plain", "two\nlines", "tab\there", "é", '"', "\r"]
    texts = LoDTensor.from_lists([words[n] for n in rng.integers(0, len(words), 500)])
    floats = rng.normal(size=500)
    floats[:4] = np.nan, np.inf, -np.inf, 1e30
    mask = rng.random(500) < 0.5
    columns = {
        "t": texts,
        "x": LoDTensor(floats),
        "y": LoDTensor(floats.astype(np.float32)),
        "h": LoDTensor(floats.clip(-9, 9).astype(np.float16)),
        "n": LoDTensor(rng.integers(-9, 9, 500) * mask, nulls=Nulls.of([mask])),
        "b": LoDTensor(mask),
        "d": LoDTensor(rng.integers(-(10**9), 10**9, 500), marks=Marks(unit=Decimals(12, 2))),
        "s": LoDTensor(rng.integers(0, 10**15, 500), marks=Marks(unit=Times("timestamp", "us"))),
    }
    found = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(records_native, "REPAID_VALUES", least)
        io.write(tmp_path / name, columns, overwrite=True)
        found.append((tmp_path / name).read_bytes())
    assert found[0] == found[1]
    with open(tmp_path / name, newline="", encoding="utf-8") as file:
        mark = "," if name == "t.csv" else "\t"
        rows = list(csv.reader(file, delimiter=mark))[1:]
    assert [row[0] for row in rows] == texts.to_list()


@given(tensor=tensors(dtypes=HELD, row_shapes=((),), any_bits=True))
@settings(max_examples=many(100, share=4), deadline=None)
def test_both_writers_write_the_same_numbers(tensor: LoDTensor) -> None:
    found = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for least in (0, 1 << 60):
            patch.setattr(records_native, "REPAID_VALUES", least)
            patch.setattr(writing, "WRITTEN_FIELDS", 5)
            try:
                io.write(Path(folder, "x.csv"), {"a": tensor, "b": tensor}, overwrite=True)
                found.append(Path(folder, "x.csv").read_bytes())
            except UnsupportedError as error:  # an item without rows
                found.append(str(error).encode())
    assert found[0] == found[1]


@pytest.mark.parametrize("texts", [[""], ["", "", "x"], [*[""] * 40_000, "a"]])
def test_empty_texts_before_all_others_stay_text(tmp_path: Path, texts: list[str]) -> None:
    tensors = {"t": LoDTensor.from_lists(texts), "n": LoDTensor(np.arange(len(texts)))}
    io.write(tmp_path / "t.csv", tensors)
    found = io.read_all(tmp_path / "t.csv")
    assert found["t"].to_list() == texts


@pytest.mark.parametrize("name", ["one.csv", "one.tsv"])
@pytest.mark.parametrize("fields", [['""'] * 3, ['""'] * 30_000 + ['"5.0"'], ["", '" "']])
def test_empty_fields_of_the_only_column_are_an_error(
    tmp_path: Path, name: str, fields: list[str]
) -> None:
    (tmp_path / name).write_text("\n".join(["x", *fields, ""]))
    advice = "nulls='keep' reads it as a null, text_columns= reads the column as text"
    with pytest.raises(InvalidDataError, match=advice):
        io.read_all(tmp_path / name)
    found = io.read_all(tmp_path / name, nulls="keep")["x"]
    wanted = [None if len(field) < 4 else 5.0 for field in fields]
    assert (found.dtype, found.to_list()) == (np.float64, wanted)
    texts = io.read_all(tmp_path / name, text_columns=("x",))["x"]
    assert texts.to_list() == [field.strip('"') for field in fields]


def test_nulls_of_the_only_column_are_read_back(tmp_path: Path) -> None:
    nulls = LoDTensor(np.zeros(3), nulls=Nulls.of([np.zeros(3, np.bool_)]))
    io.write(tmp_path / "x.csv", {"x": nulls})
    assert io.read_all(tmp_path / "x.csv", nulls="keep")["x"].to_list() == [None] * 3
    with pytest.raises(InvalidDataError, match="line 2, column 'x': expected a number"):
        io.read_all(tmp_path / "x.csv")


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_fields_are_numbers_if_all_fields_are_in_quotes(
    tmp_path: Path, quoting: Any, end: str
) -> None:
    rows = [["v", ""]] * 20_000 + [["v", "5.0"]]
    with open(tmp_path / "q.csv", "w", newline="") as file:
        csv.writer(file, quoting=quoting, lineterminator=end).writerows([["a", "x"], *rows])
    found = io.read_all(tmp_path / "q.csv")
    assert found["x"].dtype == np.float64
    assert found["x"].to_list() == [None] * 20_000 + [5.0]


def test_empty_fields_beside_words_for_nulls_are_nulls(tmp_path: Path) -> None:
    for lines in (
        ['"a","x"', '"1",""', '"NA",""', '"3","NA"'],
        ["a,x", '1,""', "NA,", "3,NA"],
        ["a,x", '1,"NA"', "NA,NA", "3,"],
    ):
        (tmp_path / "n.csv").write_text("\n".join([*lines, ""]))
        found = io.read_all(tmp_path / "n.csv", nulls="keep")
        kept = {name: tensor.to_list() for name, tensor in found.items()}
        assert kept == {"a": [1, None, 3], "x": [None] * 3}


def test_a_column_without_a_name_is_not_text_for_that(tmp_path: Path) -> None:
    (tmp_path / "u.csv").write_text('n,"",x\n1,,1\n2,,3\n')
    found = io.read_all(tmp_path / "u.csv")
    assert [tensor.to_list() for tensor in found.values()] == [[1, 2], [None] * 2, [1, 3]]


@pytest.mark.parametrize("nulls", [None, "keep"])
@pytest.mark.parametrize("texts", [["\r", "\r"], ["\n", ""], [" ", "\u2028"], ["", "\t"]])
def test_blanks_in_quotes_are_text(tmp_path: Path, texts: list[str], nulls: str | None) -> None:
    fields = [f'1,"{text}"' for text in texts]
    (tmp_path / "b.csv").write_bytes("\n".join(["a,x", *fields, ""]).encode())
    assert io.read_all(tmp_path / "b.csv", nulls=nulls)["x"].to_list() == texts


@pytest.mark.parametrize("name", ["a,b0", "a;b", 'a "b", c', "a b"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_single_name_may_contain_separators(tmp_path: Path, name: str, ending: str) -> None:
    for texts in (["x,y;\tz", "b"], []):
        tensor = LoDTensor.from_lists(texts) if texts else LoDTensor(np.zeros(0))
        io.write(tmp_path / f"t.{ending}", {name: tensor}, overwrite=True)
        found = io.read_all(tmp_path / f"t.{ending}")
        assert {key: value.to_list() for key, value in found.items()} == {name: texts}


def test_empty_fields_in_quotes_are_text_unless_there_are_numbers(tmp_path: Path) -> None:
    lines = ['a,b,c,"d ""x"",",e', '"",1,,"",""', ',"",,"",']
    (tmp_path / "t.csv").write_text("\r\n".join([*lines, ""]), newline="")
    found = io.read_all(tmp_path / "t.csv")
    kinds = {name: tensor.marks.is_text for name, tensor in found.items()}
    assert list(kinds.values()) == [True, False, False, True, True]
