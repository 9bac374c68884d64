"""`lod merge` of fields of the same records from several files."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import cycle, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.structs.tree import broken_columns
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Field, Marks
from lodcli.kernels.tensor.nulls import Nulls
from tests.lodcli.conftest import Lod, read_jsonl

VALID = np.array([True, False])


def inside(values: Any, *path: Field, valid: Any = None) -> LoDTensor:
    """Return a tensor in records."""
    found = LoDTensor.from_lists(values)
    nulls = Nulls.of([*([None] * found.lod.n_levels), valid])
    return LoDTensor(found.values, found.lod, Marks(fields=path), nulls)


REQUIRED, OPTIONAL = Field("a", 0, required=True), Field("a", 0)
INNER = Field("b", 0)
FILES = {
    "required": {"a.x": inside([1, 2], REQUIRED, Field("x", 0))},
    "whole": {"a.y": inside([3, 4], OPTIONAL, Field("y", 0))},
    "null": {"a.z": inside([5, 6], OPTIONAL, Field("z", 0), valid=VALID)},
    "told": {
        "a.t": inside([7, 8], OPTIONAL, Field("t", 0), valid=VALID),
        "a.p": inside([True, False], OPTIONAL, Field("p", 0, present=True)),
    },
    "inner": {"a.b.u": inside([9, 10], OPTIONAL, INNER, Field("u", 0), valid=VALID)},
    "required inner": {
        "a.b.v": inside([11, 12], REQUIRED, Field("b", 0, required=True), Field("v", 0))
    },
}
FIELDS: dict[str, list[Any]] = {
    "required": [{"x": 1}, {"x": 2}],
    "whole": [{"y": 3}, {"y": 4}],
    "null": [{"z": 5}, {"z": None}],
    "told": [{"t": 7}, {"t": None}],
    "inner": [{"b": {"u": 9}}, {"b": None}],
    "required inner": [{"b": {"v": 11}}, {"b": {"v": 12}}],
}


@pytest.mark.parametrize(
    "names",
    [
        *permutations(["required", "whole"]),
        *permutations(["required", "null"]),
        *permutations(["required", "told"]),
        *permutations(["whole", "told"]),
        *permutations(["required", "inner"]),
        *permutations(["null", "required inner"]),
        ("null", "told", "whole", "required"),
    ],
)
@pytest.mark.parametrize("ending", ["lod.h5", "lods"])
def test_records_that_one_file_always_has_are_required(
    lod: Lod, folder: object, names: tuple[str, ...], ending: str
) -> None:
    paths = []
    for name in names:
        paths.append(f"{name.replace(' ', '_')}.{ending}")
        io.write(paths[-1], dict(FILES[name]))
    assert lod("merge", *paths, "-o", "out.lod.h5").clean
    with lodcli.open("out.lod.h5") as source:
        assert not broken_columns(source.schema)
        assert all(spec.marks.fields[0].required for spec in source.schema)
    assert lod("convert", "-q", "out.lod.h5", "out.jsonl").code == 0
    found = [one["a"] for one in read_jsonl("out.jsonl")]
    fields = zip(*(FIELDS[name] for name in names), strict=True)
    assert found == [{k: v for part in parts for k, v in part.items()} for parts in fields]


def test_inner_records_are_null_where_no_file_has_them(lod: Lod, folder: object) -> None:
    io.write("inner.lod.h5", dict(FILES["inner"]))
    io.write("required.lod.h5", dict(FILES["required inner"]))
    assert lod("merge", "inner.lod.h5", "required.lod.h5", "-o", "out.lod.h5").code == 0
    assert lod("convert", "-q", "out.lod.h5", "out.jsonl").code == 0
    assert read_jsonl("out.jsonl") == [
        {"a": {"b": {"u": 9, "v": 11}}},
        {"a": {"b": {"u": None, "v": 12}}},
    ]


def test_lists_of_records_are_merged(lod: Lod, folder: object) -> None:
    rows: list[Any] = [[1, 2], []]
    for name, required in (("x", True), ("y", False)):
        path = Field("a", 0, required=required), Field(name, 1)
        io.write(f"{name}.lod.h5", {f"a.{name}": inside(rows, *path)})
    assert lod("merge", "x.lod.h5", "y.lod.h5", "-o", "out.jsonl").clean
    assert read_jsonl("out.jsonl") == [{"a": [{"x": 1, "y": 1}, {"x": 2, "y": 2}]}, {"a": []}]


def test_records_that_each_file_may_lack_stay_optional(lod: Lod, folder: object) -> None:
    io.write("null.lod.h5", dict(FILES["null"]))
    io.write("more.lod.h5", {"a.w": inside([7, 8], OPTIONAL, Field("w", 0), valid=VALID)})
    assert lod("merge", "null.lod.h5", "more.lod.h5", "-o", "out.jsonl").clean
    assert read_jsonl("out.jsonl") == [{"a": {"z": 5, "w": 7}}, {"a": None}]


@pytest.mark.parametrize("sources", [*permutations(["required.lod.h5", "told.lod.h5::a.p"])])
def test_the_presence_of_records_alone_is_a_column(
    lod: Lod, folder: object, sources: tuple[str, ...]
) -> None:
    for name in ("required", "told"):
        io.write(f"{name}.lod.h5", dict(FILES[name]))
    assert lod("merge", *sources, "-o", "out.jsonl").code == 0
    assert read_jsonl("out.jsonl") == [{"a.x": 1, "a.p": True}, {"a.x": 2, "a.p": False}]


def test_records_are_null_where_all_files_have_null(lod: Lod, folder: object) -> None:
    lines = {
        "told": '{"a":null}\n{"a":{"x":null}}\n{"a":null}\n{"a":{"x":1}}\n',
        "also": '{"a":null}\n{"a":null}\n{"a":{"y":null}}\n{"a":{"y":2}}\n',
        "null": '{"a":null}\n{"a":{"z":3}}\n{"a":{"z":4}}\n{"a":null}\n',
    }
    fields: dict[str, list[Any]] = {
        "told": [None, {"x": None}, None, {"x": 1}],
        "also": [None, None, {"y": None}, {"y": 2}],
        "null": [None, {"z": 3}, {"z": 4}, None],
    }
    for name, text in lines.items():
        Path(f"{name}.jsonl").write_text(text)
        assert lod("convert", "-q", f"{name}.jsonl", f"{name}.lods").code == 0
        assert lod("convert", "-q", f"{name}.jsonl", f"{name}.lod.h5").code == 0
    orders = [*permutations(lines, 2), *permutations(lines, 3)]
    for names, ending in zip(orders, cycle(["jsonl", "lod.h5", "lods"]), strict=False):
        keys = [key for name in names for key in fields[name][-1] or {"z": None}]
        expected = [
            {"a": dict.fromkeys(keys) | {k: v for one in parts for k, v in (one or {}).items()}}
            if any(one is not None for one in parts)
            else {"a": None}
            for parts in zip(*(fields[name] for name in names), strict=True)
        ]
        assert lod("merge", *(f"{name}.{ending}" for name in names), "-o", "out.jsonl", "-f").clean
        assert read_jsonl("out.jsonl") == expected


def test_lists_of_records_are_null_where_all_files_have_null(lod: Lod, folder: object) -> None:
    Path("x.jsonl").write_text('{"a":[null,{"x":null},{"x":1}]}\n{"a":null}\n{"a":[]}\n')
    Path("y.jsonl").write_text('{"a":[{"y":2},null,{"y":null}]}\n{"a":null}\n{"a":[]}\n')
    assert lod("merge", "x.jsonl", "y.jsonl", "-o", "out.jsonl").code == 0
    assert read_jsonl("out.jsonl") == [
        {"a": [{"x": None, "y": 2}, {"x": None, "y": None}, {"x": 1, "y": None}]},
        {"a": None},
        {"a": []},
    ]


@pytest.mark.parametrize("names", [*permutations("xy"), ("id", "x", "y")])
@pytest.mark.parametrize("ending", ["lod.h5", "jsonl"])
def test_lists_are_null_where_all_files_have_null(
    lod: Lod, folder: object, names: tuple[str, ...], ending: str
) -> None:
    Path("x.jsonl").write_text('{"a":[{"x":[1]}]}\n{"a":null}\n{"a":null}\n')
    Path("y.jsonl").write_text('{"a":[{"y":2}]}\n{"a":null}\n{"a":[]}\n')
    Path("id.jsonl").write_text('{"id":1}\n{"id":2}\n{"id":3}\n')
    files = [f"{name}.jsonl" for name in names]
    assert lod("merge", *files, "-o", f"out.{ending}").code == 0
    assert lod("convert", f"out.{ending}", "again.jsonl").clean
    found = [one["a"] for one in read_jsonl("again.jsonl")]
    assert found == [[{"x": [1], "y": 2}], None, []]


def test_lists_that_differ_are_an_error_in_any_order(lod: Lod, folder: object) -> None:
    Path("x.jsonl").write_text('{"a":[{"x":1}]}\n')
    Path("y.jsonl").write_text('{"a":[{"y":2},{"y":3}]}\n')
    Path("id.jsonl").write_text('{"id":1}\n')
    for files in permutations(["x.jsonl", "y.jsonl", "id.jsonl"]):
        done = lod("merge", *files, "-o", "out.lod.h5")
        assert done.code == 1
        assert "level 0, item 0 has length" in done.stderr


def test_null_records_of_lists_that_differ_are_not_combined(lod: Lod, folder: object) -> None:
    Path("x.jsonl").write_text('{"a":[null,{"x":null}]}\n{"a":[{"x":1}]}\n')
    Path("y.jsonl").write_text('{"a":[null]}\n{"a":[{"y":null},{"y":1}]}\n')
    done = lod("merge", "x.jsonl", "y.jsonl", "-o", "out.jsonl")
    assert done.code == 1
    assert done.stderr == (
        "lod merge: y.jsonl: a.y does not have the index of a.x in x.jsonl: "
        "level 0, item 0 has length 1 against 2\n"
    )


def united(parts: Sequence[Any], shape: dict[str, Any]) -> Any:
    """Return a record with the fields of all parts; null if all are."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    found = {}
    for name, inner in shape.items():
        values = [part[name] for part in known if name in part]
        found[name] = united(values, inner) if inner else next(iter(values), None)
    return found


def check_merged(lod: Lod, files: Sequence[Sequence[Any]], *, lists: bool = False) -> None:
    """Merge files in both orders, and compare with records made by plain dicts.

    Args:
        files: of each file the records; the last has all fields, and no nulls.
    """
    for number, records in enumerate(files):
        column = [records[:2], [], records[2:]] if lists else records
        lines = (json.dumps({"a": one}) + "\n" for one in column)
        Path(f"{number}.jsonl").write_text("".join(lines))
    shape = fields([records[-1] for records in files])
    rows = [united(parts, shape) for parts in zip(*files, strict=True)]
    paths = [f"{number}.jsonl" for number in range(len(files))]
    for order in (paths, paths[::-1]):
        assert lod("merge", *order, "-o", "out.jsonl", "-f").clean
        expected = [rows[:2], [], rows[2:]] if lists else rows
        assert read_jsonl("out.jsonl") == [{"a": one} for one in expected]


def fields(records: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of several records and of those in them."""
    inside = [one for one in records if isinstance(one, dict)]
    names = dict.fromkeys(name for one in inside for name in one)
    return {name: fields([one[name] for one in inside if name in one]) for name in names}


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (
            [{"b": None}, {"b": {"x": None}}, {"b": {"x": 1}}],
            [{"b": {"y": None}}, None, {"b": {"y": 1}}],
        ),
        (
            [{"b": {"x": None}}, {"b": {"x": None}}, {"b": {"x": 1}}],
            [{"b": None}, None, {"b": {"y": 1}}],
        ),
        (
            [{"b": {"x": None}}, None, {"b": {"x": 1}}],
            [{"b": {"y": 0}}, {"b": None}, {"b": {"y": 1}}],
        ),
        (
            [{"b": {"c": {"x": None}}, "x": 6}, {"b": {"c": {"x": 1}}, "x": 1}],
            [{"b": None}, {"b": {"y": 6}}],
        ),
        (
            [{"x": 6}, {"x": 6}, {"x": 1}],
            [None, {"b": {"y": None}, "z": 4}, {"b": {"y": 1}, "z": 1}],
        ),
        ([{"x": None}, None, {"x": 1}], [None, None, {"present": 7}]),
        ([{"x": None}, None, {"x": 1}], [None, None, {"present": {"y": 7}}]),
    ],
)
def test_each_of_nested_records_is_null_where_all_files_have_null(
    lod: Lod, folder: object, x: list[Any], y: list[Any]
) -> None:
    check_merged(lod, [x, y])
    check_merged(lod, [x, y], lists=True)


def record(draw: random.Random, shape: dict[str, Any], null: float, none: float) -> Any:
    """Return a random record; `null` and `none` are how often records and values are null."""
    if draw.random() < null:
        return None
    return {
        name: record(draw, inner, null, none)
        if inner
        else None
        if draw.random() < none
        else draw.randrange(9)
        for name, inner in shape.items()
    }


@pytest.mark.parametrize("seed", range(12))
def test_random_nested_records_are_merged_like_dicts(lod: Lod, folder: object, seed: int) -> None:
    draw = random.Random(seed)
    files = []
    count = draw.randrange(1, 5)
    for name in ("x", "present", "z")[: draw.choice([2, 2, 3])]:
        own: dict[str, Any] = {name: {}}
        shapes: list[dict[str, Any]] = [
            own,
            {"b": own},
            {"b": own, f"{name}_": {}},
            {"b": {"c": own}, f"{name}_": {}},
            {"b": {"c": own, f"{name}_": {}}},
        ]
        shape = draw.choice(shapes)
        null, none = draw.choice([0, 0.3, 0.5]), draw.choice([0, 0.5, 0.5, 1])
        records = [record(draw, shape, null, none) for _ in range(count)]
        files.append([*records, record(draw, shape, 0, 0)])
    check_merged(lod, files, lists=draw.random() < 0.3)
