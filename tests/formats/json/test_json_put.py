"""jsonl: the compiled writer against repr, NumPy's texts and the exact writer."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from lodcli.formats.core import io
from lodcli.formats.core.schema import schema_of
from lodcli.formats.json import compiled_writer as json_fast_lines
from lodcli.formats.json import jsonl
from lodcli.formats.json.put_native import LineWriter
from lodcli.formats.text import records_native
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from lodcli.kernels.tensor.nulls import Nulls
from tests.growth import calls_of
from tests.sampling import many
from tests.strategies import DTYPES, tensors

HELD = tuple(dtype for dtype in DTYPES if dtype.kind != "c")


def bits(count: int, width: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2 ** (8 * width), count, dtype=f"u{width}")


def floats(dtype: Any) -> Iterator[Any]:
    """Yield floats of any bits, all powers of two and ten, their neighbours, and plain ones."""
    rng = np.random.default_rng(5)
    yield bits(200_000, np.dtype(dtype).itemsize, 4).view(dtype)
    powers = np.concatenate(
        [2.0 ** np.arange(-1074, 1024), [float(f"1e{n}") for n in range(-323, 309)]]
    )
    with np.errstate(all="ignore"):
        powers = powers.astype(dtype)
        yield powers
        for power in (np.inf, -np.inf):
            yield np.nextafter(powers, np.array(power, dtype))
    yield np.round(rng.standard_normal(50_000), 6).astype(dtype)
    yield (10 ** rng.uniform(-6, 20, 50_000)).astype(dtype)
    yield np.round(10 ** rng.uniform(0, 18, 50_000)).astype(dtype)
    yield np.array([0.0, -0.0, 5e-324, 2**53 + 2, 9007199254740991, 1e22, 1e23], dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floats_are_written_as_python_and_numpy_write_them(dtype: Any) -> None:
    for values in floats(dtype):
        values = values[np.isfinite(values)]
        got = bytes(LineWriter(values.copy(), [], []).lines(0, values.size)).decode().split("\n")
        wanted = map(repr, values.tolist()) if dtype == np.float64 else map(str, values)
        assert got == [*wanted, ""]


@pytest.mark.parametrize("kind", "iu")
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_whole_numbers_are_written_as_python_writes_them(kind: str, width: int) -> None:
    limits = np.iinfo(f"{kind}{width}")
    edges = {10**n + d for n in range(20) for d in (-1, 0)} | {limits.min, limits.max}
    edges |= {-edge for edge in edges}
    known = np.array([n for n in edges if limits.min <= n <= limits.max], f"{kind}{width}")
    shifted = bits(20_000, width, 6) >> (bits(20_000, width, 7) % (8 * width)).astype(f"u{width}")
    values = np.concatenate([known, shifted.view(f"{kind}{width}")])
    got = bytes(LineWriter(values, [], []).lines(0, values.size)).decode()
    assert got == "".join(f"{value}\n" for value in values.tolist())


def both(folder: Path, content: Any, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return what both writers make of it."""
    found = []
    for least in (0, 1 << 62):
        monkeypatch.setattr(records_native, "REPAID_VALUES", least)
        io.write(folder / "x.jsonl", content, overwrite=True)
        found.append((folder / "x.jsonl").read_bytes())
    return found


@given(tensor=tensors(dtypes=HELD, row_shapes=((), (1,), (3,), (2, 0), (2, 2)), any_bits=True))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=many(150, share=4),
    deadline=None,
)
def test_both_writers_write_the_same(tmp_path: Path, tensor: LoDTensor) -> None:
    if tensor.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):
            tensor = tensor.with_data(np.where(np.isfinite(tensor.data), tensor.data, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_fast_lines, "PIECE_SIZE", 3)
        fast, exact = both(tmp_path, tensor, patch)
        assert fast == exact
        fast, exact = both(tmp_path, {"a": tensor, "ö": tensor}, patch)
        assert fast == exact


def test_a_hundred_thousand_lines_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(8)
    outer = rng.integers(0, 3, 100_000)
    inner = rng.integers(0, 4, int(outer.sum()))
    data = rng.standard_normal((int(inner.sum()), 1))
    data.flags.writeable = False
    fast, exact = both(tmp_path, LoDTensor(data, LoD.from_lengths([outer, inner])), monkeypatch)
    assert fast == exact
    assert fast.count(b"\n") == 100_000


def test_the_compiled_writer_begins_when_there_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_native, "REPAID_VALUES", 5)
    part = LoDTensor(np.arange(3))
    lines = json_fast_lines.FastLines(schema_of({"x": part}))
    assert [lines.repays([part]) for _ in range(3)] == [False, True, True]
    lines = json_fast_lines.FastLines(schema_of({"x": LoDTensor(np.arange(5))}))
    assert lines.repays([part])
    halves = (np.zeros(9, dtype) for dtype in (np.float16, ml_dtypes.bfloat16))
    nulls = LoDTensor(np.zeros(9), nulls=Nulls.of([np.arange(9) > 3]))
    times = LoDTensor(np.zeros(9, np.int64), marks=Marks(unit=Times("date", "D")))
    held = {"x": part, "t": LoDTensor.from_lists(["a"]), "y": LoDTensor(np.zeros(9, np.float32))}
    others = {"n": nulls, "s": times, **{one.dtype.name: LoDTensor(one) for one in halves}}
    found = {spec.name for spec in schema_of(held | others) if lines.holds(spec)}
    assert found == set(held)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_many_short_floats_are_written_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    monkeypatch.setattr(records_native, "REPAID_VALUES", 0)
    values = (np.arange(1 << 20) % 1000).astype(dtype)
    tensor = LoDTensor(values, LoD.from_lengths([[1 << 10] * (1 << 10)]))
    io.write(tmp_path / "few.jsonl", LoDTensor(values[:1]))  # compiles, and imports
    tracemalloc.start()
    io.write(tmp_path / "x.jsonl", tensor)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * values.size  # a Python object for each would take 50 bytes


def test_many_tensors_are_written_in_few_parts_and_without_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = calls_of(monkeypatch, records_native.RecordWriter, "whole")
    monkeypatch.setattr(json_fast_lines, "thread_pool", None)
    monkeypatch.setattr(jsonl, "WRITTEN_BYTES", 1 << 10)
    part = LoDTensor(np.arange(300), LoD.from_lengths([[1] * 300]))
    fast, exact = both(tmp_path, {f"x{n}": part for n in range(200)}, monkeypatch)
    assert fast == exact
    assert sum(count for _, _, count in written) == 200 * 300
    assert len(written) <= 2 * 200


@pytest.mark.parametrize("nulls", [False, True])
def test_both_writers_write_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nulls: bool
) -> None:
    event = {"n": 1, "t": 'a"b\n', "w": [0.5, -1.0], "in": [{"x": True}, {"x": False}]}
    row: dict[str, Any] = {"id": 3, "ev": [event, {**event, "in": []}], "o": {"y": 1.5, "z": "é"}}
    rows = [row, {**row, "ev": []}, {**row, "id": 4}] * 20
    if nulls:
        rows += [{**row, "o": {"y": None, "z": "a"}, "ev": [{**event, "t": None}]}]
    wanted = "".join(
        json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in rows
    )
    (tmp_path / "r.jsonl").write_text(wanted, encoding="utf-8")
    content = io.read_all(tmp_path / "r.jsonl", nulls="keep")
    fast, exact = both(tmp_path, content, monkeypatch)
    assert fast == exact == wanted.encode()


@pytest.mark.parametrize("name", ["jsonl", "bare"])
def test_both_writers_write_the_same_nulls_and_units_in_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rows: list[Any] = [[[1.5, None], None, []], None, [], [[-2.0]], [[None]]] * 30
    texts: list[Any] = [["a", None, '"b"'], None, [], ["", "é\n"]] * 30
    seconds = Marks(unit=Times("timestamp", "s"))
    times = LoDTensor(np.arange(60), LoD.from_lengths([[3, 0, 1, 2] * 10]), marks=seconds)
    far = LoDTensor(np.full(4, -(2**60)), LoD.from_lengths([[3, 1]]), marks=seconds)
    cents = LoDTensor(np.arange(9), LoD.from_lengths([[4, 5]]), marks=Marks(unit=Decimals(5, 2)))
    halves = LoDTensor(np.arange(9, dtype=np.float16), LoD.from_lengths([[4, 5]]))
    tensors = [LoDTensor.from_lists(one) for one in (rows, texts)] + [times, far, cents, halves]
    for tensor, wanted in zip(tensors, [rows, texts, None, None, None, None], strict=True):
        content = (
            tensor if name == "bare" else {"x": tensor, "n": LoDTensor(np.arange(len(tensor)))}
        )
        fast, exact = both(tmp_path, content, monkeypatch)
        assert fast == exact
        if wanted is not None:
            found = [json.loads(line) for line in fast.splitlines()]
            assert [one if name == "bare" else one["x"] for one in found] == wanted
