"""`lod slice`: the selected items, and its messages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.commands.choose import branches
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, articles, tensor, tensors
from tests.slow import slow

# The table of docs, "Slices": branch, lengths, rows.
CASES = [
    (["2"], [[2, 3]], slice(10, 15)),
    (["2:3"], [[2], [2, 3]], slice(10, 15)),
    (["2,0"], [], slice(10, 12)),
    (["2,0:1"], [[2]], slice(10, 12)),
    (["--level", "1", "2"], [], slice(5, 9)),
    (["--level", "1", "3:6"], [[1, 2, 3]], slice(9, 15)),
    (["--level", "sentence", "3:6"], [[1, 2, 3]], slice(9, 15)),
    (["-1"], [[2, 3]], slice(10, 15)),
    (["-2:"], [[1, 2], [1, 2, 3]], slice(9, 15)),
    ([":1"], [[3], [3, 2, 4]], slice(0, 9)),
    (["-1,-1"], [], slice(12, 15)),
    (["--level", "-1", "-1"], [], slice(12, 15)),
]


@pytest.mark.parametrize(("args", "lengths", "rows"), CASES, ids=lambda value: str(value))
def test_a_slice_keeps_these_lengths_and_rows(
    lod: Lod, folder: Path, args: list[str], lengths: list[list[int]], rows: slice
) -> None:
    done = lod("slice", "words.lod.h5", *args, "-o", "out.lod.h5")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    found = tensor("out.lod.h5")
    assert found.recursive_sequence_lengths() == lengths
    np.testing.assert_array_equal(found.data, articles().data[rows])


def test_one_tensor_of_several_is_sliced_by_name(lod: Lod, folder: Path) -> None:
    assert lod("slice", "many.lod.h5::tags", "1", "-o", "out.lod.h5").code == 0
    assert tensor("out.lod.h5", "tags").data.tolist() == [9]


@pytest.mark.parametrize("source", ["turns.jsonl", "turns.lod.h5"])
def test_records_are_sliced_by_name(lod: Lod, folder: Path, source: str) -> None:
    lines = [
        '{"turns":[{"a":1,"t":[2]}],"n":7}',
        '{"turns":[{"a":3,"t":[]},{"a":4,"t":[5]}],"n":8}',
    ]
    Path("turns.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if source != "turns.jsonl":
        assert lod("convert", "turns.jsonl", source).code == 0
    assert lod("slice", "-q", f"{source}::turns", "1:2", "-o", "out.jsonl").clean
    assert Path("out.jsonl").read_text() == '{"turns":[{"a":3,"t":[]},{"a":4,"t":[5]}]}\n'
    done = lod("view", f"{source}::turns", "--at", "1", "--json")
    assert (json.loads(done.stdout)["tensor"], done.code) == ("turns.a", 0)


def test_a_branch_is_cut_out_of_what_has_as_many_outermost_items(lod: Lod, folder: Path) -> None:
    assert lod("slice", "many.lod.h5", "1", "-o", "out.lod.h5").stderr == ""
    before = tensors("many.lod.h5")
    for name, found in tensors("out.lod.h5").items():
        whole = before.pop(name)
        assert found.identical(whole[1])
    assert not before
    done = lod("slice", "many.lod.h5", "0,0", "-o", "deeper.lod.h5")
    assert "other is left out: does not share the items of vectors (article)" in done.stderr


def test_the_note_on_labels_says_that_an_index_drops_them(lod: Lod, folder: Path) -> None:
    rows = LoDTensor(np.arange(6), LoD.from_lengths([[4, 2]], ["clip"]))
    label = LoDTensor(np.array([7, 8]), LoD())
    io.write("clips.lod.h5", {"data": rows, "label": label})
    done = lod("slice", "clips.lod.h5", "1", "-o", "one.lod.h5")
    why = "label is left out: an index drops its level (clip); a range such as 3:4 keeps it"
    assert done.stderr == f"lod slice: note: {why}\n"
    assert lod("slice", "clips.lod.h5", "1:2", "-o", "range.lod.h5").stderr == ""
    assert tensor("range.lod.h5", "label").data.tolist() == [8]


def test_tensors_of_different_counts_need_a_name(lod: Lod, folder: Path) -> None:
    io.write(
        "two.npz", {n: LoDTensor(np.arange(6), [[6 // k] * k]) for n, k in (("a", 2), ("b", 3))}
    )
    done = lod("slice", "two.npz", "1", "-o", "out.lod.h5")
    assert done.code == 2
    assert "holds 2 tensors; choose one: two.npz::a two.npz::b" in done.stderr
    done = lod("slice", "two.npz::a", "7", "--isolate", "-o", "out.lod.h5")
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert "no item 7, there are 2 here" in done.stderr


@pytest.mark.parametrize(("count", "end"), [(20, "::t19\n"), (21, "::t19 ..\n")])
def test_an_error_lists_at_most_twenty_tensors(
    lod: Lod, folder: Path, count: int, end: str
) -> None:
    tensors: dict[str, Any] = {f"t{number}": np.zeros(number + 1) for number in range(count)}
    np.savez("many.npz", **tensors)
    assert lod("unpack", "many.npz", "-o", "out.lod.h5").stderr.endswith(end)


@pytest.mark.parametrize(
    ("branch", "said"),
    [
        ("1:9", "asks for 8 items, but only 2 exist"),
        ("-9:", "asks for 9 items, but only 3 exist"),
        ("5:6", "asks for 1 item, but only 0 exist"),
        ("-9:-1", "asks for 8 items, but only 2 exist"),
        ("2,0:7", "asks for 7 items, but only 2 exist"),
        ("0:3", ""),
        ("1:", ""),
        ("-2:", ""),
        ("-2:3", ""),
        (":", ""),
        ("3:", ""),
        ("0:4:2", ""),
        ("2::-1", ""),
        ("0:10:2", "asks for 5 items, but only 2 exist"),
        ("-9::2", "asks for 5 items, but only 2 exist"),
        ("9:", "starts at item 9, but only 3 exist"),
        ("2,4:", "starts at item 4, but only 2 exist"),
        ("1,0:2", "asks for 2 items, but only 1 exists"),
        ("9::-1", "starts at item 9, but only 3 exist"),
    ],
)
def test_a_range_beyond_the_end_is_cut_and_noted(
    lod: Lod, folder: Path, branch: str, said: str
) -> None:
    done = lod("slice", "words.lod.h5", branch, "-o", "out.lod.h5")
    assert done.code == 0
    assert said in done.stderr
    assert bool(done.stderr) == bool(said)
    assert lod("slice", "words.lod.h5", branch, "-q", "-fo", "out.lod.h5").stderr == ""


@pytest.mark.parametrize(
    "branch",
    ["1:9", "5:6", "-9:-1", "0:1,2:5", "0:1,1:2,2:9", "2,0:7", "2,1,1:4", "0:9:2", "4:", "0:1,4:"],
)
@pytest.mark.parametrize("name", ["words.lod.h5", "words.lods", "words.parquet", "words.jsonl"])
def test_a_range_beyond_the_end_is_an_error_with_strict(
    lod: Lod, folder: Path, name: str, branch: str
) -> None:
    lod("convert", "words.lod.h5", name)
    done = lod("slice", name, branch, "--strict", "-q", "-o", "out.lod.h5")
    assert done.code == 2
    assert re.fullmatch(
        rf"lod slice: {re.escape(name)}: the range (asks for \d items?|starts at item 4), "
        r"but only \d exists?; leave out --strict to write these\n",
        done.stderr,
    )
    assert not Path("out.lod.h5").exists()
    assert lod("slice", name, ":2", "--strict", "-q", "-o", "out.lod.h5").code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["7"], "no item 7"),
        (["-4"], "no item -4"),
        (["0,0,0,0"], "4 parts"),
        (["0:1,9"], "no item 9, there are 3 here"),
        (["0:1,3"], "no item 3, there are 3 here"),
        (["0,0:1,-4"], "no item -4, there are 3 here"),
        (["5,0:1,0:1"], "no item 5"),
        (["0,0,0,0:1"], "4 parts"),
        (["--level", "word", "0"], "no level named 'word'"),
        (["--level", "5", "0"], "no level 5"),
        (["x"], "write 2, 2,0"),
        (["0:4:0"], "its step is 0"),
    ],
)
def test_a_slice_that_is_not_there_is_a_usage_error(
    lod: Lod, folder: Path, args: list[str], said: str
) -> None:
    done = lod("slice", "words.lod.h5", *args, "-o", "out.lod.h5")
    assert done.code == 2
    assert said in done.stderr
    assert not Path("out.lod.h5").exists()


def test_an_unknown_option_is_not_taken_for_a_number(lod: Lod, folder: Path) -> None:
    done = lod("slice", "words.lod.h5", "0", "--frobnicate")
    assert done.code == 2
    assert "--frobnicate" in done.stderr


def test_slices_of_slices_travel_through_pipes(shell: Lod) -> None:
    done = shell("lod slice words.lod.h5 2 | lod slice - 0 | lod convert - out.npz")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    done = shell("lod slice words.lod.h5 2,0 -o direct.npz && cmp out.npz direct.npz")
    assert (done.code, done.stdout) == (0, "")


# As Python takes them from lists: from 7 sequences, from one of them, and from one of its own.
RANGES = [
    *("0:3", "2:", ":-2", "::2", "1:6:3", "-1:0:-2", "::-1", "5:2", "9:", "-99:2"),
    *("0:2,4:6", "4:6,0:2", "::2,::2", "1:3,5", "6:,-1,0", "0:0,::-3"),
]


@pytest.fixture
def nested(folder: Path) -> list[list[list[int]]]:
    """nested.lod.h5 and .lods: 7 books of chapters of words, with marks and a label beside."""
    lod = LoD.from_lengths([[3, 0, 9, 1, 2, 8, 1], [2, 0, 5, *range(9), 1, 3, 0, *range(8), 2]])
    assert lod.rows is not None
    words = LoDTensor(np.arange(lod.rows), lod)
    above = LoD([lod.levels[0]])
    io.write(
        folder / "nested.lod.h5",
        {
            "words": words,
            "chapter": LoDTensor(np.arange(lod.count(1)), above),
            "book": LoDTensor(np.arange(7) * 10),
        },
    )
    io.write(folder / "nested.jsonl", words)
    found: list[list[list[int]]] = words.to_list()
    return found


def taken_from(values: list[Any], ranges: str) -> list[Any]:
    """Return what Python takes."""
    found: list[Any] = []
    for one in ranges.split(","):
        found += eval(f"values[{one}]") if ":" in one else [values[int(one)]]
    return found


@pytest.mark.parametrize("small", [slow(True), False])
@pytest.mark.parametrize("ranges", RANGES)
def test_ranges_are_those_of_python(
    lod: Lod,
    nested: list[list[list[int]]],
    ranges: str,
    small: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not small:
        monkeypatch.setattr(branches, "SMALL_BYTES", -1)
    chapters = [one for book in nested for one in book]
    cases: list[tuple[list[str], list[Any]]] = [
        ([ranges], nested),
        ([f"2,{ranges}"], nested[2]),
        ([f"5,7,{ranges}"], nested[5][7]),
        (["--level", "1", ranges], chapters),
    ]
    for args, values in cases:
        for source in ("nested.lod.h5", "nested.jsonl", "nested.lod.h5::words"):
            assert lod("slice", source, *args, "-fqo", "out.lod.h5").clean, args
            name = "data" if source == "nested.jsonl" else "words"
            assert tensor("out.lod.h5", name).to_list() == taken_from(values, ranges), args
            if source != "nested.lod.h5":
                assert list(io.read_all("out.lod.h5")) == [name]


def test_a_range_takes_all_tensors_that_share_its_items(
    lod: Lod, nested: list[list[list[int]]]
) -> None:
    assert lod("slice", "nested.lod.h5", "2:4,6", "-qo", "out.lod.h5").code == 0
    assert tensor("out.lod.h5", "words").to_list() == [nested[2], nested[3], nested[6]]
    assert tensor("out.lod.h5", "book").data.tolist() == [20, 30, 60]
    assert [len(one) for one in tensor("out.lod.h5", "chapter").to_list()] == [9, 1, 1]
    done = lod("slice", "nested.lod.h5", "2,4:9:2", "-fo", "out.lod.h5")
    assert "book is left out" in done.stderr
    assert tensor("out.lod.h5", "chapter").data.tolist() == [7, 9, 11]
    assert tensor("out.lod.h5", "words").to_list() == nested[2][4:9:2]
    done = lod("slice", "nested.lod.h5", "2", "-fo", "out.lod.h5")
    assert "book is left out" in done.stderr
    assert tensor("out.lod.h5", "chapter").data.tolist() == list(range(3, 12))
    assert tensor("out.lod.h5", "words").to_list() == nested[2]
    assert sorted(io.read_all("out.lod.h5")) == ["chapter", "words"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", "CF")
def test_a_range_of_an_array_of_numpy_is_that_of_the_array(
    lod: Lod, folder: Path, save: Any, order: Any
) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    save("x.npz", data=np.array(rows, order=order), other=np.arange(1000))
    for args, wanted in (
        (["slice", "x.npz", "1:3"], rows[1:3]),
        (["slice", "x.npz", "::2"], rows[::2]),
        (["head", "x.npz::data", "-n", "2"], rows[:2]),
        (["tail", "x.npz::data", "-n", "1"], rows[-1:]),
    ):
        assert lod(*args, "-qfo", "out.npy").clean
        assert np.array_equal(np.load("out.npy"), wanted)


def test_an_index_leaves_out_texts_of_items_as_it_does_labels(lod: Lod, tmp_path: Path) -> None:
    # The text has as many bytes as the item has values, and must not become a column of them.
    fields = {
        "name": LoDTensor.from_lists(["ab", "cde"]),
        "ids": LoDTensor.from_lists([[1, 2], [3, 4, 5]]),
    }
    path = tmp_path / "named.lod.h5"
    io.write(path, fields)
    out = tmp_path / "out.jsonl"
    done = lod("slice", path, "1", "-o", out)
    assert (done.code, out.read_text()) == (0, "3\n4\n5\n")
    assert "name is left out" in done.stderr
    assert lod("slice", f"{path}::name", "1", "-qfo", out).code == 0
    assert out.read_text() == "99\n100\n101\n"
    assert lod("slice", path, "1:", "-qfo", out).code == 0
    assert out.read_text() == '{"name":"cde","ids":[3,4,5]}\n'


NEAR = ["0:0", "2:3", "1:7", "0:5:2", "3,1:", "4", "1:3,6:8", "-2:", "3:1:-1", "2:"]


@pytest.mark.parametrize("suffix", ["jsonl", "tar", "lods", "parquet", "arrows"])
@pytest.mark.parametrize("branch", NEAR)
def test_a_branch_is_the_same_in_every_format(
    branch: str, suffix: str, lod: Lod, tmp_path: Path
) -> None:
    lengths = [3, 2, 1, 4, 5, 2, 3, 1]
    tensors = {"a": LoDTensor(np.arange(21), [lengths]), "b": LoDTensor(np.arange(8))}
    found = []
    for name in ("t.lod.h5", f"t.{suffix}"):
        io.write(tmp_path / name, tensors)
        out = tmp_path / f"{name}.jsonl"
        assert lod("slice", tmp_path / name, branch, "-o", out).code == 0
        found.append(out.read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("args", [["slice", "2:5"], ["slice", "4"], ["head", "-n", "3"]])
def test_files_read_in_order_are_read_only_as_far_as_needed(
    args: list[str], lod: Lod, tmp_path: Path
) -> None:
    path, out = tmp_path / "t.jsonl", tmp_path / "out.jsonl"
    line = '{"a":"%s","b":2}\n' % ("text" * 250)
    path.write_text(line * 4000 + "damaged\n")
    assert lod(args[0], path, *args[1:], "-o", out).code == 0
    done = lod("slice", path, "2:", "-o", out, "--force")
    assert "line 4001" in done.stderr


@pytest.mark.parametrize("branch", ["1:3", "::3", "4:0:-2", "0:1,3:5", "-2:"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "lod.h5"])
def test_a_range_of_records_takes_their_texts(
    lod: Lod, tmp_path: Path, branch: str, suffix: str
) -> None:
    source = str(tmp_path / f"x.{suffix}")
    records = [("b", 3), ("", 1), ("ccc", 4), ("d", 1), ("ee", 5)]
    (tmp_path / "x.csv").write_text("n,t\n" + "".join(f"{n},{t}\n" for t, n in records))
    assert suffix == "csv" or lod("convert", str(tmp_path / "x.csv"), source).code == 0
    out = tmp_path / "out.jsonl"
    assert lod("slice", source, branch, "-o", out).clean
    ranges = [slice(*(int(n) if n else None for n in one.split(":"))) for one in branch.split(",")]
    wanted = [{"n": n, "t": t} for one in ranges for t, n in records[one]]
    assert list(map(json.loads, out.read_text().splitlines())) == wanted
