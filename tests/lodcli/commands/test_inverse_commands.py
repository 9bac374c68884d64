"""Commands that undo each other, on random tables with nulls, lists and records."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

from lodcli.formats.arrays import budget
from lodcli.formats.items import external_sort, grouping
from tests.lodcli.conftest import Lod
from tests.slow import slow

Draw = Callable[[random.Random], Any]
RECORD = pa.struct([("n", pa.int32()), ("t", pa.string())])
DAY = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


def _record(rng: random.Random) -> Any:
    return {"n": rng.choice([None, 1, 2]), "t": rng.choice([None, "", "é"])}


def _list(draw: Draw) -> Draw:
    return lambda rng: [rng.choice([None, draw(rng)]) for _ in range(rng.randrange(3))]


KEYS: dict[str, tuple[pa.DataType, Draw]] = {
    "whole": (pa.int64(), lambda rng: rng.choice([-(2**63), -1, 0, 2**53 + 1, 2**63 - 1])),
    "large": (pa.uint64(), lambda rng: rng.choice([0, 2**63, 2**64 - 1])),
    "flag": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "text": (pa.string(), lambda rng: rng.choice(["", "a", "a\0b", "é", "日本", "l" * 70])),
    "time": (
        pa.timestamp("us", "Europe/Oslo"),
        lambda rng: DAY + datetime.timedelta(hours=rng.randrange(-3, 3)),
    ),
    "price": (pa.decimal128(9, 2), lambda rng: Decimal(rng.randrange(-2, 3)) / 4),
}
VALUES: dict[str, tuple[pa.DataType, Draw]] = {
    "record": (RECORD, _record),
    "records": (pa.list_(RECORD), _list(_record)),
    "words": (pa.list_(pa.string()), _list(KEYS["text"][1])),
    "deep": (pa.list_(pa.list_(pa.int64())), _list(_list(KEYS["whole"][1]))),
}


def table(rng: random.Random) -> pa.Table:
    """Return a table of some columns, each with another share of nulls."""
    rows = rng.choice([0, 1, 7, 40])
    names = [*rng.sample([*KEYS], 3), *rng.sample([*VALUES], 2)]
    columns = {}
    for name in names:
        kind, draw = (KEYS | VALUES)[name]
        nulls = rng.choice([0, 0.3])
        columns[name] = pa.array(
            [None if rng.random() < nulls else draw(rng) for _ in range(rows)], kind
        )
    return pa.table(columns)


def rows_of(path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ipc.open_file(path).read_all().to_pylist()
    return rows


@pytest.mark.parametrize("suffix", ["arrow", "parquet", "lod.h5"])
@pytest.mark.parametrize("seed", [0, 1, 2, *map(slow, range(3, 40))])
def test_inverse_commands_restore_the_file(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, suffix: str
) -> None:
    rng = random.Random(seed)
    if rng.random() < 0.5:  # as with files larger than memory
        monkeypatch.setattr(budget, "KEPT_SHARE", 1 << 60)
        monkeypatch.setattr(external_sort, "RUN_BYTES", 256)
        monkeypatch.setattr(external_sort, "BLOCK_BYTES", 64)
        monkeypatch.setattr(grouping, "BATCH_BYTES", 128)
    wanted = table(rng)
    with ipc.new_file("in.arrow", wanted.schema) as file:
        file.write_table(wanted, 5)
    source = "in.arrow" if suffix == "arrow" else f"t.{suffix}"
    key, *_ = names = wanted.column_names

    def done(*args: str) -> None:
        found = lod(args[0], "-qf", *args[1:])
        assert (found.code, found.stderr) == (0, "")

    if suffix != "arrow":
        done("convert", "in.arrow", source)
    done("split", source, "--by", "count", "7", "-o", f"part-{{}}.{suffix}")
    done("concat", *sorted(map(str, Path().glob(f"part-*.{suffix}"))), "-o", "whole.arrow")
    assert rows_of("whole.arrow") == wanted.to_pylist()
    done("shard", source, "shards", "--shards", "3")
    done("concat", "shards", "-o", "shards.arrow")
    assert rows_of("shards.arrow") == wanted.to_pylist()
    done("sort", source, "--by", key, "-o", f"sorted.{suffix}")
    done("group", f"sorted.{suffix}", "--by", key, "-o", "one.arrow")
    done("group", source, "--by", key, "-o", "two.arrow")
    assert rows_of("one.arrow") == rows_of("two.arrow")
    done("explode", "two.arrow", *names[1:], "-o", "exploded.arrow")
    done("convert", f"sorted.{suffix}", "-o", "sorted.arrow")
    assert rows_of("exploded.arrow") == rows_of("sorted.arrow")
