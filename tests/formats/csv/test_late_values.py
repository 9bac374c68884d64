"""Columns whose first value comes late in a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lodcli.formats.core import io
from lodcli.formats.text.lines import LineReader
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

ROW = b"7,,%b\n" % (b"x" * 92)  # 96 bytes
LATE = 2_000  # records before the value: 192 kB


def read(path: Path, data: bytes, **options: Any) -> list[Any]:
    path.write_bytes(data)
    found = io.read(path, "late", **options)
    assert isinstance(found, LoDTensor)
    return found.to_list()


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize(
    ("value", "kept", "before"),
    [(b"word", "word", ""), (b"5", 5.0, None), (b"true", True, None), (b"0.5", 0.5, None)],
)
def test_the_first_value_decides_what_the_column_is(
    tmp_path: Path, value: bytes, kept: Any, before: Any, quoted: bool
) -> None:
    other = b'"x"' if quoted else b"x"
    data = b"id,late,other\n" + ROW * LATE + b"8,%b,%b\n" % (value, other) + ROW
    assert read(tmp_path / "late.csv", data) == [*[before] * LATE, kept, before]


def test_texts_in_quotes_are_texts_without_a_further_look(tmp_path: Path) -> None:
    row = b'7,"",%b\n' % (b"x" * 90)
    data = b"id,late,other\n" + row * LATE + b'8,"12",x\n'
    assert read(tmp_path / "late.csv", data) == [*[""] * LATE, "12"]


def test_records_over_several_lines_may_end_where_more_is_read(tmp_path: Path) -> None:
    row = b'7,,"%b"\n' % (b"x\n" * 500)
    data = b"id,late,other\n" + row * 300 + b"8,word,x\n"
    assert read(tmp_path / "late.csv", data) == [*[""] * 300, "word"]


def test_a_later_text_is_an_error_that_names_line_column_and_remedy(tmp_path: Path) -> None:
    count = 20_000
    data = b"id,late,other\n" + ROW * count + b"8,word,x\n"
    message = rf"line {count + 2}, column 'late': expected a number .*, found 'word'; text_columns"
    with pytest.raises(InvalidDataError, match=message):
        read(tmp_path / "late.csv", data)
    found = read(tmp_path / "late.csv", data, text_columns=["late"])
    assert found[-2:] == ["", "word"]


def test_numbers_that_come_late_may_have_fractions_later(tmp_path: Path) -> None:
    data = b"id,late,other\n" + ROW * LATE + b"8,5,x\n" + ROW * 20_000 + b"8,0.5,x\n"
    assert [one for one in read(tmp_path / "late.csv", data) if one is not None] == [5.0, 0.5]


def test_errors_beyond_are_told_with_their_line(tmp_path: Path) -> None:
    data = b"id,late,other\n" + ROW * LATE + b"8,\0,x\n"
    with pytest.raises(InvalidDataError, match=f"line {LATE + 2}: holds"):
        read(tmp_path / "late.csv", data)


@pytest.mark.parametrize(
    ("first", "least", "most"), [(b"1,2,3\n", 1 << 16, 1 << 18), (b"1,,3\n", 1 << 20, 1 << 21)]
)
def test_only_columns_without_values_are_looked_at_further(
    tmp_path: Path, first: bytes, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, peek = list[int](), LineReader.peek

    def counted(self: LineReader, limit_bytes: int) -> list[bytes]:
        looked.append(limit_bytes)
        return peek(self, limit_bytes)

    monkeypatch.setattr(LineReader, "peek", counted)
    (tmp_path / "late.csv").write_bytes(b"id,late,other\n" + first + ROW * 40_000)
    with io.open_file(tmp_path / "late.csv"):
        assert least <= sum(looked) < most


def test_a_dtype_for_numbers_holds_for_late_booleans(tmp_path: Path) -> None:
    data = b"id,late,other\n" + ROW * LATE + b"8,true,9\n"
    found = read(tmp_path / "late.csv", data, dtype="float32")
    assert (found[0], found[-1]) == (None, 1.0)


@pytest.mark.parametrize("word", ["NA", "null", "-", '"NA"', " "])
def test_null_words_are_no_values(tmp_path: Path, word: str) -> None:
    row = b"7,%b,%b\n" % (word.encode(), b"x" * 92)
    data = b"id,late,other\n" + row * LATE + b"8,word,x\n" + row
    text = word.strip('"')
    assert read(tmp_path / "late.csv", data, nulls="keep") == [*[text] * LATE, "word", text]
    numbers = data.replace(b"word", b"0.5")
    expected = [*[None] * LATE, 0.5, None]
    if word.strip():
        assert read(tmp_path / "late.csv", numbers, nulls="keep") == expected


def test_a_late_number_with_a_decimal_comma_is_a_number(tmp_path: Path) -> None:
    row = b"7;;%b\n" % (b"x" * 92)
    data = b"id;late;other\n" + row * LATE + b"8;0,5;x\n"
    found = read(tmp_path / "late.csv", data, separator=";", decimal_comma=True)
    assert found == [*[None] * LATE, 0.5]
