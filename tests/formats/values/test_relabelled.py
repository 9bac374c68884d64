"""`--columns`, `--rename` and `--text-levels`: alike in every format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.schema import schema_of
from lodcli.formats.core.table import TABLE
from lodcli.formats.values.relabelled import Relabelled, chosen_by_name
from lodcli.kernels.errors import InvalidDataError, OptionError, SelectionError, UnsupportedError
from tests.formats.cases.every_file import FILES, NEEDS, file_of
from tests.formats.cases.opening import source_of, tensor_in

LISTS = LoDTensor([1, 2, 3, 4, 5], [[2, 1, 1, 1]])
OTHERS = LoDTensor([5, 6, 7, 8, 9], [[1, 2, 1, 1]])
TEXTS = LoDTensor.from_lists(["Grüß", "", "b", "c"])
# Formats of several tensors that are columns of records, or arrays.
MANY = [name for name in TABLE if (kind := table.get(name)).many and not kind.read_only]


def need(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])


@pytest.mark.parametrize("name", FILES)
def test_every_format_chooses_and_renames(name: str, tmp_path: Path) -> None:
    need(name)
    path, options = file_of(name, tmp_path)
    told: dict[str, Any] = {**options, "format_name": name}
    with lodcli.open(path, **told) as source:
        old = source.schema[-1].name
    item = tensor_in(path, old, **told)
    # What was a field of records is a column of its new name.
    item = LoDTensor(item.values, item.lod, replace(item.marks, fields=()), item.nulls)
    chosen = {**told, "columns": old, "rename": {old: "new"}}
    with lodcli.open(path, **chosen) as source:
        assert [spec.name for spec in source.schema] == ["new"]
        found = source.read()
        assert list(found) == ["new"]
        assert found["new"].identical(item)
    with lodcli.open(path, **chosen) as source:
        parts = [batch["new"] for batch in source.batches()]
        assert LoDTensor.concatenate(parts).identical(item)
    with lodcli.open(path, **chosen) as source:
        assert source.read_index("new") == item.lod
    with lodcli.open(path, **chosen) as source:
        part = source.slice("new", (slice(0, 1),))
        assert part.identical(item.select(slice(0, 1)))
    with source_of(path, **chosen) as source:
        lod, rows, blocks = source.row_blocks("new", lambda size: np.empty(size, np.uint8), 64)
        assert (lod, rows) == (item.lod, item.rows)
        assert sum(len(block) for _, block in blocks) == item.rows


@pytest.mark.parametrize("name", FILES)
def test_an_unknown_name_is_refused_with_those_there_are(name: str, tmp_path: Path) -> None:
    need(name)
    path, options = file_of(name, tmp_path)
    told: dict[str, Any] = {**options, "format_name": name}
    with lodcli.open(path, **told) as source:
        known = source.schema[0].name
    wrong: tuple[dict[str, Any], ...] = ({"columns": "nope"}, {"rename": {"nope": "x"}})
    for one in wrong:
        with pytest.raises(SelectionError) as caught, lodcli.open(path, **told, **one):
            pass
        # Lines that are no objects have no names at all.
        nameless = name in ("jsonl", "json") and "columns" in one
        for word in ("nope", path.name, *(() if nameless else (known,))):
            assert word in str(caught.value)


@pytest.mark.parametrize("name", MANY)
def test_columns_come_in_the_order_that_is_asked_for(name: str, tmp_path: Path) -> None:
    need(name)
    content = {"one": LISTS, "two": OTHERS, "three": LISTS}
    if name in ("csv", "tsv"):
        content = {key: LoDTensor(item.data[:4]) for key, item in content.items()}
    if name in ("h5ad", "megatron", "ts"):  # their names are their own
        pytest.skip(f"{name} names its tensors itself")
    path = tmp_path / ("t" + next(iter(TABLE[name].endings), ""))
    io.write(path, content, format_name=name)
    names = {"names": ("one", "two", "three")} if name == "paddle" else {}
    read: dict[str, Any] = {"format_name": name, **names}
    before = lodcli.read_all(path, **read)
    chosen: dict[str, Any] = {
        "columns": ("three", "one"),
        "rename": {"three": "one", "one": "three"},
    }
    found = lodcli.read_all(path, **read, **chosen)
    assert list(found) == ["one", "three"]
    for here, there in (("one", "three"), ("three", "one")):
        assert found[here].identical(before[there])
    with lodcli.open(path, **read, columns="two") as source:
        assert [spec.name for spec in source.schema] == ["two"]
        assert all(list(batch) == ["two"] for batch in source.batches())


@pytest.mark.parametrize(
    "name", [name for name in MANY if "text" in table.get(name).kept_marks and name != "ts"]
)
def test_text_is_numbers_in_every_format(name: str, tmp_path: Path) -> None:
    need(name)
    path = tmp_path / ("t" + next(iter(TABLE[name].endings), ""))
    io.write(path, {"t": TEXTS, "n": LoDTensor([1, 2, 3, 4])}, format_name=name)
    found = lodcli.read_all(path, format_name=name, text_levels="numbers")
    assert sorted(found) == ["n", "t"]
    item = found["t"]
    assert item.data.tolist() == TEXTS.data.tolist()
    assert item.marks.kind is None
    again = tmp_path / "again.lod.h5"
    io.write(again, {"t": item})
    text = tensor_in(again, text_levels="text")
    assert text.to_list() == TEXTS.to_list()


def test_bytes_marked_as_text_are_checked_in_each_way_of_reading(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    io.write(path, LoDTensor(np.array([65, 255, 66], np.uint8), [[1, 1, 1]]))
    text: dict[str, Any] = {"text_levels": "text"}
    with pytest.raises(InvalidDataError, match="not UTF-8"):
        lodcli.read(path, **text)
    with source_of(path, **text) as source:
        assert source.stored_rows("data") is None
        with pytest.raises(InvalidDataError, match="not UTF-8"):
            source.row_blocks("data", lambda size: np.empty(size, np.uint8), 64)
        with pytest.raises(InvalidDataError, match="not UTF-8"):
            source.slice("data", (slice(0, 2),))
        assert source.slice("data", (slice(2, 3),)).to_list() == ["B"]
        assert source.slice("data", (0,)).data.tolist() == [65]
    with pytest.raises(UnsupportedError, match="text is uint8"):
        lodcli.read_all(_written(tmp_path / "n.npz", LISTS), **text)
    with pytest.raises(OptionError, match="expected text, bytes, numbers, found 'words'"):
        lodcli.read(path, text_levels="words")


def _written(path: Path, item: LoDTensor) -> Path:
    io.write(path, item)
    return path


def test_a_renamed_container_is_still_mapped_and_stored_in_blocks(tmp_path: Path) -> None:
    path = _written(tmp_path / "t.lod.h5", LISTS)
    with source_of(path, rename={"data": "x"}, levels="day") as source:
        stored = source.stored_rows("x")
        assert stored is not None
        assert (stored.rows, stored.lod.names) == (5, ("day",))
        assert source.partial
    mapped = tensor_in(path, rename={"data": "x"}, mmap=True)
    assert not mapped.data.flags.writeable


def test_names_of_levels_count_for_the_chosen_tensors(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    io.write(path, {"flat": LoDTensor([1]), "deep": LISTS})
    found = lodcli.read_all(path, columns="deep", levels="day")
    assert found["deep"].lod.names == ("day",)


def test_a_null_drops_records_only_of_columns_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":1,"b":null}\n{"a":null,"b":2}\n{"a":3,"b":4}\n')
    for columns, rows in (("a", [1, 3]), (("a", "b"), [3])):
        found = lodcli.read_all(path, columns=columns, rename={"a": "x"}, nulls="drop")["x"]
        assert found.data.tolist() == rows


def test_two_tensors_of_one_name_are_refused() -> None:
    schema = schema_of({"a": LISTS, "b": OTHERS})
    with pytest.raises(SelectionError, match="two tensors would be called b"):
        chosen_by_name(schema, None, {"a": "b"})
    assert list(chosen_by_name(schema, ["b"], {"b": "a"})) == ["b"]


def test_a_choice_is_a_source_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    io.write(path, {"a": LISTS, "b": OTHERS})
    with lodcli.open(path) as source:
        chosen = Relabelled(source, chosen_by_name(source.schema, ["b"], {"b": "c"}))
        for name in ("a", "b"):
            with pytest.raises(SelectionError, match=f"no tensor named '{name}'; there are: c"):
                chosen.read([name])
