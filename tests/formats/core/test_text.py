"""Text survives every format that keeps its mark; invalid text is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import BYTES, TEXT
from tests.formats.cases.kinds import KINDS, require
from tests.formats.cases.opening import tensor_in
from tests.formats.cases.tables import written_by_pyarrow

KEEPS = {name for name in KINDS if "text" in table.get(name).kept_marks}
KEEPS_BYTES = {name for name in KINDS if "bytes" in table.get(name).kept_marks}
FILES = {
    **{"lod.h5": "x.lod.h5", "lod.stream": "x.lods", "arrow": "x.arrow", "parquet": "x.parquet"},
    **{"arrow-stream": "x.arrows", "npz": "x.npz", "safetensors": "x.safetensors"},
    **{
        "tfrecord": "x.tfrecord",
        "jsonl": "x.jsonl",
        "json": "x.json",
        "csv": "x.csv",
        "tsv": "x.tsv",
    },
}
HARD = ["Grüß", "", 'say "a,b"\t\\', "two\nlines\r\n", "\u2028\x1f😀", "7", "null"]
SHAPES: dict[str, list[Any]] = {
    "one level": HARD,
    "two levels": [HARD[:2], [], HARD[2:]],
    "three levels": [[HARD, []], [], [["x"]]],
    "empty texts": ["", ""],
    "one": ["x"],
}


def through(folder: Path, name: str, content: dict[str, LoDTensor], **options: Any) -> Any:
    require(name)
    path = folder / FILES.get(name, name)
    io.write(path, content, format_name=name)
    return io.read_all(path, format_name=name, **options)


RECORDS = {"mds", "webdataset"}


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_text_of_samples_comes_back(name: str, tmp_path: Path) -> None:
    text = LoDTensor.from_lists(HARD)
    content = {"t": text.as_numbers().as_text(), "n": LoDTensor(np.arange(len(text)))}
    found = through(tmp_path, name, content)
    assert found["t"].lod.names == ("sample",)
    assert found["t"].to_list() == HARD
    assert found["n"].identical(content["n"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", sorted(KEEPS - RECORDS - {"csv", "tsv"}))
def test_text_comes_back(name: str, shape: str, tmp_path: Path) -> None:
    text = LoDTensor.from_lists(SHAPES[shape])
    numbers = LoDTensor(np.arange(len(text)))
    found = through(tmp_path, name, {"t": text, "n": numbers})
    assert found["t"].identical(text)
    assert found["n"].identical(numbers)


@pytest.mark.parametrize("name", sorted(name for name in KEEPS if KINDS[name].zero_rows))
def test_text_without_items_comes_back(name: str, tmp_path: Path) -> None:
    text = LoDTensor.from_lists(["x"])[:0]
    found = through(tmp_path, name, {"t": text})
    assert found["t"].identical(text)


@pytest.mark.parametrize("name", sorted(KEEPS_BYTES))
def test_bytes_come_back(name: str, tmp_path: Path) -> None:
    content = {"t": LoDTensor.from_lists([b"\xff\0", b""]), "n": LoDTensor.from_lists(["a", "b"])}
    found = through(tmp_path, name, content)
    assert all(found[one].identical(content[one]) for one in content)


@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_text_of_columns_comes_back(name: str, tmp_path: Path) -> None:
    index = LoD.from_lengths([[2, 1, 4]], ["user"])
    words = LoDTensor.from_lists(HARD)
    text = LoDTensor(words.data, LoD([*index.levels, *words.lod.levels], ["user", None]), TEXT)
    content = {"t": text, "n": LoDTensor(np.arange(7), index)}
    found = through(tmp_path, name, content, levels="user")
    assert all(found[one].identical(content[one]) for one in content)


@pytest.mark.parametrize("name", sorted(KEEPS_BYTES))
def test_several_texts_and_tags_over_one_index(name: str, tmp_path: Path) -> None:
    text = LoDTensor.from_lists(SHAPES["two levels"])
    tags = LoDTensor(np.arange(text.rows), text.lod)
    other = LoDTensor(text.data, text.lod, BYTES)
    content = {"text": text, "tags": tags, "other": other}
    found = through(tmp_path, name, content)
    assert all(found[one].identical(content[one]) for one in content)


def test_a_record_of_text_is_the_same_through_parquet(tmp_path: Path) -> None:
    line = '{"text":"Grüß","ids":[1]}\n'
    (tmp_path / "a.jsonl").write_text(line, "utf-8")
    io.write(tmp_path / "a.parquet", io.read_all(tmp_path / "a.jsonl"))
    schema = pq.read_schema(tmp_path / "a.parquet")
    assert schema.field("text").type == pa.large_string()
    io.write(tmp_path / "b.jsonl", io.read_all(tmp_path / "a.parquet"))
    assert (tmp_path / "b.jsonl").read_text("utf-8") == line


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_kind_of_arrow_text_is_text(kind: pa.DataType, tmp_path: Path) -> None:
    column = pa.array(["a", "größe", ""]).cast(kind)
    found = tensor_in(written_by_pyarrow(tmp_path / "t.arrow", pa.table({"t": column})))
    assert found.to_list() == ["a", "größe", ""]
    raw = io.read_all(tmp_path / "t.arrow", format_name="arrow")["t"]
    assert raw.marks == TEXT


def test_numbers_stay_in_version_1(tmp_path: Path) -> None:
    bare = LoDTensor.from_lists(HARD).as_numbers()
    for name in ("lod.h5", "lod.stream"):
        found = through(tmp_path, name, {"t": bare})
        assert found["t"].identical(bare)
        raw = (tmp_path / FILES[name]).read_bytes()
        assert b'"version":1' in raw
        assert b"marks" not in raw


@pytest.mark.parametrize("name", sorted(set(FILES) - {"csv", "tsv"}))
def test_text_that_is_none_is_not_written(name: str, tmp_path: Path) -> None:
    wrong = LoDTensor(np.array([97, 255], np.uint8), [[1, 1]], TEXT)
    with pytest.raises(InvalidDataError, match="t: item <1>: is not UTF-8"):
        io.write(tmp_path / FILES[name], {"t": wrong})
    assert not list(tmp_path.iterdir())


def test_an_array_called_like_the_marks_is_a_tensor(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"lod.json": np.arange(3), "b": np.arange(2, dtype=np.uint8)}
    np.savez(tmp_path / "x.npz", **arrays)
    assert list(io.read_all(tmp_path / "x.npz")) == ["lod.json", "b"]


def test_marks_of_a_later_lod_are_refused(tmp_path: Path) -> None:
    said = {"format": "lod-marks", "version": 1, "tensors": {"b": {"values": "html"}}}
    text = np.frombuffer(json.dumps(said).encode(), np.uint8)
    arrays: dict[str, Any] = {"lod.json": text, "b": np.arange(2, dtype=np.uint8)}
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(UnsupportedError, match="no mark of values 'html' is known"):
        io.read_all(tmp_path / "x.npz")


def test_csv_takes_no_nul(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match="csv holds no NUL characters, found in the text of t"
    ):
        io.write(tmp_path / "x.csv", {"t": LoDTensor.from_lists(["a\0"])})


@pytest.mark.parametrize("fast", [False, True])
def test_json_is_what_python_writes(
    fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.formats.text.records_native.REPAID_VALUES", 0 if fast else 10**9)
    monkeypatch.setattr("lodcli.formats.text.records_native.REPAID_SHIPPED", 0 if fast else 10**9)
    rng = np.random.default_rng(0)
    letters = [*'"\\/ az', *map(chr, range(32)), "\x7f", "é", "\u2028", "😀"]

    def text() -> str:
        return "".join(rng.choice(letters, rng.integers(0, 9)))

    flat = [text() for _ in range(300)]
    deep = [
        [[text() for _ in range(rng.integers(3))] for _ in range(rng.integers(3))] for _ in flat
    ]
    deep[0] = [["a"]]
    for values in (flat, deep):
        io.write(tmp_path / "t.jsonl", LoDTensor.from_lists(values), overwrite=True)
        lines = (tmp_path / "t.jsonl").read_bytes().decode()
        expected = (json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in values)
        assert lines == "".join(f"{line}\n" for line in expected)
    both = {"a": LoDTensor.from_lists(flat), "b": LoDTensor.from_lists(deep)}
    io.write(tmp_path / "t.jsonl", both, overwrite=True)
    found = list(map(json.loads, (tmp_path / "t.jsonl").read_text("utf-8").split("\n")[:-1]))
    assert found == [{"a": a, "b": b} for a, b in zip(flat, deep, strict=True)]
