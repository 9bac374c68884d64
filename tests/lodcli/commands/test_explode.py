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
from tests.lodcli.conftest import Lod, tensor, write_jsonl

ROWS: list[dict[str, Any]] = [
    {"user": "ann", "n": 1, "day": [3, 1], "page": ["a", "bc"], "tags": ["x"]},
    {"user": "bob", "n": None, "day": [], "page": [], "tags": ["y", "z"]},
    {"user": None, "n": 3, "day": [5], "page": [None], "tags": []},
    {"user": "dö", "n": 4, "day": [None, 7, 8], "page": ["d", "", "f"], "tags": ["w"]},
]

RECORDS: list[dict[str, Any]] = [
    {"id": 1, "r": [{"q": 1, "t": "x", "p": {"a": [1]}}, {"q": 2, "t": "yy", "p": {"a": []}}]},
    {"id": 2, "r": []},
    {
        "id": 3,
        "r": [None, {"q": None, "t": "", "p": None}, {"q": 3, "t": None, "p": {"a": [2, 3]}}],
    },
    {"id": 4, "r": None},
]


@pytest.fixture
def rows(folder: Path) -> None:
    write_jsonl("t.jsonl", ROWS)


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
        assert lod("explode", source, *names, "-qfo", "out.jsonl").clean
        assert [json.loads(one) for one in Path("out.jsonl").read_text().splitlines()] == wanted


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["t.jsonl::tags"], ["t.jsonl", "tags"]),
        (["t.jsonl::day"], ["t.jsonl", "day"]),
        (["t.jsonl::day", "page"], ["t.jsonl", "day", "page"]),
        (["r.jsonl::r"], ["r.jsonl", "r"]),
        (["r.jsonl::r.q"], ["r.jsonl", "r"]),
    ],
    ids=str,
)
def test_a_tensor_of_the_source_is_exploded_alone(
    lod: Lod, given: list[str], wanted: list[str]
) -> None:
    Path("r.jsonl").write_text('{"l":[1,2,3],"r":[{"q":1},{"q":2}]}\n')
    results = []
    for args in (given, wanted):
        assert lod("explode", *args, "-qfo", "out.jsonl").clean
        results.append(Path("out.jsonl").read_text())
    assert results[0] == results[1]


@pytest.mark.parametrize("source", ["t.jsonl", "t.lod.h5", "t.parquet", "t.lods"])
@pytest.mark.parametrize("names", [["r"], [], ["r.t", "r.q", "r.p.a"], ["r.q", "r"]])
@pytest.mark.parametrize("both", [False, True])
def test_lists_of_records_become_records(
    lod: Lod,
    folder: Path,
    source: str,
    names: list[str],
    both: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    polars = pytest.importorskip("polars")
    # Null records beside records of nulls: another tensor stores which are null.
    nulls = [{"id": 5, "r": [{"q": None, "t": None, "p": {"a": None}}, None]}] if both else []
    write_jsonl("t.jsonl", RECORDS + nulls)
    if source != "t.jsonl":
        assert lod("convert", "-q", "t.jsonl", source).code == 0
    frame = polars.DataFrame(RECORDS + nulls).filter(polars.col("r").list.len() > 0)
    for size in (16, 8 << 20):
        monkeypatch.setattr(exploding, "BATCH_BYTES", size)
        assert lod("explode", source, *names, "-qfo", "out.parquet").clean
        assert polars.read_parquet("out.parquet").to_dicts() == frame.explode("r").to_dicts()


def test_records_in_records_keep_their_other_fields(lod: Lod, folder: Path) -> None:
    Path("t.jsonl").write_text('{"s":{"x":1,"r":[{"q":1},{"q":2}],"l":[5]}}\n{"s":{"x":2}}\n')
    assert lod("explode", "t.jsonl", "s.r", "-qo", "out.jsonl").clean
    found = [json.loads(one) for one in Path("out.jsonl").read_text().splitlines()]
    assert found == [{"s": {"x": 1, "r": {"q": q}, "l": [5]}} for q in (1, 2)]


@pytest.mark.parametrize("source", ["t.jsonl", "t.lod.h5", "t.parquet", "t.lods"])
@pytest.mark.parametrize("null", ['{"q":null}', "null"])
def test_records_around_a_null_value_are_not_null(
    lod: Lod, folder: Path, source: str, null: str
) -> None:
    lines = ['{"s":null}', '{"s":{"x":null,"r":[%s,{"q":2}]}}', '{"s":{"x":3,"r":[{"q":3}]}}']
    Path("t.jsonl").write_text("\n".join(lines) % null)
    if source != "t.jsonl":
        assert lod("convert", "-q", "t.jsonl", source).code == 0
    assert lod("explode", source, "s.r", "-qo", "out.jsonl").clean
    first = json.loads(Path("out.jsonl").read_text().splitlines()[0])["s"]
    assert first == {"x": None, "r": None if null == "null" else json.loads(null)}


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["r.q"], {"id": 1, "r.q": 1, "r.t": ["x", "y"]}),
        (["r.q", "r.t"], {"id": 1, "r": {"q": 1, "t": "x"}}),
    ],
)
def test_records_stay_whole_with_all_their_fields(
    lod: Lod, folder: Path, names: list[str], wanted: dict[str, Any]
) -> None:
    Path("t.jsonl").write_text('{"id":1,"r":[{"q":1,"t":"x"},{"q":2,"t":"y"}]}\n')
    assert lod("explode", "t.jsonl", *names, "-qo", "out.jsonl").clean
    assert json.loads(Path("out.jsonl").read_text().splitlines()[0]) == wanted


def test_a_batch_ends_by_the_sizes_of_its_own_items() -> None:
    texts = ["word", "", "x" * 900, *["word"] * 197]
    content = {"l": LoDTensor.from_lists([[1, 2, 3]] * 200), "t": LoDTensor.from_lists(texts)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exploding, "BATCH_BYTES", 1000)
        found = list(exploding.exploded([content], ["l"]))
    assert LoDTensor.concatenate([batch["t"] for batch in found]).to_list() == [
        text for text in texts for _ in range(3)
    ]
    assert max(batch["t"].values.nbytes for batch in found) <= 1000
    assert len(found) < 20  # one long text divides only its own values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exploding, "BATCH_BYTES", 100)
        assert len(list(exploding.exploded([content], ["l"]))) > 100


def test_repeated_lists_of_empty_lists_have_a_size() -> None:
    content = {
        "l": LoDTensor.from_lists([[1] * 50]),
        "e": LoDTensor.from_lists([[[]] * 99 + [[1]]]),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exploding, "BATCH_BYTES", 1000)
        found = list(exploding.exploded([content], ["l"]))
    assert [len(batch["e"]) for batch in found] == [1] * 50


def test_it_is_the_inverse_of_group(lod: Lod, folder: Path) -> None:
    Path("c.csv").write_text("user,day,page\nann,3,a\nann,1,b\nbob,2,c\nbob,5,d\nbob,1,e\n")
    assert lod("group", "-q", "c.csv", "--by", "user", "-o", "g.lod.h5").code == 0
    assert lod("explode", "g.lod.h5", "-qo", "back.csv").clean
    assert Path("back.csv").read_text() == Path("c.csv").read_text()


def test_inner_lists_and_rows_of_columns(lod: Lod, folder: Path) -> None:
    deep = [[[1, 2], [], None], None, [], [[3]]]
    x = LoDTensor(np.arange(8.0).reshape(4, 2), [[3, 0, 0, 1]])
    io.write("d.lod.h5", {"d": LoDTensor.from_lists(deep), "x": x, "i": LoDTensor(np.arange(4))})
    assert lod("explode", "d.lod.h5", "-qo", "out.lod.h5").clean
    assert tensor("out.lod.h5", "d").to_list() == [[1, 2], [], None, [3]]
    assert tensor("out.lod.h5", "x").to_list() == x.data.tolist()
    assert tensor("out.lod.h5", "i").to_list() == [0, 0, 0, 3]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ([], "item 0: day and tags have lists of 2 and 1 values; name only those of equal lengths"),
        (["tags", "day"], "tags and day have lists of 1 and 2 values; name only those of equal "),
        (["n"], "n: expected lists, found one value for each item"),
        (["user", "day"], "user: expected lists, found one value for each item"),
        (["pages"], "no tensor named 'pages'"),
    ],
)
def test_tensors_without_equal_lists_are_an_error(lod: Lod, line: list[str], said: str) -> None:
    done = lod("explode", "t.jsonl", *line, "-o", "out.lod.h5")
    assert done.code in (1, 2)
    assert said in done.stderr
    assert not Path("out.lod.h5").exists()


def test_a_table_without_lists_is_an_error(lod: Lod, folder: Path) -> None:
    Path("c.csv").write_text("user,day\nann,3\n")
    done = lod("explode", "c.csv", "-o", "out.csv")
    assert (done.code, "user, day: expected lists, found one value" in done.stderr) == (2, True)


def test_a_list_of_other_items_is_an_error(lod: Lod, folder: Path) -> None:
    lists = {"a": LoDTensor.from_lists([[1], [2]]), "b": LoDTensor.from_lists([[1], [2], [3]])}
    io.write("t.lod.h5", lists)
    done = lod("explode", "t.lod.h5", "a", "b", "-o", "out.lod.h5")
    assert (done.code, "b does not share the items of a (level 0)" in done.stderr) == (2, True)


def test_nothing_is_left_of_empty_lists(lod: Lod, folder: Path) -> None:
    content = {"l": LoDTensor.from_lists([[1], [2]])[:0], "n": LoDTensor(np.arange(0))}
    io.write("e.lod.h5", content)
    assert lod("explode", "e.lod.h5", "-qo", "out.lod.h5").code == 0
    assert tensor("out.lod.h5", "l").to_list() == []
