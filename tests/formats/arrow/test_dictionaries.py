"""Dictionary columns and class labels are categories, both ways; oracles: pyarrow, datasets."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories
from tests.formats.cases.opening import tensor_in
from tests.formats.cases.tables import read_by_pyarrow, written_by_pyarrow
from tests.formats.core.test_categories import LABELS, coded
from tests.sampling import many

pa = pytest.importorskip("pyarrow")
pf = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

WORDS = ["b", "a", "Grüß", "", "unused"]
INDEX_TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
INDEX_TYPES += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def dictionary(codes: Any, kind: Any, *, ordered: bool = False, words: Any = None) -> Any:
    values = pa.array(WORDS if words is None else words, pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes, kind), values, ordered=ordered)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
@pytest.mark.parametrize("kind", INDEX_TYPES, ids=str)
def test_dictionaries_of_every_index_type_come_back(kind: Any, ending: str, tmp_path: Path) -> None:
    ordered = kind == pa.int16()
    column = dictionary([1, 0, None, 3, 2, 2, 1, None], kind, ordered=ordered)
    written_by_pyarrow(tmp_path / f"in.{ending}", pa.table({"c": column}), 3)
    tensor = tensor_in(tmp_path / f"in.{ending}")
    assert tensor.dtype == str(kind)
    assert tensor.categories == tuple(WORDS)
    assert tensor.to_list() == column.to_pylist()
    assert tensor.to_arrow().equals(column)
    assert LoDTensor.from_arrow(column).identical(tensor)
    io.write(tmp_path / f"out.{ending}", tensor, strict=True)
    back = read_by_pyarrow(tmp_path / f"out.{ending}").column(0).combine_chunks()
    assert back.type == column.type
    assert back.equals(column)


def nested() -> dict[str, Any]:
    codes = dictionary([1, 0, None, 3, 2, 2, 1, 0], pa.int8())
    lists = pa.LargeListArray.from_arrays(pa.array([0, 2, 2, 5, 8], pa.int64()), codes)
    return {
        "lists": lists,
        "list of lists": pa.ListArray.from_arrays(pa.array([0, 1, 4], pa.int32()), lists),
        "struct": pa.StructArray.from_arrays([codes, pa.array(range(8))], ["x", "n"]),
        "list of structs": pa.array(
            [[{"x": "a"}], [], [{"x": "b"}, {"x": None}]],
            pa.list_(pa.struct({"x": pa.dictionary(pa.int32(), pa.string())})),
        ),
        "rows": pa.FixedSizeListArray.from_arrays(dictionary([0, 1, 2, 3], pa.int32()), 2),
        "slice": codes[3:6],
    }


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("name", nested())
def test_dictionaries_in_lists_and_structs_come_back(
    name: str, ending: str, tmp_path: Path
) -> None:
    column = nested()[name]
    written_by_pyarrow(tmp_path / f"in.{ending}", pa.table({"c": column}), 3)
    found = io.read_all(tmp_path / f"in.{ending}")
    assert any(isinstance(one, LoDTensor) and one.categories for one in found.values())
    io.write(tmp_path / f"out.{ending}", found, strict=True)
    assert (
        read_by_pyarrow(tmp_path / f"out.{ending}").column(0).combine_chunks().to_pylist()
        == column.to_pylist()
    )
    io.write(tmp_path / "x.lod.h5", found)
    again = io.read_all(tmp_path / "x.lod.h5")
    for one, item in found.items():
        assert item.identical(again[one])


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_dictionaries_in_maps_are_categories(ending: str, tmp_path: Path) -> None:
    keys, values = dictionary([1, 0, 2], pa.int8()), dictionary([3, 3, 0], pa.int32())
    column = pa.MapArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), keys, values)
    written_by_pyarrow(tmp_path / f"in.{ending}", pa.table({"c": column}), 3)
    for name, item in io.read_all(tmp_path / f"in.{ending}").items():
        assert item.categories is not None
        side = {"c.key": 0, "c.value": 1}[name]
        assert item.to_list() == [[pair[side] for pair in one] for one in column.to_pylist()]


@settings(max_examples=many(30, share=3))
@given(coded(), st.sampled_from(["x.parquet", "x.arrow", "x.arrows"]))
def test_arrow_and_parquet_keep_categories(
    tmp_path_factory: Any, tensor: LoDTensor, name: str
) -> None:
    path = tmp_path_factory.mktemp("c") / name
    if not tensor.rows and tensor.marks.categories and tensor.marks.categories.words:
        with pytest.raises(UnsupportedError, match="does not keep these marks: category"):
            io.write(path, tensor, strict=True)
        return
    io.write(path, tensor, strict=True)
    assert tensor_in(path).identical(tensor)
    assert LoDTensor.from_arrow(tensor.to_arrow()).identical(tensor)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows"])
def test_dictionaries_without_rows_are_categories_of_no_words(name: str, tmp_path: Path) -> None:
    some = pa.table({"c": dictionary([1, 0], pa.int8(), ordered=True)})
    written_by_pyarrow(tmp_path / name, some.slice(0, 0), 3)
    written_by_pyarrow(tmp_path / f"some-{name}", some, 3)
    none, found = tensor_in(tmp_path / name), tensor_in(tmp_path / f"some-{name}")
    assert none.marks.categories == Categories((), ordered=True)
    assert none.dtype == np.int8
    io.write(tmp_path / f"again-{name}", none, strict=True)
    assert tensor_in(tmp_path / f"again-{name}").identical(none)
    assert LoDTensor.concatenate([none, found]).identical(found)


def test_dictionaries_that_change_within_a_file_are_put_together(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    parts = [dictionary([0, 1], pa.int8(), words=words) for words in (["a", "b"], ["c", "a"])]
    with pq.ParquetWriter(tmp_path / "x.parquet", pa.schema({"c": kind})) as writer:
        for part in parts:
            writer.write_table(pa.table({"c": part}))
    with pa.ipc.new_stream(tmp_path / "x.arrows", pa.schema({"c": kind})) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch({"c": part}))
    for name in ("x.parquet", "x.arrows"):
        tensor = tensor_in(tmp_path / name)
        assert tensor.to_list() == ["a", "b", "c", "a"]
        assert tensor.categories == ("a", "b", "c")
        with lodcli.open(tmp_path / name) as source:
            assert source.slice("c", (slice(1, 3),)).to_list() == ["b", "c"]


def test_dictionaries_of_more_words_than_their_codes_hold_are_read_as_text(tmp_path: Path) -> None:
    parts = [
        dictionary([0, 99, None], pa.int8(), words=[f"{letter}{n}" for n in range(100)])
        for letter in "ab"
    ]
    with pa.ipc.new_stream(tmp_path / "x.arrows", pa.schema({"c": parts[0].type})) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch({"c": part}))
    tensor = tensor_in(tmp_path / "x.arrows")
    assert tensor.marks.is_text
    assert tensor.to_list() == ["a0", "a99", None, "b0", "b99", None]


@pytest.mark.parametrize("words", [["a", "a"], ["a", None]], ids=["a word twice", "a null word"])
def test_other_dictionaries_are_read_as_text(words: Any, tmp_path: Path) -> None:
    column = dictionary([0, 1, 0], pa.int8(), words=words)
    pf.write_feather(pa.table({"c": column}), tmp_path / "x.arrow", compression="uncompressed")
    tensor = tensor_in(tmp_path / "x.arrow")
    assert tensor.marks.is_text
    assert tensor.to_list() == column.to_pylist()
    assert LoDTensor.from_arrow(column).to_list() == column.to_pylist()
    numbers = pa.array([7, 9, 7]).dictionary_encode()
    pf.write_feather(pa.table({"c": numbers}), tmp_path / "n.arrow", compression="uncompressed")
    assert tensor_in(tmp_path / "n.arrow").to_list() == [7, 9, 7]


# Values of dictionaries that are no text; the last is null.
VALUES: dict[str, Any] = {
    "int64": pa.array([5, -6, None]),
    "double": pa.array([1.5, 2.5, None]),
    "bool": pa.array([True, False, None]),
    "timestamp": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal("1.20"), Decimal("3.40"), None]),
    "binary": pa.array([b"ab", b"", None]),
    "list": pa.array([[1, 2], [], None]),
    "list of text": pa.array([["a", "bc"], [], None], pa.list_(pa.string_view())),
    "fixed list": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int64(), 2)),
    "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 3], [5, 6]),
    "struct": pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}, None]),
    "struct of structs": pa.array([{"a": {"b": [1]}, "c": 1}, {"a": {"b": []}, "c": 2}, None]),
    "struct of runs": pa.StructArray.from_arrays(
        [pa.RunEndEncodedArray.from_arrays([1, 3], [5, 6])], ["a"]
    ),
    "struct of dictionaries": pa.StructArray.from_arrays(
        [pa.array(["a", "b", "c"]).dictionary_encode(), pa.array(["x", "y", None])], ["a", "b"]
    ),
}


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
@pytest.mark.parametrize("name", VALUES)
def test_dictionaries_of_other_values_are_read_as_their_values(
    name: str, ending: str, tmp_path: Path
) -> None:
    values = VALUES[name]
    codes = [0, 1, None, 2, 1, 0, 0]
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), values)
    written_by_pyarrow(
        tmp_path / f"in.{ending}", pa.table({"c": column, "n": pa.array(range(7))}), 3
    )
    found = io.read_all(tmp_path / f"in.{ending}")
    io.write(tmp_path / "x.lod.h5", found)
    io.write(tmp_path / "out.arrow", io.read_all(tmp_path / "x.lod.h5"))
    back = pf.read_table(tmp_path / "out.arrow")
    words = values.to_pylist()
    wanted = [None if code is None else words[code] for code in codes]
    if name == "map":  # records of key and value
        wanted = [
            one and [dict(zip(("key", "value"), pair, strict=True)) for pair in one]
            for one in wanted
        ]
    assert back["c"].to_pylist() == wanted
    assert back["n"].to_pylist() == list(range(7))


def test_a_dictionary_of_structs_in_lists_of_structs_is_read(tmp_path: Path) -> None:
    words = pa.array([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.uint16()), words)
    structs = pa.StructArray.from_arrays([coded, pa.array([7, 8, 9])], ["w", "n"])
    column = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), structs)
    written_by_pyarrow(tmp_path / "x.arrow", pa.table({"c": column}), 3)
    found = io.read_all(tmp_path / "x.arrow")
    lists = {name: one.to_list() for name, one in found.items() if isinstance(one, LoDTensor)}
    assert lists == {
        "c.w.x": [[2, 1], [], [2]],
        "c.w.y": [["b", "a"], [], ["b"]],
        "c.n": [[7, 8], [], [9]],
    }
    io.write(tmp_path / "y.arrow", found)
    assert pf.read_table(tmp_path / "y.arrow")["c"].to_pylist() == column.to_pylist()


def test_dates_that_python_does_not_have_may_be_beside_words(tmp_path: Path) -> None:
    days = pa.array([-(2**31), 5], pa.int32()).view(pa.date32())
    column = pa.StructArray.from_arrays(
        [pa.DictionaryArray.from_arrays([0, 1], each) for each in (days, ["b", "a"])], ["day", "w"]
    )
    written_by_pyarrow(tmp_path / "x.arrow", pa.table({"c": column}), 3)
    days, words = io.read_all(tmp_path / "x.arrow").values()
    assert (days.data.tolist(), words.to_list()) == ([-(2**31), 5], ["b", "a"])


@pytest.mark.slow  # for its memory
def test_many_words_keep_their_order_in_parquet(tmp_path: Path) -> None:
    words = [f"{7919 * n % 100_003:060}" for n in range(50_000)]
    tensor = LoDTensor(np.arange(49_999, -1, -1)).as_categories(words)
    io.write(tmp_path / "x.parquet", tensor)
    assert tensor_in(tmp_path / "x.parquet").identical(tensor)


def test_categoricals_of_pandas_and_polars_come_back(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    series = pd.Categorical(["lo", None, "hi", "lo"], ["lo", "mid", "hi"], ordered=True)
    pd.DataFrame({"c": series}).to_parquet(tmp_path / "p.parquet")
    tensor = tensor_in(tmp_path / "p.parquet")
    assert tensor.categories == ("lo", "mid", "hi")
    io.write(tmp_path / "q.parquet", {"c": tensor})
    found = pd.read_parquet(tmp_path / "q.parquet")["c"]
    assert list(found.cat.categories) == ["lo", "mid", "hi"]
    assert found.cat.ordered
    assert list(found.cat.codes) == [0, -1, 2, 0]


def test_enums_of_polars_come_back(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    for kind in (pl.Enum(["lo", "mid", "hi"]), pl.Categorical):
        frame = pl.DataFrame({"c": pl.Series(["hi", "lo", None, "hi"], dtype=kind)})
        tensor = LoDTensor.from_arrow(frame["c"])
        assert tensor.categories is not None
        assert tensor.to_list() == ["hi", "lo", None, "hi"]
        assert pl.Series(tensor).to_list() == ["hi", "lo", None, "hi"]
        frame.write_parquet(tmp_path / "x.parquet")
        assert tensor_in(tmp_path / "x.parquet").to_list() == ["hi", "lo", None, "hi"]


# -- Hugging Face --------------------------------------------------------------------


def test_class_labels_are_categories_both_ways(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "label": datasets.ClassLabel(names=["neg", "pos", "never"]),
            "tags": datasets.List(datasets.ClassLabel(names=["O", "B-PER", "I-PER"])),
            "meta": {"kind": datasets.ClassLabel(names=["x", "y"]), "n": datasets.Value("int32")},
        }
    )
    rows = {
        "label": [1, 0, 1],
        "tags": [[0, 1, 2], [], [0]],
        "meta": [{"kind": 1, "n": 5}, {"kind": 0, "n": 6}, {"kind": 1, "n": 7}],
    }
    data = datasets.Dataset.from_dict(rows, features=features)
    data.save_to_disk(str(tmp_path / "in"))
    found = io.read_all(tmp_path / "in")
    words = {name: one.categories for name, one in found.items() if isinstance(one, LoDTensor)}
    assert words == {
        "label": ("neg", "pos", "never"),
        "tags": ("O", "B-PER", "I-PER"),
        "meta.kind": ("x", "y"),
        "meta.n": None,
    }
    io.write(tmp_path / "x.lod.h5", found)
    io.write(tmp_path / "out", io.read_all(tmp_path / "x.lod.h5"), format_name="datasets")
    back = datasets.load_from_disk(str(tmp_path / "out"))
    assert back.features == features
    assert back.to_dict() == rows
    io.write(tmp_path / "out.parquet", found)
    again = datasets.Dataset.from_parquet(str(tmp_path / "out.parquet"))
    assert again.features == features
    assert again.to_dict() == rows


def test_labels_of_no_class_stay_numbers_with_the_names_as_attribute(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"label": datasets.ClassLabel(names=["neg", "pos"])})
    data = datasets.Dataset.from_dict({"label": [1, -1, 0]}, features=features)
    data.save_to_disk(str(tmp_path / "in"))
    tensor = tensor_in(tmp_path / "in")
    assert tensor.marks.kind is None
    assert tensor.to_list() == [1, -1, 0]
    assert tensor.attributes["huggingface"]["names"] == ["neg", "pos"]


def test_categories_become_class_labels(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    nulls = LoDTensor.from_lists([1, None]).as_categories(["lo", "hi"])
    given = {"label": LABELS, "level": nulls, "n": LoDTensor([1, 2])}
    with pytest.raises(UnsupportedError, match="dtypes: int8 of label"):
        io.write(tmp_path / "out", given, format_name="datasets", strict=True)
    io.write(tmp_path / "out", given, format_name="datasets")
    back = datasets.load_from_disk(str(tmp_path / "out"))
    assert back.features["level"] == datasets.ClassLabel(names=["lo", "hi"])
    assert back.to_dict() == {"label": [[1, 0], [1]], "level": [1, None], "n": [1, 2]}
    assert back.features["label"].feature == datasets.ClassLabel(names=["no", "yes"])
    found = io.read_all(tmp_path / "out")
    for name in ("label", "level"):
        one = found[name]
        assert one.to_list() == given[name].to_list()
        assert one.categories == given[name].categories
