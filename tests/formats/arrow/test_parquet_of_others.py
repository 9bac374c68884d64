"""parquet: encrypted files, times of 96 bits, infinite times, and deeply nested columns."""

from __future__ import annotations

import base64
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from tests.formats.cases.opening import content

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FAR = [datetime(9999, 12, 31), None, datetime(1, 1, 1, 0, 0, 0, 5)]
NEAR = [datetime(2262, 4, 11), None, datetime(1677, 9, 22)]


def written_encrypted(path: Path, table: Any, *, plaintext_footer: bool) -> Path:
    """Write a table with its column `secret` encrypted."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc, name-defined]
        def __init__(self, _: Any) -> None:
            encryption.KmsClient.__init__(self)

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64decode(key)

    made = encryption.CryptoFactory(Keys).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="one", column_keys={"two": ["secret"]}, plaintext_footer=plaintext_footer
        ),
    )
    with pq.ParquetWriter(path, table.schema, encryption_properties=made) as writer:
        writer.write_table(table)
    return path


def test_an_encrypted_column_is_no_damage(tmp_path: Path) -> None:
    table = pa.table({"secret": [1, 2], "open": [[3], [4, 5]]})
    path = written_encrypted(tmp_path / "x.parquet", table, plaintext_footer=True)
    with pytest.raises(UnsupportedError, match=r"column 'secret': is encrypted.*columns="):
        content(path)
    assert content(path, field=("open",))["open"].to_list() == [[3], [4, 5]]
    with lodcli.open(path, skip_unsupported=True) as source:
        assert [spec.name for spec in source.schema] == ["open"]
        assert list(source.left_out) == ["secret"]


@pytest.mark.parametrize("where", ["column", "list", "struct"])
def test_lists_of_the_fixed_size_zero_are_no_damage(where: str, tmp_path: Path) -> None:
    none = pa.list_(pa.int32(), 0)
    kinds = {"column": none, "list": pa.list_(none), "struct": pa.struct([("s", none)])}
    values = {"column": [[], []], "list": [[[]], []], "struct": [{"s": []}, {"s": []}]}
    table = pa.table({"none": pa.array(values[where], kinds[where]), "open": [[3], [4, 5]]})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(UnsupportedError, match=r"column 'none': holds lists of the fixed size 0"):
        content(tmp_path / "x.parquet")
    with lodcli.open(tmp_path / "x.parquet", skip_unsupported=True) as source:
        assert list(source.left_out) == ["none"]
    found = content(tmp_path / "x.parquet", skip_unsupported=True)
    assert {name: item.to_list() for name, item in found.items()} == {"open": [[3], [4, 5]]}


def test_without_other_columns_none_are_advised(tmp_path: Path) -> None:
    none = pa.array([[], []], pa.list_(pa.int32(), 0))
    for number, table in enumerate((pa.table({"a": none}), pa.table({"a": none, "b": [1, 2]}))):
        pq.write_table(table, tmp_path / "x.parquet")
        for skips in (None, True) if number == 0 else (None,):
            with pytest.raises(UnsupportedError, match="and cannot read") as raised:
                content(tmp_path / "x.parquet", skip_unsupported=skips)
            assert ("skip_unsupported=True" in str(raised.value)) == (number == 1)


def test_an_encrypted_footer_is_no_damage(tmp_path: Path) -> None:
    table = pa.table({"secret": [1, 2], "open": [[3], [4, 5]]})
    path = written_encrypted(tmp_path / "x.parquet", table, plaintext_footer=False)
    with pytest.raises(UnsupportedError, match="is encrypted"):
        content(path)
    path.rename(tmp_path / "without_extension")
    with pytest.raises(UnsupportedError, match="is encrypted"):
        content(tmp_path / "without_extension")


@pytest.mark.parametrize(("times", "unit"), [(FAR, "us"), (NEAR, "ns")], ids=["far", "near"])
@pytest.mark.parametrize("nested", [False, True])
def test_times_of_96_bits_are_those_that_were_written(
    times: list[datetime | None], unit: str, nested: bool, tmp_path: Path
) -> None:
    kind: Any = pa.timestamp("us")
    values: Any = times
    if nested:
        kind = pa.map_(pa.int8(), pa.list_(pa.struct({"t": kind})))
        values = [[(1, [{"t": one}, None])] for one in times]
    table = pa.table({"x": pa.array(values, kind), "n": [0, 1, 2]})
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, row_group_size=2, use_deprecated_int96_timestamps=True)
    with lodcli.open(path) as source:
        assert bool(source.notes) == (unit == "us")
        found = source.read()
    tensor = found["x.value.t" if nested else "x"]
    assert tensor.marks.unit == Times("timestamp", unit)
    io.write(tmp_path / "ours.parquet", found)
    ours = pq.read_table(tmp_path / "ours.parquet")["x"]
    if nested:
        assert [row[0]["value"][0]["t"] for row in ours.to_pylist()] == times
    else:
        assert ours.to_pylist() == times


def test_an_encoding_that_pyarrow_does_not_read_is_not_called_damage(tmp_path: Path) -> None:
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    encodings = {"x": "DELTA_BYTE_ARRAY"}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": words}), path, use_dictionary=False, column_encoding=encodings)
    with pytest.raises(UnsupportedError, match="Not yet implemented: DecodeArrow"):
        content(path)


@pytest.mark.parametrize(
    ("unit", "rows", "said"),
    [
        (Times("timestamp", "s"), [2**62], "overflow when casting timestamp value 4611686018427"),
        (Decimals(6, -2), [1], "Scale must be a non-negative integer"),
    ],
)
def test_values_that_parquet_does_not_hold_are_refused(
    unit: Times | Decimals, rows: list[int], said: str, tmp_path: Path
) -> None:
    tensor = LoDTensor(np.array(rows), marks=Marks(unit=unit))
    io.write(tmp_path / "x.arrow", {"x": tensor})
    with pytest.raises(UnsupportedError, match=f"Parquet cannot hold these values .*{said}"):
        io.write(tmp_path / "x.parquet", {"x": tensor})
    assert not (tmp_path / "x.parquet").exists()


def test_a_file_without_rows_by_fastparquet_is_read() -> None:
    found = content(Path(__file__).parents[1] / "theirs" / "empty.parquet")
    assert [(name, one.data.dtype.name, len(one.data)) for name, one in found.items()] == [
        ("ids", "int64", 0),
        ("score", "float32", 0),
    ]


def test_null_arrays_of_duckdb_are_named_as_a_cause() -> None:
    path = Path(__file__).parents[1] / "theirs" / "duckdb_arrays.parquet"
    with pytest.raises(DamagedFileError, match=r"spanned by list.*\); if DuckDB .* x::INT\[\]"):
        lodcli.read(path)


def test_infinite_times_of_duckdb_get_a_note(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    columns = (
        "d::date d, [d::timestamp] t, {'z': d::timestamptz} s, d::timestamp::timestamp_ms ms, "
        "'2024-01-01'::timestamp_ns fine, 9223372036854775807 n"
    )
    for name, texts in (
        ("far", "('2024-01-01'), ('infinity')"),
        ("near", "('2024-01-01'), (null)"),
    ):
        path = tmp_path / f"{name}.parquet"
        rows = f"select {columns} from (values {texts}) v(d)"
        duckdb.sql(f"copy ({rows}) to '{path}'")
    with lodcli.open(tmp_path / "far.parquet") as file:
        (note,) = file.notes
        assert note.startswith("'d', 't', 's.z', 'ms': infinity of DuckDB is read as the last time")
        assert file.read()["ms"].data[1] == 2**63 - 1
    with lodcli.open(tmp_path / "far.parquet", columns=["n", "fine"]) as file:
        assert not file.notes
    with lodcli.open(tmp_path / "near.parquet") as file:
        assert not file.notes
    # Those of other programs mean the times that they are.
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"t": pa.array([2**63 - 1], pa.timestamp("us"))}), path)
    with lodcli.open(path) as file:
        assert not file.notes


def test_types_of_duckdb_have_the_values_that_duckdb_reads(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    values = {
        "hugeint": "-5",
        "uhugeint": "5",
        "ubigint": str(2**64 - 1),
        "tinyint": "-1",
        "decimal(9, 2)": "1.5",
        "decimal(18, 4)": "-1.5",
        "decimal(38, 10)": "1.5",
        "bignum": "'123456789012345678901234567890'",
        "bit": "'10101'",
        "json": "'[1]'",
        "blob": r"'\xAA'",
        "enum('a', 'b')": "'b'",
        "int[][]": "[[1], [], null]",
        "date": "'0001-01-01'",
        "time": "'12:34:56.000001'",
        "timestamp_s": "'2024-01-01 00:00:01'",
        "timestamp_ms": "'2024-01-01 00:00:01.5'",
    }
    path = tmp_path / "x.parquet"
    columns = [f'({one})::{kind} as "{kind}"' for kind, one in values.items()]
    columns += ["union_value(num := 2) as u", "map {'k': 1, 'l': null} as m", "'a'::variant as v"]
    nulls = f"select {', '.join(['null'] * len(columns))}"
    duckdb.sql(f"copy (select {', '.join(columns)} union all {nulls}) to '{path}'")
    found = {name: tensor.to_list() for name, tensor in content(path).items()}
    for kind in values:
        wanted = [one for (one,) in duckdb.sql(f"select \"{kind}\" from '{path}'").fetchall()]
        assert wanted[0] is not None
        assert found[kind] == wanted, kind
    assert (found["u.element1"], found["u.num"]) == ([0, None], [2, None])
    assert (found["m.key"], found["m.value"]) == ([["k", "l"], None], [[1, None], None])
    assert found["v.typed_value"] == ["a", None]


def test_columns_nested_deeper_than_pyarrow_reads_are_no_damage(tmp_path: Path) -> None:
    def lists(depth: int) -> Any:
        return pa.array([None], reduce(lambda kind, _: pa.list_(kind), range(depth), pa.int8()))

    def structs(depth: int) -> Any:
        kind = reduce(lambda kind, _: pa.struct([("x", kind)]), range(depth), pa.int8())
        return pa.array([None], kind)

    path = tmp_path / "x.parquet"
    fit = {"n": pa.array([1]), "b": lists(49), "c": lists(1)}
    pq.write_table(pa.table({"a": lists(65), **fit, "d": lists(50), "e": structs(99)}), path)
    wanted = "column 'a', 'd', 'e': nested deeper than is read from Parquet, 49 lists or 98 structs"
    with pytest.raises(UnsupportedError, match=wanted):
        content(path)
    pq.write_table(pa.table(fit | {"e": structs(60)}), path)
    assert content(path)["b"].lod.n_levels == 49
