"""Commands that keep items of Parquet in their order read the file once, without a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from lodcli.commands.choose import branches
from lodcli.formats.arrow.source import SeekableRecordSource
from lodcli.formats.items import indexed_copy
from tests.lodcli.conftest import Lod
from tests.sampling import by_turns

ROWS = 1000
COPIED = indexed_copy.copied


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write events.parquet, of several row groups, and return its table; copies are an error."""
    rng = np.random.default_rng(5)
    lists = [None if n % 11 == 0 else list(range(n, n + n % 4)) for n in range(ROWS)]
    found = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "price": pa.array(rng.standard_normal(ROWS), mask=rng.random(ROWS) < 0.2),
            "text": pa.array([None if n % 7 == 0 else "bé" * (n % 5) for n in range(ROWS)]),
            "tags": pa.array(lists, pa.list_(pa.int32())),
            "turn": pa.array([{"who": str(n), "said": n} for n in range(ROWS)]),
        }
    )
    pq.write_table(found, tmp_path / "events.parquet", row_group_size=170)
    monkeypatch.chdir(tmp_path)

    def copied(*args: object) -> None:
        raise AssertionError("a copy")

    monkeypatch.setattr(indexed_copy, "copied", copied)
    return found


def rows_of(*paths: str) -> list[dict[str, Any]]:
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(
    ("args", "numbers"),
    [
        ("tail -n 3", range(997, 1000)),
        ("tail -n -3", range(3, ROWS)),
        ("tail -n 0", range(0)),
        ("tail -n 5000", range(ROWS)),
        ("head -n -3", range(997)),
        ("head -n -5000", range(0)),
        ("slice 169:171", range(169, 171)),
        ("slice 20:990", range(20, 990)),
        ("slice 7::3", range(7, ROWS, 3)),
        ("slice 30:20", range(0)),
        ("slice 0:3,5,400:410:2,-1", [0, 1, 2, 5, 400, 402, 404, 406, 408, 999]),
        ("slice 0:0,169:170", [169]),
    ],
)
def test_items_kept_in_order_are_not_copied(
    lod: Lod,
    table: Any,
    args: str,
    numbers: range | list[int],
    small: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not small:  # not a slice of each tensor by itself
        monkeypatch.setattr(branches, "SMALL_BYTES", 0)
    name, *rest = args.split()
    options = [*rest, "events.parquet"] if name != "slice" else ["events.parquet", *rest]
    lod(name, *options, "-o", "out.parquet")
    assert rows_of("out.parquet") == table.take(pa.array(numbers, pa.int64())).to_pylist()


def test_a_sample_is_not_copied(lod: Lod, table: Any) -> None:
    lod("sample", "events.parquet", "25%", "--seed", "7", "-o", "out.parquet")
    order = np.arange(ROWS)
    np.random.default_rng(7).shuffle(order)  # as documented: the first of a shuffled order
    assert rows_of("out.parquet") == table.take(np.sort(order[:250])).to_pylist()


def test_parts_of_a_count_and_of_shares_are_not_copied(lod: Lod, table: Any) -> None:
    told = lod("split", "events.parquet", "--by", "count", "300", "-o", "p-{}.parquet").stdout
    assert rows_of(*(f"p-{n}.parquet" for n in range(4))) == table.to_pylist()
    text = table["text"].combine_chunks()
    sizes = [sum(len(one or "") + (one or "").count("é") for one in text[a : a + 300].to_pylist())
             for a in range(0, ROWS, 300)]  # fmt: skip
    rows = [int(line.split()[3].replace(",", "")) for line in told.splitlines()]
    digits = [sum(map(len, map(str, range(a, min(a + 300, ROWS))))) for a in range(0, ROWS, 300)]
    lists = table["tags"].combine_chunks()
    tags = [len(lists[a : a + 300].flatten()) for a in range(0, ROWS, 300)]
    assert rows == [max(each) for each in zip(sizes, digits, tags, strict=True)]
    lod("split", "events.parquet", "--by", "fractions", "0.5,0.5", "-o", "{a,b}.parquet")
    assert rows_of("a.parquet", "b.parquet") == table.to_pylist()
    assert len(rows_of("a.parquet")) == 500


def test_several_files_are_not_copied(lod: Lod, table: Any) -> None:
    lod("split", "events.parquet", "--by", "count", "300", "-o", "p-{}.parquet")
    for args in (["tail", "-n", "450", "p-*.parquet"], ["sample", "p-*.parquet", "5%"]):
        lod(*args, "-o", "out.parquet", "--force")
        ids = [row["id"] for row in rows_of("out.parquet")]
        assert rows_of("out.parquet") == table.take(pa.array(ids)).to_pylist()
        assert ids == (list(range(550, ROWS)) if args[0] == "tail" else sorted(set(ids)))
    assert len(ids) == 50


@pytest.mark.parametrize(
    ("ending", "options", "args", "numbers"),
    [
        (ending, options, *case)
        for ending, options, case in by_turns(
            3,
            ["parquet", "arrow"],
            ["", "--nulls zero", "--isolate"],
            [
                ("tail -n 3 FILES", range(997, 1000)),
                ("tail -n 450 FILES", range(550, 1000)),
                ("tail -n 0 FILES", range(0)),
                ("head -n -995 FILES", range(5)),
                ("slice FILES 699:701", range(699, 701)),
                ("slice FILES 310:320", range(310, 320)),
                ("slice FILES 910:920:3", range(910, 920, 3)),
                ("split FILES --by count 250", range(ROWS)),
                ("split FILES --by fractions 0.5,0.1,0.4", range(ROWS)),
            ],
        )
    ],
)
def test_files_before_the_chosen_items_are_passed_over(
    lod: Lod,
    table: Any,
    ending: str,
    options: str,
    args: str,
    numbers: range,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(branches, "SMALL_BYTES", 0)
    monkeypatch.setattr(indexed_copy, "copied", COPIED)  # with --isolate there is a copy
    write = pq.write_table if ending == "parquet" else feather.write_feather
    for number in range(4):
        folder = Path(f"year={2020 + number}")
        folder.mkdir()
        write(table.slice(number * 300, 300), folder / f"p.{ending}")
    words = ["*/p." + ending if word == "FILES" else word for word in args.split()]
    out = "out-{}.parquet" if words[0] == "split" else "out.parquet"
    assert lod(*words, *options.split(), "-o", out, "-q").code == 0
    found = rows_of(*map(str, sorted(Path().glob("out*.parquet"), key=_number)))
    expected = table.take(pa.array(numbers, pa.int64())).to_pylist()
    assert [row["id"] for row in found] == list(numbers)
    assert [row["year"] for row in found] == [2020 + number // 300 for number in numbers]
    if options == "--nulls zero":
        for row in expected:
            row.update(price=row["price"] or 0, text=row["text"] or "", tags=row["tags"] or [])
    assert [{name: row[name] for name in row if name != "year"} for row in found] == expected


def _number(path: Path) -> int:
    digits = path.stem.partition("-")[2]
    return int(digits) if digits else 0


def test_items_in_another_order_are_copied(lod: Lod, table: Any) -> None:
    # So the other tests would fail if anything was copied.
    assert lod("slice", "events.parquet", "20:10:-1", "-o", "out.parquet").code == 1
    assert not Path("out.parquet").exists()


def test_only_the_span_of_the_chosen_items_is_read(
    lod: Lod, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int]] = []
    whole: Callable[..., Any] = SeekableRecordSource._read_range

    def seen(self: Any, names: Any, limit_bytes: int, start: int, stop: int) -> Any:
        read.append((start, stop))
        return whole(self, names, limit_bytes, start, stop)

    monkeypatch.setattr(SeekableRecordSource, "_read_range", seen)
    lod("slice", "events.parquet", "700:800:5,850:990", "-o", "out.parquet")
    assert read == [(700, 990)]


@pytest.mark.parametrize("out", ["out.parquet", "out.arrow", "out.lod.h5"])
def test_columns_of_two_files_are_merged_as_they_are_read(lod: Lod, table: Any, out: str) -> None:
    words = [None if n % 5 == 0 else f"w{n % 3}" for n in range(ROWS)]
    beside = pa.table(
        {
            "kind": pa.array(words).dictionary_encode(),
            "name": pa.array([None if n % 13 == 0 else "é" * (n % 9) for n in range(ROWS)]),
            "time": pa.array(range(ROWS), pa.timestamp("us")),
        }
    )
    pq.write_table(beside, "beside.parquet", row_group_size=610)
    assert lod("merge", "beside.parquet", "events.parquet", "-o", out).code == 0
    lod("convert", out, "read.parquet", "-f")
    parts = zip(rows_of("beside.parquet"), table.to_pylist(), strict=True)
    expected = [one | two for one, two in parts]
    assert rows_of("read.parquet") == expected


def test_lists_and_numbers_of_records_of_two_files_are_still_compared(
    lod: Lod, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexed_copy, "copied", COPIED)
    names = {name: f"{name}_b" for name in table.column_names}
    for number, other in enumerate((table, table.slice(1), table.select(["id"]).slice(1))):
        other = other.rename_columns([names[name] for name in other.column_names])
        pq.write_table(other, f"{number}.parquet")
    found = [lod("merge", "events.parquet", f"{n}.parquet", "-o", f"out{n}.lod.h5") for n in "012"]
    assert [done.code for done in found] == [0, 1, 1]
    assert "does not have the index of" in found[1].stderr
    assert "items" in found[2].stderr
