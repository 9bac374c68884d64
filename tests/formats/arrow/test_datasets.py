"""datasets: folders of Hugging Face's save_to_disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.outputs import TargetExistsError
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import batches_of, content, nested, tensor_in

THEIRS = Path(__file__).parents[1] / "theirs" / "datasets"
FIRST, SECOND = "data-00000-of-00002.arrow", "data-00001-of-00002.arrow"
RAGGED = LoDTensor(np.arange(6, dtype=np.int32), LoD.from_lengths([[2, 1, 3]]))


def made(folder: Path) -> Path:
    """Return a copy of a split that `datasets` saved."""
    shutil.copytree(THEIRS / "train", folder / "x")
    return folder / "x"


# -- the real tool -------------------------------------------------------------------


def test_a_saved_split_is_read() -> None:
    found = content(THEIRS / "train")
    assert list(found) == ["tokens", "nested", "text", "label", "box", "pair"]
    assert nested(found["tokens"]) == [[1, 2, 3], [], [4], [5, 6]]
    assert found["tokens"].dtype == np.int32
    assert nested(found["nested"]) == [[[1], []], [], [[2, 3]], [[4]]]
    assert found["text"][0].data.tobytes().decode() == "größe"
    assert found["label"].data.tolist() == [0, 1, 1, 0]
    assert nested(found["box"])[3] == [[3, 1], [2, 3]]
    assert found["pair"].data.tolist() == [[0, 1], [0.25, 1], [0.5, 1], [0.75, 1]]
    assert found["pair"].lod.n_levels == 0
    assert len(batches_of(THEIRS / "train", 1)) == 4
    assert list(content(THEIRS / "train", field=("label",))) == ["label"]


def test_parts_are_read_over_the_ends_of_streams() -> None:
    with lodcli.open(THEIRS / "train") as source:
        assert source.schema[0].levels[0].items == 4
        assert nested(source.slice("tokens", (slice(1, 4),))) == [[], [4], [5, 6]]
        assert source.slice("tokens", (3,)).data.tolist() == [5, 6]
        assert source.read_index("nested").n_levels == 2


def test_a_folder_of_splits_is_an_error_that_names_them() -> None:
    with pytest.raises(SelectionError, match=r"the splits 'train'; name the .*datasets/train$"):
        content(THEIRS)


def test_folders_written_by_the_package_datasets_are_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    theirs = datasets.load_from_disk(str(THEIRS / "train"))
    theirs.select([3, 0]).save_to_disk(tmp_path / "x")
    found = content(tmp_path / "x")
    assert nested(found["tokens"]) == [[5, 6], [1, 2, 3]]
    # `datasets` has registered its types with pyarrow.
    assert nested(found["box"])[0] == [[3, 1], [2, 3]]


def test_folders_of_datasets_without_rows_are_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    theirs = datasets.load_from_disk(str(THEIRS / "train"))
    theirs.select([]).save_to_disk(tmp_path / "x")  # which `datasets` itself cannot load again
    assert json.loads((tmp_path / "x" / "state.json").read_text())["_data_files"] == []
    found, expected = content(tmp_path / "x"), content(THEIRS / "train")
    assert list(found) == list(expected)
    for name, tensor in found.items():
        assert len(tensor) == 0
        other = expected[name]
        assert (tensor.dtype, tensor.lod.n_levels) == (other.dtype, other.lod.n_levels)
        assert tensor.row_shape == other.row_shape


def test_datasets_reads_what_we_write(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    items = content(THEIRS / "train")
    io.write(tmp_path / "x", items, format_name="datasets")
    theirs = datasets.load_from_disk(str(THEIRS / "train"))
    ours = datasets.load_from_disk(str(tmp_path / "x"))
    assert ours.column_names == theirs.column_names
    for name in theirs.column_names:
        assert ours[name][:] == theirs[name][:]
    assert ours.features["tokens"].feature.dtype == "int32"
    ours.select([2, 1]).save_to_disk(tmp_path / "again")
    assert nested(content(tmp_path / "again")["tokens"]) == [[4], []]


def test_datasets_reads_what_we_write_without_a_row(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows, texts = LoDTensor(np.zeros((0, 2), np.int32)), LoDTensor.from_lists(["a"])[:0]
    io.write(tmp_path / "x", {"rows": rows, "texts": texts}, format_name="datasets")
    ours = datasets.load_from_disk(tmp_path / "x")
    assert (len(ours), ours.column_names) == (0, ["rows", "texts"])
    assert {name: item.to_list() for name, item in content(tmp_path / "x").items()} == {
        "rows": [],
        "texts": [],
    }


def test_features_of_datasets_without_rows_are_kept(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    theirs = datasets.load_from_disk(str(THEIRS / "train"))
    theirs.select([]).save_to_disk(tmp_path / "theirs")
    io.write(tmp_path / "ours", io.read_all(tmp_path / "theirs"), format_name="datasets")
    assert datasets.load_from_disk(tmp_path / "ours").features == theirs.features


@pytest.mark.parametrize("rows", [0, 1])
def test_features_of_arrays_in_records_are_kept(tmp_path: Path, rows: int) -> None:
    datasets = pytest.importorskip("datasets")
    record = {"a": datasets.Array2D((None, 2), "float32"), "n": datasets.Value("int32")}
    features = datasets.Features({"r": {"s": record}, "l": datasets.List(record)})
    one = {"a": [[1, 2], [3, 4]], "n": 1}
    theirs = datasets.Dataset.from_dict({"r": [{"s": one}], "l": [[one]]}, features=features)
    theirs.select(range(rows)).save_to_disk(tmp_path / "theirs")
    io.write(tmp_path / "ours", io.read_all(tmp_path / "theirs"), format_name="datasets")
    ours = datasets.load_from_disk(tmp_path / "ours")
    assert ours.features == theirs.features
    assert ours.to_list() == theirs.to_list()[:rows]


def test_features_of_lists_of_arrays_are_kept(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    array = datasets.Array2D((None, 2), "float32")
    of = {"list": datasets.List(array), "large": datasets.LargeList(array)}
    features = datasets.Features({**of, "deep": datasets.List(datasets.List(array))})
    value = [[1.0, 2.0], [3.0, 4.0]]
    rows = {"list": [[value], []], "large": [[], [value, value]], "deep": [[[value], []], []]}
    theirs = datasets.Dataset.from_dict(rows, features=features)
    theirs.save_to_disk(tmp_path / "theirs")
    io.write(tmp_path / "ours", io.read_all(tmp_path / "theirs"), format_name="datasets")
    ours = datasets.load_from_disk(tmp_path / "ours")
    assert ours.features == features
    assert ours.to_list() == theirs.to_list()


def test_features_of_null_records_and_of_records_of_nulls_are_kept(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    record = {"tags": datasets.List(datasets.Value("uint16")), "at": datasets.Value("date32")}
    features = datasets.Features({"one": record})
    rows = {"one": [None, {"tags": None, "at": None}, {"tags": [7], "at": None}]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "theirs")
    found = content(tmp_path / "theirs", nulls="keep")
    assert list(found) == ["one.tags", "one.at", "one.present"]
    io.write(tmp_path / "ours", found, format_name="datasets")
    ours = datasets.load_from_disk(tmp_path / "ours")
    assert ours.features == features
    assert ours[:] == rows
    # Alone, it is a separate column with its features.
    io.write(tmp_path / "alone", {"one.present": found["one.present"]}, format_name="datasets")
    assert datasets.load_from_disk(tmp_path / "alone").num_rows == 3


def test_features_beside_an_array_in_a_record_are_kept(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    labels, array = datasets.ClassLabel(names=["no", "yes"]), datasets.Array2D((None, 2), "int32")
    record = {"label": labels, "array": array}
    features = datasets.Features({"one": record, "several": datasets.List(record)})
    value = {"label": 1, "array": [[1, 2], [3, 4]]}
    rows = {"one": [value, None], "several": [[value, value], []]}
    theirs = datasets.Dataset.from_dict(rows, features=features)
    theirs.save_to_disk(tmp_path / "theirs")
    found = io.read_all(tmp_path / "theirs")
    io.write(tmp_path / "ours", found, format_name="datasets")
    ours = datasets.load_from_disk(tmp_path / "ours")
    assert ours.features == features
    assert ours.to_list() == theirs.to_list()


def test_datasets_does_not_take_other_rows_for_these(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    prints = set()
    for name, tensor in (("a", RAGGED), ("b", RAGGED[1:3])):
        io.write(tmp_path / name, tensor, format_name="datasets")
        prints.add(datasets.load_from_disk(str(tmp_path / name))._fingerprint)
    assert len(prints) == 2


# -- round trips ---------------------------------------------------------------------


def test_shared_levels_stay_shared(tmp_path: Path) -> None:
    items = {"a": RAGGED, "b": LoDTensor(np.ones((6, 2)), RAGGED.lod)}
    io.write(tmp_path / "x", items, format_name="datasets")
    found = content(tmp_path / "x")
    assert found["a"].lod is found["b"].lod


def test_a_folder_is_replaced_only_if_nothing_else_lies_in_it(tmp_path: Path) -> None:
    path = made(tmp_path)
    with pytest.raises(TargetExistsError, match="exists already"):
        io.write(path, RAGGED, format_name="datasets")
    io.write(path, RAGGED, format_name="datasets", overwrite=True)
    assert sorted(file.name for file in path.iterdir()) == [
        *("data-00000-of-00001.arrow", "dataset_info.json", "state.json")
    ]
    (path / "cache-1.arrow").touch()
    with pytest.raises(TargetExistsError, match=r"holds 'cache-1\.arrow'"):
        io.write(path, RAGGED, format_name="datasets", overwrite=True)


def test_tensors_that_records_cannot_hold_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    uneven = {"a": RAGGED, "b": LoDTensor(np.arange(2))}
    with pytest.raises(UnsupportedError, match="a has 3, b has 2"):
        io.write(tmp_path / "x", uneven, format_name="datasets")
    with pytest.raises(UnsupportedError, match="datasets holds no complex64"):
        io.write(tmp_path / "x", LoDTensor(np.ones(2, np.complex64)), format_name="datasets")
    assert list(tmp_path.iterdir()) == []


# -- damage --------------------------------------------------------------------------


def _state(**changes: Any) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        said = json.loads((path / "state.json").read_text())
        (path / "state.json").write_text(json.dumps(said | changes))

    return change


def _no_rows(features: dict[str, Any]) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        _state(_data_files=[])(path)
        (path / "dataset_info.json").write_text(json.dumps({"features": features}))

    return change


def _other_columns(path: Path) -> None:
    table = pa.table({"tokens": [[1]]})
    with pa.ipc.new_stream(str(path / SECOND), table.schema) as writer:
        writer.write_table(table)


def _null(path: Path) -> None:
    with pa.ipc.open_stream((path / SECOND).read_bytes()) as reader:
        table = reader.read_all()
    place = table.schema.get_field_index("tokens")
    table = table.set_column(
        place, table.schema.field(place), pa.array([None, [1]], pa.list_(pa.int32()))
    )
    with pa.ipc.new_stream(str(path / SECOND), table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (_state(_data_files=None), DamagedFileError, "state.json: has no list of data files"),
        (_no_rows({}), UnsupportedError, "dataset_info.json: has no features"),
        (
            _no_rows({"x": {"_type": "Hologram"}}),
            UnsupportedError,
            "info.json: column 'x': cannot infer",
        ),
        (_state(_data_files=[{}]), DamagedFileError, "state.json: data file 0 has no name"),
        (_state(_data_files=[{"filename": "../x"}]), DamagedFileError, "refers to '../x'"),
        (_state(_indices_data_files=[{}]), UnsupportedError, "save it again with datasets 2"),
        (lambda x: (x / "state.json").write_text("{"), DamagedFileError, "json: is not JSON"),
        (lambda x: (x / "state.json").write_text("[]"), DamagedFileError, "is not a JSON object"),
        (lambda x: (x / SECOND).unlink(), FileNotFoundError, SECOND),
        (lambda x: (x / SECOND).write_bytes(b""), DamagedFileError, f"{SECOND}: is damaged"),
        (_other_columns, DamagedFileError, f"{SECOND}: its columns are not those of {FIRST}"),
    ],
)
def test_a_damaged_folder_is_refused(
    damage: Callable[[Path], object], error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = made(tmp_path)
    damage(path)
    with pytest.raises(error) as caught:
        content(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_null_list_is_kept_or_read_as_an_empty_one(tmp_path: Path) -> None:
    path = made(tmp_path)
    _null(path)
    for how, empty in (("keep", None), ("empty", [])):
        found = tensor_in(path, "tokens", nulls=how)
        assert found.to_list() == [[1, 2, 3], [], empty, [1]]


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_a_stream_cut_anywhere_is_refused(name: str, tmp_path: Path) -> None:
    path = made(tmp_path)
    whole = (path / name).read_bytes()
    for size in range(0, len(whole), 7):
        (path / name).write_bytes(whole[:size])
        with pytest.raises(LodError) as caught:
            content(path)
        assert str(caught.value).startswith(f"{path}: {name}: ")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = made(tmp_path) / FIRST
    with pytest.raises(UnsupportedError, match="name the folder"):
        io.read_all(path, format_name="datasets")


def test_a_column_whose_name_is_no_text_is_damage(tmp_path: Path) -> None:
    shard = made(tmp_path) / SECOND
    shard.write_bytes(shard.read_bytes().replace(b"tokens\0", b"\xefokens\0"))
    with pytest.raises(DamagedFileError, match=r"data-00001.*: is damaged \('utf-8' codec"):
        content(tmp_path / "x")
