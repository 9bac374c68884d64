"""`lod filter` of Parquet: parts of a file that cannot hold items to keep are not read."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from lodcli.commands.choose.expression import Expression
from lodcli.commands.choose.filtering import Filter
from lodcli.commands.choose.outcomes import outcomes
from lodcli.expressions.parsing import ExpressionError
from lodcli.formats.choosing.choice import UNKNOWN, ValueRange
from lodcli.formats.choosing.part_runs import runs
from lodcli.formats.core import io
from lodcli.formats.core.format import Source
from lodcli.formats.core.schema import schema_of
from lodcli.formats.items.sharing import Shared, sharing
from lodcli.formats.items.streaming import chosen_batches, item_batches, numbered
from lodcli.formats.items.taking import part
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import source_of
from tests.lodcli.conftest import Lod

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

T = TypeVar("T")
# The number of a row group, and the columns that are read of it.
Decoded = tuple[int, tuple[str, ...]]
DAY = datetime.date(2024, 1, 1)
NOON = datetime.datetime(2024, 1, 1, 12)
WORDS = ["", "a", "ab", "b", "bé", "\U0001f600", "z" * 80, "z" * 80 + "y", "\x00"]


def table(rng: np.random.Generator, rows: int) -> Any:
    """Return a table of all kinds of columns; values rise with the rows, more or less."""
    step = np.arange(rows) // 7 + rng.integers(-2, 3, rows)
    null = rng.random(rows) < rng.choice([0, 0.1, 0.9])
    late = np.arange(rows) > rows // 2
    floats = np.where(rng.random(rows) < 0.1, rng.choice([np.nan, -0.0, np.inf, 0.0]), step)
    words = [WORDS[(at + int(rng.integers(2))) % len(WORDS)] for at in np.abs(step) // 3]
    whole = [int(one) for one in step]
    lists = [whole[at : at + int(rng.integers(3))] for at in range(rows)]
    # Long runs of nulls and of empty lists, some of which fill row groups.
    runs_of: list[Any] = [(None, [], each)[at // 20 % 3] for at, each in enumerate(lists)]
    texts_of = [each and [WORDS[one % len(WORDS)] for one in each] for each in runs_of]
    records_of = [each and [{"y": one} for one in each] for each in runs_of]
    columns = {
        "id": pa.array(range(rows)),
        "i8": pa.array(step % 100, pa.int8()),
        "i64": pa.array(step * 2**50, mask=null),
        "u32": pa.array((step + 2**31).astype(np.uint32)),
        "u64": pa.array(step.astype(np.uint64)),  # the negative ones are huge
        "f32": pa.array(floats.astype(np.float32) / np.float32(10)),
        "f64": pa.array(floats, mask=null),
        "f16": pa.array(floats.astype(np.float16)),
        "b": pa.array(late, mask=null),
        "s": pa.array(words, mask=null),
        "raw": pa.array([one.encode() for one in words], pa.binary()),
        "c": pa.array(words).dictionary_encode(),
        "d": pa.array([DAY + datetime.timedelta(one) for one in whole], mask=null),
        "ms": pa.array([NOON + datetime.timedelta(hours=one) for one in whole], pa.timestamp("ms")),
        "ns": pa.array([NOON + datetime.timedelta(hours=one) for one in whole], pa.timestamp("ns")),
        "s9": pa.array([Decimal(one) / 100 for one in whole], pa.decimal128(9, 2), mask=null),
        "p": pa.array([Decimal(one) / 8 for one in whole], pa.decimal128(25, 3)),
        "l": pa.array(lists),
        "lf": pa.array([[one / 4 if one % 5 else float("nan") for one in each] for each in lists]),
        "lw": pa.array([[WORDS[one % len(WORDS)] for one in each] for each in lists]),
        "ls": pa.array(texts_of, pa.list_(pa.string())),
        "k": pa.array(records_of, pa.list_(pa.struct([("y", pa.int32())]))),
        "nothing": pa.nulls(rows),
        "r": pa.array([None if no else {"x": one} for one, no in zip(whole, null, strict=True)]),
    }
    return pa.table(columns)


# A few, and with the slow tests more.
SEEDS = [0, 1, *(pytest.param(one, marks=pytest.mark.slow) for one in range(2, 120))]

NUMBERS = ["i8", "i64", "u32", "u64", "f32", "f64", "f16", "s9", "p", "r.x", "id"]
TEXTS, TIMES = ["s", "c"], ["d", "ms", "ns"]


class Writing:
    """Random conditions over the columns of a table."""

    def __init__(self, rng: np.random.Generator, values: dict[str, list[Any]]) -> None:
        self._rng = rng
        self._values = values

    def one(self, among: Sequence[T]) -> T:
        return among[int(self._rng.integers(len(among)))]

    def number(self, name: str) -> str:
        known = [one for one in self._values[name] if one is not None and one == one]
        value = self.one(known or [0]) + self.one([0, 0, 1, -1])
        if abs(value) == float("inf"):
            value = 0.1
        return str(self.one([value, value, float(value) + 0.5, 0, 0.1, 2**63, -(2**63)]))

    def compared(self) -> str:
        op, name = self.one(["==", "!=", "<", "<=", ">", ">="]), self.one(NUMBERS)
        kind = self.one(range(12))
        words = [repr(one) for one in WORDS if "\x00" not in one]
        if kind < 2:
            return f"{name} {op} {self.number(name)}"
        if kind == 2:
            return f"{self.number(name)} {self.one(['<', '<='])} {name} {op} {self.number(name)}"
        if kind == 3:
            some = ", ".join(self.number(name) for _ in range(self.one([1, 2, 20])))
            return f"{name} {self.one(['in', 'not in'])} ({some},)"
        if kind == 4:
            every = [*NUMBERS, *TEXTS, *TIMES, "b", "l", "lw", "ls", "k.y", "nothing"]
            return f"{self.one(every)} is {self.one(['', 'not '])}None"
        if kind == 5:
            return self.one([f"s {op} {self.one(words)}", f"{self.one(words)} {op} s"])
        if kind == 6:
            equal = self.one(["==", "!="])
            return f"{self.one(TEXTS)} {equal} {self.one(words)}"
        if kind == 7:
            some = ", ".join(self.one(words) for _ in range(3))
            return f"{self.one(TEXTS)} {self.one(['in', 'not in'])} ({some})"
        if kind == 8:
            day = DAY + datetime.timedelta(int(self._rng.integers(-3, 10)))
            time = self.one([f"{day}T07:00", f"{day}"])
            return self.one([f"d {op} '{day}'", f"ms {op} '{time}'", f"ns {op} '{time}'"])
        if kind == 9:
            day = DAY + datetime.timedelta(int(self._rng.integers(-3, 10)))
            return self.one([f"date(ms) {op} '{day}'", f"ms {op} ns", f"d {op} ms", "s == c"])
        if kind == 10:
            number, word = self.number("i8"), self.one(words)
            pick = self.one(["max", "min", "first", "last"])
            choices = f"any(l {op} {number})|{number} in l|{pick}(l) {op} {number}|{word} in lw"
            choices += f"|any(lf {op} {self.number('f64')})|max(lf) {op} {number}"
            choices += f"|max(k.y) {op} {number}|{number} in k.y|{pick}(ls) {op} {word}"
            choices += f"|length({pick}(ls)) > 1|{pick}(ls) is None|{word} in ls|length(ls) {op} 1"
            return self.one([*choices.split("|"), f"any(lw {op} {word})"])
        choices = f"{name} {op} {self.one(NUMBERS)}|b|b == True|i8|f64|b {op} 0|isnan(f64)"
        choices += f"|length(s) > 1|index() {op} 30|i8 + 1 {op} 5|f64 == f64|i8 % 3"
        return self.one(choices.split("|"))

    def condition(self, depth: int) -> str:
        if not depth or self._rng.random() < 0.3:
            return self.compared()
        one, two = self.condition(depth - 1), self.condition(depth - 1)
        return self.one([f"({one}) and ({two})", f"({one}) or ({two})", f"not ({one})"])


def write_pyarrow(path: Path, content: Any, rng: np.random.Generator) -> None:
    def one(*among: Any) -> Any:
        return among[int(rng.integers(len(among)))]

    pq.write_table(
        content,
        path,
        row_group_size=one(1, 5, 16, 40, 1000),
        use_dictionary=one(True, False),
        write_statistics=one(True, True, True, ["i8", "s", "f64"], False),
        version=one("1.0", "2.4", "2.6"),
        data_page_version=one("1.0", "2.0"),
        store_schema=one(True, False),
        store_decimal_as_integer=one(True, False),
        compression=one("snappy", "none"),
    )


def write_polars(path: Path, content: Any, rng: np.random.Generator) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(content.drop_columns(["f16"]))
    frame.write_parquet(path, row_group_size=int(rng.integers(1, 50)))


def write_duckdb(path: Path, content: Any, rng: np.random.Generator) -> None:
    duckdb = pytest.importorskip("duckdb")
    content = content.drop_columns(["f16", "c"])
    content = content.append_column("c", content["s"])
    with duckdb.connect() as connection:
        connection.register("content", content)
        connection.execute(f"copy content to '{path}' (format parquet, row_group_size 2048)")


@contextmanager
def opened(path: Path) -> Iterator[tuple[Source, Shared]]:
    with source_of(path) as source:
        yield source, sharing(source.schema, None, None, ["id"], records=True)


def ids(batches: Any) -> list[int]:
    return [one for batch in batches for one in batch["id"].data.tolist()]


@functools.lru_cache(maxsize=1)
def all_items(path: Path) -> list[dict[str, LoDTensor]]:
    """Return all items of a file in batches; those of the last file are kept."""
    with opened(path) as (source, shared):
        return list(item_batches(source, shared))


def kept(
    path: Path,
    text: str,
    *,
    invert: bool = False,
    numbers: Any = None,
    decoded: list[Decoded] | None = None,
) -> list[int]:
    """Return the ids that `lod filter` keeps, having checked that they are those of all items.

    `decoded`, if it is a list of `counted`, holds what was decoded to find the items.
    """
    everything = all_items(path)
    with opened(path) as (source, shared):
        if decoded is not None:
            decoded.clear()  # what decides the schema
        make = functools.partial(Filter, shared, numbers=numbers, invert=invert, lead=None)
        expected = kept_or_error(lambda: make(Expression(text)).of(numbered(everything)))

        def filtered() -> Any:
            chosen = make(Expression(text))
            return chosen.of(chosen_batches(source, shared, chosen))

        found = kept_or_error(filtered)
    assert found == expected, text
    return found if isinstance(found, list) else []


def kept_or_error(filtered: Callable[[], Any]) -> list[int] | str:
    """Return the ids of batches, or the error."""
    try:
        return ids(filtered())
    except ExpressionError as error:
        return str(error)


@pytest.mark.parametrize("write", [write_pyarrow, write_polars, write_duckdb])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_filter_keeps_the_same_items_as_without_statistics(
    seed: int, write: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "x.parquet"
    # DuckDB writes row groups of 2048 records or more.
    content = table(rng, 5000 if write is write_duckdb else 97)
    write(path, content, rng)
    values = {name: content[name].to_pylist() for name in content.column_names}
    values["r.x"] = [None if one is None else one["x"] for one in values["r"]]
    writing = Writing(rng, values)
    for _ in range(4):
        text = writing.condition(2)
        if write is not write_pyarrow:
            text = text.replace("f16", "f32")
        numbers = np.flatnonzero(rng.random(97) < 0.1) if rng.random() < 0.2 else None
        kept(path, text, invert=bool(rng.integers(2)), numbers=numbers)


THEIRS = Path(__file__).parents[2] / "formats" / "theirs"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("polars", "x == 1.5", [0]),
        ("polars", "x > 0", [0, 3, 5]),
        ("polars", "c is None", [1]),
        ("polars", "c == 'a' or c is None", [0, 1, 3]),
        ("polars", "l is None", [1]),
        ("polars", "not (l is not None)", [1]),
        ("structs", "k.y is None", [3]),
        ("structs", "k.s is None", [3]),
        ("structs", "first(k.y) is None", [3, 5]),
    ],
)
def test_statistics_of_programs_that_miss_nulls_or_nan_hide_no_items(
    name: str, text: str, expected: list[int]
) -> None:
    assert kept(THEIRS / f"{name}.parquet", text) == expected


@pytest.mark.parametrize(("text", "expected"), [("n is None", "ab"), ("n is not None", "")])
def test_a_column_of_nulls_is_null_although_no_null_is_counted(
    text: str, expected: str, folder: Path, lod: Lod
) -> None:
    assert lod("filter", str(THEIRS / "nulls.parquet"), text, "-o", "out.lod.h5").code == 0
    assert "".join(io.read_all("out.lod.h5")["word"].to_list()) == expected


def range_of(tensor: LoDTensor) -> ValueRange:
    """Return the narrowest range of the values of a tensor."""
    spec = schema_of({"x": tensor})[0]
    lists = bool(spec.depth)
    found = [one for one in flat(tensor.to_list(), spec.depth) if one is not None]
    if tensor.marks.categories is not None or tensor.marks.is_text:
        texts = [one.encode() for one in found]
        known: tuple[Any, Any] = (min(texts), max(texts)) if texts else (None, None)
    else:
        rows = tensor.values[tensor.nulls.rows if tensor.nulls.rows is not None else slice(None)]
        rows = rows[rows == rows]
        known = (rows.min().item(), rows.max().item()) if rows.size else (None, None)
    return ValueRange(*known, nulls=lists or bool(tensor.nulls), values=lists or bool(found))


def flat(values: list[Any], depth: int) -> list[Any]:
    for _ in range(depth):
        values = [inner for one in values if one is not None for inner in one]
    return values


@pytest.mark.parametrize("seed", SEEDS)
def test_outcomes_are_those_of_the_values_in_the_ranges(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    content = table(rng, 97)
    pq.write_table(content, tmp_path / "x.parquet")
    values = {name: content[name].to_pylist() for name in content.column_names}
    values["r.x"] = [None if one is None else one["x"] for one in values["r"]]
    writing = Writing(rng, values)
    with opened(tmp_path / "x.parquet") as (source, shared):
        (batch,) = item_batches(source, shared)
    offsets = [0, *np.cumsum(rng.integers(1, 12, 40)).tolist()]
    offsets = [*(one for one in offsets if one < 97), 97]
    parts = [part(batch, low, high) for low, high in pairwise(offsets)]
    ranges = {name: [range_of(one[name]) for one in parts] for name in batch if name != "raw"}
    for _ in range(150):
        expression = Expression(writing.condition(int(rng.integers(3))))
        some = {
            name: [UNKNOWN if rng.random() < 0.1 else one for one in known]
            for name, known in ranges.items()
            if rng.random() < 0.9
        }
        with suppress(ExpressionError):  # a word that is not among the categories
            expression.check(shared.schema)
            found = outcomes(expression, shared.schema, some, len(parts))
            for number, one in enumerate(parts):
                first = offsets[number]
                got = expression.of_batch(one, first, offsets[number + 1] - first)
                valid = np.ones(got.data.shape, np.bool_) if got.valid is None else got.valid
                assert found.true[number] or not got.true.any(), expression.text
                assert found.false[number] or not (valid & ~got.true).any(), expression.text
                assert found.null[number] or valid.all(), expression.text


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Decoded]:
    """Return a list that is filled with each row group that is decoded, and its columns."""
    from lodcli.formats.arrow.sizes.parquet import ParquetRecords

    decoded: list[Decoded] = []
    group_of = ParquetRecords._group

    def group(self: Any, number: int, columns: Any, *arguments: int) -> Any:
        decoded.append((number, tuple(columns)))
        return group_of(self, number, columns, *arguments)

    monkeypatch.setattr(ParquetRecords, "_group", group)
    return decoded


@pytest.fixture(scope="module")
def sorted_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 row groups of 2000 ids, sorted by id and by name, with a large column.

    The first group has all its ids, so that no further records are read to decide the schema; the
    others have every tenth.
    """
    ids = np.concatenate([np.arange(2000), np.arange(2000, 80_000, 10)])
    large = pa.array(np.random.default_rng(0).random(ids.size * 150))
    large_offsets = pa.array(np.arange(ids.size + 1) * 150, pa.int32())
    columns = {
        "id": pa.array(ids),
        "name": pa.array([f"{one:05}" for one in ids]).dictionary_encode(),
        "day": pa.array(ids // 2000, pa.int32()).cast(pa.date32()),
        "moment": pa.array(ids, pa.timestamp("s")),
        "price": pa.array(ids // -2000).cast(pa.decimal128(21, 2)),
        "shuffled": pa.array(ids * 7919 % 80_000),
        "null": pa.array([None if one < 40_000 else one for one in ids.tolist()], pa.int64()),
        "lists": pa.array([[one] * (one % 3) for one in ids.tolist()]),
        "large": pa.ListArray.from_arrays(large_offsets, large),
    }
    table = pa.table(columns)
    path = tmp_path_factory.mktemp("sorted") / "sorted.parquet"
    with pq.ParquetWriter(path, table.schema, use_dictionary=["name"]) as writer:
        writer.write_table(table[:2000])
        writer.write_table(table[2000:], row_group_size=200)
    return path


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("4100 <= id and id < 6000", {2}),
        ("id in (1, 30000)", {0, 15}),
        ("not (id != 50000)", {25}),
        ("id < -1", set()),
        ("name == '71990'", {35}),
        ("name in ('00000', '30010')", {0, 15}),
        ("day == '1970-01-04'", {3}),
        ("day >= '1970-02-08' or id == 4000", {2, 38, 39}),
        ("null is not None and id < 42000", {20}),
        ("null is None and id >= 38000", {19}),
        ("null + 1 < 0 and id == 70", {0}),
        ("max(lists) > 77999", {39}),
        ("any(lists == 50020)", {25}),
        ("2000 in lists", {1}),
        ("date(day) == '1970-01-01'", {0}),
        ("time(moment) >= '00:00' and price < -0.5 and id % 20 == 10 and 2000 <= id < 4000", {1}),
    ],
)
def test_only_row_groups_that_may_hold_items_are_read(
    text: str, groups: set[int], sorted_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = counted(monkeypatch)
    kept(sorted_path, text, decoded=decoded)
    # The first ones are read to decide the schema, perhaps still in a thread.
    assert {number for number, _ in decoded} - {0, 1} == groups - {0, 1}


@pytest.fixture
def folder_of_files(tmp_path: Path) -> Path:
    """A folder of years with two files each, of 3 row groups of 1000 records; words differ."""
    start = 0
    for year in (2023, 2024):
        folder = tmp_path / "files" / f"year={year}"
        folder.mkdir(parents=True)
        for number in range(2):
            ids = np.arange(start, start + 3000)
            words = np.array([f"{one}" for one in ids // 100])
            columns = {"id": ids, "word": pa.array(words).dictionary_encode(), "half": ids / 2}
            pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=1000)
            start += 3000
    return tmp_path / "files"


@pytest.mark.parametrize(
    ("text", "expected", "groups"),
    [
        ("id in (2, 4500, 11999)", [2, 4500, 11999], [0, 4, 11]),
        ("index() == id and half == 3500", [7000], [7]),
        ("index() == 11998 and id != 1", [11998], [*range(12)]),
        ("word == '77' and half == 3850", [7700], [7]),
        ("year == 2024 and id in (1, 8000)", [8000], [8]),
        ("year == 2023 and id > 4998 and index() > 5998", [5999], [4, 5]),
        ("year is None", [], []),
    ],
)
def test_files_without_items_to_keep_are_left_out(
    text: str, expected: list[int], groups: list[int], folder_of_files: Path
) -> None:
    assert kept(folder_of_files, text) == expected
    with opened(folder_of_files) as (source, shared):
        chosen = Filter(shared, Expression(text), None, invert=False, lead=None)
        batches = chosen_batches(source, shared, chosen)
        firsts = [first for first, batch in batches if batch["id"].rows]
    assert sorted({first // 1000 for first in firsts}) == groups


def test_columns_that_do_not_decide_are_read_only_with_items_to_keep(
    sorted_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = counted(monkeypatch)
    (found,) = kept(sorted_path, "shuffled == 40030", decoded=decoded)
    assert found * 7919 % 80_000 == 40_030
    alone = {number for number, columns in decoded if columns == ("shuffled",)}
    whole = {number for number, columns in decoded if "large" in columns}
    assert alone >= set(range(2, found // 2000))
    assert found // 2000 in whole
    assert len(whole) < 12  # the one, the first ones, and some read without a look after it


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_the_parts_that_may_hold_items_but_those_seen_without(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = int(rng.integers(0, 60))
    offsets = np.cumsum([0, *rng.integers(0, 9, parts)]).tolist()
    may, holds = rng.random(parts) < 0.7, rng.random(parts) < rng.choice([0.02, 0.5])
    seen: list[int] = []

    def look(start: int, stop: int) -> bool:
        part = next(
            at
            for at in range(parts)
            if (offsets[at], offsets[at + 1]) == (start, stop) and at not in seen and may[at]
        )
        seen.append(part)
        return bool(holds[part])

    found = {at for run in runs(may, offsets, look) for at in range(*run)}
    without = {at for at in seen if not holds[at]}
    expected = {
        at
        for part in np.flatnonzero(may).tolist()
        if part not in without
        for at in range(offsets[part], offsets[part + 1])
    }
    assert found == expected
    assert seen == sorted(seen)


def test_ordered_categories_are_not_compared_by_their_bytes(tmp_path: Path) -> None:
    words = pa.array(["small", "medium", "large"])
    codes = pa.array(np.arange(30) // 10, pa.int8())
    sizes = pa.DictionaryArray.from_arrays(codes, words, ordered=True)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": range(30), "size": sizes}), path, row_group_size=10)
    assert kept(path, "size < 'large'") == [*range(20)]
    assert kept(path, "'medium' <= size") == [*range(10, 30)]
    assert kept(path, "max(size) == 'large'") == [*range(20, 30)]
    assert kept(path, "size == 'small'") == [*range(10)]


def test_nan_is_not_in_the_statistics(tmp_path: Path) -> None:
    nan = float("nan")
    path = tmp_path / "x.parquet"
    columns = {
        "id": range(6),
        "x": [1.0, nan, 1.0, 1.0, nan, nan],
        "y": [0.0, nan, -0.0, 0.0, 1, 1],
    }
    pq.write_table(pa.table(columns), path, row_group_size=2)
    assert kept(path, "x != 1") == [1, 4, 5]
    assert kept(path, "not (x == 1)") == [1, 4, 5]
    assert kept(path, "not (x <= 2)") == [1, 4, 5]
    assert kept(path, "x not in (1, 2)") == [1, 4, 5]
    assert kept(path, "x", invert=True) == [1, 4, 5]
    assert kept(path, "y == -0.0") == [0, 2, 3]
    assert kept(path, "not y") == [0, 2, 3]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("id == 0 and coalesce(half, big) > 0", "9007199254740993 is not exact in float64"),
        ("id == 0 and any(one == two)", "different numbers of rows in item 3: 2 and 1"),
        ("id == 0 and any(one[:1] == one[:2])", "different numbers of rows in item 1: 1 and 2"),
        ("id == 0 and sum(lp) > 0", "sum(lp): a number does not fit decimal(38, 2)"),
        ("not (id != 0 or -p >= 1)", "-p: a number does not fit decimal(21, 2)"),
        ("id == 0 and abs(p) > 0", "abs(p): a number does not fit decimal(21, 2)"),
        ("id == 0 and maximum(p, huge) > 0", "huge: a number does not fit decimal(21, 2)"),
        ("id == 0 and p == id * 4611686018427387904", "does not fit"),
    ],
)
def test_an_expression_that_fails_for_some_item_fails_wherever_that_is(
    text: str, error: str, folder: Path, lod: Lod
) -> None:
    columns = {
        "id": [0, 1, 2, 3],
        "half": pa.array([0.5, 0.5, None, None], pa.float64()),
        "big": [1, 1, 1, 2**53 + 1],
        "huge": [1, 1, 1, 2**62],
        "one": [[1], [2, 3], [], [5, 6]],
        "two": [[1], [2, 3], [], [5]],
        "p": pa.array([1, 1, 1, Decimal(-(2**63)) / 100], pa.decimal128(21, 2)),
        "lp": pa.array([[1], [1], [], [9 * 10**16] * 2], pa.list_(pa.decimal128(38, 2))),
    }
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=1)
    done = lod("filter", "x.parquet", text, "-o", "out.lod.h5")
    assert done.code in (1, 2)
    assert error in done.stderr


def test_the_number_of_an_item_that_is_too_large_counts_what_was_left_out(
    folder: Path, lod: Lod
) -> None:
    lists = [[1] * 3000] * 9 + [[1] * 300_000]
    table = pa.table({"id": range(10), "lists": pa.array(lists, pa.list_(pa.int64()))})
    pq.write_table(table, folder / "x.parquet", row_group_size=5)
    args = ("filter", "x.parquet", "id > 7", "-o", "out.lod.h5", "--memory", "4M")
    done = lod(*args)
    assert done.code == 1
    assert "item 9" in done.stderr


@pytest.fixture(scope="module")
def path_of_all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5000 records of all kinds of columns."""
    path = tmp_path_factory.mktemp("all") / "x.parquet"
    write_pyarrow(path, table(np.random.default_rng(1), 5000), np.random.default_rng(4))
    return path


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("id >= 1000 and not (i64 is None)", "id >= 1000 and i64 is not null"),
        ("i64 != 1125899906842624 and i8 < 3", "i64 <> 1125899906842624 and i8 < 3"),
        ("s in ('a', 'ab') or u32 == 2147483700", "s in ('a', 'ab') or u32 = 2147483700"),
        ("s < 'b' and id > 2048", "s < 'b' and id > 2048"),
        ("d == '2025-03-01' and b", "d = '2025-03-01' and b"),
        ("ms > '2024-01-20T12:00'", "ms > timestamp '2024-01-20 12:00'"),
        ("date(ns) == '2024-01-09'", "cast(ns as date) = date '2024-01-09'"),
        ("s9 >= 5.5 or s9 == 0.07", "s9 >= 5.5 or s9 = 0.07"),
        ("max(l) > 600", "list_max(l) > 600"),
        ("'a' in lw and i8 > 50", "list_contains(lw, 'a') and i8 > 50"),
        ("r.x == 300 or r.x is None and id == 7", "r.x = 300 or (r.x is null and id = 7)"),
    ],
)
def test_a_filter_keeps_what_duckdb_selects(text: str, sql: str, path_of_all_kinds: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        query = f"select id from '{path_of_all_kinds}' where {sql} order by id"
        expected = [one for (one,) in connection.execute(query).fetchall()]
    assert 0 < len(expected) < 5000
    assert kept(path_of_all_kinds, text) == expected


@pytest.mark.parametrize("width", [1, 100], ids=["at once", "after a look"])
def test_errors_of_expressions_name_what_the_command_names(
    width: int, folder: Path, lod: Lod
) -> None:
    (folder / "many").mkdir()
    for number in range(2):
        columns = {
            "one": pa.array([[1]] * 3000),
            "two": pa.array([[1]] * 2999 + [[1] * (1 + number)]),
            "large": pa.array(np.random.default_rng(0).random((3000, width)).tolist()),
        }
        path = folder / "many" / f"{number}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=1000)
    done = lod("filter", "many", "any(one > two)", "-o", "out.lod.h5")
    assert "filter: many: expression, column 11: the two sides have different" in done.stderr
    assert "in item 5999: 1 and 2" in done.stderr
    done = lod("filter", "many/1.parquet", "any(one > two)", "-o", "out.lod.h5")
    assert "filter: many/1.parquet: expression, column 11: the two" in done.stderr
    assert "in item 2999: 1 and 2" in done.stderr
