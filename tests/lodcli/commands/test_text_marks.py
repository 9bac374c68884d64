"""Commands that choose, order or join whole items keep the mark of text; the others drop it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, TEXT
from tests.lodcli.conftest import Lod, read_jsonl, tensor

WORDS = [["Grüß", "a"], [], ["b", "\n😀"], ["", "c"]]
COUNTS = [3, 1, 2, 0]


@pytest.fixture
def file(folder: Path) -> None:
    content = {"t": LoDTensor.from_lists(WORDS), "n": LoDTensor(COUNTS)}
    for name in ("in.lod.h5", "in.lods", "in.jsonl", "in.parquet"):
        io.write(name, content)


KEEP = {
    "slice IN::t 1:3": WORDS[1:3],
    "slice IN::t 2": WORDS[2],
    "slice IN::t ::-1": WORDS[::-1],
    "slice IN::t --level 1 1:3": ["a", "b"],
    "head IN -n 2": WORDS[:2],
    "tail IN -n 1": WORDS[3:],
    "sort IN --by n": [WORDS[3], WORDS[1], WORDS[2], WORDS[0]],
    "filter IN length()>0": [WORDS[0], WORDS[2], WORDS[3]],
    "shuffle IN --seed 1": None,
    "sample IN 3 --seed 1": None,
    "select IN t": WORDS,
    "drop IN n": WORDS,
    "rename IN n=m": WORDS,
    "concat IN IN": WORDS + WORDS,
    "convert IN": WORDS,
}


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("source", ["in.lod.h5", "in.lods", "in.jsonl"])
@pytest.mark.parametrize("line", KEEP)
def test_whole_items_stay_text(line: str, source: str, lod: Lod) -> None:
    assert lod(*line.replace("IN", source).split(), "-o", "out.lod.h5").code == 0
    found = tensor("out.lod.h5", "t")
    assert found.marks == TEXT
    if KEEP[line] is not None:
        assert found.to_list() == KEEP[line]


NUMBERS = ["slice IN::t 0,0", "slice IN::t 0,0,0:2", "apply reverse IN::t", "unpack IN::t"]


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("line", NUMBERS)
def test_commands_that_choose_bytes_or_compute_write_numbers(line: str, lod: Lod) -> None:
    assert lod(*line.replace("IN", "in.lod.h5").split(), "-o", "out.lod.h5").code == 0
    with lodcli.open("out.lod.h5") as source:
        assert all(spec.marks == NO_MARKS for spec in source.schema)


@pytest.mark.usefixtures("file")
def test_a_pipe_keeps_text(shell: Lod) -> None:
    done = shell("lod head in.parquet -n 1 | lod select - t | lod convert - -q --to jsonl")
    assert done.stdout == '["Grüß","a"]\n'


@pytest.mark.usefixtures("file")
def test_text_and_numbers_are_not_joined(lod: Lod) -> None:
    assert lod("convert", "in.lod.h5", "bare.lod.h5", "--text-levels", "numbers").code == 0
    done = lod("concat", "in.lod.h5", "bare.lod.h5", "-o", "out.lod.h5")
    assert done.code == 1
    assert "it has uint8, not text; lod convert --text-levels changes them" in done.stderr
    assert not Path("out.lod.h5").exists()


@pytest.mark.usefixtures("file")
def test_marks_are_removed_and_set(lod: Lod) -> None:
    assert lod("convert", "in.lod.h5", "bare.lod.h5", "--text-levels", "numbers").code == 0
    assert tensor("bare.lod.h5", "t").identical(LoDTensor.from_lists(WORDS).as_numbers())
    assert b'"version":1' in Path("bare.lod.h5").read_bytes()
    done = lod("diff", "in.lod.h5", "bare.lod.h5", "--json")
    differences = json.loads(done.stdout)["tensors"][0]["differences"]
    assert [one["what"] for one in differences] == ["marks"]
    assert lod("convert", "bare.lod.h5", "text.lod.h5", "--text-levels", "text").code == 0
    assert tensor("text.lod.h5", "t").identical(LoDTensor.from_lists(WORDS))
    assert lod("convert", "in.lod.h5::n", "x.lod.h5", "--text-levels", "text").code == 4


@pytest.mark.usefixtures("folder")
def test_bytes_that_are_no_text_are_not_marked_as_text(lod: Lod) -> None:
    io.write("b.lod.h5", LoDTensor.from_lists([b"ok", b"\xff"]))
    done = lod("convert", "b.lod.h5", "t.lod.h5", "--text-levels", "text")
    assert done.code == 1
    assert "data: item <1>: is not UTF-8 (byte 0xff at position 0)" in done.stderr
    assert not Path("t.lod.h5").exists()


@pytest.mark.usefixtures("file")
def test_inspect_shows_what_it_is(lod: Lod) -> None:
    assert "\nt: text (uint8), " in lod("inspect", "in.parquet::t").stdout
    told = json.loads(lod("inspect", "in.lod.h5", "--json").stdout)["tensors"]
    assert [one["marks"] for one in told] == [{"values": "text"}, {}]


@pytest.mark.usefixtures("file")
def test_strict_refuses_a_format_without_marks(lod: Lod) -> None:
    done = lod("convert", "in.lod.h5::t", "t.lodt", "--strict")
    assert done.code == 4
    assert "paddle does not keep these marks: text of t" in done.stderr


@pytest.mark.parametrize("command", ["head -n 9", "tail -n 9", "sort", "filter length()>0"])
def test_bytes_of_a_text_are_no_items_of_lists_that_are_as_long(
    lod: Lod, folder: Path, command: str
) -> None:
    Path("t.jsonl").write_text(
        '{"lists":[[1],[2,3]],"text":"ab","words":["x","yz"],"n":[5,6]}\n'
        '{"lists":[[4]],"text":"c","words":["uvw"],"n":[7]}\n'
    )
    assert lod("convert", "-q", "t.jsonl", "t.parquet").code == 0
    name, *rest = command.split(" ")
    done = lod(name, "t.parquet::lists", *rest, "--level", "1", "-o", "o.jsonl")
    assert done.code == 0, done.stderr
    assert "text is left out: does not share the items of lists (level 1)" in done.stderr
    wanted = [([1], "x", 5), ([2, 3], "yz", 6), ([4], "uvw", 7)]
    found = read_jsonl("o.jsonl")
    assert sorted((one["lists"], one["words"], one["n"]) for one in found) == wanted
