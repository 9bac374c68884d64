"""`lod explode`, against Polars, and as the inverse of `lod group`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.commands.keys import exploding
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor

ROWS: list[dict[str, Any]] = [
    {"user": "ann", "n": 1, "day": [3, 1], "page": ["a", "bc"], "tags": ["x"]},
    {"user": "bob", "n": None, "day": [], "page": [], "tags": ["y", "z"]},
    {"user": None, "n": 3, "day": [5], "page": [None], "tags": []},
    {"user": "dö", "n": 4, "day": [None, 7, 8], "page": ["d", "", "f"], "tags": ["w"]},
]


@pytest.fixture
def rows(folder: Path) -> None:
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("source", ["t.jsonl", "t.lod.h5", "t.parquet", "t.lods"])
@pytest.mark.parametrize("names", [["day", "page"], ["page", "day"], ["tags"], ["day"]])
def test_it_is_that_of_polars(
    lod: Lod, source: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    polars = pytest.importorskip("polars")
    if source != "t.jsonl":
        assert lod("convert", "-q", "t.jsonl", source).code == 0
    frame = polars.DataFrame(ROWS).filter(polars.col(names[0]).list.len() > 0)
    wanted = frame.explode(*names).to_dicts()
    for size in (16, 8 << 20):
        monkeypatch.setattr(exploding, "BATCH_BYTES", size)
        done = lod("explode", source, *names, "-qfo", "out.jsonl")
        assert (done.code, done.stderr) == (0, "")
        assert [json.loads(one) for one in Path("out.jsonl").read_text().splitlines()] == wanted


def test_it_is_the_inverse_of_group(lod: Lod, folder: Path) -> None:
    Path("c.csv").write_text("user,day,page\nann,3,a\nann,1,b\nbob,2,c\nbob,5,d\nbob,1,e\n")
    assert lod("group", "-q", "c.csv", "--by", "user", "-o", "g.lod.h5").code == 0
    done = lod("explode", "g.lod.h5", "-qo", "back.csv")
    assert (done.code, done.stderr) == (0, "")
    assert Path("back.csv").read_text() == Path("c.csv").read_text()


def test_inner_lists_and_rows_of_columns(lod: Lod, folder: Path) -> None:
    deep = [[[1, 2], [], None], None, [], [[3]]]
    x = LoDTensor(np.arange(8.0).reshape(4, 2), [[3, 0, 0, 1]])
    io.write("d.lod.h5", {"d": LoDTensor.from_lists(deep), "x": x, "i": LoDTensor(np.arange(4))})
    done = lod("explode", "d.lod.h5", "-qo", "out.lod.h5")
    assert (done.code, done.stderr) == (0, "")
    assert tensor("out.lod.h5", "d").to_list() == [[1, 2], [], None, [3]]
    assert tensor("out.lod.h5", "x").to_list() == x.data.tolist()
    assert tensor("out.lod.h5", "i").to_list() == [0, 0, 0, 3]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ([], "item 0: day and tags have lists of 2 and 1 values; name the tensors to explode, "),
        (["n"], "n: expected lists, found one value for each item"),
        (["user", "day"], "user: expected lists, found one value for each item"),
        (["pages"], "no tensor named 'pages'"),
    ],
)
def test_what_has_no_equal_lists_is_an_error(lod: Lod, line: list[str], said: str) -> None:
    done = lod("explode", "t.jsonl", *line, "-o", "out.lod.h5")
    assert done.code in (1, 2)
    assert said in done.stderr
    assert not Path("out.lod.h5").exists()


def test_a_table_without_lists_is_an_error(lod: Lod, folder: Path) -> None:
    Path("c.csv").write_text("user,day\nann,3\n")
    done = lod("explode", "c.csv", "-o", "out.csv")
    assert (done.code, "user, day: expected lists, found one value" in done.stderr) == (2, True)


def test_nothing_is_left_of_empty_lists(lod: Lod, folder: Path) -> None:
    content = {"l": LoDTensor.from_lists([[1], [2]])[:0], "n": LoDTensor(np.arange(0))}
    io.write("e.lod.h5", content)
    assert lod("explode", "e.lod.h5", "-qo", "out.lod.h5").code == 0
    assert tensor("out.lod.h5", "l").to_list() == []
