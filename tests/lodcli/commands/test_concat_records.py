"""`lod concat`, and patterns of files, of records of which some files have no null ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lodcli.conftest import Lod, read_jsonl
from tests.slow import slow

INNER = pa.struct([("q", pa.int64()), ("t", pa.string())])
RECORD = pa.struct([("n", pa.int64()), ("ids", pa.list_(pa.int64())), ("in", INNER)])


def record(rng: np.random.Generator, *, nulls: bool) -> dict[str, Any] | None:
    """Return a record; with `nulls` it, a field, or all of its fields may be null."""
    if nulls and rng.random() < 0.2:
        return None
    if nulls and rng.random() < 0.2:
        return {"n": None, "ids": None, "in": None}
    inner = {"q": int(rng.integers(9)), "t": "é" * int(rng.integers(3))}
    if nulls and rng.random() < 0.5:
        inner = {"q": None, "t": None}
    ids = rng.integers(9, size=int(rng.integers(3))).tolist()
    return {"n": int(rng.integers(9)), "ids": ids, "in": inner}


def rows(rng: np.random.Generator, count: int, *, nulls: bool) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "s": record(rng, nulls=nulls),
            "turns": [record(rng, nulls=nulls) for _ in range(rng.integers(3))],
        }
        for n in range(count)
    ]


def written(path: Path | str, records: list[dict[str, Any]], *, optional: bool) -> None:
    """Write a Parquet file whose records are declared as null, or as never null."""
    fields = [
        pa.field("id", pa.int64()),
        pa.field("s", RECORD, nullable=optional),
        pa.field("turns", pa.list_(pa.field("item", RECORD, nullable=optional))),
    ]
    pq.write_table(pa.Table.from_pylist(records, schema=pa.schema(fields)), path)


def parts(rng: np.random.Generator, lod: Lod, suffix: str) -> list[dict[str, Any]]:
    """Write p0, p1 and p2, some with null records, and return all records."""
    found = []
    for number in range(3):
        nulls = bool(rng.integers(2))
        whole = {"n": 1, "ids": [2], "in": {"q": 3, "t": "x"}}  # has all fields, for jsonl
        some = [{"id": 9, "s": whole, "turns": [whole]}]
        some += rows(rng, int(rng.integers(1, 6)), nulls=nulls)
        written(f"p{number}.parquet", some, optional=nulls or bool(rng.integers(2)))
        if suffix != "parquet":
            assert lod("convert", "-q", f"p{number}.parquet", f"p{number}.{suffix}").code == 0
        found += some
    return found


@pytest.mark.parametrize("seed", [0, 1, 2, *map(slow, range(3, 30))])
@pytest.mark.parametrize("suffix", ["parquet", "arrow", "jsonl", "lod.h5", "lods"])
def test_null_records_of_some_files_stay_null(
    lod: Lod, folder: Path, suffix: str, seed: int
) -> None:
    wanted = parts(np.random.default_rng(seed), lod, suffix)
    names = [f"p{number}.{suffix}" for number in range(3)]
    assert lod("concat", *names, "-qo", "whole.parquet").clean
    assert pq.read_table("whole.parquet").to_pylist() == wanted
    assert lod("convert", f"p?.{suffix}", "-qo", "again.jsonl").clean
    assert read_jsonl("again.jsonl") == wanted
    # Only some tensors, and only some items.
    assert lod("convert", f"p?.{suffix}::turns.in", "-qo", "inner.jsonl").code == 0
    assert lod("filter", f"p?.{suffix}", "s.n > 4", "-qo", "some.jsonl").clean
    known = [one for one in wanted if one["s"] is not None and one["s"]["n"] is not None]
    assert read_jsonl("some.jsonl") == [one for one in known if one["s"]["n"] > 4]


def test_files_of_several_formats_keep_null_records(lod: Lod, folder: Path) -> None:
    written("a.parquet", [{"id": 0, "s": None, "turns": [None]}], optional=True)
    whole = {"n": 1, "ids": [2], "in": {"q": 3, "t": "x"}}
    written("b.parquet", [{"id": 1, "s": whole, "turns": [whole]}], optional=False)
    hollow = {"n": None, "ids": None, "in": None}
    written("c.parquet", [{"id": 2, "s": hollow, "turns": [hollow]}], optional=True)
    for name in ("b.lod.h5", "c.lods"):
        assert lod("convert", "-q", f"{name[0]}.parquet", name).code == 0
    assert lod("concat", "a.parquet", "b.lod.h5", "c.lods", "-qo", "whole.jsonl").clean
    assert read_jsonl("whole.jsonl") == [
        {"id": 0, "s": None, "turns": [None]},
        {"id": 1, "s": whole, "turns": [whole]},
        {"id": 2, "s": hollow, "turns": [hollow]},
    ]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "lod.h5", "lods"])
@pytest.mark.parametrize("order", ["bc", "cb"])
def test_chosen_records_and_fields_of_files_with_other_nulls(
    lod: Lod, folder: Path, suffix: str, order: str
) -> None:
    whole: dict[str, Any] = {"n": 1, "ids": [2], "in": {"q": 3, "t": "x"}}
    hollow: dict[str, Any] = {"n": None, "ids": None, "in": None}
    known: dict[str, list[dict[str, Any] | None]] = {"b": [whole], "c": [hollow, None, whole]}
    for name, records in known.items():
        items = [{"id": 0, "s": one, "turns": [whole]} for one in records]
        written(f"{name}.parquet", items, optional=name == "c")
        if suffix != "parquet":
            assert lod("convert", "-q", f"{name}.parquet", f"{name}.{suffix}").code == 0
    wanted = [one for name in order for one in known[name]]
    for chosen, values in (
        ("s", [{"s": one} for one in wanted]),
        ("s.n", [{"s": one and (one["n"] and {"n": 1})} for one in wanted]),
        ("s.in", [{"s": one and (one["in"] and {"in": one["in"]})} for one in wanted]),
    ):
        names = [f"{name}.{suffix}::{chosen}" for name in order]
        assert lod("concat", *names, "-fqo", "whole.parquet").clean
        assert pq.read_table("whole.parquet").to_pylist() == values
        assert lod("concat", *names, "-fqo", "whole.jsonl").code == 0
        assert read_jsonl("whole.jsonl") == values


def test_an_error_lists_only_tensors_that_the_files_have(lod: Lod, folder: Path) -> None:
    for name, field, optional in (("a", "v", False), ("b", "w", True)):
        record = pa.struct([(field, pa.int64())])
        schema = pa.schema([pa.field("s", record, optional), pa.field("k", pa.int64())])
        pq.write_table(pa.Table.from_pylist([{"s": {field: 1}, "k": 2}], schema), f"{name}.parquet")
    said = "b.parquet: does not fit a.parquet: it holds the tensors s.w, not s.v; "
    said += "--nulls keep reads tensors that some files lack as nulls\n"
    done = lod("concat", "a.parquet", "b.parquet", "-o", "o.jsonl")
    assert (done.code, done.stderr) == (1, f"lod concat: {said}")
    done = lod("convert", "?.parquet", "-o", "o.jsonl")
    assert (done.code, said in done.stderr) == (1, True)


@pytest.mark.parametrize("suffix", ["parquet", "lod.h5", "lods"])
@pytest.mark.parametrize("first", [0, 1])
def test_records_of_files_in_another_order_of_which_one_tells_null_ones(
    lod: Lod, folder: Path, suffix: str, first: int
) -> None:
    hollow = {"s": {"a": None, "c": None}, "x": 2}
    items: list[list[dict[str, Any]]] = [
        [{"s": {"a": 1, "c": 1}, "x": 1}, hollow, {"s": None, "x": 3}],
        [{"x": 4, "s": {"a": 1, "c": 2}}, {"x": 5, "s": None}],
    ]
    for number in (0, 1):
        lines = [json.dumps(one) + "\n" for one in items[number]]
        Path("in.jsonl").write_text("".join(lines))
        out = f"{(number + first) % 2}.{suffix}"
        assert lod("convert", "in.jsonl", "--nulls", "keep", "-qo", out).code == 0
    wanted = items[first] + items[1 - first]
    chosen = [{"s": one["s"]} for one in wanted]
    for line, expected in (
        (("concat", f"0.{suffix}", f"1.{suffix}"), wanted),
        (("convert", f"?.{suffix}"), wanted),
        (("filter", f"?.{suffix}", "x > 1"), [one for one in wanted if one["x"] > 1]),
        (("sort", f"?.{suffix}", "--by", "-x"), sorted(wanted, key=lambda one: -one["x"])),
        (("concat", f"0.{suffix}::s", f"1.{suffix}::s"), chosen),
    ):
        assert lod(*line, "-fqo", "whole.jsonl").clean
        found = read_jsonl("whole.jsonl")
        assert found == expected
        assert len({tuple(one) for one in found}) == 1
