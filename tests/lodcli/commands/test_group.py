"""`lod group`, against pandas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.arrays import budget
from lodcli.formats.items import external_sort, grouping
from tests.lodcli.conftest import Lod, read_jsonl, tensor, write_jsonl

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
    assert lod("group", source, *args, "-q", "-fo", "out.jsonl").clean
    return read_jsonl("out.jsonl")


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
    monkeypatch.setattr(budget, "KEPT_SHARE", 1 << 60)
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


@pytest.mark.parametrize("order", ["key", "first"])
def test_sessions_end_at_gaps_as_in_pandas(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(budget, "KEPT_SHARE", 1 << 60)
    monkeypatch.setattr(external_sort, "RUN_BYTES", 1 << 11)
    monkeypatch.setattr(grouping, "BATCH_BYTES", 1 << 9)
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "user": [NAMES[user] for user in rng.integers(0, 7, 400)],
            "time": pd.to_datetime(rng.choice(90_000, 400, replace=False), unit="s", utc=True),
            "event": np.arange(400),
        }
    )
    frame.to_parquet("events.parquet")
    frame = frame.sort_values(["user", "time"])
    # More than 10 minutes: a step of exactly 600 s stays within the session.
    frame["session"] = (
        ~(frame.groupby("user")["time"].diff() <= pd.Timedelta(minutes=10))
    ).cumsum()
    sessions = frame.groupby("session")["event"].apply(list).tolist()
    if order == "first":
        sessions.sort(key=lambda events: events[0])
    args = ("--by", "user", "--gap", "time=PT10M", "--order", order)
    found = groups(lod, "events.parquet", *args)
    assert [one["event"] for one in found] == sessions
    users = dict(zip(frame["event"], frame["user"], strict=True))
    assert [one["user"] for one in found] == [users[events[0]] for events in sessions]
    for keep, place in (("first", 0), ("last", -1)):
        kept = [one["event"] for one in groups(lod, "events.parquet", *args, "--keep", keep)]
        expected = [events[place] for events in sessions]
        assert kept == (sorted(expected) if order == "first" else expected)


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("batch_bytes", [1 << 8, 1 << 23])
def test_keep_drops_duplicates_as_pandas_does(
    lod: Lod,
    events: list[tuple[str, int, float]],
    monkeypatch: pytest.MonkeyPatch,
    keep: str,
    batch_bytes: int,
) -> None:
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr(grouping, "BATCH_BYTES", batch_bytes)
    frame = pd.DataFrame(events, columns=["user", "day", "value"])
    for by in (["user"], ["user", "day"]):
        expected = frame.drop_duplicates(by, keep=keep).to_dict("records")
        found = groups(lod, "events.csv", "--by", ",".join(by), "--keep", keep, "--order", "first")
        assert found == expected


def test_kept_items_keep_nulls_and_their_sequences(lod: Lod, folder: Path) -> None:
    Path("a.jsonl").write_text(
        '{"id":2,"tags":["x",null],"n":null}\n{"id":1,"tags":null,"n":5}\n'
        '{"id":2,"tags":[],"n":7}\n{"id":null,"tags":["y"],"n":8}\n'
    )
    assert groups(lod, "a.jsonl", "--by", "id", "--keep", "first") == [
        {"id": 1, "tags": None, "n": 5},
        {"id": 2, "tags": ["x", None], "n": None},
        {"id": None, "tags": ["y"], "n": 8},
    ]


@pytest.mark.parametrize(
    ("gap", "code", "error"),
    [
        ("n", 2, "expected TENSOR=MOST, such as time=PT30M; found 'n'"),
        ("m=1", 2, "no tensor named 'm'"),
        ("n=PT1M", 2, "n: expected a number, found 'PT1M'"),
        ("n=-1", 2, "n: expected a gap of 0 or more, found '-1'"),
        ("word=PT1M", 4, "word: text has no gaps; lod cast FILE 'word=timestamp[s]' makes times"),
        ("word=1", 4, "word: text has no gaps; lod cast FILE word=int64 makes numbers of it"),
        ("word=1.5", 4, "word: text has no gaps; lod cast FILE word=float64 makes numbers of it"),
        ("list=1", 2, "list: a gap needs one time or number for each item"),
        ("yes=1", 4, "yes: bool has no gaps"),
        ("n=1", 1, "n: row <1> is null, so it has no distance to others; --nulls drop"),
    ],
)
def test_a_gap_without_meaning_is_an_error(
    lod: Lod, folder: Path, gap: str, code: int, error: str
) -> None:
    Path("a.jsonl").write_text(
        '{"id":1,"n":1,"word":"a","list":[1],"yes":true}\n'
        '{"id":1,"n":null,"word":"b","list":[2],"yes":false}\n'
    )
    done = lod("group", "a.jsonl", "--by", "id", "--gap", gap, "-o", "out.lod.h5")
    assert done.code == code
    assert error in done.stderr
    assert not Path("out.lod.h5").exists()


@pytest.mark.parametrize("key", ["who.name", "user id", "7"])
def test_a_key_whose_name_cannot_name_a_level(lod: Lod, folder: Path, key: str) -> None:
    first, _, last = key.partition(".")
    values = [("b", 1), ("a", 2), ("b", 3)]
    lines = [{first: {last: word} if last else word, "n": n} for word, n in values]
    write_jsonl("a.jsonl", lines)
    found = groups(lod, "a.jsonl", "--by", key)
    keys = [one[first][last] if last else one[first] for one in found]
    assert keys == ["a", "b"]
    assert [one["n"] for one in found] == [[2], [1, 3]]
