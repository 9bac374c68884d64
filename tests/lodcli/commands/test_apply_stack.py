"""`stack(x, y)` of `lod apply`: columns side by side as rows; NumPy and pyarrow are the oracles."""

from __future__ import annotations

from datetime import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, write_jsonl

LENGTHS = [3, 0, 4, 2]
RNG = np.random.default_rng(4)


@pytest.fixture
def tracks(folder: Path) -> dict[str, Any]:
    """tracks.parquet: three columns of lists, as of groupby().agg(list), one number and a text."""
    columns = {
        "lat": [RNG.normal(size=n) for n in LENGTHS],
        "speed": [RNG.normal(size=n).astype(np.float32) for n in LENGTHS],
        "hour": [RNG.integers(0, 24, n) for n in LENGTHS],
        "weight": [1.5, 2.5, 3.5, 4.5],
        "label": ["car", "bus", "car", "bus"],
    }
    pq.write_table(
        pa.table({name: pa.array(one) for name, one in columns.items()}), "tracks.parquet"
    )
    return columns


def test_columns_are_the_values_of_a_row(lod: Lod, tracks: dict[str, Any]) -> None:
    text = "stack(lat, hour * 2, weight, mean(speed), 7)"
    assert lod("apply", text, "tracks.parquet", "--into", "points", "-o", "out.lod.h5").clean
    found = io.read("out.lod.h5", "points")
    assert found.recursive_sequence_lengths() == [LENGTHS]
    for place, part in enumerate(found):
        lat, hour, speed = (tracks[name][place] for name in ("lat", "hour", "speed"))
        mean = speed.mean() if len(speed) else 0
        rest = [np.full(len(lat), one) for one in (tracks["weight"][place], mean, 7)]
        wanted = np.stack([lat, hour * 2, *rest], axis=1)
        np.testing.assert_allclose(part.data, wanted, rtol=1e-6)  # a mean in float32
    # An RNN takes these rows.
    train = ("train", "out.lod.h5::points", "-o", "m", "--epochs", "1", "-q")
    assert lod("filter", "out.lod.h5", "length(lat) > 0", "-o", "some.lod.h5").code == 0
    assert lod(*train).code == 1  # an empty sequence
    assert lod("train", "some.lod.h5::points", *train[2:]).code == 0


def test_the_dtype_is_the_common_one(lod: Lod, tracks: dict[str, Any]) -> None:
    for text, dtype in (
        ("stack(speed, speed * 2)", "float32"),
        ("stack(speed, 0.5)", "float32"),
        ("stack(hour, 1)", "int64"),
        ("stack(hour, lat)", "float64"),
        ("stack(hour > 3, lat > 0)", "bool"),
    ):
        assert lod("apply", text, "tracks.parquet", "-o", "o.lod.h5", "-f").code == 0, text
        assert io.read("o.lod.h5").dtype == dtype, text


def test_numbers_beside_narrow_rows(lod: Lod, folder: Path) -> None:
    dtypes = {"i": np.int8, "u": np.uint8, "b": ml_dtypes.bfloat16, "l": np.int64}
    rows = {name: LoDTensor(np.array([1, 0, 1], dtype)) for name, dtype in dtypes.items()}
    io.write("a.lod.h5", rows)
    for text, wanted in (
        ("stack(i, 127)", "int8"),
        ("stack(u, 1.5)", "float64"),
        ("stack(i, 300, 1.5)", "float64"),
        ("stack(b, 1.5)", "float32"),
        ("stack(b, 2)", "bfloat16"),
        ("stack(b, l)", "float64"),
        ("coalesce(b, 2)", "bfloat16"),
    ):
        done = lod("apply", text, "a.lod.h5", "-o", "o.lod.h5", "-f")
        assert (done.code, done.stderr) == (0, ""), text
        assert io.read("o.lod.h5").dtype == wanted, text
    for text, number, dtype in (
        ("stack(i, 300)", 300, "int8"),
        ("stack(-1, u)", -1, "uint8"),
        ("coalesce(u, 256)", 256, "uint8"),
    ):
        done = lod("apply", text, "a.lod.h5", "-o", "no.lod.h5")
        said = f"column 1: {number} does not fit {dtype}; lod cast TENSOR=int64 converts the tensor"
        assert (done.code, said in done.stderr) == (2, True), done


def test_rows_of_several_values_are_joined(lod: Lod, folder: Path) -> None:
    x = LoDTensor(np.arange(12.0).reshape(6, 2), [[2, 4]])
    y = LoDTensor(np.arange(24.0).reshape(6, 2, 2), x.lod)
    io.write("a.lod.h5", {"x": x, "y": y})
    assert lod("apply", "stack(x, y, x[0])", "a.lod.h5", "-o", "o.lod.h5").code == 0
    wanted = np.concatenate([x.data, y.data.reshape(6, 4), x.data[:, :1]], axis=1)
    np.testing.assert_array_equal(io.read("o.lod.h5").data, wanted)


def test_a_row_with_a_null_is_null(lod: Lod, folder: Path) -> None:
    records = [{"a": [1, None, 5], "b": [2, 3, None]}, {"a": None, "b": None}, {"a": [7], "b": [8]}]
    write_jsonl("a.jsonl", records)
    assert lod("apply", "stack(a, b)", "a.jsonl", "-q", "-o", "o.jsonl").clean
    assert Path("o.jsonl").read_text().split() == ["[[1,2],null,null]", "null", "[[7,8]]"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stack(lat)", "stack takes several tensors, as in stack(x, y)"),
        ("stack(lat, axis=1)", "stack takes several tensors, as in stack(x, y)"),
        ("lat + stack(1, 2)", "stack takes at least one tensor"),
        ("stack(lat, label)", "label is text; an expression computes with numbers"),
        ("stack(lat, other)", "different lengths: level 0, item 0 has length 3 against 1"),
        ("stack(lists, hour)", "of the other: level 0, item 0 has length 3 against 1"),
    ],
)
def test_invalid_arguments_of_stack_are_errors(
    lod: Lod, tracks: dict[str, Any], text: str, said: str
) -> None:
    table = pq.read_table("tracks.parquet")
    other = pa.array([[1.0]] * 4)
    table = table.append_column("other", other).append_column("lists", pa.array([[[1.0]]] * 4))
    pq.write_table(table, "tracks.parquet")
    done = lod("apply", text, "tracks.parquet", "-o", "o.lod.h5")
    assert (done.code, said in done.stderr, Path("o.lod.h5").exists()) == (2, True, False), done


def test_the_error_of_times_says_how_to_make_numbers_of_them(lod: Lod, folder: Path) -> None:
    moments = [np.datetime64(one, "s") for one in ("2024-01-01T01:00", "2024-01-01T02:00")]
    dates = [one.astype("M8[D]") for one in moments]
    columns = {
        "t": LoDTensor.from_lists([moments]),
        "start": LoDTensor.from_lists(moments[:1]),
        "day": LoDTensor.from_lists(dates[:1]),
        "days": LoDTensor.from_lists([dates]),
        "clock": LoDTensor.from_lists([time(1)]),
        "word": LoDTensor([0]).as_categories(["no"]),
    }
    io.write("t.lod.h5", columns)
    for text, way, wanted in (
        ("t", "(t - first(t)) / 'PT1S'", [[[1.0, 0.0], [1.0, 3600.0]]]),
        ("t - start", "(t - start) / 'PT1S'", [[[1.0, 0.0], [1.0, 3600.0]]]),
        ("start", "(start - '1970-01-01') / 'PT1S'", [[1.0, 1704070800.0]]),
        ("day", "(day - '1970-01-01') / 'P1D'", [[1.0, 19723.0]]),
        ("days", "(days - first(days)) / 'P1D'", [[[1.0, 0.0], [1.0, 0.0]]]),
        ("days - day", "(days - day) / 'P1D'", [[[1.0, 0.0], [1.0, 0.0]]]),
        ("clock", "(clock - '00:00') / 'PT1S'", [[1.0, 3600.0]]),
    ):
        done = lod("apply", f"stack(1, {text})", "t.lod.h5", "-o", "o.lod.h5", "-f")
        assert (done.code, f"; write {way}\n" in done.stderr) == (2, True), done
        assert lod("apply", f"stack(1, {way})", "t.lod.h5", "-o", "o.lod.h5", "-f").clean
        assert io.read("o.lod.h5").to_list() == wanted, text
    done = lod("apply", "stack(1, word)", "t.lod.h5")
    assert "; lod convert --text-levels numbers makes numbers of its codes" in done.stderr


def test_columns_with_their_own_lists_come_from_a_pipe(shell: Lod, folder: Path) -> None:
    Path("a.jsonl").write_text('{"a":[1,2],"b":[3,4]}\n{"a":[5],"b":[6]}\n')
    for text, wanted in (("stack(a, b)", "[[1,3],[2,4]]\n[[5,6]]\n"), ("a + b", "[4,6]\n[11]\n")):
        done = shell(f"cat a.jsonl | lod apply '{text}' - --from jsonl -q --to jsonl")
        assert (done.code, done.stdout, done.stderr) == (0, wanted, "")
