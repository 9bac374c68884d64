"""`lod concat`: batches one after another."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.commands.concat import joining
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.schema import Schema
from lodcli.formats.items.concatenated import joined_schema
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, read_jsonl, tensor, tensors

REMEDY = (
    "--nulls keep reads tensors that some files lack as nulls, "
    "lod drop removes tensors that some files lack"
)


def save(path: str, values: list[float], lengths: list[list[int]], **more: object) -> None:
    dtype = np.dtype(str(more.get("dtype", "float32")))
    names = more.get("names")
    lod = LoD.from_lengths(lengths, names if isinstance(names, list) else None)
    io.write(path, {str(more.get("name", "data")): LoDTensor(np.array(values, dtype), lod)})


def test_batches_follow_one_another_along_the_outermost_level(lod: Lod, folder: Path) -> None:
    save("a.lod.h5", [1, 2, 3], [[2], [1, 2]], names=["day", "hour"])
    save("b.npz", [4, 5], [[1, 0], [2]])
    done = lod("concat", "a.lod.h5", "b.npz", "a.lod.h5", "-o", "out.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    found = tensor("out.lod.h5")
    assert found.data.tolist() == [1, 2, 3, 4, 5, 1, 2, 3]
    assert found.recursive_sequence_lengths() == [[2, 1, 0, 2], [1, 2, 2, 1, 2]]
    assert found.lod.names == ("day", "hour")


def test_each_file_becomes_an_item_of_a_new_level(lod: Lod, folder: Path) -> None:
    arrays = [np.arange(2.0 * rows).reshape(rows, 2) for rows in (3, 0, 5)]
    for number, array in enumerate(arrays):
        np.save(f"{number}.npy", array)
    files = [f"{number}.npy" for number in range(3)]
    assert lod("concat", *files, "--new-level", "clip", "-o", "clips.lod.h5").clean
    found = tensor("clips.lod.h5")
    assert found.lod.names == ("clip",)
    assert found.recursive_sequence_lengths() == [[3, 0, 5]]
    np.testing.assert_array_equal(found.data, np.concatenate(arrays))
    assert (
        lod("concat", "many.lod.h5", "many.lod.h5", "--new-level", "day", "-o", "d.lod.h5").code
        == 0
    )
    before, after = tensors("many.lod.h5"), tensors("d.lod.h5")
    for name, one in before.items():
        two = after[name]
        assert two.lod.names == ("day", *one.lod.names)
        assert two.lod.lengths(0).tolist() == [len(one)] * 2
        assert all(two[item].identical(one) for item in range(2))
    vectors, tags = after["vectors"], after["tags"]
    assert vectors.lod.levels[0] is tags.lod.levels[0]


def test_tensors_without_levels_get_a_level_each(lod: Lod, folder: Path) -> None:
    io.write("flat.lod.h5", {"a": LoDTensor([1, 2, 3]), "b": LoDTensor([4, 5])})
    args = ("flat.lod.h5", "flat.lod.h5", "--new-level", "day", "-o", "out.lod.h5")
    assert lod("concat", *args).code == 0
    found = io.read_all("out.lod.h5")
    lists = {name: item.to_list() for name, item in found.items() if isinstance(item, LoDTensor)}
    assert lists == {"a": [[1, 2, 3]] * 2, "b": [[4, 5]] * 2}


def test_a_new_level_needs_a_name_of_its_own(lod: Lod, folder: Path) -> None:
    save("a.lod.h5", [1, 2, 3], [[2], [1, 2]], names=["day", "hour"])
    done = lod("concat", "a.lod.h5", "a.lod.h5", "--new-level", "hour", "-o", "out.lod.h5")
    assert done.code == 2
    assert "data: has a level called hour already; choose another" in done.stderr
    done = lod("concat", "a.lod.h5", "a.lod.h5", "--new-level", "", "-o", "out.lod.h5")
    assert done.code != 0
    assert not Path("out.lod.h5").exists()


def test_tensors_that_share_levels_still_do(lod: Lod, folder: Path) -> None:
    assert lod("concat", "many.lod.h5", "many.lod.h5", "-o", "out.lod.h5").code == 0
    found = tensors("out.lod.h5")
    vectors, tags = found["vectors"], found["tags"]
    assert vectors.lod.levels[0] is tags.lod.levels[0]
    assert tags.data.tolist() == [*range(15), *range(15)]


@pytest.mark.parametrize(
    ("lengths", "more", "said"),
    [
        ([[1]], {}, "1 level, not 2"),
        ([[1], [1]], {"dtype": "int8"}, "dtype int8, not float32; lod cast data=float32\n"),
        ([[1], [1]], {"names": ["day", "minute"]}, "level 1 called minute, not hour"),
    ],
)
def test_files_that_do_not_fit_are_refused_before_anything_is_written(
    lod: Lod, folder: Path, lengths: list[list[int]], more: dict[str, object], said: str
) -> None:
    save("a.lod.h5", [1, 2, 3], [[2], [1, 2]], names=["day", "hour"])
    save("b.lod.h5", [1], lengths, **more)
    done = lod("concat", "a.lod.h5", "b.lod.h5", "-o", "out.lod.h5")
    assert done.code == 1
    assert said in done.stderr
    assert done.stderr.startswith("lod concat: b.lod.h5: data: does not fit a.lod.h5: it has ")
    assert not Path("out.lod.h5").exists()


@pytest.mark.parametrize(
    ("other", "tensor", "expected", "found", "remedy"),
    [
        (
            {"n m": [1.5], "k": ["a"]},
            "n m",
            "int64",
            "float64",
            "lod cast 'n m=float64' converts a.lod.h5",
        ),
        ({"n m": ["12"], "k": ["a"]}, "n m", "int64", "text", "lod cast 'n m=int64'"),
        ({"n m": [1], "k": [["a"]]}, "k", "1", "2 levels", None),
        ({"n m": [1]}, None, "k", None, REMEDY),
    ],
)
def test_the_error_as_json_names_the_tensor_and_what_differs(
    lod: Lod,
    folder: Path,
    other: dict[str, list[object]],
    tensor: str | None,
    expected: str,
    found: str | None,
    remedy: str | None,
) -> None:
    files: dict[str, dict[str, list[object]]] = {
        "a.lod.h5": {"n m": [1], "k": ["a"]},
        "b.lod.h5": other,
    }
    for path, lists in files.items():
        io.write(path, {name: LoDTensor.from_lists(one) for name, one in lists.items()})
    done = lod("concat", "a.lod.h5", "b.lod.h5", "-o", "out.lod.h5", "--json")
    error = json.loads(done.stderr)["error"]
    assert (error["file"], error["dataset"]) == ("b.lod.h5", tensor)
    assert (error["expected"], error["found"], error["remedy"]) == (expected, found, remedy)
    if tensor == "n m":
        assert lod("cast", "b.lod.h5", "n m=int64", "--unsafe", "-o", "c.lod.h5").code == 0
        assert lod("concat", "a.lod.h5", "c.lod.h5", "-o", "out.lod.h5").code == 0


def test_levels_that_coincide_in_one_source_only_are_not_shared(lod: Lod, folder: Path) -> None:
    same, other = LoD.from_lengths([[1, 2]]), LoD.from_lengths([[2, 1]])
    rows = np.arange(3)
    for path, b in (("one.lod.h5", same), ("two.lod.h5", other), ("three.npz", same)):
        io.write(path, {"a": LoDTensor(rows, same), "b": LoDTensor(rows, b)})
    for suffix in ("lod.h5", "lods", "npz", "parquet"):
        out = f"out.{suffix}"
        assert lod("concat", "one.lod.h5", "two.lod.h5", "three.npz", "-o", out).stderr == ""
        assert tensor(out, "a").recursive_sequence_lengths() == [[1, 2, 1, 2, 1, 2]]
        assert tensor(out, "b").recursive_sequence_lengths() == [[1, 2, 2, 1, 1, 2]]
    assert lod("concat", "one.lod.h5", "three.npz", "-o", "shared.lod.h5").code == 0
    with lodcli.open("shared.lod.h5") as source:
        one, two = source.schema
    assert one.levels == two.levels


def test_other_tensors_are_refused(lod: Lod, folder: Path) -> None:
    done = lod("concat", "many.lod.h5", "words.lod.h5", "-o", "out.lod.h5")
    assert done.code == 1
    assert "it holds the tensors data, not vectors, tags, other" in done.stderr


def test_an_error_names_only_the_tensors_that_differ(lod: Lod, folder: Path) -> None:
    Path("a.csv").write_text("x,y\n1,2\n")
    Path("b.csv").write_text("x,y,z\n1,2,3\n")
    remedy = f"; {REMEDY}\n"
    for line, said in (
        (("concat", "a.csv", "b.csv"), "b.csv: does not fit a.csv: it also holds z"),
        (("concat", "b.csv", "a.csv"), "a.csv: does not fit b.csv: it lacks z"),
        (("convert", "?.csv"), "b.csv: does not fit a.csv: it also holds z"),
    ):
        done = lod(*line, "-o", "o.jsonl")
        assert (done.code, done.stderr) == (1, f"lod {line[0]}: {said}{remedy}")
    assert lod("drop", "b.csv", "z", "-o", "c.csv").code == 0
    assert lod("concat", "a.csv", "c.csv", "-o", "o.jsonl").code == 0
    assert read_jsonl("o.jsonl") == [{"x": 1, "y": 2}] * 2


RECORDS = (
    {"id": 1, "text": "é", "s": {"n": 2, "tags": ["a", "b"]}},
    {"s": {"tags": ["c"], "n": 3}, "text": "", "id": 4},
)


@pytest.mark.parametrize("kind", ["jsonl", "lod.h5", "lods", "parquet", "npz"])
def test_tensors_may_be_in_another_order_in_each_file(kind: str, lod: Lod, folder: Path) -> None:
    for number, record in enumerate(RECORDS):
        Path(f"in-{number}.jsonl").write_text(json.dumps(record))
        assert lod("convert", "-q", f"in-{number}.jsonl", f"p-{number}.{kind}").code == 0
    for line in (
        ("concat", f"p-0.{kind}", f"p-1.{kind}"),
        ("convert", f"p-*.{kind}"),
        ("sort", f"p-*.{kind}", "--by", "id"),
        ("filter", f"p-*.{kind}", "id > 0"),
    ):
        assert lod(*line, "-fqo", "out.jsonl").clean
        found = read_jsonl("out.jsonl")
        assert found == [*RECORDS]
        assert [*found[1]] == ["id", "text", "s"]
    assert lod("filter", f"p-*.{kind}", "id == 4", "-fqo", "out.jsonl").code == 0
    assert read_jsonl("out.jsonl") == [RECORDS[1]]


EVENTS = {
    "jsonl": ("", '{"n":1,"s":{"t":"a"}}\n', "\n", '{"s":{"t":"b"},"n":2}\n'),
    "json": ("[]", '[{"n":1,"s":{"t":"a"}}]', "[ ]", '[{"n":2,"s":{"t":"b"}}]'),
    "csv": ("s.t,n\n", "n,s.t\n1,a\n", "n,s.t\n", "s.t,n\nb,2\n"),
}


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("first", [0, 1])
def test_a_file_without_values_fits_files_of_any_dtypes(
    first: int, kind: str, lod: Lod, folder: Path
) -> None:
    for number, text in enumerate(EVENTS[kind][first:]):
        Path(f"day-{number}.{kind}").write_text(text)
    names = sorted(map(str, Path().glob("day-*")))
    for line, wanted in (
        (("concat", *names), [1, 2]),
        (("convert", f"day-*.{kind}"), [1, 2]),
        (("filter", f"day-*.{kind}", "n > 1"), [2]),
        (("sort", f"day-*.{kind}", "--by", "-n"), [2, 1]),
    ):
        assert lod(*line, "-fqo", "out.lod.h5").clean
        found = lodcli.read_all("out.lod.h5")
        assert found["n"].dtype == np.int64
        assert found["n"].data.tolist() == wanted
        assert found["s.t"].to_list() == [".ab"[number] for number in wanted]
    assert lod("concat", *names, "--new-level", "day", "-fqo", "out.jsonl").code == 0
    each = [line["n"] for line in read_jsonl("out.jsonl")]
    assert each == [[], [1], [], [2]][first:]


@pytest.mark.parametrize(
    "files",
    [
        *("f.jsonl::q e.jsonl", "e.jsonl::q f.jsonl::q", "e.jsonl::data f.jsonl::q"),
        *("h.csv::q g.csv::q", "h.csv::q e.jsonl f.jsonl::q"),
    ],
)
def test_a_file_without_values_fits_the_selected_tensor(files: str, lod: Lod, folder: Path) -> None:
    Path("e.jsonl").touch()
    Path("f.jsonl").write_text('{"q":3,"z":1}\n')
    Path("h.csv").write_text("q,a\n")
    Path("g.csv").write_text("z,q\n1,3\n")
    assert lod("concat", *files.split(), "-o", "o.lod.h5").code == 0
    found = lodcli.read_all("o.lod.h5")
    assert (list(found), found["q"].dtype, found["q"].data.tolist()) == (["q"], np.int64, [3])


def test_an_error_for_files_behind_one_without_values_names_the_first_with_values(
    lod: Lod, folder: Path
) -> None:
    for name, text in (("a", ""), ("b", '{"n":1}'), ("c", '{"n":0.5}')):
        Path(f"{name}.jsonl").write_text(text)
    for line in ("convert [abc].jsonl", "concat a.jsonl b.jsonl c.jsonl"):
        done = lod(*line.split(), "-o", "o.lod.h5")
        assert done.code == 1
        assert "c.jsonl: n: does not fit b.jsonl: it has dtype float64, not int64" in done.stderr


def test_what_is_left_out_is_told_behind_a_file_without_values(lod: Lod, folder: Path) -> None:
    Path("1.jsonl").touch()
    Path("2.jsonl").write_text('{"n":1,"u":[1,"a"]}\n')
    done = lod("convert", "[12].jsonl", "--skip-unsupported", "-o", "o.jsonl")
    assert done.code == 0
    assert "u is left out" in done.stderr
    assert read_jsonl("o.jsonl") == [1]


def test_columns_are_chosen_of_files_of_which_one_has_no_values(lod: Lod, folder: Path) -> None:
    Path("1.jsonl").touch()
    Path("2.jsonl").write_text('{"n":1,"u":2}\n')
    assert lod("convert", "[12].jsonl", "--columns", "u", "-qo", "o.jsonl").code == 0
    assert read_jsonl("o.jsonl") == [2]
    Path("2.jsonl").write_text("")
    assert lod("convert", "[12].jsonl", "--columns", "u", "-fqo", "o.jsonl").code == 0
    assert read_jsonl("o.jsonl") == []


def test_files_without_values_alone_fit_each_other(lod: Lod, folder: Path) -> None:
    Path("a.csv").write_text("x,y\n")
    Path("b.csv").write_text("y,x\n")
    Path("c.jsonl").touch()
    for line in ("concat a.csv b.csv", "concat c.jsonl b.csv a.csv", "convert [ab].csv"):
        assert lod(*line.split(), "-fqo", "o.csv").code == 0
        assert Path("o.csv").read_text() in ("x,y\n", "y,x\n")
    done = lod("concat", "c.jsonl::q", "c.jsonl::q", "-o", "o.jsonl")
    assert (done.code, done.stderr) == (
        2,
        "lod concat: c.jsonl: no tensor named 'q'; there are: data\n",
    )


def test_a_file_without_values_fits_a_field_of_records_that_may_be_null(
    lod: Lod, folder: Path
) -> None:
    Path("a.jsonl").write_text('{"s":{"a":1,"c":1}}\n{"s":{"a":null,"c":null}}\n{"s":null}\n')
    Path("b.jsonl").write_text('{"s":{"a":2,"c":1}}\n')
    for name in "ab":
        assert lod("convert", f"{name}.jsonl", "--nulls", "keep", f"{name}.parquet").code == 0
    Path("e.jsonl").touch()
    for files, wanted in (
        ("a.parquet::s.a b.parquet::s.a e.jsonl", [1, None, None, 2]),
        ("e.jsonl b.parquet::s.a", [2]),
    ):
        assert lod("concat", *files.split(), "-fo", "o.lod.h5").code == 0
        assert lodcli.read("o.lod.h5", "s.a").to_list() == wanted


def test_a_table_without_rows_needs_the_same_columns(lod: Lod, folder: Path) -> None:
    Path("a.csv").write_text("x,y\n1,2\n")
    Path("b.csv").write_text("x,z\n")
    done = lod("concat", "a.csv", "b.csv", "-o", "o.jsonl")
    assert (done.code, done.stderr) == (
        1,
        "lod concat: b.csv: does not fit a.csv: it holds the tensors z, not y; "
        "--nulls keep reads tensors that some files lack as nulls\n",
    )


@pytest.mark.parametrize(
    ("one", "value", "other", "more", "remedy"),
    [
        ("int64", 1, "float64", 1.5, "float64 converts a.lod.h5"),
        ("float64", 1.5, "int64", 1, "float64"),
        ("int8", 1, "int64", 300, "int64 converts a.lod.h5"),
        ("bool", 1, "float64", 1.5, "float64 converts a.lod.h5"),
        ("int64", 2**53 - 1, "float16", 1.5, "float64 converts both"),
        ("uint8", 200, "int8", -1, "int16 converts both"),
        ("int32", 1, "uint64", 2**63 + 1, "uint64 converts a.lod.h5"),
        ("uint64", 2**63 + 1, "int8", 1, "uint64"),
        ("float64", 1.5, "complex64", 1j, "complex128 converts both"),
        ("float32", 1.5, "complex64", 1j, "complex64 converts a.lod.h5"),
        ("bfloat16", 1.5, "int64", 2**31 - 1, "float64 converts both"),
        ("float32", 1.5, "bfloat16", 2.5, "float32"),
    ],
)
def test_other_dtypes_are_an_error_with_the_cast_that_helps(
    lod: Lod, folder: Path, one: str, value: float, other: str, more: complex, remedy: str
) -> None:
    for path, dtype, number in (("a.lod.h5", one, value), ("b.lod.h5", other, more)):
        io.write(path, {"x": LoDTensor(np.array([number]).astype(dtype_of_rows(dtype)))})
    done = lod("concat", "a.lod.h5", "b.lod.h5", "-o", "o.lod.h5")
    said = f"x: does not fit a.lod.h5: it has dtype {other}, not {one}; lod cast x={remedy}\n"
    assert (done.code, done.stderr) == (1, f"lod concat: b.lod.h5: {said}")
    common, _, which = remedy.partition(" converts ")
    for path in {"": ["b.lod.h5"], "both": ["a.lod.h5", "b.lod.h5"]}.get(which, [which]):
        assert lod("cast", path, f"x={common}", "-fo", path).clean
    assert lod("concat", "a.lod.h5", "b.lod.h5", "-o", "o.lod.h5").code == 0
    assert tensor("o.lod.h5").data.tolist() == [value, more]


def test_a_pipe_is_read_once(shell: Lod, folder: Path) -> None:
    assert shell("lod slice words.lod.h5 :1 | lod concat words.lod.h5 - -o out.lod.h5").clean
    assert tensor("out.lod.h5").recursive_sequence_lengths()[0] == [3, 1, 2, 3]
    assert shell("lod concat <(lod slice words.lod.h5 :1) words.lod.h5 -o two.lod.h5").clean
    assert tensor("two.lod.h5").recursive_sequence_lengths()[0] == [3, 3, 1, 2]


def test_standard_input_can_be_given_once(lod: Lod, folder: Path) -> None:
    done = lod("concat", "-", "-", "-o", "out.lod.h5")
    assert done.code == 2
    assert "given twice" in done.stderr


def test_a_file_that_is_replaced_between_its_two_readings_is_named(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("a.npz", [1, 2, 3], [[2, 1]])
    save("b.npz", [4, 5], [[2]])

    def meanwhile(*args: Any) -> Schema:
        Path("b.npz").unlink()
        save("b.npz", [4, 5, 6], [[2, 1]])
        return joined_schema(*args)

    monkeypatch.setattr(joining, "joined_schema", meanwhile)
    done = lod("concat", "a.npz", "b.npz", "-o", "out.lod.h5")
    assert done.code == 1
    assert done.stderr == "lod concat: b.npz: was changed while it was read; read it again\n"
    assert not Path("out.lod.h5").exists()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_file_that_loses_its_values_between_its_two_readings_is_named(
    kind: str, lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = {"csv": "x\n1\n", "jsonl": '{"x":1}\n'}[kind]
    for name in "ab":
        Path(f"{name}.{kind}").write_text(text)

    def meanwhile(*args: Any) -> Schema:
        Path(f"b.{kind}").write_text({"csv": "x\n", "jsonl": ""}[kind])
        return joined_schema(*args)

    monkeypatch.setattr(joining, "joined_schema", meanwhile)
    done = lod("concat", f"a.{kind}", f"b.{kind}", "-o", "out.lod.h5")
    assert done.code == 1
    assert done.stderr == f"lod concat: b.{kind}: was changed while it was read; read it again\n"
    assert not Path("out.lod.h5").exists()


def test_few_containers_are_opened_once(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io.write("one.lod.h5", LoDTensor([1, 2, 3], [[2, 1]]))
    labels: list[str] = []
    init = ContainerSource.__init__

    def counted(self: ContainerSource, fd: int, label: str, *, mmap: bool = False) -> None:
        labels.append(label)
        init(self, fd, label, mmap=mmap)

    monkeypatch.setattr(ContainerSource, "__init__", counted)
    assert lod("concat", "one.lod.h5", "one.lod.h5", "-o", "few.lods").code == 0
    assert labels == ["one.lod.h5"] * 2
    assert lod("concat", *["one.lod.h5"] * 9, "-o", "many.lods").code == 0
    assert labels[2:] == ["one.lod.h5"] * 18
    assert tensor("many.lods").to_list() == [[1, 2], [3]] * 9


@pytest.mark.parametrize(
    ("first", "second", "kinds", "remedy"),
    [
        ('{"zip":"01"}', '{"zip":12}', "int64, not text", "zip=text"),
        ('{"zip":12}', '{"zip":"01"}', "text, not int64", "zip=int64"),
        ('{"zip":1.5}', '{"zip":"01"}', "text, not float64", "zip=float64"),
        ('{"zip":["1","2"]}', '{"zip":[12]}', "int64, not text", "zip=text"),
        ('{"zip":[12]}', '{"zip":["1","2"]}', "text, not int64", "zip=int64"),
        ('{"zip":"01"}', '{"zip":1.5}', "float64, not text", ""),
        ('{"zip":"01"}', '{"zip":[12]}', "int64, not text", ""),
        ('{"zip":[12]}', '{"zip":"01"}', "text, not int64", ""),
        ('{"zip":["1"]}', '{"zip":12}', "int64, not text", ""),
    ],
)
def test_text_beside_numbers_is_an_error_with_the_cast_that_helps(
    lod: Lod, folder: Path, first: str, second: str, kinds: str, remedy: str
) -> None:
    Path("a.jsonl").write_text(first)
    Path("b.jsonl").write_text(second)
    done = lod("concat", "a.jsonl", "b.jsonl", "-o", "o.jsonl")
    said = f"b.jsonl: zip: does not fit a.jsonl: it has {kinds}"
    said += f"; lod cast {remedy}" if remedy else ""
    assert (done.code, done.stderr) == (1, f"lod concat: {said}\n")
    if remedy:
        assert lod("cast", "-q", "b.jsonl", remedy, "-o", "c.lod.h5").code == 0
        assert lod("concat", "-q", "a.jsonl", "c.lod.h5", "-o", "o.jsonl").code == 0


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("decimal", "text", "text, not decimal(5, 2); lod cast 'data=decimal(5, 2)'"),
        ("narrow", "text", "text, not decimal(5, 2); lod cast 'data=decimal32(5, 2)'"),
        ("long", "text", "text, not decimal(40, 2); lod cast 'data=decimal(40, 2)'"),
        ("text", "decimal", "decimal(5, 2), not text; lod cast data=text"),
        ("complex", "text", "text, not complex64"),
        (
            "complex",
            "float",
            "dtype float64, not complex64; lod cast data=complex128 converts both",
        ),
        (
            "float",
            "complex",
            "dtype complex64, not float64; lod cast data=complex128 converts both",
        ),
        ("pairs", "text", "text, not int64"),
        ("text", "pairs", "int64, not text"),
        ("pairs", "float", "dtype float64, not int64"),
        ("bytes", "text", "text, not bytes"),
        ("text", "bytes", "bytes, not text"),
    ],
)
def test_a_cast_is_advised_only_where_it_helps(
    lod: Lod, folder: Path, first: str, second: str, said: str
) -> None:
    values = {
        "text": LoDTensor.from_lists(["1.25"]),
        "bytes": LoDTensor.from_lists([b"1.25"]),
        "float": LoDTensor([1.5]),
        "complex": LoDTensor(np.array([1 + 2j], np.complex64)),
        "pairs": LoDTensor([[1, 2], [3, 4]]),
    }
    for name, tensor_ in values.items():
        io.write(f"{name}.lod.h5", tensor_)
    for name, kind in (
        ("decimal", "decimal(5, 2)"),
        ("narrow", "decimal32(5, 2)"),
        ("long", "decimal(40, 2)"),
    ):
        assert lod("cast", "-q", "text.lod.h5", f"data={kind}", "-o", f"{name}.lod.h5").code == 0
    done = lod("concat", f"{first}.lod.h5", f"{second}.lod.h5", "-o", "o.lod.h5")
    where = f"lod concat: {second}.lod.h5: data: does not fit {first}.lod.h5: it has "
    assert (done.code, done.stderr) == (1, f"{where}{said}\n")
    _, cast, remedy = said.partition("; lod cast ")
    if cast:
        dtype, *both = shlex.split(remedy)
        for name in (first, second) if both else (second,):
            assert lod("cast", "-q", f"{name}.lod.h5", dtype, "-fo", f"{name}.lod.h5").code == 0
        assert (
            lod("concat", "-q", f"{first}.lod.h5", f"{second}.lod.h5", "-o", "o.lod.h5").code == 0
        )
