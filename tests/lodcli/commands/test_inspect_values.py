"""Options of `lod inspect` that read rows, and the width of the output."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.commands.inspect import duplicates as duplicate_search
from lodcli.commands.inspect import value_statistics as streaming
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod


def inspected(lod: Lod, *args: str) -> dict[str, Any]:
    done = lod("inspect", *args, "--json")
    assert (done.code, done.stderr) == (0, "")
    (found,) = [one for one in json.loads(done.stdout)["tensors"] if len(one) > 9]
    assert isinstance(found, dict)
    return found


def test_statistics_by_hand(lod: Lod, folder: Path) -> None:
    io.write("x.lod.h5", LoDTensor([1.0, 0.0, -3.0, math.nan, 4.0, 0.0], [[2, 4]]))
    found = inspected(lod, "x.lod.h5", "--stats")["values"]
    # Of 1, 0, -3, 4, 0: the mean is 0.4, the squares about it sum to 26 - 5 * 0.16.
    assert found.pop("mean") == pytest.approx(0.4, rel=1e-15)
    assert found.pop("std") == pytest.approx(math.sqrt(25.2 / 5), rel=1e-15)
    assert found == {"count": 6, "nan": 1, "infinite": 0, "zeros": 2, "min": -3.0, "max": 4.0}


@pytest.mark.parametrize("block_bytes", [8, 56, 1 << 20])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float32", "float64"]
)
def test_statistics_agree_with_numpy(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, block_bytes: int
) -> None:
    rng = np.random.default_rng(7)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    rows = (rng.normal(size=(40, 3)) * 20 + 90).astype(kind)
    io.write("x.lod.h5", LoDTensor(rows, LoD.from_lengths([[10, 0, 30]])))
    monkeypatch.setattr(streaming, "BATCH_BYTES", block_bytes)
    found = inspected(lod, "x.lod.h5", "--stats")["values"]
    values = rows.astype(np.float64)
    assert (found["min"], found["max"]) == (values.min(), values.max())
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert found["std"] == pytest.approx(values.std(), rel=1e-9)
    assert found["zeros"] == (values == 0).sum()


@pytest.mark.parametrize("piece", [1, 3, 7, 100])
def test_statistics_of_pieces_agree_with_those_of_all_values(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=60) * 10.0 ** rng.integers(-3, 4, 60)
    values[5:9], values[20], values[30], values[41:45] = math.nan, math.inf, -math.inf, 0
    values[50] = 1e150  # too large to square in float64
    io.write("x.lod.h5", LoDTensor(values, [[60]]))
    monkeypatch.setattr(streaming, "_PIECE", piece)
    found = inspected(lod, "x.lod.h5", "--stats")["values"]
    finite = values[np.isfinite(values)].astype(np.longdouble)
    assert (found["count"], found["nan"], found["infinite"], found["zeros"]) == (60, 4, 2, 4)
    assert (found["min"], found["max"]) == ("-inf", "inf")
    assert found["mean"] == pytest.approx(float(finite.mean()), rel=1e-12)
    assert found["std"] == pytest.approx(float(finite.std()), rel=1e-12)


def test_statistics_of_infinities_complex_numbers_and_nothing(lod: Lod, folder: Path) -> None:
    io.write("inf.lod.h5", LoDTensor([1.0, -math.inf, math.inf, 3.0], [[4]]))
    found = inspected(lod, "inf.lod.h5", "--stats")["values"]
    assert (found["min"], found["mean"], found["max"], found["infinite"]) == ("-inf", 2, "inf", 2)
    io.write("complex.lod.h5", LoDTensor([1j, 0, complex(math.nan, 1)], [[3]]))
    found = inspected(lod, "complex.lod.h5", "--stats")["values"]
    assert (found["zeros"], found["nan"], found["min"], found["mean"]) == (1, 1, None, None)
    io.write("none.lod.h5", LoDTensor(np.zeros(0), [[0, 0]]))
    found = inspected(lod, "none.lod.h5", "--stats")["values"]
    assert (found["count"], found["min"], found["std"]) == (0, None, None)


def test_statistics_of_values_near_the_limit_do_not_overflow(lod: Lod, folder: Path) -> None:
    io.write("large.lod.h5", LoDTensor([1e308, 1e308, -1e308], [[3]]))
    found = inspected(lod, "large.lod.h5", "--stats")["values"]
    assert found["mean"] == pytest.approx(1e308 / 3)
    assert found["std"] == pytest.approx(1e308 / 3 * 8**0.5)  # by hand


def test_statistics_of_endless_rows_without_values_end(lod: Lod, folder: Path) -> None:
    np.save("endless.npy", np.zeros((10**13, 0)))
    found = inspected(lod, "endless.npy", "--stats", "--max-bytes", "10T")["values"]
    assert (found["count"], found["mean"]) == (0, None)


def test_statistics_are_shown_for_each_tensor_and_through_a_pipe(shell: Lod, folder: Path) -> None:
    done = shell("lod convert many.lod.h5 | lod inspect - --stats")
    assert (done.code, done.stderr) == (0, "")
    found = [line.split() for line in done.stdout.splitlines()]
    # 0 to 29; 0 to 14.
    assert ["vectors", "30", "0", "14.5", "29", "8.65544", "1", "0", "0"] in found
    assert ["tags", "15", "0", "7", "14", "4.32049", "1", "0", "0"] in found


def test_the_longest_and_the_shortest(lod: Lod, folder: Path) -> None:
    # The example: articles of 3, 1, 2 sentences of 3, 2, 4; 1; 2, 3 words.
    found = inspected(lod, "words.lod.h5", "--top", "2")["top"]
    assert found == [
        {"item": 0, "branch": [0], "length": 3},
        {"item": 2, "branch": [2], "length": 2},
    ]
    more = inspected(lod, "words.lod.h5", "--top", "9", "--by", "-length", "--level", "sentence")
    assert [one["length"] for one in more["top"]] == [1, 2, 2, 3, 3, 4]
    assert [one["branch"] for one in more["top"]] == [
        [1, 0],
        [0, 1],
        [2, 0],
        [0, 0],
        [2, 1],
        [0, 2],
    ]
    done = lod("inspect", "words.lod.h5", "--top", "1", "--level", "1", "--values")
    *_, heads, row = done.stdout.splitlines()
    assert heads.split() == ["sentence", "branch", "length", "values"]
    assert row.split(maxsplit=3) == ["2", "0,2", "4", "[(10, 11), (12, 13), (14, 15), (16, 17)]"]


def test_the_first_values(lod: Lod, folder: Path) -> None:
    found = inspected(lod, "many.lod.h5::tags", "--head", "2", "--values")["head"]
    assert [one["values"] for one in found] == [[[0, 1, 2], [3, 4], [5, 6, 7, 8]], [[9]]]
    text = LoDTensor(np.frombuffer(b"onetwo!", np.uint8), LoD.from_lengths([[1, 1], [3, 4]]))
    io.write("text.lod.h5", text.as_text())
    assert inspected(lod, "text.lod.h5", "--head", "1", "--values")["head"][0]["values"] == ["one"]
    io.write("odd.lod.h5", LoDTensor([math.nan, 1.0], [[2]]))
    assert inspected(lod, "odd.lod.h5", "--head", "1", "--values")["head"][0]["values"] == [
        "nan",
        1,
    ]


@pytest.mark.parametrize("most", [2, 5, 1000])
@pytest.mark.parametrize("block_bytes", [8, 24, 1 << 20])
def test_duplicates_are_those_of_a_plain_loop(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, most: int, block_bytes: int
) -> None:
    monkeypatch.setattr(duplicate_search, "MOST_AT_ONCE", most)
    monkeypatch.setattr(duplicate_search, "BATCH_BYTES", block_bytes)
    rng = np.random.default_rng(3)
    lengths = rng.choice([0, 1, 2, 3, 9], 60)
    outer = [20, 0, 30, 10]
    rows = rng.integers(0, 2, int(lengths.sum())) * np.repeat(lengths < 9, lengths)
    tensor = LoDTensor(rows, LoD.from_lengths([outer, lengths]))
    io.write("x.lod.h5", tensor)
    known: dict[str, list[int]] = {}
    for number, one in enumerate(tensor.iterate(1)):
        known.setdefault(str(one.to_list()), []).append(number)
    found = inspected(lod, "x.lod.h5", "--duplicates", "--level", "1")["duplicates"]
    assert (found["sequences"], found["duplicates"]) == (60, 60 - len(known))
    groups = sorted((-len(items), items[:8]) for items in known.values() if len(items) > 1)[:5]
    assert [(-one["count"], one["items"]) for one in found["groups"]] == groups


def test_hashes_with_one_equal_half_are_no_duplicates() -> None:
    pairs = [(1, 5), (1, 7), (1, 5), (2, 7), (1, 7), (1, 5), (3, 0)]
    items = np.arange(10, 17)
    for digests in (pairs, [pair[::-1] for pair in pairs]):
        more, groups = duplicate_search._repeated(np.array(digests, np.uint64), items)
        assert more == 3
        assert [(one.count, one.items) for one in groups] == [(3, (10, 12, 15)), (2, (11, 14))]
    assert duplicate_search._repeated(np.zeros((0, 2), np.uint64), items[:0])[0] == 0


def test_sequences_of_equal_rows_and_other_levels_are_no_duplicates(lod: Lod, folder: Path) -> None:
    io.write("x.lod.h5", LoDTensor([1, 2, 3] * 3, [[2, 2, 2], [1, 2, 2, 1, 1, 2]]))
    found = inspected(lod, "x.lod.h5", "--duplicates")["duplicates"]
    assert found["duplicates"] == 1
    assert found["groups"] == [{"count": 2, "items": [0, 2]}]
    shown = lod("inspect", "x.lod.h5", "--duplicates").stdout
    assert shown.endswith(
        "duplicates: 1 of 3 sequences (level 0) equal an earlier one\n2 times: 0, 2\n"
    )


def test_nulls_are_neither_values_nor_equal_to_zeros(lod: Lod, folder: Path) -> None:
    rows = [[1, None, 0], [1, 0, 0], [1, None, 0], None, [], []]
    io.write("nulls.lod.h5", LoDTensor.from_lists(rows))
    found = inspected(lod, "nulls.lod.h5", "--stats", "--duplicates", "--head", "2", "--values")
    assert (found["values"]["count"], found["values"]["zeros"]) == (7, 4)
    assert found["values"]["mean"] == pytest.approx(3 / 7)
    assert [one["items"] for one in found["duplicates"]["groups"]] == [[0, 2], [4, 5]]
    assert [one["values"] for one in found["head"]] == [[1, None, 0], [1, 0, 0]]


def test_duplicates_across_blocks_with_nulls(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a block of rows ends, and whether it has a null, makes no difference."""
    monkeypatch.setattr(duplicate_search, "BATCH_BYTES", 40)
    lists = [[1, None, 3], [4], [1, None, 3], [*range(11)], [4], [1, None, 3], [*range(11)], []]
    io.write("nulls.lod.h5", LoDTensor.from_lists(lists))
    assert lod("shard", "nulls.lod.h5", "shards", "--shards", "4").code == 0
    for name in ("nulls.lod.h5", "shards"):
        found = inspected(lod, name, "--duplicates")["duplicates"]
        assert [one["items"] for one in found["groups"]] == [[0, 2, 5], [1, 4], [3, 6]]


def test_sequences_of_rows_without_values_are_equal_if_their_lengths_are(
    lod: Lod, folder: Path
) -> None:
    io.write("x.lod.h5", LoDTensor(np.zeros((7, 0)), LoD.from_lengths([[2, 3, 0, 2]])))
    found = inspected(lod, "x.lod.h5", "--duplicates")["duplicates"]
    assert [one["items"] for one in found["groups"]] == [[0, 3]]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["words.lod.h5", "--values"], "--values is for --head N or --top N"),
        (["words.lod.h5", "--by", "length"], "--by is for --top N"),
        (["words.lod.h5", "--stats", "--form", "lengths"], "--form prints the index only"),
        (["words.lod.h5", "--head", "1", "--form", "lengths"], "--form prints the index only"),
        (["words.lod.h5", "--html", "x", "--form", "lengths"], "--form prints the index only"),
        (["many.lod.h5", "--duplicates"], "choose one: many.lod.h5::vectors"),
        (["words.lod.h5", "--top", "1", "--level", "word"], "word"),
        (["flat.npz", "--top", "1"], "data has no levels"),
    ],
)
def test_wrong_usage_is_one_line(lod: Lod, folder: Path, args: list[str], said: str) -> None:
    np.savez("flat.npz", data=np.arange(3))
    done = lod("inspect", *args)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


@pytest.mark.parametrize("columns", [20, 30, 40, 60, 79, 80, 120])
def test_everything_keeps_to_the_width_of_the_terminal(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    lod("unpack", "words.lod.h5", "-o", "steps.lod.h5")
    io.write("ones.lod.h5", LoDTensor(np.arange(500) % 7, [[1] * 50, [10, 0, 20] * 16 + [10, 10]]))
    more = ["--stats", "--duplicates", "--top", "3", "--head", "2", "--values"]
    monkeypatch.setenv("COLUMNS", str(columns))
    for args in (["steps.lod.h5"], ["many.lod.h5", "--stats"], ["ones.lod.h5", *more]):
        done = lod("inspect", *args)
        assert done.code == 0
        assert max(map(len, done.stdout.splitlines())) <= columns, done.stdout


def test_a_pipe_has_no_width(lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = lod("env").stdout
    assert max(map(len, wide.splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, lod("env").stdout.splitlines())) <= 80


@pytest.mark.usefixtures("folder")
def test_statistics_of_decimals_are_of_their_values(lod: Lod) -> None:
    prices = [Decimal("1.50"), None, Decimal("2.25"), Decimal("0.00")]
    io.write("p.lod.h5", LoDTensor.from_lists(prices))
    (found,) = json.loads(lod("inspect", "p.lod.h5", "--stats", "--json").stdout)["tensors"]
    known = [float(one) for one in prices if one is not None]
    wanted = {"count": 3, "nan": 0, "infinite": 0, "zeros": 1, "min": 0.0, "max": 2.25}
    assert found["values"] == {**wanted, "mean": 1.25, "std": float(np.std(known))}
