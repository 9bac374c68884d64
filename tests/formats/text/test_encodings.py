"""Text in other encodings than UTF-8, and csv with other separators."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lodcli
from lodcli import LoDTensor
from lodcli.errors import InvalidDataError, LodError, OptionError, UnsupportedError
from lodcli.formats.core.options import SEPARATORS
from lodcli.formats.text.encodings import Recoded, encoding_named
from tests.slow import one_in

LOD = [sys.executable, "-m", "lodcli"]
ENCODINGS = {
    "latin1": "Grüße à tous",
    "cp1252": "“Grüße” €5",
    "utf-16": "Grüße 口 😀",
    "utf-32-be": "Grüße 口 😀",
    "shift_jis": "こんにちは",
    "gb18030": "你好 😀",
    "koi8-r": "привет",
    "utf-8-sig": "Grüße",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("ending", one_in(3, [".csv", ".jsonl", ".txt"]))
def test_an_encoding_makes_no_difference(tmp_path: Path, encoding: str, ending: str) -> None:
    text = ENCODINGS[encoding]
    if ending == ".csv":
        content = "text,value\n" + f"{text},1.5\r\n" * 12_000
    elif ending == ".jsonl":
        content = f'{{"text":"{text}","value":1}}\n' * 12_000
    else:
        content = f"{text}\n\n" * 12_000
    plain, other = tmp_path / f"plain{ending}", tmp_path / f"other{ending}"
    plain.write_bytes(content.encode())
    other.write_bytes(content.encode(encoding))
    packed = tmp_path / f"packed{ending}.gz"
    packed.write_bytes(gzip.compress(content.encode(encoding)))
    right = lodcli.read_all(plain)
    for path in (other, packed):
        found = lodcli.read_all(path, encoding=encoding)
        assert found.keys() == right.keys()
        for name, value in found.items():
            wanted = right[name]
            assert isinstance(value, LoDTensor)
            assert isinstance(wanted, LoDTensor)
            assert value.identical(wanted)


@given(
    st.lists(st.text(st.sampled_from("ab口あ\n")) | st.text(), max_size=50).map("\n".join),
    st.sampled_from(["shift_jis", "utf-16", "utf-8", "utf-7", "iso2022_jp"]),
    st.lists(st.integers(0, 300), max_size=8),
)
def test_seeking_to_any_position_works(text: str, encoding: str, places: list[int]) -> None:
    try:
        content = text.encode(encoding)
    except UnicodeEncodeError:
        return
    wanted = content.decode(encoding).encode()
    file = Recoded(io.BytesIO(content), encoding).buffered()
    for place in places:
        assert file.seek(place) == min(place, len(wanted))
        assert file.read(20) == wanted[place : place + 20]
        assert file.tell() == min(place + 20, len(wanted))


def test_bytes_that_are_not_of_the_encoding_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mixed.csv"
    path.write_bytes(b"text\n" + "口\n".encode("shift_jis") * 100_000 + b"\xff\n")
    said = r"byte 300005: expected shift_jis, found 0xff; give its encoding="
    with pytest.raises(InvalidDataError, match=said):
        lodcli.read(path, encoding="shift_jis")
    path.write_bytes("text\nend".encode("utf-16-le")[:-1])
    with pytest.raises(InvalidDataError, match="byte 14: expected utf-16-le, found 0x64"):
        lodcli.read(path, encoding="utf-16-le")


@pytest.mark.parametrize("name", ["utf-16", "utf-32"])
def test_an_encoding_that_needs_a_byte_order_mark_names_those_without(name: str) -> None:
    said = f"byte 0: expected {name}, found no byte order mark; give encoding='{name}-le' or"
    with pytest.raises(InvalidDataError, match=said):
        Recoded(io.BytesIO("a,b\n1,2\n".encode(f"{name}-le")), name).buffered().read()


@pytest.mark.parametrize("name", ["utf-17", "rot13", "zlib", "hex", "", "undefined"])
def test_an_unknown_encoding_or_one_not_of_text_is_an_error(name: str) -> None:
    with pytest.raises(OptionError, match="encoding: no encoding"):
        encoding_named(name)


def test_formats_without_text_take_no_encoding(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", data=np.ones(3))
    with pytest.raises(UnsupportedError, match="npz has no option"):
        lodcli.read(tmp_path / "a.npz", encoding="latin1")


@pytest.mark.parametrize("mark", [*SEPARATORS.values(), "~", ":"])
def test_separators_are_those_of_the_csv_module(tmp_path: Path, mark: str) -> None:
    rows = [["a b", f"with {mark}", "1"], ['qu"oted', "two\nlines", "2"], ["", ";,|\t", "3"]]
    path = tmp_path / "theirs.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=mark).writerows([["first", "se cond", "n"], *rows])
    found: dict[str, Any] = lodcli.read_all(path, separator=mark)
    assert [found[name].to_list() for name in ("first", "se cond")] == [
        [row[column] for row in rows] for column in (0, 1)
    ]
    lodcli.write(tmp_path / "ours.csv", found, separator=mark)
    with (tmp_path / "ours.csv").open(newline="") as file:
        assert list(csv.reader(file, delimiter=mark)) == [["first", "se cond", "n"], *rows]


@pytest.mark.parametrize("mark", ["", ",,", ".", "-", "5", "e", '"', "\n", "口", "commas"])
def test_characters_of_numbers_and_quotes_are_no_separator(tmp_path: Path, mark: str) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(OptionError, match="separator: expected one ASCII character"):
        lodcli.read(tmp_path / "a.csv", separator=mark)


def test_another_separator_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    with pytest.raises(LodError, match="give separator='semicolon'"):
        lodcli.read(tmp_path / "a.csv")


def test_convert_takes_both(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("name;n\nJosé;1\n".encode("latin1"))
    given = ["--separator", ";", "--encoding", "latin1", "--to", "jsonl"]
    done = subprocess.run([*LOD, "convert", "a.csv", *given], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout.decode()) == (0, '{"name":"José","n":1}\n')
    given = ["--from", "jsonl", "--to", "csv", "--separator", "tab"]
    done = subprocess.run([*LOD, "convert", "-", *given], input=done.stdout, capture_output=True)
    assert done.stdout.decode() == "name\tn\nJosé\t1\n"
