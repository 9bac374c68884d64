"""Records come back as records: structs of Arrow, objects of JSON and records of Awkward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.schema import LevelSpec, TensorSpec
from lodcli.formats.json import jsonl
from lodcli.formats.structs.names import renamed
from lodcli.formats.structs.tree import broken_columns, tree
from lodcli.kernels.errors import InvalidDataError, SelectionError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Field, Marks

ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "s": {"x": 1, "t": "Grüß", "l": [1, 2], "in": {"y": [True]}},
        "turns": [
            {"role": "user", "parts": [{"k": "a", "v": [1.5]}, {"k": "b", "v": []}]},
            {"role": "bot", "parts": []},
        ],
    },
    {"id": 2, "s": {"x": 2, "t": "", "l": [], "in": {"y": []}}, "turns": []},
]
NULLS: list[dict[str, Any]] = [
    *ROWS,
    {"id": 3, "s": None, "turns": None},
    {
        "id": 4,
        "s": {"x": None, "t": "q", "l": None, "in": None},
        "turns": [
            None,
            {"role": "k", "parts": None},
            {"role": "z", "parts": [None, {"k": "a", "v": [2.5]}]},
        ],
    },
]
# Names with dots, of a column and of a field, are no paths.
DOTTED: list[dict[str, Any]] = [{"s.x": 1, "r": {"a.b": 2, "c": {"d": [3]}}}]
# Records with only nulls, none of which is null.
HOLLOW: list[dict[str, Any]] = [{"s": {"x": None}, "k": 1}, {"s": {"x": 5}, "k": 2}]
# Records that are never null, inside of one that is.
REQUIRED: list[dict[str, Any]] = [
    {"s": {"x": 1, "t": {"y": None}}, "k": 1},
    {"s": None, "k": 2},
    {"s": {"x": None, "t": {"y": 3}}, "k": 3},
]
# Null records and records with only nulls, at several depths.
BOTH: list[dict[str, Any]] = [
    {"s": {"x": 1, "t": "a"}, "l": [{"in": {"a": [1]}, "b": 1}, {"in": None, "b": 2}], "k": 1},
    {"s": {"x": None, "t": None}, "l": [{"in": {"a": None}, "b": 2}, None], "k": 2},
    {"s": None, "l": [{"in": None, "b": None}, {"in": {"a": None}, "b": None}], "k": 3},
    {"s": {"x": 2, "t": None}, "l": None, "k": 4},
]
CASES = {"required": REQUIRED, "rows": ROWS, "nulls": NULLS, "dotted": DOTTED, "hollow": HOLLOW}
CASES["both"] = BOTH
HOLD_NULLS = ["jsonl", "json", "parquet", "arrow", "arrow-stream", "datasets", "lod.h5", "lods"]
SUFFIXES = {"arrow-stream": "arrows", "datasets": "folder"}


def put(path: Path, rows: list[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, "utf-8")
    return path


def converted(source: Path, kind: str, **options: Any) -> Path:
    target = source.parent / f"{source.name.partition('.')[0]}_.{SUFFIXES.get(kind, kind)}"
    named = None if kind in ("lod.h5", "lods") else kind
    with lodcli.open(source, **options) as file:
        io.write_batches(target, file.schema, file.batches(), format_name=named, strict=False)
    return target


def rows_of(path: Path) -> list[dict[str, Any]]:
    lines = converted(path, "jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", [*HOLD_NULLS, "npz", "safetensors", "awkward", "zarr"])
@pytest.mark.parametrize("name", CASES)
def test_records_come_back_from_every_format_that_holds_them(
    kind: str, name: str, tmp_path: Path
) -> None:
    if name in ("nulls", "hollow", "required", "both") and kind == "awkward":
        pytest.skip("holds no nulls")
    if kind == "zarr":
        pytest.importorskip("zarr")
    source = put(tmp_path / "a.jsonl", CASES[name])
    found = rows_of(converted(source, kind))
    assert found == CASES[name]
    assert [list(row) for row in found] == [list(row) for row in CASES[name]]


@pytest.mark.parametrize("name", CASES)
def test_structs_are_those_of_pyarrow(name: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.Table.from_pylist(CASES[name])
    pq.write_table(table, tmp_path / "a.parquet")
    made = converted(converted(tmp_path / "a.parquet", "lod.h5"), "parquet")
    found = pq.read_table(made)
    assert found.to_pylist() == table.to_pylist()
    assert found.schema.names == table.schema.names
    # Small lists and text are large ones here.
    assert plain(found.schema) == plain(table.schema)


def plain(schema: Any) -> str:
    said = " ".join(f"{field.name}: {field.type}" for field in schema)
    for old, new in (("large_", ""), (" not null", ""), ("element", "item")):
        said = said.replace(old, new)
    return said


def test_records_are_those_of_awkward(tmp_path: Path) -> None:
    ak = pytest.importorskip("awkward")
    array = ak.Array(ROWS)
    form, length, buffers = ak.to_buffers(array)
    np.savez(tmp_path / "a.npz", form=form.to_json(), length=length, **buffers)
    made = converted(converted(tmp_path / "a.npz", "lod.h5"), "awkward")
    with np.load(made) as stored:
        parts = {name: stored[name] for name in stored.files}
    back = ak.from_buffers(ak.forms.from_json(parts["form"].item()), int(parts["length"]), parts)
    assert back.to_list() == ROWS
    assert str(back.type) == str(array.type)


def test_sliced_batches_of_structs_come_whole(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows: list[dict[str, Any]] = [
        {
            "s": {"n": n, "t": "x" * (n % 7)},
            "l": [{"a": i, "b": [n] * (i % 3)} for i in range(n % 5)],
        }
        for n in range(3000)
    ]
    rows[17] = {"s": None, "l": None}
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    with lodcli.open(tmp_path / "a.parquet") as file:
        parts = file.batches(4000)
        io.write_batches(tmp_path / "b.arrow", file.schema, parts)
    assert pa.ipc.open_file(tmp_path / "b.arrow").read_all().to_pylist() == rows


def test_null_records_and_records_of_nulls_stay_apart_in_slices_and_choices(tmp_path: Path) -> None:
    source = converted(put(tmp_path / "a.jsonl", BOTH), "lod.h5")
    assert rows_of(converted(source, "parquet")) == BOTH
    found = io.read_all(source)
    assert [name for name in found if "present" in name] == [
        "s.present",
        "l.in.present",
        "l.present",
    ]
    with lodcli.open(source) as file:
        part = {name: file.slice(name, (slice(1, 3),)) for name in found}
    io.write(tmp_path / "b.lod.h5", part)
    assert rows_of(tmp_path / "b.lod.h5") == BOTH[1:3]
    io.write(tmp_path / "c.lod.h5", {name: found[name] for name in ("s.x", "k")})
    assert rows_of(tmp_path / "c.lod.h5") == [
        {"s": {"x": 1}, "k": 1},
        {"s": None, "k": 2},
        {"s": None, "k": 3},
        {"s": {"x": 2}, "k": 4},
    ]
    io.write(tmp_path / "d.lod.h5", {"s.present": found["s.present"]})
    assert rows_of(tmp_path / "d.lod.h5")[1:3] == [
        {"s": {"present": True}},
        {"s": {"present": False}},
    ]


@pytest.mark.parametrize("kind", HOLD_NULLS)
def test_other_nulls_make_null_records_and_records_of_nulls_alike(
    kind: str, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = [{"l": [{"x": 1}, None]}, {"l": [{"x": None}]}]
    source = converted(put(tmp_path / "a.jsonl", rows), kind)
    assert rows_of(source) == rows
    assert rows_of(converted(source, "lod.h5", nulls="zero")) == [
        {"l": [{"x": 1}, {"x": 0}]},
        {"l": [{"x": 0}]},
    ]


def test_formats_without_records_get_no_tensor_that_tells_which_are_null(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"s": {"x": 1}}, {"s": None}, {"s": {"x": None}}]
    source = put(tmp_path / "a.jsonl", rows)
    assert converted(source, "csv").read_text() == 's.x\n1\n""\n""\n'
    with lodcli.open(source) as file, pytest.raises(UnsupportedError, match="records: s"):
        io.write_batches(tmp_path / "c.csv", file.schema, file.batches(), strict=True)
    alone = {"s.present": io.read(source, "s.present")}
    io.write(tmp_path / "d.lodt", alone, format_name="paddle")
    (found,) = io.read_all(tmp_path / "d.lodt").values()
    assert found.to_list() == [True, False, True]


def test_null_records_after_the_first_that_hold_nulls_are_refused_by_name(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"s": {"x": "x" * 1_000_000}}] * 8
    late: list[dict[str, Any]] = [{"s": {"x": None}}, *rows, {"s": None}]
    source = put(tmp_path / "a.jsonl", late)
    with pytest.raises(InvalidDataError, match=r"line 10: field 's': null, which the first lines"):
        rows_of(source)
    assert rows_of(converted(source, "lods", nulls="keep")) == late
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    late = [{"s": {"x": None}}, *([{"s": {"x": 1}}] * 2000), {"s": None}]
    pq.write_table(pa.Table.from_pylist(late), tmp_path / "b.parquet", row_group_size=1100)
    with pytest.raises(InvalidDataError, match=r"column 's', record 2001: a record .* is null"):
        rows_of(tmp_path / "b.parquet")
    assert rows_of(converted(tmp_path / "b.parquet", "lods", nulls="keep")) == late


def test_after_lines_with_neither_records_may_be_null_but_not_of_nothing_but_nulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "PEEK_BYTES", 50)
    monkeypatch.setattr(jsonl, "MOST_PEEK_BYTES", 50)
    rows: list[dict[str, Any]] = [{"s": {"x": 1, "y": None}}, {"s": {"x": None, "y": 2}}] * 5
    null, hollow = [*rows, {"s": None}], [*rows, {"s": {"x": None, "y": None}}]
    assert rows_of(put(tmp_path / "a.jsonl", null)) == null
    source = put(tmp_path / "b.jsonl", hollow)
    with pytest.raises(InvalidDataError, match=r"line 11: field 's': an object of nothing but nu"):
        rows_of(source)
    assert rows_of(converted(source, "lods", nulls="keep")) == hollow


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl"])
def test_a_null_record_with_a_field_that_is_not_null_is_refused(kind: str, tmp_path: Path) -> None:
    found = io.read_all(converted(put(tmp_path / "a.jsonl", BOTH), "lod.h5"))
    told = found["s.present"]
    found["s.present"] = LoDTensor(np.zeros(4, np.bool_), marks=told.marks)
    with pytest.raises(InvalidDataError, match=r"s.present marks a record as null, but"):
        io.write(tmp_path / "x", found, format_name=kind)


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "arrow", "datasets", "lod.h5", "npz"])
def test_the_presence_of_records_is_written_alone(kind: str, tmp_path: Path) -> None:
    found = io.read_all(converted(put(tmp_path / "a.jsonl", BOTH), "lod.h5"))
    for name in ("s.present", "l.in.present"):
        told, path = found[name], tmp_path / name
        io.write(path, {name: told}, format_name=kind)
        (other,) = io.read_all(path, format_name=kind).values()
        assert other.to_list() == told.to_list()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"s":{}}', "field 's': an object without fields has no values"),
        ('{"s":[{}]}\n{"s":[{}, {}]}', "field 's': an object without fields has no values"),
        ('{"s":{"x":1}}\n{"s":[1]}', "line 2: field 's': expected an object, found a list"),
        ('{"s":[{"x":1}]}\n{"s":{"x":1}}', "line 2: field 's': expected a list, found an object"),
        ('{"s":{"x":1}}\n{"s":{"x":"a"}}', "line 2: field s.x: expected a number"),
    ],
)
def test_objects_that_are_no_records_are_refused(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(InvalidDataError, match=message):
        io.read_all(tmp_path / "a.jsonl")


@pytest.mark.parametrize("kind", HOLD_NULLS)
def test_a_field_that_an_object_lacks_is_null(kind: str, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"s": [{"y": 1, "t": "a"}, {"x": [2]}], "r": {"a": {"b": 1}, "c": 2}},
        {"s": [{"t": None}, {"x": [], "y": 3, "t": ""}], "r": {"c": 3}},
        {"s": None, "r": {"d": True, "a": {}}},
    ]
    source = put(tmp_path / "a.jsonl", lines)
    assert rows_of(converted(source, kind)) == [
        {
            "s": [{"y": 1, "t": "a", "x": None}, {"y": None, "t": None, "x": [2]}],
            "r": {"a": {"b": 1}, "c": 2, "d": None},
        },
        {
            "s": [{"y": None, "t": None, "x": None}, {"y": 3, "t": "", "x": []}],
            "r": {"a": None, "c": 3, "d": None},
        },
        {"s": None, "r": {"a": {"b": None}, "c": None, "d": True}},
    ]


def test_fields_after_the_first_lines_are_those_of_the_first(tmp_path: Path) -> None:
    long: list[dict[str, Any]] = [{"s": {"x": "x" * 1_000_000}}] * 9
    source = put(tmp_path / "a.jsonl", [*long, {"s": {"x": "a", "y": 1}}])
    with pytest.raises(InvalidDataError, match=r"line 10: field 's': an object has a field 'y'"):
        rows_of(source)
    source = put(tmp_path / "b.jsonl", [*long, {"s": {}}])
    with pytest.raises(InvalidDataError, match=r"line 10: .*no field 'x'; nulls='keep' reads"):
        rows_of(source)
    assert rows_of(converted(source, "lod.h5", nulls="keep"))[9] == {"s": {"x": None}}


def test_tensors_in_memory_keep_their_records(tmp_path: Path) -> None:
    source = converted(put(tmp_path / "a.jsonl", NULLS), "lod.h5")
    io.write(tmp_path / "b.lod.h5", io.read_all(source))
    assert rows_of(tmp_path / "b.lod.h5") == NULLS


def test_a_file_without_records_is_of_version_1(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", [{"s.x": [1], "k": 2}])
    made = converted(tmp_path / "a.jsonl", "lod.h5")
    assert b'"version":1' in made.read_bytes()


@pytest.mark.parametrize("kind", ["jsonl", "lod.h5", "lods", "parquet", "npz"])
def test_a_literal_name_and_a_path_of_that_name_stay_apart(kind: str, tmp_path: Path) -> None:
    rows = [{"s.x": 1, "s": {"x": 2}}, {"s.x": 3, "s": {"x": 4}}]
    made = converted(put(tmp_path / "a.jsonl", rows), kind)
    assert list(io.read_all(made)) == ["s%2Ex", "s.x"]
    assert rows_of(made) == rows


def test_a_format_without_records_writes_tensors_and_says_so(tmp_path: Path) -> None:
    source = put(tmp_path / "a.jsonl", [{"s": {"x": 1, "y": 2}}])
    made = converted(source, "csv")
    assert made.read_text() == "s.x,s.y\n1,2\n"
    with lodcli.open(source) as file, pytest.raises(UnsupportedError, match="records: s"):
        io.write_batches(tmp_path / "c.csv", file.schema, file.batches(), strict=True)


def spec(name: str, *path: tuple[str, int], levels: int = 0) -> TensorSpec:
    fields = tuple(Field(one, level) for one, level in path)
    keys = tuple(LevelSpec(f"k{level}") for level in range(levels))
    return TensorSpec(name, np.dtype(np.int64), levels=keys, marks=Marks(fields=fields))


def test_the_tree_of_paths() -> None:
    schema = (
        spec("l.a", ("l", 0), ("a", 1), levels=1),
        spec("k"),
        spec("l.r.b", ("l", 0), ("r", 1), ("b", 2), levels=2),
    )
    assert list(map(str, tree(schema))) == ["l[]{a, r[]{b}}", "k"]


def test_the_presence_of_records_is_no_field_beside_others() -> None:
    def told(name: str) -> TensorSpec:
        fields = (Field("s", 0), Field(name, 0, present=True))
        return TensorSpec(f"s.{name}", np.dtype(np.bool_), marks=Marks(fields=fields))

    (node,) = tree((told("p"), spec("s.a", ("s", 0), ("a", 0))))
    assert (str(node), str(node.present)) == ("s{a}", "p")
    (node,) = tree((told("p"),))
    assert (str(node), node.present) == ("s{p}", None)
    with pytest.raises(
        InvalidDataError, match=r"s.p marks which records are null; so does field q"
    ):
        tree((told("p"), told("q"), spec("s.a", ("s", 0), ("a", 0))))


def test_broken_columns_are_named() -> None:
    schema = (
        spec("s.a", ("s", 0), ("a", 0)),
        spec("s.b", ("s", 0), ("b", 1), levels=1),
        spec("t.a", ("t", 0), ("a", 0)),
    )
    assert broken_columns(schema) == ("s",)


def test_renaming_records_and_fields() -> None:
    schema = (spec("s.t.x", ("s", 0), ("t", 0), ("x", 0)), spec("s.y", ("s", 0), ("y", 0)))

    def paths(**names: str) -> list[str]:
        given = {old.replace("_", "."): new for old, new in names.items()}
        return [f"{one.name}={one.marks.path}" for one in renamed(schema, given)]

    assert paths(s="r") == ["r.t.x=r.t.x", "r.y=r.y"]
    assert paths(s_t="s.u") == ["s.u.x=s.u.x", "s.y=s.y"]
    assert paths(s_y="s.z.w") == ["s.t.x=s.t.x", "s.z.w=s.z.w"]
    assert paths(s_y="alone") == ["s.t.x=s.t.x", "alone="]
    with pytest.raises(SelectionError, match=r"records s[.]t cannot be called u"):
        paths(s_t="u")


def test_a_slice_into_records_is_a_column_of_its_own() -> None:
    fields = (Field("l", 0), Field("a", 1))
    tensor = LoDTensor([1, 2, 3], [[2, 1]], Marks(fields=fields))
    assert tensor[0:1].marks.fields == fields
    assert tensor[0].marks == Marks()
