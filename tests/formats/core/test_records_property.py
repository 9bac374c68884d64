"""Records of any shape come back: of random types, against pyarrow and the JSON they came from."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from tests.sampling import many

# A value, or how one in a list or an object is made: [kind], {name: kind}.
LEAVES = ["int", "float", "text", "bool"]
NAMES = st.sampled_from(["a", "b", "c", "a.b", "ü"])
KINDS = st.recursive(
    st.sampled_from(LEAVES),
    lambda kind: st.one_of(
        kind.map(lambda one: [one]), st.dictionaries(NAMES, kind, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
COLUMNS = st.dictionaries(NAMES, KINDS, min_size=2, max_size=3)


def values(kind: Any, *, nulls: bool) -> st.SearchStrategy[Any]:
    """Return values of a kind."""
    found: st.SearchStrategy[Any]
    if isinstance(kind, list):
        found = st.lists(values(kind[0], nulls=nulls), max_size=3)
    elif isinstance(kind, dict):
        found = st.fixed_dictionaries(
            {name: values(one, nulls=nulls) for name, one in kind.items()}
        )
    else:
        found = {
            "int": st.integers(-9, 9),
            "float": st.sampled_from([0.5, -1.25]),
            "text": st.sampled_from(["", "ü", "null"]),
            "bool": st.booleans(),
        }[kind]
    return st.none() | found if nulls else found


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw rows of equal columns; a third of the tables have nulls."""
    columns = draw(COLUMNS)
    nulls = draw(st.integers(0, 2)) == 0
    row = st.fixed_dictionaries({name: values(kind, nulls=nulls) for name, kind in columns.items()})
    return draw(st.lists(row, min_size=1, max_size=5))


def through(rows: list[dict[str, Any]], folder: Path, *names: str) -> Path:
    """Write rows as JSON lines, convert them from file to file, and return the last."""
    path = folder / "given.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name in names:
        with lodcli.open(path) as file:
            io.write_batches(folder / name, file.schema, file.batches(64))
        path = folder / name
    return path


CHAINS = [("a.jsonl",), ("a.lod.h5", "a.json", "b.jsonl"), ("a.lods", "b.jsonl")]


@pytest.mark.slow
@pytest.mark.parametrize("names", CHAINS)
@settings(max_examples=many(100), deadline=None)
@given(rows=tables())
def test_objects_come_back(names: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = through(rows, Path(folder), *names)
        assert [json.loads(line) for line in found.read_text("utf-8").splitlines()] == rows


@pytest.mark.slow
@settings(max_examples=many(300), deadline=None)
@given(rows=tables())
def test_structs_come_back_through_parquet(rows: list[dict[str, Any]]) -> None:
    pytest.importorskip("pyarrow")
    with tempfile.TemporaryDirectory() as folder:
        found = through(rows, Path(folder), "a.parquet", "a.lod.h5", "b.parquet", "c.jsonl")
        assert [json.loads(line) for line in found.read_text("utf-8").splitlines()] == rows
