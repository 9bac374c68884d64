"""arrow, arrow-stream, parquet: how each Arrow type is read, and nulls."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.tensor.exchange.arrow import NAMES_KEY
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Times
from tests.formats.cases.opening import content, nested, refused, tensor_in
from tests.formats.cases.tables import NESTED, SUFFIXES, column, written_by_pyarrow

# -- Arrow's types -------------------------------------------------------------------


@SUFFIXES
@pytest.mark.parametrize(
    "kind",
    [
        lambda item: pa.list_(pa.list_(item)),
        lambda item: pa.large_list(pa.list_(item)),
        lambda item: pa.list_(pa.large_list(item)),
    ],
)
def test_every_kind_of_list_is_a_level(
    suffix: str, kind: Callable[[Any], Any], tmp_path: Path
) -> None:
    table = pa.table({"x": pa.array(NESTED, kind(pa.int16()))})
    found = column(written_by_pyarrow(tmp_path / f"t{suffix}", table))
    assert nested(found) == NESTED
    assert found.dtype == np.int16


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
def test_list_views_out_of_order_are_put_in_order(
    kind: Callable[[Any], Any], tmp_path: Path
) -> None:
    small = pa.int64() if kind is pa.large_list_view else pa.int32()
    offsets, sizes = pa.array([4, 0, 2, 0], small), pa.array([1, 2, 0, 3], small)
    making = pa.LargeListViewArray if kind is pa.large_list_view else pa.ListViewArray
    array = making.from_arrays(offsets, sizes, pa.array([10, 11, 12, 13, 14]))
    path = written_by_pyarrow(tmp_path / "t.arrow", pa.table({"x": array}), records=3)
    assert nested(column(path)) == array.to_pylist() == [[14], [10, 11], [], [10, 11, 12]]


@SUFFIXES
def test_sliced_and_chunked_arrays_are_rebased(suffix: str, tmp_path: Path) -> None:
    whole = pa.array(NESTED)
    text = pa.array(["ab", "", "größe", "c"])
    chunks = pa.chunked_array([whole.slice(1, 2), whole.slice(0, 0), whole.slice(3)])
    texts = pa.chunked_array([text.slice(2), text.slice(1, 1)])
    path = written_by_pyarrow(tmp_path / f"t{suffix}", pa.table({"x": chunks, "t": texts}), 9)
    assert nested(column(path)) == NESTED[1:]
    found = column(path, "t")
    assert found.recursive_sequence_lengths() == [[7, 1, 0]]
    assert found.data.tobytes().decode() == "größec"


@SUFFIXES
@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary"])
def test_text_and_binary_are_levels_of_bytes(suffix: str, kind: str, tmp_path: Path) -> None:
    array = pa.array([["ab", ""], [], ["cde"]], pa.list_(getattr(pa, kind)()))
    found = column(written_by_pyarrow(tmp_path / f"t{suffix}", pa.table({"x": array})))
    assert found.recursive_sequence_lengths() == [[2, 0, 1], [2, 0, 3]]
    assert found.data.tobytes() == b"abcde"


@pytest.mark.parametrize("kind", ["string_view", "binary_view"])
def test_views_of_text_are_text(kind: str, tmp_path: Path) -> None:
    array = pa.array(["a", "a text that is longer than twelve", ""], getattr(pa, kind)())
    found = column(written_by_pyarrow(tmp_path / "t.arrow", pa.table({"x": array})))
    assert found.recursive_sequence_lengths() == [[1, 33, 0]]


@SUFFIXES
def test_lists_of_a_fixed_size_are_the_shape_of_a_row_or_a_level(
    suffix: str, tmp_path: Path
) -> None:
    pairs = pa.list_(pa.list_(pa.float32(), 2), 3)
    rows = pa.array([[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 0], [1, 2]]], pairs)
    above = pa.array([[[1], []], [[2, 3], [4]]], pa.list_(pa.list_(pa.int8()), 2))
    raw = pa.array([b"abc", b"def"], pa.binary(3))
    table = pa.table({"x": rows, "above": above, "raw": raw})
    found = content(written_by_pyarrow(tmp_path / f"t{suffix}", table.slice(0), 1))
    assert found["x"].data.shape == (2, 3, 2)
    assert found["x"].data.tolist() == rows.to_pylist()
    assert found["above"].recursive_sequence_lengths() == [[2, 2], [1, 0, 2, 1]]
    assert found["raw"].data.tobytes() == b"abcdef"
    assert found["raw"].data.shape == (2, 3)


@pytest.mark.parametrize("permutation", [None, [0, 1, 2], [1, 0, 2], [0, 2, 1]])
def test_fixed_shape_tensors_are_rows(permutation: list[int] | None, tmp_path: Path) -> None:
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=permutation)
    storage = pa.array(np.arange(72).reshape(3, 24).tolist(), pa.list_(pa.int32(), 24))
    array = pa.ExtensionArray.from_storage(kind, storage)
    path = written_by_pyarrow(tmp_path / "t.arrow", pa.table({"x": array}))
    np.testing.assert_array_equal(column(path).data, array.to_numpy_ndarray())
    lists = pa.ListArray.from_arrays([0, 2, 3], array)
    path = written_by_pyarrow(tmp_path / "u.arrow", pa.table({"x": lists}))
    found = column(path)
    np.testing.assert_array_equal(found.data, array.to_numpy_ndarray())
    assert found.recursive_sequence_lengths() == [[2, 1]]


def _tensors(kind: pa.DataType, shape: list[int], values: list[Any]) -> pa.Table:
    storage = pa.FixedSizeListArray.from_arrays(pa.array(values, kind), len(values))
    tensors = pa.fixed_shape_tensor(kind, shape)
    return pa.table({"x": pa.ExtensionArray.from_storage(tensors, storage)})


def test_fixed_shape_tensors_may_hold_times_and_text(tmp_path: Path) -> None:
    times = _tensors(pa.timestamp("s"), [2, 1], [1, 2])
    found = column(written_by_pyarrow(tmp_path / "t.arrow", times))
    assert found.data.tolist() == [[[1], [2]]]
    assert found.marks.unit == Times("timestamp", "s")
    text = _tensors(pa.string(), [2], ["a", "bc"])
    assert column(written_by_pyarrow(tmp_path / "u.arrow", text)).to_list() == [["a", "bc"]]
    table = _tensors(pa.string(), [2, 1], ["a", "bc"])
    path = written_by_pyarrow(tmp_path / "v.arrow", table)
    with pytest.raises(UnsupportedError, match=r"column 'x': found tensors of string .* \[2, 1\]"):
        content(path)


def test_a_permutation_that_pyarrow_contradicts_itself_about_is_refused(tmp_path: Path) -> None:
    kind = pa.fixed_shape_tensor(pa.int8(), [1, 2, 3], permutation=[2, 0, 1])
    array = pa.ExtensionArray.from_storage(kind, pa.array([[1] * 6], pa.list_(pa.int8(), 6)))
    path = written_by_pyarrow(tmp_path / "t.arrow", pa.table({"x": array}))
    with pytest.raises(UnsupportedError, match=r"column 'x': .* permuted as \[2, 0, 1\]"):
        content(path)


@SUFFIXES
def test_fields_of_structs_and_maps_are_tensors_that_share_levels(
    suffix: str, tmp_path: Path
) -> None:
    values = [[{"id": 1, "text": "ab"}, {"id": 2, "text": ""}], [], [{"id": 3, "text": "c"}]]
    maps = pa.array([[(1, 2.0)], [], [(3, 4.0), (5, 6.0)]], pa.map_(pa.int64(), pa.float64()))
    table = pa.table({"token": values, "map": maps})
    found = content(written_by_pyarrow(tmp_path / f"t{suffix}", table))
    assert list(found) == ["token.id", "token.text", "map.key", "map.value"]
    assert nested(found["token.id"]) == [[1, 2], [], [3]]
    assert found["token.text"].recursive_sequence_lengths() == [[2, 0, 1], [2, 0, 1]]
    assert nested(found["map.value"]) == [[2.0], [], [4.0, 6.0]]
    assert found["map.key"].lod is found["map.value"].lod
    assert found["token.id"].lod.levels[0] is not None
    only = content(tmp_path / f"t{suffix}", field=("token.text", "map"))
    assert list(only) == ["token.text", "map.key", "map.value"]


def test_dictionaries_and_run_ends_are_undone(tmp_path: Path) -> None:
    names = pa.array([b"b", b"a", b"b", b""]).dictionary_encode()
    runs = pa.RunEndEncodedArray.from_arrays([1, 4], [7, 8])
    path = written_by_pyarrow(tmp_path / "t.arrow", pa.table({"names": names, "runs": runs}))
    found = content(path)
    assert found["names"].recursive_sequence_lengths() == [[1, 1, 1, 0]]
    assert found["names"].data.tobytes() == b"bab"
    assert found["runs"].data.tolist() == [7, 8, 8, 8]


@pytest.mark.parametrize("suffix", ["arrow", "arrows"])
def test_dates_with_a_time_of_day_are_no_damage(suffix: str, tmp_path: Path) -> None:
    """apache-arrow for JavaScript writes them for every Date."""
    stored = pa.py_buffer(np.array([0, 10**12]))
    table = pa.table({"x": pa.Array.from_buffers(pa.date64(), 2, [None, stored])})
    path = written_by_pyarrow(tmp_path / f"t.{suffix}", table)
    with pytest.raises(UnsupportedError, match=r"1000000000000 .* write them as timestamps"):
        io.read(path)


@pytest.mark.parametrize("suffix", ["arrow", "arrows", "parquet"])
def test_times_outside_of_a_day_are_no_damage(suffix: str, tmp_path: Path) -> None:
    """fastparquet stores durations of pandas as times."""
    days = pa.array([2 * 86_400 * 10**6]).view(pa.time64("us"))
    path = written_by_pyarrow(tmp_path / f"t.{suffix}", pa.table({"n": [1], "far": days}))
    with pytest.raises(UnsupportedError, match=r"column 'far': time64\[us\] 172800000000 is not"):
        io.read(path, field=("far",))
    assert io.read(path, field=("n",)).data.tolist() == [1]


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    column = pa.array([b"Jos\xe9"]).view(pa.string())
    path = written_by_pyarrow(tmp_path / "t.parquet", pa.table({"n": [1], "name": column}))
    with pytest.raises(DamagedFileError, match=r"column 'name': holds text that is not UTF-8; if"):
        io.read_all(path)
    # ClickHouse stores bytes as text.
    clickhouse = Path(__file__).parents[1] / "theirs" / "clickhouse.parquet"
    with pytest.raises(DamagedFileError, match=r"column 'b': .*; if these are bytes, write them"):
        io.read_all(clickhouse)
    assert io.read(clickhouse, field=("d",)).to_list() == ["é"]


def test_a_type_that_no_tensor_has_is_refused_by_name(tmp_path: Path) -> None:
    value, kind = pa.MonthDayNano([1, 15, -30]), pa.month_day_nano_interval()
    table = pa.table({"x": pa.array([[value]], pa.list_(kind)), "y": [1]})
    path = written_by_pyarrow(tmp_path / "t.arrow", table)
    with pytest.raises(UnsupportedError, match=r"column 'x': tensors cannot hold .*columns="):
        content(path)
    assert content(path, field=("y",))["y"].data.tolist() == [1]


def test_a_tensor_without_a_schema_is_no_damage(tmp_path: Path) -> None:
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file:
        pa.ipc.write_tensor(pa.Tensor.from_numpy(np.ones((2, 3))), file)
    with pytest.raises(UnsupportedError, match=r"holds a single tensor .*; save it with numpy"):
        content(tmp_path / "t.arrow")


@SUFFIXES
def test_a_struct_without_fields_can_be_left_out(suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.skip("holds no such structs")
    table = pa.table({"x": pa.array([{}, None], pa.struct([])), "y": [1, 2]})
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table)
    with pytest.raises(UnsupportedError, match=r"column 'x': a struct .*skip_unsupported=True"):
        content(path)
    assert io.read_all(path, skip_unsupported=True).keys() == {"y"}


# -- nulls ---------------------------------------------------------------------------


@SUFFIXES
@pytest.mark.parametrize(
    ("values", "empty"),
    [
        ([[[1]], None, [[2, 3]]], [[[1]], [], [[2, 3]]]),
        ([[[1]], [], [[2], None]], [[[1]], [], [[2], []]]),
        ([[[1]], [], [[2, 4], [None]]], None),
    ],
)
def test_a_null_is_kept_or_read_as_empty(
    suffix: str, values: Any, empty: Any, tmp_path: Path
) -> None:
    table = pa.table({"x": pa.array(values, pa.list_(pa.list_(pa.int64())))})
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, records=2)
    assert column(path).to_list() == values
    if empty is None:
        with pytest.raises(
            UnsupportedError, match=r"x.*: row <.,1,0> is null, and no row is empty"
        ):
            io.read_all(path, nulls="empty")
    else:
        found = tensor_in(path, nulls="empty")
        assert found.to_list() == empty


def test_null_texts_maps_and_views_are_empty_if_asked(tmp_path: Path) -> None:
    text = pa.array(["ab", None, "c"])
    maps = pa.array([None, [(1, 2)], None], pa.map_(pa.int8(), pa.int8()))
    views = pa.array([[1], None, [2, 3]], pa.list_view(pa.int8()))
    fixed = pa.array([["a"], None, ["b"]], pa.list_(pa.string(), 1))
    table = pa.table({"text": text, "map": maps, "views": views, "fixed": fixed})
    found = io.read_all(written_by_pyarrow(tmp_path / "t.arrow", table, 3), nulls="empty")
    lists = {name: item.to_list() for name, item in found.items() if isinstance(item, LoDTensor)}
    assert lists["text"] == ["ab", "", "c"]
    assert lists["map.value"] == [[], [2], []]
    assert lists["views"] == [[1], [], [2, 3]]
    assert lists["fixed"] == [["a"], [], ["b"]]


def test_values_below_a_null_list_are_not_read(tmp_path: Path) -> None:
    array = pa.Array.from_buffers(
        pa.list_(pa.int64()),
        3,
        [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 2, 4, 5], np.int32))],
        children=[pa.array([1, 2, 3, 4, 5])],
    )
    path = written_by_pyarrow(tmp_path / "t.arrow", pa.table({"x": array}), 3)
    assert column(path).to_list() == [[1, 2], None, [5]]


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_runs_in_null_structs_are_null(compression: str | None, tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays([2, 5, 6], pa.array([7, None, 9]))
    inner = pa.StructArray.from_arrays([runs], ["r"], mask=pa.array([False, True, *[False] * 4]))
    fields = [runs, pa.array(range(6)), inner]
    missing = pa.array([False, True, False, False, False, True])
    table = pa.table({"s": pa.StructArray.from_arrays(fields, ["r", "n", "in"], mask=missing)})
    found = content(written_by_pyarrow(tmp_path / "t.arrow", table, 6, compression=compression))
    assert found["s.r"].to_list() == [7, None, None, None, None, None]
    assert found["s.in.r"].to_list() == [7, None, None, None, None, None]
    assert found["s.n"].to_list() == [0, None, 2, 3, 4, None]
    io.write(tmp_path / "ours.arrow", found)
    ours = pa.ipc.open_file(tmp_path / "ours.arrow").read_all()
    decoded = [None if one is None else one["r"] for one in ours["s"].to_pylist()]
    assert decoded == [7, None, None, None, None, None]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([["a"], None, ["b" * 20, None], []], pa.list_view(pa.string_view())),
        ([[b"a"], None, []], pa.large_list_view(pa.binary_view())),
        ([[["a"], None], None, [[]]], pa.list_(pa.list_view(pa.string_view()))),
        ([[["a"]], None], pa.list_view(pa.list_(pa.string_view(), 1))),
    ],
    ids=str,
)
def test_null_lists_beside_views_are_kept(values: Any, kind: Any, tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(values, kind)})
    path = written_by_pyarrow(tmp_path / "t.arrow", table, records=3)
    assert column(path).to_list() == values


def test_runs_beside_null_maps_and_rows_are_kept(tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays([2, 4], pa.array([7, 9]))
    words = pa.array(["a", "b", "c", "d"])
    maps = pa.MapArray.from_arrays(pa.array([0, None, 1, 4], pa.int32()), words, runs)
    rows = pa.FixedSizeListArray.from_arrays(runs, 1, mask=pa.array([False, True, False, False]))
    table = pa.table({"map": maps.slice(0, 3), "row": rows.slice(0, 3)})
    found = content(written_by_pyarrow(tmp_path / "t.arrow", table, 3))
    assert found["map.key"].to_list() == [["a"], None, ["b", "c", "d"]]
    assert found["map.value"].to_list() == [[7], None, [7, 9, 9]]
    assert found["row"].to_list() == [[7], None, [9]]


@pytest.mark.parametrize("kind", [pa.list_, pa.list_view, lambda item: pa.list_(item, 1)])
def test_lists_of_an_extension_type_may_all_be_null(kind: Any, tmp_path: Path) -> None:
    tensor = pa.fixed_shape_tensor(pa.int32(), [2])
    item = pa.struct([("t", tensor)])
    lists = pa.nulls(2, kind(pa.struct([("t", tensor.storage_type)])))
    inner = pa.ExtensionArray.from_storage(tensor, lists.values.field(0))
    items = pa.StructArray.from_arrays([inner], fields=list(item))
    buffers = lists.buffers()[: lists.type.num_buffers]
    table = pa.table({"x": pa.Array.from_buffers(kind(item), 2, buffers, children=[items])})
    path = written_by_pyarrow(tmp_path / "t.arrow", table, 2)
    assert content(path)["x.t"].to_list() == [None, None]


@SUFFIXES
def test_booleans_of_a_byte_are_true_unless_they_are_0(suffix: str, tmp_path: Path) -> None:
    """arrow.bool8, as DuckDB exports booleans with lossless conversion."""
    values = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 2, -1, None], pa.int8()))
    starts = pa.array([0, 2, 2, 5], pa.int32())
    columns = {
        "x": values.slice(1, 3),
        "list": pa.ListArray.from_arrays(starts, values),
        "record": pa.StructArray.from_arrays([values.slice(2)], ["b"]),
        "pair": pa.FixedSizeListArray.from_arrays(pa.concat_arrays([values.slice(0, 3)] * 2), 2),
    }
    path = written_by_pyarrow(tmp_path / f"t{suffix}", pa.table(columns), 1)
    found = content(path)
    assert {one.dtype for one in found.values()} == {np.dtype(np.bool_)}
    assert {name: one.to_list() for name, one in found.items()} == {
        "x": [True, True, True],
        "list": [[False, True], [], [True, True, None]],
        "record.b": [True, True, None],
        "pair": [[False, True], [True, False], [True, True]],
    }


@SUFFIXES
def test_rows_of_the_null_type_may_all_be_null(suffix: str, tmp_path: Path) -> None:
    table = pa.table({"x": pa.nulls(2, pa.list_(pa.null(), 3))})
    found = column(written_by_pyarrow(tmp_path / f"t{suffix}", table))
    assert found.to_list() == [None, None]


@pytest.mark.parametrize("name", ["nulls.arrow", "nulls.parquet"])
def test_a_column_of_nulls_may_be_declared_without_nulls(name: str, tmp_path: Path) -> None:
    with lodcli.open(Path(__file__).parents[1] / "theirs" / name) as file:
        assert file.schema[0].nullable
        io.write(tmp_path / "x.lod.h5", file.read())
    assert content(tmp_path / "x.lod.h5")["n"].to_list() == [None, None]


@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
def test_nulls_in_a_column_declared_without_them_are_an_error(suffix: str, tmp_path: Path) -> None:
    item = pa.field("item", pa.int64(), nullable=False)
    schema = pa.schema([pa.field("x", pa.list_(item), nullable=False)])
    table = pa.table([pa.array([[1], [2, 3], [4, None]], pa.list_(item))], schema)
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, compression="zstd")
    refused(
        *(path, DamagedFileError),
        "column 'x': the file declares no nulls, but record 2, item <1> is null; write it as a "
        "nullable column",
    )
    # Without compression, all records are looked at first.
    plain = written_by_pyarrow(tmp_path / f"plain{suffix}", table)
    assert column(plain).to_list() == [[1], [2, 3], [4, None]]


def test_nulls_that_were_not_there_when_a_file_was_opened_are_an_error(tmp_path: Path) -> None:
    for name, rows in (("before", [1, 2]), ("after", [1, None])):
        # As many nulls in all: the files have equal sizes.
        table = pa.table({"x": pa.array(rows), "y": pa.array([1 if None in rows else None, 2])})
        written_by_pyarrow(tmp_path / f"{name}.arrow", table)
    with lodcli.open(tmp_path / "before.arrow") as file:
        assert not file.schema[0].nullable
        (tmp_path / "before.arrow").write_bytes((tmp_path / "after.arrow").read_bytes())
        with pytest.raises(DamagedFileError, match="was changed while it was read; read it again"):
            file.read()


@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_offsets_of_no_items_may_have_no_bytes(
    codec: str | None, suffix: str, tmp_path: Path
) -> None:
    # Some programs write them so; pyarrow's `nbytes` then reads from a null pointer.
    empty = pa.py_buffer(b"")
    fields = [pa.field("key", pa.int8(), nullable=False), pa.field("value", pa.int8())]
    pairs = pa.array([], pa.struct(fields))
    kinds: list[tuple[Any, list[Any]]] = [
        (pa.list_(pa.int8()), [pa.array([], pa.int8())]),
        (pa.large_list(pa.int8()), [pa.array([], pa.int8())]),
        (pa.map_(pa.int8(), pa.int8()), [pairs]),
        (pa.string(), []),
        (pa.large_binary(), []),
    ]
    columns = []
    for kind, children in kinds:
        held = [None, empty] if children else [None, empty, empty]
        inner = pa.Array.from_buffers(kind, 0, held, children=children)
        offsets = pa.py_buffer(bytes(12))
        columns.append(pa.Array.from_buffers(pa.list_(kind), 2, [None, offsets], children=[inner]))
    batch = pa.RecordBatch.from_arrays(columns, list("abcde"))
    path = tmp_path / f"t{suffix}"
    making = pa.ipc.new_file if suffix == ".arrow" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with making(str(path), batch.schema, options=options) as writer:
        writer.write_batch(batch)
    found = content(path)
    assert sorted(found) == ["a", "b", "c.key", "c.value", "d", "e"]
    assert all(tensor.to_list() == [[], []] for tensor in found.values())


DEEP: Any = pa.int64()
for _ in range(65):
    DEEP = pa.list_(DEEP)


@SUFFIXES
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"c": DEEP}, "column 'c': nested deeper than"),
        ({"c": pa.struct([("a", pa.int8()), ("a", pa.int8())])}, "two fields are named 'c.a'"),
        ({}, "has no columns"),
    ],
)
def test_columns_that_no_tensor_holds_are_refused(
    suffix: str, columns: dict[str, Any], message: str, tmp_path: Path
) -> None:
    table = pa.schema(columns).empty_table()
    with pytest.raises((InvalidDataError, UnsupportedError), match=message):
        content(written_by_pyarrow(tmp_path / f"x{suffix}", table))


@pytest.mark.parametrize("names", ["[1]", '[""]', '["a", "b"]', '{"a": 1}', "[", "[" * 10**5])
def test_other_metadata_than_names_of_levels_is_ignored(names: str, tmp_path: Path) -> None:
    field = pa.field("x", pa.list_(pa.int8()), metadata={NAMES_KEY: names.encode()})
    table = pa.table([pa.array([[1], []], field.type)], pa.schema([field]))
    assert column(written_by_pyarrow(tmp_path / "x.arrow", table)).lod.names == (None,)


# -- decimals beyond 64 bits ---------------------------------------------------------


@SUFFIXES
@pytest.mark.parametrize("kind", [pa.decimal128(38, 18), pa.decimal256(76, 40), pa.decimal128(19)])
def test_decimals_of_more_than_18_digits_become_the_nearest_floats(
    kind: Any, suffix: str, tmp_path: Path
) -> None:
    chance = random.Random(7)
    most = 10**18
    numbers = [Decimal(chance.randrange(-most, most)).scaleb(-kind.scale) for _ in range(500)]
    table = pa.table(
        {
            "x": pa.array([None, *numbers], kind),
            "nested": pa.array(
                [[], [numbers[0], None], *([one] for one in numbers[1:])], pa.list_(kind)
            ),
            "exact": pa.array([Decimal("0.10")] * 501, pa.decimal128(18, 2)),
        }
    )
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, records=100)
    found = content(path, float_decimals=True, nulls="keep")
    # Python rounds to the nearest; Arrow's own cast misses it in one of eight.
    assert found["x"].to_list() == [None, *map(float, numbers)]
    assert found["nested"].to_list() == [
        [],
        [float(numbers[0]), None],
        *([float(one)] for one in numbers[1:]),
    ]
    assert found["exact"].marks.unit == Decimals(18, 2, 128)
    assert set(found["exact"].data.tolist()) == {10}


def test_the_error_for_a_decimal_beyond_64_bits_names_the_option(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([Decimal("1.5"), Decimal("12.5")], pa.decimal128(38, 18))})
    path = written_by_pyarrow(tmp_path / "t.parquet", table)
    said = (
        "column 'x', records from 0 on: position 1: 12.500000000000000000 of decimal128(38, 18) is "
        "beyond the 64 bits of a tensor; float_decimals=True reads such decimals as float64"
    )
    refused(path, UnsupportedError, said)
    assert column(path, float_decimals=True).data.tolist() == [1.5, 12.5]
