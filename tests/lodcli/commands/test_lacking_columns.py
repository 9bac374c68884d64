"""Files some of which lack columns that others have, read with `nulls`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from gc import collect, get_objects
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.errors import DamagedFileError, LodError, SelectionError, ShapeMismatchError
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, read_jsonl

# Of a user, then with new columns of each kind, then with new fields in their records.
FIRST = [{"id": 1, "tags": ["a", ""]}, {"id": 2, "tags": []}]
SECOND = [
    {
        "id": 3,
        "tags": ["b"],
        "score": 2.5,
        "name": "ü",
        "path": [[1], [2, 3]],
        "at": {"x": 1, "deep": {"y": "q"}},
        "events": [{"t": 1}, {"t": 2}],
    },
    {
        "id": 4,
        "tags": ["c"],
        "score": -1.5,
        "name": "",
        "path": [],
        "at": {"x": 2, "deep": {"y": ""}},
        "events": [],
    },
]
THIRD = [
    {
        "id": 5,
        "at": {"x": 3, "deep": {"y": "r", "z": [7]}, "new": {"w": True}},
        "events": [{"t": 3, "kind": "k", "sub": [{"v": 1}]}, {"t": 4, "kind": "", "sub": []}],
    }
]
ORDERS = [(FIRST, SECOND, THIRD), (THIRD, FIRST, SECOND), (SECOND, THIRD), (THIRD, SECOND, FIRST)]


def _written(folder: Path, files: Sequence[Sequence[dict[str, Any]]]) -> tuple[str, str]:
    """Write lines of JSON as several files and as one; return a pattern, and a path."""
    named = {f"part-{number}": rows for number, rows in enumerate(files)}
    for name, rows in {**named, "all": [row for one in files for row in one]}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "part-*.jsonl"), str(folder / "all.jsonl")


def _content(path: str, nulls: str) -> dict[str, object]:
    """Return all that the tensors of a file hold, but those that tell which records are null."""
    with lodcli.open(path, nulls=nulls) as file:
        read = file.read()
    return {
        name: (
            str(tensor.marks.unit or tensor.marks.values or tensor.dtype),
            [level.tolist() for level in tensor.lod.levels],
            [None if mask is None else mask.tolist() for _, mask in tensor.nulls.present()],
            tensor.values.tolist(),
        )
        for name, tensor in read.items()
        if not tensor.marks.tells_records
    }


@pytest.mark.parametrize("nulls", ["keep", "empty", "zero", "nan", "fill=7", "drop"])
@pytest.mark.parametrize("files", ORDERS)
def test_lines_cut_into_files_are_those_of_one_file(
    tmp_path: Path, files: Sequence[Sequence[dict[str, Any]]], nulls: str
) -> None:
    pattern, whole = _written(tmp_path, files)
    try:
        expected: object = _content(whole, nulls)
    except LodError as error:
        with pytest.raises(type(error)):
            _content(pattern, nulls)
    else:
        assert _content(pattern, nulls) == expected


@pytest.mark.parametrize("files", ORDERS)
def test_records_of_files_that_lack_them_are_null(
    tmp_path: Path, files: Sequence[Sequence[dict[str, Any]]], lod: Lod
) -> None:
    pattern, whole = _written(tmp_path, files)
    parts = sorted(str(path) for path in tmp_path.glob("part-*.jsonl"))
    for number, given in enumerate(([whole], [pattern], parts, [*parts, "--isolate"])):
        out = str(tmp_path / f"out-{number}.json")
        assert lod("concat", *given, "--nulls", "keep", "-o", out, "--quiet").code == 0
    first, *others = (json.loads((tmp_path / f"out-{n}.json").read_text()) for n in range(4))
    assert first[0]["id"] == files[0][0]["id"]
    assert others == [first] * 3


def test_parquet_files_are_joined_as_by_pyarrow(tmp_path: Path, lod: Lod) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    day = datetime.date(2024, 2, 29)
    tables = [
        pa.table({"n": [1, 2, None]}),
        pa.table(
            {
                "word": pa.array(["a", "b", "a"]).dictionary_encode(),
                "n": [3, 4, 5],
                "day": [day, None, day],
                "at": pa.array([{"x": 1}, None, {"x": 3}]),
                "events": pa.array([[{"t": 1}, {"t": 2}], None, []]),
            }
        ),
        pa.table(
            {
                "at": pa.array([{"x": 5, "y": ["p"]}]),
                "n": [6],
                "events": pa.array([[{"t": 9, "k": 0.5}]]),
                "price": pa.array([1], pa.decimal128(9, 2)),
            }
        ),
    ]
    for number, table in enumerate(tables):
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    plain = [one.cast(pa.schema([_without_words(field) for field in one.schema])) for one in tables]
    expected = pa.concat_tables(plain, promote_options="permissive").to_pylist()
    out = tmp_path / "out.parquet"
    line = ("convert", str(tmp_path / "?.parquet"), "--nulls", "keep", "-o", str(out))
    assert lod(*line).code == 0
    got = parquet.read_table(out).to_pylist()
    assert [{name: row[name] for name in expected[0]} for row in got] == expected


def _without_words(field: Any) -> Any:
    """Return a field of Arrow as text if it has categories."""
    words = getattr(field.type, "value_type", None) if "dictionary" in str(field.type) else None
    return field if words is None else field.with_type(words)


def test_containers_are_joined_if_their_tensors_have_equally_many_items(
    lod: Lod, folder: Path
) -> None:
    io.write("a.lod.h5", {"n": LoDTensor([1, 2]), "w": LoDTensor.from_lists([["a"], []])})
    io.write("b.lod.h5", {"n": LoDTensor([3]), "x": LoDTensor(np.ones((2, 3)), [[2]])})
    io.write("c.lod.h5", {"n": LoDTensor([4, 5]), "x": LoDTensor([6.0])})
    io.write("d.lod.h5", {"n": LoDTensor([7])})
    line = ("concat", "a.lod.h5", "b.lod.h5", "--nulls", "keep", "-o", "ab.jsonl", "--quiet")
    assert lod(*line).code == 0
    assert read_jsonl("ab.jsonl") == [
        {"n": 1, "w": ["a"], "x": None},
        {"n": 2, "w": [], "x": None},
        {"n": 3, "w": None, "x": [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]},
    ]
    for one, other in (("a", "c"), ("c", "d"), ("d", "c")):
        files = f"{one}.lod.h5", f"{other}.lod.h5"
        done = lod("concat", *files, "--nulls", "keep", "-o", "o.jsonl")
        assert done.code == 1
        assert f"{files[1]}: does not fit {files[0]}: it " in done.stderr
        assert "; nulls need files whose tensors have equally many items" in done.stderr


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow", "csv"])
@pytest.mark.parametrize(
    ("expression", "kept"), [("k == 2", [4]), ("k is None", [0, 1, 3]), ("n > 0 and k < 2", [2])]
)
def test_items_are_chosen_by_columns_that_a_file_lacks(
    lod: Lod, folder: Path, suffix: str, expression: str, kept: list[int]
) -> None:
    k = LoDTensor.from_lists([1, None, 2])
    io.write(f"a.{suffix}", {"n": LoDTensor([0, 1]), "m": LoDTensor([0, 1])})
    io.write(f"b.{suffix}", {"n": LoDTensor([2, 3, 4]), "k": k})
    line = ("filter", f"?.{suffix}", expression, "--nulls", "keep", "-o", "o.jsonl", "--quiet")
    assert lod(*line).code == 0
    assert [row["n"] for row in read_jsonl("o.jsonl")] == kept


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "csv"])
def test_chosen_columns_may_be_lacking(tmp_path: Path, suffix: str) -> None:
    rest = {"id": LoDTensor([1, 2]), "z": LoDTensor([3, 4])}
    io.write(tmp_path / f"part-0.{suffix}", rest)
    more = {"id": LoDTensor([3]), "z": LoDTensor.from_lists(["t"]), "score": LoDTensor([2.5])}
    io.write(tmp_path / f"part-1.{suffix}", more)
    pattern = str(tmp_path / f"part-*.{suffix}")
    # The texts of z do not fit its numbers, and are not read.
    with lodcli.open(pattern, nulls="keep", columns=["score", "id"]) as file:
        assert [spec.name for spec in file.schema] == ["score", "id"]
        assert file.read()["score"].to_list() == [None, None, 2.5]
    with lodcli.open(pattern, nulls="keep", columns=["score"]) as file:
        assert [item["score"].to_list() for item in file.batches()] == [[None, None], [2.5]]
    assert lodcli.read(pattern, "score", nulls="zero").data.tolist() == [0, 0, 2.5]
    with pytest.raises(SelectionError, match=r"part-0.*no .*'scores'.*id, z$"):
        lodcli.read(pattern, "scores")
    with pytest.raises(SelectionError, match=r"part-\*.*no .*'scores'; there are: id, z, score$"):
        lodcli.read(pattern, "scores", nulls="keep")
    with pytest.raises(
        SelectionError, match=r"no .*'score'.*dtype, each file must have the column; "
    ):
        lodcli.open(pattern, columns="score", nulls="keep", dtype="float32").close()
    keep = "; nulls='keep' reads columns that some files lack as nulls$"
    with pytest.raises(SelectionError, match=rf"part-0.*no .*'score'.*{keep}"):
        lodcli.read(pattern, "score")
    with pytest.raises(SelectionError, match="nulls='keep', without dtype, reads columns that"):
        lodcli.open(pattern, columns=["id", "score"], dtype="float32").close()


def test_renamed_columns_may_be_lacking(lod: Lod, folder: Path) -> None:
    Path("a.jsonl").write_text('{"id":1,"at":{"x":1}}\n')
    Path("b.jsonl").write_text('{"id":2,"at":{"x":2,"y":5},"score":2.5}\n')
    line = ("convert", "?.jsonl", "--nulls", "keep", "-fqo", "o.json", "--rename")
    assert lod(*line, "score=s", "--rename", "at.y=at.z").code == 0
    assert json.loads(Path("o.json").read_text()) == [
        {"id": 1, "at": {"x": 1, "z": None}, "s": None},
        {"id": 2, "at": {"x": 2, "z": 5}, "s": 2.5},
    ]
    assert lod(*line, "score=s", "--rename", "at.y=at.z", "--columns", "score,at.y").code == 0
    assert json.loads(Path("o.json").read_text()) == [
        {"s": None, "at": None},
        {"s": 2.5, "at": {"z": 5}},
    ]
    assert lodcli.read("?.jsonl", "i", rename={"id": "i"}, nulls="keep").data.tolist() == [1, 2]
    done = lod(*line, "nothing=s")
    assert (
        "?.jsonl: no tensor named 'nothing'; there are: id, at.x, at.present, at.y, score"
        in done.stderr
    )


def test_a_renamed_column_is_read_by_name_where_a_file_lacks_it(folder: Path) -> None:
    Path("1.jsonl").write_text('{"a":1}\n')
    Path("2.jsonl").write_text('{"a":1,"b":2}\n')
    new_names = {"b": "c"}
    for name, wanted in (("a", [1, 1]), ("c", [None, 2])):
        found = lodcli.read("?.jsonl", name, nulls="keep", rename=new_names)
        assert found.to_list() == wanted
    with pytest.raises(SelectionError, match="no tensor named 'b'; there are: a, c"):
        lodcli.read("?.jsonl", "b", nulls="keep", rename=new_names)
    with pytest.raises(SelectionError, match=r"1\.jsonl: no .* 'b'; .*; nulls='keep' reads"):
        lodcli.read("?.jsonl", "c", rename=new_names)


def test_the_error_for_a_column_of_a_file_between_others_says_how_these_may_lack_it(
    lod: Lod, folder: Path
) -> None:
    for number, row in enumerate(({"a": 1}, {"a": 1, "b": 2}, {"a": 1})):
        Path(f"{number}.jsonl").write_text(json.dumps(row) + "\n")
    keep = "--nulls keep reads columns that some files lack as nulls"
    for columns in ("b", "b,nothing"):
        assert keep in lod("convert", "?.jsonl", "--columns", columns, "-o", "o.json").stderr
    assert keep not in lod("convert", "?.jsonl", "--columns", "nothing", "-o", "o.json").stderr
    with pytest.raises(SelectionError, match="; nulls='keep' reads columns that some"):
        lodcli.read("?.jsonl", "b")


def test_the_error_for_a_tensor_of_one_file_says_how_others_may_lack_it(
    lod: Lod, folder: Path
) -> None:
    io.write("a.parquet", {"n": LoDTensor([1])})
    io.write("b.parquet", {"n": LoDTensor([2]), "x": LoDTensor([3])})
    line = ("concat", "a.parquet::x", "b.parquet::x", "-o", "o.parquet")
    assert "without ::x" not in lod(*line).stderr
    done = lod(*line, "--nulls", "keep")
    assert "a.parquet: no tensor named 'x'; there are: n; without ::x, tensors that" in done.stderr


def test_chosen_keys_of_folders_without_records_are_refused(folder: Path, lod: Lod) -> None:
    for year in (1, 2):
        Path(f"t/year={year}").mkdir(parents=True)
        io.write(f"t/year={year}/a.npz", {"a": LoDTensor([1]), "b": LoDTensor([1, 2])})
    done = lod("convert", "t", "--columns", "year", "--nulls", "keep", "-o", "o.npz")
    assert done.code == 2
    assert "'year' is in the names of folders, which are read only with formats" in done.stderr


def test_columns_in_names_of_folders_stay_beside_lacking_ones(lod: Lod, folder: Path) -> None:
    for day, row in (("d=2024-01-01", {"n": 1}), ("d=2024-01-02", {"n": 2, "x": 0.5})):
        Path("t", day).mkdir(parents=True)
        Path("t", day, "part.jsonl").write_text(json.dumps(row) + "\n")
    assert lod("convert", "t", "--nulls", "keep", "-o", "o.jsonl", "--quiet").code == 0
    assert read_jsonl("o.jsonl") == [
        {"n": 1, "x": None, "d": "2024-01-01"},
        {"n": 2, "x": 0.5, "d": "2024-01-02"},
    ]


def test_what_is_left_out_of_a_file_is_not_null(lod: Lod, folder: Path) -> None:
    Path("a.jsonl").write_text('{"id":1,"x":1}\n')
    Path("b.jsonl").write_text('{"id":2,"x":1}\n{"id":3,"x":"b"}\n')
    Path("c.jsonl").write_text('{"id":4,"k":1}\n')
    options = ("--nulls", "keep", "-o", "o.lod.h5")
    for line in (
        ("convert", "?.jsonl", "--skip-unsupported"),
        ("convert", "?.jsonl", "--columns", "x,k"),
        ("concat", "a.jsonl", "b.jsonl", "--skip-unsupported"),
    ):
        done = lod(*line, *options)
        assert (line, done.code) == (line, 1)
        assert "b.jsonl: line 2: field x: expected a number, found text" in done.stderr


def test_a_file_changed_between_its_two_openings_is_an_error(folder: Path) -> None:
    io.write("a.parquet", {"n": LoDTensor([1, 2]), "m": LoDTensor([1, 2])})
    io.write("b.parquet", {"n": LoDTensor([5]), "k": LoDTensor([6])})
    with lodcli.open("?.parquet", nulls="keep") as file:
        io.write("a.parquet", {one: LoDTensor([1, 2]) for one in "nmk"}, overwrite=True)
        with pytest.raises(DamagedFileError, match=r"a.parquet: .*changed"):
            file.read()


def test_a_difference_is_to_the_file_that_has_the_column(folder: Path) -> None:
    for name, row in (("a", {"n": 1}), ("b", {"n": 1, "x": 3}), ("c", {"n": 3, "x": 2.5})):
        Path(f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(ShapeMismatchError, match=r"c.jsonl: x: does not fit b.jsonl: it has dtype"):
        lodcli.open("?.jsonl", nulls="keep").close()


def test_columns_called_data_are_like_others_in_tables(folder: Path, lod: Lod) -> None:
    Path("a.csv").write_text("data\n1\n")
    Path("b.csv").write_text("x\n2\n")
    assert lod("convert", "?.csv", "--nulls", "keep", "-o", "o.jsonl").code == 0
    assert read_jsonl("o.jsonl") == [{"data": 1, "x": None}, {"data": None, "x": 2}]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"n": 1, "e": 1}, {"n": 2, "e": {"x": 1}}),
        ({"n": 1, "e": {"x": 1}}, {"n": 2, "e": [{"y": 1}]}),
    ],
)
def test_records_of_another_depth_are_refused(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    pattern, _ = _written(tmp_path, ([first], [second]))
    with pytest.raises(ShapeMismatchError, match="'e' holds records in some files, and "):
        lodcli.open(pattern, nulls="keep").close()


def test_one_tensor_without_a_name_is_that_of_the_others(lod: Lod, folder: Path) -> None:
    io.write("a.npy", LoDTensor([1, 2]))
    io.write("b.parquet", {"n": LoDTensor([3])})
    assert lod("concat", "a.npy", "b.parquet", "--nulls", "keep", "-o", "o.parquet").code == 0
    assert lodcli.read("o.parquet").data.tolist() == [1, 2, 3]


# Of each column: values, and the same without any that tells its type, or how deep it is.
VALUELESS: list[tuple[Any, Any]] = [
    (3, None),
    ("ü", None),
    ([1, None, 2], []),
    ([["a"], []], [None]),
    ([["a"], []], None),
    ({"x": 1, "y": ["q"]}, None),
    ([{"x": 1, "y": {"z": 2.5}}], []),
    ([{"x": 1, "y": {"z": 2.5}}], None),
    ([{"x": 1, "y": {"z": 2.5}}], [{"x": None, "y": None}]),
]


@pytest.mark.parametrize("options", [(), ("--isolate",)], ids=["", "isolated"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_column_without_values_has_the_type_of_the_others(
    lod: Lod, tmp_path: Path, turned: bool, options: tuple[str, ...]
) -> None:
    pairs = {f"c{number}": pair for number, pair in enumerate(VALUELESS)}
    files = [[{"id": n, **{name: pair[n] for name, pair in pairs.items()}}] for n in (0, 1)]
    pattern, whole = _written(tmp_path, files[::-1] if turned else files)
    parts = sorted(str(path) for path in tmp_path.glob("part-*.jsonl"))
    found = []
    for number, given in enumerate(([whole], [pattern], parts)):
        out = str(tmp_path / f"out-{number}.parquet")
        line = ("concat", *given, "--nulls", "keep", "-o", out, "--quiet")
        assert lod(*line, *options).stderr == ""
        assert lod("convert", out, "-fqo", str(tmp_path / "o.jsonl")).code == 0
        found.append(read_jsonl(str(tmp_path / "o.jsonl")))
    assert found[0][turned] == files[0][0]
    assert found[1:] == [found[0], found[0]]


def test_columns_of_nulls_only_have_the_type_of_the_others(lod: Lod, folder: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    full = [{"a": datetime.date(2024, 1, 2), "b": [{"x": ["p"]}], "c": 5}]
    for number, rows in enumerate(([{"a": None, "b": [None], "c": None}], full)):
        parquet.write_table(pa.Table.from_pylist(rows), f"{number}.parquet")
    assert lod("convert", "?.parquet", "--nulls", "keep", "-qo", "out.parquet").code == 0
    assert parquet.read_table("out.parquet").to_pylist() == [
        {"a": None, "b": [None], "c": None},
        *full,
    ]
    Path("0.csv").write_text("a,b,c\n1,,\n2,NA,\n")
    Path("1.csv").write_text("a,b,c\n3,7,x\n")
    assert lod("convert", "?.csv", "--nulls", "keep", "-qo", "o.jsonl").code == 0
    rows = [{"a": 1, "b": None, "c": None}, {"a": 2, "b": None, "c": None}]
    assert read_jsonl("o.jsonl") == [*rows, {"a": 3, "b": 7, "c": "x"}]


def test_values_after_the_beginning_of_a_column_without_values_are_not_lost(
    lod: Lod, folder: Path
) -> None:
    Path("0.csv").write_text("a,b\n" + "1,\n" * 200_000 + "2,5\n")
    Path("1.csv").write_text("a,b\n3,7\n")
    done = lod("convert", "?.csv", "--nulls", "keep", "-qo", "o.jsonl")
    assert done.code == 1
    assert "0.csv: b: the beginning of the file has only nulls or empty lists" in done.stderr
    assert lod("cast", "0.csv", "b=int64", "--nulls", "keep", "-qo", "2.parquet").code == 0


@pytest.mark.parametrize(
    ("first", "second", "columns"),
    [
        ({"id": 1, "e": "text"}, {"id": 2, "e": {"x": 1}}, "id,e.x"),
        ({"id": 1, "e": [{"x": 1}]}, {"id": 2, "e": {"x": 1, "y": 5}}, "id,e.y"),
    ],
)
def test_records_of_another_depth_are_refused_if_they_are_not_chosen(
    lod: Lod, tmp_path: Path, first: dict[str, Any], second: dict[str, Any], columns: str
) -> None:
    for files in ([first], [second]), ([second], [first]):
        pattern, _ = _written(tmp_path, files)
        line = ("convert", pattern, "--columns", columns, "--nulls", "keep", "-fo")
        done = lod(*line, str(tmp_path / "o.json"))
        assert done.code == 1
        assert "'e' holds records in some files, and " in done.stderr


def test_files_that_lack_columns_are_forgotten_once_they_are_read(folder: Path) -> None:
    for number in range(3):
        Path(f"{number}.csv").write_text("id\n1\n" if number else "id,x\n1,2\n")
    with lodcli.open("?.csv", nulls="keep", columns=["x"]) as file:
        collect()
        before = len(get_objects())
        for _ in range(5):
            assert sum(len(batch["x"]) for batch in file.batches()) == 3
        collect()
        assert len(get_objects()) - before < 200


def test_one_tensor_without_a_name_is_that_of_a_header(lod: Lod, folder: Path) -> None:
    io.write("a.npy", LoDTensor([6, 7]))
    Path("b.csv").write_text("x\n")
    for nulls in ([], ["--nulls", "keep"]):
        assert lod("concat", "a.npy", "b.csv", *nulls, "-fo", "o.npy").code == 0
        assert lodcli.read("o.npy").data.tolist() == [6, 7]


def test_csv_files_read_in_a_child_process_may_lack_columns(lod: Lod, folder: Path) -> None:
    Path("a.csv").write_text("id,n\n0,1\n")
    Path("b.csv").write_text("id,s\n1,2.5\n")
    line = ("convert", "?.csv", "--nulls", "keep", "--isolate", "-qo", "o.jsonl")
    assert lod(*line).code == 0
    rows = [{"id": 0, "n": 1, "s": None}, {"id": 1, "n": None, "s": 2.5}]
    assert read_jsonl("o.jsonl") == rows
