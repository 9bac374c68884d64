"""JSON documents: arrays and values over any lines, against Python's json, pandas and jq."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lodcli
from lodcli import LoDTensor
from lodcli.errors import InvalidDataError, LodError
from lodcli.formats.json.documents import _Values
from tests.formats.cases.processes import lod

THEIRS = Path(__file__).parents[1] / "theirs"
HARD = st.sampled_from(['a"b\\', "\\", "[{,]}", "\n\t é口", "", '\\"', ",", ":"])
VALUES = st.recursive(
    st.integers(-9, 9) | st.booleans() | HARD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HARD, inner, max_size=3),
    max_leaves=12,
)
LAYOUTS = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 1, 4]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)


def lines_of(document: str, block_bytes: int) -> list[Any]:
    """Return the lines that become of a document, read in small blocks."""
    file = _Values(io.BytesIO(document.encode()), block_bytes)
    content = b"".join(iter(lambda: file.read(7) or b"", b"")).decode()
    *lines, rest = content.split("\n")
    return [json.loads(line) for line in (lines if not rest.strip() else [*lines, rest])]


@given(st.lists(VALUES, max_size=5), LAYOUTS, st.integers(1, 50), st.sampled_from(["", " ", "\n"]))
def test_the_elements_of_an_array_are_the_values(
    values: list[Any], layout: dict[str, Any], block_bytes: int, around: str
) -> None:
    document = around + json.dumps(values, **layout) + around
    assert lines_of(document, block_bytes) == values


@given(
    st.lists(st.dictionaries(HARD, VALUES, max_size=3), min_size=1, max_size=5),
    LAYOUTS,
    st.integers(1, 50),
    st.sampled_from(["", "\n", " \r\n", "\n\x1e"]),
)
def test_objects_one_after_another_are_values(
    values: list[Any], layout: dict[str, Any], block_bytes: int, between: str
) -> None:
    document = between.join(json.dumps(value, **layout) for value in values) + between
    assert lines_of(document, block_bytes) == values


@pytest.mark.parametrize("name", ["pandas.json", "jq.json", "jq_sequence.json"])
def test_files_of_others_are_read(name: str) -> None:
    records = json.loads((THEIRS / "pandas.json").read_text())
    found = lodcli.read_all(THEIRS / name)
    assert list(found) == ["text", "ids", "score", "tags"]
    for field, tensor in found.items():
        assert tensor.to_list() == [record[field] for record in records]


@pytest.mark.parametrize("items", [0, 1, 70_000, pytest.param(2_000_000, marks=pytest.mark.slow)])
def test_a_written_file_is_one_json_document(tmp_path: Path, items: int) -> None:
    tensor = LoDTensor.from_lists([list(range(i % 5)) for i in range(items)] or [[0]])[:items]
    path = tmp_path / "t.json"
    lodcli.write(path, tensor)
    assert json.loads(path.read_text()) == tensor.to_list()
    assert len(path.read_text().splitlines()) == (items + 2 if items else 1)


SEPARATED = (
    r"lines begin with the separator of RFC 7464; remove it, as with tr -d '\\36', and give "
    "format_name='jsonl'"
)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("", "is blank; expected a JSON document"),
        (" \n", "is blank; expected a JSON document"),
        ("[1,2,]", "value 3: is blank"),
        ("[1,,2]", "value 2: is blank"),
        ("[,1]", "value 1: is blank"),
        ("[1, 2", "ends before its array does; it is truncated"),
        ('["a', "ends before its array does; it is truncated"),
        ("[1, 2]]", "byte 6: the array ends here"),
        ("[[1]]\n[2]\n", "byte 6: the array ends here; .* format_name='jsonl'"),
        ("[1, 2}", "byte 5: the array ends here"),
        ('{"a": 1} 5', "value 2: expected an object"),
        ('{"a": 1},{"a": 2}', "value 2: .*not JSON"),
        ('[{"a": 1}, {"b": 2}]', "value 2: field 'a' is missing"),
        ('[{"a": 1, "b": 2}, {"a": 3}]', "value 2: field 'b' is missing"),
        ('[{"a": 1}, {"a": [2]}]', "value 2"),
        ('{"a":\n[1,', "value 1: .*ends before its value does"),
        ('\x1e{"a": 1}\n\x1e{"a": \n\x1e{"a": 3}\n', "value 2: .*not JSON"),
        ('\x1e{"a": "\x1e"}', "value 1: .*not JSON"),
        ("\x1e[1,2]\n\x1e[3]\n", SEPARATED),
        ("\x1e[1,2]\n", SEPARATED),
        (" \x1e\n 5\n\x1e6\n", SEPARATED),
        ('{"a": {"b": 1}} {"a": 2}', "value 2: field 'a': expected an object, found 2"),
    ],
)
def test_errors_of_documents_name_the_place(tmp_path: Path, document: str, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(document)
    with pytest.raises(LodError, match=said):
        lodcli.read_all(path)


def test_a_late_fault_is_reported_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[" + "[1, 2],\n" * 400_000 + "[1, true]]")
    with pytest.raises(InvalidDataError, match="value 400001: "):
        lodcli.read(path)


def test_pipes_encodings_and_packed_files(tmp_path: Path) -> None:
    content = json.dumps([{"t": "Grüß", "n": [1, 2]}, {"t": "", "n": []}], indent=1)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(content.encode()))
    (tmp_path / "b.json").write_bytes(content.encode("utf-16"))
    wanted = '{"t":"Grüß","n":[1,2]}\n{"t":"","n":[]}\n'
    for arguments, piped in (
        (["a.json.gz"], None),
        (["b.json", "--encoding", "utf-16"], None),
        (["-", "--from", "json"], content.encode()),
    ):
        line = ["convert", *arguments, "--to", "jsonl"]
        done = lod(*line, input=piped, text=False, cwd=tmp_path)
        assert done.stdout.decode() == wanted, done.stderr
    numbers = np.arange(5)
    lodcli.write(tmp_path / "c.json.gz", LoDTensor(numbers, [[2, 3]]))
    assert json.loads(gzip.decompress((tmp_path / "c.json.gz").read_bytes())) == [[0, 1], [2, 3, 4]]


@pytest.mark.parametrize("orient", ["columns", "index", "split", "table"])
def test_a_table_that_pandas_wrote_as_one_object_gets_a_note(orient: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [1, 2], "b": [0.5, 2.5]}).to_json(tmp_path / "x.json", orient=orient)
    with lodcli.open(tmp_path / "x.json") as source:
        assert ["pandas" in note and "orient='records'" in note for note in source.notes] == [True]


@pytest.mark.parametrize(
    "document",
    [
        '[{"a": 1, "b": 0.5}, {"a": 2, "b": 2.5}]',  # of pandas, as records
        '{"a": {"x": 1}, "b": {"x": 2}}',
        '{"data": [1], "schema": {"fields": [1]}}',
        '{"0": 1, "1": 2}',
        '{"a": {"0": 1}}\n{"a": {"0": 2}}',
    ],
)
def test_other_objects_get_none(document: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(document)
    with lodcli.open(tmp_path / "x.json") as source:
        assert not source.notes
