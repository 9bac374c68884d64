"""arrow, arrow-stream: any records of any columns are those of pyarrow, however they are read."""

from __future__ import annotations

import datetime
import decimal
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types
import pytest

import lodcli
from lodcli.formats.arrow.files import File, Wanted
from lodcli.formats.arrow.sizes.ipc import IpcFile
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.inputs import Input
from tests.formats.cases.opening import content
from tests.formats.cases.tables import written_by_pyarrow
from tests.growth import calls_of

LEAVES = [
    *(pa.null(), pa.bool_(), pa.int16(), pa.float64(), pa.decimal128(9), pa.timestamp("us")),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3)),
]
# A column x of int32, in big-endian order.
BIG_ENDIAN = bytes.fromhex(
    "1000000000000a000c000a00090004000a000000100000000001040008000c000a00040008000000"
    "080000000000010001000000140000001000140010000f000e000800000004001000000010000000"
    "18000000000002011c0000000000000008000c000800070008000000000000012000000001000000"
    "7800000000000000"
)
SMALL = 64  # bytes, so that most record batches are read in many parts


def kind_of(chance: random.Random, depth: int = 0) -> Any:
    """Return a type of nested lists, structs and maps."""
    if depth > 3 or chance.random() < 0.35:
        return chance.choice(LEAVES)
    inner = [kind_of(chance, depth + 1) for _ in range(2)]
    making = chance.randrange(5)
    if making == 0:
        return pa.struct([("a", inner[0]), ("b", inner[1])])
    if making == 1:
        return pa.map_(pa.int32(), inner[0])
    if making == 2:
        return pa.list_(inner[0], 2)
    return (pa.list_ if making == 3 else pa.large_list)(inner[0])


def value_of(kind: Any, chance: random.Random) -> Any:
    """Return a value of a type, or None."""
    if types.is_null(kind) or chance.random() < 0.2:
        return None
    if types.is_struct(kind):
        return {field.name: value_of(field.type, chance) for field in kind}
    if types.is_map(kind):
        return [(n, value_of(kind.item_type, chance)) for n in range(chance.randrange(4))]
    if types.is_nested(kind):
        count = kind.list_size if types.is_fixed_size_list(kind) else chance.randrange(4)
        return [value_of(kind.value_type, chance) for _ in range(count)]
    if types.is_timestamp(kind):
        return datetime.datetime(2020, 1, chance.randrange(1, 28))
    if types.is_decimal(kind):
        return decimal.Decimal(chance.randrange(99))
    if types.is_fixed_size_binary(kind):
        return chance.randbytes(3)
    if types.is_string(kind) or types.is_large_string(kind):
        return "é" * chance.randrange(5)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return chance.randbytes(chance.randrange(5))
    if types.is_boolean(kind):
        return chance.random() < 0.5
    return chance.randrange(100)


@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
@pytest.mark.parametrize("seed", range(40))
def test_records_are_those_of_pyarrow(seed: int, suffix: str, tmp_path: Path) -> None:
    chance = random.Random(seed)
    kinds = {f"c{number}": kind_of(chance) for number in range(3)}
    count = chance.randrange(80)
    table = pa.table(
        {
            name: pa.array([value_of(kind, chance) for _ in range(count)], kind)
            for name, kind in kinds.items()
        }
    )
    path = written_by_pyarrow(
        tmp_path / f"t{suffix}", table, 25, compression=chance.choice([None] * 4 + ["lz4"])
    )
    with Input(path) as source:
        file = IpcFile(source, stream=suffix == ".arrows")
        for _ in range(6):
            start = chance.randrange(count + 1)
            stop = chance.randrange(start, count + 1)
            columns = chance.sample(list(kinds), 2)
            found = []
            for first, part in file.batches(Wanted(columns, SMALL, start, stop)):
                low, high = max(start - first, 0), stop - first
                found.append(part.slice(low, max(0, high - low)))
            expected = table.select(columns)
            assert pa.Table.from_batches(found, expected.schema).equals(
                expected.slice(start, stop - start)
            )


def test_without_values_numbers_alone_are_left_out(tmp_path: Path) -> None:
    table = pa.table({"x": [[1, None], [], None], "y": ["a", "bc", None], "z": [True, False, None]})
    path = written_by_pyarrow(tmp_path / "t.arrow", table, 25)
    with Input(path) as source:
        ((_, found),) = IpcFile(source, stream=False).batches(
            Wanted(["x", "y", "z"], 1 << 20, values=False)
        )
    assert found.to_pydict() == {**table.to_pydict(), "x": [[0, None], [], None]}


def test_a_wrong_number_of_nulls_is_damage(tmp_path: Path) -> None:
    numbers = [None, *range(999)]
    path = written_by_pyarrow(tmp_path / "t.arrow", pa.table({"x": pa.array([numbers] * 3)}), 3)
    data = bytearray(path.read_bytes())
    bits = data.index(b"\xfe" + b"\xff" * 100)
    data[bits + 50] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match="nulls"):
        content(path)


@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
def test_files_of_metadata_version_4_are_read(suffix: str, tmp_path: Path) -> None:
    table = pa.table({"x": [[1, 2], [], [3]] * 20})
    version = pa.ipc.MetadataVersion.V4
    path = written_by_pyarrow(tmp_path / f"t{suffix}", table, 25, metadata_version=version)
    assert content(path)["x"].values.tolist() == [1, 2, 3] * 20


@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
def test_a_slice_reads_its_own_records(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written_by_pyarrow(
        tmp_path / f"t{suffix}", pa.table({"x": [[at] * 1000 for at in range(900)]}), 300
    )
    with lodcli.open(path) as source:
        reads = calls_of(monkeypatch, File, "read")
        assert source.slice("x", (450,)).values.tolist() == [450] * 1000
    assert sum(size for _, _, size in reads) < 12_000


def test_numbers_of_the_other_byte_order_are_swapped(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(np.array([1, 2, 3], np.int32).byteswap())})
    data = written_by_pyarrow(tmp_path / "t.arrows", table, 25).read_bytes()
    header = 8 + int.from_bytes(data[4:8], "little")
    data = data[:4] + len(BIG_ENDIAN).to_bytes(4, "little") + BIG_ENDIAN + data[header:]
    (tmp_path / "t.arrows").write_bytes(data)
    assert content(tmp_path / "t.arrows")["x"].values.tolist() == [1, 2, 3]
