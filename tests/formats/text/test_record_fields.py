"""Fields of records: the compiled writer against the texts of Python and NumPy."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.text import records_native
from lodcli.formats.text.numerals import texts
from lodcli.formats.text.record_fields import CSV_TEXT, DECIMAL, JSON_TEXT, LIST, TEXT, TIME, Field
from lodcli.formats.text.records_native import RecordWriter
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.units import texts as texts_of_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TIME_UNITS, Decimals, Times, Unit

COUNT = 20_000
DAYS = {"D": 1, "s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}
UNITS = [Times(kind, unit) for kind, units in TIME_UNITS.items() for unit in units]  # type: ignore[arg-type]


def lines_of(field: Field) -> list[str]:
    """Return each value as text."""
    writer = RecordWriter([b"", b"\n"], b"null")
    text = b"".join(map(bytes, writer.pieces([field], field.size)))
    return text.decode().split("\n")[:-1]


@pytest.mark.parametrize("dtype", ["bool", *"bBhHiIqQ", *"efd"])
def test_numbers_are_written_as_python_and_numpy_write_them(dtype: str) -> None:
    rng = np.random.default_rng(1)
    width = np.dtype(dtype).itemsize
    raw = rng.integers(0, 256, COUNT * width).astype(np.uint8)
    values: Any = raw < 128 if dtype == "bool" else raw.view(dtype)
    if values.dtype.kind == "f":
        values[:5] = np.nan, np.inf, -np.inf, -0.0, 1e4
    assert lines_of(Field.of_numbers(values)) == texts(values)


@pytest.mark.parametrize("unit", [*UNITS, Times("timestamp", "us", "UTC")], ids=str)
def test_times_are_written_as_numpy_writes_them(unit: Times) -> None:
    rng = np.random.default_rng(2)
    day = DAYS[unit.unit]
    first, last = (0, 1) if unit.kind == "time" else (-719162, 2932897)
    if unit.unit == "ns" and unit.kind != "time":
        first, last = -106751, 106751
    values = rng.integers(first * day, last * day, COUNT)
    if unit.kind == "date":
        values = values // day * day
    values[:2] = first * day, last * day - (day if unit.kind == "date" else 1)
    field = Field.of_units(values, unit)
    assert (field.kind == TIME) == (unit.kind != "duration")
    assert lines_of(field) == texts_of_unit(values, unit)
    quoted = [f'"{one}"' for one in texts_of_unit(values, unit)]
    assert lines_of(Field.of_units(values, unit, in_quotes=True)) == quoted


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (-(2**63), Times("timestamp", "us")),
        (2**62, Times("timestamp", "s")),
        (-719163, Times("date", "D")),
        (5, Times("date", "ms")),
        (86400, Times("time", "s")),
        (-1, Times("time", "s")),
        (12345, Decimals(5, -2)),
        (12345, Decimals(25, 20)),
    ],
)
def test_far_times_and_scales_are_written_too(value: int, unit: Unit) -> None:
    values = np.array([value, 0])
    assert lines_of(Field.of_units(values, unit)) == texts_of_unit(values, unit)


@pytest.mark.parametrize("scale", [0, 1, 5, 18])
def test_decimals_are_written_with_all_digits(scale: int) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-(2**63), 2**63 - 1, COUNT) >> rng.integers(0, 63, COUNT)
    values[:3] = -(2**63), 2**63 - 1, 0
    unit = Decimals(38, scale)
    field = Field.of_units(values, unit)
    assert field.kind == DECIMAL
    assert lines_of(field) == texts_of_unit(values, unit)


def test_nulls_and_texts_stand_between_fixed_bytes() -> None:
    data = np.frombuffer(b'a,b"c', np.uint8)
    ends, valid = np.array([0, 3, 3, 5]), np.array([True, False, True])
    fields = [
        Field.of_texts(CSV_TEXT, data, ends, detail=ord(",")),
        Field.of_numbers(np.arange(3), valid),
        Field.of_texts(JSON_TEXT, data, ends, valid),
    ]
    writer = RecordWriter([b"<", b";", b";", b">\n"], b"-")
    text, offsets = writer.whole(fields, 3)
    lines = [b'<"a,b";0;"a,b">\n', b'<"";-;->\n', b'<"""c";2;"\\"c">\n']
    assert text.tobytes() == b"".join(lines)
    assert np.diff(offsets).tolist() == list(map(len, lines))


def test_every_character_is_escaped_as_python_does() -> None:
    words = [*map(chr, range(128)), "\x80\u2028\U0001f600"]
    contents = [word.encode() for word in words]
    data = np.frombuffer(b"".join(contents), np.uint8)
    field = Field.of_texts(JSON_TEXT, data, np.cumsum([0, *map(len, contents)]))
    assert lines_of(field) == [json.dumps(word, ensure_ascii=False) for word in words]


@pytest.mark.parametrize("most", [1, 7, 1 << 14])
def test_text_and_offsets_do_not_depend_on_the_size_of_pieces(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(records_native, "_PIECE_FIELDS", most)
    values = np.arange(-50, 50) ** 3
    valid = values % 7 != 0
    fields = [Field.of_numbers(values, valid), Field.of_numbers(values / 8)]
    text, ends = RecordWriter([b"<", b",", b">"], b"null").whole(fields, values.size)
    pairs = zip(values.tolist(), valid.tolist(), strict=True)
    lines = [f"<{one if known else 'null'},{one / 8!r}>" for one, known in pairs]
    assert [bytes(text[a:b]).decode() for a, b in pairwise(ends.tolist())] == lines


def test_no_field_is_longer_than_its_bound() -> None:
    far, day = np.array([-(2**63), 2**63 - 1]), 86400 * 10**9
    data = np.frombuffer(b'\x01\x02""', np.uint8)
    ends = np.array([0, 0, 2, 4])
    zone = Times("timestamp", "ns", "UTC")
    fields = [
        Field.of_numbers(np.array([False, True])),
        Field.of_numbers(far),
        Field.of_numbers(np.array([0, 2**64 - 1], np.uint64)),
        Field.of_numbers(np.array([-2.2250738585072014e-308, -1.2345678901234567e-5])),
        Field.of_numbers(np.array([-1.17549435e-38, -9.999999e15], np.float32)),
        Field.of_numbers(np.array([-1.19e-07, -65504], np.float16)),
        Field.of_units(far, Decimals(38, 18)),
        Field.of_units(far, Decimals(38, 25)),
        Field.of_units(np.array([-1, 100 * day]), zone, in_quotes=True),
        Field.of_units(far, zone, in_quotes=True),
        *(Field.of_texts(kind, data, ends) for kind in (CSV_TEXT, JSON_TEXT)),
        *(Field.of_texts(kind, data, ends, detail=1) for kind in (TEXT, LIST)),
    ]
    for field in fields:
        rows = range(field.size)
        assert all(
            len(line) <= field.most_bytes(row, row + 1)
            for row, line in zip(rows, lines_of(field), strict=True)
        )
    assert sum(field.kind == TEXT for field in fields) == 3


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_short_floats_are_exact_if_whole_and_shortest_otherwise(dtype: Any) -> None:
    with np.errstate(invalid="ignore"):
        values = np.arange(2**16, dtype=np.uint16).view(dtype)
        values = values[np.isfinite(values)]
    found = texts(values)
    floats = np.array(list(map(float, found)))
    with np.errstate(over="ignore"):
        assert (floats.astype(dtype) == values).all()
        assert {"0.1", "2.0", "-0.0", "1104.0", "-65280.0", "0.5"} <= set(found)
        exact = values.astype(np.float64)
        whole = (exact == np.trunc(exact)) & (np.abs(exact) < 2**24)
        assert (floats[whole] == exact[whole]).all()
        # No decimal of one digit less is read as the same number.
        for value, text in zip(values[~whole][::7], floats[~whole][::7].tolist(), strict=True):
            digits = _digits(text)
            if digits > 1:
                shorter: Any = [float(f"{text:.{digits - 2}e}")]
                step = 10.0 ** (np.floor(np.log10(abs(text))) - digits + 2)
                shorter += [shorter[0] - step, shorter[0] + step]
                assert not (np.array(shorter).astype(dtype) == value).any(), text


@pytest.mark.parametrize("least", [0, 1 << 60])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json"])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_other_readers_get_whole_short_floats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any, ending: str, least: int
) -> None:
    monkeypatch.setattr(records_native, "REPAID_VALUES", least)
    values = [1104.0, 65280.0, 2049.0 if dtype == np.float16 else 2048.0, -256.0, 0.0]
    held = LoDTensor(np.array(values).astype(dtype))
    path = tmp_path / f"x.{ending}"
    if dtype == ml_dtypes.bfloat16 and ending in ("csv", "tsv"):
        with pytest.raises(UnsupportedError, match="bfloat16"):
            io.write(path, {"x": held})
        return
    for tensor in (held, LoDTensor(held.data, LoD.from_lengths([[2, 3]]))):
        io.write(path, tensor, overwrite=True)
        found = [float(number) for number in re.findall(r"[-\d.]*\d\.\d+", path.read_text())]
        assert found == held.data.astype(np.float64).tolist()


def _digits(value: float) -> int:
    mantissa = repr(value).lstrip("-").partition("e")[0].replace(".", "").lstrip("0")
    return len(mantissa.rstrip("0"))
