"""jsonl: writing one sample a line, and reading it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core.schema import schema_of
from lodcli.formats.json.jsonl import JsonLines
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content
from tests.strategies import DTYPES, tensors

HELD = tuple(dtype for dtype in DTYPES if dtype.kind != "c")
VOWELS = Path(__file__).parents[3] / "samples" / "japanese_vowels.ts"


@pytest.mark.parametrize(
    ("data", "lengths", "text"),
    [
        (np.arange(4), [[2, 0, 1], [1, 2, 1]], "[[0],[1,2]]\n[]\n[[3]]\n"),
        (np.array([[1.5, -0.0]]), [[0, 1]], "[]\n[[1.5,-0.0]]\n"),
        (np.array([-1, 0, 1, -1, 2, -1], np.int8), [[6]], "[-1,0,1,-1,2,-1]\n"),
        (np.array([True, False]), [], "true\nfalse\n"),
        (np.array([0.1, 3, 1e30], np.float32), [[3]], "[0.1,3.0,1e+30]\n"),
        (np.array([2, -0.0], ml_dtypes.bfloat16), [[2]], "[2.0,-0.0]\n"),
        (np.array([2**64 - 1], np.uint64), [[1]], "[18446744073709551615]\n"),
        (np.zeros((2, 0), np.int8), [[2]], "[[],[]]\n"),
        (np.zeros(0), [[]], ""),
    ],
)
def test_a_line_is_an_outermost_item(
    tmp_path: Path, data: Any, lengths: list[list[int]], text: str
) -> None:
    io.write(tmp_path / "x.jsonl", LoDTensor(data, lengths))
    assert (tmp_path / "x.jsonl").read_text() == text


@given(tensor=tensors(dtypes=HELD, row_shapes=((), (1,), (3,), (2, 2)), any_bits=True))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bits_come_back_with_dtype_and_names(tmp_path: Path, tensor: LoDTensor) -> None:
    path = tmp_path / "x.jsonl"
    if tensor.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):
            tensor = tensor.with_data(np.where(np.isfinite(tensor.data), tensor.data, 0))
    io.write(path, tensor, overwrite=True)
    if not len(tensor):
        assert path.read_bytes() == b""
        return
    if not tensor.rows and tensor.row_shape:
        return  # without a row, its shape is unknown
    names = tuple(name or f"level{level}" for level, name in enumerate(tensor.lod.names))
    found = content(path, dtype=tensor.dtype, levels=names)["data"]
    assert found.lod.names == names
    assert found.with_data(found.data).identical(
        LoDTensor(np.array(tensor.data), tensor.lod.with_names(names))
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_short_float_comes_back(tmp_path: Path, dtype: str) -> None:
    wanted = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    with np.errstate(invalid="ignore"):
        values = np.arange(2**16, dtype=np.uint16).view(wanted)
        values = values[np.isfinite(values)]
    io.write(tmp_path / "x.jsonl", LoDTensor(values))
    found = content(tmp_path / "x.jsonl", dtype=wanted)["data"]
    assert found.data.tobytes() == values.tobytes()


@given(lists=st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_reader_reads_the_same_numbers(tmp_path: Path, lists: list[list[float]]) -> None:
    data = np.array([value for part in lists for value in part], np.float64)
    io.write(
        tmp_path / "x.jsonl",
        LoDTensor(data, LoD.from_lengths([[len(part) for part in lists]])),
        overwrite=True,
    )
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == lists


def test_rows_of_a_shape_come_back_by_the_names_of_levels(tmp_path: Path) -> None:
    vowels = content(VOWELS)["data"]
    io.write(tmp_path / "x.jsonl", vowels)
    assert content(tmp_path / "x.jsonl", levels=("series",))["data"].identical(vowels)
    assert content(tmp_path / "x.jsonl")["data"].lod.n_levels == 2


def test_several_tensors_become_objects_and_come_back(tmp_path: Path) -> None:
    given_tensors = {
        "x": LoDTensor(np.arange(3), [[2, 1]]),
        "y-z": LoDTensor(np.array([True, False])),
    }
    io.write(tmp_path / "x.jsonl", given_tensors)
    assert (tmp_path / "x.jsonl").read_text() == ('{"x":[0,1],"y-z":true}\n{"x":[2],"y-z":false}\n')
    found = content(tmp_path / "x.jsonl")
    assert all(found[name].identical(tensor) for name, tensor in given_tensors.items())


def test_tensors_may_come_in_batches_of_their_own_sizes(tmp_path: Path) -> None:
    x, y = LoDTensor(np.arange(4), [[1, 1, 2]]), LoDTensor(np.arange(3.0))
    parts = [{"x": x[0:1]}, {"y": y[0:3]}, {"x": x[1:3], "y": y[3:3]}]
    io.write_batches(tmp_path / "x.jsonl", schema_of({"x": x, "y": y}), parts)
    assert (tmp_path / "x.jsonl").read_text() == (
        '{"x":[0],"y":0.0}\n{"x":[1],"y":1.0}\n{"x":[2,3],"y":2.0}\n'
    )


def test_unequal_numbers_of_items_are_refused_before_and_after(tmp_path: Path) -> None:
    x, y = LoDTensor(np.arange(4), [[1, 1, 2]]), LoDTensor(np.arange(2))
    with pytest.raises(UnsupportedError, match="one per line; x has 3, y has 2"):
        JsonLines().refuse_unheld(schema_of({"x": x, "y": y}))
    schema = schema_of({"x": x, "y": LoDTensor(np.arange(3))})
    with pytest.raises(UnsupportedError, match="x has 3, y has 2"):
        io.write_batches(tmp_path / "x.jsonl", schema, [{"x": x}, {"y": y}])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_json_lacks_are_errors(tmp_path: Path, value: float, dtype: Any) -> None:
    data = np.zeros((5, 2), dtype)
    data[4, 1] = value
    whole = LoDTensor(data, [[3, 2]])
    parts = ({"data": whole[item : item + 1]} for item in range(2))
    with pytest.raises(UnsupportedError, match=f"data: row 4: JSON has no {value}; replace it"):
        io.write_batches(tmp_path / "x.jsonl", schema_of({"data": whole}), parts)
    assert not list(tmp_path.iterdir())


def test_complex_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="jsonl holds no complex64"):
        io.write(tmp_path / "x.jsonl", LoDTensor(np.zeros(1, np.complex64)))


def test_names_of_fields_may_hold_any_character(tmp_path: Path) -> None:
    names = ["100%", "%s", 'a"b', "%%(x)d"]
    path = tmp_path / "x.jsonl"
    io.write(path, {name: LoDTensor(np.arange(2) + n) for n, name in enumerate(names)})
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert found == [{name: n + k for n, name in enumerate(names)} for k in range(2)]
