"""`lod join`, against pandas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodcli.formats.arrays import budget
from lodcli.formats.core import io
from lodcli.formats.items import external_sort, joining
from lodcli.formats.items import keys as keys_of_items
from lodcli.formats.items.keys import Column, comparable
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, read_jsonl, write_jsonl
from tests.slow import slow

USERS = ["ann", "bob", "zoë", "", "li, jr", "x" * 70, "eve"]


@pytest.fixture
def files(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """a.jsonl and b.jsonl: many to many, users that only one of them has, sequences in both."""
    rng = np.random.default_rng(8)
    sides = []
    for path, users, count in (("a.jsonl", USERS[:5], 90), ("b.jsonl", USERS[2:], 40)):
        side = path[0]
        records = [
            {
                "user": users[rng.integers(len(users))],
                "day": int(rng.integers(0, 3)),
                f"{side}_n": n,
                f"{side}_ids": [n] * int(rng.integers(0, 4)),
            }
            for n in range(count)
        ]
        write_jsonl(path, records)
        sides.append(records)
    return sides[0], sides[1]


@pytest.mark.parametrize("run_bytes", [1 << 8, 1 << 24])
@pytest.mark.parametrize("suffix", ["jsonl", "lod.h5"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "outer", "semi", "anti"])
@pytest.mark.parametrize("on", ["user,day", slow("user"), slow("day")])
def test_a_join_is_that_of_pandas(
    lod: Lod,
    files: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    on: str,
    how: str,
    suffix: str,
    run_bytes: int,
) -> None:
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr(budget, "KEPT_SHARE", 1 << 60)
    monkeypatch.setattr(external_sort, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(external_sort, "BLOCK_BYTES", run_bytes >> 2)
    monkeypatch.setattr(joining, "BATCH_BYTES", run_bytes >> 1)
    names = on.split(",")
    a, b = files
    if on == "user":
        for one in b:
            del one["day"]
    elif on == "day":
        for one in b:
            del one["user"]
    write_jsonl("b.jsonl", b)
    if suffix != "jsonl":
        for side in "ab":
            assert lod("convert", "-q", f"{side}.jsonl", f"{side}.{suffix}").code == 0
    assert lod(
        "join", f"a.{suffix}", f"b.{suffix}", "--on", on, "--how", how, "-qo", "out.jsonl"
    ).clean
    left, right = pd.DataFrame(a), pd.DataFrame(b)
    if how in ("semi", "anti"):
        known = {tuple(one[name] for name in names) for one in b}
        wanted = [x for x in a if (tuple(x[n] for n in names) in known) == (how == "semi")]
    else:
        frame = left.merge(right, on=names, how=how)
        wanted = [
            {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in one.items()}
            for one in frame.to_dict("records")
        ]

    def place(one: dict[str, Any]) -> Any:
        keys = [one[n].encode() if isinstance(one[n], str) else one[n] for n in names]
        places = [(number is None, number) for number in (one.get("a_n"), one.get("b_n"))]
        return keys, *(places[::-1] if how == "right" else places)

    assert read_jsonl("out.jsonl") == sorted(wanted, key=place)


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_keys_of_other_names_are_those_of_the_first_file(
    lod: Lod, files: tuple[list[dict[str, Any]], list[dict[str, Any]]], how: str
) -> None:
    write_jsonl("c.jsonl", [{"name": one.pop("user"), **one} for one in files[1]])
    same = lod("join", "a.jsonl", "b.jsonl", "--on", "user,day", "--how", how, "-qo", "same.jsonl")
    done = lod(
        "join", "a.jsonl", "c.jsonl", "--on", "user=name,day", "--how", how, "-qo", "o.jsonl"
    )
    assert (same.code, done.code) == (0, 0), done.stderr
    assert read_jsonl("o.jsonl") == read_jsonl("same.jsonl") != []


def test_keys_of_other_names_that_do_not_fit_are_errors(lod: Lod, folder: Path) -> None:
    write_jsonl("a.jsonl", [{"user": 1, "day": 2}])
    write_jsonl("b.jsonl", [{"id": 1, "user": 5}])
    done = lod("join", "a.jsonl", "b.jsonl", "--on", "user=id", "-o", "o.jsonl")
    assert (done.code, "both files have a tensor user; rename one" in done.stderr) == (1, True)
    done = lod("join", "a.jsonl", "b.jsonl", "--on", "user=id,day=id", "-o", "o.jsonl")
    assert (done.code, "each key of A goes with one of B" in done.stderr) == (2, True)
    for keys in ("user=id,user=user", "user,user=id"):
        done = lod("join", "a.jsonl", "b.jsonl", "--on", keys, "-o", "o.jsonl")
        assert (done.code, "each key of A goes with one of B" in done.stderr) == (2, True)
    for key in ("user=zzz=id", "user=", "=id", "user=id="):
        done = lod("join", "a.jsonl", "b.jsonl", "--on", key, "-o", "o.jsonl")
        assert (done.code, f"--on {key}: expected a name, or A=B" in done.stderr) == (2, True)
    done = lod("join", "a.jsonl", "b.jsonl", "--on", "person=id", "-o", "o.jsonl")
    assert "a.jsonl: no tensor named 'person'; there are: user, day" in done.stderr
    write_jsonl("c.jsonl", [{"id": "x"}])
    done = lod("join", "a.jsonl", "c.jsonl", "--on", "user=id", "-o", "o.jsonl")
    assert "user=id: the keys are whole numbers in the first file and text" in done.stderr
    done = lod("join", "a.jsonl", "b.jsonl", "--on", "user=ids", "-o", "o.jsonl")
    assert "b.jsonl: no tensor named 'ids'; there are: id, user" in done.stderr
    assert not Path("o.jsonl").exists()


@pytest.mark.parametrize(("how", "kept"), [("semi", [5]), ("anti", [6])])
def test_other_tensors_of_the_second_file_may_be_named_as_a_key(
    lod: Lod, folder: Path, how: str, kept: list[int]
) -> None:
    write_jsonl("a.jsonl", [{"user": 5, "id": 1}, {"user": 6, "id": 5}])
    write_jsonl("b.jsonl", [{"id": 5, "user": 6}, {"id": 1, "user": 7}])
    assert lod(
        "join", "a.jsonl", "b.jsonl", "--on", "user=id", "--how", how, "-qo", "o.jsonl"
    ).clean
    assert [one["user"] for one in read_jsonl("o.jsonl")] == kept


def test_a_key_that_both_files_have_may_have_an_equals_sign(lod: Lod, folder: Path) -> None:
    write_jsonl("a.jsonl", [{"a=b": 1, "a": 2, "x": 3}])
    write_jsonl("b.jsonl", [{"a=b": 1, "b": 2, "y": 4}])
    write_jsonl("c.jsonl", [{"b": 2, "y": 5}])
    for other, wanted in (("b", {"b": 2, "y": 4}), ("c", {"y": 5})):
        assert lod("join", "a.jsonl", f"{other}.jsonl", "--on", "a=b", "-qfo", "o.jsonl").clean
        assert read_jsonl("o.jsonl") == [{"a=b": 1, "a": 2, "x": 3} | wanted]


@pytest.mark.parametrize("run_bytes", [1 << 8, 1 << 24])
def test_null_keys_join_and_group_as_in_duckdb(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, run_bytes: int
) -> None:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr(budget, "KEPT_SHARE", 1 << 60)
    monkeypatch.setattr(external_sort, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(external_sort, "BLOCK_BYTES", run_bytes >> 2)
    monkeypatch.setattr(joining, "BATCH_BYTES", run_bytes >> 1)
    rng = np.random.default_rng(3)
    tables = {}
    for name, value, count in (("a", "x", 60), ("b", "y", 40)):
        words = [None if one is None else USERS[one] for one in _some(rng, count)]
        columns = {"n": pa.array(_some(rng, count)), "w": pa.array(words), value: range(count)}
        tables[name] = pa.table(columns)
        pq.write_table(tables[name], f"{name}.parquet")
    order = "a.n nulls last, a.w nulls last, x"
    sql = {"inner": "join", "left": "left join", "semi": "semi join", "anti": "anti join"}
    queries = {
        f"join a.parquet b.parquet --on n,w --how {how}": (
            f"from tables_a a {join} tables_b b on a.n = b.n and a.w = b.w "
            f"select a.n, a.w, x {', y' * (how in ('inner', 'left'))} "
            f"order by {order} {', y nulls last' * (how in ('inner', 'left'))}"
        )
        for how, join in sql.items()
    }
    queries |= {
        f"join a.parquet b.parquet --on n,w --how {how}": (
            f"from tables_a a {join} tables_b b on a.n = b.n and a.w = b.w "
            "select coalesce(a.n, b.n) as n, coalesce(a.w, b.w) as w, x, y "
            f"order by n nulls last, w nulls last, {places}"
        )
        for how, join, places in (
            ("right", "right join", "y, x nulls last"),
            ("outer", "full join", "x nulls last, y nulls last"),
            ("full", "full join", "x nulls last, y nulls last"),
        )
    }
    queries["group a.parquet --by n,w"] = (
        "from tables_a a select n, w, list(x order by x) as x group by all "
        "order by n nulls last, w nulls last"
    )
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(f"tables_{name}", table)
        for command, query in queries.items():
            assert lod(*command.split(), "-qfo", "out.parquet").clean
            wanted = connection.sql(query).fetchall()
            found = [tuple(one.values()) for one in pq.read_table("out.parquet").to_pylist()]
            assert found == wanted, command
            assert any(None in one[:2] for one in wanted) == (command[-4:] not in ("nner", "semi"))


def _some(rng: np.random.Generator, count: int) -> list[int | None]:
    """Return numbers 0 to 3, and nulls."""
    return [None if one > 3 else one for one in rng.integers(0, 6, count).tolist()]


@pytest.mark.parametrize(
    ("keys", "kind"),
    [(["1.5"], "decimal(2, 1)"), ([1], "whole numbers"), ([1.5], "floating numbers")],
)
def test_keys_of_decimals_of_another_scale_are_an_error_with_a_remedy(
    lod: Lod, folder: Path, keys: list[Any], kind: str
) -> None:
    values = [Decimal(one) if isinstance(one, str) else one for one in keys]
    pq.write_table(pa.table({"k": [Decimal("1.50")], "x": [1]}), "a.parquet")
    pq.write_table(pa.table({"k": values, "y": [2]}), "b.parquet")
    done = lod("join", "a.parquet", "b.parquet", "--on", "k", "-o", "out.parquet")
    assert done.code == 1
    assert f"decimal(3, 2) in the first file and {kind} in the second; `lod cast`" in done.stderr
    assert lod("cast", "b.parquet", "k=decimal(3, 2)", "-qo", "c.parquet").code == 0
    assert lod("join", "a.parquet", "c.parquet", "--on", "k", "-qo", "out.parquet").code == 0
    found = pq.read_table("out.parquet").to_pylist()
    assert found == ([{"k": Decimal("1.50"), "x": 1, "y": 2}] if 1 not in keys else [])


def test_files_that_do_not_fit_are_an_error_with_a_remedy(lod: Lod, folder: Path) -> None:
    write_jsonl("a.jsonl", [{"k": 1, "x": 2}])
    write_jsonl("b.jsonl", [{"k": "one", "y": 2}])
    write_jsonl("c.jsonl", [{"k": 1, "x": 3}])
    write_jsonl("f.jsonl", [{"k": 1.5, "y": 3}])
    for other, said in (
        (
            "b.jsonl",
            "k: the keys are whole numbers in the first file and text in the second; "
            "`lod cast` makes texts of whole numbers, and numbers and times of texts\n",
        ),
        (
            "f.jsonl",
            "k: the keys are whole numbers in the first file and floating numbers in the second; "
            "`lod cast` makes them equal\n",
        ),
        (
            "c.jsonl",
            "both files have a tensor x; rename one first, as with lod rename FILE x=OTHER",
        ),
    ):
        done = lod("join", "a.jsonl", other, "--on", "k", "-o", "out.lod.h5")
        assert done.code == 1
        assert said in done.stderr
        assert not Path("out.lod.h5").exists()
    Path("d.csv").write_text("k,x\n1,2\n")
    done = lod("join", "d.csv", "d.csv", "--on", "z", "-o", "out.lod.h5")
    assert "d.csv: no tensor named 'z'; there are: k, x" in done.stderr
    np.savez("e.npz", k=np.arange(3), x=np.arange(2))
    done = lod("join", "d.csv", "e.npz", "--on", "z", "-o", "out.lod.h5")
    assert done.stderr.startswith("lod join: e.npz: holds 2 tensors; choose one: e.npz::k ")
    assert lod("join", "a.jsonl", "--on", "k", "-o", "out.lod.h5").code == 2
    write_jsonl("lists.jsonl", [{"k": [1], "y": 2}])
    done = lod("join", "c.jsonl", "lists.jsonl", "--on", "k", "-o", "out.lod.h5")
    said = "lod join: lists.jsonl: k: a key is one number or one text for each item; this tensor "
    assert (done.code, done.stderr) == (2, f"{said}has 1 level\n")


def test_each_key_is_compared_few_times(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1 << 16
    keys = np.arange(count)
    io.write("a.lod.h5", {"key": LoDTensor(keys), "a": LoDTensor(np.zeros((count, 8)))})
    io.write("b.lod.h5", {"key": LoDTensor(keys), "b": LoDTensor(keys)})
    monkeypatch.setattr(budget, "KEPT_SHARE", 1 << 60)
    monkeypatch.setattr(external_sort, "RUN_BYTES", 6 << 20)  # a.lod.h5 is merged, not b.lod.h5
    compared: list[int] = []

    def counted(columns: Sequence[Column]) -> Array:
        compared.append(len(columns[0]))
        return comparable(columns)

    monkeypatch.setattr(keys_of_items, "comparable", counted)
    assert lod("join", "a.lod.h5", "b.lod.h5", "--on", "key", "-o", "out.lod.h5").code == 0
    assert 2 * count <= sum(compared) < 3 * count
    found = io.read_all("out.lod.h5")
    np.testing.assert_array_equal(found["b"].data, keys)


def test_a_join_with_no_items_has_none(lod: Lod, folder: Path) -> None:
    write_jsonl("a.jsonl", [{"k": 1, "x": [2]}, {"k": 3, "x": []}])
    write_jsonl("b.jsonl", [{"k": 2, "y": [2]}])
    assert lod("join", "a.jsonl", "b.jsonl", "--on", "k", "-o", "none.lod.h5").code == 0
    assert (
        lod("join", "none.lod.h5", "a.jsonl", "--on", "k", "--how", "semi", "-o", "n.lod.h5").code
        == 0
    )
    done = lod("join", "a.jsonl", "none.lod.h5::k", "--on", "k", "--how", "anti", "-qo", "o.jsonl")
    assert done.code == 0
    assert len(read_jsonl("o.jsonl")) == 2


@pytest.mark.parametrize("suffix", ["parquet", "lod.h5"])
@pytest.mark.parametrize("optional", [False, True])
def test_records_without_a_match_are_null(
    lod: Lod, folder: Path, suffix: str, optional: bool
) -> None:
    inner = pa.struct([("q", pa.int64())])
    record = pa.struct([("n", pa.int64()), pa.field("in", inner, optional)])
    known = [{"n": 5, "in": {"q": 1}}, {"n": None, "in": {"q": None}}]
    fields = [pa.field("k", pa.int64()), pa.field("s", record, optional)]
    right = pa.table([pa.array([1, 2]), pa.array(known, record)], schema=pa.schema(fields))
    pq.write_table(right, "b.parquet")
    pq.write_table(pa.table({"k": [1, 2, 3]}), "a.parquet")
    if suffix != "parquet":
        assert lod("convert", "-q", "b.parquet", f"b.{suffix}").code == 0
    for out in ("o.parquet", "o.jsonl"):
        assert lod(
            "join", "a.parquet", f"b.{suffix}", "--on", "k", "--how", "left", "-qo", out
        ).clean
    wanted = [{"k": 1, "s": known[0]}, {"k": 2, "s": known[1]}, {"k": 3, "s": None}]
    assert pq.read_table("o.parquet").to_pylist() == wanted
    assert read_jsonl("o.jsonl") == wanted


def test_an_outer_join_has_keys_of_both_files(lod: Lod, folder: Path) -> None:
    colors = pa.array(["red", "blue"]).dictionary_encode()
    others = pa.array(["green", "red"]).dictionary_encode()
    a = {"n": pa.array([1, 2], pa.int8()), "c": colors, "x": [[1], [2, 3]], "t": ["p", "q"]}
    b = {"n": pa.array([300, 1], pa.int16()), "c": others, "y": ["u", "v"], "s": [{"z": 1}] * 2}
    pq.write_table(pa.table(a), "a.parquet")
    pq.write_table(pa.table(b), "b.parquet")
    none = {"x": None, "t": None}
    right = [
        {"n": 1, "c": "red", "x": [1], "t": "p", "y": "v", "s": {"z": 1}},
        {"n": 300, "c": "green", **none, "y": "u", "s": {"z": 1}},
    ]
    only_left = {"n": 2, "c": "blue", "x": [2, 3], "t": "q", "y": None, "s": None}
    for how, wanted in (("right", right), ("outer", [right[0], only_left, right[1]])):
        for out in ("o.parquet", "o.lod.h5"):
            done = lod("join", "a.parquet", "b.parquet", "--on", "n,c", "--how", how, "-qfo", out)
            assert (done.code, done.stderr) == (0, "")
            assert lod("convert", "-qf", out, "p.parquet").code == 0
            assert pq.read_table("p.parquet").to_pylist() == wanted
    assert lod("filter", "a.parquet", "n > 9", "-qo", "none.parquet").code == 0
    for one, other, count in (("none", "b", 2), ("a", "none", 2), ("none", "none", 0)):
        if other == "none":
            assert lod("rename", "none.parquet", "x=y", "t=w", "-qfo", "other.parquet").code == 0
            other = "other"
        command = ("join", f"{one}.parquet", f"{other}.parquet", "--on", "n,c", "--how", "outer")
        assert lod(*command, "-qfo", "o.parquet").clean
        assert pq.read_table("o.parquet").num_rows == count


def test_records_of_the_first_file_cannot_hold_the_keys_of_the_second(
    lod: Lod, folder: Path
) -> None:
    write_jsonl("a.jsonl", [{"s": {"k": 1, "m": 2}}])
    write_jsonl("b.jsonl", [{"k": 1, "y": 2}])
    exchange = "; exchange the files"
    for other, key, how, remedy in (
        ("b", "s.k=k", "right", f"{exchange}, with --how left"),
        ("b", "s.k=k", "outer", exchange),
        ("a", "s.k", "outer", ""),
    ):
        done = lod("join", "a.jsonl", f"{other}.jsonl", "--on", key, "--how", how, "-o", "o.jsonl")
        assert done.code == 4
        assert f"s.k: is a field of records, which cannot be a key of --how {how}{remedy}\n" in (
            done.stderr
        )
        assert not Path("o.jsonl").exists()
    command = ("join", "b.jsonl", "a.jsonl", "--on", "k=s.k", "--how", "outer")
    assert lod(*command, "-qo", "o.jsonl").code == 0


def required(name: str, *fields: str) -> pa.Field:
    """Return records of numbers of which none is null."""
    return pa.field(name, pa.struct([(field, pa.int64()) for field in fields]), nullable=False)


@pytest.mark.parametrize(
    ("left", "right", "on", "wanted"),
    [
        # The first file has records in the column as well.
        (
            [{"k": 1, "s": {"w": 3}}, {"k": 7, "s": {"w": 6}}],
            [{"k": 1, "s": {"v": 4}}],
            "k",
            [{"k": 1, "s": {"w": 3, "v": 4}}, {"k": 7, "s": {"w": 6, "v": None}}],
        ),
        (
            [{"s": {"k": 1}}, {"s": {"k": 7}}],
            [{"s": {"k": 1, "v": 4}}],
            "s.k",
            [{"s": {"k": 1, "v": 4}}, {"s": {"k": 7, "v": None}}],
        ),
        # The first file has a tensor with the name of the one that marks null records.
        (
            [{"k": 1, "s": {"present": 3}}, {"k": 7, "s": {"present": 6}}],
            [{"k": 1, "s": {"v": 4}}],
            "k",
            [{"k": 1, "s": {"present": 3, "v": 4}}, {"k": 7, "s": {"present": 6, "v": None}}],
        ),
        (
            [{"k": 1, "s.present": 3}, {"k": 7, "s.present": 6}],
            [{"k": 1, "s": {"v": 4}}],
            "k",
            [
                {"k": 1, "s.present": 3, "s": {"v": 4}},
                {"k": 7, "s.present": 6, "s": {"v": None}},
            ],
        ),
        # The key is the only field, or one of two.
        ([{"k": 1, "x": 2}], [{"s": {"k": 1}}], "k=s.k", [{"k": 1, "x": 2}]),
        (
            [{"k": 1}, {"k": 7}],
            [{"s": {"k": 1, "v": 4}}],
            "k=s.k",
            [{"k": 1, "s": {"v": 4}}, {"k": 7, "s": None}],
        ),
    ],
)
def test_records_of_a_column_of_both_files_or_of_keys_stay_required(
    lod: Lod,
    folder: Path,
    left: list[dict[str, Any]],
    right: list[dict[str, Any]],
    on: str,
    wanted: list[dict[str, Any]],
) -> None:
    for path, items in (("a.parquet", left), ("b.parquet", right)):
        fields = [
            required(name, *one) if isinstance(one, dict) else pa.field(name, pa.int64())
            for name, one in items[0].items()
        ]
        pq.write_table(pa.Table.from_pylist(items, schema=pa.schema(fields)), path)
    args = ("a.parquet", "b.parquet", "--on", on, "--how", "left", "-qo", "o.jsonl")
    assert lod("join", *args).clean
    assert read_jsonl("o.jsonl") == wanted


@pytest.mark.parametrize("how", ["right", "outer"])
def test_records_of_the_first_file_are_null_without_a_match_if_only_it_has_them(
    lod: Lod, folder: Path, how: str
) -> None:
    key = pa.field("k", pa.int64())
    schema = pa.schema([key, required("s", "v"), required("t", "x")])
    items = [{"k": 1, "s": {"v": 4}, "t": {"x": 5}}]
    pq.write_table(pa.Table.from_pylist(items, schema=schema), "a.parquet")
    schema = pa.schema([key, required("s", "w")])
    items = [{"k": 1, "s": {"w": 3}}, {"k": 7, "s": {"w": 6}}]
    pq.write_table(pa.Table.from_pylist(items, schema=schema), "b.parquet")
    assert lod("join", "a.parquet", "b.parquet", "--on", "k", "--how", how, "-qo", "o.jsonl").clean
    assert read_jsonl("o.jsonl") == [
        {"k": 1, "s": {"v": 4, "w": 3}, "t": {"x": 5}},
        {"k": 7, "s": {"v": None, "w": 6}, "t": None},
    ]


@pytest.mark.parametrize(
    ("left", "right", "remedy"),
    [
        (pa.timestamp("ms"), pa.timestamp("us"), "; `lod cast` makes them equal"),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "; `lod cast` makes them equal"),
        (pa.duration("s"), pa.duration("ms"), "; `lod cast` makes them equal"),
        (pa.date32(), pa.timestamp("us"), "; `lod cast` makes them equal"),
        (pa.duration("s"), pa.time32("s"), ""),
        (
            pa.binary(),
            pa.string(),
            "; `lod convert --text-levels text` makes text of bytes",
        ),
    ],
)
def test_keys_of_times_and_bytes_have_a_remedy(
    lod: Lod, folder: Path, left: pa.DataType, right: pa.DataType, remedy: str
) -> None:
    for path, kind in (("a.parquet", left), ("b.parquet", right)):
        pq.write_table(pa.table({"k": pa.array([None], kind)}), path)
    done = lod("join", "a.parquet", "b.parquet", "--on", "k", "-qo", "o.jsonl")
    assert done.code == 1
    assert done.stderr.startswith("lod join: a.parquet and b.parquet: k: the keys are ")
    assert done.stderr.endswith(f"in the second{remedy}\n")
    in_json = lod("join", "a.parquet", "b.parquet", "--on", "k", "--json", "-o", "o.jsonl")
    assert json.loads(in_json.stderr)["error"]["remedy"] == (remedy.removeprefix("; ") or None)


@pytest.mark.parametrize("how", ["left", "outer", "inner", "semi"])
def test_errors_of_the_result_name_its_file(lod: Lod, folder: Path, how: str) -> None:
    write_jsonl("l.jsonl", [{"id": 1, "x": 1}, {"id": 2, "x": None}])
    write_jsonl("r.jsonl", [{"id": 2, "y": 1}, {"id": 3, "y": 2}])
    join = ["join", "l.jsonl", "r.jsonl", "--on", "id", "--how", how]
    advice = "; for items without a match, write lod.h5 and give --nulls to lod convert"
    done = lod(*join, "-o", "o.pdiparams")
    place = 1 if how in ("left", "outer") else 0
    said = f"lod join: o.pdiparams: x: row <{place}> is null; paddle has no nulls: "
    said += "--nulls zero, fill=X or drop"
    assert (done.code, done.stderr) == (4, f"{said}{advice if place else ''}\n")
    refused = lod(*join, "-o", "o.lod.h5", "--nulls", "error")
    assert refused.stderr.startswith("lod join: l.jsonl: x: row <1> is null; --nulls error")
    assert advice not in refused.stderr
    # As the error advises.
    assert lod(*join, "-o", "o.lod.h5").code == 0
    assert lod("convert", "o.lod.h5", "o.pdiparams", "--nulls", "zero").code == 0


def test_an_error_of_a_file_that_is_replaced_is_not_of_the_result(lod: Lod, folder: Path) -> None:
    write_jsonl("l.jsonl", [{"id": 1, "x": 1}, {"id": 2, "x": None}])
    write_jsonl("r.jsonl", [{"id": 3, "y": 1}])
    join = ["join", "l.jsonl", "r.jsonl", "--on", "id", "--how", "left", "--nulls", "error"]
    refused = lod(*join, "-fo", "l.jsonl")
    assert refused.stderr.startswith("lod join: l.jsonl: x: row <1> is null; --nulls error")
    assert "without a match" not in refused.stderr
