"""`lod select`, `drop`, `rename` and `merge`."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import lodcli
from lodcli.formats.core import io, schema
from lodcli.kernels.index import checks
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor, tensors


def held(path: str) -> list[str]:
    return list(io.read_all(path))


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["select", "many.lod.h5", "tags"], ["tags"]),
        (["select", "many.lod.h5", "other", "vectors"], ["other", "vectors"]),
        (["drop", "many.lod.h5", "tags"], ["vectors", "other"]),
        (["rename", "many.lod.h5", "tags=words"], ["vectors", "words", "other"]),
        (["rename", "many.lod.h5", "tags=other", "other=tags"], ["vectors", "other", "tags"]),
        (["rename", "many.lod.h5::tags", "tags=a"], ["a"]),
    ],
    ids=lambda value: " ".join(value),
)
@pytest.mark.parametrize("suffix", ["lod.h5", "lods"])
def test_these_tensors_are_written(
    lod: Lod, folder: Path, args: list[str], names: list[str], suffix: str
) -> None:
    assert lod("convert", "many.lod.h5", f"in.{suffix}").code == 0
    args = [arg.replace("many.lod.h5", f"in.{suffix}") for arg in args]
    done = lod(*args, "-o", "out.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert held("out.lod.h5") == names
    old = {new: old for old, _, new in (arg.partition("=") for arg in args) if new}
    for name in names:
        assert tensor("out.lod.h5", name).identical(tensor("many.lod.h5", old.get(name, name)))


def test_levels_stay_shared(lod: Lod, folder: Path) -> None:
    assert lod("drop", "many.lod.h5", "other", "-o", "out.lod.h5").code == 0
    with lodcli.open("out.lod.h5") as source:
        one, two = source.schema
    assert one.levels == two.levels


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["select", "many.lod.h5", "tag"], "no tensor named 'tag'; there are: vectors, tags"),
        (["drop", "many.lod.h5", "tags", "other", "vectors"], "no tensor would be left"),
        (["drop", "many.lod.h5", "x"], "no tensor named 'x'"),
        (["rename", "many.lod.h5", "tags"], "write OLD=NEW"),
        (["rename", "many.lod.h5", "tags="], "'tags=' renames nothing"),
        (["rename", "many.lod.h5", "=x"], "'=x' renames nothing"),
        (["rename", "many.lod.h5", "tags=other"], "two tensors would be called other"),
        (["rename", "many.lod.h5", "x=y"], "no tensor named 'x'"),
        (["rename", "many.lod.h5", "tags=a", "tags=b"], "tags is renamed twice"),
        (["rename", "many.lod.h5", "tags=a/../b"], "a/../b"),
        (["merge", "many.lod.h5"], "give two files"),
        (["merge", "-", "-"], "- is given twice"),
        (["merge", "many.lod.h5", "many.lod.h5"], "rename it first: lod rename many.lod.h5"),
    ],
)
def test_an_invalid_argument_is_an_error_of_one_line(
    lod: Lod, folder: Path, args: list[str], said: str
) -> None:
    done = lod(*args, "-o", "new.lod.h5")
    assert done.code in (1, 2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not Path("new.lod.h5").exists()


def test_merged_tensors_share_one_index(lod: Lod, folder: Path) -> None:
    words = tensor("words.lod.h5")
    scores = LoDTensor(np.arange(15.0), LoD(words.lod.levels))
    marks = LoDTensor(np.arange(6), LoD(words.lod.levels[:1]))
    io.write("more.npz", {"scores": scores, "marks": marks, "label": LoDTensor([7, 8, 9])})
    done = lod("merge", "words.lod.h5", "more.npz", "-o", "out.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    found = io.read_all("out.lod.h5")
    assert list(found) == ["data", "scores", "marks", "label"]
    assert tensor("out.lod.h5", "data").identical(words)
    assert tensor("out.lod.h5", "scores").lod.names == ("article", "sentence")
    assert tensor("out.lod.h5", "scores").data.tolist() == list(range(15))
    assert tensor("out.lod.h5", "marks").to_list() == [[0, 1, 2], [3], [4, 5]]
    with lodcli.open("out.lod.h5") as source:
        one, two, three, _ = source.schema
    assert one.levels == two.levels
    assert one.levels[:1] == three.levels


def test_merging_many_tensors_does_not_compare_each_with_each(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 60  # indexes of the same size and total
    for name in "ab":
        items = {f"{name}{n}": LoDTensor(np.arange(60), [[n, 60 - n]]) for n in range(count)}
        io.write(tmp_path / f"{name}.lod.h5", items)
    compared: list[object] = []

    def same(one: Offsets, two: Offsets) -> bool:
        compared.append(one)
        return np.array_equal(one, two)

    for module in (checks, schema):
        monkeypatch.setattr(module, "same_offsets", same)
    out = tmp_path / "out.lod.h5"
    assert lod("merge", tmp_path / "a.lod.h5", tmp_path / "b.lod.h5", "-o", out).code == 0
    assert len(compared) == count
    with lodcli.open(out) as source:
        found = {spec.name: spec.levels for spec in source.schema}
    assert all(found[f"a{n}"] == found[f"b{n}"] for n in range(count))


@pytest.mark.parametrize(
    ("lengths", "names", "said"),
    [
        ([[3, 1, 2], [3, 2, 4, 1, 3, 2]], None, "b.lod.h5: b does not have the index of data in"),
        ([[3, 1], [3, 2, 4, 6]], None, "level 0 has 2 items against 3"),
        ([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "verse"], "a level is called verse, and"),
        ([], None, "15 outermost items against 3"),
    ],
)
def test_another_index_is_refused(
    lod: Lod, folder: Path, lengths: list[list[int]], names: list[str] | None, said: str
) -> None:
    io.write("b.lod.h5", {"b": LoDTensor(np.arange(15), LoD.from_lengths(lengths, names))})
    done = lod("merge", "words.lod.h5", "b.lod.h5", "-o", "new.lod.h5")
    assert done.code == 1
    assert said in done.stderr
    assert not Path("new.lod.h5").exists()


def test_texts_of_any_lengths_are_merged_as_single_values(lod: Lod, folder: Path) -> None:
    words = tensor("words.lod.h5")
    names = LoDTensor.from_lists(["ann", "", "cid"])
    tags = LoDTensor.from_lists([["a", "bc", ""], ["d"], ["ef", "g"]])
    io.write("names.lod.h5", {"names": names, "tags": tags})
    io.write("last.csv", {"last": LoDTensor.from_lists(["kay", "o", "lee-smith"])})
    assert lod("merge", "words.lod.h5", "names.lod.h5", "last.csv", "-o", "out.lod.h5").clean
    found = io.read_all("out.lod.h5")
    assert found["data"].identical(words)
    assert found["names"].to_list() == ["ann", "", "cid"]
    assert found["tags"].to_list() == tags.to_list()
    assert found["last"].to_list() == ["kay", "o", "lee-smith"]
    assert lod("merge", "last.csv", "names.lod.h5", "-o", "both.lod.h5").code == 0
    io.write("b.lod.h5", {"b": LoDTensor.from_lists([["a"], ["d"], ["ef", "g"]])})
    done = lod("merge", "words.lod.h5", "b.lod.h5", "-o", "new.lod.h5")
    assert "b does not have the index of data in words.lod.h5: level 0, item 0" in done.stderr
    io.write("c.lod.h5", {"c": LoDTensor.from_lists(["a"])})
    done = lod("merge", "words.lod.h5", "c.lod.h5", "-o", "new.lod.h5")
    assert "1 outermost items against 3" in done.stderr


def test_a_pipe_can_be_merged(shell: Lod) -> None:
    line = "lod rename many.lod.h5::tags tags=t | lod merge many.lod.h5 - -o out.lod.h5"
    done = shell(line)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert tensor("out.lod.h5", "t").identical(tensor("many.lod.h5", "tags"))


def test_cast_changes_dtypes_and_no_value(lod: Lod, folder: Path) -> None:
    assert lod("cast", "many.lod.h5", "float64", "tags=int64", "-qo", "out.lod.h5").code == 0
    before, after = tensors("many.lod.h5"), tensors("out.lod.h5")
    assert list(before) == list(after)
    for name, item in after.items():
        assert item.data.dtype == ("int64" if name == "tags" else "float64")
        np.testing.assert_array_equal(item.data, tensor("many.lod.h5", name).data)
        assert item.lod.same_levels(tensor("many.lod.h5", name).lod)


@pytest.mark.parametrize("name", ["a", "r"])
def test_cast_writes_only_the_named_tensor(lod: Lod, folder: Path, name: str) -> None:
    Path("two.jsonl").write_text('{"a":[1,2],"r":{"x":3},"text":"b"}\n')
    assert lod("cast", f"two.jsonl::{name}", "int32", "-o", "out.lod.h5").code == 0
    assert {one: str(item.dtype) for one, item in io.read_all("out.lod.h5").items()} == {
        {"r": "r.x"}.get(name, name): "int32"
    }


def test_cast_leaves_what_is_no_number(lod: Lod, folder: Path) -> None:
    lines = '{"text":"a","ids":[1],"w":null}\n{"text":"b","ids":[2,3],"w":2}\n'
    Path("r.jsonl").write_text(lines)
    assert lod("convert", "r.jsonl", "r.lod.h5", "-q").code == 0
    assert lod("cast", "r.lod.h5", "float32", "-o", "out.lod.h5").code == 0
    assert lod("convert", "out.lod.h5", "out.jsonl", "-q").code == 0
    assert Path("out.jsonl").read_text() == (
        '{"text":"a","ids":[1.0],"w":null}\n{"text":"b","ids":[2.0,3.0],"w":2.0}\n'
    )
    done = lod("cast", "r.lod.h5", "text=int32", "-o", "no.lod.h5")
    assert (done.code, done.stderr) == (
        1,
        "lod cast: r.lod.h5: text: row 0: expected a whole number, found 'a'\n",
    )
    assert not Path("no.lod.h5").exists()


def test_cast_makes_floats_of_decimals(lod: Lod, folder: Path) -> None:
    prices = [[Decimal("1.50"), None], [Decimal("-0.75"), Decimal("3.10")]]
    column = pa.array(prices, pa.list_(pa.decimal128(18, 2)))
    parquet.write_table(pa.table({"prices": column}), "p.parquet")
    done = lod("cast", "p.parquet", "prices=float32", "-o", "out.lod.h5")
    assert (done.code, done.stderr) == (
        1,
        "lod cast: p.parquet: prices: level 0 item 1, row 1: 3.10 is not exact in float32; "
        "--dtype-unsafe rounds it\n",
    )
    assert lod("cast", "p.parquet", "prices=float64", "--unsafe", "-o", "out.lod.h5").code == 0
    assert lodcli.read("out.lod.h5").to_list() == [[1.5, None], [-0.75, 3.1]]
    done = lod("cast", "p.parquet", "prices=int64", "-o", "no.lod.h5")  # that of their digits
    assert done.code == 1
    assert "level 0 item 0, row 0: 1.50 is not exact in int64; --dtype-unsafe" in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["int8"], 1, "data: level 0 item 2, level 1 item 1, row 2: 300.0 does not fit int8\n"),
        (
            ["int16"],
            1,
            "data: level 0 item 1, level 1 item 0, row 0: 2.5 is not exact in int16; --dt",
        ),
        (["int8", "--dtype-unsafe"], 1, "row 2: 300.0 does not fit int8\n"),
        (["int8", "--unsafe"], 1, "row 2: 300.0 does not fit int8\n"),
        (["brain"], 2, "no dtype 'brain'; there are: "),
        (["other=int8"], 2, "other"),
        (["int8", "int16"], 2, "several dtypes for all tensors; write TENSOR=DTYPE"),
        (["data=int8", "data=int16"], 2, "several dtypes for data"),
    ],
)
def test_errors_of_casts_name_the_place_of_the_value(
    lod: Lod, folder: Path, args: list[str], code: int, said: str
) -> None:
    lod_ = LoD.from_lengths([[1, 1, 2], [1, 1, 1, 3]])
    values = np.array([0, 300.0 if args == ["int8"] else 2.5, 1, 2, 3, 300.0])
    values[1] = 1 if args[0] == "int8" else 2.5
    io.write("values.lod.h5", LoDTensor(values, lod_))
    done = lod("cast", "values.lod.h5", *args, "-o", "out.lod.h5")
    assert done.code == code
    assert said in done.stderr
    assert not Path("out.lod.h5").exists()
