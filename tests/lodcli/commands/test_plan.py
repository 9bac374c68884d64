"""`lod plan`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.registry import get
from lodcli.formats.core.table import TABLE
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor


@pytest.fixture
def lengths(folder: Path) -> list[int]:
    """ids.lod.h5: 300 sequences of ids and of weights, and a label beside each."""
    rng = np.random.default_rng(5)
    found = rng.integers(0, 60, 300)
    lod = LoD.from_lengths([found], ["document"])
    rows = int(found.sum())
    io.write(
        folder / "ids.lod.h5",
        {
            "ids": LoDTensor(np.arange(rows), lod),
            "weights": LoDTensor(rng.random((rows, 2)), lod),
            "label": LoDTensor(np.arange(300)),
        },
    )
    return [int(one) for one in found]


def test_the_costs_are_those_of_the_batches(lod: Lod, lengths: list[int]) -> None:
    done = lod("plan", "ids.lod.h5", "--tokens", "128", "--json")
    assert (done.code, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["sequences"], told["rows"], told["too_long"]) == (300, sum(lengths), 0)
    padded, bucket, pack = told["strategies"]
    for cost, order in ((padded, lengths), (bucket, sorted(lengths))):
        batches: list[list[int]] = [[]]
        for length in order:
            if max([*batches[-1], length]) * (len(batches[-1]) + 1) > 128:
                batches.append([])
            batches[-1].append(length)
        padding = sum(max(batch) * len(batch) for batch in batches) - sum(lengths)
        assert (cost["batches"], cost["padding"]) == (len(batches), padding)
        assert cost["fill"] == pytest.approx(sum(lengths) / 128 / len(batches))
    assert pack["padding"] == 0
    assert -(-sum(lengths) // 128) <= pack["batches"] < bucket["batches"] < padded["batches"]


def test_the_table_shows_shares_of_padding_and_rows(lod: Lod, folder: Path) -> None:
    io.write("few.lod.h5", LoDTensor(np.arange(12), [[3, 1, 2, 4, 2]]))
    shown = lod("plan", "few.lod.h5", "--tokens", "4").stdout.splitlines()
    # By hand: 3 | 1 2 | 4 | 2, sorted 1 2 | 2 | 3 | 4, packed 4 | 3 1 | 2 2.
    assert shown[:2] == ["data: 5 sequences, 12 rows, in batches of 4", ""]
    assert [line.split() for line in shown[3:]] == [
        ["padded", "4", "1", "7.7", "%", "75.0", "%"],
        ["bucket", "4", "1", "7.7", "%", "75.0", "%"],
        ["pack", "3", "0", "0.0", "%", "100.0", "%"],
    ]


@pytest.mark.parametrize(("seed", "part_bytes"), [(None, 1 << 20), (3, 1 << 20), (None, 10_000)])
def test_packed_batches_hold_every_sequence_once(
    lod: Lod,
    lengths: list[int],
    seed: int | None,
    part_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lodcli.commands.plan.writing.BATCH_BYTES", part_bytes)
    more = [] if seed is None else ["--seed", str(seed)]
    args = ("plan", "ids.lod.h5", "--tokens", "128", *more, "--strategy", "pack")
    done = lod(*args, "--write", "packed.lod.h5", "--json")
    assert (done.code, done.stderr) == (0, "")
    count = json.loads(done.stdout)["strategies"][0]["batches"]
    found = {name: tensor("packed.lod.h5", name) for name in io.read_all("packed.lod.h5")}
    ids, positions, documents = (
        found[name].to_list() for name in ("ids", "positions", "documents")
    )
    items, boundaries = found["items"].to_list(), found["cu_seqlens"].to_list()
    assert len(ids) == len(items) == len(boundaries) == found["max_seqlen"].rows == count
    assert found["ids"].lod.names == ("batch", "document")
    assert found["ids"].lod.same_levels(found["weights"].lod)
    whole = tensor("ids.lod.h5", "ids").to_list()
    assert sorted(one for batch in items for one in batch) == list(range(300))
    assert found["label"].to_list() == items
    for number, batch in enumerate(ids):
        assert batch == [whole[item] for item in items[number]]
        sizes = [len(one) for one in batch]
        assert sum(sizes) <= 128
        assert boundaries[number] == [0, *np.cumsum(sizes).tolist()]
        assert found["max_seqlen"].data[number] == max(sizes)
        assert positions[number] == [list(range(size)) for size in sizes]
        assert documents[number] == [[place] * size for place, size in enumerate(sizes)]
    assert lod(*args, "--write", "again.lod.h5").code == 0
    assert tensor("again.lod.h5", "items").to_list() == items
    if seed is not None:
        lod("plan", "ids.lod.h5", "--tokens", "128", "-o", "plain.lod.h5")
        assert tensor("plain.lod.h5", "items").to_list() != items


def test_sequences_over_the_limit_are_reported_and_dropped_on_request(
    lod: Lod, lengths: list[int]
) -> None:
    longer = sum(one > 40 for one in lengths)
    done = lod("plan", "ids.lod.h5", "--tokens", "40")
    assert done.code == 0
    assert f"left out: {longer} sequences of more rows than a batch" in done.stdout
    done = lod("plan", "ids.lod.h5", "--tokens", "40", "--write", "p.lod.h5")
    first = lengths.index(max(lengths))
    assert (done.code, done.stdout) == (1, "")
    assert f"ids: item {first} has {max(lengths)} rows, more than a batch of 40" in done.stderr
    assert lod("plan", "ids.lod.h5", "--tokens", "40", "--drop-long", "-o", "p.lod.h5").code == 0
    held = tensor("p.lod.h5", "items").data.tolist()
    assert sorted(held) == [number for number, one in enumerate(lengths) if one <= 40]


def test_packed_batches_keep_nulls_and_marks(lod: Lod, folder: Path) -> None:
    lines = [
        {"ids": [1, 2], "n": None, "lang": "en", "turns": [{"t": [1]}, {"t": [2, 3]}]},
        {"ids": [3], "n": 7, "lang": None, "turns": []},
        {"ids": [4, 5], "n": None, "lang": "", "turns": [{"t": []}]},
    ]
    Path("chat.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    args = ("--tokens", "3", "--write", "packed.lod.h5", "-q")
    assert lod("plan", "chat.jsonl::ids", *args).code == 0
    numbers = tensor("packed.lod.h5", "items").to_list()
    assert sorted(item for batch in numbers for item in batch) == [0, 1, 2]
    for name, old in (("ids", "ids"), ("n", "n"), ("lang", "lang")):
        wanted = [[lines[item][old] for item in batch] for batch in numbers]
        assert tensor("packed.lod.h5", name).to_list() == wanted
    wanted = [[[turn["t"] for turn in lines[item]["turns"]] for item in b] for b in numbers]
    assert tensor("packed.lod.h5", "turns.t").to_list() == wanted
    assert lod("convert", "-q", "packed.lod.h5::turns", "packed.jsonl").clean
    found = [json.loads(line)["turns"] for line in Path("packed.jsonl").read_text().splitlines()]
    assert found == [[lines[item]["turns"] for item in batch] for batch in numbers]


def test_one_of_several_lengths_is_chosen_by_name(lod: Lod, folder: Path) -> None:
    Path("text.jsonl").write_text('{"id":"a1","ids":[1,2,3],"same":[4,5,6]}\n')
    done = lod("plan", "text.jsonl", "--tokens", "8", "-o", "p.lod.h5")
    assert (done.code, done.stdout) == (2, "")
    assert "id, ids, same differ in their lengths; choose one with FILE::NAME" in done.stderr
    assert not Path("p.lod.h5").exists()
    assert lod("select", "text.jsonl", "ids", "same", "-o", "two.jsonl").code == 0
    for source, rows in [("text.jsonl::id", 2), ("text.jsonl::ids", 3), ("two.jsonl", 3)]:
        done = lod("plan", source, "--tokens", "8", "--strategy", "pack", "--json")
        assert done.code == 0
        assert json.loads(done.stdout)["rows"] == rows


def test_no_sequences_make_no_batches(lod: Lod, folder: Path) -> None:
    io.write("none.lod.h5", LoDTensor(np.arange(0), LoD.from_lengths([[]])))
    done = lod("plan", "none.lod.h5", "--tokens", "8", "--json", "-o", "p.lod.h5")
    assert done.code == 0
    assert [one["batches"] for one in json.loads(done.stdout)["strategies"]] == [0, 0, 0]
    assert tensor("p.lod.h5", "items").rows == 0


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--tokens", "0"], 2, "--tokens"),
        ([], 2, "--tokens"),
        (["--tokens", "9", "--write", "-"], 2, "name a file for --write"),
        (["--tokens", "9", "--strategy", "best"], 2, "'best'"),
        (["--tokens", "9", "--strategy", "bucket", "--write", "x"], 2, "add --strategy pack"),
        (["--tokens", "9", "--level", "verse"], 2, "no level named 'verse'"),
        (["--tokens", "9", "--write", "words.lod.h5"], 3, "exists already; use --force"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_impossible_plan_is_an_error(
    lod: Lod, folder: Path, args: list[str], code: int, said: str
) -> None:
    done = lod("plan", "words.lod.h5", *args)
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr


def test_records_are_chosen_by_name(lod: Lod, folder: Path) -> None:
    Path("turns.jsonl").write_text('{"turns":[{"a":1,"b":2},{"a":1,"b":2}],"ids":[1]}\n')
    done = lod("plan", "turns.jsonl::turns", "--tokens", "8", "--json")
    assert (done.code, json.loads(done.stdout)["rows"]) == (0, 2)


@pytest.mark.parametrize(
    "name", [name for name, one in TABLE.items() if one.endings and not get(name).read_only]
)
def test_the_hint_on_the_output_names_what_can_be_written(
    name: str, lod: Lod, folder: Path
) -> None:
    kind, out = get(name), f"out{TABLE[name].endings[0]}"
    if not all(package.installed for package in kind.needs):
        pytest.skip(f"{name} needs a package")
    deep = LoD.from_lengths([[2, 1], [1, 1, 1], [1, 2, 1]])
    io.write("deep.lod.h5", {"x": LoDTensor(np.arange(4), deep)})
    hint = f"; the file to write goes after -o: -o {out}"
    hinted = hint in lod("plan", "deep.lod.h5", out, "--tokens", "9").stderr
    assert hinted == (lod("plan", "deep.lod.h5", "--tokens", "9", "-o", out).code == 0)
