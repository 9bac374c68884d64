"""Nulls in files: kept by the formats that hold them, refused by name, or treated by --nulls."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, TensorSpec, schema_of
from lodcli.kernels.errors import InvalidDataError, LodError, OptionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls
from tests.formats.cases.kinds import KINDS, require
from tests.formats.cases.opening import tensor_in
from tests.formats.cases.tables import written_by_pyarrow
from tests.growth import lines_of

HOLDS = sorted(name for name in KINDS if table.get(name).nulls and table.get(name).null_lists)
VALUES = sorted(name for name in KINDS if table.get(name).nulls and not table.get(name).null_lists)
COLUMNS: dict[str, Any] = {
    "rows": pa.array([1, None, 3, None]),
    "lists": pa.array([[1, None], None, [], [4]]),
    "text": pa.array(["a", None, "", "Grüß"]),
    "texts": pa.array([[["x", None], None], None, [], [["y"]]]),
    "flags": pa.array([True, None, False, None]),
    "words": pa.array(["u", None, "u", "v"]).dictionary_encode(),
    "bytes": pa.array([b"x", None, b"", b"zz"]),
    "views": pa.array([[1], None, [2, 3], []], pa.list_view(pa.int8())),
    "none": pa.nulls(4),
    "whole": pa.array([1.5, 2.5, 3.5, 4.5]),
}
ROWS = pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int32(), 2))
RECORDS = pa.array([{"a": 1, "t": "x"}, None, {"a": None, "t": "y"}, {"a": 4, "t": None}])
LISTS_OF_RECORDS = pa.array([[{"a": 1, "b": "p"}, None], None, [], [{"a": None, "b": "q"}]])
MAPS = pa.array([[(1, 2)], None, [], [(3, None)]], pa.map_(pa.int8(), pa.int8()))


def write_arrow(path: Path, content: pa.Table) -> None:
    codec = "zstd" if path.stem.endswith("packed") else None
    written_by_pyarrow(path, content, 3, compression=codec)


SOURCES = ("t.parquet", "t.arrow", "packed.arrow", "t.arrows")


@pytest.fixture
def content() -> dict[str, LoDTensor]:
    return {
        "i": LoDTensor.from_lists([1, None, 3]),
        "l": LoDTensor.from_lists([[1.5, None], None, [2.5]]),
        "t": LoDTensor.from_lists([["Grüß", None], None, [""]]),
        "f": LoDTensor.from_arrow(pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2))),
        "w": LoDTensor.from_lists([[1], [], [2, 3]]),
    }


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_arrow_are_read_as_they_are(source: str, name: str, tmp_path: Path) -> None:
    write_arrow(tmp_path / source, pa.table({"x": COLUMNS[name]}))
    found = tensor_in(tmp_path / source)
    assert found.to_list() == COLUMNS[name].to_pylist()


@pytest.mark.parametrize("source", SOURCES)
def test_records_and_rows_of_several_values(source: str, tmp_path: Path) -> None:
    columns = {"f": ROWS, "r": RECORDS, "l": LISTS_OF_RECORDS, "m": MAPS}
    write_arrow(tmp_path / source, pa.table(columns))
    found = io.read_all(tmp_path / source)
    lists = {name: item.to_list() for name, item in found.items() if isinstance(item, LoDTensor)}
    assert lists == {
        "f": [[1, 2], None, [3, 4], [5, 6]],
        "r.a": [1, None, None, 4],
        "r.t": ["x", None, "y", None],
        "l.a": [[1, None], None, [], [None]],
        "l.b": [["p", None], None, [], ["q"]],
        "m.key": [[1], None, [], [3]],
        "m.value": [[2], None, [], [None]],
    }


def test_a_null_among_the_values_of_a_row_is_refused(tmp_path: Path) -> None:
    rows = pa.array([[[1, 2]], None, [[5, 6], None, [3, None]]], pa.list_(pa.list_(pa.int8(), 2)))
    write_arrow(tmp_path / "t.parquet", pa.table({"x": rows}))
    with pytest.raises(
        InvalidDataError, match="column 'x', record 2: item <2>: a value inside a row"
    ):
        io.read(tmp_path / "t.parquet")


JSON: dict[str, Any] = {
    "rows": [1, None, 3],
    "lists": [[1.5, None], None, [], [2.0]],
    "text": ["a", None, ""],
    "texts": [["a", None], None, ["b"]],
    "flags": [[True, None], None],
    "only nulls": [None, None],
}


@pytest.mark.parametrize("fields", [1, 2])
@pytest.mark.parametrize("values", JSON.values(), ids=JSON)
def test_json_has_nulls_both_ways(values: Any, fields: int, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    tensor = LoDTensor.from_lists(values)
    content = {"x": tensor, "y": LoDTensor(np.arange(len(tensor)))}
    io.write(path, dict([*content.items()][:fields]))
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["x"] if fields > 1 else line for line in lines] == values
    found = tensor_in(path, "x" if fields > 1 else None)
    assert found.to_list() == values


def test_rows_of_json_are_null_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("[[1,2],null,[3,4]]\n[null]\nnull\n")
    found = tensor_in(path, levels="a")
    assert found.to_list() == [[[1, 2], None, [3, 4]], [None], None]
    assert found.row_shape == (2,)
    path.write_text("[[1,2],[3,null]]\n")
    with pytest.raises(
        InvalidDataError, match="line 1: item <1,1>: found null, and a row of shape"
    ):
        io.read(path, levels="a")


@pytest.mark.slow
def test_a_null_behind_the_first_lines_needs_the_option(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("[1,2,3]\n" * 200_000 + "[4,null]\n")
    with pytest.raises(InvalidDataError, match=r"line 200001: item <1>: .* nulls='keep' reads it"):
        io.read(path)
    for how, last in (("keep", [4, None]), ("zero", [4, 0]), ("drop", [4])):
        found = tensor_in(path, nulls=how)
        assert found[-1:].to_list() == [last]


@pytest.mark.parametrize(
    "name", [name for name in HOLDS if table.get(name).kept_dtypes is None and name != "tfrecord"]
)
def test_nulls_come_back(name: str, content: dict[str, LoDTensor], tmp_path: Path) -> None:
    require(name)
    path = tmp_path / KINDS[name].path
    io.write(path, content, format_name=name)
    found = io.read_all(path, format_name=name)
    for one, tensor in content.items():
        assert found[one].identical(tensor), one
    with lodcli.open(path, "l", format_name=name) as file:
        assert file.slice("l", (slice(1, 3),)).to_list() == [None, [2.5]]
        assert file.slice("l", (0, slice(0, 2))).to_list() == [1.5, None]
        assert file.slice("t", (slice(1, 3),), 1).to_list() == [None, ""]
        with pytest.raises(LodError, match="the item that the branch names is null"):
            file.slice("l", (1,))


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_others_read_what_is_written(
    suffix: str, content: dict[str, LoDTensor], tmp_path: Path
) -> None:
    path = tmp_path / f"t.{suffix}"
    io.write(path, content)
    pl = pytest.importorskip("polars")
    expected = {name: tensor.to_list() for name, tensor in content.items()}
    arrow = pq.read_table(path) if suffix == "parquet" else pf.read_table(path, memory_map=False)
    arrow.validate(full=True)
    assert arrow.to_pydict() == expected
    frame = pl.read_parquet(path) if suffix == "parquet" else pl.read_ipc(path)
    assert {name: frame[name].to_list() for name in expected if name != "f"} == {
        name: values for name, values in expected.items() if name != "f"
    }
    # Where nothing is null, nothing may be.
    assert [field.name for field in arrow.schema if not field.nullable] == ["w"]


@pytest.mark.parametrize("name", sorted(set(KINDS) - set(HOLDS) - set(VALUES)))
def test_other_formats_refuse_nulls_by_name(name: str, tmp_path: Path) -> None:
    for module in KINDS[name].needs:
        pytest.importorskip(module)
    kind = table.get(name)
    values: Any = [None, 3] if not kind.min_levels else [[1, None], [3]]
    tensor = LoDTensor.from_lists(values)
    if tensor.dtype.name not in kind.dtypes or kind.row_ranks is not None:
        pytest.skip("holds no such numbers anyway")
    with pytest.raises(LodError, match=r"row <.*> is null; .* has no nulls: nulls=|holds|take"):
        io.write(tmp_path / KINDS[name].path, {"data": tensor}, format_name=name)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", VALUES)
def test_formats_of_null_values_refuse_null_lists_by_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / KINDS[name].path
    tensors = {"n": LoDTensor.from_lists([1, None, 3]), "t": LoDTensor.from_lists(["", None, "a"])}
    io.write(path, {**tensors, "m": LoDTensor(np.arange(3))}, format_name=name)
    found = io.read_all(path, format_name=name, nulls="keep")
    assert all(found[key].identical(tensor) for key, tensor in tensors.items())
    for values in ([["a"], None], [[1], None]):
        target = tmp_path / f"refused.{name}"
        with pytest.raises(UnsupportedError, match=f"null; for lists {name} has no nulls"):
            io.write(target, LoDTensor.from_lists(values), format_name=name)
        assert not target.exists()


def late(batches: int) -> tuple[tuple[TensorSpec, ...], Iterator[Batch]]:
    """Return batches of which only the last has nulls."""
    whole = LoDTensor.from_lists([[1, 2, 3], [], [4]])
    last = LoDTensor.from_lists([[5, None], None])
    (spec,) = schema_of({"data": last})
    levels = (spec.levels[0].__class__("0", None, None),)
    spec = TensorSpec("data", spec.dtype, (), levels, None, nullable=True)
    return (spec,), iter([{"data": whole}] * batches + [{"data": last}])


@pytest.mark.parametrize("compression", [None, "deflate"])
@pytest.mark.parametrize("path", ["t.lod.h5", "t.lods", "t.parquet"])
@pytest.mark.parametrize("batches", [0, 1, 3, 5000])
def test_a_first_null_may_come_late(
    path: str, batches: int, compression: str | None, tmp_path: Path
) -> None:
    if compression and path == "t.lods":
        return
    schema, parts = late(batches)
    options = WriteOptions(compression=compression)
    io.write_batches(tmp_path / path, schema, parts, options=options)
    found = tensor_in(tmp_path / path)
    assert found.to_list() == [[1, 2, 3], [], [4]] * batches + [[5, None], None]


def test_version_1_is_written_where_nothing_is_null(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [[1, 2], [3]]}), tmp_path / "t.parquet")
    with lodcli.open(tmp_path / "t.parquet") as source:
        assert source.schema[0].nullable  # the file does not say that there are none
        io.write_batches(tmp_path / "t.lod.h5", source.schema, source.batches())
    assert b'"version":1' in (tmp_path / "t.lod.h5").read_bytes()
    with lodcli.open(tmp_path / "t.lod.h5") as source:
        assert not source.schema[0].nullable
        io.write_batches(tmp_path / "t.lods", source.schema, source.batches())
    assert (tmp_path / "t.lods").read_bytes()[7] == 1


def test_statistics_of_parquet_say_that_a_column_has_no_nulls(tmp_path: Path) -> None:
    columns = {"n": [1, 2], "m": [1, None], "t": ["a", "b"], "f": [1.5, None]}
    for told in (True, False):
        pq.write_table(pa.table(columns), tmp_path / "t.parquet", write_statistics=told)
        with lodcli.open(tmp_path / "t.parquet") as source:
            found = {spec.name: spec.nullable for spec in source.schema}
        assert found == {"n": not told, "m": True, "t": not told, "f": True}


def test_nulls_that_were_not_announced_are_refused(tmp_path: Path) -> None:
    schema, parts = late(0)
    spec = TensorSpec("data", schema[0].dtype, (), schema[0].levels)
    with pytest.raises(InvalidDataError, match="expected no nulls as in the schema, found nulls"):
        io.write_batches(tmp_path / "t.lod.h5", (spec,), parts)


TREATED: dict[str, tuple[Any, Any]] = {
    "keep": ([1.0, None, 3.0], [[1.0, None], None, [2.0]]),
    "zero": ([1.0, 0.0, 3.0], [[1.0, 0.0], [], [2.0]]),
    "fill=-1.5": ([1.0, -1.5, 3.0], [[1.0, -1.5], [], [2.0]]),
    "drop": ([1.0, 3.0], [[1.0], [2.0]]),
}


@pytest.mark.parametrize("path", ["t.lod.h5", "t.lods", "t.parquet", "t.arrow"])
@pytest.mark.parametrize("how", TREATED)
def test_nulls_are_treated_alike_in_every_format(how: str, path: str, tmp_path: Path) -> None:
    numbers, lists = TREATED["keep"]
    content = {"n": LoDTensor.from_lists(numbers), "l": LoDTensor.from_lists(lists)}
    io.write(tmp_path / path, content)
    for name, expected in zip(content, TREATED[how], strict=True):
        found = tensor_in(tmp_path / path, name, nulls=how)
        assert found.to_list() == expected
    found = tensor_in(tmp_path / path, "n", nulls="nan")
    np.testing.assert_array_equal(found.data, [1.0, np.nan, 3.0])
    with pytest.raises(UnsupportedError, match="l: row <0,1> is null, and no row is empty"):
        io.read(tmp_path / path, "l", nulls="empty")
    with pytest.raises(UnsupportedError, match="n: row <1> is null; nulls='error' has no nulls"):
        io.read(tmp_path / path, "n", nulls="error")


def test_categories_have_no_zero(tmp_path: Path) -> None:
    """No word stands for nothing, and the first of several files differ."""
    words = LoDTensor.from_lists([0, 1, None, 1]).as_categories(["no", "yes"])
    lists = LoDTensor.from_lists([[0], None, [], [1]]).as_categories(["no", "yes"])
    path = tmp_path / "c.lod.h5"
    io.write(path, {"c": words, "l": lists})
    expected = "row <2> is null, and categories have no zero; use nulls='keep', 'drop' or 'fill=X'"
    with pytest.raises(UnsupportedError, match=f"c: {expected}"):
        io.read(path, "c", nulls="zero")
    with pytest.raises(UnsupportedError, match=f"c: {expected.replace('zero', 'nan')}"):
        io.read(path, "c", nulls="nan")
    others = "use nulls='keep', 'drop' or 'fill=X'"
    with pytest.raises(
        UnsupportedError, match=f"c: row <2> is null, and no row is empty; {others}"
    ):
        io.read(path, "c", nulls="empty")
    assert tensor_in(path, "c", nulls="fill=yes").to_list() == ["no", "yes", "yes", "yes"]
    assert tensor_in(path, "l", nulls="zero").to_list() == [["no"], [], [], ["yes"]]


def test_nulls_of_many_tensors_are_dropped_in_linear_work(tmp_path: Path) -> None:
    def read(count: int) -> int:
        path = tmp_path / f"{count}.lod.h5"
        nulls = Nulls.of([None, np.array([True, False, True])])
        each = (LoDTensor(np.arange(3.0), [[2, 1]], nulls=nulls) for _ in range(count))
        lodcli.write(path, {f"x{n}": tensor for n, tensor in enumerate(each)})
        with lodcli.open(path, nulls="drop") as file:
            return lines_of(lambda: [list(batch) for batch in file.batches()])

    read(10)  # imports what it needs
    few, more, most = map(read, (50, 100, 200))
    assert most - more < 2.05 * (more - few)


def test_records_drop_together(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"a": [1, None, 3, 4], "b": [[1], [2], None, [4, None]]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = io.read_all(tmp_path / "t.parquet", nulls="drop")
    lists = {name: item.to_list() for name, item in found.items() if isinstance(item, LoDTensor)}
    whole = pa.table(columns).drop_null()["a"].to_pylist()
    assert lists == {"a": whole, "b": [[1], [4]]}
    # Tensors that come in one batch are no records, even with equally many items.
    others: list[list[Any]] = [[[1], [2], [], [4]], [1, 2]]
    for other in others:
        content = {"a": LoDTensor.from_lists(columns["a"]), "b": LoDTensor.from_lists(other)}
        for path in (tmp_path / "t.lod.h5", tmp_path / "t.lods", tmp_path / "t.npz"):
            io.write(path, content, overwrite=True)
            with pytest.raises(UnsupportedError, match="a: row <1> is null, and b may have the"):
                io.read_all(path, nulls="drop")


def test_sequences_that_others_share_are_not_cut(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"l": LISTS_OF_RECORDS.filter([True, False, True, True])}), tmp_path / "t.parquet"
    )
    with pytest.raises(UnsupportedError, match=r"l\.a: row <0,1> is null, and l\.b has the same"):
        io.read_all(tmp_path / "t.parquet", nulls="drop")
    found = tensor_in(tmp_path / "t.parquet", "l.a", nulls="drop")
    assert found.to_list() == [[1], [], []]


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("mask", OptionError, "nulls: expected keep, empty, zero, nan, drop, error, fill=X"),
        ("fill=", OptionError, "nulls: expected keep"),
        ("fill=abc", OptionError, "nulls: fill=abc: expected a number"),
        ("nan", InvalidDataError, "data: no int64 is nan"),
        ("fill=0.5", InvalidDataError, "data: no int64 is 0.5"),
    ],
)
def test_impossible_treatments(how: str, error: Any, message: str, tmp_path: Path) -> None:
    io.write(tmp_path / "t.lods", LoDTensor.from_lists([1, None]))
    with pytest.raises(error, match=message):
        io.read(tmp_path / "t.lods", nulls=how)


def test_a_large_mask_is_read_in_parts(tmp_path: Path) -> None:
    """Slices of masks, at every offset of a byte."""
    generator = np.random.default_rng(1)
    rows = pa.array(generator.integers(0, 9, 5000), mask=generator.random(5000) < 0.3)
    lod = LoD.from_lengths([generator.multinomial(5000, np.full(700, 1 / 700))])
    flat = LoDTensor.from_arrow(rows)
    tensor = LoDTensor(flat.values, lod, nulls=type(flat.nulls).of([None, flat.nulls.rows]))
    io.write(tmp_path / "t.lod.h5", tensor)
    with lodcli.open(tmp_path / "t.lod.h5") as source:
        for start in range(0, 700, 61):
            found = source.slice("data", (slice(start, start + 13),))
            assert found.identical(tensor[start : start + 13])
        batches = [batch["data"] for batch in source.batches(limit_bytes=999)]
    assert len(batches) > 20
    parts = [item for item in batches if isinstance(item, LoDTensor)]
    assert LoDTensor.concatenate(parts).identical(tensor)
