"""Commands that choose, order or join items keep nulls and compare them; others refuse them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from lodcli.formats.core import io
from lodcli.formats.items.items import Items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls
from tests.lodcli.conftest import Lod, read_jsonl, tensor

LISTS: list[Any] = [[1, None], None, [], [4]]
TEXTS: list[Any] = [["a", None], None, ["Grüß"], []]
FLAT: list[Any] = [1, None, 3, None]
COUNTS = [3, 1, 2, 0]
SOURCES = ["in.lod.h5", "in.lods", "in.parquet", "in.arrow"]


@pytest.fixture
def file(folder: Path) -> None:
    content = {
        **{"l": LoDTensor.from_lists(LISTS), "t": LoDTensor.from_lists(TEXTS)},
        **{"f": LoDTensor.from_lists(FLAT), "n": LoDTensor(COUNTS)},
    }
    for name in SOURCES:
        io.write(name, content)


# What each column becomes: the outermost items by number, in order.
KEEP: dict[str, list[int]] = {
    "slice IN 1:3": [1, 2],
    "slice IN ::-1": [3, 2, 1, 0],
    "head IN -n 2": [0, 1],
    "tail IN -n 3": [1, 2, 3],
    "sort IN --by n": [3, 1, 2, 0],
    "filter IN n>0": [0, 1, 2],
    "select IN f t l n": [0, 1, 2, 3],
    "rename IN n=m": [0, 1, 2, 3],
    "concat IN IN": [0, 1, 2, 3, 0, 1, 2, 3],
    "convert IN": [0, 1, 2, 3],
    "convert IN --isolate": [0, 1, 2, 3],
}


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("line", KEEP)
def test_whole_items_keep_their_nulls(line: str, source: str, lod: Lod) -> None:
    assert lod(*line.replace("IN", source).split(), "-o", "out.parquet").code == 0
    found = pq.read_table("out.parquet").to_pydict()
    for name, values in {"l": LISTS, "t": TEXTS, "f": FLAT}.items():
        assert found[name] == [values[item] for item in KEEP[line]]


SLICES: dict[str, Any] = {
    "slice IN::l 0,0:2": [1, None],
    "slice IN::l 0,::-1": [None, 1],
    "slice IN::f 1:3": [None, 3],
    "slice IN::t --level 1 1:3": [None, "Grüß"],
    "slice IN::t 0": ["a", None],
}


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("line", SLICES)
def test_slices_keep_nulls(line: str, source: str, lod: Lod) -> None:
    assert lod(*line.replace("IN", source).split(), "-o", "out.lod.h5").code == 0
    assert tensor("out.lod.h5").to_list() == SLICES[line]


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", SOURCES)
def test_one_null_item_is_no_slice(source: str, lod: Lod) -> None:
    for line in (f"slice {source}::l 1", f"slice {source}::l 0,1", f"slice {source}::f 1"):
        done = lod(*line.split())
        assert done.code != 0
        assert "the item that the branch names is null; a range N:N+1 keeps it" in done.stderr


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", SOURCES)
def test_merge_shuffle_sort_and_diff(source: str, lod: Lod) -> None:
    assert lod("shuffle", source, "--seed", "1", "-o", "mixed.lod.h5").code == 0
    assert lod("sort", "mixed.lod.h5", "--by", "n", "-o", "a.lod.h5").code == 0
    assert lod("sort", source, "--by", "n", "-o", "b.lod.h5").code == 0
    assert lod("diff", "a.lod.h5", "b.lod.h5").code == 0
    assert lod("select", source, "l", "-o", "l.lod.h5").code == 0
    assert lod("select", source, "n", "-o", "n.lod.h5").code == 0
    assert lod("merge", "l.lod.h5", "n.lod.h5", "-o", "m.lod.h5").code == 0
    assert tensor("m.lod.h5", "l").to_list() == LISTS
    assert lod("verify", "m.lod.h5").code == 0
    assert lod("convert", source, "--nulls", "zero", "-o", "zero.lod.h5").code == 0
    found = json.loads(lod("inspect", source, "--nulls", "zero", "--json").stdout)["tensors"]
    assert not any(one["nullable"] for one in found)
    done = lod("diff", source, "zero.lod.h5")
    assert done.code == 1
    assert "f: row 1: null against a value" in done.stdout
    assert "l: level 0 item 1: null against a value" in done.stdout


REFUSED = {
    "apply sum IN::l -o out.lod.h5": "item of level 0 <1> is null",
    "convert IN::f out.npy": "f: row <1> is null; npy has no nulls",
    "convert IN::f --nulls error -o out.lods": "f: row <1> is null; --nulls error",
    "convert IN::l --nulls empty -o out.lods": "row <0,1> is null, and no row is empty",
}


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("line", REFUSED)
def test_others_refuse_nulls_with_their_place(line: str, source: str, lod: Lod) -> None:
    done = lod(*line.replace("IN", source).split())
    assert done.code != 0
    assert REFUSED[line] in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(Path().glob("out.*"))


# The items that are kept, as SQL does: what is compared with a null is unknown.
EXPRESSIONS: dict[str, list[int]] = {
    "f > 0": [0, 2],
    "f != 1": [2],
    "not f > 1": [0],
    "f + n > 3": [0, 2],
    "-f < -1": [2],
    "f in (1, 2)": [0],
    "f not in (1, 2)": [2],
    "f > 1 or n > 2": [0, 2],
    "f > 1 or n == 1": [1, 2],
    "not (f > 0 and n == 0)": [0, 1, 2],
    "not (f > 0 and n == 1)": [0, 2, 3],
    "0 < f < 3": [0],
    "f is None": [1, 3],
    "f is not None and n < 3": [2],
    "l is None": [1],
    "any(l is None)": [0],
    "sum(l) <= 1": [0, 2],
    "any(l > 0)": [0, 3],
    "not any(l > 1)": [0, 2],
    "all(l > 0)": [0, 2, 3],
    "last(l) != 1": [3],
    "last(l) is None": [0, 1, 2],
    "any(l > f)": [],
    "any(l < n)": [0],
    "length(l) == 0": [1, 2],
    't is not None and not any(t == "a")': [2, 3],
    'any(t != "b")': [0, 2],
    "any(t is None)": [0],
    '"a" in t': [0],
    '"a" not in t': [2, 3],
    "3 in l or 4 in l": [3],
    "f is not None or 1 / 0 == f": [0, 2],
    "coalesce(f, n) > 0": [0, 1, 2],
    "coalesce(f, 2, n) == 2": [1, 3],
    "any(coalesce(l, 4) == 4)": [0, 3],
    "coalesce(sum(l), 9) > 3": [1, 3],
}


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", ["in.lod.h5", "in.parquet"])
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_comparison_with_null_does_not_keep_an_item(text: str, source: str, lod: Lod) -> None:
    kept = EXPRESSIONS[text]
    for options, wanted in ([], kept), (["--invert"], [n for n in range(4) if n not in kept]):
        assert lod("filter", source, f" {text}", *options, "-fo", "out.parquet").code == 0
        found = pq.read_table("out.parquet").to_pydict()
        assert found["n"] == [COUNTS[item] for item in wanted]
        for name, values in {"l": LISTS, "t": TEXTS, "f": FLAT}.items():
            assert found[name] == [values[item] for item in wanted]


@pytest.mark.parametrize(
    ("key", "order", "reverse"),
    [
        ("f", [1, 3, 5, 4, 0, 2], [3, 5, 1, 4, 0, 2]),
        ("-f", [3, 5, 1, 4, 0, 2], [1, 3, 5, 4, 0, 2]),
        ("t", [3, 1, 5, 0, 2, 4], [0, 1, 5, 3, 2, 4]),
        ("-t", [0, 1, 5, 3, 2, 4], [3, 1, 5, 0, 2, 4]),
        ("c", [1, 5, 0, 2, 3, 4], [0, 2, 1, 5, 3, 4]),
        ("sum(l)", [1, 2, 4, 5, 0, 3], [0, 5, 4, 1, 2, 3]),
        ("c,-f", [5, 1, 0, 2, 3, 4], [0, 2, 1, 5, 3, 4]),
        ("t, c, -n", [3, 5, 1, 0, 2, 4], [0, 1, 5, 3, 2, 4]),
        ("-length(l), n", [2, 0, 3, 4, 5, 1], [1, 5, 4, 3, 0, 2]),
    ],
)
def test_nulls_are_sorted_last(
    key: str,
    order: list[int],
    reverse: list[int],
    lod: Lod,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Items.range, "__defaults__", (1,))  # in batches of a few items
    marks = LoDTensor([0]).as_categories(["x", "y"]).marks
    valid = Nulls.of([[True, True, True, False, False, True]])
    content = {
        "f": LoDTensor.from_lists([None, -1.5, None, 2.0, float("nan"), 2.0]),
        "t": LoDTensor.from_lists(["b", "a", None, "", None, "a"]),
        "c": LoDTensor([1, 0, 1, 0, 0, 0], marks=marks, nulls=valid),
        "l": LoDTensor.from_lists([[3], [], [0, None], [None], [1], [2]]),
        "n": LoDTensor(np.arange(6)),
    }
    io.write("in.lod.h5", content)
    for options, wanted in ([], order), (["--reverse"], reverse):
        assert lod("sort", "in.lod.h5", "--by", key, *options, "-fo", "out.lod.h5").code == 0
        assert tensor("out.lod.h5", "n").to_list() == wanted


def test_a_null_in_a_later_batch_is_named_by_its_number_in_the_file(folder: Path, lod: Lod) -> None:
    count, null = 200_000, 190_000
    valid = np.arange(count) != null
    io.write("in.lod.h5", {"f": LoDTensor(np.zeros(count), nulls=Nulls.of([valid]))})
    line = "convert in.lod.h5 --nulls error -o out.lod.h5 --memory 4M"
    done = lod(*line.split())
    assert done.code == 4
    assert f"in.lod.h5: f: row <{null}> is null;" in done.stderr
    again = LoDTensor(np.zeros(count), [[1] * count], nulls=Nulls.of([None, valid]))
    io.write("in.lod.h5", {"f": again, "g": again}, overwrite=True)
    for how in ("empty", "drop"):
        done = lod("convert", "in.lod.h5", "--nulls", how, "-o", "out.lod.h5", "--memory", "4M")
        assert done.code == 4
        assert f"in.lod.h5: f: row <{null},0> is null, and" in done.stderr


def test_a_byte_that_is_no_text_is_named_by_its_item_in_the_file(folder: Path, lod: Lod) -> None:
    count, wrong = 300_000, 290_000
    letters = np.full(2 * count, ord("a"), np.uint8)
    letters[2 * wrong + 1] = 0xFF
    io.write("in.lod.h5", LoDTensor(letters, [[2] * count]))
    line = "convert in.lod.h5 --text-levels text -o out.lod.h5 --memory 4M"
    done = lod(*line.split())
    assert done.code == 1
    assert f"data: item <{wrong}>: is not UTF-8 (byte 0xff at position 1)" in done.stderr


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", SOURCES)
def test_every_command_takes_the_option(source: str, lod: Lod) -> None:
    assert lod("apply", "sum", f"{source}::l", "--nulls", "fill=2", "-o", "sum.lod.h5").code == 0
    assert tensor("sum.lod.h5").to_list() == [3, 0, 0, 4]
    assert lod("select", source, "f", "-o", "one.lod.h5").code == 0
    assert lod("filter", "one.lod.h5", "f > 2", "--nulls", "drop", "-o", "kept.lod.h5").code == 0
    assert tensor("kept.lod.h5").to_list() == [3]
    assert lod("inspect", source, "--nulls", "mask").code == 2


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", SOURCES)
def test_inspect_says_what_may_be_null(source: str, lod: Lod) -> None:
    found = json.loads(lod("inspect", source, "--json").stdout)["tensors"]
    assert {one["name"]: one["nullable"] for one in found} == {
        **{"l": True, "t": True, "f": True, "n": False}
    }
    assert '"a" null "Grüß"' in lod("inspect", f"{source}::t").stdout


def test_ops_that_move_items_keep_nulls_of_later_batches(folder: Path, lod: Lod) -> None:
    """The first batch has none."""
    values: list[Any] = [[1, 2, 3]] * 150_000
    values[-3:] = [None, [4, None, 5], [None]]
    io.write("in.lod.h5", {"ids": LoDTensor.from_lists(values), "n": LoDTensor(np.arange(150_000))})
    args = ("--memory", "6M", "-q", "-fo", "out.lods")
    line = ("apply", "truncate", "in.lod.h5::ids", "--length", "2", "--then", "reverse")
    assert lod(*line, *args).clean
    assert tensor("out.lods")[-4:].to_list() == [[2, 1], None, [None, 4], [None]]
    assert lod("apply", "reverse", "in.lod.h5::ids", "--into", "back", *args).clean
    assert tensor("out.lods", "back")[-4:].to_list() == [[3, 2, 1], None, [5, None, 4], [None]]
    done = lod("apply", "reverse", "in.lod.h5::ids", "--then", "sum", *args)
    assert done.code == 4
    assert re.search(r"item of level 0 <\d+> is null, and sum takes no nulls; use", done.stderr)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_record_with_a_null_is_dropped_from_all_columns(
    lod: Lod, folder: Path, suffix: str
) -> None:
    Path("t.csv").write_text("a,b,c\n1,2,x\n,3,y\n4,,z\n5,6.5,x\n")
    if suffix != "csv":
        assert lod("convert", "-q", "t.csv", f"t.{suffix}").code == 0
    for command in (("convert",), ("filter", "b > 0")):
        done = lod(command[0], f"t.{suffix}", *command[1:], "--nulls", "drop", "-fo", "x.jsonl")
        assert (done.code, done.complaints) == (0, "")
        assert read_jsonl("x.jsonl") == [{"a": 1, "b": 2, "c": "x"}, {"a": 5, "b": 6.5, "c": "x"}]
