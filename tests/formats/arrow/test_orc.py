"""ORC files of Spark and of pyarrow, against pyarrow."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

import lodcli
from lodcli import LoDTensor
from lodcli.errors import DamagedFileError, UnsupportedError
from lodcli.formats.arrow.files import Wanted
from lodcli.formats.arrow.sizes.orc import OrcRecords
from lodcli.formats.sandbox import process as sandbox
from lodcli.formats.sandbox.process import Room
from lodcli.formats.storage.inputs import Input
from tests.formats.cases.damage import changed, read_each
from tests.formats.cases.opening import tensor_in

THEIRS = Path(__file__).parents[1] / "theirs"
SPARK = THEIRS / "spark.orc"


def lists(path: Path, **options: Any) -> dict[str, Any]:
    found = lodcli.read_all(path, **options)
    return {name: item.to_list() for name, item in found.items() if isinstance(item, LoDTensor)}


def many_stripes(path: Path, rows: int) -> pa.Table:
    """Write records in several stripes."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(0, 5, rows)
    items = pa.array(generator.normal(size=lengths.sum()))
    offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
    found = pa.table({
        "n": np.arange(rows),
        "x": pa.ListArray.from_arrays(offsets, items),
        "s": [f"word {row % 7}" for row in range(rows)],
    })  # fmt: skip
    orc.write_table(found, path, stripe_size=100_000, compression="zlib")
    assert orc.ORCFile(path).nstripes > 2
    return found


def test_a_table_of_spark_is_read() -> None:
    rows = orc.read_table(SPARK).to_pylist()
    found = lists(SPARK)
    assert found["ids"] == [[1, 2], None, []]
    assert found["word"] == ["a", None, "é"]
    assert found["counts.key"] == [["k"], None, []]
    assert found["counts.value"] == [[1], None, []]
    assert found["parts.name"] == [["u"], None, []]
    assert found["parts.size"] == [[1.5], None, []]
    for name in ("price", "day", "good"):
        assert found[name] == [row[name] for row in rows]
    with lodcli.open(SPARK) as file:
        # Not the types that Spark stores with each column.
        assert all(not spec.marks.attributes for spec in file.schema)


def test_times_that_may_be_wrong_are_errors() -> None:
    path = THEIRS / "spark_times.orc"
    found = lodcli.read_all(path, field=("t",))["t"]
    # In the time zone of its writer, Europe/Oslo.
    assert found.data.astype("M8[ns]").astype(str).tolist() == ["2024-07-02T03:04:05.123456000"]
    with pytest.raises(UnsupportedError, match="timestamps outside of the years 1677 to 2262"):
        lists(path, field=("far",))
    with pytest.raises(UnsupportedError, match="column 'old': has dates before 1582-10-15, whose"):
        lists(path, field=("old",))


def times_of(path: Path) -> list[int]:
    """Return the only tensor's times in nanoseconds since 1970, 0 for a null."""
    (found,) = lodcli.read_all(path).values()
    return [int(value) for value in found.values]


def test_times_that_java_rounds_otherwise_are_errors(tmp_path: Path) -> None:
    # pyarrow reads 00:30:00.5 in Oslo as 00:30:01.5: it is before 1970 in UTC only.
    with pytest.raises(
        UnsupportedError, match=r"column 't': has times with a fraction .* 14 hours"
    ):
        lists(THEIRS / "spark_1970.orc")
    path, hour = tmp_path / "t.orc", 3_600_000_000
    sound = [0, 1, 999, 20 * hour + 500_000, -20 * hour + 500_000, 60_000_000, None]
    lists_of_one = pa.array([[value] for value in sound], pa.list_(pa.timestamp("us")))
    orc.write_table(pa.table({"t": lists_of_one}), path)
    assert times_of(path) == [(value or 0) * 1000 for value in sound]
    for value in (500_000, 1000, -1000, 14 * hour + 500_000, -14 * hour - 500_000):
        orc.write_table(pa.table({"t": pa.array([0, value], pa.timestamp("us"))}), path)
        with pytest.raises(UnsupportedError, match="stripe 0, column 't': has times with a frac"):
            lists(path)
        orc.write_table(pa.table({"t": pa.array([0, value], pa.timestamp("us", "UTC"))}), path)
        assert times_of(path) == [0, value * 1000]


def test_columns_with_times_that_are_not_read_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    far = pa.array([0, 253_370_764_800], pa.timestamp("s"))
    old = pa.array([datetime.date(1, 1, 1)] * 2)
    orc.write_table(pa.table({"a.b": [1, 2], "far": far, "old": old}), path)
    with pytest.raises(UnsupportedError, match=r"stripe 0, column 'far': has timestamps outside"):
        lists(path)
    assert lists(path, skip_unsupported=True) == {"a.b": [1, 2]}
    with lodcli.open(path, skip_unsupported=True) as file:
        assert list(file.left_out) == ["far", "old"]
    found = tensor_in(f"{path}::a.b")
    assert found.to_list() == [1, 2]


def test_a_column_is_refused_in_a_later_stripe(tmp_path: Path) -> None:
    path, rows = tmp_path / "t.orc", 30_000
    dates = pa.array([datetime.date(2000, 1, 1)] * (rows - 1) + [datetime.date(1500, 1, 1)])
    orc.write_table(pa.table({"n": np.arange(rows), "d": dates}), path, stripe_size=20_000)
    last = orc.ORCFile(path).nstripes - 1
    assert last > 0
    for options in ({}, {"skip_unsupported": True}):
        with pytest.raises(UnsupportedError, match=rf"stripe {last}, column 'd': has dates before"):
            lists(path, **options)
    assert lists(path, field=("n",))["n"] == list(range(rows))


def test_an_unknown_time_zone_is_no_damage(tmp_path: Path) -> None:
    content = (THEIRS / "spark_1970.orc").read_bytes()
    path = tmp_path / "t.orc"
    path.write_bytes(content.replace(b"Europe/Oslo", b"Europe/Oslx"))
    with pytest.raises(
        UnsupportedError, match=r"column 't': .* time zone .* not know .*\(tzdata\)"
    ):
        lists(path)


def test_stripes_are_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    table = many_stripes(path, 30_000)
    found = lists(path)
    for name in ("n", "x", "s"):
        assert found[name] == table[name].to_pylist()
    with lodcli.open(path) as file:
        for row in (0, 29_999, 12_345, 1):
            assert file["x"][row].data.tolist() == table["x"][row].as_py()
        assert file["s"][20_000:20_003].to_list() == table["s"][20_000:20_003].to_pylist()


def test_a_name_with_a_point_is_that_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    orc.write_table(pa.table({"a.b": [1, 2], "c": [3, 4], "a": ["x", None]}), path)
    assert lists(path) == {"a.b": [1, 2], "c": [3, 4], "a": ["x", None]}
    assert lists(path, field=("a.b", "c")) == {"a.b": [1, 2], "c": [3, 4]}


def test_only_the_wanted_columns_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.orc"
    orc.write_table(pa.table({"a.b": [1, 2], "c": [3, 4], "d": [5, 6]}), path)
    read: list[Any] = []

    class Counted(orc.ORCFile):  # type: ignore[misc]
        def read_stripe(self, n: int, columns: Any = None) -> Any:
            read.append(columns)
            return super().read_stripe(n, columns)

    monkeypatch.setattr(orc, "ORCFile", Counted)
    with Input(path) as source:
        records = OrcRecords(source)
        for names in (["c"], ["a.b"]):
            list(records.batches(Wanted(names, 1 << 20)))
    assert read == [["c"], ["a.b"]]
    orc.write_table(pa.table({"a.b": [1, 2], "a": [{"b": 3, "c": 4}] * 2}), path)
    with Input(path) as source:
        ((_, batch),) = OrcRecords(source).batches(Wanted(["a.b"], 1 << 20))
    assert batch.to_pydict() == {"a.b": [1, 2]}


def test_a_table_without_records_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    orc.write_table(pa.table({"x": pa.array([], pa.list_(pa.int32()))}), path)
    assert lists(path) == {"x": []}


def test_an_unknown_type_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    kinds = pa.array([0, 1], pa.int8())
    union = pa.UnionArray.from_sparse(kinds, [pa.array([1, 2]), pa.array(["a", "b"])])
    orc.write_table(pa.table({"u": union, "n": [1, 2]}), path)
    with pytest.raises(UnsupportedError, match=r"column 'u': tensors cannot hold the Arrow type"):
        lists(path)
    assert lists(path, skip_unsupported=True) == {"n": [1, 2]}


def test_a_text_that_begins_like_it_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("ORC,é\nx,1\n")
    assert lists(path) == {"ORC": ["x"], "é": [1]}


def test_a_file_that_is_never_opened_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (THEIRS / "spark_1970.orc").read_bytes()
    path = tmp_path / "t.orc"
    path.write_bytes(content.replace(b"Europe/Oslo", b"Europe/Osly"))
    (tmp_path / "Europe").mkdir()
    os.mkfifo(tmp_path / "Europe" / "Osly")
    monkeypatch.setenv("TZDIR", str(tmp_path))
    monkeypatch.setattr(sandbox, "clock_seconds", lambda room: 1)
    with pytest.raises(DamagedFileError, match="sandboxed process did not answer for 1 seconds"):
        lists(path)


def test_the_wait_for_a_file_is_longer_than_it_may_compute() -> None:
    assert sandbox.clock_seconds(Room(1 << 30, 1000, opens=1)) == 128
    assert sandbox.clock_seconds(Room(None, 1000, opens=1)) == 3600
    # A pipe may be waited for, and what cannot open a file never waits.
    assert sandbox.clock_seconds(Room(1 << 30, None, opens=1)) is None
    assert sandbox.clock_seconds(Room(1 << 30, 1000)) is None


def test_a_crash_of_the_library_is_an_error_of_the_file() -> None:
    # A file of pyarrow 26 with one altered byte, which makes pyarrow 26 read a null pointer.
    with pytest.raises(DamagedFileError, match=r"^\S+crashing.orc: (crashed the sandb|is damaged)"):
        lists(Path(__file__).parent / "crashing.orc")


def test_a_table_that_begins_with_text_is_read(tmp_path: Path) -> None:
    """Without compression and an index, a file begins with its first values."""
    path = tmp_path / "t.orc"
    orc.write_table(pa.table({"x": [1, 2]}), path, compression="uncompressed")
    content = path.read_bytes()
    # The offset of the only stripe is the last number of this kind in the footer.
    before, _, after = content[3:].rpartition(b"\x08\x03\x10")
    text = b"some words " * 7
    path.write_bytes(b"ORC" + text + before + b"\x08" + bytes([3 + len(text)]) + b"\x10" + after)
    assert lists(path) == {"x": [1, 2]}


@pytest.mark.parametrize("cut", [5, 10, 600, 1312])
def test_a_truncated_table_is_damaged(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(SPARK.read_bytes()[:cut])
    with pytest.raises(DamagedFileError, match=r"; fetch or copy it again$"):
        lists(path)


@pytest.mark.slow
def test_altered_bytes_crash_only_the_child(tmp_path: Path) -> None:
    path, whole = tmp_path / "t.orc", SPARK.read_bytes()
    assert len(list(read_each(changed(whole, 100, 1, most=1), path, lists))) == 100
