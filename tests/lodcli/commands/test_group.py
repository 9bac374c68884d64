"""`lod group`, against pandas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.items import external_sort
from tests.lodcli.conftest import Lod, tensor

NAMES = ["ann", "bob", "zoë", "", "li, jr", 'o"hara', "x" * 90]


@pytest.fixture
def events(folder: Path) -> list[tuple[str, int, float]]:
    """events.csv: unsorted clicks of users; the same as other files."""
    rng = np.random.default_rng(5)
    rows = [
        (NAMES[user], int(day), float(value))
        for user, day, value in zip(
            *(rng.integers(0, 7, 300), rng.integers(0, 4, 300), rng.normal(size=300).round(3)),
            strict=True,
        )
    ]
    rows[0] = ("ann", 0, 0.5)  # columns of text begin with a word
    quoted = ('"' + user.replace('"', '""') + '"' for user, _, _ in rows)
    lines = [
        f"{user},{day},{value!r}\n" for user, (_, day, value) in zip(quoted, rows, strict=True)
    ]
    Path("events.csv").write_text("user,day,value\n" + "".join(lines))
    return rows


def groups(lod: Lod, source: str, *args: str) -> list[dict[str, Any]]:
    done = lod("group", source, *args, "-q", "-fo", "out.jsonl")
    assert (done.code, done.stderr) == (0, "")
    return [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("source", ["events.csv", "e.lod.h5", "e.lods", "e.jsonl", "e.parquet"])
@pytest.mark.parametrize("run_bytes", [1 << 9, 1 << 25])
def test_groups_are_those_of_pandas(
    lod: Lod,
    events: list[tuple[str, int, float]],
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    run_bytes: int,
) -> None:
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr(external_sort, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(external_sort, "BLOCK_BYTES", 1 << 7)
    if source != "events.csv":
        assert lod("convert", "-q", "events.csv", source).code == 0
    frame = pd.DataFrame(events, columns=["user", "day", "value"])
    for by in (["user"], ["day"], ["user", "day"], ["value"]):
        for order, sort in (("key", True), ("first", False)):
            wanted = frame.groupby(by, sort=sort).agg(list).reset_index().to_dict("records")
            assert groups(lod, source, "--by", ",".join(by), "--order", order) == wanted


def test_the_level_is_called_as_the_key_and_keys_stay_text(lod: Lod, events: Any) -> None:
    assert lod("group", "events.csv", "--by", "user", "-o", "users.lod.h5").code == 0
    assert tensor("users.lod.h5", "value").lod.names == ("user",)
    users = tensor("users.lod.h5", "user")
    assert users.to_list() == sorted({user for user, _, _ in events}, key=str.encode)
    assert lod("filter", "users.lod.h5", "length(user) > 40", "-q", "-o", "out.jsonl").code == 0
    lines = Path("out.jsonl").read_text().splitlines()
    assert min(len(json.loads(line)["value"]) for line in lines) > 40


def test_items_of_an_inner_level_are_grouped(lod: Lod, folder: Path) -> None:
    args = ("--by", "tags", "--level", "sentence")
    done = lod("group", "many.lod.h5::vectors", *args, "-o", "out.lod.h5")
    assert (done.code, done.stdout) == (2, "")
    assert "tags: a key is one number or one text for each item; this tensor has 1 level" in (
        done.stderr
    )
    assert not Path("out.lod.h5").exists()


def test_a_key_that_is_not_there_is_an_error_that_lists_the_tensors(lod: Lod, events: Any) -> None:
    done = lod("group", "events.csv", "--by", "users", "-o", "out.lod.h5")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        "lod group: events.csv: no tensor named 'users'; there are: user, day, value\n"
    )
