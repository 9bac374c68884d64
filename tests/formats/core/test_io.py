"""`lodcli.read`, `read_all`, `open` and `write` with invalid arguments."""

from __future__ import annotations

import copy
import io as standard_io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lodcli
from lodcli import LodError, LoDTensor, SelectionError, TensorArray


class PathOfBytes:
    def __fspath__(self) -> bytes:
        return b"x.npz"


WORDS = LoDTensor(np.arange(3.0), [[2, 1]])
PATHS: dict[str, Any] = {
    "tensor": WORDS,
    "array": np.arange(3.0),
    "dict": {"a": WORDS},
    "none": None,
    "number": 3,
    "bytes": b"x.npz",
    "path of bytes": PathOfBytes(),
    "list": ["x.npz"],
    "stream": standard_io.BytesIO(),
    "empty": "",
    "with NUL": "a\0b.npz",
}
CONTENTS: dict[str, tuple[Any, str]] = {
    "array": (np.arange(3.0), r"LoDTensor\(rows, lengths\)"),
    "list": ([[1, 2], [3]], r"found list; LoDTensor\.from_lists makes one of lists"),
    "list of texts": ({"label": ["a", "b"]}, r"label: .* LoDTensor\.from_lists makes one of lists"),
    "steps": (TensorArray(values=[WORDS]), r"StoredArray\(array, index_map\)"),
    "path": ("x.npz", "found str"),
    "none": (None, "found NoneType"),
    "dict of arrays": (
        {"a": np.arange(3.0)},
        r"a: expected .* or LoDTensor\(rows\) without levels",
    ),
    "table": (pa.table({"a": [[1]]}), r"found Table; LoDTensor\.from_arrow makes one of a column"),
    "dict of numbers": ({1: WORDS}, "names of type str, found 1"),
    "empty dict": ({}, "nothing to write: no tensor given"),
}


def opening(path: Any) -> None:
    with lodcli.open(path):
        pass


@pytest.mark.parametrize("kind", PATHS)
def test_an_argument_that_is_no_path_is_an_error_of_lod(kind: str, tmp_path: Path) -> None:
    calls: list[Callable[[Any], Any]] = [
        lodcli.read,
        lodcli.read_all,
        opening,
        # The arguments the other way round, as torch.save has them.
        lambda path: lodcli.write(path, tmp_path / "x.npz"),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(LodError, match=r"path of a file \(str or os.PathLike\), found"):
            call(PATHS[kind])
    assert not list(tmp_path.iterdir())


def test_tensors_of_other_libraries_are_converted_first(tmp_path: Path) -> None:
    nested: Any = pytest.importorskip("torch").ones(3)
    array = pytest.importorskip("awkward").Array([[1], [2, 3]])
    for item, name in ((nested, "torch"), (array, "awkward")):
        with pytest.raises(LodError, match=rf"x: .*; LoDTensor\.from_{name} makes one$"):
            lodcli.write(tmp_path / "x.npz", {"x": item})
        lodcli.write(tmp_path / f"{name}.npz", getattr(LoDTensor, f"from_{name}")(item))


def test_read_and_open_take_the_name_of_a_tensor_as_in_the_shell(tmp_path: Path) -> None:
    lodcli.write(tmp_path / "x.csv", {"a": LoDTensor([1, 2]), "b": LoDTensor([3, 4])})
    assert lodcli.read(f"{tmp_path}/x.csv::b").to_list() == [3, 4]
    with lodcli.open(f"{tmp_path}/x.csv::b") as file:
        assert file["b"].read().to_list() == [3, 4]
    with pytest.raises(SelectionError, match="no tensor named 'c'"):
        lodcli.open(f"{tmp_path}/x.csv::c")


@pytest.mark.parametrize("kind", CONTENTS)
def test_writing_an_object_that_is_no_tensor_is_an_error_of_lod(kind: str, tmp_path: Path) -> None:
    content, said = CONTENTS[kind]
    with pytest.raises(LodError, match=said):
        lodcli.write(tmp_path / "x.npz", content)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("device", [None, 3, "gpu", "cuda:x"])
def test_an_argument_that_is_no_device_is_an_error_of_lod(device: Any, tmp_path: Path) -> None:
    lodcli.write(tmp_path / "x.npz", WORDS)
    with pytest.raises(LodError, match="expected cpu, cuda or cuda:N"):
        lodcli.read(tmp_path / "x.npz", device=device)
    with pytest.raises(LodError, match="expected cpu, cuda or cuda:N"):
        WORDS.to_device(device)


@pytest.mark.parametrize("name", ["a.lod.h5", "a.npy", "a.safetensors", "a.jsonl", "a.arrow"])
def test_a_closed_file_reads_nothing_from_the_next_one(name: str, tmp_path: Path) -> None:
    path, other = tmp_path / name, tmp_path / f"other-{name}"
    for place, rows in ((path, np.arange(4.0)), (other, -np.arange(4.0))):
        lodcli.write(place, LoDTensor(rows))
    with lodcli.open(path) as file:
        begun = file.batches()
    requests: list[Callable[[], object]] = [
        lambda: list(begun),
        lambda: list(file.batches()),
        lambda: file.read(["data"]),
        lambda: file.slice("data", (slice(1, 2),)),
        lambda: file.read_index("data"),
    ]
    with other.open("rb"):  # which reuses the number of the descriptor
        for request in requests:
            with pytest.raises(LodError, match=rf"{name}: is closed; read it inside of `with"):
                request()


@pytest.mark.parametrize("name", ["a.lod.h5", "a.npz", "a.jsonl"])
def test_a_branch_that_is_no_tuple_is_an_error(name: str, tmp_path: Path) -> None:
    lodcli.write(tmp_path / name, LoDTensor(np.arange(4.0), [[3, 1]]))
    with lodcli.open(tmp_path / name) as file:
        for branch in (slice(0, 1), 0, 1.5, None):
            with pytest.raises(SelectionError, match=r"such as \(0, slice\(1, 3\)\); found"):
                file.slice("data", branch)  # type: ignore[arg-type]
        assert file.slice("data", (0,)).to_list() == [0, 1, 2]


@pytest.mark.parametrize("name", ["a.lod.h5", "a.npy", "a.safetensors", "a.jsonl", "a.zarr"])
def test_batches_of_a_closed_file_do_not_go_on_in_the_next_one(name: str, tmp_path: Path) -> None:
    path, other = tmp_path / name, tmp_path / f"other-{name}"
    for place, rows in ((path, np.zeros(4000)), (other, np.ones(4000))):
        if name == "a.zarr":
            pytest.importorskip("zarr")
        lodcli.write(place, LoDTensor(rows))
    with lodcli.open(path) as file:
        batches = file.batches(4096)
        assert not next(batches)["data"].data.any()
    with lodcli.open(other) as file:
        next(file.batches(4096))
        with pytest.raises(LodError, match=rf"{name}: is closed; read it inside of `with"):
            next(batches)


@pytest.mark.parametrize("of", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("name", ["a.lod.h5", "a.npy"])
def test_an_open_file_cannot_be_copied(
    of: Callable[[object], object], name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    lodcli.write(path, LoDTensor(np.arange(4.0)))
    with lodcli.open(path) as file, pytest.raises(TypeError, match="open it in each process"):
        of(file)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_tensor_is_read_by_name_whatever_the_others_hold(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{kind}"
    lines = {
        "csv": "born,age\n" + "1,2\n" * 20_000 + "?,3\n",
        "jsonl": '{"born":1,"age":2}\n' * 60_000 + '{"born":"?","age":3}\n',
    }
    path.write_text(lines[kind])
    found = lodcli.read(path, "age", dtype="int8")
    assert found.dtype == np.int8
    assert found.data[-1] == 3
    with pytest.raises(SelectionError, match=r"'agee'; there are: born, age"):
        lodcli.read(path, "agee")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("data", r"expected the names of tensors, found 'data'; give a list, \['data'\]"),
        (3, "expected the names of tensors, found 3"),
    ],
)
def test_one_text_instead_of_several_names_is_an_error(
    names: Any, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.lod.h5"
    lodcli.write(path, LoDTensor(np.arange(3), [[2, 1]]))
    with lodcli.open(path) as source:
        with pytest.raises(LodError, match=said):
            source.read(names)
        with pytest.raises(LodError, match=said):
            next(iter(source.batches_of(names)))
